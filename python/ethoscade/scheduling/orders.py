"""Orders of NPU operations beside the file's, which may take less SRAM where a network forks.

What is ordered are groups of operations, within a region: the NPU is started as often, and CPU operators keep their
turns. A group makes one tensor of the model, and the temporaries on the way to it, in the order of the lowering. No
rule is best for every network, so the search judges. Bytes are those of whole tensors, each in steps of 16.

- Depth first: from the region's outputs back, so that a tensor is made when it is read.
- Largest first: the same, but of a group's inputs that one first whose making takes most bytes beyond its own (Sethi
  and Ullman, "The Generation of Optimal Code for Arithmetic Expressions", 1970).
- Fewest bytes: of the groups whose inputs are there, the one that adds the fewest live bytes.

Owns these rules. Which order is taken is not decided here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from ..ir import Variable
from ..lowering.npu import NpuGraph, NpuOperation
from ..util.records import dataclass


@dataclass(frozen=True)
class _Region:
    """Groups of operations in the file's order, and the tensors (`NpuTensor.id`) that each reads of others.

    `needs` are the groups whose tensors a group reads, or that read state before it makes the next one. `made_bytes`
    are those that a group leaves to others, `bytes` those of each tensor. `kept` tensors stay when all have read them.
    """

    groups: tuple[tuple[NpuOperation, ...], ...]
    needs: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, ...], ...]
    made_bytes: tuple[int, ...]
    bytes: Mapping[int, int]
    kept: frozenset[int]

    @property
    def forks(self) -> bool:
        """Whether some tensor has several readers, or some group several inputs, so that orders may differ."""
        readers = Counter(number for needs in self.needs for number in needs)
        return any(len(needs) > 1 for needs in self.needs) or any(count > 1 for count in readers.values())


def orders_of(
    npu: NpuGraph, regions: Iterable[Collection[int]], kept: Collection[int], variables: Sequence[Variable]
) -> Iterator[NpuGraph]:
    """The graph, then with its operations in other orders, each once; nothing where a network does not fork.

    `regions` are operators that run without a call between, `kept` graph tensors that go into regions or out of them:
    they count as if they stayed. `variables` keep the order in which state is read and written.
    """
    found = [_region(npu, operators, kept, variables) for operators in regions]
    if not any(region.forks for region in found):
        return
    yield npu
    known = {npu.operations}
    for rule in (_depth_first, _largest_first, _fewest_bytes_first):
        ordered = [region.groups[number] for region in found for number in rule(region)]
        operations = tuple(operation for group in ordered for operation in group)
        if operations not in known:
            known.add(operations)
            yield replace(npu, operations=operations)


def _groups(operations: Sequence[NpuOperation]) -> Iterator[tuple[NpuOperation, ...]]:
    group: list[NpuOperation] = []
    for (_, tensor), made in groupby(operations, key=lambda o: (o.operator, o.ofm.tensor)):
        group += made
        if tensor.graph_tensor is not None:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)


def _region(npu: NpuGraph, operators: Collection[int], kept: Collection[int], variables: Sequence[Variable]) -> _Region:
    inside = set(operators)
    groups = tuple(_groups([operation for operation in npu.operations if operation.operator in inside]))
    makes = [dict.fromkeys(operation.ofm.tensor.id for operation in group) for group in groups]
    seen = [dict.fromkeys(view.tensor.id for operation in group for view in operation.inputs) for group in groups]
    reads = [[tensor for tensor in found if tensor not in made] for found, made in zip(seen, makes, strict=True)]
    maker = {tensor: number for number, made in enumerate(makes) for tensor in made}
    needs = [[maker[tensor] for tensor in tensors if tensor in maker] for tensors in reads]
    of_graph = {tensor.graph_tensor: tensor.id for tensor in npu.tensors if tensor.graph_tensor is not None}
    for variable in variables:
        before, after = of_graph.get(variable.before), maker.get(of_graph.get(variable.after, -1))
        if before is not None and after is not None:
            needs[after] += [number for number in range(after) if before in reads[number]]
    size = {tensor.id: tensor.placed_bytes for tensor in npu.tensors}
    wanted = {tensor for tensors in reads for tensor in tensors} | set(of_graph.values())
    return _Region(
        groups,
        tuple(tuple(dict.fromkeys(numbers)) for numbers in needs),
        tuple(map(tuple, reads)),
        tuple(sum(size[tensor] for tensor in made if tensor in wanted) for made in makes),
        size,
        frozenset(tensor.id for tensor in npu.tensors if tensor.graph_tensor in kept),
    )


def _depth_first(region: _Region) -> list[int]:
    return _from_outputs(region, list)


def _largest_first(region: _Region) -> list[int]:
    made_bytes = region.made_bytes
    beyond: list[int] = []

    def largest_first(numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=lambda number: -beyond[number])

    for number, needs in enumerate(region.needs):
        peak = held = 0
        for needed in largest_first(needs):
            peak = max(peak, held + made_bytes[needed] + beyond[needed])
            held += made_bytes[needed]
        beyond.append(max(peak, held + made_bytes[number]) - made_bytes[number])
    return _from_outputs(region, largest_first)


def _from_outputs(region: _Region, inputs_first: Callable[[Iterable[int]], list[int]]) -> list[int]:
    """Each group when it is needed; `inputs_first` says in which order those that one group needs are."""
    needed = {number for needs in region.needs for number in needs}
    waiting = inputs_first(number for number in range(len(region.groups)) if number not in needed)[::-1]
    order: dict[int, None] = {}
    while waiting:
        missing = [number for number in inputs_first(region.needs[waiting[-1]]) if number not in order]
        if missing:
            waiting += missing[::-1]
        else:
            order.setdefault(waiting.pop())
    return list(order)


def _fewest_bytes_first(region: _Region) -> list[int]:
    missing = [len(needs) for needs in region.needs]
    needed_by: list[list[int]] = [[] for _ in region.needs]
    for number, needs in enumerate(region.needs):
        for needed in needs:
            needed_by[needed].append(number)
    readers: dict[int, set[int]] = {}
    for number, tensors in enumerate(region.reads):
        for tensor in tensors:
            readers.setdefault(tensor, set()).add(number)

    def added(number: int) -> int:
        dying = (t for t in region.reads[number] if readers[t] == {number} and t not in region.kept)
        return region.made_bytes[number] - sum(region.bytes[tensor] for tensor in dying)

    ready = [(added(number), number) for number, count in enumerate(missing) if count == 0]
    heapq.heapify(ready)
    order: dict[int, None] = {}
    while ready:
        # An entry may be older than what it says: another one for the same group is before it then.
        number = heapq.heappop(ready)[1]
        if number in order:
            continue
        order[number] = None
        for tensor in region.reads[number]:
            readers[tensor].discard(number)
            if len(readers[tensor]) == 1:
                (last,) = readers[tensor]
                if missing[last] == 0:
                    heapq.heappush(ready, (added(last), last))
        for reader in needed_by[number]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, (added(reader), reader))
    return list(order)


AHEAD = 1 / 16
"""By how much an order must be ahead of others in bytes or cycles to be searched: these fronts are coarse."""

CoarseFront = Sequence[tuple[int, int]]
"""Bytes and cycles."""


def ahead(fronts: Sequence[CoarseFront]) -> tuple[int, ...]:
    """The orders worth a search: the first one, then each whose coarse front is ahead of all chosen before.

    The next one is that for which the fronts so far would have to grow most to cover it: the multiplicative epsilon
    indicator of Zitzler and others ("Performance Assessment of Multiobjective Optimizers", 2003). Exact searches have
    no coarse fronts; there all orders are searched.
    """
    if not all(fronts):
        return tuple(range(len(fronts)))
    chosen, known = [0], list(fronts[0])
    waiting = set(range(1, len(fronts)))
    while waiting:
        best = max(sorted(waiting), key=lambda order: _lead(fronts[order], known))
        if _lead(fronts[best], known) <= 1 + AHEAD:
            break
        waiting.remove(best)
        chosen.append(best)
        known += fronts[best]
    return tuple(chosen)


def _lead(front: CoarseFront, known: CoarseFront) -> float:
    """By which factor the known points must shrink in bytes and cycles to be nowhere behind the front."""
    return max(min(max(q[0] / max(p[0], 1), q[1] / max(p[1], 1)) for q in known) for p in front)
