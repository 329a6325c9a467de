__version__: str

# ---- usmp -----------------------------------------------------------------------------------------------------------

_GapRow = tuple[int, int, tuple[int, int] | None]
BufferRow = tuple[int, int, int, int, list[_GapRow], list[int], int | None]
"""Size, alignment, lower, upper, gaps, candidate pools, pin."""
PoolRow = tuple[int | None, int, int]
"""Limit, alignment, base address."""

class MemoryProblemError(Exception): ...

class MemorySolution:
    offsets: list[int]
    pools: list[int]
    peaks: list[int]
    lower_bounds: list[int]
    optimal: bool
    stop_reason: str
    iterations: int

class MemoryOverflow:
    pool: int
    needed_bytes: int
    available_bytes: int
    lower_bound_bytes: int
    live: list[int]

def plan_memory(
    buffers: list[BufferRow], pools: list[PoolRow], algorithm: str, seed: int, iterations: int
) -> MemorySolution | MemoryOverflow: ...
def check_memory(
    buffers: list[BufferRow], pools: list[PoolRow], offsets: list[int], pool_of: list[int], peaks: list[int]
) -> str | None: ...
def memory_lower_bounds(buffers: list[BufferRow], pools: list[PoolRow]) -> list[int]: ...

# ---- end of usmp ----------------------------------------------------------------------------------------------------
