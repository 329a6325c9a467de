"""Reference semantics of the operators that work element by element: ADD, QUANTIZE, DEQUANTIZE and the RELU family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import Activation, AddAttrs, DType, Graph, Operator
from ..quantised import activation_range, multiplier_and_shift, scale_of, zero_point_of
from .fixed_point import multiply

Array = npt.NDArray[np.generic]

ADD_LEFT_SHIFT = 20
"""Bits of headroom that ADD gives both of its 8-bit inputs before it scales them."""

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
        raised = (cast(Array, value).astype(np.int64) - zero_point_of(tensor)) << ADD_LEFT_SHIFT
        total = total + multiply(raised, *multiplier_and_shift(scale_of(tensor) / twice_max))
    scaled = multiply(total, *multiplier_and_shift(twice_max / ((1 << ADD_LEFT_SHIFT) * scale_of(ofm))))
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, attrs.activation)
    return np.clip(scaled + zero_point_of(ofm), lowest, highest).astype(ofm.dtype.numpy)


def quantize(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """QUANTIZE from one integer quantisation to another; the ratio of the scales is taken in double."""
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    x = cast(Array, inputs[0])
    if ifm.dtype is DType.FLOAT32:
        return _quantize_float(x, scale_of(ofm), zero_point_of(ofm), ofm.dtype)
    centred = x.astype(np.int64) - zero_point_of(ifm)
    scaled = multiply(centred, *multiplier_and_shift(scale_of(ifm) / scale_of(ofm))) + zero_point_of(ofm)
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)


def _quantize_float(x: Array, scale: float, zero_point: int, dtype: DType) -> Array:
    quotient = x.astype(np.float32) / np.float32(scale)
    rounded = np.copysign(np.floor(np.abs(quotient.astype(np.float64)) + 0.5), quotient) + zero_point
    stored: Array = np.clip(rounded, *dtype.limits).astype(dtype.numpy)
    return stored


def dequantize(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """DEQUANTIZE to float32; the product is taken in double."""
    ifm = graph.tensors[cast(int, op.inputs[0])]
    centred = cast(Array, inputs[0]).astype(np.int64) - zero_point_of(ifm)
    return (scale_of(ifm) * centred.astype(np.float64)).astype(np.float32)


def relu(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """RELU and its kin as operators of their own; the ratio of the scales is taken in float32."""
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    centred = cast(Array, inputs[0]).astype(np.int64) - zero_point_of(ifm)
    scaled = multiply(centred, *multiplier_and_shift(ratio)) + zero_point_of(ofm)
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, _RELU_KINDS[op.kind])
    return np.clip(scaled, lowest, highest).astype(ofm.dtype.numpy)
