"""CONCATENATION and PACK: a copy of each input, or a constant, into its box of the output.

Kernels of uint8 bring inputs of other scales to the output's, and so does a table here, on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import QUANTISED, ConcatenationAttrs, DType, Graph, Operator, PackAttrs, Tensor
from ..ir.quantised import rescaled_bytes
from . import constraints, moves
from .family import Family
from .npu import NpuGraphBuilder, Table


def joined(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a CONCATENATION: inputs one behind the other along its axis."""
    axis = op.attributes(ConcatenationAttrs).axis
    shapes = [graph.read(op, place).shape for place in range(len(op.inputs))]
    total, first, found = sum(shape[axis] for shape in shapes), 0, []
    for place in range(len(op.inputs)):
        runs = [moves.whole(extent) for extent in shapes[place]]
        count = shapes[place][axis]
        runs[axis] = moves.Stretch(count, count, total, first=first)
        found.append(moves.Box(place, tuple(runs), table=_rescaling(graph.read(op, place), graph.made(op))))
        first += count
    return found


def _rescaling(ifm: Tensor, ofm: Tensor) -> Table | None:
    """What kernels of uint8 make of each stored value for another scale or zero point; None where they copy it."""
    if ifm.dtype is not DType.UINT8 or ifm.quantisation == ofm.quantisation:
        return None
    return Table(rescaled_bytes(ifm, ofm).tobytes())


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


_HOW = {
    "CONCATENATION": "a copy of each input into its rows, columns or channels of the output, or a table of its results",
    "PACK": "a copy of each input into its rows, columns or channels of the output",
}
_ONE_SCALE: Mapping[str, tuple[DType, ...]] = {"CONCATENATION": (DType.INT8,), "PACK": (DType.UINT8,)}
"""Types whose kernels take no other scale than the output's."""

JOIN_FAMILIES: Mapping[str, Family] = {
    kind: Family(
        _HOW[kind],
        (
            *moves.takes(_ONE_SCALE[kind], constraints.FeatureMaps(QUANTISED, constants=True, words=True)),
            constraints.Rule("one input at least is no constant", _made),
            moves.constraint(boxes),
        ),
        lower,
    )
    for kind, boxes in JOIN_BOXES.items()
}
