"""TRANSPOSE: copies that read the tensor where it lies, with rows and columns as far apart as its other axes are.

Owns how a permutation falls into copies. One copy moves up to three runs of equally distant elements: rows, columns
and, where the last axis stays the last, channels; along all other axes it takes a copy for each place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ..ir import Graph, TransposeAttrs
from . import constraints, limits, moves, views
from .family import Family
from .maker import Maker
from .npu import BRICK_CHANNELS, Area, Channels, NpuGraphBuilder

MAX_AXES = 5
_COPY_STEPS = 64
"""What a further copy costs, in steps of the NPU: it fills and drains once more."""


@dataclass(frozen=True)
class Dimension:
    """An axis of the output: its extent, and how many elements of the input lie from one place to the next."""

    extent: int
    stride: int


@dataclass(frozen=True)
class Dimensions:
    """Axes of the output that are rows, columns or channels: `inner` moves at once, `outer` place by place."""

    outer: tuple[Dimension, ...]
    inner: Dimension

    @property
    def copies(self) -> int:
        """Places of the outer axes."""
        return math.prod(axis.extent for axis in self.outer)

    @property
    def extent(self) -> int:
        """Rows, columns or channels of the output."""
        return self.copies * self.inner.extent

    def starts(self) -> Iterator[tuple[int, int]]:
        """Where each copy begins: the row, column or channel of the output, and the element of the input."""
        for number, places in enumerate(product(*(range(axis.extent) for axis in self.outer))):
            strides = (axis.stride for axis in self.outer)
            yield number * self.inner.extent, sum(p * s for p, s in zip(places, strides, strict=True))


Way = tuple[Dimensions, Dimensions, Dimensions]
"""Rows, columns and channels of the output."""


def way(attrs: TransposeAttrs, made: tuple[int, ...]) -> Way | str:
    """The cheapest way to make an output of shape `made`, or why there is none, in a sentence without a full stop."""
    axes = _axes(attrs)
    ways = [
        (_group(axes[:rows]), _group(axes[rows:columns]), _channels(axes[columns:]))
        for rows in range(len(axes) + 1)
        for columns in range(rows, len(axes) + 1)
    ]
    fitting = [one for one in ways if all(group.extent <= limits.MAX_DIMENSION for group in one)]
    if not fitting:
        extents = [axis.extent for axis in axes]
        return (
            f"the axes that it permutes are {extents} in its output; as rows, columns and channels, at most "
            f"{limits.MAX_DIMENSION} of each, they are too many"
        )
    best = min(fitting, key=lambda one: _price(one, views.image_shape(made)))
    count = _copies(best)
    if count > moves.MAX_BOXES:
        return f"it takes {count} copies or more; at most {moves.MAX_BOXES} operations make one output"
    return best


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels for each copy. Precondition: its family takes it."""
    copies(graph, op_index, builder, graph.operators[op_index].attributes(TransposeAttrs))


def copies(graph: Graph, op_index: int, builder: NpuGraphBuilder, attrs: TransposeAttrs) -> None:
    """The permutation `attrs` of an operator's input, which may have another shape. Precondition: `way` found how.

    Stored values are copied as they are, without their (equal) scales and zero points.
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
    whole = views.image_shape(source.shape)
    rows, columns, channels = found
    shape = (rows.inner.extent, columns.inner.extent, channels.inner.extent)
    plane, depth = (rows.extent, columns.extent), channels.extent
    for (row, a), (column, b), (channel, c) in product(rows.starts(), columns.starts(), channels.starts()):
        place = Area((row, column), plane) if plane != shape[:2] else None
        some = Channels(channel, depth) if depth != shape[2] else None
        strides = (rows.inner.stride, columns.inner.stride)
        ifm = builder.strided(op.input(0), whole, shape, strides, a + b + c)
        ofm = builder.view(op.outputs[0], shape, 0, some, place)
        make.copy(ifm, ofm)


def _axes(attrs: TransposeAttrs) -> tuple[Dimension, ...]:
    """The axes of the output that have more than one element."""
    extents = attrs.extents
    axes = (Dimension(extents[axis], math.prod(extents[axis + 1 :])) for axis in attrs.permutation)
    return tuple(axis for axis in axes if axis.extent > 1)


def _group(axes: Sequence[Dimension]) -> Dimensions:
    """The last axis moves at once, with those before it whose places are equally far apart."""
    inner, outer = Dimension(1, 1), list(axes)
    while outer and (inner.extent == 1 or outer[-1].stride == inner.extent * inner.stride):
        axis = outer.pop()
        inner = Dimension(axis.extent * inner.extent, axis.stride if inner.extent == 1 else inner.stride)
    return Dimensions(tuple(outer), inner)


def _channels(axes: Sequence[Dimension]) -> Dimensions:
    """As rows or columns, but only elements that follow each other move at once."""
    found = _group(axes)
    return found if found.inner.stride == 1 else Dimensions(tuple(axes), Dimension(1, 1))


def _copies(one: Way) -> int:
    return math.prod(group.copies for group in one)


def _price(one: Way, made: views.Shape3) -> tuple[int, bool, int]:
    """What is cheap first: few steps of the NPU, then the rows and columns that readers see, then few rows."""
    height, width, depth = (group.inner.extent for group in one)
    steps = _copies(one) * (_COPY_STEPS + height * width * -(-depth // BRICK_CHANNELS))
    rows, columns, channels = (group.extent for group in one)
    return steps, (rows, columns, channels) != made, height


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
            *moves.TAKES,
            constraints.Rule(f"at most {MAX_AXES} axes", _rank),
            constraints.Sizes(_seen),
            constraints.Rule(moves.COPIES, _copied),
        ),
        lower,
    ),
}
