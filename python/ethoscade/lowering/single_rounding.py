"""Scales with which the NPU equals a kernel that multiplies in double and rounds once, for every accumulator there is.

Owns the search for such a scale and its proof. LiteRT's FULLY_CONNECTED computes `round(accumulator * real)`, halves
away from zero, with `real` a double; the NPU has 32 bits of scale and, in natural mode, halves towards plus infinity.
Both are step functions of the accumulator, so that they are equal exactly if every step is at the same accumulator.
"""

from __future__ import annotations

import math

from . import limits

_INT32_END = 1 << 31


def undefined(real: float, low: int, high: int) -> str | None:
    """Why `round(accumulator * real)` means nothing for accumulators of `low` to `high`, or None."""
    if low < -_INT32_END or high >= _INT32_END:
        return f"its sums reach {max(-low, high)}; 32 bits hold {_INT32_END - 1}"
    if max(-low, high) * real >= _INT32_END - 1:
        return f"its sums reach {max(-low, high)}, times {real:g} beyond 32 bits, where no reference defines a result"
    return None


def scale(real: float, low: int, high: int, smallest: int, largest: int) -> tuple[int, int] | None:
    """A scale and shift such that natural rounding is exact for all accumulators of `low` to `high`, if there is one.

    `smallest` and `largest` are the inclusive limits of the rounded value; what lies beyond is clamped.
    """
    wanted = [_clipped(_first_rounded(real, value, low, high), low, high) for value in range(smallest + 1, largest + 1)]
    significand, shift = limits.npu_scale(real)
    # A hair above the real factor halves fall away from zero on both sides.
    for candidate in (significand, significand + 1, significand - 1):
        found = (_first_natural(candidate, shift, value, low, high) for value in range(smallest + 1, largest + 1))
        if candidate >= 0 and all(place == step for place, step in zip(found, wanted, strict=True)):
            return candidate, shift
    return None


def _first_rounded(real: float, value: int, low: int, high: int) -> int:
    """The least accumulator that `round(accumulator * real)` takes to `value` or more; roughly, out of the range."""
    edge = value - 0.5
    place = edge / real if real else math.copysign(math.inf, edge)
    if not low - 2 < place < high + 2:
        return low if place < low else high + 1
    found = math.ceil(place)
    # The quotient is a double as well: the product decides.
    while _reaches(found - 1, real, value):
        found -= 1
    while not _reaches(found, real, value):
        found += 1
    return found


def _reaches(accumulator: int, real: float, value: int) -> bool:
    scaled = float(accumulator) * real
    return scaled >= value - 0.5 if value > 0 else scaled > value - 0.5


def _first_natural(significand: int, shift: int, value: int, low: int, high: int) -> int:
    """The least accumulator that the NPU takes to `value` or more."""
    half = (1 << shift) >> 1
    if significand == 0:
        return low if value <= 0 else high + 1
    return _clipped(-((half - (value << shift)) // significand), low, high)


def _clipped(place: int, low: int, high: int) -> int:
    return min(max(place, low), high + 1)
