"""Reference semantics of ARG_MAX, AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM, REDUCE_* and RESIZE_BILINEAR.

Shapes are NHWC; padding is explicit in the operator's window and never takes part in a maximum or an average.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir import ArgMaxAttrs, Array, DType, Graph, Operator, PoolAttrs, ReductionAttrs, ResizeBilinearAttrs
from .fixed_point import multiply, wrap
from .formulas import Places, bilinear_places, clamp_range, scale_of, significand_and_shift, zero_point_of
from .meaning import INT8, SIGNED, Inputs, ReferenceKernel, given, ordered, quantised, reduced, summed, summed_or_words
from .windows import output_size, pad_spatial, seen, tap


def average_pool_2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """AVERAGE_POOL_2D: mean of the stored values inside the image, rounded half away from zero.

    Input and output share their quantisation: nothing is rescaled.
    """
    attrs = op.attributes(PoolAttrs)
    ofm = graph.made(op)
    met = seen(attrs.window, *given(inputs).shape[1:3])
    x = met.of(given(inputs)).astype(np.int64)
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
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, attrs.activation)
    stored: Array = np.clip(mean, lowest, highest).astype(ofm.dtype.numpy)
    return stored


def max_pool_2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MAX_POOL_2D: the largest stored value inside the image; nothing is rescaled."""
    attrs = op.attributes(PoolAttrs)
    ofm = graph.made(op)
    met = seen(attrs.window, *given(inputs).shape[1:3])
    x, window = met.of(given(inputs)), met.window
    padded = pad_spatial(x, window, ofm.dtype.limits[0])
    largest = tap(padded, window, 0, 0).copy()
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            np.maximum(largest, tap(padded, window, ky, kx), out=largest)
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, attrs.activation)
    stored: Array = np.clip(largest, lowest, highest).astype(ofm.dtype.numpy)
    return stored


def arg_max(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """ARG_MAX: where along the axis the first of the largest stored values is."""
    found = np.argmax(given(inputs), axis=op.attributes(ArgMaxAttrs).axis)
    return np.asarray(found, dtype=graph.made(op).dtype.numpy)


def resize_bilinear(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESIZE_BILINEAR of stored values, whatever the quantisations.

    int8 and int16: products of shares in units of 2^-20, rounded half away from zero. uint8: in float32, rounded half
    up.
    """
    attrs, value = op.attributes(ResizeBilinearAttrs), given(inputs)
    rows, columns = (
        bilinear_places(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(value.shape[1:3], attrs.size, strict=True)
    )
    made = graph.made(op).dtype
    if made is not DType.UINT8:
        sums = _interpolated(value.astype(np.int64), rows[0], columns[0], 1024)
        return np.asarray(np.sign(sums) * ((np.abs(sums) + (1 << 19)) >> 20), dtype=made.numpy)
    sums = _interpolated(value.astype(np.float32), rows[1], columns[1], 1)
    return np.asarray(np.trunc(sums + np.float32(0.5)), dtype=np.uint8)


def _interpolated(x: npt.NDArray[Any], rows: Places, columns: Places, one: int) -> npt.NDArray[Any]:
    """The four neighbours' sum, weighed by their shares; `one` is a whole share."""
    (y, y0, y1), (x_, x0, x1) = rows, columns
    unit = x.dtype.type(one)
    down = (y - y0.astype(x.dtype) * unit)[None, :, None, None]
    right = (x_ - x0.astype(x.dtype) * unit)[None, None, :, None]
    first, second = x[:, y0], x[:, y1]
    found: npt.NDArray[Any] = (
        first[:, :, x0] * (unit - down) * (unit - right)
        + second[:, :, x0] * down * (unit - right)
        + first[:, :, x1] * (unit - down) * right
        + second[:, :, x1] * down * right
    )
    return found


def mean_multiplier(ifm_scale: float, ofm_scale: float, count: int) -> tuple[int, int]:
    """Significand and shift by which MEAN multiplies the sum of `count` values: scaling and division in one.

    The multiplier of ifm_scale / ofm_scale is divided by `count`, rounding down, after a left shift by the bits of
    `count` that keeps it from losing digits.
    """
    significand, shift = significand_and_shift(ifm_scale / ofm_scale)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return (significand << bits) // count, shift - bits


def mean(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MEAN over the attributes' axes, rescaled to the output's quantisation."""
    return _added(graph, op, inputs, mean_multiplier)


def total(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SUM over the attributes' axes, rescaled to the output's quantisation; of int32 kernels look at no scales."""
    if graph.read(op).dtype is DType.INT32:
        attrs = op.attributes(ReductionAttrs)
        found = given(inputs).sum(axis=attrs.axes, keepdims=attrs.keep_dims, dtype=np.int64)
        return np.asarray(wrap(np.asarray(found)), np.int32)
    return _added(graph, op, inputs, lambda ifm, ofm, _: significand_and_shift(ifm / ofm))


def _added(graph: Graph, op: Operator, inputs: Inputs, factor: Callable[[float, float, int], tuple[int, int]]) -> Array:
    """Sums times a factor that follows from both scales and how many elements become one."""
    attrs = op.attributes(ReductionAttrs)
    ifm, ofm = graph.read(op), graph.made(op)
    x = given(inputs)
    count = int(np.prod([x.shape[a] for a in attrs.axes], dtype=np.int64))
    found = x.sum(axis=attrs.axes, keepdims=attrs.keep_dims, dtype=np.int64) - count * zero_point_of(ifm)
    scaled = multiply(wrap(np.asarray(found)), *factor(scale_of(ifm), scale_of(ofm), count)) + zero_point_of(ofm)
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)


def largest(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """REDUCE_MAX of stored values."""
    attrs = op.attributes(ReductionAttrs)
    return np.asarray(given(inputs).max(axis=attrs.axes, keepdims=attrs.keep_dims))


def least(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """REDUCE_MIN of stored values."""
    attrs = op.attributes(ReductionAttrs)
    return np.asarray(given(inputs).min(axis=attrs.axes, keepdims=attrs.keep_dims))


POOLING_MEANINGS: Mapping[str, ReferenceKernel] = {
    "ARG_MAX": ReferenceKernel(arg_max, ordered, INT8),
    "AVERAGE_POOL_2D": ReferenceKernel(average_pool_2d, quantised, SIGNED),
    "MAX_POOL_2D": ReferenceKernel(max_pool_2d, quantised, SIGNED),
    "MEAN": ReferenceKernel(mean, summed, SIGNED),
    "REDUCE_MAX": ReferenceKernel(largest, reduced, INT8),
    "REDUCE_MIN": ReferenceKernel(least, reduced, INT8),
    "RESIZE_BILINEAR": ReferenceKernel(resize_bilinear, quantised, INT8),
    "SUM": ReferenceKernel(total, summed_or_words, SIGNED),
}
