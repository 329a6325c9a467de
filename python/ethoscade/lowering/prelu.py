"""PRELU: values below zero times slopes, most often one for each channel.

With slopes of at most 1 the result is the greater of the value and its product with the slope, with slopes of at least
1 the lesser: where that is exact for every stored value and every slope, two or three operations do. Else, or with
slopes that are made while the network runs, both sides of zero are computed apart, in 16 bits, and added: one is zero.
Slopes for int16 are int8; the NPU reads them as int16, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..ir import QUANTISED, DType, Graph, Operator, Tensor
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, operands
from .binary import product_factor
from .family import Family
from .feature_maps import ConstantMap, FeatureMap, Scalar
from .maker import AS_IS, Maker
from .npu import NpuGraphBuilder, OperationKind, Scale


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Two to four operations. Precondition: its family takes it."""
    op = graph.operators[op_index]
    seen, make = operands.pair_of(graph, op, first=0), Maker(op.name, op_index, builder)
    ifm, slopes, ofm = graph.read(op), graph.read(op, 1), graph.made(op)
    above, below = _above(ifm, ofm), product_factor(ifm, slopes, ofm)
    x, slope = operands.first_operand(graph, op, make, seen), _slope(make, graph, op, seen)
    one = Scalar(1, ifm.dtype)
    kind = _comparison(ifm, slopes, ofm)
    if kind is None:
        result = builder.view(op.outputs[0], seen.whole)
        upper = make.temporary(seen.whole, DType.INT16)
        make.point(OperationKind.MUL, x, one, upper, _scale(above), clamp=(0, DType.INT16.limits[1]))
        negative = make.temporary(seen.whole, ifm.dtype)
        make.point(OperationKind.MINIMUM, _stored(x), Scalar(zero_point_of(ifm), ifm.dtype), negative)
        lower_ = make.temporary(seen.whole, DType.INT16)
        make.point(OperationKind.MUL, _centred(negative, ifm), slope, lower_, _scale(below))
        make.point(OperationKind.ADD, upper, lower_, result, AS_IS)
        return
    zero_point = zero_point_of(ofm)
    sloped = make.temporary(seen.whole, ofm.dtype, zero_point)
    make.point(OperationKind.MUL, x, slope, sloped, _scale(below))
    if above == 1.0 and zero_point_of(ifm) == zero_point:
        straight = x
    else:
        straight = make.point(
            OperationKind.MUL, x, one, make.temporary(seen.whole, ofm.dtype, zero_point), _scale(above)
        )
    made = builder.view(op.outputs[0], seen.whole, 0)
    make.point(kind, _stored(straight), _stored(sloped), made)


def _slope(make: Maker, graph: Graph, op: Operator, seen: operands.Pairing) -> FeatureMap | ConstantMap | Scalar:
    """The slopes, of the type of the values that they multiply."""
    dtype, slopes = graph.read(op).dtype, graph.read(op, 1)
    if slopes.dtype is not dtype and slopes.data is not None:
        centred = slopes.data.astype(np.int64) - zero_point_of(slopes)
        return operands.constant(centred, dtype, seen)
    found = operands.second_operand(graph, op, make, seen)
    if slopes.dtype is dtype or not isinstance(found, FeatureMap):
        return found
    return make.copy(found, make.temporary(found.shape, dtype))


def _scale(real: float) -> Scale:
    return Scale(*limits.npu_scale(real))


def _stored(view: FeatureMap) -> FeatureMap:
    return replace(view, zero_point=0)


def _centred(view: FeatureMap, like: Tensor) -> FeatureMap:
    return replace(view, zero_point=zero_point_of(like))


def _above(ifm: Tensor, ofm: Tensor) -> float:
    """What values of zero and more are multiplied by, in float32 as in the kernels."""
    return float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))


def _comparison(ifm: Tensor, slopes: Tensor, ofm: Tensor) -> OperationKind | None:
    """Which comparison of a value and its product gives the result for every stored value and slope, if one does.

    Scaling keeps order: where the largest slope leaves the greater of the two as it ought to be, lesser slopes do.
    """
    if slopes.data is None:
        return None
    x, slope = operands.centred(ifm), operands.centred(slopes)

    def stored(values: npt.NDArray[np.int64], real: float) -> npt.NDArray[np.int64]:
        return np.clip(limits.scaled(values, *multiplier_and_shift(real)) + zero_point_of(ofm), *ofm.dtype.limits)

    straight = stored(x, _above(ifm, ofm))
    for kind, steepest, chosen in (
        (OperationKind.MAXIMUM, slope[-1], np.maximum),
        (OperationKind.MINIMUM, slope[0], np.minimum),
    ):
        sloped = stored(x * steepest, product_factor(ifm, slopes, ofm))
        if np.array_equal(chosen(straight, sloped), np.where(x >= 0, straight, sloped)):
            return kind
    return None


def _types(case: constraints.Case) -> str | None:
    ifm, slopes = case.values
    wanted = DType.INT8 if ifm.dtype is DType.INT16 else ifm.dtype
    if (slopes.dtype, case.ofm.dtype) == (wanted, ifm.dtype):
        return None
    return (
        f"'{ifm.name}' is {ifm.dtype.value}, '{case.ofm.name}' {case.ofm.dtype.value} and slopes '{slopes.name}' "
        f"{slopes.dtype.value}; these are possible as {wanted.value} between {ifm.dtype.value}"
    )


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, operands.pair_of(case.graph, case.op, first=0).whole)]


def _sums(case: constraints.Case) -> str | None:
    ifm, slopes = case.values
    largest = limits.largest_value(ifm.dtype)
    return limits.rescale(_above(ifm, case.ofm), largest) or limits.rescale(
        product_factor(ifm, slopes, case.ofm), largest * limits.largest_value(slopes.dtype)
    )


def _is_made(case: constraints.Case) -> str | None:
    """The first input is a feature map, of the result's shape as the reader has it."""
    return f"its input '{case.ifm.name}' is a constant" if case.ifm.is_constant else None


PRELU_FAMILIES: Mapping[str, Family] = {
    "PRELU": Family(
        "the NPU's product with the slopes, and the greater or lesser of it and the value, or a sum of both sides",
        (
            constraints.FeatureMaps(QUANTISED, constants=True),
            constraints.Rule("inputs and outputs have one type, but that slopes for int16 are int8", _types),
            constraints.Rule("the slopes alone may be constants", _is_made),
            operands.RepeatedOperand(first=0),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _sums),
        ),
        lower,
    )
}
