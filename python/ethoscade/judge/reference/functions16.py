"""Reference semantics of functions of one int16 element: tables of 513 samples, and the logistic function's own.

Owns LiteRT's interpolations. Samples are taken in float32, as for 8 bits; the curve of LOGISTIC and TANH has a table of
its own, of 256 samples of 16 bits without sign.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...ir import Array, Graph, Operator
from .fixed_point import Int64, NoKernelResult
from .formulas import scale_of
from .meaning import Inputs, given

Float32 = npt.NDArray[np.float32]
OfReals = Callable[[Float32], Float32]


def interpolated(graph: Graph, op: Operator, inputs: Inputs, curve: OfReals) -> Array:
    """A function of real numbers by LiteRT's table of 512 steps, all of its integers kept in 16 bits."""
    samples = _samples(curve, np.float32(scale_of(graph.read(op))), np.float32(scale_of(graph.made(op))))
    value = given(inputs).astype(np.int64) + 32768
    base, following = samples[value >> 7], samples[(value >> 7) + 1]
    slope = (following - base).astype(np.int16).astype(np.int64)
    found: Array = (base + ((slope * (value & 127) + 64) >> 7)).astype(np.int16)
    return found


def _samples(curve: OfReals, unit: np.float32, result: np.float32) -> Int64:
    with np.errstate(over="ignore", invalid="ignore"):
        first, last = unit * np.float32(-32768), unit * np.float32(32767)
        step = (last - first) / np.float32(512)
        inverse = np.float32(65536) / (result * np.float32(32767) - result * np.float32(-32768))
        places = (first + np.arange(513, dtype=np.float32) * step).astype(np.float32)
        ends = curve(places) * inverse
        middles = _nearest(curve(places[:-1] + step / np.float32(2)) * inverse)
        whole = _nearest(ends)
        bias = _nearest((_nearest((ends[1:] + whole[:-1]) / np.float32(2)) - middles) / np.float32(2))
        furthest = _nearest(curve(np.array([last], np.float32)) * inverse)
        found = np.concatenate([whole[:-1] - bias, furthest])
    if not np.isfinite(found).all():
        raise NoKernelResult("a sample of its table is no finite number, and is stored otherwise on other devices")
    samples: Int64 = np.clip(found, -32768, 32767).astype(np.int64)
    return samples


def _nearest(x: Float32) -> Float32:
    wide = x.astype(np.float64)
    return np.copysign(np.floor(np.abs(wide) + 0.5), wide).astype(np.float32)


def logistic(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """LOGISTIC of int16 in units of 1/32768."""
    return logistic_of(_scaled(graph, op, inputs)).astype(np.int16)


def tanh(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TANH of int16 in units of 1/32768: twice the logistic function of twice the number, less 1."""
    return tanh_of(_scaled(graph, op, inputs)).astype(np.int16)


def logistic_of(x: Int64) -> Int64:
    """The logistic function of units of 1/12288, in units of 1/32768."""
    upper = _curve(np.abs(x), 9, 0x7FFF << 10)
    found: Int64 = np.where(x >= 0, upper + 512, (1 << 25) - upper + 511) >> 10
    return found


def tanh_of(x: Int64) -> Int64:
    """The hyperbolic tangent of units of 1/12288, in units of 1/32768."""
    upper = _curve(np.abs(x), 8, 0xFFFF << 8) - (1 << 23)
    found: Int64 = np.where(x >= 0, upper + 128, 127 - upper) >> 8
    return found


def _scaled(graph: Graph, op: Operator, inputs: Inputs) -> Int64:
    """The input in units of 1/12288, by a factor of 15 bits and a shift."""
    if scale_of(graph.made(op)) != 1 / 32768:
        raise NoKernelResult("its output has another scale than 1/32768, which no kernel makes")
    real, shift = scale_of(graph.read(op)) * 12288.0, 0
    while real <= 32767.0 / 2 and shift <= 30:
        real, shift = real * 2, shift + 1
    if int(real) >= 1 << 16:
        raise NoKernelResult(
            f"its input has scale {scale_of(graph.read(op)):g}; products with its factor leave 32 bits"
        )
    product = given(inputs).astype(np.int64) * int(real)
    return (product + ((1 << shift) >> 1)) >> shift


def _curve(size: Int64, bits: int, beyond: int) -> Int64:
    index = np.minimum(size >> bits, 254)
    table = _logistic_samples()
    found = (table[index] << bits) + (size & ((1 << bits) - 1)) * (table[index + 1] - table[index])
    return np.where(size >> bits >= 255, beyond, found)


def _logistic_samples() -> Int64:
    """65536 times the logistic function of i / 24, raised by half of what a chord lies below it."""
    places = np.arange(256, dtype=np.float64)
    here, there, middle = (65536 / (1 + np.exp(-(places + offset) / 24)) for offset in (0, 1, 0.5))
    samples = np.floor(here + (middle - (here + there) / 2) / 2 + 0.5).astype(np.int64)
    samples[255] = 65535
    return samples
