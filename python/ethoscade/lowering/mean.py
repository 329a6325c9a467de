"""MEAN over height and width: a depthwise convolution whose weights are all one and whose scale divides."""

from __future__ import annotations

from typing import cast

import numpy as np

from ..ir import Graph, MeanAttrs, Operator, Tensor, Window
from ..quantised import multiplier_and_shift, scale_of
from ..target import Accelerator
from . import depthwise, limits, views
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Weights

_SPATIAL_AXES = (1, 2)


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := limits.ends(graph, op)) is not None:
        return reason
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    if (reason := limits.first((limits.same_dtype(ifm, ofm), limits.image(ifm)))) is not None:
        return reason
    axes = cast(MeanAttrs, op.attrs).axes
    if not axes or not set(axes) <= set(_SPATIAL_AXES):
        return f"it averages over axes {axes}; height and width (1 and 2) are possible"
    window = _window(ifm, axes)
    size = views.output_size(window, ifm.shape[1], ifm.shape[2])
    if (reason := limits.first((limits.elements(ofm, (*size, ifm.shape[3])), limits.kernel(window)))) is not None:
        return reason
    count = window.kernel_h * window.kernel_w
    shift = _scale(ifm, ofm, count)[1]
    if not 0 <= shift <= 63:
        return f"scales {scale_of(ifm):g} and {scale_of(ofm):g} need a shift of {shift}; 0 to 63 are possible"
    return limits.left_shift(31 - shift, limits.LARGEST_VALUE * count, scale_of(ifm) / scale_of(ofm) / count)


def _window(ifm: Tensor, axes: tuple[int, ...]) -> Window:
    return Window(ifm.shape[1] if 1 in axes else 1, ifm.shape[2] if 2 in axes else 1)


def _scale(ifm: Tensor, ofm: Tensor, count: int) -> tuple[int, int]:
    """NPU scale and shift of sum -> output, after LiteRT's reference kernel.

    The division by `count` goes into the multiplier, which is first shifted left by the bits of `count` (as far as 32
    bits and the exponent allow) and then divided, rounding down.
    """
    significand, exponent = multiplier_and_shift(scale_of(ifm) / scale_of(ofm))
    bits = min(count.bit_length() - 1, 32, 31 + exponent)
    return (significand << bits) // count, 31 - (exponent - bits)


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise convolution. Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    shape = views.image_shape(ifm.shape)
    window = _window(ifm, cast(MeanAttrs, op.attrs).axes)
    ofm_shape = (*views.output_size(window, *shape[:2]), shape[2])
    scale, shift = _scale(ifm, ofm, window.kernel_h * window.kernel_w)
    channels = shape[2]
    weights = Weights(
        values=np.ones((channels, window.kernel_h, window.kernel_w, 1), np.int16),
        bias=np.zeros(channels, np.int64),
        multipliers=np.full(channels, scale, np.int64),
        shifts=np.full(channels, shift, np.int64),
    )
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.DEPTHWISE,
            ifm=builder.view(cast(int, op.inputs[0]), shape),
            ofm=builder.view(op.outputs[0], ofm_shape),
            window=window,
            compute=depthwise.compute(op.name, window, shape, ofm_shape),
            clamp=ofm.dtype.limits,
            weights=weights,
        )
    )
