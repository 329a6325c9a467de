"""SQUARED_DIFFERENCE: both operands brought to one scale in 16 bits, subtracted, and the square scaled.

Its kernel gives each operand seven bits of headroom before it scales it: the product with a number of 128.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import DType, Graph, Tensor
from ..quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, operands
from .family import Family
from .maker import AS_IS, Maker
from .npu import ConstantMap, FeatureMap, NpuGraphBuilder, OperationKind, Scalar, Scale

SQUARE_HEADROOM_BITS = 7


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Four operations, less where an operand is constant or both are one tensor. Precondition: its family takes it."""
    op = graph.operators[op_index]
    seen, make = operands.pair_of(graph, op), Maker(op.name, op_index, builder)
    first, second = graph.read(op, seen.first), graph.read(op, seen.second)
    factors = [_factor(tensor, max(scale_of(first), scale_of(second))) for tensor in (first, second)]
    raised = _raised(make, builder.view(op.input(seen.first), seen.whole), factors[0])
    if second.data is not None:
        centred = (second.data.astype(np.int64) - zero_point_of(second)) << SQUARE_HEADROOM_BITS
        values = limits.scaled(centred, *multiplier_and_shift(factors[1])).astype(np.int16)
        other: FeatureMap | ConstantMap | Scalar = operands.constant(values, DType.INT16, seen, graph.made(op).shape)
    elif op.input(0) == op.input(1):
        other = raised
    else:
        other = _raised(make, builder.view(op.input(seen.second), seen.seen[seen.second]), factors[1])
    difference = make.temporary(seen.whole, DType.INT16)
    make.point(OperationKind.SUB, raised, other, difference, AS_IS)
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
    highest = view.dtype.limits[1]
    number = Scalar(highest, view.dtype, highest - (1 << SQUARE_HEADROOM_BITS))
    ofm = make.temporary(view.shape, DType.INT16)
    return make.point(OperationKind.MUL, view, number, ofm, Scale(*limits.npu_scale(factor)))


def _factor(tensor: Tensor, largest: float) -> float:
    return scale_of(tensor) / (2.0 * largest)


def _result_factor(a: Tensor, b: Tensor, ofm: Tensor) -> float:
    twice = 2.0 * max(scale_of(a), scale_of(b))
    return twice * twice / ((1 << 2 * SQUARE_HEADROOM_BITS) * scale_of(ofm))


def _below_one(case: constraints.Case) -> str | None:
    factor = _result_factor(case.values[0], case.values[1], case.ofm)
    return f"the factor from square to output is {factor:g}; kernels are defined below 1" if factor >= 1.0 else None


SQUARED_DIFFERENCE_FAMILIES: Mapping[str, Family] = {
    "SQUARED_DIFFERENCE": Family(
        "a rescaling of each operand to 16 bits, the NPU's difference and its product with itself",
        (
            constraints.FeatureMaps(constants=True),
            constraints.OneType(),
            operands.Repeated(),
            constraints.Sizes(operands.seen_shapes),
            constraints.Rule("the factor from square to output is below 1", _below_one),
        ),
        lower,
    )
}
