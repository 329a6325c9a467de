"""CONCATENATION and PACK: a copy of each input, or a constant, into its box of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import QUANTISED, ConcatenationAttrs, Graph, Operator, PackAttrs
from . import constraints, moves
from .family import Family
from .npu import NpuGraphBuilder


def joined(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a CONCATENATION: inputs one behind the other along its axis."""
    axis = op.attributes(ConcatenationAttrs).axis
    shapes = [graph.read(op, place).shape for place in range(len(op.inputs))]
    total, first, found = sum(shape[axis] for shape in shapes), 0, []
    for place in range(len(op.inputs)):
        runs = [moves.whole(extent) for extent in shapes[place]]
        count = shapes[place][axis]
        runs[axis] = moves.Stretch(count, count, total, first=first)
        found.append(moves.Box(place, tuple(runs)))
        first += count
    return found


def packed(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a PACK: inputs along an axis that they have not."""
    axis = op.attributes(PackAttrs).axis
    found, count = [], len(op.inputs)
    for place in range(count):
        runs = [moves.whole(extent) for extent in graph.read(op, place).shape]
        runs.insert(axis, moves.Stretch(1, 1, count, first=place))
        found.append(moves.Box(place, tuple(runs)))
    return found


JOIN_BOXES: Mapping[str, Callable[[Graph, Operator, int], Sequence[moves.Box]]] = {
    "CONCATENATION": joined,
    "PACK": packed,
}
"""The boxes of each kind's output."""


def _made(case: constraints.Case) -> str | None:
    if all(tensor.is_constant for tensor in case.values):
        return f"all of its {len(case.values)} inputs are constants; one at least is made while the network runs"
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy for each input, or a constant, all of one output. Precondition: its family takes it."""
    op = graph.operators[op_index]
    moves.copies(graph, op_index, builder, op.outputs[0], JOIN_BOXES[op.kind](graph, op, 0))


JOIN_FAMILIES: Mapping[str, Family] = {
    kind: Family(
        "a copy of each input into its rows, columns or channels of the output",
        (
            constraints.FeatureMaps(QUANTISED, constants=True, words=True),
            *moves.TAKES[1:],
            constraints.Rule("one input at least is no constant", _made),
            moves.constraint(boxes),
        ),
        lower,
    )
    for kind, boxes in JOIN_BOXES.items()
}
