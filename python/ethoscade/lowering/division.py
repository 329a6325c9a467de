"""DIV of 8-bit values by one constant number: a table of the kernel's results, looked up.

Owns the kernels' integers for one stored value: a reciprocal by Newton steps, and shifts by the bits that are free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import ArithmeticAttrs, Graph, Integers, Operator
from ..ir.quantised import activation_range, multiplier_and_shift, scale_of, zero_point_of
from . import constraints, lookup, views
from .exponential import divided, high_mul
from .family import Family
from .functions import NoResult
from .npu import NpuGraphBuilder

_MOST_SHIFT = 31
_48_OVER_17, _32_OVER_17 = 0x5A5A5A5A, 0x3C3C3C3C  # Q2.29
_LARGEST = (1 << 31) - 1


def quotients(graph: Graph, op: Operator) -> tuple[int, ...]:
    """The stored results for all stored values, the lowest first. Raises `NoResult` where kernels shift too far."""
    ifm, divisor, ofm = graph.read(op, 0), graph.read(op, 1), graph.made(op)
    assert divisor.data is not None, "a table is of one divisor"
    by = int(divisor.data.flat[0]) - zero_point_of(divisor)
    factor = np.float32(scale_of(ifm)) / (np.float32(scale_of(divisor)) * np.float32(scale_of(ofm)))
    significand, shift = multiplier_and_shift(float(factor))
    inverse, bits = _reciprocal(abs(by))
    smallest, largest = activation_range(ofm.quantisation, ofm.dtype, op.attributes(ArithmeticAttrs).activation)

    def stored(value: int) -> int:
        free = _free_bits(value)
        right = free + bits - shift
        if not 0 <= right <= _MOST_SHIFT:
            raise NoResult(
                f"it divides by {by} units and multiplies by {float(factor):g}, and shifts the quotient of {value} by "
                f"{right}; kernels are defined from 0 to {_MOST_SHIFT}"
            )
        found = divided(high_mul(high_mul(value << free, inverse), significand), right) + zero_point_of(ofm)
        return min(max(found, smallest), largest)

    lowest, highest = ifm.dtype.limits
    sign = -1 if by < 0 else 1
    return tuple(stored(sign * (value - zero_point_of(ifm))) for value in range(lowest, highest + 1))


def _free_bits(value: int) -> int:
    """How far a number may be shifted left within 32 bits with sign."""
    return 31 - (value if value >= 0 else -value - 1).bit_length()


def _reciprocal(value: int) -> tuple[int, int]:
    """2^(31 + bits) / value below 2^31, and the bits: three Newton steps on half of the value without leading zeros."""
    bits = value.bit_length() - 1
    half = value << (30 - bits)
    x = _48_OVER_17 + high_mul(half, -_32_OVER_17)
    for _ in range(3):
        x += high_mul(x, (1 << 29) - high_mul(half, x)) << 2
    return min(x << 1, _LARGEST), bits


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One look-up. Precondition: its family takes it."""
    lookup.look_up(graph, op_index, builder, quotients(graph, graph.operators[op_index]))


def _results(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    return lookup.looked_up(quotients(graph, op), graph.read(op), operands)


def _by_one_number(case: constraints.Case) -> str | None:
    value, divisor = case.values
    if value.is_constant:
        return f"its first input '{value.name}' is a constant; a table is of what a value is divided by"
    if divisor.data is None:
        return f"its divisor '{divisor.name}' is made while the network runs; the NPU divides by one constant alone"
    units = np.unique(divisor.data)
    if len(units) > 1:
        return f"its divisor '{divisor.name}' has {len(units)} different values; one is possible"
    if int(units[0]) == zero_point_of(divisor):
        return f"its divisor '{divisor.name}' is 0"
    result = np.broadcast_shapes(value.shape, divisor.shape)
    if value.shape != result:
        return f"'{value.name}' of shape {value.shape} is repeated to {result}; a table keeps the shape"
    return None


def _undefined(case: constraints.Case) -> str | None:
    try:
        quotients(case.graph, case.op)
    except NoResult as why:
        return str(why)
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


DIVISION_FAMILIES: Mapping[str, Family] = {
    "DIV": Family(
        "a table of the kernel's results",
        (
            constraints.FeatureMaps(constants=True),
            constraints.OneType(),
            constraints.Rule("the second input is one constant number, and not 0, the first is none", _by_one_number),
            constraints.Sizes(_seen),
            constraints.Rule("all results are defined: quotients are shifted by 0 to 31 bits", _undefined),
        ),
        lower,
        _results,
    )
}
