"""What code generation ends in: calls in order, constant bytes, and where every tensor lies in the arena.

Owns the `Artifact` type that the writers (`tflite`, `c_source`, `mlf`, `raw`) and the simulator's runner take. It says
nothing of how it was scheduled. Region 0 of every NPU call is `constants`, region 1 is the arena, region 2 the fast
memory where there is one, and from region 3 on follow external inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..ir import Graph
from ..util.records import dataclass
from .kernel_table import OURS, KernelTable


@dataclass(frozen=True)
class NpuCall:
    """One run of the NPU. `payload` is what the driver takes; inputs and outputs are tensor indices of the graph.

    `operators` names the operator of each kernel and transfer of the stream, in order, with ";" before others whose
    look-ups it does as well; empty if unknown.
    """

    name: str
    payload: bytes = field(repr=False)
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class CpuCall:
    """One operator of the graph that runs on the CPU, with `workspace_bytes` at `workspace_offset` in the arena."""

    operator: int
    workspace_offset: int = 0
    workspace_bytes: int = 0


@dataclass(frozen=True)
class FeedCall:
    """The arrival of the next `rows` of streamed input `tensor`, from `row` on; those of all feeds follow each other.

    They go in one piece to byte `offset` of the arena. Where `is_ahead`, they may do so until the next feed, and one of
    no rows is behind the last ones.
    """

    tensor: int
    row: int
    rows: int
    offset: int
    row_bytes: int
    is_ahead: bool = False

    @property
    def name(self) -> str:
        """What the call is called."""
        return f"rows {self.row} to {self.row + self.rows}" if self.rows else f"no rows behind {self.row}"


@dataclass(frozen=True)
class TakeCall:
    """The departure of the next `rows` of streamed output `tensor`, from `row` on; all takes follow each other.

    They lie in one piece from byte `offset` of the arena on, until the call behind it.
    """

    tensor: int
    row: int
    rows: int
    offset: int
    row_bytes: int

    @property
    def name(self) -> str:
        """What the call is called."""
        return f"take rows {self.row} to {self.row + self.rows}"


ArtifactCall = NpuCall | CpuCall | FeedCall | TakeCall
"""What a run does next."""


@dataclass(frozen=True)
class ConstantPlace:
    """Bytes of the constants that an operator reads: encoded "weights", "scales", an "operand" or a "table" of results.

    `offset` and `size_bytes` are multiples of 16. Operators with equal constants read the same bytes.
    """

    operator: str
    kind: str
    offset: int
    size_bytes: int


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled network.

    `offsets` maps each non-constant tensor that a call touches, a network input or a network output (tensor index of
    `graph`) to its byte offset in the arena, a multiple of 16. `arena_bytes` is a multiple of 16. So is `fast_bytes`,
    what NPU calls need of a memory that is theirs while they run and holds nothing in between, `fast_tensors` among
    others; it is None on a device without one, where the arena is the whole SRAM that the inference needs. `constants`
    is read-only, a multiple of 16 bytes long, and must be 16-byte aligned.
    A streamed input arrives by `FeedCall`s, a streamed output leaves by `TakeCall`s: neither has `offsets` unless it is
    there as a whole for a while.
    `external` are the inputs that the caller keeps in memory of its own: each a region, in this order. They have no
    `offsets`.
    `kernels` are user-supplied kernels of the C sources.
    `constant_places` says whose the constants are.
    `system_config` and `memory_mode` are those of the vela.ini that it was compiled for, "" if unknown.
    """

    name: str
    accelerator: str
    graph: Graph
    calls: tuple[ArtifactCall, ...]
    constants: bytes = field(repr=False)
    arena_bytes: int
    offsets: Mapping[int, int]
    fast_bytes: int | None = None
    fast_tensors: frozenset[int] = frozenset()
    external: tuple[int, ...] = ()
    kernels: KernelTable = OURS
    system_config: str = ""
    memory_mode: str = ""
    constant_places: tuple[ConstantPlace, ...] = field(default=(), repr=False)

    @property
    def feeds(self) -> tuple[FeedCall, ...]:
        """The arrivals of rows, in order; none where inputs are there as a whole."""
        return tuple(call for call in self.calls if isinstance(call, FeedCall))

    @property
    def takes(self) -> tuple[TakeCall, ...]:
        """The departures of rows, in order; none where outputs are there as a whole."""
        return tuple(call for call in self.calls if isinstance(call, TakeCall))

    @property
    def handovers(self) -> tuple[FeedCall | TakeCall, ...]:
        """Feeds and takes in order."""
        return tuple(call for call in self.calls if isinstance(call, FeedCall | TakeCall))

    @property
    def elsewhere(self) -> frozenset[int]:
        """Inputs and outputs outside of the arena when a run begins or has ended: external and streamed ones."""
        return frozenset((*self.external, *(call.tensor for call in self.handovers)))
