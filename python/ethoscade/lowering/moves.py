"""Boxes of elements that are moved or filled, axis by axis, and the NPU operations that do it.

Owns the geometry that all operators share which compute nothing: how boxes of tensors of any rank are seen as rows,
columns and channels, and the copies that follow. Which boxes an operator moves is its family's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..ir import QUANTISED, DType, Graph, Operator, Window
from ..util.records import dataclass
from . import constraints, limits, views
from .feature_maps import (
    BRICK_CHANNELS,
    Area,
    Channels,
    ConstantMap,
    FeatureMap,
)
from .maker import Maker
from .npu import NpuGraphBuilder, OperationKind, Table

MAX_BOXES = 256
"""Operations that together make one output."""
_WORDS = "; of int32 no constants, and rows and columns that follow each other"
COPIES = (
    f"at most {MAX_BOXES} copies make one output, each of equally distant rows, columns and channels, at most "
    f"{limits.MAX_DIMENSION} of them{_WORDS}"
)
"""What operators that move elements demand, in words."""
_Images = tuple[tuple[int, int], dict[int, tuple[int, int]]]
"""Rows and columns as others see them: of an output, and of each input."""


@dataclass(frozen=True)
class Stretch:
    """Some elements along one axis: `count` from `start` on, every `step`-th, of a source of `extent` elements.

    They go to the places from `first` on, every `pace`-th, of `places`.
    """

    count: int
    extent: int
    places: int
    start: int = 0
    step: int = 1
    first: int = 0
    pace: int = 1

    def over(self, inner: Stretch) -> Stretch | None:
        """This axis and the next inner one seen as one, None if the elements are not equally far apart then."""
        step, pace = self.step * inner.extent, self.pace * inner.places
        goes_on = (step, pace) == (inner.step * inner.count, inner.pace * inner.count)
        if self.count > 1 and inner.count > 1 and not goes_on:
            return None
        if inner.count > 1 or self.count == 1:
            step, pace = inner.step, inner.pace
        return Stretch(
            self.count * inner.count,
            self.extent * inner.extent,
            self.places * inner.places,
            self.start * inner.extent + inner.start,
            step,
            self.first * inner.places + inner.first,
            pace,
        )


@dataclass(frozen=True)
class Box:
    """What goes from an operator's input number `source` to its output, with one run for each axis.

    Where there is a `fill`, that stored value goes there, and the elements of the source are never read; of
    any size it is where there is no source. With a `table` each stored value of 8 bits is replaced by its entry on the
    way; elements then follow each other.
    """

    source: int | None
    runs: tuple[Stretch, ...]
    fill: int | None = None
    table: Table | None = None


@dataclass(frozen=True)
class ImageBox:
    """A box as the NPU moves it: runs of rows, columns and channels."""

    box: Box
    rows: Stretch
    columns: Stretch
    channels: Stretch


def whole(extent: int) -> Stretch:
    """All elements of an axis, to the same places."""
    return Stretch(extent, extent, extent)


def one_by_one(box: Box) -> Iterator[Box]:
    """The box in pieces that are not turned round: an axis that is read from its end is cut into single elements."""
    for axis, run in enumerate(box.runs):
        if run.step < 0 and run.count > 1:
            for place in range(run.count):
                single = replace(run, count=1, start=run.start + place * run.step, step=1, first=run.first + place)
                yield from one_by_one(replace(box, runs=_with(box.runs, axis, single)))
            return
    yield replace(box, runs=tuple(replace(run, step=1) if run.count == 1 else run for run in box.runs))


def seen(boxes: Sequence[Box]) -> list[ImageBox] | str:
    """All boxes of one output as the NPU moves them, or why it does not, in a sentence without a full stop."""
    if not boxes:
        return "it moves nothing"
    images = _images_of(boxes)
    count = sum(math.prod(run.count for run in box.runs if run.step < 0) for box in boxes)
    found = [piece for box in boxes for piece in one_by_one(box)] if count <= MAX_BOXES else []
    while count <= MAX_BOXES:
        ways = _ways(found) or _ways([_divided(box) for box in found])
        if ways:
            return min(ways, key=lambda way: _price(way, images))
        # No three groups of axes do: the outermost axis with several elements is moved one by one.
        axis = next((a for a in range(len(found[0].runs)) if any(box.runs[a].count > 1 for box in found)), None)
        if axis is None:
            return f"a dimension is beyond {limits.MAX_DIMENSION}, whichever axes are rows, columns and channels"
        count = sum(box.runs[axis].count for box in found)
        if count > MAX_BOXES:
            break
        found = [
            replace(box, runs=_with(box.runs, axis, replace(run, count=1, start=at, step=1, first=to)))
            for box in found
            for run in (box.runs[axis],)
            for at, to in ((run.start + k * run.step, run.first + k * run.pace) for k in range(run.count))
        ]
    return f"it takes {count} copies or more; at most {MAX_BOXES} operations make one output"


def cheapest(ways: Sequence[list[Box]]) -> list[Box]:
    """The boxes that are moved most cheaply, of several that make the same output; the first where none can be."""
    prices = []
    for boxes in ways:
        found = seen(boxes)
        if not isinstance(found, str):
            prices.append(((*_price(found, _images_of(boxes)), len(found)), boxes))
    return min(prices, key=lambda one: one[0])[1] if prices else ways[0]


def copies(
    graph: Graph,
    op_index: int,
    builder: NpuGraphBuilder,
    output: int,
    boxes: Sequence[Box],
    name: str | None = None,
) -> None:
    """One operation for each box of an output. Precondition: `seen` found how.

    Stored values are copied as they are, without their scales and zero points, or looked up.
    """
    op = graph.operators[op_index]
    found = seen(boxes)
    assert not isinstance(found, str), found
    make = Maker(op.name if name is None else name, op_index, builder)
    # What makes one output follows each other: what else is made is made beforehand.
    held = [_held(graph, op, make, one) for one in found]
    for one, constant in zip(found, held, strict=True):
        shape = (one.rows.count, one.columns.count, one.channels.count)
        source = (one.rows.extent, one.columns.extent, one.channels.count)
        plane = (one.rows.places, one.columns.places)
        place = Area((one.rows.first, one.columns.first), plane) if plane != shape[:2] else None
        target = builder.view(output, shape, 0, _some(one.channels.first, shape[2], one.channels.places), place)
        if constant is not None:
            make.copy(constant, target)
            continue
        assert one.box.source is not None, "what has no source is held"
        ifm = builder.view(
            op.input(one.box.source), source, 0, _some(one.channels.start, shape[2], one.channels.extent)
        )
        if one.box.table is not None:
            make.look_up(ifm, target, one.box.table, (one.rows.start, one.columns.start))
            continue
        make.copy(
            ifm,
            target,
            steps=Window(1, 1, _stride(one.rows), _stride(one.columns)),
            first=(one.rows.start, one.columns.start),
            clamp=None if one.box.fill is None else (one.box.fill, one.box.fill),
        )


def _held(graph: Graph, op: Operator, make: Maker, one: ImageBox) -> FeatureMap | None:
    """What a box moves of a constant, or fills without a source, as a feature map; None where its source is neither.

    The NPU reads constants as second operands alone. What is read first is a pixel again and again: of the one value if
    there is no other, else of the least there is, with which a maximum is the constant.
    """
    shape = (one.rows.count, one.columns.count, one.channels.count)
    if one.box.source is None:
        assert one.box.fill is not None, "what has no source is filled"
        return _again(graph, op, make, shape, one.box.fill)
    data = graph.read(op, one.box.source).data
    if data is None:
        return None
    if one.box.table is not None:
        data = np.frombuffer(one.box.table.data, data.dtype)[data.astype(np.int64) - graph.made(op).dtype.limits[0]]
    runs = (one.rows, one.columns, one.channels)
    places = (np.arange(run.count) * run.step + run.start for run in runs)
    values = data.reshape([run.extent for run in runs])[np.ix_(*places)]
    dtype, value = graph.made(op).dtype, int(values.flat[0])
    uniform = bool((values == value).all())
    again = _again(graph, op, make, shape, value if uniform else dtype.limits[0])
    if uniform:
        return again
    constant = ConstantMap(np.ascontiguousarray(values), dtype)
    return make.point(OperationKind.MAXIMUM, again, constant, make.temporary(shape, dtype))


def _again(graph: Graph, op: Operator, make: Maker, shape: views.Shape3, value: int) -> FeatureMap:
    """One stored value everywhere: a pixel that is read again and again, made of whatever an input has first."""
    tensor = next(t for t in op.inputs if t is not None and not graph.tensors[t].is_constant)
    some = make.builder.view(tensor, views.image_shape(graph.tensors[tensor].shape), 0)
    pixel = make.temporary((shape[2], 1, 1), graph.made(op).dtype)
    make.copy(some.apart(pixel.shape, (0, 0)), pixel, clamp=(value, value))
    return pixel.apart(shape, (0, 0))


def _of_words(case: constraints.Case, found: Sequence[ImageBox]) -> str | None:
    """Why elements of 32 bits are not moved, which no pool reads; None if they are, or have less."""
    if not constraints.is_words(case):
        return None
    step = max(max(_stride(one.rows), _stride(one.columns)) for one in found)
    if step > 1:
        return f"it moves every {step}th row or column of int32; only those that follow each other are possible"
    if any(one.box.fill is not None or one.box.table is not None for one in found):
        return "it fills with int32; nothing but values of 8 and 16 bits is filled with"
    constant = next((tensor for tensor in case.values if tensor.is_constant), None)
    if constant is not None:
        return f"input '{constant.name}' is a constant of int32; those of 8 and 16 bits alone are made feature maps"
    return None


def refusal(case: constraints.Case, boxes: Sequence[Box]) -> str | None:
    """Why the boxes of an operator's output are not copied, or None: what `copies` demands of them."""
    found = seen(boxes)
    return found if isinstance(found, str) else _of_words(case, found)


def constraint(boxes: Callable[[Graph, Operator, int], Sequence[Box]]) -> constraints.Rule:
    """The demand that every output can be moved, whose boxes are `boxes` of the operator and the output's place."""

    def check(case: constraints.Case) -> str | None:
        for place in range(len(case.op.outputs)):
            why = refusal(case, boxes(case.graph, case.op, place))
            if why is not None:
                return why
        return None

    return constraints.Rule(COPIES, check)


def takes(
    one_scale: tuple[DType, ...] = (), feature_maps: constraints.Constraint | None = None
) -> tuple[constraints.Constraint, ...]:
    """What operators that move elements demand of their tensors.

    `one_scale` are the types of which no kernel of any runtime takes other scales or zero points; of all others kernels
    copy stored values whatever these are.
    """
    found = (feature_maps or constraints.FeatureMaps(QUANTISED, words=True), constraints.OneType())
    if not one_scale:
        return found
    return (*found, constraints.OneQuantisation("no kernel copies values of this type to others", one_scale))


def _some(first: int, count: int, of: int) -> Channels | None:
    return None if count == of else Channels(first, of)


def _stride(run: Stretch) -> int:
    """Steps that are never taken are of one element."""
    return run.step if run.count > 1 else 1


def _with(runs: tuple[Stretch, ...], axis: int, run: Stretch) -> tuple[Stretch, ...]:
    return (*runs[:axis], run, *runs[axis + 1 :])


def _divided(box: Box) -> Box:
    """The box with an axis of which every n-th element is read seen as two, the inner one of n elements."""
    runs: list[Stretch] = []
    for run in box.runs:
        if run.count == 1 or run.extent % run.step:
            runs += [run, Stretch(1, 1, 1)]
        else:
            start, rest = divmod(run.start, run.step)
            runs.append(replace(run, extent=run.extent // run.step, start=start, step=1))
            runs.append(Stretch(1, run.step, 1, start=rest))
    return replace(box, runs=tuple(runs))


def _ways(boxes: Sequence[Box]) -> list[list[ImageBox]]:
    """The ways to see all boxes with the same axes as rows, columns and channels."""
    rank = len(boxes[0].runs)
    found = []
    for rows, columns in ((i, j) for i in range(rank) for j in range(i, rank)):
        way = [_grouped(box, rows, columns) for box in boxes]
        if all(one is not None for one in way):
            found.append([one for one in way if one is not None])
    return found


def _grouped(box: Box, rows: int, columns: int) -> ImageBox | None:
    """The first axes as rows, those from `rows` on as columns, from `columns` on as channels; None if they are not."""
    groups = [_merged(part) for part in (box.runs[:rows], box.runs[rows:columns], box.runs[columns:])]
    found = [run for run in groups if run is not None]
    if len(found) < 3:
        return None
    for run, most in zip(found, (limits.MAX_STRIDE, limits.MAX_STRIDE, 1), strict=True):
        if max(run.extent, run.places) > limits.MAX_DIMENSION or _stride(run) > most or (run.count > 1 < run.pace):
            return None
    return ImageBox(box, *found)


def _merged(runs: Sequence[Stretch]) -> Stretch | None:
    if not runs:
        return Stretch(1, 1, 1)
    found: Stretch | None = runs[0]
    for run in runs[1:]:
        found = None if found is None else found.over(run)
    return found


def _price(way: Sequence[ImageBox], images: _Images) -> tuple[int, int, int]:
    """What is cheap first: tensors seen as their makers and readers do, then few steps of the NPU, then few rows."""
    target, sources = images
    read = ((one, one.box.source) for one in way)
    others = sum((one.rows.extent, one.columns.extent) != sources[source] for one, source in read if source is not None)
    others += len(way) * ((way[0].rows.places, way[0].columns.places) != target)
    steps = sum(one.rows.count * one.columns.count * -(-one.channels.count // BRICK_CHANNELS) for one in way)
    return others, steps, sum(one.rows.count for one in way)


def _images_of(boxes: Sequence[Box]) -> _Images:
    def plane(extents: Iterator[int]) -> tuple[int, int]:
        return views.image_shape(tuple(extents))[:2]

    sources = {box.source: plane(run.extent for run in box.runs) for box in boxes if box.source is not None}
    return plane(run.places for run in boxes[0].runs), sources
