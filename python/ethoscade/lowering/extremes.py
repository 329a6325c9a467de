"""REDUCE_MAX and REDUCE_MIN over any axes: maximum pools of rows and columns, and larger or lesser halves of channels.

Runs of axes that others lie between are reduced one after the other.

The NPU has no minimum pool: what each value leaves of all bits is pooled, and the least is what the largest leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Graph, ReductionAttrs, Window
from ..util.records import dataclass
from . import constraints, limits, reductions, views
from .family import Family
from .feature_maps import Channels, FeatureMap
from .maker import AS_IS, Maker
from .npu import NpuGraphBuilder, OperationKind


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


@dataclass(frozen=True)
class _Together:
    """Some axes that are reduced together: the plane, and the pools of its rows and columns."""

    plane: reductions.Plane
    pools: list[_Pool]


def _steps(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[_Together] | None:
    """All axes together, or one run after the other; None where that cannot be."""
    for plane in reductions.planes(shape, axes):
        found = _pools(plane)
        if found is not None:
            return [_Together(plane, found)]
    for run, left, others in reductions.one_by_one(shape, axes):
        first, rest = _steps(shape, run.axes) if others else None, _steps(left, others)
        if first is not None and rest is not None:
            return [*first, *rest]
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Pools and halves, in turn, or a copy where nothing is reduced. Precondition: its family takes it."""
    op = graph.operators[op_index]
    steps = _steps(graph.read(op).shape, op.attributes(ReductionAttrs).axes)
    assert steps is not None, "the family takes only what there are steps for"
    make = Maker(op.name, op_index, builder)
    ifm = builder.view(op.input(0), steps[0].plane.shape, zero_point=0)
    target = builder.view(op.outputs[0], steps[-1].plane.made, zero_point=0)
    for number, step in enumerate(steps):
        ofm = target if number == len(steps) - 1 else make.temporary(step.plane.made, ifm.dtype)
        _reduce(make, FeatureMap(ifm.tensor, step.plane.shape), step, ofm, least=op.kind == "REDUCE_MIN")
        ifm = ofm


def _reduce(make: Maker, ifm: FeatureMap, step: _Together, ofm: FeatureMap, *, least: bool) -> None:
    """The extremes of a plane."""
    plane, pools = step.plane, step.pools
    halves = plane.over[2] and plane.shape[2] > 1
    if pools and least:
        ifm = _left_of_bits(make, ifm, None)
    for number, one in enumerate(pools):
        last = number == len(pools) - 1 and not halves and not least
        made = FeatureMap(ofm.tensor, one.made) if last else make.temporary(one.made, ifm.dtype)
        ifm = make.pool(OperationKind.MAX_POOL, FeatureMap(ifm.tensor, one.shape), made, one.window)
    if pools and least:
        ifm = _left_of_bits(make, ifm, None if halves else ofm)
    if halves:
        kind = OperationKind.MINIMUM if least else OperationKind.MAXIMUM
        by_halves(make, kind, FeatureMap(ifm.tensor, (*plane.made[:2], plane.shape[2])), ofm)
    elif not pools:
        make.copy(ifm, ofm)


def by_halves(make: Maker, kind: OperationKind, ifm: FeatureMap, ofm: FeatureMap | None = None) -> FeatureMap:
    """The larger or lesser of each pixel's channels, in `ofm` or a temporary. Of an odd count the halves overlap."""
    height, width, depth = ifm.shape
    while depth > 1:
        half = (depth + 1) // 2
        first, second = (
            FeatureMap(ifm.tensor, (height, width, half), 0, Channels(start, depth)) for start in (0, depth - half)
        )
        made = make.temporary((height, width, half), ifm.dtype) if half > 1 or ofm is None else ofm
        ifm, depth = make.point(kind, first, second, made), half
    return ifm


def _left_of_bits(make: Maker, ifm: FeatureMap, ofm: FeatureMap | None) -> FeatureMap:
    """All bits less each value: the larger the one, the lesser the other."""
    made = make.temporary(ifm.shape, ifm.dtype) if ofm is None else ofm
    ifm = FeatureMap(ifm.tensor, made.shape)
    return make.point(OperationKind.SUB, ifm, sum(ifm.dtype.limits), made, AS_IS, swap_operands=True)


def _refusal(case: constraints.Case) -> str | None:
    axes, shape = case.op.attributes(ReductionAttrs).axes, case.ifm.shape
    if not axes:
        return "it reduces over no axis"
    if _steps(shape, axes) is not None:
        return None
    return (
        f"it reduces axes {axes} of {shape}; windows of at most {limits.MAX_POOL_ROWS} rows and "
        f"{limits.MAX_POOL_ELEMENTS} elements are possible, and dimensions of at most {limits.MAX_DIMENSION}"
    )


def _seen(case: constraints.Case) -> constraints.Views:
    steps = _steps(case.ifm.shape, case.op.attributes(ReductionAttrs).axes)
    return [] if steps is None else [(case.ifm, steps[0].plane.shape), (case.ofm, steps[-1].plane.made)]


_TAKES: tuple[constraints.Constraint, ...] = (
    constraints.feature_maps(),
    constraints.OneType(),
    constraints.OneQuantisation("stored values are compared as they are"),
    constraints.Rule(
        f"over any axes, one run after the other where more than three runs, reduced and kept, take turns: windows of "
        f"at most {limits.MAX_POOL_ROWS} rows and {limits.MAX_POOL_ELEMENTS} elements, or whole rows and then all of "
        f"these",
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
