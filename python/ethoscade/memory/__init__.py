"""Where every buffer lies: the facade over the static memory planner.

Owns the problem and its answer as people see them, with names, and the placement of compiled programs. The search
is in Rust and knows numbers only; files of buffers are read and written by `csv`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from .. import _core
from ..errors import BudgetError, ConfigError
from ..scheduling.program import Program
from ..util.arguments import checked, held
from ..util.frozen import FrozenMap
from ..util.progress import OptimalityGap, Progress, ProgressCallback, Stopwatch
from ..util.records import dataclass
from .csv import read_csv, write_csv
from .model import Buffer, Gap, Pool, Share

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Buffer",
    "Gap",
    "Placement",
    "Pool",
    "PoolOverflowError",
    "ProgramPlacement",
    "Share",
    "merge_models",
    "place_program",
    "place_programs",
    "plan",
    "program_buffers",
    "read_csv",
    "write_csv",
]

ALGORITHMS: tuple[str, ...] = ("best", "exact", "hill_climb", "greedy_by_size", "greedy_by_conflicts")
"""The built-in algorithms, by name."""

DEFAULT_ITERATIONS = 50_000
"""Most moves that a hill climb tries; branch and bound looks at four nodes for each."""

MOST_THREADS = 256
"""Most threads that may search side by side."""

_ARENA_ALIGNMENT = 16

Offset = int | tuple[str, int]
"""An offset in the buffer's preferred pool, or a pool's name and an offset in it. In bytes."""

Algorithm = Callable[[tuple[Buffer, ...], tuple[Pool, ...]], Sequence[Offset]]
"""A planner of one's own: buffers and pools in, one offset for each buffer out, in the same order."""


class PoolOverflowError(BudgetError):
    """No plan that was found fits a pool.

    `pool` is its name, `buffers` are the names of those that are in use at its peak, or of a set in which all conflict
    and one ends there, whichever are more bytes. `lower_bound_bytes` is what no plan can beat, `budget_bytes` the
    pool's size and `floor_bytes` what the best plan found needs.
    """

    def __init__(
        self, *, pool: str, budget_bytes: int, floor_bytes: int, lower_bound_bytes: int, buffers: Sequence[Buffer]
    ) -> None:
        largest = max(buffers, key=lambda buffer: buffer.size_bytes, default=None)
        self.pool = pool
        self.lower_bound_bytes = lower_bound_bytes
        self.buffers = tuple(buffer.name for buffer in buffers)
        shown = ", ".join(self.buffers[:8]) + (f" and {len(buffers) - 8} more" if len(buffers) > 8 else "")
        proof = "and no plan can need less than" if lower_bound_bytes > budget_bytes else "although the bound is only"
        super().__init__(
            f"pool {pool!r} has {budget_bytes} bytes, but the best plan found needs {floor_bytes}, {proof} "
            f"{lower_bound_bytes}; at its peak it holds {shown}. Give the pool {floor_bytes} bytes.",
            budget_bytes=budget_bytes,
            floor_bytes=floor_bytes,
            operator=largest.name if largest else "",
        )


@dataclass(frozen=True)
class Placement:
    """A pool and an offset for every buffer.

    `offsets` and `pool_of` go by buffer. `peaks` is one past the last byte in use, by pool; `lower_bounds` what no
    optimal plan beats. `optimal` says that no plan is better, not merely that none was found. All in bytes.
    """

    buffers: tuple[Buffer, ...]
    pools: tuple[Pool, ...]
    offsets: tuple[int, ...]
    pool_of: tuple[str, ...]
    peaks: Mapping[str, int]
    lower_bounds: Mapping[str, int]
    optimal: bool
    algorithm: str
    stop_reason: str
    iterations: int = 0

    @property
    def peak_bytes(self) -> int:
        """Peak of the first pool, the one that matters most."""
        return self.peaks[self.pools[0].name]

    @property
    def lower_bound_bytes(self) -> int:
        """Lower bound of the first pool's peak."""
        return self.lower_bounds[self.pools[0].name]

    @checked()
    def address_of(self, name: str) -> int:
        """The address of the buffer `name`.

        There an application writes an input and reads an output that the workspace holds. Raises `ConfigError` when
        there is no such buffer.
        """
        bases = {pool.name: pool.base_address for pool in self.pools}
        for buffer, pool, offset in zip(self.buffers, self.pool_of, self.offsets, strict=True):
            if buffer.name == name:
                return bases[pool] + offset
        raise ConfigError(f"there is no buffer {name!r} in this placement")


@dataclass(frozen=True)
class ProgramPlacement:
    """A compiled program's arena: an offset for each of its buffers, by index, and the bytes it takes.

    `arena_bytes` is a multiple of 16, `offsets` are multiples of each buffer's alignment.
    """

    offsets: tuple[int, ...]
    arena_bytes: int
    placement: Placement


@checked()
def plan(
    buffers: Sequence[Buffer],
    *,
    pools: Sequence[Pool] = (Pool("memory"),),
    algorithm: str | Algorithm = "best",
    seed: int = 0,
    iterations: int = DEFAULT_ITERATIONS,
    threads: int = 1,
    tick: Callable[[], object] | None = None,
    progress: Progress | None = None,
) -> Placement:
    """Finds a pool and an offset for every buffer.

    Buffers that are in use at the same step never share a byte. Each lies in the first of its pools where it fits;
    where not all do, the fewest bytes are denied: each buffer counts its size for every better pool that it did not
    get. Then the first pool's peak is made small, then the second's. The same arguments give the same answer
    everywhere.
    `seed` in [0, 2^64) and `iterations` steer the hill climb, branch and bound, and `best`. `threads` in [1, 256]
    search side by side; their number changes nothing but the time. `tick` is called now and then while a built-in
    algorithm searches; what it raises ends the search. `progress` is called for the stage "place" at its begin, now and
    then, and at its end; of searches that may end at any time no `fraction` between is known. Its `gap` is None before
    the first plan, then the first pool's least peak so far and its proved lower bound, at the end those of the answer.
    Of several pools only plans with every buffer in its preferred pool count meanwhile.

    Raises `ConfigError` for a problem that makes no sense and for a callable's wrong answer, `PoolOverflowError` when
    no plan that fits was found.
    """
    buffers, pools = tuple(buffers), tuple(pools)
    problem = _Problem(buffers, pools)
    if not isinstance(algorithm, str):
        return _plan_by_callable(problem, algorithm)
    if algorithm not in ALGORITHMS:
        raise ConfigError(f"there is no memory planning algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}")
    if not 0 <= seed < 1 << 64:
        raise ConfigError(f"the seed {seed} is not between 0 and 2^64 - 1")
    if not 0 <= iterations < 1 << 32:
        raise ConfigError(f"{iterations} iterations are not between 0 and 2^32 - 1")
    if not 1 <= threads <= MOST_THREADS:
        raise ConfigError(f"{threads} threads are not between 1 and {MOST_THREADS}")
    watch = Stopwatch(progress, ("place",))
    if progress is not None:
        watch.begin("place")
    told = _both(watch, tick)
    try:
        found = _core.plan_memory(problem.buffer_rows, problem.pool_rows, algorithm, seed, iterations, threads, told)
        if isinstance(found, _core.MemorySolution):
            watch.gap = OptimalityGap(found.peaks[0], found.lower_bounds[0])
        watch.end()
    except _core.MemoryProblemError as error:
        raise ConfigError(problem.with_names(str(error))) from None
    if isinstance(found, _core.MemoryOverflow):
        raise PoolOverflowError(
            pool=pools[found.pool].name,
            budget_bytes=found.available_bytes,
            floor_bytes=found.needed_bytes,
            lower_bound_bytes=found.lower_bound_bytes,
            buffers=[buffers[index] for index in found.live],
        )
    return Placement(
        buffers,
        pools,
        offsets=tuple(found.offsets),
        pool_of=tuple(pools[index].name for index in found.pools),
        peaks=problem.by_pool(found.peaks),
        lower_bounds=problem.by_pool(found.lower_bounds),
        optimal=found.optimal,
        algorithm=algorithm,
        stop_reason=found.stop_reason,
        iterations=found.iterations,
    )


@checked()
def merge_models(models: Mapping[str, Sequence[Buffer]], *, keep: Sequence[str] = ()) -> tuple[Buffer, ...]:
    """The buffers of several models that take turns in one workspace, each named `model/buffer`, for `plan`.

    Each model's steps come after those of the one before, in the order of `models`. Buffers in `keep`, by their new
    names, stay in use all the time: an output that is read after the next model has run, or state between runs.
    Raises `ConfigError` for a name in `keep` that no model has.
    """
    merged: list[Buffer] = []
    first = 0
    for model, buffers in models.items():
        moving = [buffer for buffer in buffers if not buffer.is_constant]
        start = min((buffer.lower for buffer in moving), default=0)
        merged += [_moved(buffer, model, 0 if buffer.is_constant else first - start) for buffer in buffers]
        first += max((buffer.upper for buffer in moving), default=start) - start
    unknown = [name for name in keep if name not in {buffer.name for buffer in merged}]
    if unknown:
        raise ConfigError(f"no model has the buffer {unknown[0]!r} that is to be kept; names are model/buffer")
    return tuple(_kept(buffer, frozenset(keep), first) for buffer in merged)


def _kept(buffer: Buffer, keep: frozenset[str], steps: int) -> Buffer:
    # What is kept lies over no other buffer, and nothing over it.
    if buffer.name in keep:
        return replace(buffer, lower=0, upper=steps, gaps=(), shares=())
    return replace(buffer, shares=tuple(share for share in buffer.shares if share.name not in keep))


def _moved(buffer: Buffer, model: str, steps: int) -> Buffer:
    return replace(
        buffer,
        name=f"{model}/{buffer.name}",
        lower=buffer.lower + steps,
        upper=buffer.upper + steps,
        gaps=tuple(replace(gap, lower=gap.lower + steps, upper=gap.upper + steps) for gap in buffer.gaps),
        conflicts=tuple(f"{model}/{name}" for name in buffer.conflicts),
        shares=tuple(replace(share, name=f"{model}/{share.name}") for share in buffer.shares),
    )


@checked()
def place_program(
    program: Program,
    *,
    capacity_bytes: int | None = None,
    algorithm: str | Algorithm = "best",
    seed: int = 0,
    iterations: int = DEFAULT_ITERATIONS,
    tick: Callable[[], object] | None = None,
) -> ProgramPlacement:
    """Places all buffers of `program` in one arena of at most `capacity_bytes` that starts at a 16-byte boundary.

    `tick` as for `plan`. Raises `PoolOverflowError` when no plan that fits was found, with the buffers in the way.
    """
    placement = _plan_arena(program_buffers(program), capacity_bytes, algorithm, seed, iterations, tick)
    return ProgramPlacement(placement.offsets, _arena_bytes(placement), placement)


@checked()
def place_programs(
    programs: Mapping[str, Program],
    *,
    keep: Sequence[str] = (),
    pinned: Mapping[str, int] = MappingProxyType({}),
    capacity_bytes: int | None = None,
    algorithm: str | Algorithm = "best",
    seed: int = 0,
    iterations: int = DEFAULT_ITERATIONS,
) -> dict[str, ProgramPlacement]:
    """Places several compiled programs that take turns, in the order given, in one arena that all of them share.

    Buffers are named `program/buffer`, as `program_buffers` names them. Those in `keep` are never overwritten by
    another program, `pinned` puts some at an application's own offset in the arena, in bytes. The answer goes by
    program; each has offsets of its own, the arena's bytes and `placement` are common to all.

    Raises `ConfigError` for a name that no program has or a pin that makes no sense, `PoolOverflowError` as
    `place_program`.
    """
    merged = merge_models({name: program_buffers(program) for name, program in programs.items()}, keep=keep)
    unknown = [name for name in pinned if name not in {buffer.name for buffer in merged}]
    if unknown:
        raise ConfigError(f"no program has the buffer {unknown[0]!r} that is to be pinned; names are program/buffer")
    merged = tuple(replace(b, offset=pinned[b.name]) if b.name in pinned else b for b in merged)
    placement = _plan_arena(merged, capacity_bytes, algorithm, seed, iterations)
    placed: dict[str, ProgramPlacement] = {}
    first = 0
    for name, program in programs.items():
        end = first + len(program.buffers)
        placed[name] = ProgramPlacement(placement.offsets[first:end], _arena_bytes(placement), placement)
        first = end
    return placed


@checked()
def program_buffers(program: Program) -> tuple[Buffer, ...]:
    """The buffers of a compiled program in its own order, with the bytes of each that are in use at each step.

    Of several with one name the second ends in " (2)", and so on.
    """
    rows, names = _core.program_memory(program), _distinct([buffer.name for buffer in program.buffers])
    return tuple(
        Buffer(
            name,
            lower,
            upper,
            size_bytes,
            alignment,
            gaps=tuple(Gap(*gap) for gap in gaps),
            shares=tuple(Share(names[other], low, high) for other, low, high in shares),
        )
        for name, (size_bytes, alignment, lower, upper, gaps, *_, shares) in zip(names, rows, strict=True)
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """The names; a repeated name gets a number."""
    found: dict[str, None] = {}
    for name in names:
        count, own = 1, name
        while own in found:
            count += 1
            own = f"{name} ({count})"
        found[own] = None
    return list(found)


def _plan_arena(
    buffers: Sequence[Buffer],
    capacity_bytes: int | None,
    algorithm: str | Algorithm,
    seed: int,
    iterations: int,
    tick: Callable[[], object] | None = None,
) -> Placement:
    # The arena's end is rounded up, so a limit that is no multiple of 16 loses its last bytes.
    limit = None if capacity_bytes is None else capacity_bytes // _ARENA_ALIGNMENT * _ARENA_ALIGNMENT
    pools = (Pool("arena", limit, _ARENA_ALIGNMENT),)
    return plan(buffers, pools=pools, algorithm=algorithm, seed=seed, iterations=iterations, tick=tick)


def _arena_bytes(placement: Placement) -> int:
    return -(-placement.peak_bytes // _ARENA_ALIGNMENT) * _ARENA_ALIGNMENT


class _Problem:
    """The same buffers and pools as rows of numbers, for the planner."""

    def __init__(self, buffers: tuple[Buffer, ...], pools: tuple[Pool, ...]) -> None:
        if not pools:
            raise ConfigError("there is no pool to place buffers in; give at least one")
        self.buffers, self.pools = buffers, pools
        self.pool_ids = {pool.name: index for index, pool in enumerate(pools)}
        if len(self.pool_ids) < len(pools):
            raise ConfigError(f"two pools have the same name: {', '.join(pool.name for pool in pools)}")
        self.pool_rows = [(pool.size_bytes, pool.alignment, pool.base_address) for pool in pools]
        self.buffer_ids: dict[str, int] = {}
        if any(buffer.conflicts or buffer.shares for buffer in buffers):
            self.buffer_ids = {buffer.name: index for index, buffer in enumerate(buffers)}
            if len(self.buffer_ids) < len(buffers):
                raise ConfigError("two buffers have the same name, so it is not clear who conflicts or shares")
        self.buffer_rows = [self._row(buffer) for buffer in buffers]

    def _row(self, buffer: Buffer) -> _core.BufferRow:
        return (
            buffer.size_bytes,
            buffer.alignment,
            buffer.lower,
            buffer.upper,
            [(gap.lower, gap.upper, gap.window) for gap in buffer.gaps],
            self._candidates(buffer),
            buffer.offset,
            [self._partner(buffer, name) for name in buffer.conflicts],
            [(self._partner(buffer, share.name), share.low, share.high) for share in buffer.shares],
        )

    def _candidates(self, buffer: Buffer) -> list[int]:
        unknown = [name for name in buffer.pools if name not in self.pool_ids]
        if unknown:
            raise ConfigError(
                f"buffer {buffer.name!r} wants pool {unknown[0]!r}; the pools are {', '.join(self.pool_ids)}"
            )
        candidates = [self.pool_ids[name] for name in buffer.pools] or list(range(len(self.pools)))
        granted = [pool for pool in candidates if self.pools[pool].grants(buffer.access)]
        if not granted or (buffer.offset is not None and granted[0] != candidates[0]):
            wants = ", ".join(f"{target} {right}" for target, right in buffer.access)
            names = ", ".join(self.pools[pool].name for pool in candidates)
            raise ConfigError(f"buffer {buffer.name!r} is accessed by {wants}, which is not granted by {names}")
        return granted

    def _partner(self, buffer: Buffer, name: str) -> int:
        if name not in self.buffer_ids or name == buffer.name:
            raise ConfigError(f"buffer {buffer.name!r} conflicts or shares with {name!r}, which is no other buffer")
        return self.buffer_ids[name]

    def by_pool(self, values: Sequence[int]) -> Mapping[str, int]:
        return FrozenMap(dict(zip(self.pool_ids, values, strict=True)))

    def with_names(self, sentence: str) -> str:
        """The planner's sentence with names in place of ids."""

        def name(found: re.Match[str]) -> str:
            named: tuple[Buffer | Pool, ...] = self.pools if found["kind"] == "pool" else self.buffers
            return re.sub("[0-9]+", lambda digits: repr(named[int(digits[0])].name), found[0])

        return re.sub(r"\b(?P<kind>buffer|buffers|pool) [0-9]+( and [0-9]+)?", name, sentence)


def _both(watch: Stopwatch, tick: Callable[[], object] | None) -> ProgressCallback:
    """The core's tick: tells `watch` the search's gap, and calls `tick`."""

    def told(*gap: int) -> None:
        if gap:
            watch.gap = OptimalityGap(*gap)
        watch.tick()
        if tick is not None:
            tick()

    return told


def _plan_by_callable(problem: _Problem, algorithm: Algorithm) -> Placement:
    """Asks the caller's algorithm and proves its answer right before anybody relies on it."""
    name = getattr(algorithm, "__name__", type(algorithm).__name__)
    offsets: list[int] = []
    pool_ids: list[int] = []
    answers = held(algorithm(problem.buffers, problem.pools), Sequence[Offset], f"the answer of algorithm {name!r}")
    for answer, row, buffer in zip(answers, problem.buffer_rows, problem.buffers, strict=False):
        pool, offset = (problem.pools[row[5][0]].name, answer) if isinstance(answer, int) else answer
        if pool not in problem.pool_ids or not 0 <= offset < 1 << 60:
            raise ConfigError(f"algorithm {name!r} put buffer {buffer.name!r} at {offset} of pool {pool!r}")
        offsets.append(offset)
        pool_ids.append(problem.pool_ids[pool])
    if len(answers) != len(problem.buffers):
        raise ConfigError(f"algorithm {name!r} gave {len(answers)} offsets for {len(problem.buffers)} buffers")
    peaks = [0] * len(problem.pools)
    for buffer, pool_id, offset in zip(problem.buffers, pool_ids, offsets, strict=True):
        if buffer.ever_in_use:
            peaks[pool_id] = max(peaks[pool_id], offset + buffer.size_bytes)
    try:
        complaint = _core.check_memory(problem.buffer_rows, problem.pool_rows, offsets, pool_ids, peaks)
        bounds = _core.memory_lower_bounds(problem.buffer_rows, problem.pool_rows)
    except _core.MemoryProblemError as error:
        raise ConfigError(problem.with_names(str(error))) from None
    if complaint:
        raise ConfigError(f"algorithm {name!r} gave a wrong answer: {problem.with_names(complaint)}")
    return Placement(
        problem.buffers,
        problem.pools,
        offsets=tuple(offsets),
        pool_of=tuple(problem.pools[index].name for index in pool_ids),
        peaks=problem.by_pool(peaks),
        lower_bounds=problem.by_pool(bounds),
        optimal=len(problem.pools) == 1 and peaks == bounds,
        algorithm=name,
        stop_reason="complete",
    )
