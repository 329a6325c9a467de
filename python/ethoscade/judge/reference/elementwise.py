"""Reference semantics of the operators that work element by element: ADD, QUANTIZE, DEQUANTIZE and the RELU family."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...errors import UnsupportedOperatorError
from ...ir import AddAttrs, Array, DType, Graph, Operator, TableAttrs, Tensor
from ...ir.operators import ACTIVATION_OPERATORS
from .binary import words
from .fixed_point import NoKernelResult, multiply
from .formulas import (
    HEADROOM_BITS,
    HEADROOM_BITS_16,
    LARGEST_SHIFT,
    bounds_of,
    clamp_range,
    scale_of,
    significand_and_shift,
    zero_point_of,
)
from .meaning import INT8, SIGNED, Inputs, ReferenceKernel, anything, given, quantised, quantised_or_words


def add(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """ADD of two tensors with NumPy's broadcasting.

    Both inputs are brought to the scale 2 * max(input scales) / 2**20, added, and the sum scaled to the output; 2**15
    for int16. Int32 is added unscaled.
    """
    attrs = op.attributes(AddAttrs)
    ofm = graph.made(op)
    if ofm.dtype is DType.INT32:
        return words(np.add(given(inputs), given(inputs, 1)), attrs.activation)
    headroom = HEADROOM_BITS_16 if ofm.dtype is DType.INT16 else HEADROOM_BITS
    tensors = [graph.read(op, place) for place in range(2)]
    twice_max = 2.0 * max(scale_of(t) for t in tensors)
    total = np.zeros((), dtype=np.int64)
    for place, tensor in enumerate(tensors):
        raised = (given(inputs, place).astype(np.int64) - zero_point_of(tensor)) << headroom
        total = total + multiply(raised, *significand_and_shift(scale_of(tensor) / twice_max))
    scaled = multiply(total, *significand_and_shift(twice_max / ((1 << headroom) * scale_of(ofm))))
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, attrs.activation)
    return np.clip(scaled + zero_point_of(ofm), lowest, highest).astype(ofm.dtype.numpy)


def quantize(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """QUANTIZE from one integer quantisation, or from float32, to another; the ratio of the scales is taken in double.

    One that a rule gave a table looks its results up there.
    Raises `UnsupportedOperatorError` for types that no kernel quantises, or scales whose ratio none defines, and
    `NoKernelResult` for an output's scale of zero or below.
    """
    ifm, ofm = graph.read(op), graph.made(op)
    x = given(inputs)
    if isinstance(op.attrs, TableAttrs):
        return np.array(op.attrs.results, ofm.dtype.numpy)[x.astype(np.int64) - ifm.dtype.limits[0]]
    if scale_of(ofm) <= 0:
        raise NoKernelResult(f"its output has scale {scale_of(ofm):g}, by which kernels divide")
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


def dequantize(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """DEQUANTIZE of integers, or of float16, to float32; the product is taken in double.

    Raises `UnsupportedOperatorError` for other types.
    """
    ifm, ofm = graph.read(op), graph.made(op)
    x = given(inputs)
    known = ifm.dtype.is_integer or ifm.dtype is DType.FLOAT16
    _require(op, ifm, ofm, known and ofm.dtype is DType.FLOAT32)
    if ifm.dtype is DType.FLOAT16:
        return x.astype(np.float32)
    centred = x.astype(np.int64) - zero_point_of(ifm)
    return (scale_of(ifm) * centred.astype(np.float64)).astype(np.float32)


def relu(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RELU and its kin as operators of their own, of integers (the ratio of the scales is taken in float32) or float32.

    Raises `UnsupportedOperatorError` for other types, or scales whose ratio no kernel defines.
    """
    ifm, ofm = graph.read(op), graph.made(op)
    x, activation = given(inputs), ACTIVATION_OPERATORS[op.kind]
    if ifm.dtype is ofm.dtype is DType.FLOAT32:
        lower, upper = bounds_of(activation)
        real: Array = np.clip(x, lower, upper)
        return real
    _require(op, ifm, ofm, ifm.dtype.is_integer and ofm.dtype.is_integer)
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    centred = x.astype(np.int64) - zero_point_of(ifm)
    scaled = multiply(centred, *_factor(op, ratio)) + zero_point_of(ofm)
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, activation)
    return np.clip(scaled, lowest, highest).astype(ofm.dtype.numpy)


def _require(op: Operator, ifm: Tensor, ofm: Tensor, known: bool) -> None:
    if not known:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) turns {ifm.dtype.value} into {ofm.dtype.value}, which no kernel does",
            operator=op.name,
            constraint="element types that a kernel knows",
        )


def _factor(op: Operator, real: float) -> tuple[int, int]:
    found = significand_and_shift(real) if math.isfinite(real) else (0, LARGEST_SHIFT + 1)
    if found[1] > LARGEST_SHIFT:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) multiplies by {real:g}; kernels are defined below 2^{LARGEST_SHIFT}",
            operator=op.name,
            constraint=f"a factor below 2^{LARGEST_SHIFT}",
        )
    return found


def absolute(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """ABS, rescaled; the ratio of the scales is taken in float32."""
    ifm, ofm = graph.read(op), graph.made(op)
    size = np.abs(given(inputs).astype(np.int64) - zero_point_of(ifm))
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    scaled = multiply(size, *_factor(op, ratio)) + zero_point_of(ofm)
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)


ELEMENTWISE_MEANINGS: Mapping[str, ReferenceKernel] = {
    "ABS": ReferenceKernel(absolute, quantised, INT8),
    "ADD": ReferenceKernel(add, quantised_or_words, SIGNED),
    "DEQUANTIZE": ReferenceKernel(dequantize, anything),
    "QUANTIZE": ReferenceKernel(quantize, anything),
    "RELU": ReferenceKernel(relu, anything, INT8),
    "RELU6": ReferenceKernel(relu, anything, INT8),
    "RELU_N1_TO_1": ReferenceKernel(relu, anything),
}
