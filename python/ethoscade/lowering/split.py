"""SPLIT, SPLIT_V, UNPACK, STRIDED_SLICE and SLICE: a copy of some elements for each output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import DType, Graph, Operator, SplitAttrs, StridedSliceAttrs, UnpackAttrs
from . import moves
from .family import Family
from .npu import NpuGraphBuilder


def pieces(graph: Graph, op: Operator, output: int) -> list[moves.Box]:
    """The box of one output of a SPLIT or SPLIT_V."""
    attrs = op.attributes(SplitAttrs)
    shape, count = graph.read(op, attrs.operand).shape, attrs.sizes[output]
    runs = [moves.whole(extent) for extent in shape]
    runs[attrs.axis] = moves.Stretch(count, shape[attrs.axis], count, start=sum(attrs.sizes[:output]))
    return [moves.Box(attrs.operand, tuple(runs))]


def unpacked(graph: Graph, op: Operator, output: int) -> list[moves.Box]:
    """The box of one output of an UNPACK, which has lost the axis."""
    axis, shape = op.attributes(UnpackAttrs).axis, graph.read(op).shape
    runs = [moves.whole(extent) for extent in shape]
    runs[axis] = moves.Stretch(1, shape[axis], 1, start=output)
    return [moves.Box(0, tuple(runs))]


def sliced(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The box of a STRIDED_SLICE or SLICE."""
    ranges = op.attributes(StridedSliceAttrs).ranges
    counts = [len(range(*one)) for one in ranges]
    runs = (
        moves.Stretch(count, extent, count, start, step)
        for count, extent, (start, _, step) in zip(counts, graph.read(op).shape, ranges, strict=True)
    )
    return [moves.Box(0, tuple(runs))]


SPLIT_BOXES: Mapping[str, Callable[[Graph, Operator, int], Sequence[moves.Box]]] = {
    "SLICE": sliced,
    "SPLIT": pieces,
    "SPLIT_V": pieces,
    "STRIDED_SLICE": sliced,
    "UNPACK": unpacked,
}
"""The boxes of each kind's outputs, by the output's place."""


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Copies for each output that is read. Precondition: its family takes it."""
    op = graph.operators[op_index]
    read = {t for reader in graph.operators[op_index + 1 :] for t in reader.inputs}.union(graph.outputs)
    for place, tensor in enumerate(op.outputs):
        if tensor in read:
            boxes = SPLIT_BOXES[op.kind](graph, op, place)
            moves.copies(graph, op_index, builder, tensor, boxes, graph.tensors[tensor].name)


_ONE_SCALE: Mapping[str, tuple[DType, ...]] = {"UNPACK": (DType.UINT8,)}
"""Types whose kernels take no other scale than the input's: Micro, which does, has none of uint8."""

SPLIT_FAMILIES: Mapping[str, Family] = {
    kind: Family(
        "a copy of some rows, columns or channels for each output that is read",
        (*moves.takes(_ONE_SCALE.get(kind, ())), moves.constraint(boxes)),
        lower,
    )
    for kind, boxes in SPLIT_BOXES.items()
}
