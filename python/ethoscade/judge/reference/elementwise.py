"""Reference semantics of the operators that work element by element: ADD, QUANTIZE, DEQUANTIZE and the RELU family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from ...errors import UnsupportedOperatorError
from ...ir import Activation, AddAttrs, Array, DType, Graph, Operator, Tensor
from ...quantised import (
    ADD_HEADROOM_BITS,
    MAX_LEFT_SHIFT,
    activation_range,
    multiplier_and_shift,
    real_bounds,
    scale_of,
    zero_point_of,
)
from .fixed_point import multiply

_RELU_KINDS = {"RELU": Activation.RELU, "RELU6": Activation.RELU6, "RELU_N1_TO_1": Activation.RELU_N1_TO_1}


def add(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """ADD of two 8-bit tensors with NumPy's broadcasting.

    Both inputs are brought to the scale 2 * max(input scales) / 2**20, added, and the sum scaled to the output.
    """
    attrs = cast(AddAttrs, op.attrs)
    ofm = graph.tensors[op.outputs[0]]
    tensors = [graph.tensors[cast(int, t)] for t in op.inputs[:2]]
    twice_max = 2.0 * max(scale_of(t) for t in tensors)
    total = np.zeros((), dtype=np.int64)
    for tensor, value in zip(tensors, inputs, strict=False):
        raised = (cast(Array, value).astype(np.int64) - zero_point_of(tensor)) << ADD_HEADROOM_BITS
        total = total + multiply(raised, *multiplier_and_shift(scale_of(tensor) / twice_max))
    scaled = multiply(total, *multiplier_and_shift(twice_max / ((1 << ADD_HEADROOM_BITS) * scale_of(ofm))))
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, attrs.activation)
    return np.clip(scaled + zero_point_of(ofm), lowest, highest).astype(ofm.dtype.numpy)


def quantize(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """QUANTIZE from one integer quantisation, or from float32, to another; the ratio of the scales is taken in double.

    Raises `UnsupportedOperatorError` for types that no kernel quantises, or scales whose ratio none defines.
    """
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    x = cast(Array, inputs[0])
    if ifm.dtype is DType.FLOAT32 and ofm.dtype.is_integer:
        return _quantize_float(x, scale_of(ofm), zero_point_of(ofm), ofm.dtype)
    _require(op, ifm, ofm, ifm.dtype.is_integer and ofm.dtype.is_integer)
    centred = x.astype(np.int64) - zero_point_of(ifm)
    scaled = multiply(centred, *_factor(op, scale_of(ifm) / scale_of(ofm))) + zero_point_of(ofm)
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)


def _quantize_float(x: Array, scale: float, zero_point: int, dtype: DType) -> Array:
    quotient = x.astype(np.float32) / np.float32(scale)
    rounded = np.copysign(np.floor(np.abs(quotient.astype(np.float64)) + 0.5), quotient) + zero_point
    stored: Array = np.clip(rounded, *dtype.limits).astype(dtype.numpy)
    return stored


def dequantize(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """DEQUANTIZE of integers, or of float16, to float32; the product is taken in double.

    Raises `UnsupportedOperatorError` for other types.
    """
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    x = cast(Array, inputs[0])
    known = ifm.dtype.is_integer or ifm.dtype is DType.FLOAT16
    _require(op, ifm, ofm, known and ofm.dtype is DType.FLOAT32)
    if ifm.dtype is DType.FLOAT16:
        return x.astype(np.float32)
    centred = x.astype(np.int64) - zero_point_of(ifm)
    return (scale_of(ifm) * centred.astype(np.float64)).astype(np.float32)


def relu(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """RELU and its kin as operators of their own, of integers (the ratio of the scales is taken in float32) or float32.

    Raises `UnsupportedOperatorError` for other types, or scales whose ratio no kernel defines.
    """
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    x, activation = cast(Array, inputs[0]), _RELU_KINDS[op.kind]
    if ifm.dtype is ofm.dtype is DType.FLOAT32:
        lower, upper = real_bounds(activation)
        real: Array = np.clip(x, lower, upper)
        return real
    _require(op, ifm, ofm, ifm.dtype.is_integer and ofm.dtype.is_integer)
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    centred = x.astype(np.int64) - zero_point_of(ifm)
    scaled = multiply(centred, *_factor(op, ratio)) + zero_point_of(ofm)
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, activation)
    return np.clip(scaled, lowest, highest).astype(ofm.dtype.numpy)


def _require(op: Operator, ifm: Tensor, ofm: Tensor, known: bool) -> None:
    if not known:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) turns {ifm.dtype.value} into {ofm.dtype.value}, which no kernel does",
            operator=op.name,
            constraint="element types that a kernel knows",
        )


def _factor(op: Operator, real: float) -> tuple[int, int]:
    found = multiplier_and_shift(real) if math.isfinite(real) else (0, MAX_LEFT_SHIFT + 1)
    if found[1] > MAX_LEFT_SHIFT:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) multiplies by {real:g}; kernels are defined below 2^{MAX_LEFT_SHIFT}",
            operator=op.name,
            constraint=f"a factor below 2^{MAX_LEFT_SHIFT}",
        )
    return found
