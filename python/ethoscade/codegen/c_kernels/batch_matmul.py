"""BATCH_MATMUL of integers; sums of int16 have 64 bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...ir import QUANTISED, BatchMatMulAttrs, DType, Graph, Operator
from ...ir.quantised import MAX_WIDE_SHIFT, product_scale, reduced_multiplier_and_shift
from .kernel import Call, CKernel, Operands, arrays, call, factor, kept, quantisation_of, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, BatchMatMulAttrs):
        refuse(operator, operator.opaque or "its attributes are not known")
    left, right, ofm = graph.read(operator), graph.read(operator, 1), graph.made(operator)
    zeros = [quantisation_of(operator, tensor).zero_point for tensor in (left, right, ofm)]
    real, wide = product_scale(left, right, ofm), ofm.dtype is DType.INT16
    multiplier, shift = factor(operator, real)
    if wide:
        multiplier, shift = reduced_multiplier_and_shift(real)
        if shift > MAX_WIDE_SHIFT:
            refuse(operator, f"it multiplies by {real:g}; sums of 64 bits by less than 2^{MAX_WIDE_SHIFT}")
    (rows, depth), columns = left.shape[-2:], right.shape[-2 if attrs.adj_y else -1]
    rows, depth = (depth, rows) if attrs.adj_x else (rows, depth)
    batches = ofm.shape[:-2]
    steps = (*((1, rows) if attrs.adj_x else (depth, 1)), *((1, depth) if attrs.adj_y else (columns, 1)))
    fixed = {
        "shape": (math.prod(batches), rows, depth, columns),
        "left_starts": _starts(left.shape, batches),
        "right_starts": _starts(right.shape, batches),
        "steps": steps,
        "stage": (*zeros, *ofm.dtype.limits),
    }
    function = f"batch_matmul_{ofm.dtype.value}_{64 if wide else 32}"
    pointers = f"{operands.source(operator.input(0))}, {operands.source(operator.input(1))}"
    text = (
        f"{arrays(fixed)}{function}({pointers}, {operands.target(operator.outputs[0])}, "
        f"{', '.join(fixed)}, {multiplier}, {shift});"
    )
    return call("batch_matmul.c", function, text, TYPE=ofm.dtype, SUM="64" if wide else "32")


def _starts(shape: Sequence[int], batches: Sequence[int]) -> list[int]:
    """Where the matrices of an operand begin, in elements, for each product in turn."""
    own = (*(1,) * (len(batches) - len(shape) + 2), *shape[:-2])
    matrix = shape[-2] * shape[-1]
    strides = [math.prod(own[d + 1 :]) * matrix if own[d] > 1 else 0 for d in range(len(own))]
    places = itertools.product(*(range(size) for size in batches))
    return [sum(i * stride for i, stride in zip(place, strides, strict=True)) for place in places]


BATCH_MATMUL = CKernel(("BATCH_MATMUL",), _write, kept(*QUANTISED))
