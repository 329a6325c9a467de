"""DEPTHWISE_CONV_2D: the NPU's depthwise convolution, or a convolution where the input has a single channel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import ConvAttrs, Graph, Window
from ..quantised import activation_range
from . import batches, constraints, convolution, views, weighted
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind
from .te import Compute, index


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise operation, or one convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    stored = graph.read(op, 1).constant()
    batch, shape = batches.image(graph.read(op).shape, attrs.window)
    ohwi = np.transpose(stored, (3, 1, 2, 0))
    if shape[2] == 1 and ohwi.shape[0] > 1:
        convolution.convolve(graph, op_index, builder, shape, attrs.window, ohwi, attrs.activation, batch=batch)
        return
    ofm_shape = (*views.output_size(attrs.window, *shape[:2]), shape[2])
    window = views.simplest(attrs.window, *shape[:2])
    ofm = graph.made(op)
    operation = NpuOperation(
        name=op.name,
        operator=op_index,
        kind=OperationKind.DEPTHWISE,
        ifm=builder.view(op.input(0), batches.all_rows(batch, shape)),
        ofm=builder.view(op.outputs[0], batches.all_rows(batch, ofm_shape)),
        window=window,
        compute=compute(op.name, window, shape, ofm_shape),
        clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
        weights=weighted.constants(graph, op, ohwi),
    )
    for one in batches.of(operation, batch, ofm_shape):
        builder.add(one)


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = sum over kh, kw of in[n, s*h + d*kh - top, s*w + d*kw - left, c] * weight."""
    access = views.window_access(window, ifm_shape, index(c=1))
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))


def _multiplier(case: constraints.Case) -> str | None:
    weights, depth = case.graph.read(case.op, 1), case.ifm.shape[3]
    _, kernel_h, kernel_w, outputs = weights.shape
    if outputs != depth and depth != 1:
        wanted = "a depth multiplier other than 1 needs a single input channel"
        return f"{depth} input channels make {outputs} outputs; {wanted}"
    window = case.op.attributes(ConvAttrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w) or weights.shape[0] != 1:
        return f"weights have shape {weights.shape}, the window is {window.kernel_h}x{window.kernel_w}"
    return None


DEPTHWISE_FAMILIES: Mapping[str, Family] = {
    "DEPTHWISE_CONV_2D": Family(
        "the NPU's depthwise convolution, or a convolution where the input has a single channel",
        (
            *weighted.takes(rank=4, output_axis=3),
            constraints.Image(batches.MOST),
            constraints.Rule("the depth multiplier is 1, or the input has a single channel", _multiplier),
            *convolution.windowed(depth_axis=3),
        ),
        lower,
    )
}
