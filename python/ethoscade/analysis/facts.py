"""A compiled network's facts for pages and pictures, gathered from what a compilation returns.

Owns the gathering: names made short, buffers with who writes and reads them. The page's own room says what is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .._core import __version__
from ..codegen import provenance
from ..codegen.artifact import Artifact
from ..ir import Graph
from ..lowering.npu import NpuGraph
from ..page.facts import ArenaMap, Choice, Holder, HolderKind, LiveSpan, Moment, NetworkFacts, OperatorNode, What
from ..scheduling.problem import Problem
from ..scheduling.program import (
    Arrangement,
    CallOperator,
    CopyConstants,
    CopyTensor,
    Feed,
    LoadTable,
    Program,
    ProgramBuffer,
    Step,
    Stripe,
    Take,
    in_scarce,
)
from ..targets.target import Target
from .cpu_time import CpuTime
from .explanation import buffer_names, live_bytes_by_step, operation_at
from .table import OperatorRow, OperatorSummary, OperatorTable


class FactSource(Protocol):
    """What facts are gathered from: a compilation, as far as pages tell of it."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def artifact(self) -> Artifact:
        """What was made."""

    @property
    def source(self) -> Graph:
        """The network as the file has it."""

    @property
    def target(self) -> Target:
        """What it was compiled for."""

    @property
    def npu(self) -> NpuGraph:
        """What the NPU does."""

    @property
    def problem(self) -> Problem:
        """Its Parts and tensors."""

    @property
    def arrangement(self) -> Arrangement:
        """Its steps and buffers, and where these lie."""

    @property
    def operators(self) -> tuple[OperatorSummary, ...]:
        """The operators in execution order."""

    @property
    def budget_bytes(self) -> int | None:
        """The budget."""

    @property
    def sram_bytes(self) -> int:
        """SRAM in use."""

    @property
    def flash_bytes(self) -> int:
        """Read-only bytes."""

    @property
    def cycles(self) -> int:
        """NPU cycles."""

    @property
    def milliseconds(self) -> float:
        """NPU time."""

    @property
    def inferences_per_second(self) -> float:
        """Its inverse."""

    @property
    def utilisation(self) -> float:
        """Share of the MAC units' work, 0 to 1."""

    def table(self) -> OperatorTable:
        """A row for each operator."""


def facts_of(
    made: FactSource, points: Sequence[tuple[int, int]], knee: tuple[int, int] | None, on_cpu: CpuTime
) -> NetworkFacts:
    """The facts of a compilation beside the `points` (SRAM bytes, cycles) of its frontier.

    `knee` is one of them; None says that they are not all, but those that one answer needed. `on_cpu` is what the
    operators on the CPU take.
    """
    target, table = made.target, made.table()
    clock = target.core_clock_hz
    named = _Names(made)
    return NetworkFacts(
        name=made.name,
        target=_target_text(target),
        version=__version__,
        budget_bytes=made.budget_bytes,
        sram_bytes=made.sram_bytes,
        flash_bytes=made.flash_bytes,
        constants_in_sram_bytes=made.sram_bytes - made.arrangement.arena_bytes,
        cycles=made.cycles,
        milliseconds=made.milliseconds,
        inferences_per_second=made.inferences_per_second,
        utilisation=made.utilisation,
        counted=target.has_npu,
        points=tuple(Choice(size, cycles, 1000 * cycles / clock if cycles else 0.0) for size, cycles in points),
        knee=None if knee is None else points.index(knee),
        nodes=_nodes(made, table, named, on_cpu),
        memories=tuple(
            (m.memory, m.read_bytes + m.command_bytes, m.written_bytes, m.busy_cycles) for m in table.memories
        ),
        interface=tuple(_interface(made.source)),
        arena=arena_map(made),
        core=on_cpu.core_text,
    )


def arena_map(made: FactSource) -> ArenaMap:
    """Who has which bytes of the SRAM's arena, step by step: of the NPU's own, where the other lies in DRAM."""
    named = _Names(made)
    program, shown = made.arrangement.program, in_scarce(made.arrangement)
    writes, reads = _accesses(made.artifact.graph, program)
    names = buffer_names(made.artifact.graph, made.npu, program)
    kinds = _kinds(made.artifact.graph, program)
    holders = tuple(
        Holder(
            named.short.get(names.get(index, buffer.name), buffer.name),
            kinds.get(index, "intermediate") if buffer.kind == "tensor" else buffer.kind,
            offset,
            buffer.size_bytes,
            _windows(buffer),
            tuple(writes.get(index, ())),
            tuple(reads.get(index, ())),
        )
        for index, (buffer, offset) in enumerate(zip(program.buffers, made.arrangement.offsets, strict=True))
        if index in shown
    )
    live = tuple(live_bytes_by_step(made.arrangement))
    return ArenaMap(tuple(_moments(made)), holders, made.arrangement.arena_bytes, live)


class _Names:
    """Names of operators and tensors, of each only what no other one has of it."""

    def __init__(self, made: FactSource) -> None:
        graph = made.artifact.graph
        names = [op.name for op in graph.operators]
        names += [tensor.name for tensor in graph.tensors if not tensor.is_constant]
        names += [operation.ofm.tensor.name for operation in made.npu.operations]
        names += [operation.name for operation in made.npu.operations]
        (short,) = provenance.short([names])
        self.short = dict(zip(names, short, strict=True))


def _target_text(target: Target) -> str:
    if not target.has_npu:
        return "no NPU: all operators on the CPU"
    clock = f"{target.core_clock_hz / 1e6:,.0f} MHz"
    return f"{target.accelerator.name} at {clock}, {target.system_config}, {target.memory_mode}"


def _nodes(made: FactSource, table: OperatorTable, named: _Names, on_cpu: CpuTime) -> tuple[OperatorNode, ...]:
    graph, times = made.artifact.graph, iter(on_cpu.ranges)
    return tuple(
        _node(graph, summary.index, row, named.short, next(times) if summary.where == "cpu" else None)
        for summary, row in zip(made.operators, table.rows, strict=True)
    )


def _node(
    graph: Graph, index: int, row: OperatorRow, short: Mapping[str, str], on_cpu: tuple[float, float] | None
) -> OperatorNode:
    operator = graph.operators[index]
    made = graph.tensors[operator.outputs[0]] if operator.outputs else None
    reads = (t for t in operator.inputs if t is not None and not graph.tensors[t].is_constant)
    return OperatorNode(
        name=short[row.name],
        kind=row.kind,
        where=row.where,
        reason=row.reason,
        cascade=row.cascade,
        shape="" if made is None else _shape(made.shape),
        reads=tuple(dict.fromkeys(reads)),
        makes=operator.outputs,
        operations=row.operations,
        copies=row.copies,
        cycles=row.cycles,
        bound_cycles=row.bound_cycles,
        milliseconds=row.milliseconds,
        macs=row.macs,
        utilisation=row.utilisation,
        read_bytes=row.read_bytes,
        written_bytes=row.written_bytes,
        live_bytes=row.live_bytes,
        done_by=short.get(row.done_by, row.done_by),
        cpu_milliseconds=on_cpu,
    )


def _shape(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _interface(source: Graph) -> Iterable[tuple[str, str, str, str, int]]:
    for end, tensors in (("input", source.given), ("output", source.handed_out)):
        for tensor in (source.tensors[index] for index in dict.fromkeys(tensors)):
            yield tensor.name, end, tensor.dtype.value, _shape(tensor.shape), tensor.size_bytes


def _kinds(graph: Graph, program: Program) -> dict[int, HolderKind]:
    """What buffers of the network's ends are for; one that is both an input's and an output's is an input."""
    ends: tuple[tuple[HolderKind, Sequence[int]], ...] = (
        ("output", graph.handed_out),
        ("input", graph.given),
        ("state", (*graph.kept, *(variable.after for variable in graph.variables))),
    )
    held = program.tensor_buffers
    return {held[tensor]: kind for kind, tensors in ends for tensor in tensors if tensor in held}


def _windows(buffer: ProgramBuffer) -> tuple[LiveSpan, ...]:
    if not buffer.windows:
        return ((buffer.first_step, buffer.last_step, 0, buffer.size_bytes),)
    return tuple((one.first_step, one.last_step, one.low, one.high) for one in buffer.windows)


def _accesses(graph: Graph, program: Program) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """The steps that write each buffer, and those that read it."""
    writes: dict[int, list[int]] = {}
    reads: dict[int, list[int]] = {}
    for number, step in enumerate(program.steps):
        made, used = _touched(graph, program, step)
        for buffers, found in ((made, writes), (used, reads)):
            for buffer in dict.fromkeys(buffers):
                found.setdefault(buffer, []).append(number)
    return writes, reads


def _touched(graph: Graph, program: Program, step: Step) -> tuple[list[int], list[int]]:
    """The buffers that a step writes, and those that it reads."""
    if isinstance(step, Stripe):
        return [step.output.buffer], [slab.buffer for slab in step.inputs] + [
            buffer for buffer in (step.weights,) if buffer is not None
        ]
    if isinstance(step, CopyConstants):
        return [step.buffer], []
    if isinstance(step, CopyTensor):
        return [step.buffer], [step.source]
    if isinstance(step, Feed):
        return [step.output.buffer], []
    if isinstance(step, Take):
        return [], [step.input.buffer]
    if isinstance(step, CallOperator):
        operator, held = graph.operators[step.operator], program.tensor_buffers
        own = [step.workspace] if step.workspace is not None else []
        read = [held[tensor] for tensor in operator.inputs if tensor is not None and tensor in held]
        return [held[tensor] for tensor in operator.outputs if tensor in held] + own, read + own
    return [], []


def _moments(made: FactSource) -> Iterable[Moment]:
    """The steps, stripes numbered by their operator."""
    program, npu = made.arrangement.program, made.npu
    place = {summary.index: number for number, summary in enumerate(made.operators)}
    found = [
        step.operator if isinstance(step, CallOperator) else operation_at(npu, program, step).operator
        for step in program.steps
    ]
    whats = [_WHATS[type(step)] for step in program.steps]
    totals, seen = Counter(zip(found, whats, strict=True)), Counter[tuple[int, What]]()
    for step, operator, what in zip(program.steps, found, whats, strict=True):
        seen[operator, what] += 1
        rows = None
        if isinstance(step, Feed | Take):
            box = step.output if isinstance(step, Feed) else step.input
            rows = (box.y0, box.y1, made.problem.tensors[made.problem.ids[step.tensor]].plane[0])
        elif isinstance(step, Stripe):
            rows = (step.output.y0, step.output.y1, npu.operations[step.stage].ofm.plane[0])
        yield Moment(place[operator], what, seen[operator, what], totals[operator, what], rows, step.cycles)


_WHATS: Mapping[type[Step], What] = {
    Stripe: "stripe",
    CopyConstants: "copy",
    CopyTensor: "copy",
    LoadTable: "table",
    Feed: "feed",
    Take: "take",
    CallOperator: "CPU",
}
