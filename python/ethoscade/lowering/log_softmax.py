"""LOG_SOFTMAX over the last axis: as SOFTMAX a maximum, a table and a sum of exponentials; then the sum's logarithm.

The logarithm is one number for each pixel, seen as the channels of others. It is found as the
reference kernels find it: the sum is normalised to between the root of 1/2 and 1, of which a quotient of polynomials is
the logarithm, and its power of two is added. Distances from the maximum are looked up a second time, as numbers from
which the logarithm is taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import DType, Graph
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, last_axis, softmax
from .exponential import DISTANCES, divided, exponentials, high_mul
from .family import Family
from .feature_maps import ConstantMap, FeatureMap
from .maker import AS_IS, Maker, high
from .npu import (
    NpuGraphBuilder,
    OperationKind,
    Rounding,
    Table,
)

_SUM_BITS = 12  # integer bits of the sum of exponentials
_FRACTION_BITS = 26  # distances and logarithms are Q5.26
_LOWEST = -16 << _FRACTION_BITS
"""Where no result is above the lowest: distances of more are looked up as this one, so that no difference overflows."""
_LARGEST_SCALE = 16.0
"""With larger ones kernels round the distance beyond which they count nothing to one that counts."""
_MADE_SCALE = 1 / 16

# All Q0.31.
_LOG_2 = 1488522236
_ROOT_HALF = 1518500250
_FOURTH_ROOT_HALF = 1805811301
_NUMERATOR = 117049297
_SQUARE, _OFFSET, _SLOPE = 127690142, 1057819769, 638450708


def _distances(scale: float) -> tuple[int, ...]:
    """scale * -distance in Q5.26 for the distances 0 to 255; `_LOWEST` for what kernels count as nothing."""
    significand, shift = multiplier_and_shift(min(scale * (1 << _FRACTION_BITS), (1 << 31) - 1.0))
    furthest = math.floor(31 * (1 << _FRACTION_BITS) / 2.0**shift)

    def of(distance: int) -> int:
        found = divided(high_mul(-distance << max(shift, 0), significand), max(-shift, 0))
        return max(found, _LOWEST) if distance <= furthest else _LOWEST

    return tuple(of(distance) for distance in range(DISTANCES))


def _table(entries: tuple[int, ...]) -> Table:
    return Table(np.array(entries[::-1], "<i4").tobytes())


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Some sixty operations, most of them on one number a row. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source = graph.read(op)
    pixels = math.prod(source.shape[:-1])
    shape, once = last_axis.seen(source.shape)
    make = Maker(op.name, op_index, builder, Rounding.NATURAL)
    ifm = builder.view(op.input(0), shape, zero_point=0)
    maximum = last_axis.largest(make, op.input(0), source.shape)
    table = _table(exponentials(1.0, scale_of(source)))
    total = make.wide(OperationKind.SHR, softmax.looked_up(make, ifm, maximum, table), _SUM_BITS)
    log = _logarithm(make, last_axis.total(make, total, pixels))
    distances = softmax.looked_up(make, ifm, maximum, _table(_distances(scale_of(source))))
    found = make.wide(OperationKind.SUB, distances, replace(log, shape=once), scaling=AS_IS)
    # Products round halves up; what is below zero is to round them down.
    sign = make.wide(OperationKind.MAXIMUM, make.wide(OperationKind.MINIMUM, found, 0), -1)
    found = make.wide(OperationKind.ADD, found, sign, scaling=AS_IS)
    ofm = builder.view(op.outputs[0], shape, zero_point=source.dtype.limits[1])
    make.point(OperationKind.MUL, found, 1, ofm, scaling=high(_FRACTION_BITS - 4))


def _logarithm(make: Maker, total: FeatureMap) -> FeatureMap:
    """The natural logarithm, in Q5.26, of sums in Q12.19 that are 1 or more."""

    def add(a: FeatureMap, b: FeatureMap | ConstantMap | int) -> FeatureMap:
        return make.wide(OperationKind.ADD, a, b, scaling=AS_IS)

    def times(a: FeatureMap, b: FeatureMap | ConstantMap | int, shift: int = 31) -> FeatureMap:
        return make.wide(OperationKind.MUL, a, b, scaling=high(shift) if shift else AS_IS)

    zeros = make.wide(OperationKind.CLZ, total)
    # 1 where the sum times the root of 1/2 has another bit less, so that twice that is above the root of 1/2 too.
    turned = make.wide(
        OperationKind.SUB, make.wide(OperationKind.CLZ, times(total, _number(_ROOT_HALF))), zeros, scaling=AS_IS
    )
    kept = make.wide(OperationKind.SUB, turned, 1, scaling=AS_IS, swap_operands=True)
    whole = make.wide(OperationKind.SHL, total, make.wide(OperationKind.SUB, zeros, 1, scaling=AS_IS))
    r = add(times(whole, kept, 0), times(times(whole, _number(_ROOT_HALF)), add(turned, turned), 0))
    # 12 less the leading zeros, and 1/4 or 3/4: quarters in Q6.25.
    quarters = make.wide(OperationKind.SUB, times(zeros, 4, 0), 49, scaling=AS_IS, swap_operands=True)
    power = make.wide(OperationKind.SHL, add(quarters, add(kept, kept)), 23)
    q = make.wide(OperationKind.SUB, r, _number(_FOURTH_ROOT_HALF), scaling=AS_IS)
    p = add(times(q, 1, 1), _number(_FOURTH_ROOT_HALF))
    q = add(q, q)
    square = times(q, q)
    numerator = add(times(q, r), times(times(q, square), _number(_NUMERATOR)))
    denominator = add(add(times(square, _number(_SQUARE)), q), _number(_OFFSET))
    denominator = add(times(p, denominator), times(q, _number(_SLOPE)))
    # Half of 1 more, rounded down.
    half = add(times(add(denominator, -1), 1, 1), _number(1 << 30))
    inverse = softmax.reciprocal(make, half, total)
    # Twice the numerator, less 1 below zero, lies nowhere in the middle of two results.
    sign = make.wide(OperationKind.MAXIMUM, make.wide(OperationKind.MINIMUM, numerator, 0), -1)
    numerator = make.wide(OperationKind.SHR, add(add(numerator, numerator), sign), 7)
    log = add(times(power, _number(_LOG_2)), times(numerator, add(inverse, inverse)))
    return add(log, log)


def _number(value: int) -> ConstantMap:
    """A constant of 32 bits, which a scalar of the NPU cannot be."""
    return ConstantMap(np.full((1, 1, 1), value, np.int32), DType.INT32)


def _scales(case: constraints.Case) -> str | None:
    scale = scale_of(case.ifm)
    if scale > _LARGEST_SCALE:
        return f"its input has scale {scale:g}; with more than {_LARGEST_SCALE:g} kernels count some values as nothing"
    if scale * (1 << _FRACTION_BITS) <= 1:
        return f"its input has scale {scale:g}; kernels are defined above 2^-{_FRACTION_BITS}"
    made, highest = case.ofm, case.ofm.dtype.limits[1]
    if (scale_of(made), zero_point_of(made)) != (_MADE_SCALE, highest):
        return (
            f"its output has scale {scale_of(made):g} and zero point {zero_point_of(made)}; kernels make it with 1/16 "
            f"and {highest}"
        )
    return None


LOG_SOFTMAX_FAMILIES: Mapping[str, Family] = {
    "LOG_SOFTMAX": Family(
        "a maximum, a table of exponentials, their sum and its logarithm: some sixty operations",
        (
            constraints.FeatureMaps(),
            constraints.OneType(),
            last_axis.Depth(softmax.MOST_CHANNELS, why=softmax.WHY_NO_MORE),
            constraints.Sizes(last_axis.pixels),
            constraints.Rule(
                f"the input's scale is above 2^-{_FRACTION_BITS} and at most {_LARGEST_SCALE:g}, the output's 1/16, "
                "and its zero point the largest value",
                _scales,
            ),
        ),
        lower,
    )
}
