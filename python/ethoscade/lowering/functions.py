"""Functions of one 8-bit element, all 256 results of each, by the very arithmetic of TFLite's kernels.

Owns these kernels' integers and float32 numbers, one stored value at a time. What an operation makes of the results is
`lookup`'s matter. Most kernels fill a table with a function of real numbers, in float32; here that function is computed
in double and rounded, as good C libraries do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..ir import GeluAttrs, LeakyReluAttrs, Operator, Tensor
from ..ir.quantised import MAX_LEFT_SHIFT, multiplier_and_shift, quantise_real, scale_of, zero_point_of
from ..util.records import dataclass
from .exponential import divided, high_mul

Stored = Callable[[int], int]
"""From a stored value to the stored result, not clamped."""
RealFunction = Callable[[np.float32], np.float32]
"""A function of real numbers in float32."""

_INT32_END = 1 << 31
_MOST_SHORT_SHIFT = 15
_ONE, _HALF = np.float32(1.0), np.float32(0.5)


class NoResult(ValueError):
    """Some result lies where kernels have none, or devices differ; the message says why."""


def results(op: Operator, ifm: Tensor, ofm: Tensor) -> tuple[int, ...]:
    """The stored results for all stored values of `ifm`, from the smallest up. Precondition: 8 bits, one scale each.

    Values below zero, over which the kernels of RSQRT and SQRT end the inference, have the result of 0. Raises
    `NoResult`.
    """
    depends_on = op.kind, op.attrs, ifm.dtype, ifm.quantisation, ofm.dtype, ofm.quantisation
    return _results(_Asked(depends_on, op, ifm, ofm))


@dataclass(frozen=True)
class _Asked:
    """A question for results, equal to others with the same answer."""

    depends_on: tuple[object, ...]
    op: Operator = field(compare=False)
    ifm: Tensor = field(compare=False)
    ofm: Tensor = field(compare=False)


# Constraints, rewrites and the lowering all ask about an operator.
@lru_cache(maxsize=256)
def _results(asked: _Asked) -> tuple[int, ...]:
    op, ifm, ofm = asked.op, asked.ifm, asked.ofm
    lowest, highest = ifm.dtype.limits
    smallest, largest = ofm.dtype.limits
    with np.errstate(over="ignore", invalid="ignore"):
        stored = FUNCTIONS[op.kind](op, ifm, ofm)
        return tuple(min(max(stored(value), smallest), largest) for value in range(lowest, highest + 1))


def real_function(op: Operator, ofm: Tensor) -> RealFunction | None:
    """The function of reals whose table a kernel fills, if it does so."""
    if op.kind == "GELU":
        return _gelu_approximate if op.attributes(GeluAttrs).approximate else _gelu
    if op.kind == "LOG":
        smallest = np.float32(ofm.dtype.limits[0] - zero_point_of(ofm)) * np.float32(scale_of(ofm))
        return lambda x: _single(math.log, x) if x > 0 else smallest
    return _REALS.get(op.kind)


def rounded(x: np.float32) -> int:
    """The nearest integer, halves away from zero. Raises `NoResult` beyond 32 bits: there devices differ."""
    if not abs(x) < _INT32_END:
        raise NoResult(f"a result of {float(x):g} units does not fit 32 bits, where devices differ")
    return int(math.copysign(math.floor(abs(float(x)) + 0.5), x))


def _of_reals(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    """What a table has that is filled with a function of reals."""
    function, zero, result_zero = real_function(op, ofm), zero_point_of(ifm), zero_point_of(ofm)
    assert function is not None, "kinds of this kernel have a function of reals"
    scale, inverse = np.float32(scale_of(ifm)), _ONE / np.float32(scale_of(ofm))

    lowest, highest = ifm.dtype.limits
    reals = scale * (np.arange(lowest, highest + 1) - zero).astype(np.float32)
    units = np.array([function(real) for real in reals], np.float32) * inverse
    found = _rounded_all(_rounded_all(units).astype(np.float32) + np.float32(result_zero))
    return lambda value: int(found[value - lowest])


def _rounded_all(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """As `rounded`, for all of them."""
    for wrong in x[~(np.abs(x) < _INT32_END)]:
        rounded(wrong)
    wide = x.astype(np.float64)
    found: npt.NDArray[np.float64] = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return found


def _single(function: Callable[[float], float], x: np.float32) -> np.float32:
    try:
        found: np.float32 = np.float32(function(float(x)))
    except OverflowError:
        found = np.float32(np.inf)
    return found


def _sigmoid(x: np.float32) -> np.float32:
    found: np.float32 = _ONE / (_ONE + _single(math.exp, np.float32(-x)))
    return found


def _elu(x: np.float32) -> np.float32:
    below: np.float32 = _single(math.exp, x) - _ONE
    return below if x < 0 else x


def _gelu(x: np.float32) -> np.float32:
    found: np.float32 = _HALF * x * _single(math.erfc, x * np.float32(-math.sqrt(0.5)))
    return found


def _gelu_approximate(x: np.float32) -> np.float32:
    cubic = x + np.float32(0.044715) * x * x * x
    found: np.float32 = _HALF * x * (_ONE + _single(math.tanh, np.float32(math.sqrt(2 / math.pi)) * cubic))
    return found


_REALS: Mapping[str, RealFunction] = {
    "ELU": _elu,
    "EXP": lambda x: _single(math.exp, x),
    "LOGISTIC": _sigmoid,
    "TANH": lambda x: _single(math.tanh, x),
}


def _rescaled(real: float) -> Callable[[int], int]:
    """Multiplication by `real` >= 0, rounded twice. Raises `NoResult` where that leaves 32 bits."""
    significand, shift = multiplier_and_shift(real)
    if shift > MAX_LEFT_SHIFT:
        raise NoResult(f"it multiplies by {real:g}; kernels are defined below 2^{MAX_LEFT_SHIFT}")

    def multiplied(value: int) -> int:
        raised = value << max(shift, 0)
        if not -_INT32_END <= raised < _INT32_END:
            raise NoResult(f"{value}, shifted left by {shift} for a factor of {real:g}, leaves 32 bits")
        return divided(high_mul(raised, significand), max(-shift, 0))

    return multiplied


def _quotient(ifm: Tensor, ofm: Tensor) -> np.float32:
    found: np.float32 = np.float32(scale_of(ifm)) / np.float32(scale_of(ofm))
    return found


def _bounded(lower: float, upper: float | None) -> Callable[[Operator, Tensor, Tensor], Stored]:
    """An activation: the value rescaled and kept between the stored forms of its bounds."""

    def of(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
        assert ofm.quantisation is not None, "functions of 8 bits make quantised results"
        multiplied, zero = _rescaled(float(_quotient(ifm, ofm))), zero_point_of(ifm)
        low = quantise_real(lower, ofm.quantisation)
        high = ofm.dtype.limits[1] if upper is None else quantise_real(upper, ofm.quantisation)
        return lambda value: min(max(multiplied(value - zero) + zero_point_of(ofm), low), high)

    return of


def _leaky_relu(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    alpha = np.float32(op.attributes(LeakyReluAttrs).alpha)
    slope = np.float32(scale_of(ifm)) * alpha / np.float32(scale_of(ofm))
    above, below = _rescaled(float(_quotient(ifm, ofm))), _rescaled(abs(float(slope)))
    # Kernels multiply by factors without a sign: a negative slope turns the rounded product around.
    sign = -1 if slope < 0 else 1
    zero, result_zero = zero_point_of(ifm), zero_point_of(ofm)
    return lambda value: result_zero + (above(value - zero) if value >= zero else sign * below(value - zero))


def _negative(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    """The kernel negates the stored number whatever the scales; the smallest stays what it is."""
    return lambda value: value if value == ifm.dtype.limits[0] else -value


def _hard_swish(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    """In 16 bits: x on a scale 128 times as fine, times relu6(x + 3) / 6 as a number from 0 to 1."""
    fine = np.float32(1 / 128) * np.float32(scale_of(ifm))
    factor, exponent = _of_sixteen_bits(float(fine / np.float32(scale_of(ofm))))
    slope, raised = _of_sixteen_bits(float(fine / np.float32(3 / 32768)))
    if exponent > 0:
        times = scale_of(ifm) / scale_of(ofm)
        raise NoResult(f"its input's scale is {times:g} times its output's; kernels take less than 128 times")
    if min(exponent, raised) < -_MOST_SHORT_SHIFT:
        words = f"{scale_of(ifm):g} is too small a scale of its input, for itself or for {scale_of(ofm):g}"
        raise NoResult(f"{words}: 16-bit numbers would be shifted by {-min(exponent, raised)}")
    zero, result_zero = zero_point_of(ifm), zero_point_of(ofm)

    def stored(value: int) -> int:
        hires = (value - zero) << 7
        gate = hires if raised <= 0 else _short(hires << (raised - 1))
        gate = _high_short(gate, slope)
        gate = _short(gate << 1) if raised > 0 else divided(gate, -raised)
        product = ((gate + (1 << 15)) >> 1) * _high_short(hires, factor)
        # Rounded towards zero, unlike all the rest.
        scaled = product >> 15 if product >= 0 else -(-product >> 15)
        return result_zero + divided(scaled, -exponent)

    return stored


def _of_sixteen_bits(real: float) -> tuple[int, int]:
    significand, shift = multiplier_and_shift(real)
    return 32767 if significand >= 0x7FFF8000 else (significand + (1 << 15)) >> 16, shift


def _short(value: int) -> int:
    return min(max(value, -(1 << 15)), (1 << 15) - 1)


def _high_short(a: int, b: int) -> int:
    """The high half of twice the product of two 16-bit numbers, rounded half up."""
    return _short((a * b + (1 << 14)) >> 15)


_INVERSE_ROOT_BITS = 20


def _rsqrt(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    multiplier = _factor_of(1.0 / float(np.sqrt(np.float32(scale_of(ifm))) * np.float32(scale_of(ofm))))
    zero, result_zero, largest = zero_point_of(ifm), zero_point_of(ofm), ofm.dtype.limits[1]

    def stored(value: int) -> int:
        if value <= zero:
            return largest
        root, right = _inverse_root(value - zero)
        data = _times(1, root, _INVERSE_ROOT_BITS - right)
        return _times(data, multiplier[0], multiplier[1] - _INVERSE_ROOT_BITS) + result_zero

    return stored


def _sqrt(op: Operator, ifm: Tensor, ofm: Tensor) -> Stored:
    """A root in float32, of which the kernel leaves out what is behind the point."""
    scale, made = np.float32(scale_of(ifm)), np.float32(scale_of(ofm))
    zero, result_zero = zero_point_of(ifm), zero_point_of(ofm)

    def stored(value: int) -> int:
        units = np.sqrt(np.float32(max(value - zero, 0)) * scale) / made
        if not units < _INT32_END:
            raise NoResult(f"a result of {float(units):g} units does not fit 32 bits, where devices differ")
        return int(units) + result_zero

    return stored


def _factor_of(real: float) -> tuple[int, int]:
    significand, shift = multiplier_and_shift(real)
    if shift - _INVERSE_ROOT_BITS > 0:
        raise NoResult(f"it multiplies by {real:g}; 2^{_INVERSE_ROOT_BITS} and more leave 32 bits")
    return significand, shift


def _times(value: int, significand: int, shift: int) -> int:
    return divided(high_mul(value << max(shift, 0), significand), max(-shift, 0))


def _inverse_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as significand * 2^(-31 - shift): five Newton steps in Q3.28, then a factor of sqrt(1/2)."""
    if value <= 1:
        return _INT32_END - 1, 0
    pairs = (31 - value.bit_length()) // 2 - 1
    half = divided(value << (2 * pairs) >> 1, 1)
    x = 1 << 28
    for _ in range(5):
        cube = _saturated(high_mul(high_mul(x, x), x) << 6)
        x = _saturated((high_mul((1 << 28) + (1 << 27), x) - high_mul(half, cube)) << 3)
    x, shift = high_mul(x, 1518500250), 11 - pairs
    return (x << -shift, 0) if shift < 0 else (x, shift)


def _saturated(value: int) -> int:
    return min(max(value, -_INT32_END), _INT32_END - 1)


FUNCTIONS: Mapping[str, Callable[[Operator, Tensor, Tensor], Stored]] = {
    **dict.fromkeys(("ELU", "EXP", "GELU", "LOG", "LOGISTIC", "TANH"), _of_reals),
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "NEG": _negative,
    "RELU": _bounded(0.0, None),
    "RELU6": _bounded(0.0, 6.0),
    "RELU_0_TO_1": _bounded(0.0, 1.0),
    "RELU_N1_TO_1": _bounded(-1.0, 1.0),
    "RSQRT": _rsqrt,
    "SQRT": _sqrt,
}
"""By kind, the kernel's arithmetic for an operator and its two tensors."""
