"""Reference semantics of L2_NORMALIZATION: one over the root of a sum of squares, in 32-bit fixed point.

Owns the Newton steps after TFLite's reference kernels, which use gemmlowp's fixed-point library. Qm.n below: n fraction
bits in a 32-bit word; all arrays are int64.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Array, DType, Graph, Operator
from .fixed_point import INT32_MAX, Int64, NoKernelResult, divide_by_power, high_mul, multiply, saturate, wrap
from .formulas import zero_point_of
from .meaning import INT8, Inputs, ReferenceKernel, eight_bit, given

_ONE = 1 << 28  # Q3.28
_THREE_HALVES = 3 << 27
_HALF_ROOT_OF_TWO = 1518500250  # Q0.31
_STEPS = 5


def inverse_root(total: Int64) -> tuple[Int64, Int64]:
    """One over the root of a sum: a significand below 2^31 and a shift to the right, in units of 2^-31."""
    reduced, shift = total.copy(), np.full(total.shape, 11, np.int64)
    while (large := reduced >= 1 << 29).any():
        reduced, shift = np.where(large, reduced // 4, reduced), shift + large
    bits = np.frexp(np.maximum(reduced, 1).astype(np.float64))[1].astype(np.int64)
    pairs = (31 - bits) // 2 - 1
    half = divide_by_power((reduced << 2 * pairs) >> 1, 1)
    x = np.full(total.shape, _ONE, np.int64)
    for _ in range(_STEPS):
        cube = saturate(high_mul(high_mul(x, x), x) << 6)
        x = saturate((high_mul(x, _THREE_HALVES) - high_mul(half, cube)) << 3)
    x, shift = high_mul(x, _HALF_ROOT_OF_TWO), shift - pairs
    x, shift = x << np.maximum(-shift, 0), np.maximum(shift, 0)
    least = total <= 1
    return np.where(least, INT32_MAX, x), np.where(least, 0, shift)


def l2_normalization(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """L2_NORMALIZATION over the last axis; results are in units of 1/128, whatever the output's scale.

    Kernels of int8 raise by 7 bits together with the root's shift, those of uint8 ahead of it.
    Raises `NoKernelResult` for a sum of squares beyond 32 bits.
    """
    ifm, ofm = graph.read(op), graph.made(op)
    centred = given(inputs).astype(np.int64) - zero_point_of(ifm)
    total = (centred**2).sum(axis=-1, keepdims=True)
    if total.size and total.max() > INT32_MAX:
        raise NoKernelResult(f"a sum of squares of {total.max()}, which leaves 32 bits")
    significand, shift = inverse_root(total)
    lowest, highest = ofm.dtype.limits
    if ifm.dtype is DType.INT8:
        result = multiply(centred, significand, 7 - shift)
    else:
        result = divide_by_power(high_mul(wrap(128 * centred), significand), shift) + 128
    return np.clip(result, lowest, highest).astype(ofm.dtype.numpy)


L2_MEANINGS: Mapping[str, ReferenceKernel] = {"L2_NORMALIZATION": ReferenceKernel(l2_normalization, eight_bit, INT8)}
