"""Operations that only move values, as rules over lowered networks look at them: which box they copy, and from where.

Owns boxes of feature maps, and how an operand is seen that is a box of another tensor. Decides about no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

from . import views
from .feature_maps import Channels, FeatureMap, NpuTensor
from .npu import (
    UNSCALED,
    Function,
    NpuOperation,
    OperationKind,
    Upscale,
)
from .te import Access, index

Cuboid = tuple[range, range, range]
"""Rows, columns and channels."""


class Users:
    """Operations, and for each tensor which of them make and read it, found in one walk over all."""

    def __init__(self, operations: Sequence[NpuOperation]) -> None:
        self.operations = tuple(operations)
        self.places: dict[int, int] = {}
        """By a tensor's id, the number of the first operation that makes it: those that make its boxes run as one."""
        self._makers: dict[int, list[NpuOperation]] = {}
        self._readers: dict[int, list[NpuOperation]] = {}
        for number, operation in enumerate(self.operations):
            self.places.setdefault(operation.ofm.tensor.id, number)
            self._makers.setdefault(operation.ofm.tensor.id, []).append(operation)
            for view in operation.inputs:
                self._readers.setdefault(view.tensor.id, []).append(operation)

    def makers(self, tensor: NpuTensor) -> Sequence[NpuOperation]:
        """The operations that make a tensor, in order."""
        return self._makers.get(tensor.id, ())

    def readers(self, tensor: NpuTensor) -> Sequence[NpuOperation]:
        """The operations that read a tensor, in order, once for each operand that it is."""
        return self._readers.get(tensor.id, ())


def is_copy(operation: NpuOperation) -> bool:
    """Whether it stores a box of one tensor, values as they are, or one value everywhere."""
    ifm, ofm, read = operation.ifm, operation.ofm, operation.compute.reads[0]
    rows, columns = read.indices[1:3]
    return (
        operation.kind is OperationKind.AVERAGE_POOL
        and (operation.window, operation.upscale, operation.function) == (views.POINT, Upscale.NONE, Function.CLAMP)
        and operation.scaling == UNSCALED
        and (operation.clamp == ofm.dtype.limits or fill(operation) is not None)
        and ifm.zero_point == ofm.zero_point == 0
        and ifm.dtype is ofm.dtype
        and ifm.strides is None
        and read.origin is None
        and (rows, columns) == (index(rows.constant, h=1), index(columns.constant, w=1))
    )


def fill(copy: NpuOperation) -> int | None:
    """The stored value that a copy puts everywhere, if it does."""
    lowest, highest = copy.clamp
    return lowest if lowest == highest else None


def source_box(copy: NpuOperation) -> Cuboid:
    """What a copy has of its source."""
    _, rows, columns, channels = (expression.constant for expression in copy.compute.reads[0].indices)
    return box_at((rows, columns, channels), copy.ofm.shape)


def made_box(operation: NpuOperation) -> Cuboid:
    """What an operation makes of its output."""
    return box_at((*operation.ofm.corner, operation.ofm.first_channel), operation.ofm.shape)


def box_at(first: tuple[int, int, int], shape: views.Shape3) -> Cuboid:
    """The box of that shape from this row, column and channel on."""
    rows, columns, channels = (range(start, start + count) for start, count in zip(first, shape, strict=True))
    return rows, columns, channels


def whole(view: FeatureMap) -> Cuboid:
    """All of a tensor."""
    return box_at((0, 0, 0), (*view.plane, view.pixel_channels))


def is_covered(everything: Cuboid, boxes: Sequence[Cuboid]) -> bool:
    """Whether every element lies in one of the boxes: between two edges of any of them all are in the same ones."""
    axes = zip(everything, *boxes, strict=True)
    cuts = [pairwise(sorted({edge for span in spans for edge in (span.start, span.stop)})) for spans in axes]
    cells = product(*([start for start, _ in axis] for axis in cuts))
    return all(any(_holds(box, cell) for box in boxes) for cell in cells)


def _holds(box: Cuboid, cell: tuple[int, ...]) -> bool:
    return all(place in span for span, place in zip(box, cell, strict=True))


def seen_at(view: FeatureMap, read: Access, source: FeatureMap, box: Cuboid) -> tuple[FeatureMap, Access]:
    """An operand that is a box of a `source`: the view of that, and the read that is counted in the box so far.

    The box's edge is an edge to windows as well: beyond it lies padding, and not what the source has there. `view` is
    how the operand was seen before, its channels counted in the box.
    """
    depth, shape = source.pixel_channels, (*source.plane, view.shape[2])
    some = Channels(box[2].start + view.first_channel, depth)
    channels = None if some == (0, depth) == (0, shape[2]) else some
    seen = replace(view, tensor=source.tensor, shape=shape, channels=channels)
    n, *places = (
        replace(expression, constant=expression.constant + start * expression.divisor)
        for expression, start in zip(read.indices, (0, *(span.start for span in box)), strict=True)
    )
    rows, columns, channel = places
    found = replace(read, indices=(n, rows, columns, channel), extents=(*read.extents[:3], depth))
    if box[:2] == whole(source)[:2] and read.origin is None:
        return seen, found
    above, before = read.origin or (0, 0)
    return seen, replace(found, origin=(box[0].start + above, box[1].start + before))
