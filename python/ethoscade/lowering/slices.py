"""Slices read where they are: who reads a mere copy of a box reads that box of its source, and no copy is made.

A box has some of the rows, columns and channels. Its edge is an edge to windows as well: beyond it lies padding, and
not what the source has there.

Owns a rule over lowered networks. Copies go only where no tensor has to live longer for it: it never costs memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise, product

from . import views
from .npu import UNSCALED, Channels, FeatureMap, Function, NpuGraph, NpuOperation, OperationKind, Upscale, renumbered
from .te import Access, index

_Cut = tuple[range, range, range]
"""Rows, columns and channels."""


def read_in_place(npu: NpuGraph, exposed: Collection[int]) -> NpuGraph:
    """The graph without the copies of boxes that their readers can do without.

    `exposed` are the tensors (graph indices) that others than the NPU operations of one region look at. Operators of
    which no operation is left are `absorbed` by one that read what they copied.
    """
    operations = npu.operations
    # The last tensors first: a part of a part is then one of the whole.
    for source in reversed(npu.tensors):
        while copies := _needless(operations, source.id, exposed):
            operations = _without(operations, copies)
    if len(operations) == len(npu.operations):
        return npu
    used = {view.tensor.id for operation in operations for view in (*operation.inputs, operation.ofm)}
    return renumbered(npu, operations, {tensor.id: tensor for tensor in npu.tensors if tensor.id in used})


def _needless(operations: Sequence[NpuOperation], source: int, exposed: Collection[int]) -> list[NpuOperation]:
    """Copies of a tensor's boxes whose readers come no later than the last for whose sake it is there anyway.

    That is the last one that reads the tensor itself, or the last one of all where copies read then have all of it.
    """
    reads = [operation for operation in operations if source in (view.tensor.id for view in operation.inputs)]
    if not any(map(_is_slice, reads)):
        return []
    # What makes boxes of one tensor runs as one.
    places: dict[int, int] = {}
    for number, operation in enumerate(operations):
        places.setdefault(operation.ofm.tensor.id, number)
    ends: dict[NpuOperation, int] = {}
    for copy in filter(_is_slice, reads):
        made = copy.ofm
        readers = [operation for operation in operations if made.tensor in (view.tensor for view in operation.inputs)]
        if readers and made.tensor.graph_tensor not in exposed and all(_sees(reader, made) for reader in readers):
            ends[copy] = max(places[reader.ofm.tensor.id] for reader in readers)
    until = max((places[operation.ofm.tensor.id] for operation in reads if operation not in ends), default=-1)
    latest = [copy for copy, end in ends.items() if end == max(ends.values())]
    if latest and _is_covered(_whole(latest[0].ifm), [_box(copy) for copy in latest]):
        until = max(until, ends[latest[0]])
    return [copy for copy, end in ends.items() if end <= until]


def _is_slice(operation: NpuOperation) -> bool:
    """Whether it makes a whole tensor of a box of another one, values as they are."""
    ifm, ofm, read = operation.ifm, operation.ofm, operation.compute.reads[0]
    rows, columns = read.indices[1:3]
    return (
        operation.kind is OperationKind.AVERAGE_POOL
        and (operation.window, operation.upscale, operation.function) == (views.POINT, Upscale.NONE, Function.CLAMP)
        and (operation.scaling, operation.clamp) == (UNSCALED, ofm.dtype.limits)
        and ifm.zero_point == ofm.zero_point == 0
        and ifm.dtype is ofm.dtype
        and ifm.strides is None
        and ofm.channels is None
        and ofm.place is None
        and _box(operation) != _whole(ifm)
        and read.origin is None
        and (rows, columns) == (index(rows.constant, h=1), index(columns.constant, w=1))
    )


def _box(copy: NpuOperation) -> _Cut:
    """What a copy has of its source."""
    _, rows, columns, channels = (expression.constant for expression in copy.compute.reads[0].indices)
    height, width, depth = copy.ofm.shape
    return range(rows, rows + height), range(columns, columns + width), range(channels, channels + depth)


def _whole(view: FeatureMap) -> _Cut:
    height, width = view.plane
    return range(height), range(width), range(view.pixel_channels)


def _is_covered(whole: _Cut, boxes: Sequence[_Cut]) -> bool:
    """Whether every element lies in one of the boxes: between two edges of any of them all are in the same ones."""
    axes = zip(whole, *boxes, strict=True)
    cuts = [pairwise(sorted({edge for span in spans for edge in (span.start, span.stop)})) for spans in axes]
    cells = product(*([start for start, _ in axis] for axis in cuts))
    return all(any(all(map(_holds, box, cell)) for box in boxes) for cell in cells)


def _holds(span: range, place: int) -> bool:
    return place in span


def _sees(reader: NpuOperation, made: FeatureMap) -> bool:
    """Whether an operation sees a tensor with the rows, columns and channels of its maker wherever it reads it."""
    seen = (view for view in reader.inputs if view.tensor == made.tensor)
    return all(view.strides is None and (*view.plane, view.pixel_channels) == made.shape for view in seen)


def _without(operations: Sequence[NpuOperation], copies: Sequence[NpuOperation]) -> tuple[NpuOperation, ...]:
    made = {copy.ofm.tensor: copy for copy in copies}
    kept = [operation for operation in operations if operation not in copies]
    served = {operator for operation in kept for operator in operation.serves}
    found = []
    for operation in kept:
        for copy in (made[view.tensor] for view in operation.inputs if view.tensor in made):
            operation = _reading(operation, copy)
            missing = [operator for operator in copy.serves if operator not in served]
            served.update(missing)
            operation = replace(operation, absorbed=(*operation.absorbed, *missing))
        found.append(operation)
    return tuple(found)


def _reading(operation: NpuOperation, copy: NpuOperation) -> NpuOperation:
    """The operation with the source of a copy as operand where it read the copy."""
    number = next(number for number, view in enumerate(operation.inputs) if view.tensor == copy.ofm.tensor)
    view, source, box = operation.inputs[number], copy.ifm, _box(copy)
    above, before, first = (span.start for span in box)
    depth = source.pixel_channels
    some = Channels(first + view.first_channel, depth)
    channels = None if some == (0, view.shape[2]) == (0, depth) else some
    view = replace(view, tensor=source.tensor, shape=(*source.plane, view.shape[2]), channels=channels)
    is_image = box[:2] != _whole(source)[:2]

    def moved(read: Access) -> Access:
        indices = tuple(
            replace(expression, constant=expression.constant + start * expression.divisor)
            for expression, start in zip(read.indices, (0, above, before, first), strict=True)
        )
        n, rows, columns, channel = indices
        found = replace(read, indices=(n, rows, columns, channel), extents=(*read.extents[:3], depth))
        if not is_image and read.origin is None:
            return found
        row, column = read.origin or (0, 0)
        return replace(found, origin=(above + row, before + column))

    reads = tuple(moved(read) if read.operand == number else read for read in operation.compute.reads)
    operation = replace(operation, compute=replace(operation.compute, reads=reads))
    return replace(operation, ifm=view) if number == 0 else replace(operation, ifm2=view)
