"""Look-ups folded: one that alone reads what operations make becomes part of these, and chains of them one table.

Owns a rule over lowered networks. The NPU looks a result up as it stores it, after clamp and zero point: an operation
that makes a look-up's input can make its output at once, and the tensor between is gone. What does the same as a table
is a look-up as well, where it can be folded.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..ir import EIGHT_BIT
from ..targets.target import Accelerator
from . import views
from .feature_maps import FeatureMap
from .npu import (
    Function,
    NpuGraph,
    NpuOperation,
    OperationKind,
    Table,
    renumbered,
)

_ENTRIES = 256
_SLOW_COPIES = 32
"""MACs of an accelerator on which copies that rescale take longer than look-ups, not less long."""


def fold_tables(npu: NpuGraph, exposed: Collection[int], accelerator: Accelerator) -> NpuGraph:
    """The graph with every look-up in the operations before it that can be there.

    `exposed` are the tensors (graph indices) that others than the NPU operations of one region look at. An operation
    that looks up for others has their operators as `absorbed`.
    """
    if accelerator.macs <= _SLOW_COPIES:
        npu = replace(npu, operations=tuple(map(_as_look_up, npu.operations)))
    operations: list[NpuOperation | None] = list(npu.operations)
    makers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for number, operation in enumerate(npu.operations):
        makers.setdefault(operation.ofm.tensor.id, []).append(number)
        for tensor in dict.fromkeys(view.tensor.id for view in operation.inputs):
            readers.setdefault(tensor, []).append(number)
    tensors = {tensor.id: tensor for tensor in npu.tensors}
    for number, look_up in enumerate(map(_as_look_up, npu.operations)):
        between, result = look_up.ifm.tensor, look_up.ofm.tensor
        if not _only_looks_up(look_up) or readers[between.id] != [number] or between.graph_tensor in exposed:
            continue
        before = makers.get(between.id, [])
        found = [one for maker in before if (one := operations[maker]) is not None]
        if not found or not all(_takes_a_table(one) for one in found):
            continue
        for maker, made in zip(before, found, strict=True):
            operations[maker] = _folded(made, look_up)
        operations[number] = None
        makers[result.id] = before
        # A tensor is as its maker sees it; readers have views of their own.
        tensors[result.id] = replace(result, shape=tensors.pop(between.id).shape)
    if len(tensors) == len(npu.tensors):
        return npu
    return renumbered(npu, [operation for operation in operations if operation is not None], tensors)


def _as_look_up(operation: NpuOperation) -> NpuOperation:
    """The operation with its table where it is the same as one; else unchanged."""
    if operation.same_as is None:
        return operation
    ifm, ofm = (replace(view, zero_point=0) for view in (operation.ifm, operation.ofm))
    return replace(
        operation,
        kind=OperationKind.MAX_POOL,
        ifm=ifm,
        ofm=ofm,
        clamp=ofm.dtype.limits,
        scaling=None,
        function=operation.same_as,
        same_as=None,
    )


def _only_looks_up(operation: NpuOperation) -> bool:
    """Whether it replaces each stored value of a whole 8-bit tensor by a table's, and does nothing else."""
    ifm, ofm = operation.ifm, operation.ofm
    return (
        operation.kind is OperationKind.MAX_POOL
        and operation.window == views.POINT
        and _is_of_bytes(operation.function)
        and ifm.dtype is ofm.dtype
        and ofm.dtype in EIGHT_BIT
        and operation.clamp == ofm.dtype.limits
        and ifm.zero_point == ofm.zero_point == 0
        and ifm.channels is ofm.channels is None
        and ifm.place is ofm.place is None
    )


def _is_of_bytes(function: Function | Table) -> bool:
    return isinstance(function, Table) and function.size_bytes == _ENTRIES


def _takes_a_table(operation: NpuOperation) -> bool:
    """Whether it stores bytes that it can look up, or does so already."""
    return operation.ofm.dtype in EIGHT_BIT and (
        operation.function is Function.CLAMP or _is_of_bytes(operation.function)
    )


def _folded(operation: NpuOperation, look_up: NpuOperation) -> NpuOperation:
    assert isinstance(look_up.function, Table), "look-ups have a table"
    operation = _as_look_up(operation)
    return replace(
        operation,
        ofm=replace(operation.ofm, tensor=look_up.ofm.tensor),
        function=_after(operation.function, look_up.function, operation.ofm),
        absorbed=(*operation.absorbed, look_up.operator, *look_up.absorbed),
    )


def _after(first: Function | Table, second: Table, ofm: FeatureMap) -> Table:
    """The table that does what both do, one after the other."""
    if not isinstance(first, Table):
        return second
    flipped = 0x80 if ofm.dtype.limits[0] < 0 else 0
    return Table(bytes(second.data[entry ^ flipped] for entry in first.data))
