"""Reference semantics of CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED.

Owns their accumulators and output stage. Shapes are NHWC; padding is explicit in the operator's window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import (
    Activation,
    Array,
    ConvAttrs,
    DType,
    FullyConnectedAttrs,
    Graph,
    Operator,
    Tensor,
    TransposeConvAttrs,
)
from ...ir.operators import OPERATORS
from ...util.records import dataclass
from .fixed_point import Int64, NoKernelResult, multiply_once, scale_sums, wrap
from .formulas import clamp_range, output_factors, significand_and_shift, zero_point_of
from .meaning import INT8, SIGNED, Inputs, ReferenceKernel, bias_place, given, weighed
from .windows import correlate, output_size, pad_spatial, seen, tap


@dataclass(frozen=True)
class _Operands:
    """Tensors of a weighted operator with their values.

    `is_wide` says that sums have 64 bits: those of int16, unless a bias of int32 makes them sums of 32.
    """

    kind: str
    ifm: Tensor
    weights: Tensor
    ofm: Tensor
    x: Array
    w: Array
    bias: Int64 | None
    is_wide: bool


def _operands(graph: Graph, op: Operator, inputs: Inputs) -> _Operands:
    place = OPERATORS[op.kind].data_input
    x, w = given(inputs, place), given(inputs, 1)
    last = bias_place(op)
    bias = inputs[last] if len(inputs) > last else None
    ifm, weights = graph.read(op, place), graph.read(op, 1)
    wide_bias = None if bias is None else bias.astype(np.int64)
    is_wide = ifm.dtype is DType.INT16 and (bias is None or bias.dtype != np.int32)
    return _Operands(op.kind, ifm, weights, graph.made(op), x, w, wide_bias, is_wide)


def _finish(operands: _Operands, acc: Int64, activation: Activation) -> Array:
    """Bias, scaling, zero point and clamp; the channel is the last axis of `acc`."""
    if operands.bias is not None:
        acc = acc + operands.bias
    factors = [significand_and_shift(s) for s in _scales(operands)]
    significand = np.array([f[0] for f in factors], dtype=np.int64)
    shift = np.array([f[1] for f in factors], dtype=np.int64)
    scaled = scale_sums(acc, significand, shift, operands.is_wide) + zero_point_of(operands.ofm)
    lowest, highest = clamp_range(operands.ofm.quantisation, operands.ofm.dtype, activation)
    return np.clip(scaled, lowest, highest).astype(operands.ofm.dtype.numpy)


def _scales(operands: _Operands) -> tuple[float, ...]:
    return output_factors(operands.kind, operands.ifm, operands.weights, operands.ofm)


def _weight_zero_point(operands: _Operands) -> int:
    """Convolutions with int8 weights are symmetric by specification: the kernels ignore a stored zero point."""
    if operands.kind != "FULLY_CONNECTED" and operands.weights.dtype is DType.INT8:
        return 0
    return zero_point_of(operands.weights)


def conv_2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CONV_2D: weights (output channels, kernel height, kernel width, input channels per group)."""
    attrs = op.attributes(ConvAttrs)
    operands = _operands(graph, op, inputs)
    met = seen(attrs.window, *operands.x.shape[1:3])
    if met.nothing:
        return _finish(operands, np.zeros(operands.ofm.shape, np.int64), attrs.activation)
    x = met.of(operands.x).astype(np.float64) - zero_point_of(operands.ifm)
    w = operands.w[:, met.rows, met.columns].astype(np.float64) - _weight_zero_point(operands)
    padded = pad_spatial(x, met.window, 0)
    groups = padded.shape[3] // w.shape[3]
    xs, ws = np.split(padded, groups, axis=3), np.split(w, groups, axis=0)
    acc = np.concatenate([correlate(a, b, met.window) for a, b in zip(xs, ws, strict=True)], axis=3)
    return _finish(operands, acc.astype(np.int64), attrs.activation)


def depthwise_conv_2d(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """DEPTHWISE_CONV_2D: weights (1, kernel height, kernel width, output channels).

    Output channel c reads input channel c // depth_multiplier.
    """
    attrs = op.attributes(ConvAttrs)
    operands = _operands(graph, op, inputs)
    kind = np.int64 if operands.ifm.dtype is DType.INT16 else np.int32
    met = seen(attrs.window, *operands.x.shape[1:3])
    if met.nothing:
        return _finish(operands, np.zeros(operands.ofm.shape, np.int64), attrs.activation)
    x = met.of(operands.x).astype(kind) - kind(zero_point_of(operands.ifm))
    w = operands.w[:, met.rows, met.columns].astype(kind) - kind(_weight_zero_point(operands))
    multiplier = w.shape[3] // x.shape[3]
    if multiplier > 1:
        x = np.repeat(x, multiplier, axis=3)
    window = met.window
    padded = pad_spatial(x, window, 0)
    rows, columns = output_size(padded.shape, window)
    acc = np.zeros((x.shape[0], rows, columns, w.shape[3]), dtype=kind)
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            acc += tap(padded, window, ky, kx) * w[0, ky, kx]
    return _finish(operands, acc.astype(np.int64), attrs.activation)


def transpose_conv(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TRANSPOSE_CONV: weights (output channels, kernel height, kernel width, input channels).

    Every input pixel adds its products to the outputs under the kernel; what falls outside is lost.
    """
    attrs = op.attributes(TransposeConvAttrs)
    operands = _operands(graph, op, inputs)
    window, (height, width) = attrs.window, attrs.size
    x = operands.x.astype(np.float64) - zero_point_of(operands.ifm)
    w = operands.w.astype(np.float64) - _weight_zero_point(operands)
    batch, rows, columns, _ = x.shape
    down, right = window.stride_h, window.stride_w
    reach = ((rows - 1) * down + window.kernel_h, (columns - 1) * right + window.kernel_w)
    reach = (max(reach[0], window.pad_top + height), max(reach[1], window.pad_left + width))
    acc = np.zeros((batch, *reach, w.shape[0]))
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            there = (slice(ky, ky + (rows - 1) * down + 1, down), slice(kx, kx + (columns - 1) * right + 1, right))
            acc[:, there[0], there[1]] += x @ w[:, ky, kx].T
    kept = acc[:, window.pad_top : window.pad_top + height, window.pad_left : window.pad_left + width]
    return _finish(operands, kept.astype(np.int64), attrs.activation)


def fully_connected(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """FULLY_CONNECTED: weights (outputs, inputs); the input is flattened to rows of `inputs` elements.

    Rounds twice like every other operator, as TensorFlow Lite Micro does; LiteRT 2 rounds once here, and is the rule
    for uint8, of which Micro has no kernel.
    """
    attrs = op.attributes(FullyConnectedAttrs)
    operands = _operands(graph, op, inputs)
    w = operands.w.astype(np.float64) - _weight_zero_point(operands)
    x = operands.x.reshape(-1, w.shape[-1]).astype(np.float64) - zero_point_of(operands.ifm)
    acc = (x @ w.T).astype(np.int64)
    if operands.ifm.dtype is DType.UINT8:
        return _finish_once(operands, acc, attrs.activation)
    return _finish(operands, acc, attrs.activation)


def _finish_once(operands: _Operands, acc: Int64, activation: Activation) -> Array:
    """As `_finish`, for a real factor applied in double and rounded once."""
    real, *others = _scales(operands)
    if others:
        raise NoKernelResult("its uint8 weights have a scale per channel")
    scaled = multiply_once(wrap(acc if operands.bias is None else acc + operands.bias), real)
    lowest, highest = clamp_range(operands.ofm.quantisation, operands.ofm.dtype, activation)
    return np.clip(scaled + zero_point_of(operands.ofm), lowest, highest).astype(operands.ofm.dtype.numpy)


WEIGHTED_MEANINGS: Mapping[str, ReferenceKernel] = {
    "CONV_2D": ReferenceKernel(conv_2d, weighed, SIGNED),
    "DEPTHWISE_CONV_2D": ReferenceKernel(depthwise_conv_2d, weighed, SIGNED),
    "FULLY_CONNECTED": ReferenceKernel(fully_connected, weighed, SIGNED),
    "TRANSPOSE_CONV": ReferenceKernel(transpose_conv, weighed, INT8),
}
