"""An inference on record: every NPU call with its operations in time, CPU operators between them, what is live when.

Owns the record and putting it together from streams, the timing model and the dataflow; what viewers make of it is
theirs. The compiler of the network knows more of each operation than its stream does: that is its `OperationContext`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from .. import _core
from ..ir import Graph
from ..run.dataflow import Dataflow, Piece, extent, follow, without
from ..run.timing import TimedCommand, TimingReport
from ..targets.target import Target
from ..util.records import dataclass

_ARENA_REGION, _CACHE_REGION, _REGIONS = 1, 2, 8
_ARENA, _CACHE = 0, 1
"""Inputs of an `ethos-u` operator ahead of the network's tensors: payload, constants, scratch and fast scratch."""


@dataclass(frozen=True)
class OperationContext:
    """What is known of an operation beside its command.

    `operator` names what it serves and `cascade` the cascade that it is part of, from 1. `part` says which part of the
    operation's output it makes, "" for all of it; None if unknown. `buffers` are bytes in use by kind of buffer.
    """

    operator: str
    cascade: int | None = None
    part: str | None = None
    buffers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class NpuSource:
    """A call of the NPU: its payload, the tensors that it makes, and the `contexts` of its operations, in order."""

    name: str
    payload: bytes = field(repr=False)
    report: TimingReport = field(repr=False)
    makes: tuple[int, ...]
    contexts: tuple[OperationContext, ...]


@dataclass(frozen=True)
class CpuSource:
    """An operator of the graph on the CPU; `workspace` is [start, end) in the arena.

    `microseconds` are estimated, None if they are not counted.
    """

    operator: int
    workspace: tuple[int, int] = (0, 0)
    buffers: Mapping[str, int] = field(default_factory=dict)
    microseconds: float | None = None


@dataclass(frozen=True)
class Origin:
    """Who made bytes: operation `operation` of call `call`, 0 for an operator on the CPU.

    Call -1 is the caller of the network, and `operation` the tensor that it brings.
    """

    call: int
    operation: int


@dataclass(frozen=True)
class Live:
    """Bytes of a memory in use at some moment, and one past the highest of them."""

    bytes: int
    end: int


@dataclass(frozen=True)
class RecordedOperation:
    """A kernel or a transfer of an NPU call.

    `offset` is the byte of its command in the command stream. `serves` is, of a transfer, the kernel by its number that
    first reads what it brought. `live` is by memory.
    """

    timed: TimedCommand
    offset: int
    operator: str
    cascade: int | None
    part: str | None
    makers: tuple[Origin, ...]
    live: Mapping[str, Live]
    buffers: Mapping[str, int]
    serves: int | None = None

    @property
    def name(self) -> str:
        """Operator and part, "conv_3 rows 4 to 8"; without a part the number among its stripes."""
        if self.part is None:
            return self.timed.name
        named = f"{self.operator} {self.part}" if self.part else self.operator
        return named if self.timed.kernel is not None else f"copy for {named}"


@dataclass(frozen=True)
class RecordedCall:
    """A call of the NPU. `operations` are in stream order; the report has the waits between them as well."""

    name: str
    report: TimingReport = field(repr=False)
    operations: tuple[RecordedOperation, ...] = field(repr=False)


@dataclass(frozen=True)
class RecordedCpu:
    """An operator on the CPU; `microseconds` are estimated, None if they are not counted."""

    name: str
    kind: str
    makers: tuple[Origin, ...]
    live: Mapping[str, Live]
    buffers: Mapping[str, int]
    microseconds: float | None


@dataclass(frozen=True)
class Record:
    """One inference. `inputs` are tensors by index with their names, `outputs` names with who made them.

    `clock_hz` is None where there is no NPU. Memories are those of `live`.
    """

    name: str
    accelerator: str
    clock_hz: float | None
    calls: tuple[RecordedCall | RecordedCpu, ...]
    inputs: Mapping[int, str]
    outputs: tuple[tuple[str, tuple[Origin, ...]], ...]

    @property
    def npu_calls(self) -> tuple[RecordedCall, ...]:
        """The calls of the NPU, in order."""
        return tuple(call for call in self.calls if isinstance(call, RecordedCall))

    @property
    def cycles(self) -> int:
        """NPU cycles of all calls."""
        return sum(call.report.cycles for call in self.npu_calls)


def record(
    graph: Graph, target: Target, calls: Sequence[NpuSource | CpuSource], offsets: Mapping[int, int], own_cache: bool
) -> Record:
    """Put an inference on record.

    `offsets` maps tensors that lie in the arena to their first bytes, `own_cache` says that region 2 is a memory of its
    own. Raises `SimulationError` for a payload that is not one.
    """
    return _Recorder(graph, target, calls, offsets, own_cache).record()


class _Recorder:
    """The calls of one inference, with what they need of each other."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        calls: Sequence[NpuSource | CpuSource],
        offsets: Mapping[int, int],
        own_cache: bool,
    ) -> None:
        self.graph, self.target, self.calls, self.offsets = graph, target, calls, offsets
        self.memories = [target.arena.name, target.cache.name] if own_cache else [target.arena.name]
        self.regions: list[int | None] = [None] * _REGIONS
        self.regions[_ARENA_REGION], self.regions[_CACHE_REGION] = _ARENA, _CACHE if own_cache else _ARENA
        # Files have the NPU's memories as tensors that live on; what lies in them is told by others.
        memories = {t for op in graph.operators for t in op.memories}
        self.kept = [t for t in graph.kept if t in offsets and t not in memories]

    def record(self) -> Record:
        behind = self._behind()
        brought = dict.fromkeys((*self.graph.inputs, *self.kept))
        makers: dict[int, tuple[Origin, ...]] = {tensor: (Origin(-1, tensor),) for tensor in brought}
        recorded: list[RecordedCall | RecordedCpu] = []
        made: dict[int, tuple[Origin, ...]]
        for number, call in enumerate(self.calls):
            if isinstance(call, CpuSource):
                recorded.append(self._cpu(call, behind[number], makers))
                made = {t: (Origin(number, 0),) for t in self.graph.operators[call.operator].outputs}
            else:
                done, made = self._npu(number, call, behind[number], makers)
                recorded.append(done)
            # What was made last is what lies there, so it goes to the end.
            makers = {t: of for t, of in makers.items() if t not in made} | made
        wanted = ((self.graph.tensors[t].name, makers.get(t, ())) for t in dict.fromkeys(self.graph.handed_out))
        return Record(
            self.graph.name,
            self.target.accelerator.name,
            self.target.core_clock_hz or None,
            tuple(recorded),
            {tensor: self.graph.tensors[tensor].name for tensor in brought},
            tuple(wanted),
        )

    def _pieces(self, tensors: Sequence[int | None]) -> tuple[Piece, ...]:
        placed = [t for t in dict.fromkeys(tensors) if t is not None and t in self.offsets]
        starts = [self.offsets[t] for t in placed]
        return tuple(
            Piece(_ARENA, start, start + self.graph.tensors[t].size_bytes)
            for t, start in zip(placed, starts, strict=True)
        )

    def _behind(self) -> list[tuple[Piece, ...]]:
        """What is wanted when each call has ended."""
        wanted = self._pieces((*self.graph.outputs, *self.kept))
        found = []
        for call in reversed(self.calls):
            found.append(wanted)
            if isinstance(call, NpuSource):
                wanted = self._followed(call, (), wanted).before
            else:
                op = self.graph.operators[call.operator]
                wanted = (*without(wanted, self._pieces(op.outputs)), *self._pieces(op.inputs))
        return found[::-1]

    def _followed(self, call: NpuSource, given: Sequence[Piece], wanted: Sequence[Piece]) -> Dataflow:
        return follow(call.payload, self.target.accelerator.name, self.regions, given, wanted)

    def _cpu(self, call: CpuSource, behind: Sequence[Piece], known: Mapping[int, tuple[Origin, ...]]) -> RecordedCpu:
        op = self.graph.operators[call.operator]
        own = Piece(_ARENA, *call.workspace)
        at = (*behind, *self._pieces((*op.inputs, *op.outputs)), *((own,) if own.end > own.start else ()))
        live = {name: Live(*extent(at, number)) for number, name in enumerate(self.memories)}
        makers = dict.fromkeys(maker for t in op.inputs if t is not None for maker in known.get(t, ()))
        return RecordedCpu(op.name, op.kind, tuple(makers), live, call.buffers, call.microseconds)

    def _npu(
        self, number: int, call: NpuSource, behind: Sequence[Piece], known: Mapping[int, tuple[Origin, ...]]
    ) -> tuple[RecordedCall, dict[int, tuple[Origin, ...]]]:
        placed = [t for t in known if t in self.offsets]
        made = [t for t in call.makes if t in self.offsets]
        wanted = (*self._pieces(made), *behind)
        flow = self._followed(call, self._pieces(placed), wanted)

        def of(numbers: Sequence[int]) -> tuple[Origin, ...]:
            found: dict[Origin, None] = {}
            for n in numbers:
                found |= dict.fromkeys([Origin(number, n)] if n >= 0 else known[placed[-1 - n]])
            return tuple(found)

        timed = [command for command in call.report.commands if command.bound != "waiting"]
        first_reader: dict[int, int] = {}
        for reader, row in enumerate(flow.operations):
            for maker in row.makers:
                first_reader.setdefault(maker, reader)
        offsets = command_offsets(call.payload)
        operations = tuple(
            RecordedOperation(
                command,
                offset,
                known_as.operator,
                known_as.cascade,
                known_as.part,
                of(row.makers),
                {name: Live(*row.live[index]) for index, name in enumerate(self.memories)},
                known_as.buffers,
                first_reader.get(position) if command.kernel is None else None,
            )
            for position, (command, offset, known_as, row) in enumerate(
                zip(timed, offsets, call.contexts, flow.operations, strict=True)
            )
        )
        makers = {t: of(makers) for t, makers in zip(made, flow.wanted[: len(made)], strict=True)}
        return RecordedCall(call.name, call.report, operations), makers


def command_offsets(payload: bytes) -> Iterator[int]:
    """The byte in the command stream of each kernel's and each transfer's command."""
    words = 0
    for command in _core.read_stream(payload):
        words += command.words
        if command.name in STARTS:
            yield 4 * (words - 1)


STARTS = frozenset({"OP_CONV", "OP_DEPTHWISE", "OP_POOL", "OP_ELEMENTWISE", "OP_DMA_START"})
"""Names of the commands that start a kernel or a transfer."""
