"""TFLite's formulas from real scales to integers, as the judge has them.

Owns a second copy of what `ir.quantised` has for the compiler, on purpose: a formula that is wrong in one of the two
shows in every comparison. Scales are float32 values held as Python floats; each function says where it rounds to
float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir import Activation, DType, Quantisation, Tensor

Places = tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Where rows or columns lie, and the first and second index between which that is."""

HEADROOM_BITS = 20
"""Bits by which ADD raises both of its 8-bit operands before it scales them."""
HEADROOM_BITS_16 = 15
"""The same of int16."""
LARGEST_SHIFT = 31
"""The largest shift to the left for which kernels are defined."""

_BOUNDS: dict[Activation, tuple[float | None, float | None]] = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}


def bounds_of(activation: Activation) -> tuple[float | None, float | None]:
    """The real numbers between which an activation keeps its result; None where it does not."""
    return _BOUNDS[activation]


def significand_and_shift(real: float) -> tuple[int, int]:
    """`real` >= 0 as significand * 2**(shift - 31), the significand of 31 bits; (0, 0) below 2**-32."""
    fraction, shift = math.frexp(real)
    # The product has at most 53 bits, so adding a half and rounding down rounds halves away from zero.
    significand = math.floor(fraction * 2.0**31 + 0.5)
    if significand == 2**31:
        significand, shift = 2**30, shift + 1
    return (0, 0) if significand == 0 or shift < -31 else (significand, shift)


def stored(value: float, quantisation: Quantisation) -> int:
    """The integer nearest to a real `value`, of halves the one further from zero; the quotient is a float32."""
    steps = float(np.float32(value) / np.float32(quantisation.scale))
    nearest = math.floor(abs(steps) + 0.5)
    return quantisation.zero_point + (nearest if steps >= 0 else -nearest)


def clamp_range(quantisation: Quantisation | None, dtype: DType, activation: Activation) -> tuple[int, int]:
    """Smallest and largest stored value, both inclusive, of an output with a fused `activation`."""
    lowest, highest = dtype.limits
    lower, upper = _BOUNDS[activation]
    if quantisation is None:
        return lowest, highest
    low = lowest if lower is None else max(lowest, stored(lower, quantisation))
    return low, highest if upper is None else min(highest, stored(upper, quantisation))


def scale_of(tensor: Tensor) -> float:
    """The tensor's one scale; 1 without quantisation."""
    return tensor.quantisation.scale if tensor.quantisation else 1.0


def zero_point_of(tensor: Tensor) -> int:
    """The tensor's one zero point; 0 without quantisation."""
    return tensor.quantisation.zero_point if tensor.quantisation else 0


def output_factors(kind: str, ifm: Tensor, weights: Tensor, ofm: Tensor) -> tuple[float, ...]:
    """What accumulators of a weighted operator are multiplied by: one factor, or one for each output channel.

    ifm * weights / ofm in double. uint8 convolutions, and FULLY_CONNECTED of int8 with one scale, take the product of
    the first two in float32.
    """
    single = weights.quantisation.scales if weights.quantisation else (1.0,)
    of_one_scale = len(single) == 1 and ifm.dtype is DType.INT8
    narrow = of_one_scale if kind == "FULLY_CONNECTED" else ifm.dtype is DType.UINT8
    if narrow:
        return tuple(float(np.float32(scale_of(ifm)) * np.float32(one)) / scale_of(ofm) for one in single)
    return tuple(scale_of(ifm) * one / scale_of(ofm) for one in single)


def memory_factors(ifm: Tensor, weights: Tensor, state: Tensor, times: Tensor, ofm: Tensor) -> tuple[float, float]:
    """What SVDF multiplies its two sums by, in double: those that it remembers, and those of what it remembers."""
    kept = scale_of(state)
    return scale_of(ifm) * scale_of(weights) / kept, kept * scale_of(times) / scale_of(ofm)


def nearest_places(extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool) -> tuple[int, ...]:
    """Of which of `extent` rows or columns each of `outputs` is a copy; the places are float32."""
    corners = align_corners and outputs > 1
    step = np.float32(extent - corners) / np.float32(outputs - corners)
    found = []
    for output in range(outputs):
        place = np.float32(output + (0.5 if half_pixel_centers else 0.0)) * step
        found.append(min(math.floor(float(place) + (0.5 if align_corners else 0.0)), extent - 1))
    return tuple(found)


def bilinear_places(extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool) -> tuple[Places, Places]:
    """Where each of `outputs` rows or columns lies among `extent`, in units of 2^-10 and as float32.

    Each with the first and second index between which it is, as the kernels of int8 and of uint8 have them.
    """
    corners = align_corners and outputs > 1
    span, steps = extent - corners, outputs - corners
    ten = (span * 1024 + steps // 2) // steps
    whole = np.arange(outputs, dtype=np.int64) * ten + (ten // 2 - 512 if half_pixel_centers else 0)
    towards_zero = np.trunc(np.stack([whole, whole + 1023]) / 1024).astype(np.int64)
    fixed = (whole, np.maximum(towards_zero[0], 0), np.minimum(towards_zero[1], extent - 1))
    step, half = np.float32(span) / np.float32(steps), np.float32(0.5)
    real = np.arange(outputs, dtype=np.float32)
    real = (real + half) * step - half if half_pixel_centers else real * step
    low, high = np.floor(real).astype(np.int64), np.ceil(real).astype(np.int64)
    return fixed, (real, np.maximum(low, 0), np.minimum(high, extent - 1))
