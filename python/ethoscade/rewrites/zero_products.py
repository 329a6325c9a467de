"""fold_zero_product: a MUL by nothing is zero whatever the other operand is, so its output is a constant.

Nothing is a constant that holds its zero point alone, or a factor below 2^-32, which kernels take for 0.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..ir import QUANTISED, ArithmeticAttrs, DType, Graph, Operator, Tensor
from ..ir.quantised import activation_range, multiplier_and_shift, scale_of, zero_point_of
from .draft import Draft, OnNpu

# Read as a single number by operators of two operands on the NPU; for all others the bytes are stored.
_MAX_STORED_ELEMENTS = 256
_READ_AS_A_NUMBER = ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB")


def fold_zero_product(graph: Graph, on_npu: OnNpu) -> Graph:
    """Replace every product with nothing by its zero, unless it is a network output."""
    draft = Draft(graph)
    for operator in graph.operators:
        if operator.opaque is not None or operator.kind != "MUL" or not _is_zero(graph, operator):
            continue
        result = operator.outputs[0]
        if draft.is_output(result) or not _is_cheap(graph, draft, result, on_npu):
            continue
        ofm = graph.tensors[result]
        zero = np.full(ofm.shape, _zero(operator, ofm), ofm.dtype.numpy)
        zero.flags.writeable = False
        draft.set_constant(result, replace(ofm, data=zero))
    return draft.finish()


def _is_zero(graph: Graph, operator: Operator) -> bool:
    a, b, ofm = graph.read(operator), graph.read(operator, 1), graph.made(operator)
    if ofm.dtype is DType.INT32:
        return any(t.data is not None and not t.data.any() for t in (a, b))
    if ofm.dtype not in QUANTISED or any(t.dtype is not ofm.dtype or t.quantisation is None for t in (a, b, ofm)):
        return False
    if any(t.data is not None and (t.data == zero_point_of(t)).all() for t in (a, b)):
        return True
    with np.errstate(under="ignore", over="ignore", invalid="ignore", divide="ignore"):
        factor = float(np.float32(scale_of(a)) * np.float32(scale_of(b)) / np.float32(scale_of(ofm)))
    return math.isfinite(factor) and multiplier_and_shift(factor)[0] == 0


def _zero(operator: Operator, ofm: Tensor) -> int:
    """The stored zero, between the bounds of the activation; of int32 every activation lets 0 through."""
    if ofm.dtype is DType.INT32:
        return 0
    activation = operator.attributes(ArithmeticAttrs).activation
    lowest, highest = activation_range(ofm.quantisation, ofm.dtype, activation)
    return min(max(zero_point_of(ofm), lowest), highest)


def _is_cheap(graph: Graph, draft: Draft, result: int, on_npu: OnNpu) -> bool:
    """Whether no long row of equal bytes has to be stored for its readers."""
    if math.prod(graph.tensors[result].shape) <= _MAX_STORED_ELEMENTS:
        return True
    readers = [graph.operators[index] for index in draft.readers(result)]
    return all(op.kind in _READ_AS_A_NUMBER and on_npu(graph, op) for op in readers)
