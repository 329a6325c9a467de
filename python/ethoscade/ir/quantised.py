"""TFLite's formulas from real scales to the integers that kernels compute with.

Owns the fixed-point form of a multiplier, the clamp of a fused activation and the effective scales of the weighted
operators. Knows tensors only through `ir`; runs no operator (that is `reference`) and encodes nothing.

Scales are float32 values held as Python floats. Where TFLite multiplies or divides in float32 and where in double
makes a difference in the last bit, so each function says which it is.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .tensor import Activation, DType, Quantisation, Tensor

_ACTIVATION_BOUNDS: dict[Activation, tuple[float | None, float | None]] = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}

ADD_HEADROOM_BITS = 20
"""Bits of headroom that ADD gives both of its 8-bit operands before it scales them."""
ADD_HEADROOM_BITS_16 = 15
"""The same of int16."""
MAX_LEFT_SHIFT = 31
"""The largest shift of `multiplier_and_shift` that kernels define: values have 32 bits."""
MAX_WIDE_SHIFT = 14
"""The largest shift of `reduced_multiplier_and_shift`, beyond which kernels would shift by a negative number."""


def real_bounds(activation: Activation) -> tuple[float | None, float | None]:
    """Smallest and largest real number that an activation lets through; None where there is no bound."""
    return _ACTIVATION_BOUNDS[activation]


def multiplier_and_shift(real: float) -> tuple[int, int]:
    """Write `real` >= 0 as significand * 2**(shift - 31), significand in [2**30, 2**31) or 0.

    The fraction is rounded half away from zero; one that rounds up to 2**31 is halved and the shift grows. What lies
    below 2**-32 becomes (0, 0), as every product with it would round to zero. This is TFLite's `QuantizeMultiplier`.
    """
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    significand = math.floor(fraction * (1 << 31) + 0.5)
    if significand == 1 << 31:
        significand >>= 1
        shift += 1
    if shift < -31:
        return 0, 0
    return significand, shift


def multipliers_and_shifts(reals: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`multiplier_and_shift` of many finite numbers at once: significands and shifts, in their order."""
    fractions, shifts = np.frexp(np.asarray(reals, np.float64))
    significands = np.floor(fractions * (1 << 31) + 0.5).astype(np.int64)
    is_up = significands == 1 << 31
    significands, shifts = np.where(is_up, 1 << 30, significands), shifts.astype(np.int64) + is_up
    is_lost = shifts < -31
    return np.where(is_lost, 0, significands), np.where(is_lost, 0, shifts)


def reduced_multiplier_and_shift(real: float) -> tuple[int, int]:
    """Write `real` >= 0 as significand * 2**(shift - 15), the significand of 15 bits: for sums of 64 bits.

    The significand is that of `multiplier_and_shift`, rounded half up, and saturates.
    """
    significand, shift = multiplier_and_shift(real)
    return min((significand + (1 << 15)) >> 16, (1 << 15) - 1), shift


def reduced_multipliers_and_shifts(reals: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`reduced_multiplier_and_shift` of many finite numbers at once: significands and shifts, in their order."""
    significands, shifts = multipliers_and_shifts(reals)
    return np.minimum((significands + (1 << 15)) >> 16, (1 << 15) - 1), shifts


def add_headroom_bits(dtype: DType) -> int:
    """By how many bits ADD raises its operands before it scales them."""
    return ADD_HEADROOM_BITS_16 if dtype is DType.INT16 else ADD_HEADROOM_BITS


def mean_multiplier(real: float, count: int) -> tuple[int, int]:
    """Significand and shift by which MEAN multiplies the sum of `count` values: scaling by `real` and division in one.

    The multiplier of `real` is first shifted left by the bits of `count`, as far as 32 bits and the exponent allow, and
    then divided, rounding down.
    """
    significand, shift = multiplier_and_shift(real)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    return (significand << bits) // count, shift - bits


def quantise_real(value: float, quantisation: Quantisation) -> int:
    """The stored integer nearest to the real `value`, not clamped: float32 quotient, rounded half away from zero."""
    quotient = float(np.float32(value) / np.float32(quantisation.scale))
    return quantisation.zero_point + int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))


def activation_range(quantisation: Quantisation | None, dtype: DType, activation: Activation) -> tuple[int, int]:
    """Smallest and largest stored value (both inclusive) that an output with a fused `activation` may take.

    Without quantisation only the type's own limits hold.
    """
    lowest, highest = dtype.limits
    lower, upper = _ACTIVATION_BOUNDS[activation]
    if quantisation is not None and lower is not None:
        lowest = max(lowest, quantise_real(lower, quantisation))
    if quantisation is not None and upper is not None:
        highest = min(highest, quantise_real(upper, quantisation))
    return lowest, highest


def scale_of(tensor: Tensor) -> float:
    """Per-tensor scale of `tensor`, 1 if it carries no quantisation (TFLite then rescales by nothing)."""
    return 1.0 if tensor.quantisation is None else tensor.quantisation.scale


def zero_point_of(tensor: Tensor) -> int:
    """Per-tensor zero point of `tensor`, 0 if it carries no quantisation."""
    return 0 if tensor.quantisation is None else tensor.quantisation.zero_point


def effective_scales(kind: str, ifm: Tensor, weights: Tensor, ofm: Tensor) -> tuple[float, ...]:
    """Real factors from accumulator to output of CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED.

    One factor per output channel, or a single one for weights quantised per tensor. ifm * weights / ofm in double,
    except that uint8 convolutions, and FULLY_CONNECTED of int8 with per-tensor weights, round the product of the two
    input scales to float32 first.
    """
    scales = (1.0,) if weights.quantisation is None else weights.quantisation.scales
    is_dense, is_uint8 = kind == "FULLY_CONNECTED", ifm.dtype is DType.UINT8
    ifm_scale, ofm_scale = scale_of(ifm), scale_of(ofm)
    if (ifm.dtype is DType.INT8 and len(scales) == 1) if is_dense else is_uint8:
        return tuple(float(np.float32(ifm_scale) * np.float32(s)) / ofm_scale for s in scales)
    return tuple(ifm_scale * s / ofm_scale for s in scales)


def product_scale(left: Tensor, right: Tensor, ofm: Tensor) -> float:
    """Real factor from sums of BATCH_MATMUL to its output; the product of the operands' scales is a float32."""
    return float(np.float32(scale_of(left)) * np.float32(scale_of(right))) / scale_of(ofm)


def svdf_scales(ifm: Tensor, weights: Tensor, times: Tensor, state: Tensor, ofm: Tensor) -> tuple[float, float]:
    """Real factors of SVDF, in double: from sums over its input to its state, from sums over time to its output."""
    x, w, t, s, y = (scale_of(tensor) for tensor in (ifm, weights, times, state, ofm))
    return x * w / s, s * t / y


def nearest_indices(
    extent: int, outputs: int, align_corners: bool = False, half_pixel_centers: bool = False
) -> tuple[int, ...]:
    """Which of `extent` rows or columns each of `outputs` is a copy of, when an image is resized to the nearest.

    In float32, as TFLite's kernels compute it: with aligned corners the first and last ones coincide and the nearest is
    rounded to, else it is rounded down; pixels are taken at their centres or at their first corners.
    """
    aligned = align_corners and outputs > 1
    spans = (extent - 1, outputs - 1) if aligned else (extent, outputs)
    scale = np.float32(spans[0]) / np.float32(spans[1])
    places = (np.arange(outputs, dtype=np.float32) + np.float32(0.5 if half_pixel_centers else 0.0)) * scale
    # Places are not negative: half away from zero is the floor of half a step on, exact in double.
    found = np.floor(places.astype(np.float64) + 0.5) if align_corners else np.floor(places)
    return tuple(int(place) for place in np.clip(found, 0, extent - 1))


def bilinear_taps(
    extent: int, outputs: int, align_corners: bool, half_pixel_centers: bool, dtype: DType
) -> tuple[tuple[int, int, Fraction], ...]:
    """Between which two of `extent` rows or columns each of `outputs` lies when an image is resized bilinearly.

    Of each: the first, the second, and the second's share, exactly as the kernel for `dtype` computes it: that for
    uint8 in float32, that for int8 in units of 2^-10. A share may be negative where both are the edge.
    """
    aligned = align_corners and outputs > 1
    spans = (extent - 1, outputs - 1) if aligned else (extent, outputs)
    found = []
    for output in range(outputs):
        if dtype is DType.UINT8:
            step = np.float32(spans[0]) / np.float32(spans[1])
            half = np.float32(0.5)
            place = (np.float32(output) + half) * step - half if half_pixel_centers else np.float32(output) * step
            first, high = max(math.floor(place), 0), math.ceil(place)
            share = Fraction(float(np.float32(place - np.float32(first))))
        else:
            ten = (spans[0] * 1024 + spans[1] // 2) // spans[1]
            at = output * ten + (ten // 2 - 512 if half_pixel_centers else 0)
            # Both divisions are towards zero; a place ahead of the first pixel is never a whole pixel ahead.
            first, high = max(at, 0) // 1024, max(at + 1023, 0) // 1024
            share = Fraction(at - 1024 * first, 1024)
        found.append((first, min(high, extent - 1), share))
    return tuple(found)


def rescaled_bytes(ifm: Tensor, ofm: Tensor) -> npt.NDArray[np.uint8]:
    """What CONCATENATION of uint8 makes of each stored value, 0 first, for an output of another scale or zero point.

    It multiplies and adds in float32 by the reciprocal of the output's scale, and rounds halves away from zero.
    """
    one = np.float32(1.0)
    factor = np.float32(scale_of(ifm)) * (one / np.float32(scale_of(ofm)))
    units = np.arange(256).astype(np.float32) * factor + np.float32(-zero_point_of(ifm)) * factor
    wide = units.astype(np.float64)
    rounded = np.sign(wide) * np.floor(np.abs(wide) + 0.5) + zero_point_of(ofm)
    found: npt.NDArray[np.uint8] = np.clip(rounded, 0, 255).astype(np.uint8)
    return found
