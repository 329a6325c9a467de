"""Placing a program anew, once calls or state were added to what the search had placed.

Owns the planner's problem of such a program: the arena alone, or beside it the NPU's fast memory, whose buffers stay
where the search has put them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..codegen.layout import ALIGNMENT_BYTES
from ..scheduling.program import Arrangement, Program, ProgramBuffer
from ..util.progress import Tick

if TYPE_CHECKING:
    from ..memory import Buffer

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


def placed(
    program: Program,
    buffers: Sequence[Buffer],
    pool_count: int = 1,
    iterations: int | None = None,
    tick: Tick | None = None,
) -> Arrangement:
    """The program where the planner puts it; `buffers` are its own for the planner, each to be in its first pool."""
    # Networks that are not placed anew do not wait for the planner's types.
    from ..memory import DEFAULT_ITERATIONS, Pool, plan

    pools = tuple(Pool(str(number), None, ALIGNMENT_BYTES) for number in range(pool_count))
    homes = [(str(buffer.pools[0]),) for buffer in program.buffers]
    wanted = [replace(buffer, pools=home) for buffer, home in zip(buffers, homes, strict=True)]
    found = plan(wanted, pools=pools, iterations=iterations or DEFAULT_ITERATIONS, tick=tick)
    sizes = [-(-found.peaks[pool.name] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for pool in pools]
    return Arrangement(program, found.offsets, sizes[0], [int(home[0]) for home in homes], sizes)
