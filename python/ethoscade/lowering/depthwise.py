"""DEPTHWISE_CONV_2D: the NPU's depthwise convolution, or a convolution where the input has a single channel."""

from __future__ import annotations

from typing import cast

import numpy as np

from ..ir import Array, ConvAttrs, Graph, Operator, Window
from ..quantised import activation_range
from ..target import Accelerator
from . import convolution, limits, views, weighted
from .npu import NpuGraphBuilder, NpuOperation, OperationKind
from .te import Compute, index


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := weighted.support(graph, op, rank=4, output_axis=3)) is not None:
        return reason
    ifm, weights, _, _ = weighted.operands(graph, op)
    if (reason := limits.image(ifm)) is not None:
        return reason
    _, kernel_h, kernel_w, outputs = weights.shape
    if outputs != ifm.shape[3] and ifm.shape[3] != 1:
        return (
            f"{ifm.shape[3]} input channels make {outputs} outputs; a depth multiplier other than 1 "
            f"needs a single input channel"
        )
    window = cast(ConvAttrs, op.attrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w) or weights.shape[0] != 1:
        return f"weights have shape {weights.shape}, the window is {window.kernel_h}x{window.kernel_w}"
    return convolution.window_support(graph, op, window, outputs)


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise operation, or one convolution. Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    attrs = cast(ConvAttrs, op.attrs)
    stored = cast("Array", graph.tensors[cast(int, op.inputs[1])].data)
    shape = views.image_shape(graph.tensors[cast(int, op.inputs[0])].shape)
    ohwi = np.transpose(stored, (3, 1, 2, 0))
    if shape[2] == 1 and ohwi.shape[0] > 1:
        convolution.convolve(graph, op_index, builder, shape, attrs.window, ohwi, attrs.activation)
        return
    ofm_shape = (*views.output_size(attrs.window, *shape[:2]), shape[2])
    window = views.simplest(attrs.window, *shape[:2])
    ofm = graph.tensors[op.outputs[0]]
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.DEPTHWISE,
            ifm=builder.view(cast(int, op.inputs[0]), shape),
            ofm=builder.view(op.outputs[0], ofm_shape),
            window=window,
            compute=compute(op.name, window, shape, ofm_shape),
            clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
            weights=weighted.constants(graph, op, ohwi),
        )
    )


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = sum over kh, kw of in[n, s*h + d*kh - top, s*w + d*kw - left, c] * weight."""
    access = views.window_access(window, ifm_shape, index(c=1))
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))
