"""SQUARED_DIFFERENCE: both operands brought to one scale in 16 bits, subtracted, and the square scaled.

Its kernel gives each operand of 8 bits seven more before it scales it: the product with a number of 128. Operands of 16
bits have none to spare, and their difference is taken so that it is never positive: 32768 would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import QUANTISED, DType, Graph, Tensor
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, operands
from .family import Family
from .feature_maps import ConstantMap, FeatureMap, Scalar
from .maker import AS_IS, Maker
from .npu import NpuGraphBuilder, OperationKind, Scale


def _headroom_bits(dtype: DType) -> int:
    """By how many bits operands are raised before they are scaled."""
    return 0 if dtype is DType.INT16 else 7


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Four to six operations, less where an operand is constant or both are one. Precondition: its family takes it."""
    op = graph.operators[op_index]
    seen, make = operands.pair_of(graph, op), Maker(op.name, op_index, builder)
    first, second = graph.read(op, seen.first), graph.read(op, seen.second)
    factors = [_factor(tensor, max(scale_of(first), scale_of(second))) for tensor in (first, second)]
    raised = _raised(make, operands.first_operand(graph, op, make, seen), factors[0])
    if second.data is not None:
        centred = (second.data.astype(np.int64) - zero_point_of(second)) << _headroom_bits(second.dtype)
        values = limits.scaled(centred, *multiplier_and_shift(factors[1])).astype(np.int16)
        other: FeatureMap | ConstantMap | Scalar = operands.constant(values, DType.INT16, seen)
    elif op.input(0) == op.input(1):
        other = raised
    else:
        second_map = operands.second_operand(graph, op, make, seen)
        assert isinstance(second_map, FeatureMap), "it is no constant"
        other = _raised(make, second_map, factors[1])
    if first.dtype is DType.INT16:
        lesser, greater = (make.short(kind, raised, other) for kind in (OperationKind.MINIMUM, OperationKind.MAXIMUM))
        difference = make.short(OperationKind.SUB, lesser, greater, AS_IS)
    else:
        difference = make.short(OperationKind.SUB, raised, other, AS_IS)
    ofm = builder.view(op.outputs[0], seen.whole)
    make.point(
        OperationKind.MUL,
        difference,
        difference,
        ofm,
        Scale(*limits.npu_scale(_result_factor(first, second, graph.made(op)))),
    )


def _raised(make: Maker, view: FeatureMap, factor: float) -> FeatureMap:
    """An operand in the common scale. A number's zero point makes it 128, which int8 does not hold."""
    highest, bits = view.dtype.limits[1], _headroom_bits(view.dtype)
    number = Scalar(highest, view.dtype, highest - (1 << bits)) if bits else Scalar(1, view.dtype)
    return make.short(OperationKind.MUL, view, number, Scale(*limits.npu_scale(factor)))


def _factor(tensor: Tensor, largest: float) -> float:
    return scale_of(tensor) / (2.0 * largest)


def _result_factor(a: Tensor, b: Tensor, ofm: Tensor) -> float:
    twice = 2.0 * max(scale_of(a), scale_of(b))
    return twice * twice / ((1 << 2 * _headroom_bits(ofm.dtype)) * scale_of(ofm))


def _factor_fits(case: constraints.Case) -> str | None:
    factor = _result_factor(case.values[0], case.values[1], case.ofm)
    if case.ofm.dtype is DType.INT16:
        return limits.rescale(factor, limits.largest_value(DType.INT16) ** 2)
    return f"the factor from square to output is {factor:g}; kernels are defined below 1" if factor >= 1.0 else None


SQUARED_DIFFERENCE_FAMILIES: Mapping[str, Family] = {
    "SQUARED_DIFFERENCE": Family(
        "a rescaling of each operand to 16 bits, the NPU's difference and its product with itself",
        (
            constraints.FeatureMaps(QUANTISED, constants=True),
            constraints.OneType(),
            operands.RepeatedOperand(),
            constraints.Sizes(operands.seen_shapes),
            constraints.Rule(f"the factor from square to output is below 1; of int16 {constraints.SUMS}", _factor_fits),
        ),
        lower,
    )
}
