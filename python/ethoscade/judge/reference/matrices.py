"""Reference semantics of BATCH_MATMUL.

Owns the product of matrices of stored values, of 8 and of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Array, BatchMatMulAttrs, DType, Graph, Operator
from .fixed_point import scale_sums
from .formulas import clamp_range, scale_of, significand_and_shift, zero_point_of
from .meaning import INT8, Inputs, ReferenceKernel, given, quantised


def batch_matmul(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """BATCH_MATMUL: sums of products beyond the zero points, of int16 in 64 bits, and of a bias where there is one.

    The product of the operands' scales is rounded to float32. Micro's kernel of int16 takes it in double, which makes
    another factor of 15 bits of some.
    """
    attrs, ofm = op.attributes(BatchMatMulAttrs), graph.made(op)
    left, right = (
        (given(inputs, place).astype(np.int64) - zero_point_of(graph.read(op, place))).swapaxes(-1, -1 - turned)
        for place, turned in ((0, attrs.adj_x), (1, attrs.adj_y))
    )
    sums = left @ right + (given(inputs, 2).astype(np.int64) if op.inputs[2:] else 0)
    together = np.float32(scale_of(graph.read(op))) * np.float32(scale_of(graph.read(op, 1)))
    significand, shift = significand_and_shift(float(together) / scale_of(ofm))
    scaled = scale_sums(sums, significand, shift, ofm.dtype is DType.INT16)
    limits = clamp_range(ofm.quantisation, ofm.dtype, attrs.activation)
    return np.clip(scaled + zero_point_of(ofm), *limits).astype(ofm.dtype.numpy)


MATRIX_MEANINGS: Mapping[str, ReferenceKernel] = {"BATCH_MATMUL": ReferenceKernel(batch_matmul, quantised, INT8)}
