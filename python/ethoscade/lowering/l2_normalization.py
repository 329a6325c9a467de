"""L2_NORMALIZATION over the last axis: the sum of squares, one over its root by Newton steps, and a product.

The last axis is a pixel's channels; an image stays an image. What is one number for each pixel is seen as channels, as
in SOFTMAX. Numbers are the reference kernel's: the sum, shifted by pairs of bits to 2^27 or more,
is Q3.28 between 1/4 and 1, and five Newton steps from 1 find one over its root, between 1 and 2. No step leaves 32 bits
for sums below 2^27: all of these were tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..ir import DType, Graph, Tensor
from ..ir.quantised import scale_of, zero_point_of
from ..util.records import dataclass
from . import constraints, last_axis, limits
from .family import Family
from .feature_maps import FeatureMap
from .maker import AS_IS, Maker, high
from .npu import NpuGraphBuilder, OperationKind, Rounding

MOST_SQUARES = ((1 << 27) - 1) // limits.LARGEST_VALUE**2
"""Squares of more of them could add up to 2^27."""

_SCALE = 1 / 128
_HALF_ROOT = 0x5A82, 0x799A
"""The halves of 1518500250: the square root of 1/2 in Q0.31."""


@dataclass(frozen=True)
class _Factors:
    """What a kernel multiplies one over the root by, as powers of two of the pairs of bits that a sum was shifted by.

    Differences are shifted left by `raised` ahead of it, and by one more bit for each pair beyond `middle`; products
    are shifted right by a bit for each pair that is missing.
    """

    middle: int
    raised: int


_OF_TYPE = {DType.INT8: _Factors(4, 0), DType.UINT8: _Factors(11, 7)}


def _zero_point(dtype: DType) -> int:
    """The zero point of what kernels make."""
    return sum(dtype.limits) // 2 + 1


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Some fifty operations, most of them on one number a row. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source = graph.read(op)
    shape, once = last_axis.seen(source.shape)
    pixels = math.prod(source.shape[:-1])
    make, factors = Maker(op.name, op_index, builder, Rounding.NATURAL), _OF_TYPE[source.dtype]
    ifm = builder.view(op.input(0), shape)
    total = last_axis.total(make, make.wide(OperationKind.MUL, ifm, ifm, scaling=AS_IS), pixels)
    # One over the root of nothing is multiplied by nothing: of which number it is does not matter.
    total = make.wide(OperationKind.MAXIMUM, total, 1)
    zeros = make.wide(OperationKind.CLZ, total)
    # Half the leading zeros but one, rounded down: a pair more than fit.
    pairs = make.wide(OperationKind.SHR, make.wide(OperationKind.SUB, zeros, 2, scaling=AS_IS), 1)
    inverse = _inverse_root(make, total, zeros, pairs)
    beyond = make.wide(OperationKind.SUB, pairs, factors.middle + 1, scaling=AS_IS)
    left = make.wide(OperationKind.MAXIMUM, beyond, 0)
    right = make.wide(OperationKind.SUB, left, beyond, scaling=AS_IS)
    if factors.raised:
        left = make.wide(OperationKind.ADD, left, factors.raised, scaling=AS_IS)
    power = make.wide(OperationKind.SHL, left, 1, swap_operands=True)
    # The two bits that `_divided` adds.
    right = make.wide(OperationKind.ADD, right, 2, scaling=AS_IS)
    power, inverse, right = (replace(view, shape=once) for view in (power, inverse, right))
    centred = make.wide(OperationKind.ADD, ifm, 0, scaling=AS_IS)
    product = make.wide(
        OperationKind.MUL, make.wide(OperationKind.MUL, centred, power, scaling=AS_IS), inverse, scaling=high(31)
    )
    _divided(make, product, right, builder.view(op.outputs[0], shape))


def _inverse_root(make: Maker, total: FeatureMap, zeros: FeatureMap, pairs: FeatureMap) -> FeatureMap:
    """One over the root of the sum without its leading pairs of zeros, Q3.28, halved: between 1/2 and 1."""
    shift = make.wide(OperationKind.SUB, make.wide(OperationKind.ADD, pairs, pairs, scaling=AS_IS), 4, scaling=AS_IS)
    half = make.wide(OperationKind.SHL, total, shift)
    # The first step, from 1: products with 1 in Q3.28 are shifts by 3. There are more than three leading zeros, so
    # the lesser of them and 3 is 3.
    three = make.wide(OperationKind.MINIMUM, zeros, 3)
    step = make.wide(
        OperationKind.SUB, make.wide(OperationKind.SHL, three, 24), make.wide(OperationKind.SHR, half, 3), scaling=AS_IS
    )
    x = make.wide(OperationKind.SHL, step, 3)
    for _ in range(4):
        cube = make.wide(OperationKind.MUL, make.wide(OperationKind.MUL, x, x, scaling=high(31)), x, scaling=high(31))
        cube = make.wide(OperationKind.MUL, half, make.wide(OperationKind.SHL, cube, 6), scaling=high(31))
        step = make.wide(OperationKind.SUB, make.wide(OperationKind.MUL, x, 3, scaling=high(4)), cube, scaling=AS_IS)
        x = make.wide(OperationKind.SHL, step, 3)
    # There are fewer leading zeros than any such number.
    upper, lower_half = _HALF_ROOT
    root = make.wide(OperationKind.SHL, make.wide(OperationKind.MAXIMUM, zeros, upper), 16)
    root = make.wide(OperationKind.ADD, root, lower_half, scaling=AS_IS)
    return make.wide(OperationKind.MUL, x, root, scaling=high(31))


def _divided(make: Maker, product: FeatureMap, shift: FeatureMap, ofm: FeatureMap) -> None:
    """Stores product / 2^(shift - 2), halves away from zero, where shifts round halves up.

    Four times the product, less 1 where it is below zero, lies nowhere in the middle of two results.
    """
    sign = make.wide(OperationKind.MAXIMUM, make.wide(OperationKind.MINIMUM, product, 0), -1)
    fourfold = make.wide(OperationKind.MUL, product, 4, scaling=AS_IS)
    make.point(OperationKind.SHR, make.wide(OperationKind.ADD, fourfold, sign, scaling=AS_IS), shift, ofm)


def _fixed(case: constraints.Case) -> str | None:
    made: Tensor = case.ofm
    scale, zero_point = scale_of(made), zero_point_of(made)
    wanted = _zero_point(made.dtype)
    if (scale, zero_point) == (_SCALE, wanted):
        return None
    return f"its output has scale {scale:g} and zero point {zero_point}; kernels make it with 1/128 and {wanted}"


L2_FAMILIES: Mapping[str, Family] = {
    "L2_NORMALIZATION": Family(
        "a sum of squares, one over its root by Newton steps, and a product: some fifty operations",
        (
            constraints.FeatureMaps(),
            constraints.OneType(),
            constraints.Rank(),
            last_axis.Depth(MOST_SQUARES),
            constraints.Sizes(last_axis.pixels),
            constraints.Rule("the output's scale is 1/128, its zero point 0, of uint8 128", _fixed),
        ),
        lower,
    )
}
