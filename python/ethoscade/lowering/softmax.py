"""SOFTMAX over the last axis: of 8-bit values a maximum, a table of exponentials, a sum and its reciprocal.

The last axis is a pixel's channels; an image stays an image. Exponentials are looked up twice, on the way to their sum
and to the result, so that stripes pass both ways and no buffer keeps 32 bits for every value: of a single pixel
neither, as its channels are cut into rows (`last_axis`). What is one number for each pixel in between is seen as
channels, a row's as those of one pixel, as the NPU works on many channels at a time. The reciprocal is found by three
Newton steps on half the sum, as the reference kernel does it; the constants of 32 bits that these take do not fit a
scalar of the NPU, and are made of the sum, which is never small. int16 is in `softmax_sixteen`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import DType, Graph, Operator, SoftmaxAttrs
from ..ir.quantised import scale_of
from . import constraints, last_axis, softmax_sixteen
from .exponential import divided, exponentials, high_mul
from .family import Family
from .feature_maps import FeatureMap
from .maker import AS_IS, Maker, high
from .npu import (
    NpuGraphBuilder,
    OperationKind,
    Rounding,
    Table,
)

MOST_CHANNELS = 4095
"""Exponentials are summed in units of 2^-19: of more of them the sum could leave 32 bits."""

WHY_NO_MORE = ", as of equal ones sums leave 32 bits, where no kernel is defined"

_CHANNELS_OF_SHORT_SHIFTS = 511
"""With more of them the last shift could be by more than 31 bits, which the NPU may not have."""

_SUM_BITS = 12  # integer bits of the sum of exponentials
_LARGEST = (1 << 31) - 1


def _shape(graph: Graph, op: Operator) -> tuple[int, int]:
    *leading, channels = graph.read(op).shape or (1,)
    return int(np.prod(leading, dtype=np.int64)), channels


def _exponentials(graph: Graph, op: Operator) -> tuple[int, ...]:
    return exponentials(op.attributes(SoftmaxAttrs).beta, scale_of(graph.read(op)))


def _saturation_shows(table: tuple[int, ...]) -> bool:
    """Whether it makes a difference that the reference saturates a reciprocal of 1 to the largest 32-bit number.

    The NPU multiplies by 1 exactly. Rounded to 8 bits the products are equal, but for one in many million numbers.
    """
    return any(
        divided(value, shift) != divided(high_mul(_LARGEST, value), shift)
        for value in table
        for shift in range(31 - 8, _SUM_BITS + 31 - 8)
    )


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Some thirty operations, most of them on one number a row. Precondition: its family takes it."""
    op = graph.operators[op_index]
    if graph.read(op).dtype is DType.INT16:
        softmax_sixteen.lower(graph, op_index, builder)
        return
    source, target = op.input(0), op.outputs[0]
    rows, channels = _shape(graph, op)
    dtype = graph.tensors[source].dtype
    shape, once = last_axis.seen(graph.tensors[source].shape)
    make = Maker(op.name, op_index, builder, Rounding.NATURAL)
    ifm = builder.view(source, shape, zero_point=0)

    # The distance from a row's maximum is what the table is asked for.
    maximum = last_axis.largest(make, source, graph.tensors[source].shape)
    table = Table(np.array(_exponentials(graph, op)[::-1], "<i4").tobytes())
    total = make.wide(OperationKind.SHR, looked_up(make, ifm, maximum, table), _SUM_BITS)
    total = last_axis.total(make, total, rows)
    zeros = make.wide(OperationKind.CLZ, total)
    # The sum without its leading zeros, halved.
    half = make.wide(OperationKind.SHL, total, make.wide(OperationKind.SUB, zeros, 1, scaling=AS_IS))
    inverse = reciprocal(make, half, total)
    if channels > _CHANNELS_OF_SHORT_SHIFTS:
        inverse = make.wide(OperationKind.MUL, inverse, _is_short(make, zeros), scaling=AS_IS)
    shift = make.wide(OperationKind.SUB, zeros, _SUM_BITS + 31 - 8, scaling=AS_IS, swap_operands=True)
    if channels > _CHANNELS_OF_SHORT_SHIFTS:
        shift = make.wide(OperationKind.MINIMUM, shift, 31)
    inverse, shift = (replace(view, shape=once) for view in (inverse, shift))
    # inverse is Q2.29 of 2^31 over the sum without its leading zeros: twice that, as the product has 31 bits less.
    product = make.wide(OperationKind.MUL, looked_up(make, ifm, maximum, table), inverse, scaling=high(30))
    ofm = builder.view(target, shape, zero_point=dtype.limits[0])
    make.point(OperationKind.SHR, product, shift, ofm)


def looked_up(make: Maker, ifm: FeatureMap, maximum: FeatureMap, table: Table) -> FeatureMap:
    """What a table of 256 entries of 32 bits has for each value's distance from the largest of its pixel."""
    found = make.wide(OperationKind.SUB, ifm, maximum, scaling=AS_IS, function=table, zero_point=127)
    # The zero point places distances in the table. What readers see there are entries, which have none.
    return replace(found, zero_point=0)


def _is_short(make: Maker, zeros: FeatureMap) -> FeatureMap:
    """1 where the last shift is by 31 or less, 0 where it leaves nothing of any value."""
    least = _SUM_BITS + 31 - 8 - 31
    above = make.wide(OperationKind.SUB, zeros, least - 1, scaling=AS_IS)
    return make.wide(OperationKind.MINIMUM, make.wide(OperationKind.MAXIMUM, above, 0), 1)


def reciprocal(make: Maker, half: FeatureMap, total: FeatureMap) -> FeatureMap:
    """1 / half in Q2.29, of 2^30 or more: 48/17 - 32/17 * half, then three Newton steps.

    Constants are made of the `total`, which is 2^14 or more.
    """
    # 32/17 is 0x3C3C3C3C in Q2.29, and 48/17 half as much again. The lesser of a sum and any such number is the number.
    low = make.wide(OperationKind.MINIMUM, total, -0x3C3C)
    slope = make.wide(OperationKind.ADD, make.wide(OperationKind.SHL, low, 16), low, scaling=AS_IS)
    offset = make.wide(OperationKind.MUL, slope, -3, scaling=high(1))
    one = make.wide(OperationKind.SHL, make.wide(OperationKind.MINIMUM, total, 1 << 14), 15)
    x = make.wide(OperationKind.MUL, half, slope, scaling=high(31))
    x = make.wide(OperationKind.ADD, x, offset, scaling=AS_IS)
    for _ in range(3):
        error = make.wide(OperationKind.MUL, half, x, scaling=high(31))
        error = make.wide(OperationKind.SUB, one, error, scaling=AS_IS)
        step = make.wide(OperationKind.MUL, x, error, scaling=high(31))
        step = make.wide(OperationKind.MUL, step, 4, scaling=AS_IS)
        x = make.wide(OperationKind.ADD, x, step, scaling=AS_IS)
    return x


def _rounds_otherwise(case: constraints.Case) -> str | None:
    if case.ifm.dtype is DType.INT16:
        return softmax_sixteen.refusal(case.graph, case.op)
    if _saturation_shows(_exponentials(case.graph, case.op)):
        return f"with a scale of {scale_of(case.ifm):g} equal values are not rounded as the reference rounds them"
    return None


SOFTMAX_FAMILIES: Mapping[str, Family] = {
    "SOFTMAX": Family(
        "a maximum, a table of exponentials, a sum and its reciprocal: some thirty operations",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            last_axis.Depth(MOST_CHANNELS, softmax_sixteen.MOST_OF_SIXTEEN_BITS, WHY_NO_MORE),
            constraints.Sizes(last_axis.pixels),
            constraints.Rule("equal values are rounded as the reference rounds them", _rounds_otherwise),
        ),
        lower,
    )
}
