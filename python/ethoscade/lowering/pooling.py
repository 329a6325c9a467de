"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import DType, Graph, Operator, PoolAttrs, Window
from ..quantised import activation_range
from . import constraints, limits, views
from .family import Family
from .npu import FeatureMap, NpuGraphBuilder, NpuOperation, OperationKind, Rounding, Upscale
from .te import Compute, index

_KINDS = {"AVERAGE_POOL_2D": OperationKind.AVERAGE_POOL, "MAX_POOL_2D": OperationKind.MAX_POOL}

MOST_AVERAGED_OF_INT16 = (1 << 15) - 1

_EXACT = f"of int16 the kernel has at most {MOST_AVERAGED_OF_INT16} elements"


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool, or several whose strides multiply. Precondition: its family takes it.

    The stored values themselves are averaged, without their (equal) zero points: TFLite rounds a tie away from the
    stored zero, and with the zero point taken off the tie would fall to the other side. The NPU's reciprocal is a hair
    above the true one, so that ties fall away from zero with one rounding too; with two, means of int16 between a tie
    and the next step of the first one would join it.
    """
    op = graph.operators[op_index]
    attrs, target = op.attributes(PoolAttrs), graph.made(op)
    height, width, depth = views.image_shape(graph.read(op).shape)
    ifm = builder.view(op.input(0), (height, width, depth), zero_point=0)
    *front, last = _stages(views.simplest(attrs.window, height, width))
    for window in front:
        wanted = (*views.output_size(window, *ifm.shape[:2]), depth)
        between = builder.temporary(op_index, wanted, target.dtype)
        pool(op, op_index, builder, ifm, window, between, target.dtype.limits)
        ifm = between
    made = (*views.output_size(attrs.window, height, width), depth)
    clamp = activation_range(target.quantisation, target.dtype, attrs.activation)
    pool(op, op_index, builder, ifm, last, builder.view(op.outputs[0], made, zero_point=0), clamp)


def pool(
    op: Operator,
    op_index: int,
    builder: NpuGraphBuilder,
    ifm: FeatureMap,
    window: Window,
    ofm: FeatureMap,
    clamp: tuple[int, int],
) -> None:
    """One pool of the operator's kind."""
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=_KINDS[op.kind],
            ifm=ifm,
            ofm=ofm,
            window=window,
            compute=compute(op.name, window, ifm.shape, ofm.shape),
            clamp=clamp,
            rounding=Rounding.NATURAL if ofm.dtype is DType.INT16 else Rounding.TFL,
        )
    )


def _stages(window: Window) -> list[Window]:
    """Windows of strides up to 3 that cover, one after the other, what `window` covers; unpadded if several."""
    rows, columns = _along(window.kernel_h, window.stride_h), _along(window.kernel_w, window.stride_w)
    if len(rows) == len(columns) == 1:
        return [window]
    count = max(len(rows), len(columns))
    rows, columns = ([*steps, *[(1, 1)] * (count - len(steps))] for steps in (rows, columns))
    return [Window(high, wide, down, right) for (high, down), (wide, right) in zip(rows, columns, strict=True)]


def _along(taps: int, stride: int) -> list[tuple[int, int]]:
    """Kernel and stride of each stage along one axis.

    Windows of a stage adjoin or overlap, so that the next one's cover what lies between too.
    """
    if stride <= limits.MAX_STRIDE:
        return [(taps, stride)]
    step = next(n for n in (3, 2) if stride % n == 0)
    first = step + (taps - step) % step if taps > step else taps
    return [(first, step), *_along((taps - first) // step + 1, stride // step)]


def compute(
    name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3, upscale: Upscale = Upscale.NONE
) -> Compute:
    """out[n, h, w, c] = mean or maximum over kh, kw of in[n, s*h + kh - top, s*w + kw - left, c]."""
    access = views.window_access(window, ifm_shape, index(c=1), upscale.factor)
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))


@dataclass(frozen=True)
class PaddedAverage(constraints.Constraint):
    """The window of an average with padding is at most `most` high and wide."""

    most: int = limits.MAX_PADDED_AVERAGE

    def __str__(self) -> str:
        return f"with padding, the kernel is at most {self.most}x{self.most}"

    def _against(self, case: constraints.Case) -> str | None:
        window = constraints.window_of(case)
        if not any(views.pads(window)) or max(window.kernel_h, window.kernel_w) <= self.most:
            return None
        return f"kernel is {window.kernel_h}x{window.kernel_w}; a padded average takes at most {self.most}x{self.most}"


@dataclass(frozen=True)
class PoolStrides(constraints.Constraint):
    """Strides beyond `most` are products of smaller ones, of maximum pools without padding."""

    most: int = limits.MAX_STRIDE

    def __str__(self) -> str:
        return (
            f"strides, where there is more than one position, are at most {self.most}, or products of 2 and 3 of a "
            f"maximum pool without padding"
        )

    def _against(self, case: constraints.Case) -> str | None:
        window = constraints.window_of(case)
        strides = (window.stride_h, window.stride_w)
        if max(strides) <= self.most:
            return None
        found, pads = f"stride is {strides[0]}x{strides[1]}", views.pads(window)
        if case.op.kind != "MAX_POOL_2D":
            return f"{found}; at most {self.most} is possible for an average"
        if any(pads):
            return f"{found} with padding {pads}; at most {self.most} is possible with padding"
        if not all(map(_is_product, strides)):
            return f"{found}; products of 2 and 3 are possible"
        return None


def _is_product(stride: int) -> bool:
    for factor in (2, 3):
        while stride % factor == 0:
            stride //= factor
    return stride == 1


def _short_reciprocal(case: constraints.Case) -> str | None:
    """The reciprocal of a count exceeds the true one by up to 2^-31 of it: of int16, by less than reaches a tie."""
    window = constraints.window_of(case)
    count = window.kernel_h * window.kernel_w
    if case.ifm.dtype is DType.INT16 and count > MOST_AVERAGED_OF_INT16:
        return f"kernel has {count} elements; of int16 averages of at most {MOST_AVERAGED_OF_INT16} are exact"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    _, height, width, depth = case.ifm.shape
    made = views.output_size(case.op.attributes(PoolAttrs).window, height, width)
    return [(case.ifm, (height, width, depth)), (case.ofm, (*made, depth))]


_TAKES: tuple[constraints.Constraint, ...] = (
    constraints.feature_maps(),
    constraints.OneType(),
    constraints.Image(),
    constraints.OneQuantisation("a pool does not rescale"),
    constraints.Sizes(_seen),
    PoolStrides(),
    constraints.WindowSize(limits.MAX_POOL_ROWS, limits.MAX_POOL_ELEMENTS),
    constraints.Padding(),
)

POOL_FAMILIES: Mapping[str, Family] = {
    "AVERAGE_POOL_2D": Family(
        "the NPU's average pool", (*_TAKES, PaddedAverage(), constraints.Rule(_EXACT, _short_reciprocal)), lower
    ),
    "MAX_POOL_2D": Family("the NPU's maximum pool", _TAKES, lower),
}
