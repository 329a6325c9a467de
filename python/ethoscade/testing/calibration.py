"""Chooses quantisations for built networks, from real values, so that the same bytes come out on every machine.

Owns the choice of scales and zero points and the quantising of constants. Real values are float64: the noise between
BLAS libraries (1e-15) then has no chance against scales that are cut to 12 significant bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..ir import Array, DType, Quantisation

Real = npt.NDArray[np.float64]

_SCALE_BITS = 12
_SMALLEST_RANGE = 1e-3  # of an activation that turned out constant
_SMALLEST_RANGE_16 = 0.25  # the same of int16, of which factors are smaller


def coarse_scale(value: float) -> float:
    """The smallest number of 12 significant bits that is not below `value` > 0; exact in float32."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(math.ceil(fraction * (1 << _SCALE_BITS)), exponent - _SCALE_BITS)


def activation_quantisation(real: Real, dtype: DType) -> Quantisation:
    """A per-tensor quantisation whose range is that of `real` extended to 0; symmetric for int16."""
    low, high = min(float(real.min()), 0.0), max(float(real.max()), 0.0)
    lowest, highest = dtype.limits
    if dtype is DType.INT16:
        return Quantisation((coarse_scale(max(-low, high, _SMALLEST_RANGE_16) / highest),), (0,))
    scale = coarse_scale(max(high - low, _SMALLEST_RANGE) / (highest - lowest))
    zero_point = lowest + round(-low / scale)
    return Quantisation((scale,), (min(max(zero_point, lowest), highest),))


def weight_quantisation(real: Real, dtype: DType, axis: int | None) -> Quantisation:
    """Symmetric along `axis` (None: for the whole tensor) for int8; for uint8 per tensor with a zero point."""
    if dtype is DType.UINT8:
        found = activation_quantisation(real, dtype)
        return Quantisation(found.scales, (max(found.zero_point, 1),))
    if axis is None:
        return Quantisation((coarse_scale(max(float(np.abs(real).max()), 1e-6) / 127),), (0,))
    others = tuple(i for i in range(real.ndim) if i != axis)
    largest = np.abs(real).max(axis=others)
    scales = tuple(coarse_scale(max(float(v), 1e-6) / 127) for v in largest)
    return Quantisation(scales, (0,) * len(scales), axis)


def _along_axis(numbers: tuple[float, ...] | tuple[int, ...], axis: int | None, ndim: int) -> Real:
    shape = [1] * ndim
    if axis is not None:
        shape[axis] = len(numbers)
    return np.array(numbers, dtype=np.float64).reshape(shape)


def quantise(real: Real, quantisation: Quantisation, dtype: DType) -> Array:
    """Stored values of `real`, rounded half to even and clamped; int8 weights per channel stay within -127..127."""
    scales = _along_axis(quantisation.scales, quantisation.axis, real.ndim)
    zero_points = _along_axis(quantisation.zero_points, quantisation.axis, real.ndim)
    lowest, highest = dtype.limits
    return np.clip(np.rint(real / scales) + zero_points, lowest, highest).astype(dtype.numpy)


def dequantise(stored: Array, quantisation: Quantisation) -> Real:
    """Real values of `stored`."""
    scales = _along_axis(quantisation.scales, quantisation.axis, stored.ndim)
    zero_points = _along_axis(quantisation.zero_points, quantisation.axis, stored.ndim)
    return scales * (stored.astype(np.float64) - zero_points)
