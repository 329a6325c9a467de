"""Reference semantics of SOFTMAX: of 8 bits by an exponential and a reciprocal in 32-bit fixed point.

Owns the two functions' polynomial and Newton steps, after gemmlowp's fixed-point library as TFLite's reference kernel
uses it. Qm.n below: n fraction bits in a 32-bit word; all arrays are int64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...ir import Array, DType, Graph, Operator, SoftmaxAttrs
from .fixed_point import INT32_MAX, Int64, divide_by_power, high_mul, multiply, saturate
from .formulas import scale_of, significand_and_shift
from .meaning import INT8, Inputs, ReferenceKernel, given, quantised
from .softmax_sixteen import softmax_of_int16

_DIFF_INTEGER_BITS = 5  # the scaled difference to the maximum is Q5.26: -32 .. 0
_SUM_INTEGER_BITS = 12  # the sum of exponentials is Q12.19

# exp(-2**k) in Q0.31 for k = -2 .. 4, multiplied in where the exponent has that bit.
_EXP_OF_POWERS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
_EXP_MINUS_EIGHTH = 1895147668
_ONE_THIRD = 715827883
_48_OVER_17 = 1515870810  # Q2.29, as the next
_MINUS_32_OVER_17 = -1010580540


def _exp_near_zero(a: Int64) -> Int64:
    """exp(a) in Q0.31 for a in [-1/4, 0), Q0.31: the Taylor polynomial of degree 4 about -1/8."""
    x = a + (1 << 28)
    x2 = high_mul(x, x)
    x3 = high_mul(x2, x)
    x4 = high_mul(x2, x2)
    tail = divide_by_power(high_mul(divide_by_power(x4, 2) + x3, _ONE_THIRD) + x2, 1)
    return saturate(_EXP_MINUS_EIGHTH + high_mul(x + tail, _EXP_MINUS_EIGHTH))


def exp_of_negative(a: Int64) -> Int64:
    """exp(a) in Q0.31 for a <= 0 in Q5.26; exp(0) is the largest 32-bit value."""
    quarter = 1 << 24
    within = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(within << _DIFF_INTEGER_BITS)
    quarters = within - a
    for exponent, factor in _EXP_OF_POWERS:
        bit = 1 << (31 - _DIFF_INTEGER_BITS + exponent)
        result = np.where(quarters & bit, high_mul(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def reciprocal_of_one_plus(a: Int64) -> Int64:
    """1 / (1 + a) in Q0.31 for a in [0, 1), Q0.31: three Newton steps on half the denominator."""
    half_denominator = (a + INT32_MAX + 1) >> 1
    x = _48_OVER_17 + high_mul(half_denominator, _MINUS_32_OVER_17)
    for _ in range(3):
        error = (1 << 29) - high_mul(half_denominator, x)
        x = x + saturate(high_mul(x, error) << 2)
    return saturate(x << 1)


def _input_factor(beta: float, scale: float) -> tuple[int, int]:
    """Significand and shift that bring a difference of stored values to Q5.26."""
    real = min(float(np.float32(beta)) * scale * (1 << (31 - _DIFF_INTEGER_BITS)), (1 << 31) - 1.0)
    return significand_and_shift(real)


def softmax(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SOFTMAX over the last axis; of 8 bits the output's scale is 1/256 by TFLite's specification."""
    if graph.read(op).dtype is DType.INT16:
        return softmax_of_int16(graph, op, inputs)
    attrs = op.attributes(SoftmaxAttrs)
    ifm, ofm = graph.read(op), graph.made(op)
    x = given(inputs).astype(np.int64)
    significand, shift = _input_factor(attrs.beta, scale_of(ifm))
    diff = x - x.max(axis=-1, keepdims=True)
    # What lies further below the maximum than Q5.26 reaches counts as nothing.
    furthest = -math.floor(((1 << _DIFF_INTEGER_BITS) - 1) * (1 << (31 - _DIFF_INTEGER_BITS)) / 2.0**shift)
    near = diff >= furthest
    exps = exp_of_negative(multiply(np.where(near, diff, 0), significand, shift))
    total = np.where(near, divide_by_power(exps, _SUM_INTEGER_BITS), 0).sum(axis=-1, keepdims=True)
    headroom = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    scale = reciprocal_of_one_plus((total << headroom) - (1 << 31))
    drop = _SUM_INTEGER_BITS - headroom + 31 - 8 * ofm.dtype.size_bytes
    lowest, highest = ofm.dtype.limits
    result = np.where(near, divide_by_power(high_mul(scale, exps), drop) + lowest, lowest)
    return np.clip(result, lowest, highest).astype(ofm.dtype.numpy)


SOFTMAX_MEANINGS: Mapping[str, ReferenceKernel] = {"SOFTMAX": ReferenceKernel(softmax, quantised, INT8)}
