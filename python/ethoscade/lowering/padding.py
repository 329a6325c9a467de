"""PAD, PADV2, MIRROR_PAD, TILE and REVERSE_V2: copies of boxes of the input, and fills around it.

A TILE of more places than copies reads its input again and again.

A PAD of rows and columns mostly becomes part of the windows that read it (`rewrites`); what is left of it is moved
here. A fill is a copy of whatever lies nearby, with both ends of the clamp at the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from ..ir import DType, Graph, MirrorPadAttrs, Operator, PadAttrs, ReverseAttrs, TileAttrs
from ..ir.quantised import zero_point_of
from . import constraints, moves, strided, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder


def padded(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a PAD or PADV2: the input, and for each axis what is before and behind it, the last axis first.

    Beside an axis' pads lie those of the axes behind it: a row that is filled is filled as a whole. Fills are copies of
    what lies nearest, no larger than the input; where these were too many, of one pixel.
    """
    near = _around(graph, op, in_pieces=True)
    return near if len(near) <= moves.MAX_BOXES and not isinstance(moves.seen(near), str) else _around(graph, op, False)


def _around(graph: Graph, op: Operator, in_pieces: bool) -> list[moves.Box]:
    attrs, shape = op.attributes(PadAttrs), graph.read(op).shape
    made = tuple(extent + before + behind for extent, (before, behind) in zip(shape, attrs.paddings, strict=True))
    fill = zero_point_of(graph.made(op)) if attrs.fill is None else attrs.fill
    inside = [
        moves.Stretch(extent, extent, of, first=before)
        for extent, of, (before, _) in zip(shape, made, attrs.paddings, strict=True)
    ]
    found = [moves.Box(0, tuple(inside))]
    for axis in reversed(range(len(shape))):
        before, behind = attrs.paddings[axis]
        for first, count in ((0, before), (before + shape[axis], behind)):
            spans = [(run.first, run.count) for run in inside[:axis]]
            spans += [(first, count), *((0, of) for of in made[axis + 1 :])]
            if count and in_pieces:
                found += _filled(fill, shape, made, spans, attrs.paddings)
            elif count:
                runs = (moves.Stretch(n, n, of, first=at) for (at, n), of in zip(spans, made, strict=True))
                found.append(moves.Box(None, tuple(runs), fill))
    return found


def _filled(
    fill: int,
    shape: tuple[int, ...],
    made: tuple[int, ...],
    spans: list[tuple[int, int]],
    paddings: tuple[tuple[int, int], ...],
) -> list[moves.Box]:
    """A box of the output in pieces that are no larger than the input, each a copy of what lies nearest."""
    axes: list[list[moves.Stretch]] = []
    for (first, count), extent, of, (before, _) in zip(spans, shape, made, paddings, strict=True):
        pieces = []
        for start in range(first, first + count, extent):
            some = min(extent, first + count - start)
            nearest = min(max(start - before, 0), extent - some)
            pieces.append(moves.Stretch(some, extent, of, start=nearest, first=start))
        axes.append(pieces)
    return [moves.Box(0, runs, fill) for runs in product(*axes)]


def mirrored(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a MIRROR_PAD: along each axis what is before the input, the input, and what is behind it."""
    attrs, axes = op.attributes(MirrorPadAttrs), []
    for extent, (before, behind) in zip(graph.read(op).shape, attrs.paddings, strict=True):
        of, skipped = before + extent + behind, 0 if attrs.symmetric else 1
        runs = [
            moves.Stretch(before, extent, of, start=before - 1 + skipped, step=-1),
            moves.Stretch(extent, extent, of, first=before),
            moves.Stretch(behind, extent, of, start=extent - 1 - skipped, step=-1, first=before + extent),
        ]
        axes.append([run for run in runs if run.count])
    return [moves.Box(0, runs) for runs in product(*axes)]


def tiled(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a TILE: the input at each place."""
    multiples = op.attributes(TileAttrs).multiples
    axes = [
        [moves.Stretch(extent, extent, extent * times, first=extent * place) for place in range(times)]
        for extent, times in zip(graph.read(op).shape, multiples, strict=True)
    ]
    return [moves.Box(0, runs) for runs in product(*axes)]


def reversed_(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The box of a REVERSE_V2, which is read from the end of its axes."""
    axes = op.attributes(ReverseAttrs).axes
    runs = (
        moves.Stretch(extent, extent, extent, start=extent - 1, step=-1) if axis in axes else moves.whole(extent)
        for axis, extent in enumerate(graph.read(op).shape)
    )
    return [moves.Box(0, tuple(runs))]


PAD_BOXES: Mapping[str, Callable[[Graph, Operator, int], Sequence[moves.Box]]] = {
    "MIRROR_PAD": mirrored,
    "PAD": padded,
    "PADV2": padded,
    "REVERSE_V2": reversed_,
    "TILE": tiled,
}
"""The boxes of each kind's output."""
_HOW = {
    "MIRROR_PAD": "a copy of the input and of each row, column or channel that is mirrored",
    "PAD": "a copy of the input, and fills around it; of rows and columns part of the convolutions that read it",
    "PADV2": "a copy of the input, and fills around it",
    "REVERSE_V2": "a copy of each row, column or channel",
    "TILE": "copies of the input",
}


def _again(graph: Graph, op: Operator) -> strided.Way | str | None:
    """How a TILE reads its input again and again where copies of the whole of it would be too many; None elsewhere."""
    if op.kind != "TILE" or not isinstance(moves.seen(tiled(graph, op)), str):
        return None
    multiples, shape = op.attributes(TileAttrs).multiples, graph.read(op).shape
    axes = []
    for axis, (extent, times) in enumerate(zip(shape, multiples, strict=True)):
        axes += [strided.Dimension(times, 0), strided.Dimension(extent, math.prod(shape[axis + 1 :]))]
    return strided.way(axes, views.image_shape(graph.made(op).shape))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Copies and fills, all of one output. Precondition: its family takes it."""
    op = graph.operators[op_index]
    again = _again(graph, op)
    if again is not None:
        assert not isinstance(again, str), again
        ifm = builder.view(op.input(0), views.image_shape(graph.read(op).shape), 0)
        ofm = builder.view(op.outputs[0], strided.shape_of(again), 0)
        strided.copies(Maker(op.name, op_index, builder), ifm, again, ofm)
        return
    moves.copies(graph, op_index, builder, op.outputs[0], PAD_BOXES[op.kind](graph, op, 0))


_FILLED = frozenset({"PAD", "PADV2"})
"""Kinds that fill, which nothing does with int32."""


def _tiled() -> constraints.Rule:
    def check(case: constraints.Case) -> str | None:
        again = _again(case.graph, case.op)
        return whole.refusal(case) if again is None else again if isinstance(again, str) else None

    whole = moves.constraint(tiled)
    return constraints.Rule(str(whole), check)


_ONE_SCALE: Mapping[str, tuple[DType, ...]] = {"MIRROR_PAD": (DType.UINT8, DType.INT16)}
"""Types whose kernels take no other scale than the input's: Micro, which does, has one of int8 alone."""

PAD_FAMILIES: Mapping[str, Family] = {
    kind: Family(
        _HOW[kind],
        (
            *moves.takes(_ONE_SCALE.get(kind, ()), constraints.feature_maps() if kind in _FILLED else None),
            _tiled() if kind == "TILE" else moves.constraint(boxes),
        ),
        lower,
    )
    for kind, boxes in PAD_BOXES.items()
}
