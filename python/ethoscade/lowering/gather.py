"""GATHER by constant indices: a copy for each run of equally distant ones, or a permutation of axes.

Owns how indices fall into runs, and which ones shuffle groups as a TRANSPOSE between two RESHAPEs does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..ir import DType, GatherAttrs, Graph, Operator, TransposeAttrs
from . import constraints, limits, moves, transpose
from .family import Family
from .npu import NpuGraphBuilder


def gathered(graph: Graph, op: Operator, output: int = 0) -> list[moves.Box]:
    """The boxes of a GATHER, one for each run of indices; the output's axes that these make are seen as one.

    Runs step as far as the NPU can, or not at all: whichever is cheaper. Those of int32 step not at all.
    """
    steps = (1,) if graph.read(op).dtype is DType.INT32 else (1, limits.MAX_STRIDE, limits.MAX_DIMENSION)
    return moves.cheapest([_boxes(graph, op, most) for most in steps])


GATHER_BOXES: Mapping[str, Callable[[Graph, Operator, int], Sequence[moves.Box]]] = {"GATHER": gathered}
"""The boxes of each kind's output."""


def _boxes(graph: Graph, op: Operator, most: int) -> list[moves.Box]:
    attrs, shape = op.attributes(GatherAttrs), graph.read(op).shape
    boxes, places = [], len(attrs.indices)
    for first, run in _runs(attrs.indices, most):
        runs = [moves.whole(extent) for extent in shape]
        runs[attrs.axis] = moves.Stretch(len(run), shape[attrs.axis], places, run.start, run.step, first)
        boxes.append(moves.Box(0, tuple(runs)))
    return boxes


def _runs(indices: Sequence[int], most: int) -> list[tuple[int, range]]:
    """The indices as rising ones, at most `most` apart and each as far as the one before, with their first places."""
    found: list[tuple[int, range]] = []
    first = 0
    while first < len(indices):
        end, step = first + 1, 1
        if end < len(indices) and 1 <= indices[end] - indices[first] <= most:
            step = indices[end] - indices[first]
            while end < len(indices) and indices[end] - indices[end - 1] == step:
                end += 1
        found.append((first, range(indices[first], indices[first] + (end - first) * step, step)))
        first = end
    return found


def shuffle(extent: int, indices: Sequence[int]) -> TransposeAttrs | None:
    """The permutation of axes, of which the elements number 0 to `extent` are seen as having several, that it is."""
    digits: list[tuple[int, int]] = []  # extent and distance, the innermost axis first
    left = list(indices)
    while len(left) > 1:
        distance = left[1] - left[0]
        ends = (n for n in range(1, len(left)) if left[n] - left[n - 1] != distance)
        count = next(ends, len(left))
        if distance < 1 or len(left) % count:
            return None
        digits.insert(0, (count, distance))
        left = left[::count]
    order = sorted(range(len(digits)), key=lambda place: -digits[place][1])
    extents = tuple(digits[place][0] for place in order)
    distances = [math.prod(extents[place + 1 :]) for place in range(len(extents))]
    if math.prod(extents) != extent or any(digits[a][1] != b for a, b in zip(order, distances, strict=True)):
        return None
    made = [0]
    for count, distance in digits:
        made = [start + number * distance for start in made for number in range(count)]
    if made != list(indices):
        return None
    return TransposeAttrs(tuple(order.index(place) for place in range(len(order))), extents)


def _permuted(graph: Graph, op: Operator) -> TransposeAttrs | None:
    """The whole tensor's permutation of axes, where indices shuffle theirs and it moves anything."""
    attrs, shape = op.attributes(GatherAttrs), graph.read(op).shape
    found = shuffle(shape[attrs.axis], attrs.indices)
    if found is None or not found.moves:
        return None
    before, behind = math.prod(shape[: attrs.axis]), math.prod(shape[attrs.axis + 1 :])
    inner = (place + 1 for place in found.permutation)
    return TransposeAttrs((0, *inner, len(found.extents) + 1), (before, *found.extents, behind))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels for each copy. Precondition: its family takes it."""
    op = graph.operators[op_index]
    permuted = _permuted(graph, op)
    if permuted is not None and not isinstance(transpose.way(permuted, graph.made(op).shape), str):
        transpose.copies(graph, op_index, builder, permuted)
    else:
        moves.copies(graph, op_index, builder, op.outputs[0], gathered(graph, op))


def _copied(case: constraints.Case) -> str | None:
    permuted = _permuted(case.graph, case.op)
    if permuted is not None and not isinstance(transpose.way(permuted, case.ofm.shape), str):
        return None
    return moves.refusal(case, gathered(case.graph, case.op))


GATHER_FAMILIES: Mapping[str, Family] = {
    "GATHER": Family(
        "a copy of each run of equally distant indices; of indices that shuffle groups, the copies of a TRANSPOSE",
        (*moves.takes(), constraints.Rule(moves.COPIES, _copied)),
        lower,
    )
}
