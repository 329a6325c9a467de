"""CONV_2D: the NPU's convolution. Also builds that stage for other families whose arithmetic it is."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Activation, Array, ConvAttrs, Graph, Window
from ..quantised import activation_range
from . import batches, constraints, views, weighted
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Rounding
from .te import Access, Axis, Compute, index


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    weights = graph.read(op, 1).constant()
    batch, shape = batches.image(graph.read(op).shape, attrs.window)
    convolve(graph, op_index, builder, shape, attrs.window, weights, attrs.activation, batch=batch)


def convolve(
    graph: Graph,
    op_index: int,
    builder: NpuGraphBuilder,
    ifm_shape: views.Shape3,
    window: Window,
    ohwi: Array,
    activation: Activation,
    rounding: Rounding = Rounding.TFL,
    scale: tuple[int, int] | None = None,
    batch: int = 1,
) -> None:
    """A convolution of the operator's first input, seen as `ifm_shape`, with its stored weights given as OHWI.

    `scale` as for `weighted.constants`; `ifm_shape` is that of each of `batch` images.
    """
    op = graph.operators[op_index]
    height, width, _ = ifm_shape
    ofm_shape = (*views.output_size(window, height, width), ohwi.shape[0])
    window = views.simplest(window, height, width)
    ofm = graph.made(op)
    operation = NpuOperation(
        name=op.name,
        operator=op_index,
        kind=OperationKind.CONVOLUTION,
        ifm=builder.view(op.input(0), batches.all_rows(batch, ifm_shape)),
        ofm=builder.view(op.outputs[0], batches.all_rows(batch, ofm_shape)),
        window=window,
        compute=compute(op.name, window, ifm_shape, ofm_shape),
        clamp=activation_range(ofm.quantisation, ofm.dtype, activation),
        weights=weighted.constants(graph, op, ohwi, scale),
        rounding=rounding,
    )
    for one in batches.of(operation, batch, ofm_shape):
        builder.add(one)


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = sum over kh, kw, ic of in[n, s*h + d*kh - top, s*w + d*kw - left, ic] * weight."""
    access: Access = views.window_access(window, ifm_shape, index(ic=1))
    return Compute(name, views.axes(ofm_shape), (*views.kernel_axes(window), Axis("ic", ifm_shape[2], True)), (access,))


def windowed(depth_axis: int) -> tuple[constraints.Constraint, ...]:
    """What (depthwise) convolutions demand of a window, for weights of which `depth_axis` is the outputs'."""

    def seen(case: constraints.Case) -> constraints.Views:
        window, (batch, height, width, depth) = case.op.attributes(ConvAttrs).window, case.ifm.shape
        made = (*views.output_size(window, height, width), case.graph.read(case.op, 1).shape[depth_axis])
        return [
            (case.ifm, batches.all_rows(batch, (height, width, depth))), (case.ofm, batches.all_rows(batch, made))
        ]  # fmt: skip

    return (
        constraints.Sizes(seen),
        constraints.Strides(),
        constraints.Dilation(),
        constraints.WindowSize(),
        constraints.Padding(),
    )


def _groups(case: constraints.Case) -> str | None:
    _, kernel_h, kernel_w, depth = case.graph.read(case.op, 1).shape
    window = case.op.attributes(ConvAttrs).window
    if depth != case.ifm.shape[3]:
        return f"weights cover {depth} of {case.ifm.shape[3]} input channels; grouped convolution is not possible"
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w):
        return f"weights are {kernel_h}x{kernel_w}, the window is {window.kernel_h}x{window.kernel_w}"
    return None


CONVOLUTION_FAMILIES: Mapping[str, Family] = {
    "CONV_2D": Family(
        "the NPU's convolution",
        (
            *weighted.takes(rank=4, output_axis=0),
            constraints.Image(batches.MOST),
            constraints.Rule("weights cover all input channels: no groups", _groups),
            *windowed(depth_axis=0),
        ),
        lower,
    )
}
