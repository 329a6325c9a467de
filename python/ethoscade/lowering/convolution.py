"""CONV_2D: the NPU's convolution. Also builds that stage for other families whose arithmetic it is."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Activation, Array, ConvAttrs, Graph, Window
from ..quantised import activation_range
from . import constraints, strides, views, weighted
from .family import Family
from .npu import FeatureMap, NpuGraphBuilder, NpuOperation, OperationKind, Rounding, Upscale
from .te import Access, Axis, Compute, index


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    weights = graph.read(op, 1).constant()
    ifm = graph.read(op)
    convolve(graph, op_index, builder, views.image_shape(ifm.shape), attrs.window, weights, attrs.activation)


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
) -> None:
    """A convolution of the operator's first input, seen as `ifm_shape`, with its stored weights given as OHWI.

    `scale` as for `weighted.constants`.
    """
    op = graph.operators[op_index]
    height, width, _ = ifm_shape
    target = graph.made(op)
    ifm = builder.view(op.input(0), ifm_shape)
    constants = weighted.constants(graph, op, ohwi, scale)

    def make(window: Window, ofm: FeatureMap) -> NpuOperation:
        return NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.CONVOLUTION,
            ifm=ifm,
            ofm=ofm,
            window=window,
            compute=compute(op.name, window, ifm_shape, ofm.shape),
            clamp=activation_range(target.quantisation, target.dtype, activation),
            weights=constants,
            rounding=rounding,
        )

    made = builder.view(op.outputs[0], (*views.output_size(window, height, width), ohwi.shape[0]))
    strides.add(builder, op_index, views.simplest(window, height, width), made, make)


def compute(
    name: str,
    window: Window,
    ifm_shape: views.Shape3,
    ofm_shape: views.Shape3,
    upscale: Upscale = Upscale.NONE,
    first: int = 0,
    depth: int | None = None,
) -> Compute:
    """out[n, h, w, c] = sum over kh, kw, ic of in[n, s*h + d*kh - top, s*w + d*kw - left, first + ic] * weight.

    `depth` are the channels of the input where not all are read.
    """
    seen = ifm_shape if depth is None else (*ifm_shape[:2], depth)
    access: Access = views.window_access(window, seen, index(first, ic=1), upscale.factor)
    return Compute(name, views.axes(ofm_shape), (*views.kernel_axes(window), Axis("ic", ifm_shape[2], True)), (access,))


def windowed(depth_axis: int) -> tuple[constraints.Constraint, ...]:
    """What (depthwise) convolutions demand of a window, for weights of which `depth_axis` is the outputs'."""

    def seen(case: constraints.Case) -> constraints.Views:
        window, (_, height, width, depth) = case.op.attributes(ConvAttrs).window, case.ifm.shape
        made = (*views.output_size(window, height, width), case.graph.read(case.op, 1).shape[depth_axis])
        return [(case.ifm, (height, width, depth)), (case.ofm, made)]

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
            constraints.Image(),
            constraints.Rule("weights cover all input channels: no groups", _groups),
            *windowed(depth_axis=0),
        ),
        lower,
    )
}
