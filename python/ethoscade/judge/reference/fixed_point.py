"""Fixed-point arithmetic of TFLite's integer kernels, vectorised over NumPy int64 arrays.

Owns the rounding rules and nothing else. Values are 32-bit quantities carried in int64, so that a product of two is
exact; `wrap` brings back the 32-bit range where the kernels would overflow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
_MAX_LEFT_SHIFT = 31


LARGEST_WIDE_SHIFT = 14
"""The largest shift to the left for which kernels multiply sums of 64 bits."""


class NoKernelResult(ValueError):
    """The kernels' arithmetic has no defined result here. `advice` says what that means, and what to do."""

    advice = (
        "the references define no result, and devices differ; convert the model with scales that are nearer to each "
        "other"
    )


def wrap(x: Int64) -> Int64:
    """`x` modulo 2**32 in the signed range, as a 32-bit register keeps it."""
    return x.astype(np.int32).astype(np.int64)


def saturate(x: Int64) -> Int64:
    """`x` clamped to the signed 32-bit range."""
    return np.clip(x, INT32_MIN, INT32_MAX)


def high_mul(a: Int64, b: Int64 | int) -> Int64:
    """a * b / 2**31 rounded half towards +infinity; both are Q31 and not both -2**31.

    gemmlowp's "saturating rounding doubling high multiplication".
    """
    return (a * b + (1 << 30)) >> 31


def divide_by_power(x: Int64, exponent: Int64 | int) -> Int64:
    """x / 2**exponent rounded half away from zero; `exponent` >= 0, broadcast against `x`."""
    e = np.asarray(exponent, dtype=np.int64)
    half = np.where(e > 0, np.left_shift(np.int64(1), np.maximum(e - 1, 0)), 0)
    # A negative number needs one less to fall away from zero on a tie; without a shift there is no tie.
    one_less = (x >> 63) & -(e > 0).astype(np.int64)
    return (x + half + one_less) >> e


def multiply(x: Int64, significand: Int64 | int, shift: Int64 | int) -> Int64:
    """x * significand * 2**(shift - 31) with TFLite's two roundings, `x` a 32-bit accumulator.

    `significand` and `shift` (from `quantised.multiplier_and_shift`) are broadcast against `x`. A positive shift
    is applied first and wraps at 32 bits; a negative one comes after the first rounding and rounds again.
    Raises `NoKernelResult` for a shift beyond 31: kernels shift 32-bit integers, and the result differs by machine.
    """
    s = np.asarray(shift, dtype=np.int64)
    left = np.maximum(s, 0)
    if left.size and left.max() > _MAX_LEFT_SHIFT:
        raise NoKernelResult(f"a factor of 2^{left.max() - 1} or more asks for a shift by {left.max()}; 31 is the most")
    if left.any():
        x = wrap(x << left)
    return divide_by_power(high_mul(x, significand), np.maximum(-s, 0))


def multiply_once(x: Int64, real: float) -> Int64:
    """x * real in double, rounded half away from zero. Raises `NoKernelResult` where that is no 32-bit integer."""
    product = x.astype(np.float64) * real
    whole = np.trunc(product)
    rounded = whole + np.where(np.abs(product - whole) >= 0.5, np.sign(product), 0.0)
    if rounded.size and np.abs(rounded).max() > INT32_MAX:
        raise NoKernelResult(f"a sum of {np.abs(x).max()} times {real:g} does not fit 32 bits")
    return rounded.astype(np.int64)


def scale_sums(sums: Int64, significand: Int64 | int, shift: Int64 | int, is_wide: bool) -> Int64:
    """sums * significand * 2**(shift - 31), in 32 bits; with `is_wide` the sums have 64 bits themselves.

    Sums of 64 bits are multiplied by a significand of 15 bits (half up, saturating) and rounded once, half towards
    +infinity; those of 32 bits as `multiply` does. Raises `NoKernelResult` beyond `LARGEST_WIDE_SHIFT`.
    """
    if not is_wide:
        return multiply(wrap(sums), significand, shift)
    largest = np.max(shift)
    if largest > LARGEST_WIDE_SHIFT:
        raise NoKernelResult(
            f"a factor of 2^{largest - 1} or more; sums of 64 bits have less than 2^{LARGEST_WIDE_SHIFT}"
        )
    return wrap(_multiply_wide(sums, np.asarray(significand, np.int64), np.asarray(shift, np.int64)))


def _multiply_wide(x: Int64, significand: Int64, shift: Int64) -> Int64:
    reduced = np.where(significand < 0x7FFF0000, (significand + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - shift
    scaled: Int64 = (x * reduced + np.left_shift(np.int64(1), total - 1)) >> total
    return scaled
