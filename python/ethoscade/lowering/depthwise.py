"""DEPTHWISE_CONV_2D: the NPU's depthwise convolution, or convolutions where an input channel makes several.

The NPU's makes one channel of each. Several are made by a convolution whose other weights are zero: of some channels at
a time, as it multiplies by the zeros too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Array, ConvAttrs, Graph, Window
from ..quantised import activation_range
from . import constraints, convolution, limits, strides, views, weighted
from .family import Family
from .npu import Channels, FeatureMap, NpuGraphBuilder, NpuOperation, OperationKind, Weights
from .te import Compute, index


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise operation, or one convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    stored = graph.read(op, 1).constant()
    shape = views.image_shape(graph.read(op).shape)
    ohwi = np.transpose(stored, (3, 1, 2, 0))
    if ohwi.shape[0] > shape[2]:
        _multiply(graph, op_index, builder, ohwi)
        return
    target, ifm, constants = graph.made(op), builder.view(op.input(0), shape), weighted.constants(graph, op, ohwi)

    def make(window: Window, ofm: FeatureMap) -> NpuOperation:
        return NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.DEPTHWISE,
            ifm=ifm,
            ofm=ofm,
            window=window,
            compute=compute(op.name, window, shape, ofm.shape),
            clamp=activation_range(target.quantisation, target.dtype, attrs.activation),
            weights=constants,
        )

    made = builder.view(op.outputs[0], (*views.output_size(attrs.window, *shape[:2]), shape[2]))
    strides.add(builder, op_index, views.simplest(attrs.window, *shape[:2]), made, make)


GROUP = 16
"""Input channels of a convolution that makes several of each: those of a brick, or of so many that `MOST_PIECES` do."""

MOST_PIECES = 64
"""The scheduler's checker remembers for each pixel which of so many parts of its channels are there."""


def _multiply(graph: Graph, op_index: int, builder: NpuGraphBuilder, ohwi: Array) -> None:
    """Convolutions of some channels each, all of one output."""
    op = graph.operators[op_index]
    attrs, ofm = op.attributes(ConvAttrs), graph.made(op)
    height, width, depth = views.image_shape(graph.read(op).shape)
    outputs, rows, columns, _ = ohwi.shape
    times = outputs // depth
    made = views.output_size(attrs.window, height, width)
    window = views.simplest(attrs.window, height, width)
    constants = weighted.constants(graph, op, ohwi)
    group = GROUP * -(-depth // (GROUP * MOST_PIECES))
    for first in range(0, depth, group):
        size = min(group, depth - first)
        part = slice(first * times, (first + size) * times)
        dense = np.full((size * times, rows, columns, size), constants.zero_point, ohwi.dtype)
        channel = np.arange(size * times)
        dense[channel, :, :, channel // times] = ohwi[part, :, :, 0]
        ifm_shape, ofm_shape = (height, width, size), (*made, size * times)
        # Whoever reads or makes all channels says nothing of some.
        read, write = (None, None) if size == depth else (Channels(first, depth), Channels(first * times, outputs))
        builder.add(
            NpuOperation(
                name=op.name,
                operator=op_index,
                kind=OperationKind.CONVOLUTION,
                ifm=builder.view(op.input(0), ifm_shape, channels=read),
                ofm=builder.view(op.outputs[0], ofm_shape, channels=write),
                window=window,
                compute=convolution.compute(op.name, window, ifm_shape, ofm_shape, first=first, depth=depth),
                clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
                weights=Weights(
                    values=dense,
                    bias=constants.bias[part],
                    multipliers=constants.multipliers[part],
                    shifts=constants.shifts[part],
                    zero_point=constants.zero_point,
                ),
            )
        )


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = sum over kh, kw of in[n, s*h + d*kh - top, s*w + d*kw - left, c] * weight."""
    access = views.window_access(window, ifm_shape, index(c=1))
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))


def _shape(case: constraints.Case) -> str | None:
    weights = case.graph.read(case.op, 1)
    _, kernel_h, kernel_w, outputs = weights.shape
    window = case.op.attributes(ConvAttrs).window
    simple = constraints.window_of(case)
    if outputs > case.ifm.shape[3] > 1 and max(simple.stride_h, simple.stride_w) > limits.MAX_STRIDE:
        return (
            f"stride is {simple.stride_h}x{simple.stride_w}; with a depth multiplier at most {limits.MAX_STRIDE} is "
            f"possible"
        )
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w) or weights.shape[0] != 1:
        return f"weights have shape {weights.shape}, the window is {window.kernel_h}x{window.kernel_w}"
    return None


DEPTHWISE_FAMILIES: Mapping[str, Family] = {
    "DEPTHWISE_CONV_2D": Family(
        f"the NPU's depthwise convolution; with a depth multiplier, convolutions of {GROUP} channels at a time",
        (
            *weighted.takes(rank=4, output_axis=3),
            constraints.Image(),
            constraints.Rule(f"with a depth multiplier, strides are at most {limits.MAX_STRIDE}", _shape),
            *convolution.windowed(depth_axis=3),
        ),
        lower,
    )
}
