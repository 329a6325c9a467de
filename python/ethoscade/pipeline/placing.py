"""Placing a program anew, once calls or state were added to what the search had placed.

Owns the planner's problem of such a program: the arena alone, or beside it the NPU's fast memory, whose buffers stay
where the search has put them. It is told to the core as numbers: `memory` is for people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import _core
from ..codegen.layout import ALIGNMENT_BYTES
from ..errors import ConfigError
from ..scheduling.program import Arrangement, Program, ProgramBuffer
from ..util.progress import ProgressCallback

ITERATIONS = 5_000
"""Moves that the memory planner may try for a program; every point of a curve has one."""


def settled(arranged: Arrangement) -> Program:
    """The program with every buffer's memory decided: that in which it lies."""
    program = arranged.program
    if len(arranged.pool_bytes) == 1:
        return program
    buffers = [in_pools(buffer, (pool,)) for buffer, pool in zip(program.buffers, arranged.pools, strict=True)]
    return Program(program.steps, buffers, program.tensor_buffers)


def in_pools(buffer: ProgramBuffer, pools: Sequence[int]) -> ProgramBuffer:
    """The same buffer, which may lie in these pools."""
    fields = (buffer.name, buffer.kind, buffer.size_bytes, buffer.first_step, buffer.last_step, buffer.tensor)
    return ProgramBuffer(*fields, buffer.windows, pools)


class PlannerBuffer(NamedTuple):
    """A buffer as the core's memory planner takes it: bytes in use in steps [lower, upper), but for `gaps`.

    A gap is its steps and the window of bytes that stay in use, or None. The buffer lies in the first of `pools`, at
    `offset` where it has one. `shares` are other buffers, by number, that it may overlap where its offset less theirs
    is between two distances.
    """

    size_bytes: int
    alignment: int
    lower: int
    upper: int
    gaps: list[tuple[int, int, tuple[int, int] | None]]
    pools: list[int]
    offset: int | None
    conflicts: list[int]
    shares: list[tuple[int, int, int]]


def planner_buffers(program: Program, offsets: Mapping[int, int]) -> list[PlannerBuffer]:
    """The program's buffers, each in its first pool, those of `offsets` where they lie already."""
    rows = zip(program.buffers, _core.program_memory(program), strict=True)
    return [
        PlannerBuffer(*row)._replace(pools=[buffer.pools[0]], offset=offsets.get(number))
        for number, (buffer, row) in enumerate(rows)
    ]


def placed(
    program: Program,
    buffers: Sequence[PlannerBuffer],
    pool_count: int,
    tick: ProgressCallback | None = None,
) -> Arrangement:
    """The program where the planner puts its `buffers`. Raises `ConfigError` if that cannot be."""
    told = None if tick is None else lambda *_: tick()
    pools: list[_core.PoolRow] = [(None, ALIGNMENT_BYTES, 0)] * pool_count
    try:
        found = _core.plan_memory(list(buffers), pools, "best", 0, ITERATIONS, 1, told)
    except _core.MemoryProblemError as error:
        raise ConfigError(f"the program's buffers cannot be placed: {error}") from None
    assert isinstance(found, _core.MemorySolution), "pools without a limit hold everything"
    sizes = [-(-peak // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for peak in found.peaks]
    return Arrangement(program, found.offsets, sizes[0], found.pools, sizes)
