"""Other planners on the same buffers, each within seconds of CPU time.

TVM's three algorithms and MiniMalloc's first fit with branch and bound are implemented here, from their descriptions.
Vela's hill climb is the one of its package. `omnimalloc` (PyPI) takes part where it is installed.
Windows and gaps are left unused. Sizes are multiples of the alignment, so that no offset needs padding.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import time
from collections.abc import Callable, Iterator, Sequence

from ethoscade.memory import Buffer

MOST_STRETCH = 8
"""Most times its seconds that a planner with a wall-clock limit may take."""

Offsets = Sequence[int]
Opponent = Callable[[Sequence[Buffer], float], Iterator[Offsets]]
"""From buffers and CPU seconds to plans, each better than the one before."""


def _neighbours(buffers: Sequence[Buffer]) -> list[list[int]]:
    """The buffers in use together with each buffer."""
    met: list[list[int]] = [[] for _ in buffers]
    live: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: buffers[i].lower):
        live = [other for other in live if buffers[other].upper > buffers[index].lower]
        for other in live:
            met[index].append(other)
            met[other].append(index)
        live.append(index)
    return met


def _first_fit(buffers: Sequence[Buffer], met: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """The lowest free offset for one buffer after the other."""
    offsets = [-1] * len(buffers)
    for index in order:
        offset, size = 0, buffers[index].size_bytes
        for start, end in sorted(
            (offsets[i], offsets[i] + buffers[i].size_bytes) for i in met[index] if offsets[i] >= 0
        ):
            if start >= offset + size:
                break
            offset = max(offset, end)
        offsets[index] = offset
    return offsets


def _stacked(buffers: Sequence[Buffer], met: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Each above all placed before that it meets, without filling gaps."""
    offsets = [-1] * len(buffers)
    for index in order:
        ends = (offsets[i] + buffers[i].size_bytes for i in met[index] if offsets[i] >= 0)
        offsets[index] = max(ends, default=0)
    return offsets


def _peak(buffers: Sequence[Buffer], offsets: Offsets) -> int:
    return max(offset + buffer.size_bytes for offset, buffer in zip(offsets, buffers, strict=True))


def tvm_greedy_by_size(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
    del seconds
    order = sorted(range(len(buffers)), key=lambda i: -buffers[i].size_bytes)
    yield _stacked(buffers, _neighbours(buffers), order)


def tvm_greedy_by_conflicts(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
    del seconds
    met = _neighbours(buffers)
    yield _stacked(buffers, met, sorted(range(len(buffers)), key=lambda i: -len(met[i])))


def tvm_hill_climb(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
    """Swaps a buffer at the peak, or one that it meets, with another; a worse plan is accepted ever more seldom."""
    end, rng, met = time.process_time() + seconds, random.Random(0), _neighbours(buffers)
    order = sorted(range(len(buffers)), key=lambda i: -buffers[i].size_bytes)
    current = _first_fit(buffers, met, order)
    peak = best = _peak(buffers, current)
    yield current
    tries = 0
    while (now := time.process_time()) < end:
        tries += 1
        top = [i for i in range(len(buffers)) if current[i] + buffers[i].size_bytes == peak]
        one = rng.choice(top)
        near = met[one] + [other for neighbour in met[one][:20] for other in met[neighbour][:20]]
        if not near:
            return
        places = {index: place for place, index in enumerate(order)}
        a, b = places[one], places[rng.choice(near)]
        order[a], order[b] = order[b], order[a]
        trial = _first_fit(buffers, met, order)
        height = _peak(buffers, trial)
        if height < peak or rng.random() < 0.5 * (end - now) / seconds / (1 + 100 * (height - peak) / peak):
            current, peak = trial, height
            if peak < best:
                best = peak
                yield current
        else:
            order[a], order[b] = order[b], order[a]


def minimalloc_like(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
    """Depth first over first-fit packings from below, with static orders in turn, below the best plan."""
    end, met = time.process_time() + seconds, _neighbours(buffers)
    keys: tuple[Callable[[Buffer], int], ...] = (
        lambda b: b.size_bytes * (b.upper - b.lower),
        lambda b: b.upper - b.lower,
        lambda b: b.size_bytes,
    )
    orders = [sorted(range(len(buffers)), key=lambda i, key=key: -key(buffers[i])) for key in keys]  # type: ignore[misc]
    best: int | None = None
    for order in orders:
        offsets = _first_fit(buffers, met, order)
        if best is None or _peak(buffers, offsets) < best:
            best = _peak(buffers, offsets)
            yield offsets
    nodes = 1_000
    while time.process_time() < end and best is not None:
        for order in orders:
            offsets = _canonical_search(buffers, met, order, best, nodes, end)
            if offsets:
                best = _peak(buffers, offsets)
                yield offsets
        nodes *= 2


def _canonical_search(
    buffers: Sequence[Buffer], met: Sequence[Sequence[int]], order: Sequence[int], below: int, nodes: int, end: float
) -> list[int]:
    """Offsets of a packing below `below` bytes in which none starts lower than the one placed before it, or []."""
    count = len(buffers)
    floor, is_placed, offsets = [0] * count, [False] * count, [0] * count
    # Each frame: the untried buffers, and what the last placement changed.
    frames: list[tuple[Iterator[int], int, list[tuple[int, int]]]] = [(iter(order), -1, [])]
    while frames and nodes > 0:
        candidates, last, changes = frames[-1]
        for index, before in reversed(changes):
            floor[index] = before
        if last >= 0:
            is_placed[last] = False
        changes = []
        lowest = offsets[frames[-2][1]] if len(frames) > 1 else 0
        left = [i for i in order if not is_placed[i]]
        limit = min((floor[i] + buffers[i].size_bytes for i in left), default=0)
        index = next((i for i in candidates if not is_placed[i] and lowest <= floor[i] < limit), -1)
        nodes -= 1
        if index < 0 or (nodes % 64 == 0 and time.process_time() > end):
            frames.pop()
            if time.process_time() > end:
                return []
            continue
        offsets[index], is_placed[index] = floor[index], True
        top, fits = floor[index] + buffers[index].size_bytes, True
        for other in met[index]:
            if not is_placed[other] and floor[other] < top:
                changes.append((other, floor[other]))
                floor[other] = top
                fits = fits and top + buffers[other].size_bytes < below
        frames[-1] = (candidates, index, changes)
        if fits and len(left) == 1:
            return offsets
        if fits:
            frames.append((iter(order), -1, []))
    return []


def vela_hill_climb(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
    """Vela's allocator; it is asked for its best address list whenever the best size has become less."""
    from ethosu.vela.hillclimb_allocation import HillClimbAllocator

    end = time.process_time() + seconds

    class Spent(Exception):
        pass

    class Timed(HillClimbAllocator):  # type: ignore[misc]
        def allocate_indices(self, indices: list[int]) -> int:
            if time.process_time() > end:
                raise Spent
            return int(super().allocate_indices(indices))

    class Range:
        def __init__(self, buffer: Buffer) -> None:
            self.start_time, self.end_time, self.size = buffer.lower, buffer.upper - 1, buffer.size_bytes
            self.alignment = buffer.alignment

        def get_alignment(self) -> int:
            return self.alignment

    steps = {step: rank for rank, step in enumerate(sorted({b.lower for b in buffers} | {b.upper for b in buffers}))}
    ranks = [Buffer(b.name, steps[b.lower], steps[b.upper], b.size_bytes, b.alignment) for b in buffers]
    yield _first_fit(buffers, _neighbours(buffers), range(len(buffers)))
    # A limit below what must be in use would print a warning.
    climb = Timed([Range(buffer) for buffer in ranks], 1 << 30, 1 << 60)
    climb.memory_limit = climb.min_required_size
    with contextlib.suppress(Spent):
        climb.allocate()
    if hasattr(climb, "allocated_addresses"):
        yield climb.allocated_addresses


def _omnimalloc(name: str, **arguments: object) -> Opponent:
    def run(buffers: Sequence[Buffer], seconds: float) -> Iterator[Offsets]:
        from omnimalloc import allocators
        from omnimalloc.primitives import Allocation

        rows = tuple(Allocation(id=i, size=b.size_bytes, start=b.lower, end=b.upper) for i, b in enumerate(buffers))
        limit = seconds
        for _ in range(2):
            wall, spent = time.monotonic(), time.process_time()
            placed = getattr(allocators, name)(timeout=limit, **arguments).allocate(rows)
            wall, spent = time.monotonic() - wall, time.process_time() - spent
            # Its limit is wall-clock time; on a shared machine that is less CPU time than the others have.
            if wall < limit or spent > 0.8 * seconds:
                break
            limit = seconds * min(1.1 * seconds / spent, MOST_STRETCH)
        yield [int(row.offset) for row in sorted(placed, key=lambda row: int(row.id))]

    return run


OPPONENTS: dict[str, Opponent] = {
    "tvm greedy_by_size": tvm_greedy_by_size,
    "tvm greedy_by_conflicts": tvm_greedy_by_conflicts,
    "tvm hill_climb": tvm_hill_climb,
    "vela hill climb": vela_hill_climb,
    "minimalloc-like": minimalloc_like,
}
"""By name. Those written in Python try far fewer moves in a second than those in C++."""

if importlib.util.find_spec("omnimalloc"):
    # With one thread it would try one capacity only; on one core its threads take turns.
    OPPONENTS["omnimalloc supermalloc"] = _omnimalloc("SupermallocAllocator", num_threads=12)
    OPPONENTS["omnimalloc annealing"] = _omnimalloc(
        "SimulatedAnnealingAllocator", max_iterations=10**9, cooling_rate=1 - 1e-5
    )
    OPPONENTS["omnimalloc tabu"] = _omnimalloc("TabuSearchAllocator", max_iterations=10**9)
