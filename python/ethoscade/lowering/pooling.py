"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import DType, Graph, Operator, PoolAttrs, Window
from ..ir.quantised import activation_range
from ..util.records import dataclass
from . import batches, constraints, expressions, limits, strides, views
from .family import Family
from .feature_maps import FeatureMap
from .npu import (
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Rounding,
)

_KINDS = {"AVERAGE_POOL_2D": OperationKind.AVERAGE_POOL, "MAX_POOL_2D": OperationKind.MAX_POOL}

MOST_AVERAGED_OF_INT16 = (1 << 15) - 1

_EXACT = f"of int16 the kernel has at most {MOST_AVERAGED_OF_INT16} elements"


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool, or several whose strides multiply. Precondition: its family takes it.

    The stored values themselves are averaged or compared, whatever scales and zero points are, as in kernels: TFLite
    rounds a tie away from the stored zero, and with the zero point taken off the tie would fall to the other side. The
    NPU's reciprocal is a hair above the true one, so that ties fall away from zero with one rounding too; with two,
    means of int16 next to a tie would join it from 505 elements on.
    """
    op = graph.operators[op_index]
    attrs, target = op.attributes(PoolAttrs), graph.made(op)
    batch, (height, width, depth), stated = batches.image(graph.read(op).shape, attrs.window)
    ifm = builder.view(op.input(0), batches.all_rows(batch, (height, width, depth)), zero_point=0)
    window = views.simplest(stated, height, width)
    front: list[Window] = []
    if op.kind == "MAX_POOL_2D" and batch == 1 and not any(views.pads(window)):
        *front, window = _stages(window)
    for stage in front:
        between = builder.temporary(op_index, (*views.output_size(stage, *ifm.shape[:2]), depth), target.dtype)
        builder.add(_pool(op, op_index, ifm, stage, between, target.dtype.limits))
        ifm = between
    size = views.output_size(stated, height, width)
    ofm = builder.view(op.outputs[0], batches.all_rows(batch, (*size, depth)), zero_point=0)
    clamp = activation_range(target.quantisation, target.dtype, attrs.activation)
    source = ifm

    def make(window: Window, ofm: FeatureMap) -> NpuOperation:
        return _pool(op, op_index, source, window, ofm, clamp, batch)

    batches.add(builder, op_index, window, batch, ofm, make)


def _pool(
    op: Operator,
    op_index: int,
    ifm: FeatureMap,
    window: Window,
    ofm: FeatureMap,
    clamp: tuple[int, int],
    batch: int = 1,
) -> NpuOperation:
    """A pool of one image of `batch`."""
    height, width, depth = ifm.shape
    return NpuOperation(
        name=op.name,
        operator=op_index,
        kind=_KINDS[op.kind],
        ifm=ifm,
        ofm=ofm,
        window=window,
        compute=expressions.windows(op.name, window, (height // batch, width, depth), ofm.shape),
        clamp=clamp,
        rounding=Rounding.NATURAL if ofm.dtype is DType.INT16 else Rounding.TFL,
    )


def _stages(window: Window) -> list[Window]:
    """Windows that cover, one after the other, what `window`, without padding, covers.

    All but the last have strides that the NPU has.
    """
    rows, columns = _along(window.kernel_h, window.stride_h), _along(window.kernel_w, window.stride_w)
    count = max(len(rows), len(columns))
    rows, columns = (_in_stages(steps, count) for steps in (rows, columns))
    return [Window(high, wide, down, right) for (high, down), (wide, right) in zip(rows, columns, strict=True)]


def _in_stages(steps: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Taps and strides of all stages, in some of which nothing happens: a stride that is too far comes last."""
    idle = [(1, 1)] * (count - len(steps))
    return [*idle, *steps] if steps[-1][1] > limits.MAX_STRIDE else [*steps, *idle]


def _along(taps: int, stride: int) -> list[tuple[int, int]]:
    """Kernel and stride of each stage along one axis.

    Windows of a stage adjoin or overlap, so that the next one's cover what lies between too.
    """
    found = []
    *front, last = strides.factors(stride)
    for step in (step for step in front if step > 1):
        first = step + (taps - step) % step if taps > step else taps
        found.append((first, step))
        taps = (taps - first) // step + 1
    return [*found, (taps, last)]


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


def _short_reciprocal(case: constraints.Case) -> str | None:
    """The reciprocal of a count exceeds the true one by up to 2^-31 of it: of int16, by less than reaches a tie."""
    window = constraints.window_of(case)
    count = window.kernel_h * window.kernel_w
    if case.ifm.dtype is DType.INT16 and count > MOST_AVERAGED_OF_INT16:
        return f"kernel has {count} elements; of int16 averages of at most {MOST_AVERAGED_OF_INT16} are exact"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    batch, height, width, depth = case.ifm.shape
    made = views.output_size(case.op.attributes(PoolAttrs).window, height, width)
    return [
        (case.ifm, batches.all_rows(batch, (height, width, depth))),
        (case.ofm, batches.all_rows(batch, (*made, depth))),
    ]


_TAKES: tuple[constraints.Constraint, ...] = (
    constraints.feature_maps(),
    constraints.OneType(),
    constraints.Image(batches.MOST),
    constraints.Sizes(_seen),
    constraints.WindowSize(limits.MAX_POOL_ROWS, limits.MAX_POOL_ELEMENTS),
    constraints.Padding(),
)

POOL_FAMILIES: Mapping[str, Family] = {
    "AVERAGE_POOL_2D": Family(
        "the NPU's average pool", (*_TAKES, PaddedAverage(), constraints.Rule(_EXACT, _short_reciprocal)), lower
    ),
    "MAX_POOL_2D": Family("the NPU's maximum pool", _TAKES, lower),
}
