"""Types of the compiled core. Sections in the order of the rooms."""

from collections.abc import Sequence
from typing import Any, Literal

__version__: str

# --- scheduling ---------------------------------------------------------------------------------------------------
PLACEMENT_ITERATIONS: int

ViewTuple = tuple[int, tuple[int, int, int, int], tuple[int, int], tuple[int, int]]
"""Buffer, box (y0, y1, x0, x1), capacity (rows, columns), origin (row, column)."""

StepTuple = tuple[Any, ...]
"""("copy", part, buffer), ("call", part, workspace | None) or
("stripe", part, [inputs], output, padding, block, constants buffer | None, cycles)."""

class SchedulingError(ValueError): ...

class CascaderGraph:
    def __new__(cls, tensors: Sequence[Any], parts: Sequence[Any], device: Any) -> CascaderGraph: ...

class Plan:
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def roll(self) -> Literal["height", "width"]: ...
    @property
    def tiles(self) -> int: ...
    @property
    def stripes(self) -> list[int]: ...
    @property
    def staged(self) -> list[bool]: ...

class Proposal:
    @property
    def sram_bytes(self) -> int: ...
    @property
    def cycles(self) -> int: ...
    @property
    def plans(self) -> list[Plan]: ...

class Frontier:
    @property
    def proposals(self) -> list[Proposal]: ...
    @property
    def plans_considered(self) -> int: ...
    @property
    def proposals_considered(self) -> int: ...
    @property
    def uncascaded_bytes(self) -> int: ...

def search_cascades(
    graph: CascaderGraph,
    *,
    max_group: int | None = None,
    stripes: Sequence[int] | None = None,
    tiles: Sequence[int] | None = None,
    resolution: int | None = None,
) -> Frontier: ...
def interleave_plans(
    graph: CascaderGraph, plans: Sequence[Any]
) -> tuple[list[StepTuple], list[tuple[str, int, int, int, int]], list[int | None]]: ...
def check_plans(graph: CascaderGraph, plans: Sequence[Any]) -> None: ...
def choose_weight_encoding(device: Any, kernel: Any, plane: tuple[int, int]) -> tuple[int, bool] | None: ...
def propagate(
    propagator: Any, shape: tuple[int, int, int, int], start: tuple[int, int, int, int]
) -> tuple[list[int], list[int]]: ...

# ---- usmp -----------------------------------------------------------------------------------------------------------

_GapRow = tuple[int, int, tuple[int, int] | None]
BufferRow = tuple[
    int, int, int, int, list[_GapRow], list[int], int | None, list[int], list[tuple[int, int, int]]
]
"""Size, alignment, lower, upper, gaps, candidate pools, pin, conflicts, shares."""
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

# ---- simulator ------------------------------------------------------------------------------------------------------

class RunReport:
    @property
    def commands(self) -> int: ...
    @property
    def kernels(self) -> int: ...
    @property
    def transfers(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def warnings(self) -> list[tuple[str, int, str]]: ...

class Machine:
    def __init__(self, accelerator: str, regions: list[int | bytes | tuple[int, int, int] | None]) -> None: ...
    @property
    def accelerator(self) -> str: ...
    def write(self, region: int, offset: int, data: bytes) -> None: ...
    def read(self, region: int, offset: int, size: int) -> bytes: ...
    def touch(self, region: int, start: int, end: int) -> None: ...
    def mark_initialised(self, region: int, start: int, end: int, value: bool = True) -> None: ...
    def find_uninitialised(self, region: int, start: int, end: int) -> int | None: ...
    def size(self, region: int) -> int | None: ...
    def touched_end(self, region: int) -> int: ...
    def run(self, payload: bytes) -> RunReport: ...

def disassemble(payload: bytes) -> list[str]: ...
