"""What TOSA's operators compute element by element: arithmetic, logic, comparisons, look-ups, RESCALE."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ....ir import Array, DType, Graph, Operator
from ....ir.tosa import ArithmeticRightShift, Clamp, LookupTable, Mul, Negate, Rescale, RescaleRounding
from ..fixed_point import Int64
from ..meaning import Evaluate, Inputs, given
from .arithmetic import clip, narrow, require, scale_16, scale_32, wide

_INT64_MAX = (1 << 63) - 1


def _exact(compute: Callable[..., Int64]) -> Evaluate:
    """Arithmetic whose result must fit the output's type."""

    def evaluate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
        values = [wide(inputs, place) for place in range(len(inputs))]
        return narrow(compute(*values), graph.made(op).dtype)

    return evaluate


def _plain(compute: Callable[..., Array]) -> Evaluate:
    """What NumPy computes on the types as they are."""

    def evaluate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
        return compute(*(given(inputs, place) for place in range(len(inputs))))

    return evaluate


def _bits(op: Operator, graph: Graph) -> int:
    return 8 * graph.made(op).dtype.size_bytes


def _shift_amount(graph: Graph, op: Operator, inputs: Inputs) -> Int64:
    amount, bits = wide(inputs, 1), _bits(op, graph)
    require((amount >= 0) & (amount < bits), f"that shifts are 0 to {bits - 1}")
    return amount


def arithmetic_right_shift(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """ARITHMETIC_RIGHT_SHIFT, with the last bit shifted out added where it rounds."""
    x, amount = wide(inputs), _shift_amount(graph, op, inputs)
    found = x >> amount
    if op.attributes(ArithmeticRightShift).is_rounding:
        found = found + np.where(amount > 0, (x >> np.maximum(amount - 1, 0)) & 1, 0)
    return found.astype(graph.made(op).dtype.numpy)


def logical_left_shift(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """LOGICAL_LEFT_SHIFT: what leaves the type is gone."""
    return (wide(inputs) << _shift_amount(graph, op, inputs)).astype(graph.made(op).dtype.numpy)


def logical_right_shift(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """LOGICAL_RIGHT_SHIFT: zeros come in from the left of the type."""
    bits = wide(inputs) & ((1 << _bits(op, graph)) - 1)
    return (bits >> _shift_amount(graph, op, inputs)).astype(graph.made(op).dtype.numpy)


def _quotient(a: Int64, b: Int64) -> Int64:
    """INTDIV: towards zero."""
    require(b != 0, "that divisors are not 0")
    magnitude: Int64 = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), magnitude, -magnitude)


def mul(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MUL: the lowest 32 bits, or the shifted product of int32, half up."""
    product, shift = wide(inputs) * wide(inputs, 1), op.attributes(Mul).shift
    if not shift:
        return product.astype(np.int32)
    rounding = 1 << (shift - 1)
    require(product <= _INT64_MAX - rounding, "that a product with its rounding fits int64")
    return narrow((product + rounding) >> shift, DType.INT32, "a shifted product")


def _leading_zeros(x: Int64) -> Int64:
    """CLZ of int32: 32 less the length of its bits. Exact: float64 holds every 32-bit number."""
    return 32 - np.frexp((x & 0xFFFFFFFF).astype(np.float64))[1].astype(np.int64)


def negate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """NEGATE, in int32, clipped."""
    attrs = op.attributes(Negate)
    value = narrow(attrs.input_zero_point - wide(inputs), DType.INT32, "a negated value")
    return clip(value.astype(np.int64) + attrs.output_zero_point, graph.made(op).dtype)


def clamp(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CLAMP."""
    attrs = op.attributes(Clamp)
    return np.clip(wide(inputs), attrs.lowest, attrs.highest).astype(graph.made(op).dtype.numpy)


def table(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TABLE: a look-up of int8; of int16 a line between two of 513 values, with 7 bits behind the point."""
    values, x = np.array(op.attributes(LookupTable).values, np.int64), wide(inputs)
    if graph.read(op).dtype is DType.INT8:
        return values[x + 128].astype(np.int8)
    place = (x + 32768) >> 7
    base, slope = values[place], values[place + 1] - values[place]
    narrow(slope, DType.INT16, "the slope of a table")
    return narrow((base << 7) + slope * (x & 0x7F), DType.INT32)


def rescale(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESCALE. Inexact rounding is computed as single rounding, which the specification allows."""
    attrs, ifm, ofm = op.attributes(Rescale), graph.read(op), graph.made(op)
    x = wide(inputs)
    if attrs.is_input_unsigned:
        x = x & ((1 << (8 * ifm.dtype.size_bytes)) - 1)
    x = x - attrs.input_zero_point
    multiplier, shift = np.array(attrs.multipliers, np.int64), np.array(attrs.shifts, np.int64)
    if attrs.is_scale32:
        scaled = scale_32(x, multiplier, shift, is_double=attrs.rounding is RescaleRounding.DOUBLE)
    else:
        scaled = scale_16(x, multiplier, shift)
    narrow(scaled + attrs.output_zero_point, DType.INT32, "a scaled value with its zero point")
    scaled = scaled + attrs.output_zero_point
    if attrs.is_output_unsigned:
        return np.clip(scaled, 0, (1 << (8 * ofm.dtype.size_bytes)) - 1).astype(ofm.dtype.numpy)
    return clip(scaled, ofm.dtype)


def cast(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CAST: truth is 1, whatever is not 0 is true, and of wider integers the lowest bits stay."""
    dtype = graph.made(op).dtype
    x = wide(inputs)
    return np.not_equal(x, 0) if dtype is DType.BOOL else x.astype(dtype.numpy)


TOSA_ELEMENTWISE: Mapping[str, Evaluate] = {
    "tosa.abs": _exact(np.abs),
    "tosa.add": _exact(np.add),
    "tosa.arithmetic_right_shift": arithmetic_right_shift,
    "tosa.bitwise_and": _plain(np.bitwise_and),
    "tosa.bitwise_not": _plain(np.bitwise_not),
    "tosa.bitwise_or": _plain(np.bitwise_or),
    "tosa.bitwise_xor": _plain(np.bitwise_xor),
    "tosa.cast": cast,
    "tosa.clamp": clamp,
    "tosa.clz": _exact(_leading_zeros),
    "tosa.equal": _plain(np.equal),
    "tosa.greater": _plain(np.greater),
    "tosa.greater_equal": _plain(np.greater_equal),
    "tosa.identity": _plain(np.copy),
    "tosa.intdiv": _exact(_quotient),
    "tosa.logical_and": _plain(np.logical_and),
    "tosa.logical_left_shift": logical_left_shift,
    "tosa.logical_not": _plain(np.logical_not),
    "tosa.logical_or": _plain(np.logical_or),
    "tosa.logical_right_shift": logical_right_shift,
    "tosa.logical_xor": _plain(np.logical_xor),
    "tosa.maximum": _plain(np.maximum),
    "tosa.minimum": _plain(np.minimum),
    "tosa.mul": mul,
    "tosa.negate": negate,
    "tosa.rescale": rescale,
    "tosa.select": _plain(np.where),
    "tosa.sub": _exact(np.subtract),
    "tosa.table": table,
}
"""The operators of this file."""
