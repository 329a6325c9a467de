"""What each operator of a compiled network costs: its share of the NPU's cycles and bytes, of the CPU's, of the SRAM.

Owns the types of rows and of the table, and reading them off the program and its streams in time. The rows add up to
what the streams take, cycle by cycle and byte by byte. Decides nothing; the words are the report's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from ..codegen.artifact import Artifact, NpuCall
from ..lowering.npu import NpuGraph
from ..scheduling.program import Arrangement, CallOperator, CopyConstants, Feed, LoadTable, Program, Stripe, Take
from ..targets.target import Target
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .explanation import live_bytes_by_step

if TYPE_CHECKING:
    from .._core import TimedTraffic
    from ..run.timing import TimedCommand, TimingReport, Traffic

WAITING = "waiting"
"""What bounds cycles in which no kernel runs: something that the next one needs is not there yet."""


@dataclass(frozen=True)
class OperatorSummary:
    """Where an operator runs ("npu" or "cpu") and why not on the NPU, and the cascade it is part of, by number.

    `cycles` are those of its NPU operations; copies of constants run beside them and are not counted. `macs` are its
    multiply-accumulates, by its shapes. `index` is its place in the graph that was compiled, `artifact.graph`.
    """

    name: str
    kind: str
    where: str
    reason: str
    cycles: int
    cascade: int | None
    macs: int
    index: int


@dataclass(frozen=True)
class KindOnCpu:
    """All operators of one kind that stay on the CPU: how many, their multiply-accumulates, their share of all of them.

    `reasons` maps every reason to the names of the operators that have it. In order of first appearance.
    """

    kind: str
    operators: int
    macs: int
    share: float
    reasons: Mapping[str, tuple[str, ...]]


def kinds_on_cpu(operators: Sequence[OperatorSummary]) -> tuple[KindOnCpu, ...]:
    """Those on the CPU by kind, the kinds with the largest share of the multiply-accumulates first, then the most."""
    total = sum(op.macs for op in operators) or 1
    on_cpu = [op for op in operators if op.where == "cpu"]
    found: list[KindOnCpu] = []
    for kind in dict.fromkeys(op.kind for op in on_cpu):
        alike = [op for op in on_cpu if op.kind == kind]
        told = dict.fromkeys(op.reason for op in alike)
        reasons = {reason: tuple(op.name for op in alike if op.reason == reason) for reason in told}
        macs = sum(op.macs for op in alike)
        found.append(KindOnCpu(kind, len(alike), macs, macs / total, FrozenMap(reasons)))
    return tuple(sorted(found, key=lambda of: (-of.macs, -of.operators)))


@dataclass(frozen=True)
class OperatorRow:
    """One operator of a compiled network. Cycles are the NPU's, as its streams take them under the timing model.

    `cycles` is its share of the streams: from the end of the kernel before each of its own to the end of its own. So
    the rows add up to the network's cycles, also where stripes of a cascade run by turns. `bound_cycles` says what
    bounded how many of them: "compute", "output", a memory's name, "latency", or "waiting" while no kernel ran; `bound`
    is the largest. `alone_cycles` is what the planner's rules give for its operations, each by itself.
    `milliseconds` is `cycles` at the core clock, None for an operator on the CPU.

    `operations` and `copies` count its kernels and the transfers that bring its constants; bytes and `memory_cycles`,
    what they take at the memory's full bandwidth, are those of both, by the memory's name. `engine_cycles` is what its
    kernels take if no memory is in the way. `macs` are its multiply-accumulates by its shapes, and `utilisation` the
    share of those that the NPU could have done in `cycles`, 0 to 1. `live_bytes` is the most of the arena in use at one
    of its steps, None for an operator without a step of its own. `done_by` names the operator whose operations do its
    work as well, "" where it has its own, or needs none.
    """

    name: str
    kind: str
    where: str
    reason: str
    cascade: int | None
    cycles: int
    alone_cycles: int
    engine_cycles: int
    bound: str
    bound_cycles: Mapping[str, int]
    milliseconds: float | None
    macs: int
    utilisation: float
    operations: int
    operation_kinds: tuple[str, ...]
    copies: int
    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]
    memory_cycles: Mapping[str, int]
    live_bytes: int | None
    done_by: str


@dataclass(frozen=True)
class MemoryTraffic:
    """Bytes that one inference moves through a memory: those of the rows, and the command streams that are fetched.

    `busy_cycles` is what they take the memory at its full bandwidth.
    """

    memory: str
    read_bytes: int
    written_bytes: int
    command_bytes: int
    busy_cycles: int


@dataclass(frozen=True)
class OperatorTable:
    """A row for each operator, in execution order, and what they add up to.

    `cycles` are those of all streams. They are `Compiled.cycles`, unless the network has state: its variables are
    placed once more after the search, and other addresses may take a few cycles more or fewer.
    """

    rows: tuple[OperatorRow, ...]
    cycles: int
    milliseconds: float
    macs: int
    utilisation: float
    sram_bytes: int
    memories: tuple[MemoryTraffic, ...]


class StreamTotals(NamedTuple):
    """What all streams of a network take together: cycles, and what goes through each memory."""

    cycles: int
    memories: tuple[MemoryTraffic, ...]


@dataclass
class _Share:
    """What is found of one operator while the streams are read."""

    cycles: dict[str, int] = field(default_factory=dict)
    engine_cycles: int = 0
    kernels: list[TimedCommand] = field(default_factory=list)
    copies: list[TimedCommand] = field(default_factory=list)

    def add(self, bound: str, cycles: int) -> None:
        if cycles:
            self.cycles[bound] = self.cycles.get(bound, 0) + cycles


def table_of(
    artifact: Artifact,
    target: Target,
    npu: NpuGraph,
    arranged: Arrangement,
    operators: Sequence[OperatorSummary],
    sram_bytes: int,
) -> OperatorTable:
    """The table of a compiled network, a row for each of `operators`."""
    reports = list(_timed(artifact, target, npu, arranged.program))
    shares: dict[int, _Share] = {}
    for report in reports:
        _divide(report, shares)
    live = _live(npu, arranged)
    done_by = {
        absorbed: operation.operator
        for operation in npu.operations
        for absorbed in operation.absorbed
        if absorbed not in shares
    }
    names = {summary.index: summary.name for summary in operators}
    rows = tuple(
        _row(of, shares.get(of.index, _Share()), target, live.get(of.index), names.get(done_by.get(of.index, -1), ""))
        for of in operators
    )
    cycles = sum(report.cycles for report in reports)
    macs = sum(row.macs for row in rows if row.where == "npu")
    return OperatorTable(
        rows=rows,
        cycles=cycles,
        milliseconds=_milliseconds(cycles, target),
        macs=macs,
        utilisation=_utilisation(macs, cycles, target),
        sram_bytes=sram_bytes,
        memories=_traffic([{name: _figures(of) for name, of in report.memories.items()} for report in reports]),
    )


def totals_of(artifact: Artifact, target: Target) -> StreamTotals:
    """The cycles and the memories of the table, without its rows."""
    from ..run.played import played

    streams = [played(call.payload, target) for call in artifact.calls if isinstance(call, NpuCall)]
    cycles = sum(totals[0] for totals, _, _ in streams)
    return StreamTotals(cycles, _traffic([dict(ports) for _, ports, _ in streams]))


def _timed(artifact: Artifact, target: Target, npu: NpuGraph, program: Program) -> Iterator[TimingReport]:
    """Each stream in time, its kernels and transfers labelled by the index of their operator."""
    from ..run.timing import simulate_timing

    labels: list[list[str]] = [[]]
    for step in program.steps:
        if isinstance(step, CallOperator | Feed | Take):
            labels.append([])
        elif isinstance(step, Stripe | CopyConstants | LoadTable):
            labels[-1].append(str(npu.operations[step.stage].operator))
    calls = (call for call in artifact.calls if isinstance(call, NpuCall))
    for call, of_call in zip(calls, filter(None, labels), strict=True):
        yield simulate_timing(call.payload, target, of_call)


def _divide(report: TimingReport, shares: dict[int, _Share]) -> None:
    """Add to each operator's share what the stream spends on it; what comes after its last kernel is that one's."""
    kernels = [command for command in report.commands if command.kernel is not None]
    ended = 0
    for command in kernels:
        share = shares.setdefault(int(command.label), _Share())
        share.add(WAITING, command.start - ended)
        share.add(command.bound, command.cycles)
        share.engine_cycles += command.kernel.pipeline_cycles if command.kernel is not None else 0
        share.kernels.append(command)
        ended = command.end
    shares[int(kernels[-1].label)].add(WAITING, report.cycles - ended)
    for command in report.commands:
        if command.kernel is None and command.label:
            shares.setdefault(int(command.label), _Share()).copies.append(command)


def _live(npu: NpuGraph, arranged: Arrangement) -> dict[int, int]:
    """The most bytes in use at a step of each operator."""
    found: dict[int, int] = {}
    for step, size in zip(arranged.program.steps, live_bytes_by_step(arranged), strict=False):
        if isinstance(step, CallOperator):
            of: tuple[int, ...] = (step.operator,)
        elif isinstance(step, Stripe | CopyConstants | LoadTable):
            of = npu.operations[step.stage].serves
        else:
            continue
        for operator in of:
            found[operator] = max(found.get(operator, 0), size)
    return found


def _row(summary: OperatorSummary, share: _Share, target: Target, live: int | None, done_by: str) -> OperatorRow:
    cycles = sum(share.cycles.values())
    moves = [*share.kernels, *share.copies]
    memories = list(moves[0].memory_cycles) if moves else []
    on_npu = summary.where == "npu"
    return OperatorRow(
        name=summary.name,
        kind=summary.kind,
        where=summary.where,
        reason=summary.reason,
        cascade=summary.cascade,
        cycles=cycles,
        alone_cycles=summary.cycles,
        engine_cycles=share.engine_cycles,
        bound=max(share.cycles, key=lambda bound: share.cycles[bound], default=""),
        bound_cycles=FrozenMap(share.cycles),
        milliseconds=_milliseconds(cycles, target) if on_npu else None,
        macs=summary.macs,
        utilisation=_utilisation(summary.macs, cycles, target),
        operations=len(share.kernels),
        operation_kinds=tuple(dict.fromkeys(command.kind for command in share.kernels)),
        copies=len(share.copies),
        read_bytes=FrozenMap({name: sum(c.read_bytes[name] for c in moves) for name in memories}),
        written_bytes=FrozenMap({name: sum(c.written_bytes[name] for c in moves) for name in memories}),
        memory_cycles=FrozenMap({name: sum(c.memory_cycles[name] for c in moves) for name in memories}),
        live_bytes=live,
        done_by=done_by,
    )


def _figures(of: Traffic) -> TimedTraffic:
    """The core's words for it."""
    read, written = (of.kernel_read_bytes, of.dma_read_bytes), (of.kernel_written_bytes, of.dma_written_bytes)
    return read[0], written[0], read[1], written[1], of.command_bytes, of.busy_cycles


def _traffic(streams: Sequence[Mapping[str, TimedTraffic]]) -> tuple[MemoryTraffic, ...]:
    names = dict.fromkeys(name for stream in streams for name in stream)
    found = []
    for name in names:
        sums = map(sum, zip(*(stream[name] for stream in streams), strict=True))
        read, written, copied, stored, commands, busy = sums
        found.append(MemoryTraffic(name, read + copied, written + stored, commands, busy))
    return tuple(found)


def _milliseconds(cycles: int, target: Target) -> float:
    return 1000 * cycles / target.core_clock_hz if cycles else 0.0


def _utilisation(macs: int, cycles: int, target: Target) -> float:
    return macs / (cycles * target.accelerator.macs) if cycles else 0.0
