"""Operators whose output is their input's bytes, and so needs no operation: reshapes, and moves that move nothing.

Owns which operators these are, and which tensor's bytes an alias is. Whether the NPU may have one depends on who makes
and reads it: that is `partition`'s decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir import Graph, Operator, TransposeAttrs
from ..ir.operators import RESHAPES, KindTable

if TYPE_CHECKING:
    from .moves import Box

_MOVES: Mapping[str, Callable[[Graph, Operator, int], Sequence[Box]]] = KindTable(
    __package__,
    {
        "concatenation.JOIN_BOXES": ["CONCATENATION", "PACK"],
        "gather.GATHER_BOXES": ["GATHER"],
        "padding.PAD_BOXES": ["MIRROR_PAD", "PAD", "PADV2", "REVERSE_V2", "TILE"],
        "split.SPLIT_BOXES": ["SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "UNPACK"],
    },
)


def source(graph: Graph, op: Operator) -> int | None:
    """The tensor whose bytes an operator's one output is, by the operator alone; None if it has to be made.

    A constant or a variable has no alias: a later reader of a variable reads another value. Of a kind that
    moves elements the caller sees to it that the NPU takes the operator at all.
    """
    if op.opaque is not None or len(op.outputs) != 1:
        return None
    if op.kind in RESHAPES:
        found = op.inputs[0] if _shape_known(graph, op) else None
    elif isinstance(op.attrs, TransposeAttrs):
        found = None if op.attrs.moves else op.inputs[0]
    elif op.kind in _MOVES:
        found = _whole(graph, op)
    else:
        return None
    if found is None or any(graph.tensors[t].is_constant or graph.tensors[t].is_variable for t in (found, *op.outputs)):
        return None
    return found if graph.tensors[found].size_bytes == graph.made(op).size_bytes else None


def why_copied(graph: Graph, op: Operator) -> str | None:
    """What makes the output of a RESHAPE or its kin bytes of its own, in a sentence without a full stop; None: nothing.

    Precondition: its reader understood it.
    """
    if not _shape_known(graph, op):
        return f"the shape that {op.kind} makes is known only at run time"
    tensor = graph.read(op)
    if tensor.is_constant or tensor.is_variable:
        return (
            f"its input '{tensor.name}' is a {'constant' if tensor.is_constant else 'variable'}, of which it is a copy"
        )
    made = graph.made(op)
    return (
        f"its output '{made.name}' is a variable, which keeps its value between inferences"
        if made.is_variable
        else None
    )


def root(graph: Graph, tensor: int) -> int:
    """The first tensor of those whose bytes may be a tensor's, one alias after the other."""
    producer = graph.producer()
    while (maker := producer.get(tensor)) is not None and (first := source(graph, graph.operators[maker])) is not None:
        tensor = first
    return tensor


def _shape_known(graph: Graph, op: Operator) -> bool:
    if op.kind != "RESHAPE" or len(op.inputs) < 2 or op.inputs[1] is None:
        return True
    return graph.tensors[op.inputs[1]].is_constant


def _whole(graph: Graph, op: Operator) -> int | None:
    """The input that an operator copies from its first element to its last, if it does no more."""
    (box, *others) = _MOVES[op.kind](graph, op, 0)
    in_order = all(
        (run.extent, run.places) == (run.count, run.count) and (run.step > 0 or run.count == 1) for run in box.runs
    )
    if others or box.source is None or box.fill is not None or box.table is not None or not in_order:
        return None
    return op.inputs[box.source]
