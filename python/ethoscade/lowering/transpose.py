"""TRANSPOSE: copies that read the tensor where it lies, with rows and columns as far apart as its other axes are.

Owns what a permutation asks of such copies (`strided`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir import Graph, TransposeAttrs
from . import constraints, moves, strided, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder

MAX_AXES = 8
"""LiteRT has no kernel for more."""


def way(attrs: TransposeAttrs, made: tuple[int, ...]) -> strided.Way | str:
    """The cheapest way to make an output of shape `made`, or why there is none, in a sentence without a full stop."""
    extents = attrs.extents
    axes = [strided.Dimension(extents[axis], math.prod(extents[axis + 1 :])) for axis in attrs.permutation]
    return strided.way(axes, views.image_shape(made))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels for each copy. Precondition: its family takes it."""
    copies(graph, op_index, builder, graph.operators[op_index].attributes(TransposeAttrs))


def copies(graph: Graph, op_index: int, builder: NpuGraphBuilder, attrs: TransposeAttrs) -> None:
    """The permutation `attrs` of an operator's input, which may have another shape. Precondition: `way` found how.

    Stored values are copied as they are, without their scales and zero points.
    """
    op = graph.operators[op_index]
    source, target = graph.read(op), graph.made(op)
    make = Maker(op.name, op_index, builder)
    if not attrs.moves:
        shape = views.image_shape(target.shape)
        ifm, ofm = (builder.view(tensor, shape, 0) for tensor in (op.input(0), op.outputs[0]))
        make.copy(ifm, ofm)
        return
    found = way(attrs, target.shape)
    assert not isinstance(found, str), found
    ifm = builder.view(op.input(0), views.image_shape(source.shape), 0)
    strided.copies(make, ifm, found, builder.view(op.outputs[0], strided.shape_of(found), 0))


def _copied(case: constraints.Case) -> str | None:
    attrs = case.op.attributes(TransposeAttrs)
    found = way(attrs, case.ofm.shape) if attrs.moves else None
    return found if isinstance(found, str) else None


def _rank(case: constraints.Case) -> str | None:
    rank = len(case.op.attributes(TransposeAttrs).permutation)
    return f"it permutes {rank} axes; at most {MAX_AXES} are possible" if rank > MAX_AXES else None


def _seen(case: constraints.Case) -> constraints.Views:
    moved = case.op.attributes(TransposeAttrs).moves
    return [] if moved else [(case.ofm, views.image_shape(case.ofm.shape))]


TRANSPOSE_FAMILIES: Mapping[str, Family] = {
    "TRANSPOSE": Family(
        "copies that read the tensor where it lies, by the strides of other axes; nothing where only axes of extent 1 "
        "move and readers or the maker can do without the shape",
        (
            *moves.takes(),
            constraints.Rule(f"at most {MAX_AXES} axes", _rank),
            constraints.Sizes(_seen),
            constraints.Rule(moves.COPIES, _copied),
        ),
        lower,
    ),
}
