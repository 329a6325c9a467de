"""Integers times a factor: QUANTIZE between them, ABS, LEAKY_RELU, RELU and its kin."""

from __future__ import annotations

import itertools

import numpy as np

from ...ir import EIGHT_BIT, QUANTISED, DType, Graph, LeakyReluAttrs, Operator, TableAttrs, Tensor
from ...ir.operators import ACTIVATION_OPERATORS
from ...ir.quantised import activation_range, quantise_real, scale_of
from .kernel import Call, CKernel, Operands, array, call, data_input, elements, factor, kept, quantisation_of, refuse
from .table import table_call

_INTO = (*QUANTISED, DType.INT32)


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    if isinstance(operator.attrs, TableAttrs):
        return table_call(graph, operator, operands, operator.attrs.results)
    above, below, sign = _factors(operator, source, target)
    zero, result_zero = (quantisation_of(operator, tensor).zero_point for tensor in (source, target))
    if zero and source.dtype is DType.INT32:
        refuse(operator, f"its C kernel takes int32 with the zero point 0; '{source.name}' has {zero}")
    limits = _limits(operator, target)
    stage = array("stage", (zero, result_zero, *limits, *above, *below, sign))
    function = f"rescale_{source.dtype.value}_{target.dtype.value}"
    pointers = f"{operands.source(index)}, {operands.target(result)}, {elements(source)}"
    return call("rescale.c", function, f"{stage}{function}({pointers}, stage);", FROM=source.dtype, INTO=target.dtype)


def _factors(operator: Operator, ifm: Tensor, ofm: Tensor) -> tuple[tuple[int, int], tuple[int, int], int]:
    """Multiplier and shift of what is above the zero point and of what is below, and the sign of its product.

    A negative multiplier rounds the magnitude, as ABS does; the sign turns around what is rounded.
    """
    if operator.kind == "QUANTIZE":
        ratio = scale_of(ifm) / scale_of(ofm)
    else:
        ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    above = factor(operator, ratio)
    if operator.kind == "ABS":
        return above, (-above[0], above[1]), 1
    if operator.kind == "LEAKY_RELU":
        if not isinstance(operator.attrs, LeakyReluAttrs):
            refuse(operator, operator.opaque or "its slope is not known at compile time")
        slope = float(np.float32(scale_of(ifm)) * np.float32(operator.attrs.alpha) / np.float32(scale_of(ofm)))
        return above, factor(operator, abs(slope)), -1 if slope < 0 else 1
    return above, above, 1


def _limits(operator: Operator, ofm: Tensor) -> tuple[int, int]:
    if operator.kind == "RELU_0_TO_1" and ofm.quantisation is not None:
        lowest, highest = (quantise_real(real, ofm.quantisation) for real in (0.0, 1.0))
        least, most = ofm.dtype.limits
        return max(least, lowest), min(most, highest)
    activation = ACTIVATION_OPERATORS.get(operator.kind)
    if activation is None:
        return ofm.dtype.limits
    return activation_range(ofm.quantisation, ofm.dtype, activation)


_PAIRS = tuple(itertools.product(QUANTISED, _INTO))
REQUANTISE = CKernel(("QUANTIZE",), _write, (*_PAIRS, *((DType.INT32, dtype) for dtype in _INTO)))
ACTIVATIONS = CKernel(("ABS", "LEAKY_RELU", "RELU", "RELU6", "RELU_N1_TO_1"), _write, kept(*QUANTISED))
UNIT_RELU = CKernel(("RELU_0_TO_1",), _write, kept(*EIGHT_BIT))
