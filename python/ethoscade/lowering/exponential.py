"""The exponential function of SOFTMAX as a table: what a kernel computes for each distance from the maximum.

Owns gemmlowp's fixed-point exponential, one whole number at a time. Qm.n below: n fraction bits in a 32-bit word.
"""

from __future__ import annotations

import math

import numpy as np

from ..ir.quantised import multiplier_and_shift

DISTANCES = 256
"""8-bit values lie less than so far apart."""

_INTEGER_BITS = 5  # distances are scaled to Q5.26
_FRACTION_BITS = 31 - _INTEGER_BITS
_LARGEST = (1 << 31) - 1
_POWERS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}
"""exp(-2^k) in Q0.31, by k."""

_OF_MINUS_EIGHTH = 1895147668
_THIRD = 715827883


def exponentials(beta: float, scale: float) -> tuple[int, ...]:
    """exp(beta * scale * -distance) in Q0.31 for the distances 0 to 255; 0 for what Q5.26 does not reach."""
    real = min(float(np.float32(beta)) * scale * (1 << _FRACTION_BITS), float(_LARGEST))
    significand, shift = multiplier_and_shift(real)
    furthest = math.floor(((1 << _INTEGER_BITS) - 1) * (1 << _FRACTION_BITS) / 2.0**shift)
    return tuple(
        _exponential(_scaled(-distance, significand, shift)) if distance <= furthest else 0
        for distance in range(DISTANCES)
    )


def high_mul(a: int, b: int) -> int:
    """The high half of twice the product of two 32-bit numbers, rounded half up."""
    return min((a * b + (1 << 30)) >> 31, _LARGEST)


def divided(value: int, exponent: int) -> int:
    """value / 2^exponent, halves away from zero."""
    half = (1 << exponent) >> 1
    return (value + half) >> exponent if value >= 0 else -((half - value) >> exponent)


def _scaled(value: int, significand: int, shift: int) -> int:
    return divided(high_mul(value << max(shift, 0), significand), max(-shift, 0))


def _exponential(a: int) -> int:
    """exp(a) in Q0.31 for a <= 0 in Q5.26."""
    if a == 0:
        return _LARGEST
    quarter = 1 << (_FRACTION_BITS - 2)
    within = a % quarter - quarter
    # The Taylor polynomial of degree 4 about -1/8, then a factor for each binary digit of the quarters left.
    x = (within << _INTEGER_BITS) + (1 << 28)
    square = high_mul(x, x)
    tail = high_mul(divided(high_mul(square, square), 2) + high_mul(square, x), _THIRD) + square
    found = min(_OF_MINUS_EIGHTH + high_mul(x + divided(tail, 1), _OF_MINUS_EIGHTH), _LARGEST)
    for power, factor in _POWERS.items():
        if (within - a) & (1 << (_FRACTION_BITS + power)):
            found = high_mul(found, factor)
    return found
