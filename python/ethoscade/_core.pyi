"""Types of the compiled core. Sections in the order of the rooms."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final, type_check_only

__version__: str

# --- scheduling ---------------------------------------------------------------------------------------------------
FINEST_RESOLUTION: int

IssueOrderTuple = tuple[tuple[tuple[int, int], ...], tuple[int | None, ...]]
"""Of each copy of constants its slot, and the slot from which on its buffer is its own. Slots lie right before steps
that are neither such copies nor loads of tables. Then, of each load, the copy that it stands before; None for its
user."""

PlacementTuple = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Offset of each buffer, pool of each buffer, bytes of each pool up to the last one for tensors, scarce one first."""

_BufferKind = Literal["tensor", "rolling", "weights", "workspace"]
_Whole = Literal["in_place", "staged"]

@final
class CascaderGraph:
    """Parts and tensors on a device, verified. Raises `SchedulingError`.

    `part_numbers` and `tensor_numbers` are what programs call them: for each Part its first stage, or its operator on
    the CPU; (number, dense id) of each tensor. By default both keep their dense ids.
    """

    def __new__(
        cls,
        tensors: Sequence[Any],
        parts: Sequence[Any],
        device: Any,
        part_numbers: Sequence[int] | None = None,
        tensor_numbers: Sequence[tuple[int, int]] | None = None,
    ) -> CascaderGraph: ...

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
        copied: Sequence[tuple[int, int | None]] = ...,
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
    @property
    def copied(self) -> list[tuple[int, int | None]]:
        """Parts with the operand that is copied before the group, or None where the output is copied after it."""

@final
class Proposal:
    def __new__(
        cls, cycles: int, plans: Sequence[Any], issue_order: IssueOrderTuple | None, placement: PlacementTuple
    ) -> Proposal: ...
    @property
    def sram_bytes(self) -> int: ...
    @property
    def cycles(self) -> int: ...
    @property
    def plans(self) -> list[Plan]: ...
    @property
    def issue_order(self) -> IssueOrderTuple | None:
        """Where its copies are issued; None for each right before its first use."""

    @property
    def placement(self) -> PlacementTuple:
        """Where the buffers of its program lie."""

    def arrangement(self, graph: CascaderGraph, tick: Callable[..., object] | None = None) -> Arrangement:
        """Its program, and where everything lies."""

@final
class Frontier:
    def __new__(
        cls,
        proposals: Sequence[Proposal],
        plans_considered: int,
        proposals_considered: int,
        uncascaded_bytes: int,
        uncascaded_cycles: int,
        stop_reason: str,
        epsilon: tuple[int, int],
        placements: int,
        floor_is_bound: bool,
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
    def uncascaded_cycles(self) -> int: ...
    @property
    def stop_reason(self) -> str: ...
    @property
    def epsilon(self) -> tuple[int, int]: ...
    @property
    def placements(self) -> int:
        """Programs that the memory planner placed for the search."""
    @property
    def floor_is_bound(self) -> bool:
        """Whether the search skipped Proposals with less SRAM."""

@final
class Slab:
    """A box of a feature map inside a buffer.

    Rows [y0, y1) and columns [x0, x1) in the feature map's own coordinates. The buffer holds `rows` x `columns`
    pixels of full depth, packed; pixel (y, x) is at row (y - origin_y) mod rows and column (x - origin_x) mod columns.
    An output box never wraps; an input box wraps at most once, along one axis.
    """

    def __new__(
        cls,
        buffer: int,
        y0: int,
        y1: int,
        x0: int,
        x1: int,
        rows: int,
        columns: int,
        origin_y: int = 0,
        origin_x: int = 0,
    ) -> Slab: ...
    @property
    def buffer(self) -> int: ...
    @property
    def y0(self) -> int: ...
    @property
    def y1(self) -> int: ...
    @property
    def x0(self) -> int: ...
    @property
    def x1(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def origin_y(self) -> int: ...
    @property
    def origin_x(self) -> int: ...

@final
class Stripe:
    """One NPU operation: the part of stage `stage` (index) that makes the box `output`.

    `padding` is (top, left, bottom, right): the rows and columns of padding that this stripe's windows touch.
    `block` is the OFM block (height, width, depth). `weights` is the buffer into which the stage's constants were
    staged, or None to read them in place; `slice` is the slice of output channels that is made, None for all of them.
    `cycles` are modelled, of the operation alone.
    """

    def __new__(
        cls,
        stage: int,
        inputs: Sequence[Slab],
        output: Slab,
        padding: tuple[int, int, int, int],
        block: tuple[int, int, int],
        weights: int | None = None,
        slice: int | None = None,
        cycles: int = 0,
    ) -> Stripe: ...
    @property
    def stage(self) -> int: ...
    @property
    def inputs(self) -> tuple[Slab, ...]: ...
    @property
    def output(self) -> Slab: ...
    @property
    def padding(self) -> tuple[int, int, int, int]: ...
    @property
    def block(self) -> tuple[int, int, int]: ...
    @property
    def weights(self) -> int | None: ...
    @property
    def slice(self) -> int | None: ...
    @property
    def cycles(self) -> int: ...
    @property
    def portion(self) -> _Whole | int:
        """Which of the stage's constants it uses: all, encoded for one use or the other, or a slice."""

@final
class CopyConstants:
    """DMA of the encoded weights and scales of stage `stage`, or of one slice of them, into `buffer`.

    `cycles` are modelled, of the copy alone.
    """

    def __new__(cls, stage: int, buffer: int, slice: int | None = None, cycles: int = 0) -> CopyConstants: ...
    @property
    def stage(self) -> int: ...
    @property
    def buffer(self) -> int: ...
    @property
    def slice(self) -> int | None: ...
    @property
    def cycles(self) -> int: ...
    @property
    def portion(self) -> _Whole | int:
        """Which of the stage's constants it brings."""

@final
class LoadTable:
    """DMA of the table of stage `stage` into the NPU's area for tables, from slot `slot` (0..7, 256 bytes each) on."""

    def __new__(cls, stage: int, slot: int, cycles: int = 0) -> LoadTable: ...
    @property
    def stage(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def cycles(self) -> int: ...

@final
class CopyTensor:
    """All of graph tensor `tensor`, None for a temporary, from buffer `source` into `buffer`, in another memory.

    `cycles` are modelled, of the copy alone.
    """

    def __new__(cls, tensor: int | None, source: int, buffer: int, cycles: int = 0) -> CopyTensor: ...
    @property
    def tensor(self) -> int | None: ...
    @property
    def source(self) -> int: ...
    @property
    def buffer(self) -> int: ...
    @property
    def cycles(self) -> int: ...

@final
class Feed:
    """The next rows of graph tensor `tensor`, a streamed input, arrive in the box `output`. Counts no cycles."""

    def __new__(cls, tensor: int, output: Slab) -> Feed: ...
    @property
    def tensor(self) -> int: ...
    @property
    def output(self) -> Slab: ...
    @property
    def cycles(self) -> int: ...

@final
class Take:
    """The next rows of graph tensor `tensor`, a streamed output, are taken from the box `input`. Counts no cycles."""

    def __new__(cls, tensor: int, input: Slab) -> Take: ...
    @property
    def tensor(self) -> int: ...
    @property
    def input(self) -> Slab: ...
    @property
    def cycles(self) -> int: ...

@final
class CallOperator:
    """Graph operator `operator` on the CPU; `workspace` is a buffer or None. Counts no cycles."""

    def __new__(cls, operator: int, workspace: int | None = None) -> CallOperator: ...
    @property
    def operator(self) -> int: ...
    @property
    def workspace(self) -> int | None: ...
    @property
    def cycles(self) -> int: ...

@final
class LiveWindow:
    """Bytes [low, high) of a buffer, possibly none, are in use in steps [first_step, last_step), and no others."""

    def __new__(cls, first_step: int, last_step: int, low: int, high: int) -> LiveWindow: ...
    @property
    def first_step(self) -> int: ...
    @property
    def last_step(self) -> int: ...
    @property
    def low(self) -> int: ...
    @property
    def high(self) -> int: ...

@final
class ProgramBuffer:
    """Bytes that need a place, live in steps [first_step, last_step) of the program. `tensor` is a graph index or None.

    Where rows of a tensor appear or die one after the other, or nothing in a rolling buffer is wanted for a while,
    `windows` says which bytes are live when, in order of time and without a break; without windows all of them are.
    """

    def __new__(
        cls,
        name: str,
        kind: _BufferKind,
        size_bytes: int,
        first_step: int,
        last_step: int,
        tensor: int | None = None,
        windows: Sequence[LiveWindow] = ...,
        pools: Sequence[int] = ...,
    ) -> ProgramBuffer: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> _BufferKind: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def first_step(self) -> int: ...
    @property
    def last_step(self) -> int: ...
    @property
    def tensor(self) -> int | None: ...
    @property
    def windows(self) -> tuple[LiveWindow, ...]: ...
    @property
    def pools(self) -> tuple[int, ...]:
        """Memories of tensors that may hold it, as the device counts them, the preferred one first."""

    def periods(self) -> list[tuple[int, int, int]]:
        """First step, one past the last, and bytes in use meanwhile, in order of time."""

    def live_bytes(self, step: int) -> int:
        """Bytes in use at a step."""

@final
class Program:
    """Steps in order over buffers by dense index.

    `tensor_buffers` maps every whole tensor (graph index) that lives in the arena to its buffer. `shared_bytes` are a
    step, two buffers that are in use in it, and between which two distances the first may begin from the other's start,
    in bytes, so that they overlap.
    """

    def __new__(
        cls,
        steps: Sequence[Stripe | CopyConstants | CopyTensor | LoadTable | Feed | Take | CallOperator],
        buffers: Sequence[ProgramBuffer],
        tensor_buffers: Mapping[int, int],
        shared_bytes: Sequence[tuple[int, int, int, int, int]] = ...,
    ) -> Program: ...
    @property
    def steps(self) -> tuple[Stripe | CopyConstants | CopyTensor | LoadTable | Feed | Take | CallOperator, ...]: ...
    @property
    def buffers(self) -> tuple[ProgramBuffer, ...]: ...
    @property
    def tensor_buffers(self) -> Mapping[int, int]: ...
    @property
    def shared_bytes(self) -> tuple[tuple[int, int, int, int, int], ...]: ...

@final
class Arrangement:
    """A program and where its buffers lie.

    `offsets` are the first bytes of its buffers in their memories, in its own order, and `pools` which memories of
    tensors these are, as the device counts them: 0 is the scarce one. `pool_bytes` is what they take of each of them,
    multiples of 16, and `arena_bytes` the first of these.
    """

    def __new__(
        cls,
        program: Program,
        offsets: Sequence[int],
        arena_bytes: int,
        pools: Sequence[int] | None = None,
        pool_bytes: Sequence[int] | None = None,
    ) -> Arrangement: ...
    @property
    def program(self) -> Program: ...
    @property
    def offsets(self) -> tuple[int, ...]: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def pools(self) -> tuple[int, ...]: ...
    @property
    def pool_bytes(self) -> tuple[int, ...]: ...

TunedName = Literal[
    "max_points", "max_fork", "max_steps", "max_fills", "refined_up_to", "refinement", "open_group_bound",
    "hidden_fineness", "limit_halvings", "placing.moves", "placing.floor_moves", "placing.floor_tries",
    "placing.rounds", "placing.fill_margin", "placing.fragmentation", "filling.rounds", "lean.resolution",
    "lean.max_points", "visits",
]  # fmt: skip
"""Figures of the search that were chosen by measuring; `rust/src/plans/options.rs` says what each is."""

@final
class Search:
    """The search of one graph. What several goals need is made once and kept; no answer depends on earlier ones."""

    def __new__(
        cls,
        graph: CascaderGraph,
        *,
        max_group: int | None = None,
        resolution: int | None = None,
        tuning: Sequence[tuple[TunedName, int]] = ...,
    ) -> Search: ...
    def fits(self, budget_bytes: int, tick: Callable[..., object] | None = None) -> bool:
        """Whether the floor takes no more than a number of bytes."""

    def coarse_front(self, tick: Callable[..., object] | None = None) -> list[tuple[int, int]]:
        """Coarsely what the frontier may be, as (bytes, cycles): nothing is placed yet. Empty in an exact search."""

    def within(self, budget_bytes: int, tick: Callable[..., object] | None = None) -> Frontier:
        """The floor, and the fastest Proposal found within a number of bytes; the floor alone where it takes more."""

    def fastest(self, budget_bytes: int | None = None, tick: Callable[..., object] | None = None) -> Frontier:
        """As `within`, and the fastest within half of the bytes of that. No budget is any number of bytes."""

    def nearly_fastest(self, budget_bytes: int | None = None, tick: Callable[..., object] | None = None) -> Frontier:
        """As `within`, and the smallest Proposal at most 1 % slower: the answer.

        And the fastest within half of its bytes. No budget is any number of bytes.
        """

    def floor(self, tick: Callable[..., object] | None = None) -> Frontier:
        """The Proposal of fewest bytes."""

    def frontier(self, tick: Callable[..., object] | None = None) -> Frontier:
        """Every Pareto-efficient Proposal, ascending in SRAM."""

def arrange_plans(graph: CascaderGraph, schedule: Any, tick: Callable[..., object] | None = None) -> Arrangement:
    """The program of the Plans of a `ScheduleSpec`, its copies in the issue order, its buffers in the placement."""

def prefetch_plans(graph: CascaderGraph, schedule: Any, limit_bytes: int) -> IssueOrderTuple:
    """The issue order of copies that are early where no more than a number of bytes are then in use."""

def clock_plans(graph: CascaderGraph, schedule: Any) -> int: ...
def predict_streams(graph: CascaderGraph, schedule: Any) -> list[list[StreamCommand]]:
    """The command streams of a program, one for each run of the NPU; none for a device that is described by data."""

def check_plans(graph: CascaderGraph, schedule: Any) -> None: ...
def program_memory(program: Program) -> list[BufferRow]:
    """A program's buffers as the memory planner takes them, each in pool 0, in the program's order."""

@final
class WeightOrder:
    """How constants are encoded: depth of the OFM block that they serve, and part-kernel-first or not."""

    def __new__(cls, block_depth: int, part_kernel: bool) -> WeightOrder: ...
    @property
    def block_depth(self) -> int: ...
    @property
    def part_kernel(self) -> bool: ...

def choose_weight_encoding(
    device: Any,
    kernel: Any,
    plane: tuple[int, int],
    layouts: tuple[str, str],
    known: Sequence[tuple[tuple[int, bool], int]] = ...,
) -> tuple[WeightOrder, WeightOrder] | None:
    """For constants to be read in place, and for those to be staged; None if no block fits.

    `known` are bytes of constants by block depth and order; in other orders they are taken to be the kernel's.
    """

@final
class PartFloor:
    """What an NPU Part costs at least in any schedule, in cycles.

    `mac` is the MAC engine's whatever the cutting, `dense` the same in proportion to the output, `output` the output
    stage's, `in_one_piece` the whole operation's with nothing else running. `planes` are, for each depth of the blocks
    of an operation with weights, (depth, most pixels).
    """

    def __new__(
        cls, mac: int, dense: int, output: int, in_one_piece: int, planes: Sequence[tuple[int, int]]
    ) -> PartFloor: ...
    @property
    def mac(self) -> int: ...
    @property
    def dense(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def in_one_piece(self) -> int: ...
    @property
    def planes(self) -> list[tuple[int, int]]: ...

def part_floor(graph: CascaderGraph, part: int) -> PartFloor | None:
    """None for a Part that is opaque, or on a device that data describes. Raises `SchedulingError` for no Part."""

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
    tick: Callable[..., object] | None = None,
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

# ---- dataflow -------------------------------------------------------------------------------------------------------

_Piece = tuple[int, int, int]
"""Memory, first byte, one past the last."""

def follow_payload(
    payload: bytes,
    accelerator: str,
    regions: Sequence[int | None],
    given: Sequence[_Piece],
    wanted: Sequence[_Piece],
) -> tuple[list[tuple[int, list[int], list[tuple[int, int]]]], list[list[int]], list[_Piece]]:
    """Of each kernel and transfer its command, who made what it reads, and of each memory (live bytes, their end).

    Then the makers of each piece that is wanted behind the stream, and what must be there before it. `regions` are the
    memories of the eight regions, None for constants. Makers are operations by number, and -1 - i for `given[i]`.
    Raises `SimulationError`.
    """

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

# ---- block dependency -----------------------------------------------------------------------------------------------

_Three = tuple[int, int, int]
SurfaceRow = tuple[_Three, _Three, tuple[int, int, int, int], _Three, bool, int, int]
"""Shape, (height_0, height_1, width_0), offsets, strides, whether in bricks, bytes of an element, region."""
_Reading = tuple[bool, bool, int, tuple[int, int], tuple[int, int], tuple[int, ...]]
"""Elementwise, every output of all channels; enlargement, strides, dilated window, padding before, as (y, x)."""
KernelRow = tuple[list[SurfaceRow], _Reading, SurfaceRow, _Three, bool]
"""Inputs and how they are read, output, OFM block, whether results are looked up."""

def block_dependencies(kernels: Sequence[KernelRow], accelerator: str) -> list[int]:
    """BLOCKDEP of each kernel in order. Raises `ConfigError` for an unknown accelerator."""

# ---- end of block dependency ----------------------------------------------------------------------------------------

# ---- weights --------------------------------------------------------------------------------------------------------

_Volume = tuple[bytes, str, int]
"""Elements as they are stored, outputs first, their type (int8, uint8, int16), and what stands for 0."""
_Order = tuple[tuple[int, int, int, int], int, int, bool, bool, bool, tuple[int, int]]
"""Shape OHWI, block depth, micro-block depth; depthwise, part-kernel-first, inputs of 16 bits; dilation (y, x)."""

@type_check_only
@final
class _WeightStream:
    @property
    def length_bytes(self) -> int:
        """A multiple of 16."""
    def write(self, volume: _Volume) -> bytes:
        """The stream of the volume that it was planned for."""

def plan_weights(volume: _Volume, order: _Order, core: tuple[int, int] = ...) -> _WeightStream:
    """The smallest stream found; of the first, second ... of several cores. Raises `CodegenError`."""
