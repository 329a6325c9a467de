"""A timing report as people and machines read it: a Chrome/Perfetto trace, the JSON of `simulate`, a few lines of text.

Owns wording and schema; what happened when is the timing model's. A cycle is a microsecond of the trace, so that
viewers show cycles. Lanes: front end, compute, output, DMA; memories are counters of bytes per cycle.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CodegenError, ModelFormatError
from ..execution import accelerator_of
from ..frontend import ETHOS_U
from ..ir import Graph
from ..target import load_target
from ..timing import TimedCommand, TimingReport, simulate_timing

FRONT_END, COMPUTE, OUTPUT, DMA = range(1, 5)
_LANES = {FRONT_END: "front end", COMPUTE: "compute", OUTPUT: "output stage", DMA: "DMA"}
_PROCESS = 1
_TEXT_OPERATORS = 5


def time_file(
    graph: Graph, system_config: str | None = None, memory_mode: str | None = None, config: str | None = None
) -> list[tuple[str, TimingReport]]:
    """Time each `ethos-u` operator of a compiled file: (operator's name, report).

    Raises `ModelFormatError` for a file without one, `SimulationError` for a damaged payload, `ConfigError` for a
    system that does not exist.
    """
    reports = []
    for operator in graph.operators:
        if operator.kind != ETHOS_U:
            continue
        first = operator.inputs[0] if operator.inputs else None
        data = graph.tensors[first].data if first is not None else None
        if data is None:
            raise ModelFormatError(f"operator '{operator.name}' has no constant payload", operator=operator.name)
        payload = data.tobytes()
        target = load_target(accelerator_of(payload), system_config, memory_mode, config)
        reports.append((operator.name, simulate_timing(payload, target)))
    if not reports:
        raise ModelFormatError(f"'{graph.name}' is not compiled: it has no '{ETHOS_U}' operator", value=0)
    return reports


def trace(reports: Sequence[tuple[str, TimingReport]]) -> dict[str, Any]:
    """The calls of one inference, one after the other, as a trace object; the CPU's time between them is not in it."""
    events = list(_metadata())
    start = 0
    for name, report in reports:
        events.append(_slice(FRONT_END, name, start, report.cycles, {"accelerator": report.accelerator}))
        events += _call(report, start)
        start += report.cycles
    other = {"unit": "1 us of the trace is 1 NPU cycle", "cycles": start}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def write_trace(reports: Sequence[tuple[str, TimingReport]], path: str | os.PathLike[str]) -> Path:
    """Write the trace for chrome://tracing or ui.perfetto.dev. Raises `CodegenError` if the file cannot be written."""
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(trace(reports)), encoding="utf-8")
    except OSError as error:
        raise CodegenError(f"cannot write '{file}': {error.strerror}") from error
    return file


def timing_json(reports: Sequence[tuple[str, TimingReport]]) -> dict[str, Any]:
    """The `timing` object of `simulate --json`: totals, and the operators of each call."""
    return {
        "cycles": sum(report.cycles for _, report in reports),
        "lower_bound_cycles": sum(report.lower_bound_cycles for _, report in reports),
        "macs": sum(report.macs for _, report in reports),
        "calls": [_call_json(name, report) for name, report in reports],
    }


def timing_text(reports: Sequence[tuple[str, TimingReport]]) -> str:
    """Totals and the most expensive operators, a few lines."""
    lines = []
    for name, report in reports:
        lines.append(
            f"{name}: {report.cycles:,} cycles, {100 * report.utilisation:.1f}% of the MACs; "
            f"no order of its operations takes less than {report.lower_bound_cycles:,}"
        )
        shares = sorted(report.bound_cycles.items(), key=lambda share: -share[1])
        lines.append("  bound by " + ", ".join(f"{what} {_percent(part, report.cycles)}" for what, part in shares))
        for memory in report.memories.values():
            busy = _percent(memory.busy_cycles, report.cycles)
            lines.append(
                f"  {memory.memory}: {memory.read_bytes:,} bytes read, {memory.written_bytes:,} written, {busy}"
            )
        for operator in sorted(report.operators, key=lambda operator: -operator.cycles)[:_TEXT_OPERATORS]:
            lines.append(f"  {operator.cycles:>12,} cycles  {operator.label} ({operator.bound})")
    return "\n".join(lines)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "0%"


def _call_json(name: str, report: TimingReport) -> dict[str, Any]:
    return {
        "name": name,
        "cycles": report.cycles,
        "lower_bound_cycles": report.lower_bound_cycles,
        "mac_engine_cycles": report.mac_engine_cycles,
        "output_stage_cycles": report.output_stage_cycles,
        "dma_cycles": report.dma_cycles,
        "macs": report.macs,
        "utilisation": round(report.utilisation, 6),
        "bound_cycles": report.bound_cycles,
        "memories": {
            memory.memory: {
                "read_bytes": memory.read_bytes,
                "written_bytes": memory.written_bytes,
                "busy_cycles": memory.busy_cycles,
            }
            for memory in report.memories.values()
        },
        "operators": [
            {
                "label": operator.label,
                "kernels": operator.kernels,
                "cycles": operator.cycles,
                "macs": operator.macs,
                "bound": operator.bound,
                "bytes": dict(operator.bytes),
            }
            for operator in report.operators
        ],
    }


def _metadata() -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": "NPU"}}
    for lane, name in _LANES.items():
        yield {"ph": "M", "pid": _PROCESS, "tid": lane, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": _PROCESS, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": lane}}


def _call(report: TimingReport, origin: int) -> Iterator[dict[str, Any]]:
    sizes = Counter(command.label for command in report.commands if command.kernel is not None)
    seen: Counter[str] = Counter()
    for command in report.commands:
        seen[command.label] += command.kernel is not None
        name = command.label or command.kind
        if sizes[command.label] > 1:
            name += f" stripe {seen[command.label]} of {sizes[command.label]}"
        yield from _command(command, name, origin)
    yield from _counters(report, origin)


def _command(command: TimedCommand, name: str, origin: int) -> Iterator[dict[str, Any]]:
    waited = command.issued - command.reached
    if waited > 0:
        why = f"waits: {command.kind}" if command.bound == "waiting" else f"queue full: {name}"
        yield _slice(FRONT_END, why, origin + command.reached, waited, {"command": command.command})
    if command.bound == "waiting":
        return
    moved = {f"{m} bytes": command.read_bytes[m] + command.written_bytes[m] for m in command.read_bytes}
    arguments: dict[str, Any] = {"command": command.command, "bound": command.bound, **moved}
    if command.kernel is None:
        yield _slice(DMA, name, origin + command.start, command.cycles, arguments)
        return
    kernel = command.kernel
    arguments |= {"kind": command.kind, "ofm": kernel.ofm, "ifm": kernel.ifm, "block": kernel.block}
    arguments |= {"blockdep": kernel.blockdep, "MAC engine cycles": kernel.mac_cycles, "hidden": kernel.hidden_cycles}
    yield _slice(COMPUTE, name, origin + command.start, command.cycles, arguments)
    # The output stage works until the kernel drains; where exactly between the blocks is not modelled.
    busy = min(kernel.output_cycles, command.cycles)
    yield _slice(OUTPUT, name, origin + command.end - busy, busy, {"command": command.command})


def _counters(report: TimingReport, origin: int) -> Iterator[dict[str, Any]]:
    """Average bytes per cycle of each memory over each operation's life, kernels and DMA apart."""
    for memory in report.memories:
        changes: dict[int, dict[str, float]] = {}
        for command in report.commands:
            moved = command.read_bytes[memory] + command.written_bytes[memory]
            if moved == 0 or command.cycles == 0:
                continue
            who, rate = "DMA" if command.kernel is None else "kernels", moved / command.cycles
            for time, change in ((command.start, rate), (command.end, -rate)):
                at = changes.setdefault(time, {})
                at[who] = at.get(who, 0.0) + change
        level: dict[str, float] = {"kernels": 0.0, "DMA": 0.0}
        for time in sorted(changes):
            for who, change in changes[time].items():
                level[who] += change
            args = {who: round(abs(rate), 3) for who, rate in level.items()}
            yield {"ph": "C", "pid": _PROCESS, "name": f"{memory} bytes/cycle", "ts": origin + time, "args": args}


def _slice(lane: int, name: str, start: int, duration: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    place = {"ph": "X", "pid": _PROCESS, "tid": lane, "ts": start, "dur": duration}
    return {"name": name, **place, "args": dict(arguments)}
