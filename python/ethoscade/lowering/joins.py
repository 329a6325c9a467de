"""Joins without copies: a tensor made of copies is read where these come from, or written by who makes them.

Owns two rules over lowered networks. An operation on single pixels that alone reads a join is done box by box on what
the copies read: a residual that is padded with channels and added is added as far as it goes. What is made only to be
copied into a box of a join is made there, when the join is. Copies go only where no more bytes have to live longer for
it than are gone: it never costs memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ..util.records import dataclass
from . import copies, views
from .copies import Cuboid
from .feature_maps import (
    Area,
    Channels,
    ConstantMap,
    FeatureMap,
    NpuTensor,
    Scalar,
)
from .npu import (
    NpuGraph,
    NpuOperation,
    OperandScales,
    OperationKind,
    Upscale,
    renumbered,
)
from .te import Access, Compute

_WITH_A_NUMBER = (
    OperationKind.ADD,
    OperationKind.SUB,
    OperationKind.MUL,
    OperationKind.MINIMUM,
    OperationKind.MAXIMUM,
)
"""Kinds that may have a number for an operand."""


@dataclass(frozen=True)
class _Piece:
    """A box of a join: what a copy reads, or one stored value everywhere."""

    box: Cuboid
    copy: NpuOperation
    fill: int | None


def without_copies(npu: NpuGraph, exposed: Collection[int]) -> NpuGraph:
    """The graph without the copies into joins that their readers, or their makers, can do without.

    `exposed` are the tensors (graph indices) that others than the NPU operations of one region look at. Operators of
    which no operation is left are `absorbed` by one that does their work.
    """
    users = copies.Users(npu.operations)
    for rule, tensors in ((_read_apart, npu.tensors), (_made_there, npu.tensors[::-1])):
        for tensor in tensors:
            if tensor.graph_tensor not in exposed and (changed := rule(users, tensor)) is not None:
                users = copies.Users(changed)
    operations = users.operations
    if operations is npu.operations:
        return npu
    used = {view.tensor.id for operation in operations for view in (*operation.inputs, operation.ofm)}
    return renumbered(npu, operations, {tensor.id: tensor for tensor in npu.tensors if tensor.id in used})


def _read_apart(users: copies.Users, join: NpuTensor) -> tuple[NpuOperation, ...] | None:
    """The operations with the only reader of a join done on its boxes, if that can be and costs nothing."""
    joined, readers = users.makers(join), users.readers(join)
    if len(joined) < 2 or len(readers) != 1 or not all(map(copies.is_copy, joined)):
        return None
    reader, pieces = readers[0], _pieces(joined)
    if not _is_pointwise(reader, join) or not all(_can_do(reader, join, piece) for piece in pieces):
        return None
    sources = {piece.copy.ifm.tensor for piece in pieces if piece.fill is None}
    if _kept_longer(users, sources, joined, reader) > join.size_bytes:
        return None
    return _replaced(users.operations, joined, reader, [_done_on(reader, join, piece) for piece in pieces])


def _made_there(users: copies.Users, tensor: NpuTensor) -> tuple[NpuOperation, ...] | None:
    """The operations with a tensor made in the box of a join that it is copied to, if that can be and costs nothing."""
    makers, readers = users.makers(tensor), users.readers(tensor)
    if not makers or len(readers) != 1 or not all(map(_may_join, makers)):
        return None
    copy, made = readers[0], makers[0].ofm
    # A copy into a whole tensor is one that its readers want in another order.
    if not copies.is_copy(copy) or copies.fill(copy) is not None or copies.made_box(copy) == copies.whole(copy.ofm):
        return None
    if copies.source_box(copy) != copies.whole(made) or copies.whole(copy.ifm) != copies.whole(made):
        return None
    sources = {view.tensor for maker in makers for view in maker.inputs}
    if _kept_longer(users, sources, makers, copy) > tensor.size_bytes:
        return None
    there = [replace(maker, operator=copy.operator, ofm=_within(maker.ofm, copy.ofm)) for maker in makers]
    return _replaced(users.operations, makers, copy, there)


def _pieces(joined: Sequence[NpuOperation]) -> list[_Piece]:
    """The boxes of a join; neighbours with one value everywhere are one."""
    found = [_Piece(copies.made_box(copy), copy, copies.fill(copy)) for copy in joined]
    for axis in range(3):
        merged: list[_Piece] = []
        for piece in sorted(found, key=lambda piece: [span.start for span in piece.box]):
            last = next((one for one in merged if _adjoin(one, piece, axis)), None)
            if last is None:
                merged.append(piece)
            else:
                box = list(last.box)
                box[axis] = range(box[axis].start, piece.box[axis].stop)
                merged[merged.index(last)] = replace(last, box=(box[0], box[1], box[2]))
        found = merged
    return found


def _adjoin(first: _Piece, second: _Piece, axis: int) -> bool:
    """Whether both have the same value everywhere and the second box begins along an axis where the first one ends."""
    others = [first.box[other] == second.box[other] for other in range(3) if other != axis]
    follow = first.box[axis].stop == second.box[axis].start
    return first.fill is not None and first.fill == second.fill and follow and all(others)


def _is_pointwise(reader: NpuOperation, join: NpuTensor) -> bool:
    """Whether an operation makes each element of what a join has in the same place, and stores it there."""
    number = next(number for number, view in enumerate(reader.inputs) if view.tensor == join)
    view, read = reader.inputs[number], _read(reader, number)
    return (
        (reader.kind.is_elementwise or reader.kind in (OperationKind.AVERAGE_POOL, OperationKind.MAX_POOL))
        and (reader.window, reader.upscale) == (views.POINT, Upscale.NONE)
        and not isinstance(reader.ifm2, ConstantMap)
        and all(other.strides is None for other in reader.inputs)
        and view.channels is None
        and read.origin is None
        and view.shape == join.shape == reader.ofm.shape
        and [expression.constant for expression in read.indices] == [0] * 4
    )


def _can_do(reader: NpuOperation, join: NpuTensor, piece: _Piece) -> bool:
    """Whether an operation can read a piece itself: one value as a scalar, beside an operand that is a whole map."""
    if piece.fill is None:
        return True
    others = [view for view in reader.inputs if view.tensor != join]
    return (
        reader.kind in _WITH_A_NUMBER
        and len(others) == 1
        and reader.extents(reader.inputs.index(others[0])) == reader.ofm.shape
        and join.dtype.size_bytes <= 2
    )


def _done_on(reader: NpuOperation, join: NpuTensor, piece: _Piece) -> NpuOperation:
    """What an operation does on one box of the join that it reads."""
    shape = (len(piece.box[0]), len(piece.box[1]), len(piece.box[2]))
    axes = zip(reader.compute.axes, (1, *shape), strict=True)
    n, rows, columns, channels = (replace(axis, extent=extent) for axis, extent in axes)
    seen: list[FeatureMap] = []
    reads: list[Access] = []
    for number, view in enumerate(reader.inputs):
        is_join = view.tensor == join
        if is_join and piece.fill is not None:
            continue
        source, box = (piece.copy.ifm, copies.source_box(piece.copy)) if is_join else (view, _of(reader, number, piece))
        extents = (1, len(box[0]), len(box[1]), 1)
        read = replace(_read(reader, number), operand=len(seen), extents=extents)
        view, read = copies.seen_at(replace(view, shape=(*shape[:2], len(box[2]))), read, source, box)
        seen.append(view)
        reads.append(read)
    ofm = _within(_boxed(reader.ofm, piece.box), reader.ofm)
    compute = Compute(reader.compute.name, (n, rows, columns, channels), reader.compute.reductions, tuple(reads))
    made = replace(reader, ifm=seen[0], ofm=ofm, compute=compute)
    if len(seen) == 2:
        return replace(made, ifm2=seen[1])
    return made if piece.fill is None else _with_number(made, reader, join, piece.fill)


def _of(reader: NpuOperation, number: int, piece: _Piece) -> Cuboid:
    """What goes with a piece of another operand, whose only row, column or channel goes with all."""
    extents = zip(piece.box, reader.extents(number), reader.ofm.shape, strict=True)
    rows, columns, channels = (span if extent == whole else range(1) for span, extent, whole in extents)
    return rows, columns, channels


def _with_number(made: NpuOperation, reader: NpuOperation, join: NpuTensor, fill: int) -> NpuOperation:
    """An operation on what goes with the join and a number, which the NPU has as second operand."""
    is_first = reader.ifm.tensor == join
    view, scaling = reader.inputs[0 if is_first else 1], reader.scaling
    if is_first and isinstance(scaling, OperandScales):
        scaling = replace(scaling, first=scaling.second, second=scaling.first)
    return replace(
        made,
        ifm2=Scalar(fill, join.dtype, view.zero_point),
        scaling=scaling,
        swap_operands=made.swap_operands ^ (is_first and made.kind is OperationKind.SUB),
    )


def _boxed(view: FeatureMap, box: Cuboid) -> FeatureMap:
    """A box of an output as an output of its own."""
    shape = (len(box[0]), len(box[1]), len(box[2]))
    channels = Channels(box[2].start, view.shape[2]) if len(box[2]) < view.shape[2] else None
    first = (box[0].start, box[1].start)
    place = Area(first, view.shape[:2]) if shape[:2] != view.shape[:2] else None
    return replace(view, shape=shape, channels=channels, place=place)


def _within(view: FeatureMap, outer: FeatureMap) -> FeatureMap:
    """An output, or a box of it, that lies where `outer` has it."""
    first = view.first_channel + outer.first_channel
    (row, column), (above, before) = view.corner, outer.corner
    corner = (row + above, column + before)
    everything = view.shape[2] == outer.pixel_channels
    place = None if (corner, view.shape[:2]) == ((0, 0), outer.plane) else Area(corner, outer.plane)
    channels = None if everything else Channels(first, outer.pixel_channels)
    return replace(view, tensor=outer.tensor, channels=channels, place=place)


def _may_join(maker: NpuOperation) -> bool:
    """Whether an operation may be one of several that make an output: one that reads no constant operand."""
    return not isinstance(maker.ifm2, ConstantMap)


def _kept_longer(
    users: copies.Users,
    sources: Iterable[NpuTensor],
    gone: Collection[NpuOperation],
    reader: NpuOperation,
) -> int:
    """Bytes of the tensors that live longer if the `reader` reads them in place of the operations that are `gone`."""
    until = users.places[reader.ofm.tensor.id]

    def is_kept(source: NpuTensor) -> bool:
        others = (operation for operation in users.readers(source) if operation not in gone)
        return any(users.places[operation.ofm.tensor.id] >= until for operation in others)

    return sum(source.size_bytes for source in sources if not is_kept(source))


def _replaced(
    operations: Sequence[NpuOperation], gone: Collection[NpuOperation], reader: NpuOperation, by: Sequence[NpuOperation]
) -> tuple[NpuOperation, ...]:
    """The operations with others in place of one, that do the work of those that are gone as well."""
    kept = [operation for operation in operations if operation not in gone]
    place = kept.index(reader)
    found = [*kept[:place], *by, *kept[place + 1 :]]
    served = {operator for operation in found for operator in operation.serves}
    missing = dict.fromkeys(operator for operation in (*gone, reader) for operator in operation.serves)
    absorbed = (*by[0].absorbed, *(operator for operator in missing if operator not in served))
    found[place] = replace(by[0], absorbed=absorbed)
    return tuple(found)


def _read(operation: NpuOperation, number: int) -> Access:
    return next(read for read in operation.compute.reads if read.operand == number)
