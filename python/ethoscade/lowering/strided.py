"""Copies that read a tensor with rows and columns as far apart as is wanted: other axes', or nowhere apart.

Owns how such copies are found and made. One copy moves up to three runs of equally distant elements: rows, columns and,
where they follow each other, channels; along all other axes it takes a copy for each place. With a distance of 0 what
lies in one place goes to many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from ..util.records import dataclass
from . import limits, moves, views
from .feature_maps import (
    BRICK_CHANNELS,
    Area,
    Channels,
    FeatureMap,
)
from .maker import Maker

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


def way(axes: Sequence[Dimension], made: views.Shape3) -> Way | str:
    """The cheapest way to make an output with these axes, seen as `made` by others, or why there is none.

    The reason is a sentence without a full stop.
    """
    moved = [axis for axis in axes if axis.extent > 1]
    ways = [
        (_group(moved[:rows]), _group(moved[rows:columns]), _channels(moved[columns:]))
        for rows in range(len(moved) + 1)
        for columns in range(rows, len(moved) + 1)
    ]
    fitting = [one for one in ways if all(group.extent <= limits.MAX_DIMENSION for group in one)]
    if not fitting:
        extents = [axis.extent for axis in moved]
        return (
            f"the axes that it moves are {extents} in its output; as rows, columns and channels, at most "
            f"{limits.MAX_DIMENSION} of each, they are too many"
        )
    best = min(fitting, key=lambda one: _price(one, made))
    count = _copies(best)
    if count > moves.MAX_BOXES:
        return f"it takes {count} copies or more; at most {moves.MAX_BOXES} operations make one output"
    return best


def shape_of(found: Way) -> views.Shape3:
    """Rows, columns and channels of the output."""
    rows, columns, channels = found
    return rows.extent, columns.extent, channels.extent


def copies(make: Maker, ifm: FeatureMap, found: Way, ofm: FeatureMap) -> None:
    """One pool of single pixels for each copy, of a tensor that `ifm` sees as it lies.

    Stored values are copied as they are. `ofm` sees the output as `shape_of` the way that was found.
    """
    rows, columns, channels = found
    shape = (rows.inner.extent, columns.inner.extent, channels.inner.extent)
    strides, source = (rows.inner.stride, columns.inner.stride), replace(ifm, zero_point=0)
    plane, depth = ofm.shape[:2], ofm.shape[2]
    for (row, a), (column, b), (channel, c) in product(rows.starts(), columns.starts(), channels.starts()):
        place = Area((row, column), plane) if plane != shape[:2] else None
        some = Channels(channel, depth) if depth != shape[2] else None
        target = replace(ofm, shape=shape, zero_point=0, channels=some, place=place)
        make.copy(source.apart(shape, strides, a + b + c), target)


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
