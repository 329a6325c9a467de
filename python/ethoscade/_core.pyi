"""Types of the compiled core. Sections in the order of the rooms."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, final

__version__: str

# --- scheduling ---------------------------------------------------------------------------------------------------
FINEST_RESOLUTION: int

ViewTuple = tuple[int, tuple[int, int, int, int], tuple[int, int], tuple[int, int]]
"""Buffer, box (y0, y1, x0, x1), capacity (rows, columns), origin (row, column)."""

StepTuple = tuple[Any, ...]
"""("copy", part, buffer, slice | None, cycles), ("call", part, workspace | None) or
("stripe", part, [inputs], output, padding, block, constants buffer | None, slice | None, cycles).

A Part that joins its inputs has a slice for each of them."""

BufferTuple = tuple[str, int, int, int, int, list[tuple[int, int, int, int]]]
"""Content, tensor or part, size, first and last step, windows (first step, last step, low, high)."""

class SchedulingError(ValueError): ...

@final
class CascaderGraph:
    def __new__(cls, tensors: Sequence[Any], parts: Sequence[Any], device: Any) -> CascaderGraph: ...

@final
class Plan:
    def __new__(
        cls,
        first: int,
        last: int,
        roll: str,
        backwards: bool,
        tiles: int,
        stripes: Sequence[int],
        staging: Sequence[str],
    ) -> Plan: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def roll(self) -> Literal["height", "width"]: ...
    @property
    def backwards(self) -> bool: ...
    @property
    def tiles(self) -> int: ...
    @property
    def stripes(self) -> list[int]: ...
    @property
    def staging(self) -> list[Literal["in_place", "whole", "sliced"]]: ...

@final
class Proposal:
    def __new__(
        cls, sram_bytes: int, cycles: int, prefetch_bytes: int, fill_bytes: int, plans: Sequence[Any]
    ) -> Proposal: ...
    @property
    def sram_bytes(self) -> int: ...
    @property
    def cycles(self) -> int: ...
    @property
    def plans(self) -> list[Plan]: ...
    @property
    def prefetch_bytes(self) -> int: ...
    @property
    def fill_bytes(self) -> int: ...

@final
class Frontier:
    def __new__(
        cls,
        proposals: Sequence[Proposal],
        plans_considered: int,
        proposals_considered: int,
        uncascaded_bytes: int,
        stop_reason: str,
        epsilon: tuple[int, int],
        placements: int,
        placement_seconds: float,
    ) -> Frontier: ...
    @property
    def proposals(self) -> list[Proposal]: ...
    @property
    def plans_considered(self) -> int: ...
    @property
    def proposals_considered(self) -> int: ...
    @property
    def uncascaded_bytes(self) -> int: ...
    @property
    def stop_reason(self) -> str: ...
    @property
    def epsilon(self) -> tuple[int, int]: ...
    @property
    def placements(self) -> int: ...
    @property
    def placement_seconds(self) -> float: ...

TunedName = Literal[
    "max_points", "max_fork", "max_steps", "max_fills", "refined_up_to", "refinement", "most_points", "samples",
    "hidden_fineness", "limits.lean", "limits.halvings", "placing.iterations", "placing.rounds",
    "placing.round_fineness", "placing.coarse_resolution", "placing.margin", "placing.ground_margin", "placing.drift",
    "filling.rounds", "filling.round_fineness", "restaging.passes", "restaging.max_steps",
]  # fmt: skip
"""Figures of the search that were chosen by measuring; `rust/src/plans/options.rs` says what each is."""

def search_cascades(
    graph: CascaderGraph,
    *,
    max_group: int | None = None,
    resolution: int | None = None,
    budget_bytes: int | None = None,
    tuning: Sequence[tuple[TunedName, int]] = ...,
    tick: Callable[[], object] | None = None,
) -> Frontier: ...
def arrange_plans(
    graph: CascaderGraph,
    plans: Sequence[Any],
    prefetch_bytes: int = 0,
    fill_bytes: int = 0,
    tick: Callable[[], object] | None = None,
) -> tuple[list[StepTuple], list[BufferTuple], list[int | None], list[int], int]: ...
def clock_plans(graph: CascaderGraph, plans: Sequence[Any], prefetch_bytes: int = 0, fill_bytes: int = 0) -> int: ...
def predict_streams(
    graph: CascaderGraph, plans: Sequence[Any], prefetch_bytes: int = 0, fill_bytes: int = 0
) -> list[list[StreamCommand]]:
    """The command streams of a program, one for each run of the NPU; none for a device that is described by data."""

def check_plans(graph: CascaderGraph, plans: Sequence[Any], prefetch_bytes: int = 0, fill_bytes: int = 0) -> None: ...
def choose_weight_encoding(
    device: Any, kernel: Any, plane: tuple[int, int], layouts: tuple[str, str]
) -> list[tuple[int, bool]] | None: ...
def part_floor(graph: CascaderGraph, part: int) -> tuple[int, int, int, int, list[tuple[int, int]]] | None:
    """Cycles: MAC engine, that in proportion to the output, output stage, in one piece; (depth, pixels) of blocks."""

def check_device(device: Any) -> None: ...
def propagate(
    propagator: Any, shape: tuple[int, int, int, int], start: tuple[int, int, int, int]
) -> tuple[list[int], list[int]]: ...

# ---- usmp -----------------------------------------------------------------------------------------------------------

_GapRow = tuple[int, int, tuple[int, int] | None]
BufferRow = tuple[int, int, int, int, list[_GapRow], list[int], int | None, list[int], list[tuple[int, int, int]]]
"""Size, alignment, lower, upper, gaps, candidate pools, pin, conflicts, shares."""
PoolRow = tuple[int | None, int, int]
"""Limit, alignment, base address."""

class MemoryProblemError(Exception): ...

@final
class MemorySolution:
    def __new__(
        cls,
        offsets: list[int],
        pools: list[int],
        peaks: list[int],
        lower_bounds: list[int],
        optimal: bool,
        stop_reason: str,
        iterations: int,
    ) -> MemorySolution: ...
    offsets: list[int]
    pools: list[int]
    peaks: list[int]
    lower_bounds: list[int]
    optimal: bool
    stop_reason: str
    iterations: int

@final
class MemoryOverflow:
    def __new__(
        cls, pool: int, needed_bytes: int, available_bytes: int, lower_bound_bytes: int, live: list[int]
    ) -> MemoryOverflow: ...
    pool: int
    needed_bytes: int
    available_bytes: int
    lower_bound_bytes: int
    live: list[int]

def plan_memory(
    buffers: list[BufferRow],
    pools: list[PoolRow],
    algorithm: str,
    seed: int,
    iterations: int,
    threads: int,
    tick: Callable[[], object] | None = None,
) -> MemorySolution | MemoryOverflow: ...
def check_memory(
    buffers: list[BufferRow], pools: list[PoolRow], offsets: list[int], pool_of: list[int], peaks: list[int]
) -> str | None: ...
def memory_lower_bounds(buffers: list[BufferRow], pools: list[PoolRow]) -> list[int]: ...

# ---- end of usmp ----------------------------------------------------------------------------------------------------

# ---- simulator ------------------------------------------------------------------------------------------------------

@final
class RunReport:
    def __new__(
        cls,
        commands: int,
        kernels: int,
        transfers: int,
        bytes_read: int,
        bytes_written: int,
        warnings: Sequence[tuple[str, int, int, str]],
        hazards: Sequence[tuple[str, int | None, int, int | None, int, int, str]],
    ) -> RunReport: ...
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
    def warnings(self) -> list[tuple[str, int, int, str]]: ...
    @property
    def hazards(self) -> list[tuple[str, int | None, int, int | None, int, int, str]]: ...

@final
class Machine:
    def __new__(cls, accelerator: str, regions: list[int | bytes | tuple[int, int, int] | None]) -> Machine: ...
    @property
    def accelerator(self) -> str: ...
    def write(self, region: int, offset: int, data: bytes) -> None: ...
    def read(self, region: int, offset: int, size: int) -> bytes: ...
    def touch(self, region: int, start: int, end: int) -> None: ...
    def mark_initialised(self, region: int, start: int, end: int, value: bool = True) -> None: ...
    def find_uninitialised(self, region: int, start: int, end: int) -> int | None: ...
    def size(self, region: int) -> int | None: ...
    def touched_end(self, region: int) -> int: ...
    def watch_input(self, region: int, start: int, end: int) -> None: ...
    def limit_work(self, limit: int) -> None: ...
    def assume(
        self,
        *,
        blockdep_spans_kernels: bool | None = None,
        sub_kernels_are_jobs: bool | None = None,
        kernels_write_in_order: bool | None = None,
    ) -> None: ...
    def run(self, payload: bytes) -> RunReport: ...

def disassemble(payload: bytes) -> list[str]: ...

# ---- streams --------------------------------------------------------------------------------------------------------

@final
class StreamCommand:
    """One operation of a command stream: its name and parameter, and what is sent since the one before.

    `words` counts its own as well; `registers` are those that are set, in the order of their codes, with their values.
    """

    def __new__(cls, name: str, parameter: int, words: int, registers: Sequence[tuple[str, int]]) -> StreamCommand: ...
    @property
    def name(self) -> str: ...
    @property
    def parameter(self) -> int: ...
    @property
    def words(self) -> int: ...
    @property
    def registers(self) -> list[tuple[str, int]]: ...

def read_stream(payload: bytes) -> list[StreamCommand]:
    """The operations of a payload. Raises `SimulationError` for words that are no commands."""

# ---- timing ---------------------------------------------------------------------------------------------------------

_Size = tuple[int, int, int]
"""Height, width, depth."""
TimedShape = tuple[_Size, _Size, _Size, int]
"""OFM, IFM, block, BLOCKDEP."""
TimedCost = tuple[int, int, int, int, int, int, int, int, int, int]
"""MACs, blocks, jobs; cycles: MAC engine, output stage, pipeline, fill, drain, alone, hidden."""
TimedLoad = tuple[int, int, int]
"""Bytes read and written, and the memory's cycles for them."""
TimedEvent = tuple[str, int, str, tuple[int, int, int, int], list[TimedLoad], tuple[TimedShape, TimedCost] | None]
"""Kind, command, bound, (reached, issued, start, end), load by memory, a kernel's shape and cost."""
TimedTotals = tuple[int, int, int, int, int, int, int, int, int, int]
"""Cycles, kernels, DMA, front end, MACs, MAC engine, least MAC cycles, output stage, constant bytes, lower bound."""
TimedTraffic = tuple[int, int, int, int, int, int]
"""Bytes: kernel reads and writes, DMA reads and writes, commands; busy cycles."""

def time_payload(
    payload: bytes,
    accelerator: str,
    memories: Sequence[tuple[str, int, int, int, int, int]],
    regions: Sequence[int],
    commands: int,
    rules: Sequence[tuple[str, int]],
) -> tuple[TimedTotals, list[TimedTraffic], list[TimedEvent]]: ...

# ---- end of timing --------------------------------------------------------------------------------------------------
