"""What each operator computes, bit by bit, in NumPy: the semantics that a compiled network is held to.

Owns the evaluation of `ir.Graph`s and the table of meanings; the kinds that a file knows stand at its end. Bit-exact
with LiteRT's reference kernels (`BUILTIN_REF`), except where TensorFlow Lite Micro is the rule, as `judges` lists it:
its rounding in int8 FULLY_CONNECTED, its sums of signed values. TOSA's operators follow their specification. Knows
nothing of schedules, NPU encodings or interpreters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import ModelFormatError, UnsupportedOperatorError
from ...ir import Array, Graph, Operator, Tensor
from ...ir.operators import keyed
from ...util.frozen import FrozenMap
from ...util.records import dataclass
from . import (
    binary,
    division,
    elementwise,
    functions,
    l2_normalization,
    log_softmax,
    matrices,
    pooling,
    recurrent,
    shaping,
    softmax,
    svdf,
    weighted,
)
from .binary import undefined_factor
from .fixed_point import NoKernelResult
from .meaning import ReferenceKernel, bias_place
from .tosa import TOSA_MEANINGS

__all__ = [
    "MEANINGS", "TOSA_MEANINGS", "Run", "bias_place", "is_known", "run", "run_operator", "run_steps",
    "undefined_factor", "why_unknown",
]  # fmt: skip

MEANINGS = keyed(
    binary.BINARY_MEANINGS,
    division.DIVISION_MEANINGS,
    elementwise.ELEMENTWISE_MEANINGS,
    functions.FUNCTION_MEANINGS,
    l2_normalization.L2_MEANINGS,
    log_softmax.LOG_SOFTMAX_MEANINGS,
    matrices.MATRIX_MEANINGS,
    pooling.POOLING_MEANINGS,
    recurrent.RECURRENT_MEANINGS,
    shaping.SHAPING_MEANINGS,
    softmax.SOFTMAX_MEANINGS,
    svdf.SVDF_MEANINGS,
    weighted.WEIGHTED_MEANINGS,
)
"""What operators of each kind compute that `run_operator` knows."""


@dataclass(frozen=True, eq=False)
class Run:
    """One evaluation: every tensor's value by index (constants among them), and the graph's outputs by name."""

    values: Mapping[int, Array]
    outputs: Mapping[str, Array]


def is_known(graph: Graph, operator: Operator) -> bool:
    """Whether `run_operator` can evaluate such an operator."""
    return why_unknown(graph, operator) is None


def why_unknown(graph: Graph, operator: Operator) -> str | None:
    """Why `run_operator` cannot evaluate such an operator, or None."""
    meaning = _meaning(operator.kind)
    return "nothing here computes operators of its kind" if meaning is None else meaning.outside(graph, operator)


def _meaning(kind: str) -> ReferenceKernel | None:
    """What operators of a kind compute, of either file format."""
    return TOSA_MEANINGS.get(kind) or MEANINGS.get(kind)


def run_operator(graph: Graph, operator: Operator | int, values: Mapping[int, Array]) -> dict[int, Array]:
    """Evaluate one operator (or the one with that index) on the `values` of its inputs; constants need no value.

    Returns the value of each output tensor, in that tensor's shape and dtype. An output tensor may have another shape
    than the operator's natural one as long as the number of elements is the same.

    Raises `UnsupportedOperatorError` for a kind without reference semantics or arithmetic without a defined result,
    `ModelFormatError` when an input has no value or the output's shape does not hold the result.
    """
    op = graph.operators[operator] if isinstance(operator, int) else operator
    meaning, why = _meaning(op.kind), why_unknown(graph, op)
    if meaning is None or why is not None:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}) has no reference in ethoscade: {why}",
            operator=op.name,
            constraint="reference semantics",
        )
    inputs = [None if t is None else _value(graph.tensors[t], t, op, values) for t in op.inputs]
    try:
        result = meaning.evaluate(graph, op, inputs)
    except NoKernelResult as error:
        raise UnsupportedOperatorError(
            f"operator '{op.name}' ({op.kind}): {error}; {error.advice}",
            operator=op.name,
            constraint="defined result",
        ) from error
    made = result if isinstance(result, tuple) else (result,)
    return {t: _shaped(value, graph.tensors[t], op) for t, value in zip(op.outputs, made, strict=True)}


def run(graph: Graph, inputs: Mapping[str, Array], state: Mapping[int, Array] | None = None) -> Run:
    """Evaluate the whole graph on `inputs` by name, and on `state` by index, or else as after a reset.

    The state of the next run is what the returned values have for each variable's `after`. Raises `ModelFormatError`
    for an input that is missing or has another shape or dtype than its tensor, and what `run_operator` raises.
    """
    values: dict[int, Array] = {i: t.data for i, t in enumerate(graph.tensors) if t.data is not None}
    values |= {v.before: v.initial for v in graph.variables} if state is None else state
    for index in graph.given:
        tensor = graph.tensors[index]
        value = inputs.get(tensor.name)
        if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
            found = "nothing" if value is None else f"{value.dtype}{value.shape}"
            raise ModelFormatError(
                f"input '{tensor.name}' needs {tensor.dtype.value}{tensor.shape}, given was {found}",
                tensor=tensor.name,
                value=None if value is None else value.shape,
            )
        values[index] = value
    for op in graph.operators:
        values.update(run_operator(graph, op, values))
    outputs = {graph.tensors[t].name: values[t] for t in graph.handed_out}
    return Run(FrozenMap(values), FrozenMap(outputs))


def run_steps(graph: Graph, steps: Sequence[Mapping[str, Array]]) -> list[Run]:
    """Evaluate the graph on each of `steps`, one after the other from a reset on: state lives on. Raises as `run`."""
    found: list[Run] = []
    state = None
    for inputs in steps:
        found.append(run(graph, inputs, state))
        state = {variable.before: found[-1].values[variable.after] for variable in graph.variables}
    return found


def _value(tensor: Tensor, index: int, op: Operator, values: Mapping[int, Array]) -> Array:
    value = values.get(index, tensor.data)
    if value is None:
        raise ModelFormatError(
            f"operator '{op.name}' ({op.kind}) reads tensor '{tensor.name}', which has no value yet",
            operator=op.name,
            tensor=tensor.name,
            value=index,
        )
    return value.reshape(tensor.shape)


def _shaped(result: Array, tensor: Tensor, op: Operator) -> Array:
    if result.size != int(np.prod(tensor.shape, dtype=np.int64)):
        raise ModelFormatError(
            f"operator '{op.name}' ({op.kind}) makes shape {result.shape}, its output '{tensor.name}' "
            f"has shape {tensor.shape}",
            operator=op.name,
            tensor=tensor.name,
            value=result.shape,
        )
    return result.reshape(tensor.shape)
