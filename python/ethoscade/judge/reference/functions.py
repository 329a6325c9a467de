"""Reference semantics of functions of one element: LOGISTIC, HARD_SWISH, LEAKY_RELU, GELU, RSQRT and their like.

Owns a second copy of what the compiler's tables hold, written for whole arrays. Where LiteRT's kernels fill tables with
a function of float32 numbers, that function is taken in double and rounded to float32 once. ELU is TensorFlow Lite
Micro's: LiteRT's reference kernels lack it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from ...ir import Array, DType, GeluAttrs, Graph, LeakyReluAttrs, Operator
from . import functions16
from .fixed_point import INT32_MAX, Int64, NoKernelResult, divide_by_power, high_mul, multiply, saturate
from .formulas import scale_of, significand_and_shift, stored, zero_point_of
from .functions16 import Float32, OfReals
from .meaning import INT8, Domain, Inputs, ReferenceKernel, eight_bit, eight_or_sixteen_bit, given, sixteen_bit

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def of_reals(function: Callable[[Operator, float], OfReals]) -> Callable[[Graph, Operator, Inputs], Array]:
    """The meaning of a kind that is `function` of real numbers; that may depend on the smallest real of the output."""

    def evaluate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
        ifm, ofm = graph.read(op), graph.made(op)
        if ifm.dtype is DType.INT16:
            return _sixteen(graph, op, inputs, function)
        smallest = np.float32(ofm.dtype.limits[0] - zero_point_of(ofm)) * np.float32(scale_of(ofm))
        with np.errstate(over="ignore", invalid="ignore"):
            real = np.float32(scale_of(ifm)) * (given(inputs).astype(np.int64) - zero_point_of(ifm)).astype(np.float32)
            units = function(op, float(smallest))(real) * (np.float32(1) / np.float32(scale_of(ofm)))
        # A comparison that is also wrong for what is no number.
        if not (np.abs(units) < INT32_MAX).all():
            raise NoKernelResult("a result does not fit 32 bits, and is stored otherwise on other devices")
        nearest = np.copysign(np.floor(np.abs(units.astype(np.float64)) + 0.5), units)
        shifted = nearest.astype(np.float32) + np.float32(zero_point_of(ofm))
        result: Array = np.clip(shifted, *ofm.dtype.limits).astype(ofm.dtype.numpy)
        return result

    return evaluate


def _sixteen(graph: Graph, op: Operator, inputs: Inputs, function: Callable[[Operator, float], OfReals]) -> Array:
    if op.kind in ("LOGISTIC", "TANH"):
        return (functions16.logistic if op.kind == "LOGISTIC" else functions16.tanh)(graph, op, inputs)
    smallest = np.float32(graph.made(op).dtype.limits[0]) * np.float32(scale_of(graph.made(op)))
    return functions16.interpolated(graph, op, inputs, function(op, float(smallest)))


def _narrow(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> OfReals:
    return lambda x: function(x.astype(np.float64)).astype(np.float32)


_exp, _tanh = _narrow(np.exp), _narrow(np.tanh)


def _gelu(op: Operator, _: float) -> OfReals:
    half, one = np.float32(0.5), np.float32(1)
    if not op.attributes(GeluAttrs).approximate:
        return lambda x: half * x * _narrow(_erfc)(x * np.float32(-0.70710678118654752440))
    slope, cubic = np.float32(0.79788456080286535588), np.float32(0.044715)
    return lambda x: half * x * (one + _tanh(slope * (x + cubic * x * x * x)))


def _log(_: Operator, smallest: float) -> OfReals:
    return lambda x: np.where(x > 0, _narrow(np.log)(np.where(x > 0, x, np.float32(1))), np.float32(smallest))


def _logistic(x: Float32) -> Float32:
    quotient: Float32 = np.float32(1) / (np.float32(1) + _exp(-x))
    return quotient


def _elu(x: Float32) -> Float32:
    return np.where(x < 0, _exp(np.minimum(x, np.float32(0))) - np.float32(1), x)


def leaky_relu(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """LEAKY_RELU: both factors are float32 numbers, and either may be of any size below 2^31."""
    ifm, ofm = graph.read(op), graph.made(op)
    centred = given(inputs).astype(np.int64) - zero_point_of(ifm)
    alpha = np.float32(op.attributes(LeakyReluAttrs).alpha)
    slope = float(np.float32(scale_of(ifm)) * alpha / np.float32(scale_of(ofm)))
    # The sign goes on behind both roundings: LiteRT multiplies by factors without one.
    below = multiply(centred, *significand_and_shift(abs(slope))) * (-1 if slope < 0 else 1)
    above = multiply(centred, *significand_and_shift(float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))))
    scaled = np.where(centred >= 0, above, below) + zero_point_of(ofm)
    result: Array = np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)
    return result


def unit_relu(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RELU_0_TO_1: the value rescaled, between the stored forms of 0 and 1."""
    ifm, ofm = graph.read(op), graph.made(op)
    centred = given(inputs).astype(np.int64) - zero_point_of(ifm)
    ratio = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    scaled = multiply(centred, *significand_and_shift(ratio)) + zero_point_of(ofm)
    if ofm.quantisation is not None:
        scaled = np.minimum(np.maximum(scaled, stored(0.0, ofm.quantisation)), stored(1.0, ofm.quantisation))
    return np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)


def negate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """NEG of the stored numbers, whatever their scales; the smallest one has no opposite and stays."""
    opposite: Array = np.negative(given(inputs))
    return opposite


def hard_swish(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """HARD_SWISH in 16-bit arithmetic: the value on a scale 128 times as fine, times a number from 0 to 1."""
    ifm, ofm = graph.read(op), graph.made(op)
    fine = np.float32(scale_of(ifm)) * np.float32(1 / 128)
    factor, left = _halved(float(fine / np.float32(scale_of(ofm))))
    slope, raised = _halved(float(fine / (np.float32(3) / np.float32(32768))))
    if left > 0 or min(left, raised) < -15:
        raise NoKernelResult(f"scales {scale_of(ifm):g} and {scale_of(ofm):g} are outside what 16 bits can shift")
    hires = (given(inputs).astype(np.int64) - zero_point_of(ifm)) * 128
    gate = _short(hires << max(raised - 1, 0))
    gate = _short(_doubled(gate, slope) << min(max(raised, 0), 1))
    gate = (divide_by_power(gate, max(-raised, 0)) + 32768) >> 1
    product = gate * _doubled(hires, factor)
    towards_zero = np.sign(product) * (np.abs(product) >> 15)
    result = divide_by_power(towards_zero, -left) + zero_point_of(ofm)
    return np.clip(result, *ofm.dtype.limits).astype(ofm.dtype.numpy)


def _halved(real: float) -> tuple[int, int]:
    """A factor's significand in 16 bits, and its shift."""
    significand, shift = significand_and_shift(real)
    return min((significand + (1 << 15)) >> 16, 32767), shift


def _short(x: Int64) -> Int64:
    return np.clip(x, -32768, 32767)


def _doubled(a: Int64, b: int) -> Int64:
    return _short((a * b + (1 << 14)) >> 15)


def rsqrt(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RSQRT of int8: a root of the stored number in fixed point; kernels end the inference below zero."""
    ifm, ofm = graph.read(op), graph.made(op)
    value = given(inputs).astype(np.int64) - zero_point_of(ifm)
    if (value < 0).any():
        raise NoKernelResult("its input is negative, where no kernel is defined")
    if ifm.dtype is DType.INT16:
        return _sixteen(graph, op, inputs, _inverse_root)
    roots = np.array([_root(number) for number in range(256)], dtype=np.int64)
    significand, shift = significand_and_shift(
        1.0 / float(np.sqrt(np.float32(scale_of(ifm))) * np.float32(scale_of(ofm)))
    )
    scaled = multiply(roots[value], significand, shift - 20) + zero_point_of(ofm)
    return np.clip(np.where(value == 0, ofm.dtype.limits[1], scaled), *ofm.dtype.limits).astype(ofm.dtype.numpy)


def sqrt(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SQRT in float32, without what is behind the point; kernels end the inference below zero."""
    ifm, ofm = graph.read(op), graph.made(op)
    value = given(inputs).astype(np.float32) - np.float32(zero_point_of(ifm))
    if (value < 0).any():
        raise NoKernelResult("its input is negative, where no kernel is defined")
    units = np.sqrt(value * np.float32(scale_of(ifm))) / np.float32(scale_of(ofm))
    if (units >= 2.0**31).any():
        raise NoKernelResult("a result does not fit 32 bits, and is stored otherwise on other devices")
    found: Array = np.clip(units.astype(np.int64) + zero_point_of(ofm), *ofm.dtype.limits).astype(ofm.dtype.numpy)
    return found


def _inverse_root(op: Operator, smallest: float) -> OfReals:
    largest = -np.float32(smallest) * np.float32(32767 / 32768)
    one = np.float32(1)
    return lambda x: np.where(x > 0, one / np.sqrt(np.where(x > 0, x, one)), largest)


def _root(number: int) -> int:
    """2^20 / sqrt(number), by Newton's steps in Q3.28 on a number between 1/2 and 2."""
    if number <= 1:
        return int(multiply(np.int64(1), INT32_MAX, 20))
    shift, radicand = 11, number
    while radicand < 1 << 27:
        shift, radicand = shift - 1, radicand * 4
    x = np.int64(1 << 28)
    half = divide_by_power(np.int64(radicand >> 1), 1)
    for _ in range(5):
        cube = saturate(high_mul(high_mul(x, x), x) << 6)
        x = saturate((high_mul(np.int64(3 << 27), x) - high_mul(half, cube)) << 3)
    x = high_mul(x, 1518500250)
    return int(multiply(np.int64(1), x << max(-shift, 0), 20 - max(shift, 0)))


def signed(graph: Graph, op: Operator) -> str | None:
    """As `eight_bit`, without uint8, of which no runtime has a kernel."""
    if (why := eight_bit(graph, op)) is not None:
        return why
    return None if graph.read(op).dtype is DType.INT8 else "kernels of this kind compute with int8"


def signed_or_sixteen(graph: Graph, op: Operator) -> str | None:
    """As `signed`, or int16."""
    return None if sixteen_bit(graph, op) is None else signed(graph, op)


def _meaning(function: OfReals, domain: Domain = eight_bit, micro: frozenset[DType] = frozenset()) -> ReferenceKernel:
    return ReferenceKernel(of_reals(lambda *_: function), domain, micro)


FUNCTION_MEANINGS: Mapping[str, ReferenceKernel] = {
    "ELU": _meaning(_elu, signed, INT8),
    "EXP": _meaning(_exp, signed_or_sixteen),
    "GELU": ReferenceKernel(of_reals(_gelu), eight_or_sixteen_bit),
    "HARD_SWISH": ReferenceKernel(hard_swish, eight_bit, INT8),
    "LEAKY_RELU": ReferenceKernel(leaky_relu, eight_or_sixteen_bit, INT8),
    "LOG": ReferenceKernel(of_reals(_log), signed_or_sixteen),
    "LOGISTIC": _meaning(_logistic, eight_or_sixteen_bit),
    "NEG": ReferenceKernel(negate, signed_or_sixteen),
    "RELU_0_TO_1": ReferenceKernel(unit_relu, eight_bit),
    "RSQRT": ReferenceKernel(rsqrt, signed_or_sixteen, INT8),
    "SQRT": ReferenceKernel(sqrt, signed_or_sixteen),
    "TANH": _meaning(_tanh, eight_or_sixteen_bit),
}
