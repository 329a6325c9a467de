"""Reference semantics of AVERAGE_POOL_2D, MAX_POOL_2D and MEAN.

Shapes are NHWC; padding is explicit in the operator's window and never takes part in a maximum or an average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ...ir import Array, Graph, MeanAttrs, Operator, PoolAttrs
from ...quantised import activation_range, multiplier_and_shift, scale_of, zero_point_of
from .fixed_point import multiply, wrap
from .windows import output_size, pad_spatial, seen, tap


def average_pool_2d(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """AVERAGE_POOL_2D: mean of the stored values inside the image, rounded half away from zero.

    Input and output share their quantisation: nothing is rescaled.
    """
    attrs = cast(PoolAttrs, op.attrs)
    ofm = graph.tensors[op.outputs[0]]
    met = seen(attrs.window, *cast(Array, inputs[0]).shape[1:3])
    x = met.of(cast(Array, inputs[0])).astype(np.int64)
    window = met.window
    padded = pad_spatial(x, window, 0)
    inside = pad_spatial(np.ones((1, *x.shape[1:3], 1), dtype=np.int64), window, 0)
    rows, columns = output_size(padded.shape, window)
    total = np.zeros((x.shape[0], rows, columns, x.shape[3]), dtype=np.int64)
    count = np.zeros((1, rows, columns, 1), dtype=np.int64)
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            total += tap(padded, window, ky, kx)
            count += tap(inside, window, ky, kx)
    mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, attrs.activation)
    stored: Array = np.clip(mean, lowest, highest).astype(ofm.dtype.numpy)
    return stored


def max_pool_2d(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """MAX_POOL_2D: the largest stored value inside the image; nothing is rescaled."""
    attrs = cast(PoolAttrs, op.attrs)
    ofm = graph.tensors[op.outputs[0]]
    met = seen(attrs.window, *cast(Array, inputs[0]).shape[1:3])
    x, window = met.of(cast(Array, inputs[0])), met.window
    padded = pad_spatial(x, window, ofm.dtype.limits[0])
    largest = tap(padded, window, 0, 0).copy()
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            np.maximum(largest, tap(padded, window, ky, kx), out=largest)
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, attrs.activation)
    stored: Array = np.clip(largest, lowest, highest).astype(ofm.dtype.numpy)
    return stored


def mean_multiplier(ifm_scale: float, ofm_scale: float, count: int) -> tuple[int, int]:
    """Significand and shift by which MEAN multiplies the sum of `count` values: scaling and division in one.

    The multiplier of ifm_scale / ofm_scale is divided by `count`, rounding down, after a left shift by the bits of
    `count` that keeps it from losing digits.
    """
    significand, shift = multiplier_and_shift(ifm_scale / ofm_scale)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return (significand << bits) // count, shift - bits


def mean(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """MEAN over the attributes' axes, rescaled to the output's quantisation."""
    attrs = cast(MeanAttrs, op.attrs)
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    x = cast(Array, inputs[0])
    count = int(np.prod([x.shape[a] for a in attrs.axes], dtype=np.int64))
    total = x.sum(axis=attrs.axes, keepdims=attrs.keep_dims, dtype=np.int64) - count * zero_point_of(ifm)
    significand, shift = mean_multiplier(scale_of(ifm), scale_of(ofm), count)
    scaled = multiply(wrap(np.asarray(total)), significand, shift) + zero_point_of(ofm)
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)
