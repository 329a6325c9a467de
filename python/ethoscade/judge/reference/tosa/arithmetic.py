"""TOSA's exact arithmetic: what leaves a type is unpredictable, and how values are scaled.

Owns the specification's helpers (version 1.0, "Arithmetic Helpers" and "Scaling Helpers"), on arrays of int64.
"""

from __future__ import annotations

import numpy as np

from ....ir import Array, DType
from ..fixed_point import Int64, NoKernelResult
from ..meaning import Inputs, given

_INT32 = DType.INT32.limits


class Unpredictable(NoKernelResult):
    """A `REQUIRE` of the specification does not hold: every result is allowed, and devices differ."""

    advice = "the TOSA specification calls the result unpredictable, and devices differ; give the network other values"


def require(holds: object, what: str) -> None:
    """Raises `Unpredictable` unless it holds everywhere."""
    if not np.all(np.asarray(holds)):
        raise Unpredictable(f"{what} does not hold")


def wide(inputs: Inputs, place: int = 0) -> Int64:
    """The values of an input as int64."""
    return given(inputs, place).astype(np.int64)


def narrow(x: Int64, dtype: DType, what: str = "a result") -> Array:
    """`x` as `dtype`. Raises `Unpredictable` where it does not fit."""
    least, most = dtype.limits
    require((x >= least) & (x <= most), f"that {what} fits {dtype.value}")
    return x.astype(dtype.numpy)


def clip(x: Int64, dtype: DType) -> Array:
    """`x` as `dtype`, the nearest value of it."""
    return np.clip(x, *dtype.limits).astype(dtype.numpy)


def scale_32(x: Int64, multiplier: Int64, shift: Int64, *, is_double: bool = False) -> Int64:
    """`apply_scale_32`: x * multiplier / 2**shift, half up; `is_double` rounds twice where the shift is above 31.

    Raises `Unpredictable` for values out of its range.
    """
    bound = np.int64(1) << (shift - 1)
    require((x >= -bound) & (x < bound), "that values lie in 2**(shift - 1), as apply_scale_32 requires")
    rounding = bound
    if is_double:
        rounding = bound + np.where(shift > 31, np.where(x >= 0, 1 << 30, -(1 << 30)), 0)
    scaled: Int64 = (x * multiplier + rounding) >> shift
    return scaled


def scale_16(x: Int64, multiplier: Int64, shift: Int64) -> Int64:
    """`apply_scale_16`: as the other, of 48 bits by a multiplier of 16. Raises `Unpredictable` beyond 32 bits."""
    found: Int64 = (x * multiplier + (np.int64(1) << (shift - 1))) >> shift
    require((found >= _INT32[0]) & (found <= _INT32[1]), "that a scaled value fits int32")
    return found


def reciprocal_scale(counts: Int64) -> tuple[Int64, Int64]:
    """`reciprocal_scale`: multiplier and shift to divide by each of `counts` (1 or more)."""
    bits = np.array([(int(count) - 1).bit_length() for count in counts.reshape(-1)], np.int64).reshape(counts.shape)
    return ((np.int64((1 << 30) + 1) << bits) // counts, 30 + bits)
