"""MEAN and SUM over any axes: sums by convolutions whose weights are all one, and a scale, which divides if need be."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir import QUANTISED, DType, Graph, Operator, ReductionAttrs, Tensor
from ..ir.quantised import mean_multiplier, multiplier_and_shift, scale_of
from . import constraints, limits, reductions, word_sums
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, Scale


def _scale(graph: Graph, op: Operator, count: int) -> Scale:
    """NPU scale and shift of a sum of `count` values -> output, after LiteRT's reference kernel."""
    real = scale_of(graph.read(op)) / scale_of(graph.made(op))
    significand, shift = mean_multiplier(real, count) if op.kind == "MEAN" else multiplier_and_shift(real)
    return Scale(significand, 31 - shift)


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution, or sums of it that are added. Precondition: its family takes it."""
    op = graph.operators[op_index]
    if graph.read(op).dtype is DType.INT32:
        word_sums.lower(graph, op_index, builder)
        return
    way = reductions.chosen(graph.read(op).shape, op.attributes(ReductionAttrs).axes)
    assert way is not None, "the family takes only what there is a way for"
    source, target = builder.view(op.input(0), way.plane.shape), builder.view(op.outputs[0], way.made)
    scale = _scale(graph, op, _count(graph.read(op), op))
    reductions.summed(Maker(op.name, op_index, builder), source, way, target, scale)


def _count(tensor: Tensor, op: Operator) -> int:
    """How many elements become one."""
    return math.prod(tensor.shape[axis] for axis in op.attributes(ReductionAttrs).axes)


_LARGEST_SHIFT = 63


def _axes(case: constraints.Case) -> tuple[int, ...]:
    return case.op.attributes(ReductionAttrs).axes


def _refusal(case: constraints.Case) -> str | None:
    return word_sums.refusal(case) if constraints.is_words(case) else reductions.refusal(case.ifm, _axes(case))


def _seen(case: constraints.Case) -> constraints.Views:
    return word_sums.views_of(case) if constraints.is_words(case) else reductions.views_of(case, _axes(case))


def _factor(case: constraints.Case) -> str | None:
    if constraints.is_words(case):
        return None
    count = _count(case.ifm, case.op)
    ratio = scale_of(case.ifm) / scale_of(case.ofm)
    shift = _scale(case.graph, case.op, count).shift
    if not 0 <= shift <= _LARGEST_SHIFT:
        return (
            f"scales {scale_of(case.ifm):g} and {scale_of(case.ofm):g} need a shift of {shift}; 0 to {_LARGEST_SHIFT} "
            f"are possible"
        )
    real = ratio / count if case.op.kind == "MEAN" else ratio
    return limits.left_shift(31 - shift, limits.largest_value(case.ifm.dtype) * count, real)


_TAKES = (
    constraints.OneType(),
    constraints.Rule(
        f"over any axes: windows of at most {limits.MAX_KERNEL_ROWS} rows and {limits.MAX_KERNEL_ELEMENTS} elements, "
        f"or some of what is reduced by such a window, and its sums, at most {limits.MAX_DIMENSION} in each place, "
        f"added one run of axes after the other",
        _refusal,
    ),
    constraints.Sizes(_seen),
    constraints.Rule(constraints.SUMS, _factor),
)

MEAN_FAMILIES: Mapping[str, Family] = {
    "MEAN": Family(
        "convolutions whose weights are all one and whose scale divides, and sums of what these leave",
        (constraints.feature_maps(), *_TAKES),
        lower,
    ),
    "SUM": Family(
        "convolutions whose weights are all one, and sums of what these leave",
        (
            constraints.FeatureMaps(QUANTISED, words=True),
            *_TAKES,
            constraints.Rule(
                "sums of int32 fit 32 bits, by who makes what is summed", word_sums.beyond, constraints.is_words
            ),
        ),
        lower,
    ),
}
