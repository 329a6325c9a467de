"""A compiled network as pages and pictures take it: plain numbers and names, frozen.

Owns these types and what follows from an arena's buffers alone. Knows no compiler: who has one fills them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ..util.records import dataclass

HolderKind = Literal["input", "output", "state", "intermediate", "rolling", "weights", "workspace"]
"""What bytes of the arena are for."""

What = Literal["stripe", "copy", "table", "feed", "take", "CPU"]
"""What a step does.

It is an NPU operation, a copy of constants or of a tensor, a table loaded, rows handed over, or an operator
called."""

LiveSpan = tuple[int, int, int, int]
"""First step, one past the last, first byte, one past the last; bytes counted from the holder's first."""


@dataclass(frozen=True)
class Holder:
    """A buffer in its place: `offset` is its first byte in the arena, `windows` say which bytes are in use when.

    `writes` and `reads` are the steps that do so, ascending.
    """

    name: str
    kind: HolderKind
    offset: int
    size_bytes: int
    windows: tuple[LiveSpan, ...]
    writes: tuple[int, ...]
    reads: tuple[int, ...]

    def live_bytes(self, step: int) -> int:
        """Bytes in use at a step."""
        return sum(high - low for first, last, low, high in self.windows if first <= step < last)


@dataclass(frozen=True)
class Moment:
    """A step: `what` is done for an operator (by its place in the network), the how-many-th of how many alike.

    `rows` are those of its output that a stripe makes, and how many there are; None for what makes none.
    """

    operator: int
    what: What
    number: int
    of: int
    rows: tuple[int, int, int] | None
    cycles: int


@dataclass(frozen=True)
class ArenaMap:
    """Who has which bytes of the arena at which step; `live_bytes` are those in use at each step, at least one."""

    steps: tuple[Moment, ...]
    holders: tuple[Holder, ...]
    arena_bytes: int
    live_bytes: tuple[int, ...]

    @property
    def peak_step(self) -> int:
        """The first step at which most bytes are in use."""
        return max(range(len(self.live_bytes)), key=self.live_bytes.__getitem__)

    def alive(self, step: int) -> list[tuple[Holder, int]]:
        """Who has bytes at a step, and how many, most first."""
        found = [(holder, size) for holder in self.holders if (size := holder.live_bytes(step))]
        return sorted(found, key=lambda one: -one[1])


@dataclass(frozen=True)
class OperatorNode:
    """An operator of the network in execution order. `reads` and `makes` number tensors that are not constants.

    `where` is "npu" or "cpu", `reason` why it is not on the NPU. Of an operator on the CPU no cycles are counted;
    `cpu_milliseconds` are the least and the most that it takes on the given core, None where unknown.
    `bound_cycles` are its cycles by what bounds them, bytes are by memory.
    """

    name: str
    kind: str
    where: str
    reason: str
    cascade: int | None
    shape: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    operations: int
    copies: int
    cycles: int
    bound_cycles: Mapping[str, int]
    milliseconds: float | None
    macs: int
    utilisation: float
    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]
    live_bytes: int | None
    done_by: str
    cpu_milliseconds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Choice:
    """A point of the frontier."""

    sram_bytes: int
    cycles: int
    milliseconds: float


@dataclass(frozen=True)
class NetworkFacts:
    """The facts about a compiled network. Sizes are bytes; `target` is described in a few words.

    `points` are the frontier's, ascending in SRAM, and `knee` is the place of one among them; None says that they are
    not all that there are, but those that one answer needed. `memories` are rows of (name, bytes read, bytes
    written, cycles at full bandwidth); `interface` is rows of (name, "input" or "output", type, shape, bytes).
    `counted` says whether there is an NPU whose cycles are known. `core` is what operators on the CPU are estimated on,
    in a few words, None if on nothing.
    """

    name: str
    target: str
    version: str
    budget_bytes: int | None
    sram_bytes: int
    flash_bytes: int
    constants_in_sram_bytes: int
    cycles: int
    milliseconds: float
    inferences_per_second: float
    utilisation: float
    counted: bool
    points: tuple[Choice, ...]
    knee: int | None
    nodes: tuple[OperatorNode, ...]
    memories: tuple[tuple[str, int, int, int], ...]
    interface: tuple[tuple[str, str, str, str, int], ...]
    arena: ArenaMap
    core: str | None = None
