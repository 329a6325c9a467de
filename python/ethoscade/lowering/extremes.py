"""REDUCE_MAX and REDUCE_MIN over any axes: maximum pools of rows and columns, and larger or lesser halves of channels.

The NPU has no minimum pool: what each value leaves of all bits is pooled, and the least is what the largest leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import Graph, Operator, ReductionAttrs, Window
from . import constraints, limits, pooling, reductions, resize, views
from .family import Family
from .npu import Channels, FeatureMap, NpuGraphBuilder, NpuOperation, OperationKind, Scalar, Scale, Upscale
from .te import Compute


@dataclass(frozen=True)
class _Pool:
    """A maximum over a window of a tensor seen as `shape`."""

    shape: views.Shape3
    window: Window

    @property
    def made(self) -> views.Shape3:
        return (*views.output_size(self.window, *self.shape[:2]), self.shape[2])


def _pools(plane: reductions.Plane) -> list[_Pool] | None:
    """The pools that reduce rows and columns: none, one, or one of columns and one of rows; None where no pool can."""
    (height, width, depth), (high, wide, _) = plane.shape, plane.over
    rows, columns = height if high else 1, width if wide else 1
    if max(plane.shape) > limits.MAX_DIMENSION:
        return None
    if rows == columns == 1:
        return []
    if rows <= limits.MAX_POOL_ROWS and rows * columns <= limits.MAX_POOL_ELEMENTS:
        return [_Pool(plane.shape, Window(rows, columns))]
    if not high or (not wide and width > 1):
        return None
    front = [] if columns == 1 else [_Pool(plane.shape, Window(1, columns))]
    return [*front, _Pool((1, height, depth), Window(1, height))]


def _chosen(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[reductions.Plane, list[_Pool]] | None:
    for plane in reductions.planes(shape, axes):
        found = _pools(plane)
        if found is not None:
            return plane, found
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Pools and halves, in turn, or a copy where nothing is reduced. Precondition: its family takes it."""
    op = graph.operators[op_index]
    chosen = _chosen(graph.read(op).shape, op.attributes(ReductionAttrs).axes)
    assert chosen is not None, "the family takes only what there is a plane for"
    plane, pools = chosen
    make = _Extremes(op, op_index, builder)
    ifm = builder.view(op.input(0), plane.shape, zero_point=0)
    ofm = builder.view(op.outputs[0], plane.made, zero_point=0)
    least = op.kind == "REDUCE_MIN"
    halves = plane.over[2] and plane.shape[2] > 1
    if pools and least:
        ifm = make.left_of_bits(ifm, None)
    for number, one in enumerate(pools):
        last = number == len(pools) - 1 and not halves and not least
        ifm = make.pool(FeatureMap(ifm.tensor, one.shape), one, ofm if last else None)
    if pools and least:
        ifm = make.left_of_bits(ifm, None if halves else ofm)
    if halves:
        kind = OperationKind.MINIMUM if least else OperationKind.MAXIMUM
        by_halves(op, op_index, builder, kind, FeatureMap(ifm.tensor, (*plane.made[:2], plane.shape[2])), ofm)
    elif not pools:
        resize.copied(op, op_index, builder, ifm, Upscale.NONE, ofm)


def by_halves(
    op: Operator,
    op_index: int,
    builder: NpuGraphBuilder,
    kind: OperationKind,
    ifm: FeatureMap,
    ofm: FeatureMap | None = None,
) -> FeatureMap:
    """The larger or lesser of each pixel's channels, in `ofm` or a temporary. Of an odd count the halves overlap."""
    height, width, depth = ifm.shape
    while depth > 1:
        half = (depth + 1) // 2
        first, second = (
            FeatureMap(ifm.tensor, (height, width, half), 0, Channels(start, depth)) for start in (0, depth - half)
        )
        ifm = builder.temporary(op_index, (height, width, half), ifm.dtype) if half > 1 or ofm is None else ofm
        depth = half
        reads = tuple(reductions.some_read(operand, view) for operand, view in enumerate((first, second)))
        builder.add(
            NpuOperation(
                name=op.name,
                operator=op_index,
                kind=kind,
                ifm=first,
                ifm2=second,
                ofm=ifm,
                window=views.POINT,
                compute=Compute(op.name, views.axes(ifm.shape), (), reads),
                clamp=ifm.dtype.limits,
            )
        )
    return ifm


class _Extremes:
    """Makes the operations of one operator."""

    def __init__(self, op: Operator, op_index: int, builder: NpuGraphBuilder) -> None:
        self._op, self._index, self._builder = op, op_index, builder

    def pool(self, ifm: FeatureMap, one: _Pool, ofm: FeatureMap | None) -> FeatureMap:
        """The largest of each window."""
        made = one.made
        ofm = self._builder.temporary(self._index, made, ifm.dtype) if ofm is None else FeatureMap(ofm.tensor, made)
        compute = pooling.compute(self._op.name, one.window, ifm.shape, made)
        self._add(OperationKind.MAX_POOL, ifm, ofm, compute, one.window)
        return ofm

    def left_of_bits(self, ifm: FeatureMap, ofm: FeatureMap | None) -> FeatureMap:
        """All bits less each value: the larger the one, the lesser the other."""
        ofm = self._builder.temporary(self._index, ifm.shape, ifm.dtype) if ofm is None else ofm
        ifm = FeatureMap(ifm.tensor, ofm.shape)
        compute = Compute(self._op.name, views.axes(ofm.shape), (), (reductions.some_read(0, ifm),))
        self._add(OperationKind.SUB, ifm, ofm, compute, views.POINT, Scalar(sum(ifm.dtype.limits), ifm.dtype))
        return ofm

    def _add(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        ofm: FeatureMap,
        compute: Compute,
        window: Window,
        scalar: Scalar | None = None,
    ) -> None:
        self._builder.add(
            NpuOperation(
                name=self._op.name,
                operator=self._index,
                kind=kind,
                ifm=ifm,
                ifm2=scalar,
                ofm=ofm,
                window=window,
                compute=compute,
                clamp=ofm.dtype.limits,
                scaling=None if scalar is None else Scale(1, 0),
                swap_operands=scalar is not None,
            )
        )


def _refusal(case: constraints.Case) -> str | None:
    axes, shape = case.op.attributes(ReductionAttrs).axes, case.ifm.shape
    if not axes:
        return "it reduces over no axis"
    if _chosen(shape, axes) is not None:
        return None
    if not reductions.planes(shape, axes):
        return f"it reduces axes {axes} of {shape}: more than three runs of reduced and kept ones take turns"
    return (
        f"it reduces axes {axes} of {shape}; windows of at most {limits.MAX_POOL_ROWS} rows and "
        f"{limits.MAX_POOL_ELEMENTS} elements are possible, and dimensions of at most {limits.MAX_DIMENSION}"
    )


def _seen(case: constraints.Case) -> constraints.Views:
    found = _chosen(case.ifm.shape, case.op.attributes(ReductionAttrs).axes)
    return [] if found is None else [(case.ifm, found[0].shape), (case.ofm, found[0].made)]


_TAKES: tuple[constraints.Constraint, ...] = (
    constraints.FeatureMaps(),
    constraints.OneType(),
    constraints.OneQuantisation("stored values are compared as they are"),
    constraints.Rule(
        f"over any axes, of which at most three runs, reduced and kept, take turns: windows of at most "
        f"{limits.MAX_POOL_ROWS} rows and {limits.MAX_POOL_ELEMENTS} elements, or whole rows and then all of these",
        _refusal,
    ),
    constraints.Sizes(_seen),
)

EXTREME_FAMILIES: Mapping[str, Family] = {
    "REDUCE_MAX": Family("maximum pools of rows and columns, and the larger halves of channels", _TAKES, lower),
    "REDUCE_MIN": Family(
        "maximum pools of what values leave of all bits, and the lesser halves of channels", _TAKES, lower
    ),
}
