"""Functions of one element, looked up: whatever the function, one pass over the stored values with a table of results.

Owns the step from a kernel's results (`functions`) to the table of an operation that looks up in it. The operation
copies stored values, so that nothing is rounded but by the kernel's own arithmetic. Where the table can become part of
the operation before, `folding` sees to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import EIGHT_BIT, DType, Graph, Operator
from ..quantised import scale_of
from . import constraints, functions, functions16, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, Table


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One look-up of 8 bits, what `functions16` has of 16. Precondition: its family takes it."""
    op = graph.operators[op_index]
    if graph.read(op).dtype is DType.INT16:
        functions16.lower(graph, op_index, builder)
        return
    shape = views.image_shape(graph.read(op).shape)
    ifm, ofm = (builder.view(t, shape, zero_point=0) for t in (op.input(0), op.outputs[0]))
    Maker(op.name, op_index, builder).look_up(ifm, ofm, _table(graph, op))


def _table(graph: Graph, op: Operator) -> Table:
    ifm, ofm = graph.read(op), graph.made(op)
    return Table(np.array(functions.results(op, ifm, ofm), ofm.dtype.numpy).tobytes())


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
    )


_SIGNED = ("ELU", "EXP", "LOG", "NEG", "RSQRT")
"""Kinds of which no runtime has a kernel of uint8."""
_NARROW = ("ELU", "HARD_SWISH", "NEG", "RELU_0_TO_1", "RELU_N1_TO_1")
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
