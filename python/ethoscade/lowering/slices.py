"""Slices read where they are: who reads a mere copy of a box reads that box of its source, and no copy is made.

A box has some of the rows, columns and channels. Its edge is an edge to windows as well: beyond it lies padding, and
not what the source has there.

Owns a rule over lowered networks. Copies go where no tensor has to live longer for it, or where pieces that together
cover their source would take more bytes than that. Whether other pieces that cover it are read there as well is a
choice: it saves copies, and the source stays until the last piece is read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from . import copies
from .feature_maps import FeatureMap, NpuTensor
from .npu import NpuGraph, NpuOperation, renumbered


def read_in_place(npu: NpuGraph, exposed: Collection[int], all_pieces: bool = False) -> NpuGraph:
    """The graph without the copies of boxes that their readers can do without.

    With `all_pieces` none is left of those that together cover their source. `exposed` are the tensors (graph indices)
    that others than the NPU operations of one region look at. Operators of which no operation is left are `absorbed` by
    one that read what they copied.
    """
    users = copies.Users(npu.operations)
    # The last tensors first: a part of a part is then one of the whole.
    for source in reversed(npu.tensors):
        while needless := _needless(users, source, exposed, all_pieces):
            users = copies.Users(_without(users.operations, needless))
    operations = users.operations
    if len(operations) == len(npu.operations):
        return npu
    used = {view.tensor.id for operation in operations for view in (*operation.inputs, operation.ofm)}
    return renumbered(npu, operations, {tensor.id: tensor for tensor in npu.tensors if tensor.id in used})


def _needless(users: copies.Users, source: NpuTensor, exposed: Collection[int], all_pieces: bool) -> list[NpuOperation]:
    """Copies of a tensor's boxes whose readers come no later than the last for whose sake it is there anyway.

    That is the last one that reads the tensor itself, or the last one of all where copies read then have all of it, or
    where all copies have and they are larger, or go with `all_pieces`.
    """
    reads, places = list(dict.fromkeys(users.readers(source))), users.places
    if not any(map(_is_slice, reads)):
        return []
    ends: dict[NpuOperation, int] = {}
    for copy in filter(_is_slice, reads):
        made = copy.ofm
        readers = users.readers(made.tensor)
        if readers and made.tensor.graph_tensor not in exposed and all(_sees(reader, made) for reader in readers):
            ends[copy] = max(places[reader.ofm.tensor.id] for reader in readers)
    until = max((places[operation.ofm.tensor.id] for operation in reads if operation not in ends), default=-1)
    latest = [copy for copy, end in ends.items() if end == max(ends.values())]
    pieces_bytes = sum(copy.ofm.tensor.placed_bytes for copy in ends)
    pieces = list(ends) if all_pieces or pieces_bytes > source.placed_bytes else latest
    if pieces and copies.is_covered(copies.whole(pieces[0].ifm), [copies.source_box(copy) for copy in pieces]):
        until = max(ends.values())
    return [copy for copy, end in ends.items() if end <= until]


def _is_slice(operation: NpuOperation) -> bool:
    """Whether it makes a whole tensor of a box of another one, values as they are."""
    ofm = operation.ofm
    return (
        copies.is_copy(operation)
        and copies.fill(operation) is None
        and ofm.channels is None
        and ofm.place is None
        and copies.source_box(operation) != copies.whole(operation.ifm)
    )


def _sees(reader: NpuOperation, made: FeatureMap) -> bool:
    """Whether an operation sees a tensor with the rows, columns and channels of its maker wherever it reads it."""
    seen = (view for view in reader.inputs if view.tensor == made.tensor)
    return all(view.strides is None and (*view.plane, view.pixel_channels) == made.shape for view in seen)


def _without(operations: Sequence[NpuOperation], left_out: Sequence[NpuOperation]) -> tuple[NpuOperation, ...]:
    made = {copy.ofm.tensor: copy for copy in left_out}
    kept = [operation for operation in operations if operation not in left_out]
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
    reads = {read.operand: read for read in operation.compute.reads}
    box = copies.source_box(copy)
    view, reads[number] = copies.seen_at(operation.inputs[number], reads[number], copy.ifm, box)
    operation = replace(operation, compute=replace(operation.compute, reads=tuple(reads.values())))
    return replace(operation, ifm=view) if number == 0 else replace(operation, ifm2=view)
