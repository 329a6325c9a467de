"""Between which numbers values of 32 bits lie, from those who make them: sums and products of them must not overflow.

Kernels of CPUs wrap there; what the NPU does is not known. Owns the intervals; who may compute is a family's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ..ir import DType, Graph, Operator, ReductionAttrs, Tensor
from ..ir.operators import RESHAPES
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import limits

Interval = tuple[int, int]
"""The least and the largest value."""

_MOVING = RESHAPES | {
    *("CONCATENATION", "GATHER", "MIRROR_PAD", "PACK", "REVERSE_V2", "SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE"),
    *("TILE", "TRANSPOSE", "UNPACK"),
}
"""Kinds whose outputs have no other elements than their inputs."""

_CORNERS: Mapping[str, Callable[[int, int], int]] = {
    "ADD": lambda a, b: a + b,
    "MUL": lambda a, b: a * b,
    "SUB": lambda a, b: a - b,
}
"""What is largest and least where operands are."""


def of_result(graph: Graph, op: Operator) -> Interval:
    """What an ADD, SUB or MUL makes of its operands, without a limit of 32 bits."""
    return _result(op, _found(graph, op), graph)


def of_sum(graph: Graph, op: Operator) -> Interval:
    """What a SUM makes of its input, without a limit of 32 bits."""
    return _summed(op, _found(graph, op), graph)


def _summed(op: Operator, found: Mapping[int, Interval], graph: Graph) -> Interval:
    low, high = _of(graph, op.input(0), found)
    count = math.prod(graph.read(op).shape[axis] for axis in op.attributes(ReductionAttrs).axes)
    return low * count, high * count


def _found(graph: Graph, until: Operator) -> dict[int, Interval]:
    """The intervals of what operators ahead of one make that are narrower than all of 32 bits."""
    found: dict[int, Interval] = {}
    for op in graph.operators:
        if op is until:
            break
        interval = _made(graph, op, found)
        low, high = DType.INT32.limits
        if interval is not None and low <= interval[0] and interval[1] <= high:
            found.update((t, interval) for t in op.outputs if graph.tensors[t].dtype is DType.INT32)
    return found


def _made(graph: Graph, op: Operator, found: Mapping[int, Interval]) -> Interval | None:
    if op.opaque is not None or not any(graph.tensors[t].dtype is DType.INT32 for t in op.outputs):
        return None
    ifm = None if not op.inputs or op.inputs[0] is None else graph.read(op)
    if op.kind == "ARG_MAX" and ifm is not None:
        # Whatever the axis is, no index is beyond all elements.
        return 0, max(ifm.shape) - 1
    if op.kind == "QUANTIZE" and ifm is not None and ifm.dtype.is_integer and op.attrs is None:
        return _rescaled(ifm, graph.made(op))
    if op.kind in _CORNERS:
        return _result(op, found, graph)
    if op.kind == "SUM":
        return _summed(op, found, graph)
    if op.kind in _MOVING:
        return _all([_of(graph, t, found) for t in op.inputs if t is not None and _has_values(graph, op, t)])
    return None


def _has_values(graph: Graph, op: Operator, tensor: int) -> bool:
    """Whether an input of a move is among what it moves, or may be."""
    return graph.tensors[tensor].dtype is graph.made(op).dtype


def _result(op: Operator, found: Mapping[int, Interval], graph: Graph) -> Interval:
    a, b = (_of(graph, op.input(place), found) for place in (0, 1))
    corners = [_CORNERS[op.kind](x, y) for x in a for y in b]
    return min(corners), max(corners)


def _of(graph: Graph, index: int, found: Mapping[int, Interval]) -> Interval:
    data = graph.tensors[index].data
    if data is not None and data.size:
        return int(data.min()), int(data.max())
    return found.get(index, graph.tensors[index].dtype.limits)


def _rescaled(ifm: Tensor, ofm: Tensor) -> Interval:
    low, high = ifm.dtype.limits
    significand, shift = multiplier_and_shift(scale_of(ifm) / scale_of(ofm))
    ends = limits.scaled(np.array([low, high]) - zero_point_of(ifm), significand, shift) + zero_point_of(ofm)
    return int(ends[0]), int(ends[1])


def _all(intervals: list[Interval]) -> Interval | None:
    """The interval that holds several."""
    return (min(low for low, _ in intervals), max(high for _, high in intervals)) if intervals else None
