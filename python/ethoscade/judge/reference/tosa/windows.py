"""What TOSA's operators on windows of an image compute, and MATMUL.

Owns their accumulators. Sums are float64 products of matrices: exact, for the specification calls sums beyond 48 bits
unpredictable, and those below 2**53 are whole in it. Whether a sum leaves its type is asked at its end: on the way it
can only with more than 33,000 products of int8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ....ir import Array, DType, Graph, Operator
from ....ir.tosa import (
    AveragePool,
    Convolution,
    MatMul,
    MaxPool,
    Resize,
    ResizeMode,
    TransposeConvolution,
)
from ..fixed_point import Int64
from ..meaning import Evaluate, Inputs, given
from ..windows import Element
from .arithmetic import clip, narrow, reciprocal_scale, scale_32, wide

_Floats = npt.NDArray[np.float64]


def _padded(x: npt.NDArray[Element], pad: Sequence[int], value: int = 0) -> npt.NDArray[Element]:
    """`x` [N, ..., C] with padding before and behind each axis in between."""
    pairs = [(0, 0), *zip(pad[::2], pad[1::2], strict=True), (0, 0)]
    return np.pad(x, pairs, constant_values=value) if any(pad) else x


def _tap(
    padded: npt.NDArray[Element],
    position: Sequence[int],
    attrs: Convolution | AveragePool | MaxPool,
    outputs: Sequence[int],
) -> npt.NDArray[Element]:
    """What lies under one kernel position, for every output position."""
    dilation = attrs.dilation if isinstance(attrs, Convolution) else (1,) * len(outputs)
    slices = [slice(None)]
    for at, step, stride, count in zip(position, dilation, attrs.stride, outputs, strict=True):
        slices.append(slice(at * step, at * step + (count - 1) * stride + 1, stride))
    return padded[tuple(slices)]


def _finish(sums: _Floats, bias: Int64, dtype: DType) -> Array:
    """The sums with the bias, each within the accumulator's type."""
    accumulated = narrow(sums.astype(np.int64), dtype, "a sum of products")
    return narrow(accumulated.astype(np.int64) + bias, dtype, "a sum with its bias")


def _operands(inputs: Inputs, attrs: Convolution | TransposeConvolution) -> tuple[_Floats, _Floats]:
    """Input and weights without their zero points."""
    return (
        given(inputs).astype(np.float64) - attrs.input_zero_point,
        given(inputs, 1).astype(np.float64) - attrs.weight_zero_point,
    )


def conv(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CONV2D and CONV3D: weights (output channels, kernel, input channels)."""
    attrs, made = op.attributes(Convolution), graph.made(op)
    x, w = _operands(inputs, attrs)
    padded = _padded(x, attrs.pad)
    sums = np.zeros((int(np.prod(made.shape[:-1])), w.shape[0]))
    for position in np.ndindex(*w.shape[1:-1]):
        tap = _tap(padded, position, attrs, made.shape[1:-1])
        sums += tap.reshape(-1, w.shape[-1]) @ np.moveaxis(w, 0, -1)[position]
    return _finish(sums.reshape(made.shape), wide(inputs, 2), made.dtype)


def depthwise_conv2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """DEPTHWISE_CONV2D: weights (kernel, input channels, outputs per channel)."""
    attrs, made = op.attributes(Convolution), graph.made(op)
    x, w = _operands(inputs, attrs)
    padded = _padded(x, attrs.pad)
    sums = np.zeros((*made.shape[:-1], *w.shape[2:]))
    for position in np.ndindex(*w.shape[:2]):
        sums += _tap(padded, position, attrs, made.shape[1:-1])[..., None] * w[position]
    return _finish(sums.reshape(made.shape), wide(inputs, 2), made.dtype)


def transpose_conv2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TRANSPOSE_CONV2D: each input pixel adds its product with the weights from (y * stride, x * stride) on."""
    attrs, made = op.attributes(TransposeConvolution), graph.made(op)
    x, w = _operands(inputs, attrs)
    (batch, *image, channels), (outputs, *kernel, _) = x.shape, w.shape
    extents = [(n - 1) * step + k for n, step, k in zip(image, attrs.stride, kernel, strict=True)]
    sums = np.zeros((batch, *extents, outputs))
    for y, across in np.ndindex(*kernel):
        rows = slice(y, y + (image[0] - 1) * attrs.stride[0] + 1, attrs.stride[0])
        columns = slice(across, across + (image[1] - 1) * attrs.stride[1] + 1, attrs.stride[1])
        sums[:, rows, columns] += (x.reshape(-1, channels) @ w[:, y, across].T).reshape(batch, *image, outputs)
    top, bottom, left, right = attrs.out_pad
    sums = sums[:, max(0, -top) : extents[0] + min(0, bottom), max(0, -left) : extents[1] + min(0, right)]
    grown = _padded(sums, [max(0, size) for size in attrs.out_pad])
    return _finish(grown, wide(inputs, 2), made.dtype)


def matmul(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MATMUL: [N, H, C] by [N, C, W]."""
    attrs = op.attributes(MatMul)
    a = given(inputs).astype(np.float64) - attrs.a_zero_point
    b = given(inputs, 1).astype(np.float64) - attrs.b_zero_point
    return narrow((a @ b).astype(np.int64), graph.made(op).dtype, "a sum of products")


def avg_pool2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """AVG_POOL2D: sums over what is no padding, scaled by a reciprocal, once rounded."""
    attrs, made = op.attributes(AveragePool), graph.made(op)
    outputs = made.shape[1:-1]
    x = wide(inputs) - attrs.input_zero_point
    padded, there = _padded(x, attrs.pad), _padded(np.ones((1, *x.shape[1:-1], 1), np.int64), attrs.pad)
    sums, counts = np.zeros(made.shape, np.int64), np.zeros((1, *outputs, 1), np.int64)
    for position in np.ndindex(*attrs.kernel):
        sums += _tap(padded, position, attrs, outputs)
        counts += _tap(there, position, attrs, outputs)
    narrow(sums, attrs.accumulator, "a sum of values")
    scaled = scale_32(sums, *reciprocal_scale(counts))
    return clip(scaled + attrs.output_zero_point, made.dtype)


def max_pool2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MAX_POOL2D."""
    attrs, made = op.attributes(MaxPool), graph.made(op)
    least = made.dtype.limits[0]
    padded = _padded(given(inputs), attrs.pad, least)
    found = np.full(made.shape, least, made.dtype.numpy)
    for position in np.ndindex(*attrs.kernel):
        found = np.maximum(found, _tap(padded, position, attrs, made.shape[1:-1]))
    return found


def resize(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESIZE: the nearest pixel, or the sum of four weighted by distances in units of 1 / (scale_y_n * scale_x_n)."""
    attrs, made = op.attributes(Resize), graph.made(op)
    x = wide(inputs)
    y0, y1, dy = _neighbours(attrs, 0, x.shape[1], made.shape[1])
    x0, x1, dx = _neighbours(attrs, 1, x.shape[2], made.shape[2])
    unit_y, unit_x = attrs.scale[0], attrs.scale[2]
    if attrs.mode is ResizeMode.NEAREST:
        rows, columns = np.where(2 * dy >= unit_y, y1, y0), np.where(2 * dx >= unit_x, x1, x0)
        return x[:, rows][:, :, columns].astype(made.dtype.numpy)
    down, across = dy[:, None, None], dx[:, None]
    # Left and right first, then the upper and the lower row.
    mixed = x[:, :, x0] * (unit_x - across) + x[:, :, x1] * across
    sums = mixed[:, y0] * (unit_y - down) + mixed[:, y1] * down
    return narrow(sums.astype(np.int64), made.dtype)


def _neighbours(attrs: Resize, axis: int, extent: int, outputs: int) -> tuple[Int64, Int64, Int64]:
    """Along an axis: the two input elements beside each output element, and its distance from the first."""
    numerator, denominator = attrs.scale[2 * axis], attrs.scale[2 * axis + 1]
    place = np.arange(outputs, dtype=np.int64) * denominator + attrs.offset[axis]
    first = place // numerator
    return np.maximum(first, 0), np.minimum(first + 1, extent - 1), place - first * numerator


TOSA_WINDOWS: Mapping[str, Evaluate] = {
    "tosa.avg_pool2d": avg_pool2d,
    "tosa.conv2d": conv,
    "tosa.conv3d": conv,
    "tosa.depthwise_conv2d": depthwise_conv2d,
    "tosa.matmul": matmul,
    "tosa.max_pool2d": max_pool2d,
    "tosa.resize": resize,
    "tosa.transpose_conv2d": transpose_conv2d,
}
"""The operators of this file."""
