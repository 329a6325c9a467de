"""The NPU's numeric limits, and the arithmetic of its scales.

Owns the numbers (Ethos-U55/U65 register widths, as Arm's Vela enforces them). How a limit is worded and checked is
`constraints`' matter, which of them an operator has its family's.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..ir import DType
from ..ir.quantised import (
    MAX_LEFT_SHIFT,
    MAX_WIDE_SHIFT,
    multiplier_and_shift,
    multipliers_and_shifts,
    reduced_multiplier_and_shift,
    reduced_multipliers_and_shifts,
)

MAX_DIMENSION = 65536
MAX_STRIDE = 3
MAX_DILATION = 2
MAX_KERNEL_ROWS = 64
MAX_KERNEL_ELEMENTS = 4096
MAX_RANK = 4
MAX_POOL_ROWS = 256
MAX_POOL_ELEMENTS = 65536
MAX_PADDED_AVERAGE = 8
MAX_PAD_BEFORE = 127
MAX_PAD_AFTER = 128
MAX_BIAS = (1 << 39) - 1
MAX_WEIGHT_SUM = 127 * 65536
"""Largest sum of |weight| behind one output: times 255 it stays inside the 32-bit accumulator."""

MAX_ACCUMULATOR = (1 << 31) - 1
MAX_WIDE_ACCUMULATOR = (1 << 39) - 1
LARGEST_VALUE = 255
"""Largest distance of an 8-bit value from its zero point."""


def largest_value(dtype: DType) -> int:
    """Largest distance of a value from its zero point, which is 0 for int16."""
    return 1 << 15 if dtype is DType.INT16 else LARGEST_VALUE


def rescale(real: float, largest: int) -> str | None:
    """The factor from accumulator to output fits the NPU's 32-bit scale and 6-bit shift.

    Sums of up to `largest` stay within 32 bits, before and after the factor shifts them left: where they do not,
    kernels of CPUs wrap and the NPU does not.
    """
    _, shift = multiplier_and_shift(real)
    if shift > MAX_LEFT_SHIFT:
        return f"the factor from accumulator to output is {real:g}; it must be below 2^{MAX_LEFT_SHIFT}"
    return left_shift(shift, largest, real)


def left_shift(shift: int, largest: int, real: float) -> str | None:
    """Sums of up to `largest` stay within 32 bits, also where they are shifted left for the factor `real`."""
    shift = max(shift, 0)
    if largest << shift > MAX_ACCUMULATOR:
        shifted = f", shifted left by {shift} for a factor of {real:g}," if shift else ""
        return f"sums of up to {largest}{shifted} leave 32 bits, where no kernel is defined"
    return None


def wide_rescale(real: float, largest: int) -> str | None:
    """Sums of up to `largest` stay within 40 bits, and what a factor of 16 bits (`wide_scale`) makes of them in 32."""
    significand, shift = reduced_multiplier_and_shift(real)
    if shift > MAX_WIDE_SHIFT:
        return f"the factor from accumulator to output is {real:g}; it must be below 2^{MAX_WIDE_SHIFT} with int16"
    if largest > MAX_WIDE_ACCUMULATOR:
        return f"sums of up to {largest} leave the 40 bits that accumulators have"
    if (largest * significand) >> (15 - shift) >= MAX_ACCUMULATOR:
        return f"sums of up to {largest}, times {real:g}, leave 32 bits, where no kernel is defined"
    return None


def wide_scale(real: float) -> tuple[int, int]:
    """As `npu_scale`, with the 16 bits that TFLite multiplies sums of 64 bits by."""
    significand, shift = reduced_multiplier_and_shift(real)
    return significand, 15 - shift


def scaled(values: npt.NDArray[np.int64], significand: int, shift: int) -> npt.NDArray[np.int64]:
    """Values times significand * 2^(shift - 31) with TFLite's two roundings: halves up, then away from zero."""
    high = ((values << max(shift, 0)) * significand + (1 << 30)) >> 31
    right = max(-shift, 0)
    rounded: npt.NDArray[np.int64] = np.sign(high) * ((np.abs(high) + ((1 << right) >> 1)) >> right)
    return rounded


def npu_scale(real: float) -> tuple[int, int]:
    """TFLite's fixed-point `real` as the NPU writes it: real = scale * 2^-shift, shift in 0..63 (see `rescale`)."""
    significand, shift = multiplier_and_shift(real)
    return significand, 31 - shift


def npu_scales(reals: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`npu_scale` of many factors at once: scales and shifts, in their order."""
    significands, shifts = multipliers_and_shifts(reals)
    return significands, 31 - shifts


def wide_scales(reals: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`wide_scale` of many factors at once: scales and shifts, in their order."""
    significands, shifts = reduced_multipliers_and_shifts(reals)
    return significands, 15 - shifts
