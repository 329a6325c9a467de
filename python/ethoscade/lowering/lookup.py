"""Functions of one element, looked up: whatever the function, one pass over the stored values with a table of results.

Owns the step from a kernel's results (`functions`) to the table of an operation that looks up in it. The operation
copies stored values, so that nothing is rounded but by the kernel's own arithmetic. Where results are no more than
rescaled and clamped, the operation does that instead: looking up takes longer. Where the table can become part of the
operation before, `folding` sees to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import EIGHT_BIT, DType, Graph, Integers, Operator, Tensor
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, functions, functions16, limits, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, Scale, Table


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One look-up of 8 bits, what `functions16` has of 16. Precondition: its family takes it."""
    op = graph.operators[op_index]
    if graph.read(op).dtype is DType.INT16:
        functions16.lower(graph, op_index, builder)
        return
    results = functions.results(op, graph.read(op), graph.made(op))
    look_up(graph, op_index, builder, results)


def _results(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    return looked_up(functions.results(op, graph.read(op), graph.made(op)), graph.read(op), operands)


def looked_up(results: Sequence[int], ifm: Tensor, operands: Sequence[Integers]) -> Integers:
    """The results, of which there is one for each stored value, of the only operand's."""
    return np.array(results, np.int64)[operands[0] - ifm.dtype.limits[0]]


def look_up(graph: Graph, op_index: int, builder: NpuGraphBuilder, results: Sequence[int]) -> None:
    """One operation with these results of all stored values, the lowest first. Precondition: 8 bits, one type."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape, make = views.image_shape(ifm.shape), Maker(op.name, op_index, builder)
    table, factor = Table(np.array(results, ofm.dtype.numpy).tobytes()), _factor(ifm, ofm, results)
    if factor is None:
        stored, found = (builder.view(t, shape, zero_point=0) for t in (op.input(0), op.outputs[0]))
        make.look_up(stored, found, table)
        return
    clamp = min(results), max(results)
    given, made = builder.view(op.input(0), shape), builder.view(op.outputs[0], shape)
    make.copy(given, made, Scale(*limits.npu_scale(factor)), clamp=clamp, same_as=table)


def _factor(ifm: Tensor, ofm: Tensor, results: Sequence[int]) -> float | None:
    """The quotient of the scales, if a copy times it has these results but for a clamp."""
    real = float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))
    if limits.rescale(real, limits.LARGEST_VALUE) is not None:
        return None
    lowest, highest = ifm.dtype.limits
    values = np.arange(lowest, highest + 1) - zero_point_of(ifm)
    copied = limits.scaled(values, *multiplier_and_shift(real)) + zero_point_of(ofm)
    return real if np.array_equal(np.clip(copied, min(results), max(results)), results) else None


def _undefined(case: constraints.Case) -> str | None:
    if case.ifm.dtype is DType.INT16:
        return functions16.undefined(case)
    try:
        functions.results(case.op, case.ifm, case.ofm)
    except functions.NoResult as why:
        return str(why)
    return None


def _scale(case: constraints.Case) -> str | None:
    scale = scale_of(case.ofm)
    return (
        None
        if scale == 1 / 256 or case.ofm.dtype is DType.INT16
        else f"its output has scale {scale:g}; kernels make it with 1/256"
    )


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


def _family(*types: DType, rules: tuple[constraints.Constraint, ...] = ()) -> Family:
    return Family(
        "a table of the kernel's results",
        (
            constraints.FeatureMaps(types),
            constraints.OneType(),
            constraints.Sizes(_seen),
            *rules,
            constraints.Rule("all results are defined: no step of the kernel leaves its integers", _undefined),
        ),
        lower,
        _results,
    )


_SIGNED = ("ELU", "EXP", "LOG", "NEG", "RSQRT", "SQRT")
"""Kinds of which no runtime has a kernel of uint8."""
_NARROW = ("ELU", "HARD_SWISH", "RELU_0_TO_1", "RELU_N1_TO_1", "SQRT")
"""Kinds of which no runtime has a kernel of int16, or none that the NPU equals."""


def _types(kind: str) -> tuple[DType, ...]:
    eight = (DType.INT8,) if kind in _SIGNED else EIGHT_BIT
    return eight if kind in _NARROW else (*eight, DType.INT16)


LOOKUP_FAMILIES: Mapping[str, Family] = {
    **{kind: _family(*_types(kind)) for kind in functions.FUNCTIONS},
    "LOGISTIC": _family(
        *_types("LOGISTIC"), rules=(constraints.Rule("the output's scale is 1/256, or 1/32768 of int16", _scale),)
    ),
}
