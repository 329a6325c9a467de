"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import Graph, PoolAttrs, Window
from ..quantised import activation_range
from . import batches, constraints, limits, views
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind
from .te import Compute, index

_KINDS = {"AVERAGE_POOL_2D": OperationKind.AVERAGE_POOL, "MAX_POOL_2D": OperationKind.MAX_POOL}


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool. Precondition: its family takes it.

    The stored values themselves are averaged, without their (equal) zero points: TFLite rounds a tie away from the
    stored zero, and with the zero point taken off the tie would fall to the other side.
    """
    op = graph.operators[op_index]
    attrs = op.attributes(PoolAttrs)
    batch, shape = batches.image(graph.read(op).shape, attrs.window)
    ofm_shape = (*views.output_size(attrs.window, *shape[:2]), shape[2])
    window = views.simplest(attrs.window, *shape[:2])
    ofm = graph.made(op)
    operation = NpuOperation(
        name=op.name,
        operator=op_index,
        kind=_KINDS[op.kind],
        ifm=builder.view(op.input(0), batches.all_rows(batch, shape), zero_point=0),
        ofm=builder.view(op.outputs[0], batches.all_rows(batch, ofm_shape), zero_point=0),
        window=window,
        compute=compute(op.name, window, shape, ofm_shape),
        clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
    )
    for one in batches.of(operation, batch, ofm_shape):
        builder.add(one)


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = mean or maximum over kh, kw of in[n, s*h + kh - top, s*w + kw - left, c]."""
    access = views.window_access(window, ifm_shape, index(c=1))
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))


@dataclass(frozen=True)
class PaddedAverage(constraints.Constraint):
    """The window of an average with padding is at most `most` high and wide."""

    most: int = limits.MAX_PADDED_AVERAGE

    def __str__(self) -> str:
        return f"with padding, the kernel is at most {self.most}x{self.most}"

    def _against(self, case: constraints.Case) -> str | None:
        window = constraints.window_of(case)
        pads = window.pad_top + window.pad_left + window.pad_bottom + window.pad_right
        if not pads or max(window.kernel_h, window.kernel_w) <= self.most:
            return None
        return f"kernel is {window.kernel_h}x{window.kernel_w}; a padded average takes at most {self.most}x{self.most}"


def _seen(case: constraints.Case) -> constraints.Views:
    batch, height, width, depth = case.ifm.shape
    made = views.output_size(case.op.attributes(PoolAttrs).window, height, width)
    return [
        (case.ifm, batches.all_rows(batch, (height, width, depth))),
        (case.ofm, batches.all_rows(batch, (*made, depth))),
    ]


_TAKES: tuple[constraints.Constraint, ...] = (
    constraints.FeatureMaps(),
    constraints.OneType(),
    constraints.Image(batches.MOST),
    constraints.OneQuantisation("a pool does not rescale"),
    constraints.Sizes(_seen),
    constraints.Strides(),
    constraints.WindowSize(limits.MAX_POOL_ROWS, limits.MAX_POOL_ELEMENTS),
    constraints.Padding(),
)

POOL_FAMILIES: Mapping[str, Family] = {
    "AVERAGE_POOL_2D": Family("the NPU's average pool", (*_TAKES, PaddedAverage()), lower),
    "MAX_POOL_2D": Family("the NPU's maximum pool", _TAKES, lower),
}
