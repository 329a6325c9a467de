"""Reference semantics of LOG_SOFTMAX of 8 bits: the logarithm of a sum of exponentials, in 32-bit fixed point.

Owns the logarithm after TFLite's reference kernels. Qm.n below: n fraction bits in a 32-bit word; all arrays are int64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...ir import Array, Graph, Operator
from .fixed_point import INT32_MIN, Int64, NoKernelResult, divide_by_power, high_mul, multiply, saturate
from .formulas import scale_of, significand_and_shift
from .meaning import INT8, Inputs, ReferenceKernel, eight_bit, given
from .softmax import exp_of_negative, reciprocal_of_one_plus

_DIFF_INTEGER_BITS = 5  # differences to the maximum, and logarithms, are Q5.26
_SUM_INTEGER_BITS = 12  # sums of exponentials are Q12.19
_OUTPUT_INTEGER_BITS = 4
_WIDE_INTEGER_BITS = 6  # logarithms on their way are Q6.25

# All Q0.31.
_LOG_2 = 1488522236
_ROOT_HALF = 1518500250
_FOURTH_ROOT_HALF = 1805811301
_QUARTER = 1 << 29
_NUMERATOR = 117049297
_SQUARE, _OFFSET, _SLOPE = 127690142, 1057819769, 638450708


def _zeros(x: Int64) -> Int64:
    """Leading zeros of positive 32-bit numbers."""
    return 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)


def logarithm(total: Int64) -> Int64:
    """The natural logarithm in Q5.26 of 1 or more in Q12.19."""
    zeros, turned = _zeros(total), high_mul(total, _ROOT_HALF)
    headroom = _zeros(turned) - 1
    first = saturate(high_mul(total << (zeros - 1), _ROOT_HALF) << 1)
    r = np.minimum(first, saturate(total << headroom))
    fraction_bits = 31 - _WIDE_INTEGER_BITS
    quarter = _QUARTER >> _WIDE_INTEGER_BITS
    power = np.maximum(
        ((_SUM_INTEGER_BITS - zeros) << fraction_bits) + quarter,
        ((_SUM_INTEGER_BITS - headroom) << fraction_bits) - quarter,
    )
    p, q = (r + _FOURTH_ROOT_HALF + 1) >> 1, 2 * (r - _FOURTH_ROOT_HALF)
    square = high_mul(q, q)
    numerator = high_mul(q, r) + high_mul(high_mul(q, square), _NUMERATOR)
    denominator = high_mul(p, _OFFSET + q + high_mul(square, _SQUARE)) + high_mul(q, _SLOPE)
    scaled = high_mul(divide_by_power(numerator, _WIDE_INTEGER_BITS), reciprocal_of_one_plus(denominator))
    return saturate((high_mul(power, _LOG_2) + scaled) << 1)


def log_softmax(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """LOG_SOFTMAX over the last axis; the output's units are 1/16 below the largest value of its type.

    Raises `NoKernelResult` for a scale so small that kernels have no factor for it.
    """
    ifm, ofm = graph.read(op), graph.made(op)
    x = given(inputs).astype(np.int64)
    real = min(scale_of(ifm) * (1 << (31 - _DIFF_INTEGER_BITS)), (1 << 31) - 1.0)
    if real <= 1.0:
        raise NoKernelResult(f"a factor of {real:g} for its differences, which kernels define above 1")
    significand, shift = significand_and_shift(real)
    diff = x - x.max(axis=-1, keepdims=True)
    furthest = -math.floor(((1 << _DIFF_INTEGER_BITS) - 1) * (1 << (31 - _DIFF_INTEGER_BITS)) / 2.0**shift)
    near = diff >= furthest
    scaled = multiply(np.where(near, diff, 0), significand, shift)
    exps = divide_by_power(exp_of_negative(scaled), _SUM_INTEGER_BITS)
    total = np.where(near, exps, 0).sum(axis=-1, keepdims=True)
    log = logarithm(total)
    reverse, right = significand_and_shift((1 << (31 - shift)) / significand)
    least = np.maximum(furthest - 1, multiply(log + INT32_MIN, reverse, right))
    highest = ofm.dtype.limits[1]
    units = divide_by_power(scaled - log, 31 - _DIFF_INTEGER_BITS - _OUTPUT_INTEGER_BITS) + highest
    kept = np.where(diff > least, units, ofm.dtype.limits[0])
    return np.clip(kept, *ofm.dtype.limits).astype(ofm.dtype.numpy)


LOG_SOFTMAX_MEANINGS: Mapping[str, ReferenceKernel] = {"LOG_SOFTMAX": ReferenceKernel(log_softmax, eight_bit, INT8)}
