"""Real factors as the NPU takes them: a multiplier and a shift for results, for one or both operands of a sum.

Owns the formulas (Arm's, `ethosu.vela.scaling`), in doubles. Which of them a kernel needs is `registers`' matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..lowering.npu import OperandScales

Factor = tuple[int, int]
"""Multiplier and right shift."""

_UNIT_SHIFT = 12
_UNIT = 3 << _UNIT_SHIFT
"""What TANH and SIGMOID expect of one, 3 * 2^12."""
_MOST_SHIFT = 63


def factor_of(real: float) -> Factor:
    """The multiplier of 31 bits and the shift that are nearest to a positive number; (0, 16) beyond all shifts."""
    significand, exponent = math.frexp(real)
    shift = 31 - exponent
    return (_nearest(significand * (1 << 31)), shift) if 0 <= shift <= _MOST_SHIFT else (0, 16)


def mean_of(elements: int, spare_bits: int = 0) -> Factor:
    """The factor of a mean of so many elements, rounded so that sums of 8 and 16 bits come out right."""
    _, log2 = math.frexp(elements - 1)
    shift = 31 - spare_bits + log2
    return ((1 << shift) + (1 << log2)) // elements, shift


def of_curve(scale: float, elements: int, is_tanh: bool, is_short: bool) -> Factor:
    """The factor of a pool of `elements` whose results, of scale `scale`, go through TANH or SIGMOID."""
    rescale = _UNIT * scale
    if not is_short:
        multiplier, shift = mean_of(elements, math.ceil(rescale).bit_length() + 1)
        return _nearest(multiplier * rescale), shift
    power = math.log2(scale)
    left = round(power) + _UNIT_SHIFT
    if abs(power - round(power)) < 0.001 and left in ((0, 1) if is_tanh else (0,)):
        return 3 << left, 0
    shift = 0
    while rescale <= 32767 / 2 and shift <= 30:
        shift, rescale = shift + 1, 2 * rescale
    return int(rescale), shift


class SumFactors(NamedTuple):
    """How a sum is made: the first operand's factor, the second's multiplier, the result's factor.

    `rescaled` tells which operand alone is rescaled: 1 the first, 2 the second, 0 both or neither.
    """

    first: Factor
    second: int
    result: Factor
    rescaled: int


def of_sum(scales: OperandScales, bits: int, is_curve: bool, is_swapped: bool) -> SumFactors:
    """The factors of a sum of operands of so many bits; `is_curve` says that it goes through TANH or SIGMOID."""
    result = 1 / _UNIT if is_curve else scales.result
    if scales.first == scales.second:
        first, second, (multiplier, shift) = _simple(scales.first, scales.second, result, 16)
        if bits == 16:
            # Rounded twice, like operands of different scales.
            return SumFactors((int(first // 2), 0), int(second // 2), (multiplier, shift - 1), 0)
        if multiplier & 0xFFF == 0:
            return SumFactors((int(first), 0), int(second), (multiplier, shift), 0)
    least, most = sorted((scales.first, scales.second))
    smaller, _, back = _simple(least, most, result, 20 if bits == 8 else 15)
    # The operand of the smaller scale is rescaled; swapped operands are counted the other way round.
    return SumFactors(factor_of(smaller), 0, back, 1 if (scales.first < scales.second) is not is_swapped else 2)


def _simple(first: float, second: float, result: float, shift: int) -> tuple[float, float, Factor]:
    """Both operands on half of the larger scale, raised by `shift` bits, and what takes the result back."""
    twice = 2 * max(first, second)
    operands = first * (1 << shift) / twice, second * (1 << shift) / twice
    return *operands, factor_of(twice / (result * (1 << shift)))


def _nearest(value: float) -> int:
    """Halves away from zero; for what is not negative."""
    return math.trunc(value + 0.5)
