"""ADD, SUB, MUL, MAXIMUM and MINIMUM of two operands, of which one may be a constant or repeated.

Sums and products of 32 bits have no scales: kernels look at none of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import QUANTISED, Activation, AddAttrs, ArithmeticAttrs, DType, Graph, Integers, Operator, Tensor
from ..ir.quantised import (
    activation_range,
    add_headroom_bits,
    multiplier_and_shift,
    scale_of,
    zero_point_of,
)
from . import constraints, limits, operands, ranges
from .family import Family
from .feature_maps import Scalar
from .maker import AS_IS, Maker
from .npu import (
    NpuGraphBuilder,
    OperandScales,
    OperationKind,
    Scale,
    Scaling,
)


def lower_sum(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """ADD or SUB. Precondition: its family takes it."""
    op = graph.operators[op_index]
    seen, ofm = operands.pair_of(graph, op), graph.made(op)
    if ofm.dtype is DType.INT32:
        _lower(graph, op_index, builder, AS_IS, zero_point=0)
        return
    first, second = (scale_of(graph.read(op, place)) for place in (seen.first, seen.second))
    if _is_lost(second, first):
        # Whatever the constant holds, kernels add nothing.
        constant = graph.read(op, seen.second)
        nothing = Scalar(zero_point_of(constant), constant.dtype, zero_point_of(constant))
        _lower(graph, op_index, builder, OperandScales(first, first, scale_of(ofm)), second=nothing)
    else:
        _lower(graph, op_index, builder, OperandScales(first, second, scale_of(ofm)))


def lower_product(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """MUL. Precondition: its family takes it."""
    op = graph.operators[op_index]
    if graph.made(op).dtype is DType.INT32:
        _lower(graph, op_index, builder, AS_IS, zero_point=0)
        return
    real = product_factor(graph.read(op, 0), graph.read(op, 1), graph.made(op))
    _lower(graph, op_index, builder, Scale(*limits.npu_scale(real)))


def lower_comparison(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """MAXIMUM or MINIMUM, of the stored values as in the kernels. Precondition: its family takes it."""
    _lower(graph, op_index, builder, None, zero_point=0)


def _lower(
    graph: Graph,
    op_index: int,
    builder: NpuGraphBuilder,
    scaling: Scaling,
    zero_point: int | None = None,
    second: Scalar | None = None,
) -> None:
    op, kind = graph.operators[op_index], OperationKind[graph.operators[op_index].kind]
    seen, ofm, make = operands.pair_of(graph, op), graph.made(op), Maker(op.name, op_index, builder)
    make.point(
        kind,
        operands.first_operand(graph, op, make, seen, zero_point),
        second or operands.second_operand(graph, op, make, seen, zero_point),
        builder.view(op.outputs[0], seen.whole, zero_point),
        scaling,
        clamp=None if ofm.dtype is DType.INT32 else activation_range(ofm.quantisation, ofm.dtype, _activation(op)),
        swap_operands=kind is OperationKind.SUB and seen.first == 1,
    )


def _activation(op: Operator) -> Activation:
    return op.attrs.activation if isinstance(op.attrs, AddAttrs | ArithmeticAttrs) else Activation.NONE


def _stored(graph: Graph, op: Operator, results: Integers) -> Integers:
    """Results with their zero point, clamped."""
    ofm = graph.made(op)
    return np.clip(results, *activation_range(ofm.quantisation, ofm.dtype, _activation(op)))


def _sums(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    tensors, ofm = [graph.read(op, place) for place in (0, 1)], graph.made(op)
    headroom, twice = add_headroom_bits(ofm.dtype), 2.0 * max(map(scale_of, tensors))
    total = np.zeros(1, np.int64)
    for tensor, values, sign in zip(tensors, operands, (1, -1 if op.kind == "SUB" else 1), strict=True):
        raised = (values - zero_point_of(tensor)) << headroom
        # Behind the rounding, as in kernels: halves of either operand are rounded up.
        total = total + sign * limits.scaled(raised, *multiplier_and_shift(scale_of(tensor) / twice))
    factor = multiplier_and_shift(twice / ((1 << headroom) * scale_of(ofm)))
    return _stored(graph, op, limits.scaled(total, *factor) + zero_point_of(ofm))


def _products(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    a, b, ofm = graph.read(op, 0), graph.read(op, 1), graph.made(op)
    products = (operands[0] - zero_point_of(a)) * (operands[1] - zero_point_of(b))
    scaled = limits.scaled(products, *multiplier_and_shift(product_factor(a, b, ofm)))
    return _stored(graph, op, scaled + zero_point_of(ofm))


def _greater(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    return _stored(graph, op, np.maximum(*operands))


def _lesser(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    return _stored(graph, op, np.minimum(*operands))


def product_factor(a: Tensor, b: Tensor, ofm: Tensor) -> float:
    """What products of stored values are multiplied by, in float32 as in the kernels."""
    return float(np.float32(scale_of(a)) * np.float32(scale_of(b)) / np.float32(scale_of(ofm)))


def _is_lost(scale: float, largest: float) -> bool:
    """Whether nothing is left of an operand of that scale beside one of the largest."""
    return limits.npu_scale(scale / (2.0 * largest))[0] == 0


def _scales(case: constraints.Case) -> str | None:
    """Operand and output factors fit the NPU's shifts; one of 0 loses an operand, which only a constant may be."""
    if constraints.is_words(case):
        return None
    a, b, out = (scale_of(tensor) for tensor in (*case.values, case.ofm))
    largest, headroom = max(a, b), add_headroom_bits(case.ofm.dtype)
    factor = 2.0 * largest / (out * (1 << headroom))
    finer = case.values[0 if a < b else 1]
    if limits.npu_scale(factor)[0] == 0 or (_is_lost(min(a, b), largest) and not finer.is_constant):
        return f"scales {a:g} and {b:g} against an output of {out:g} lie too far apart; a factor below 2^-32 is lost"
    return limits.rescale(factor, limits.largest_value(case.ofm.dtype) << headroom)


def _below_one(case: constraints.Case) -> str | None:
    if constraints.is_words(case):
        return None
    largest = max(scale_of(tensor) for tensor in case.values)
    factor = 2.0 * largest / (scale_of(case.ofm) * (1 << add_headroom_bits(case.ofm.dtype)))
    return f"the factor from sum to output is {factor:g}; kernels are defined below 1" if factor >= 1.0 else None


def _product(case: constraints.Case) -> str | None:
    a, b = case.values
    if constraints.is_words(case):
        return None
    return limits.rescale(product_factor(a, b, case.ofm), operands.largest(a) * operands.largest(b))


def _words(case: constraints.Case) -> str | None:
    """Why results of 32 bits are not the kernels', which wrap where they do not fit, or None."""
    if not constraints.is_words(case):
        return None
    if (activation := _activation(case.op)) is not Activation.NONE:
        return f"{activation.name} is fused into it; results of int32 are not clamped"
    (low, high), (least, most) = ranges.of_result(case.graph, case.op), DType.INT32.limits
    if least <= low and high <= most:
        return None
    return f"its results may be {low} to {high}; beyond 32 bits kernels wrap, and what the NPU does is not known"


_REPEATED = (constraints.OneType(), operands.RepeatedOperand(), constraints.Sizes(operands.seen_shapes))
_COMPARED = (constraints.FeatureMaps(QUANTISED, constants=True, words=True), *_REPEATED)
_OPERANDS = (
    *_COMPARED,
    constraints.Rule(
        "results of int32 fit 32 bits, by who makes the operands, and have no activation", _words, constraints.is_words
    ),
)
_SCALES = constraints.Rule(f"{constraints.SUMS}, none below 2^-32 but a constant's", _scales)

BINARY_FAMILIES: Mapping[str, Family] = {
    "ADD": Family(
        "the NPU's sum of two operands",
        (*_OPERANDS, _SCALES),
        lower_sum,
        _sums,
    ),
    "MAXIMUM": Family("the NPU's greater of two operands", _COMPARED, lower_comparison, _greater),
    "MINIMUM": Family("the NPU's lesser of two operands", _COMPARED, lower_comparison, _lesser),
    "MUL": Family(
        "the NPU's product of two operands",
        (*_OPERANDS, constraints.Rule(constraints.SUMS, _product)),
        lower_product,
        _products,
    ),
    "SUB": Family(
        "the NPU's difference of two operands",
        (
            *_OPERANDS,
            _SCALES,
            constraints.Rule("the factor from sum to output is below 1", _below_one),
        ),
        lower_sum,
        _sums,
    ),
}
