"""CONV_2D: the NPU's convolution. Also builds that operation for other families whose arithmetic it is."""

from __future__ import annotations

from typing import cast

from ..ir import Activation, Array, ConvAttrs, Graph, Operator, Window
from ..quantised import activation_range
from ..target import Accelerator
from . import limits, views, weighted
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Rounding
from .te import Access, Axis, Compute, index


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := weighted.support(graph, op, rank=4, output_axis=0)) is not None:
        return reason
    ifm, weights, _, _ = weighted.operands(graph, op)
    if (reason := limits.image(ifm)) is not None:
        return reason
    outputs, kernel_h, kernel_w, depth = weights.shape
    if depth != ifm.shape[3]:
        return f"weights cover {depth} of {ifm.shape[3]} input channels; grouped convolution is not possible"
    window = cast(ConvAttrs, op.attrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w):
        return f"weights are {kernel_h}x{kernel_w}, the window is {window.kernel_h}x{window.kernel_w}"
    return window_support(graph, op, window, outputs)


def window_support(graph: Graph, op: Operator, window: Window, depth: int) -> str | None:
    """Whether a (depthwise) convolution with `depth` output channels fits the NPU's windows."""
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    size = views.output_size(window, ifm.shape[1], ifm.shape[2])
    window = views.simplest(window, ifm.shape[1], ifm.shape[2])
    return limits.first(
        (
            limits.elements(ofm, (*size, depth)),
            limits.strides(window),
            limits.kernel(window),
            limits.padding(window),
        )
    )


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution. Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    attrs = cast(ConvAttrs, op.attrs)
    weights = cast("Array", graph.tensors[cast(int, op.inputs[1])].data)
    ifm = graph.tensors[cast(int, op.inputs[0])]
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
    ofm_shape = (*views.output_size(window, height, width), ohwi.shape[0])
    window = views.simplest(window, height, width)
    ofm = graph.tensors[op.outputs[0]]
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.CONVOLUTION,
            ifm=builder.view(cast(int, op.inputs[0]), ifm_shape),
            ofm=builder.view(op.outputs[0], ofm_shape),
            window=window,
            compute=compute(op.name, window, ifm_shape, ofm_shape),
            clamp=activation_range(ofm.quantisation, ofm.dtype, activation),
            weights=weighted.constants(graph, op, ohwi, scale),
            rounding=rounding,
        )
    )


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = sum over kh, kw, ic of in[n, s*h + d*kh - top, s*w + d*kw - left, ic] * weight."""
    access: Access = views.window_access(window, ifm_shape, index(ic=1))
    return Compute(name, views.axes(ofm_shape), (*views.kernel_axes(window), Axis("ic", ifm_shape[2], True)), (access,))
