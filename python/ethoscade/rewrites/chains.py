"""fold_chain: operators that together look at one 8-bit element at a time become a QUANTIZE with a table.

x times its LOGISTIC, a hard swish in single steps, sums and products with numbers one behind the other: as long as all
that they read is one tensor and numbers, each stored value has one result. Chains without an operator of two operands
are left to the lowering, which joins tables. What the operators compute the caller says by an `Elements`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..ir import EIGHT_BIT, Graph, Integers, Operator, TableAttrs, Tensor
from ..ir.operators import ACTIVATION_OPERATORS
from .draft import OnNpu

Elements = Callable[[Graph, Operator, Sequence[Integers]], Integers | None]
"""The stored results of an operator for stored values of its operands; None if none are defined."""

_LOOK_UP = 8
_PASSES: Mapping[str, int] = {
    **dict.fromkeys(("ABS", "MAXIMUM", "MINIMUM", "QUANTIZE", *ACTIVATION_OPERATORS), 2),
    **dict.fromkeys(("ADD", "SUB"), 6),
    "MUL": 3,
    **dict.fromkeys(("ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG"), _LOOK_UP),
    **dict.fromkeys(("LOGISTIC", "NEG", "RELU_0_TO_1", "RSQRT", "SQRT", "TANH"), _LOOK_UP),
}
"""Kinds that look at single elements, and what their pass over a tensor costs beside that of a look-up."""


def fold_chain(graph: Graph, on_npu: OnNpu, elements: Elements) -> Graph:
    """Give the last of operators that are one function of one element its table, the longest chains first."""
    makers = graph.producer()
    consumers = {tensor: set(readers) for tensor, readers in graph.consumers().items()}
    tables: dict[int, Operator] = {}
    gone: set[int] = set()
    for last in reversed(range(len(graph.operators))):
        chain = None if last in gone else _chain(graph, last, on_npu, makers, consumers)
        table = None if chain is None else _table(graph, chain, elements)
        if chain is None or table is None or not on_npu(graph, table):
            continue
        tables[last] = table
        gone.update(chain[:-1])
        for index in chain:
            for tensor in _elements_read(graph, graph.operators[index]):
                consumers[tensor].discard(index)
        consumers[table.input(0)].add(last)
    if not tables:
        return graph
    operators = tuple(tables.get(i, op) for i, op in enumerate(graph.operators) if i not in gone)
    return replace(graph, operators=operators).verify()


def _chain(
    graph: Graph, last: int, on_npu: OnNpu, makers: Mapping[int, int], consumers: Mapping[int, Collection[int]]
) -> tuple[int, ...] | None:
    """The operators, in order, that make of one tensor what the `last` one makes; None if no two do."""
    if not _is_of_elements(graph, graph.operators[last], on_npu):
        return None
    taken, longest = {last}, None
    read = set(_elements_read(graph, graph.operators[last]))
    while read:
        if len(read) == 1 and _pays(graph, taken, next(iter(read)), consumers):
            longest = tuple(sorted(taken))
        # Whoever else reads the tensor made last would have been taken before.
        source = max(read, key=lambda tensor: makers.get(tensor, -1))
        maker = makers.get(source)
        if maker is None or source in graph.outputs or not taken.issuperset(consumers[source]):
            break
        operator = graph.operators[maker]
        if not _is_of_elements(graph, operator, on_npu):
            break
        taken.add(maker)
        read.remove(source)
        read.update(_elements_read(graph, operator))
    return longest


def _is_of_elements(graph: Graph, op: Operator, on_npu: OnNpu) -> bool:
    """Whether an operator may look at one 8-bit element of each tensor, and at numbers beside them."""
    if op.opaque is not None or op.kind not in _PASSES or None in op.inputs or not _elements_read(graph, op):
        return False
    ofm, tensors = graph.made(op), [graph.read(op, place) for place in range(len(op.inputs))]
    numbers = [tensor for tensor in tensors if tensor.is_constant]
    maps = [tensor for tensor in tensors if not tensor.is_constant]
    return (
        all(_is_plain(tensor) for tensor in (*tensors, ofm))
        and all(tensor.shape == ofm.shape for tensor in maps)
        and all(number.constant().size > 0 and np.ptp(number.constant()) == 0 for number in numbers)
        and on_npu(graph, op)
    )


def _is_plain(tensor: Tensor) -> bool:
    quantisation = tensor.quantisation
    return tensor.dtype in EIGHT_BIT and quantisation is not None and quantisation.axis is None


def _elements_read(graph: Graph, op: Operator) -> tuple[int, ...]:
    return tuple(t for t in op.inputs if t is not None and not graph.tensors[t].is_constant)


def _pays(graph: Graph, taken: Collection[int], source: int, consumers: Mapping[int, Collection[int]]) -> bool:
    """Whether a table takes no longer than the operators; none costs less than one that its maker looks up in."""
    tensor, chain = graph.tensors[source], [graph.operators[index] for index in taken]
    (result,) = graph.operators[max(taken)].outputs
    if len(chain) < 2 or tensor.is_variable or tensor.dtype is not graph.tensors[result].dtype:
        return False
    if all(len(op.inputs) == 1 for op in chain):
        return False
    alone = source not in (*graph.inputs, *graph.outputs) and set(taken).issuperset(consumers[source])
    return alone or sum(_PASSES[op.kind] for op in chain) >= _LOOK_UP


def _table(graph: Graph, chain: Sequence[int], elements: Elements) -> Operator | None:
    """The last operator of a chain as a QUANTIZE with a table of all that it computes."""
    operators = [graph.operators[index] for index in chain]
    (made,) = operators[-1].outputs
    inside = {t for op in operators for t in op.outputs}
    (source,) = {t for op in operators for t in _elements_read(graph, op)} - inside
    lowest, highest = graph.tensors[source].dtype.limits
    values = {source: np.arange(lowest, highest + 1, dtype=np.int64)}
    for op in operators:
        found = elements(graph, op, [_operand(graph, t, values) for t in op.inputs if t is not None])
        if found is None:
            return None
        values[op.outputs[0]] = found
    results = TableAttrs(tuple(int(value) for value in values[made]))
    return replace(operators[-1], kind="QUANTIZE", inputs=(source,), attrs=results)


def _operand(graph: Graph, tensor: int, values: Mapping[int, Integers]) -> Integers:
    """What is known of a tensor for each stored value, or the one number that it holds."""
    if tensor in values:
        return values[tensor]
    return graph.tensors[tensor].constant().reshape(-1)[:1].astype(np.int64)
