"""TensorFlow Lite Micro's greedy planner: where its bytes end for a file with a plan and kernels with scratch buffers.

Owns the order in which it places buffers and their lifetimes, as `micro_allocation_info.cc` and
`memory_planner/greedy_memory_planner.cc` have them at `micro_kernels.COMMIT`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import starmap

from ..ir import Graph
from ..util.records import dataclass

_ALIGNMENT = 16
_PLAN = "OfflineMemoryAllocation"
_PLAN_HEADER_WORDS = 3
_UNPLANNED = -1


@dataclass(frozen=True)
class _Buffer:
    """Bytes that are needed from the operator `first` to `last`, at `offset` if the file says so."""

    size: int
    first: int
    last: int
    offset: int | None


@dataclass(frozen=True)
class _Placed:
    """Bytes from `start` to `end`, from the operator `first` to `last`."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class MicroPlan:
    """What the planner is asked for, and one past the highest byte of it."""

    buffers: int
    end: int


def unplanned_state(graph: Graph) -> frozenset[int]:
    """The variable tensors without a place in the file's plan: they get bytes of their own, for all runs.

    An NPU's memories count as variables for their readers, and are none in the file.
    """
    offsets = _offsets(graph)
    memories = {t for op in graph.operators for t in op.memories}
    variables = {t for t, tensor in enumerate(graph.tensors) if tensor.is_variable and t not in memories}
    variables |= {v.before for v in graph.variables if v.in_place}
    return frozenset(t for t in variables if t >= len(offsets) or offsets[t] == _UNPLANNED)


def plan(graph: Graph, scratch: Sequence[Sequence[int]]) -> MicroPlan:
    """Tensors and each operator's `scratch` buffers as the planner places them."""
    requests = [_Buffer(_aligned(size), i + 1, i + 1, None) for i, sizes in enumerate(scratch) for size in sizes]
    buffers = [*_tensors(graph), *requests]
    placed = [_Placed(b.offset, b.offset + b.size, b.first, b.last) for b in buffers if b.offset is not None]
    placed.sort(key=lambda one: one.start)
    # The planner lists them from the last to the first, then sorts them by size without moving equal ones.
    for buffer in sorted((b for b in reversed(buffers) if b.offset is None), key=lambda b: -b.size):
        start = _first_gap(placed, buffer)
        placed.append(_Placed(start, start + buffer.size, buffer.first, buffer.last))
        placed.sort(key=lambda one: one.start)
    return MicroPlan(len(buffers), max((one.end for one in placed), default=0))


def _first_gap(placed: Sequence[_Placed], buffer: _Buffer) -> int:
    """The lowest byte from which on `buffer` fits between those that are needed at the same time."""
    start = 0
    for one in placed:
        if one.first > buffer.last or buffer.first > one.last:
            continue
        if one.start - start >= buffer.size:
            break
        start = max(start, one.end)
    return start


def _tensors(graph: Graph) -> list[_Buffer]:
    """The tensors that get bytes of the plan, from who makes them to the last that touches them.

    A variable tensor is one tensor of the file, before and after, without a producer: it ends with its last reader.
    """
    own = {v.after: v.before for v in graph.variables if v.in_place}
    end = len(graph.operators)
    given = [t for t in graph.inputs if t not in own.values()]
    first, last = dict.fromkeys(given, 0), dict.fromkeys(given, 0)
    for step, operator in enumerate(graph.operators, 1):
        made = [t for t in operator.outputs if t not in own]
        read = [own.get(t, t) for t in operator.inputs if t is not None]
        first = dict.fromkeys(made, step) | first
        last |= dict.fromkeys((*read, *made), step)
    last |= dict.fromkeys((t for t in graph.outputs if t not in own), end)
    offsets = _offsets(graph)
    apart = unplanned_state(graph)
    found = []
    for index in sorted(last):
        tensor = graph.tensors[index]
        offset = offsets[index] if index < len(offsets) else _UNPLANNED
        if tensor.is_constant or not tensor.size_bytes or index in apart:
            continue
        place = None if offset == _UNPLANNED else offset
        found.append(_Buffer(_aligned(tensor.size_bytes), first.get(index, -1), last[index], place))
    return found


def _offsets(graph: Graph) -> Sequence[int]:
    """Where the file puts each tensor; empty if it does not say."""
    words = list(starmap(int, struct.iter_unpack("<i", graph.metadata.get(_PLAN, b""))))
    return words[_PLAN_HEADER_WORDS:]


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
