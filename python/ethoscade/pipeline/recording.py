"""What a compilation knows of each operation of its streams: operator, cascade, rows, buffers in use.

Owns reading these off a program, in the order of its steps, which is the streams'. The record itself is `trace`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..analysis.cpu_time import CpuTime
from ..analysis.table import OperatorSummary
from ..codegen.artifact import Artifact, CpuCall, FeedCall, TakeCall
from ..lowering.npu import NpuGraph
from ..run.timing import TimingReport
from ..scheduling.decisions import Schedule
from ..scheduling.problem import Problem
from ..scheduling.program import CopyConstants, Feed, Program, Step, Stripe, Take
from ..targets.target import Target
from ..trace.record import CpuSource, NpuSource, OperationContext, Record, record


def record_compiled(
    artifact: Artifact,
    target: Target,
    npu: NpuGraph,
    problem: Problem,
    schedule: Schedule,
    program: Program,
    reports: Sequence[tuple[str, TimingReport]],
    cpu_microseconds: Mapping[int, float],
) -> Record:
    """Put an inference of a compiled network on record; `reports` are its NPU calls', in order.

    `cpu_microseconds` are estimates by operator of the artifact's graph; the others are not counted.
    """
    cascades = _cascades(problem, schedule)
    buffers = _buffers(program)
    steps = ((at, step) for at, step in enumerate(program.steps) if not isinstance(step, Feed | Take))
    timed = iter(report for _, report in reports)
    calls: list[NpuSource | CpuSource] = []
    for call in artifact.calls:
        if isinstance(call, FeedCall | TakeCall):
            continue
        if isinstance(call, CpuCall):
            at, _ = next(steps)
            span = (call.workspace_offset, call.workspace_offset + call.workspace_bytes)
            calls.append(CpuSource(call.operator, span, buffers[at], cpu_microseconds.get(call.operator)))
            continue
        report = next(timed)
        labels = [command.label for command in report.commands if command.bound != "waiting"]
        told = tuple(
            _told(npu, step, label, cascades, buffers[at]) for label, (at, step) in zip(labels, steps, strict=False)
        )
        calls.append(NpuSource(call.name, call.payload, report, call.outputs, told))
    return record(artifact.graph, target, calls, artifact.offsets, own_cache=bool(artifact.fast_bytes))


def middle_microseconds(time: CpuTime, operators: Sequence[OperatorSummary]) -> dict[int, float]:
    """The middle between the least and the most of each operator on the CPU that is counted, by operator."""
    return {
        of.index: 1e6 * (found.least_cycles + found.most_cycles) / 2 / time.clock_hz
        for of, found in zip(operators, time.operators, strict=True)
        if time.clock_hz is not None and found.least_cycles is not None and found.most_cycles is not None
    }


def _told(
    npu: NpuGraph, step: Step, label: str, cascades: Mapping[int, int], buffers: Mapping[str, int]
) -> OperationContext:
    part = ""
    if isinstance(step, Stripe):
        part = _part(step, npu.operations[step.stage].ofm.plane)
    elif isinstance(step, CopyConstants) and step.slice is not None:
        part = f"slice {step.slice}"
    stage = getattr(step, "stage", None)
    return OperationContext(label, cascades.get(stage) if stage is not None else None, part, buffers)


def _part(step: Stripe, plane: tuple[int, int]) -> str:
    """The rows, columns and slice of channels that a stripe makes, as far as they are not all."""
    box, parts = step.output, []
    if box.y1 - box.y0 < plane[0]:
        parts.append(f"rows {box.y0} to {box.y1 - 1}" if box.y1 - box.y0 > 1 else f"row {box.y0}")
    if box.x1 - box.x0 < plane[1]:
        parts.append(f"columns {box.x0} to {box.x1 - 1}" if box.x1 - box.x0 > 1 else f"column {box.x0}")
    if step.slice is not None:
        parts.append(f"slice {step.slice}")
    return ", ".join(parts)


def _cascades(problem: Problem, schedule: Schedule) -> dict[int, int]:
    """The cascade of each NPU operation that is in one, from 1 in the order of the schedule."""
    found: dict[int, int] = {}
    for number, group in enumerate((g for g in schedule.groups if g.is_cascade), start=1):
        for part in range(group.first, group.last + 1):
            if problem.parts[part][0] == "npu":
                found.update(dict.fromkeys(problem.operations(part), number))
    return found


def _buffers(program: Program) -> list[dict[str, int]]:
    """Bytes in use at each step, by kind of buffer."""
    found: list[dict[str, int]] = [{} for _ in program.steps]
    kinds = dict.fromkeys(buffer.kind for buffer in program.buffers)
    for row in found:
        row |= dict.fromkeys(kinds, 0)
    for buffer in program.buffers:
        for first, last, size in buffer.periods():
            for step in range(first, min(last, len(found))):
                found[step][buffer.kind] += size
    return found
