"""A timing report as people and machines read it: a Chrome/Perfetto trace, the JSON of `simulate`, a few lines of text.

Owns wording and schema; what happened when is the timing model's. A cycle is a microsecond of the trace, so that
viewers show cycles. Lanes: front end, compute, output, DMA, and one for each memory, whose slices say who uses it and
which share of its bandwidth each takes on average; counters give the bytes per cycle.

Format: "Trace Event Format" of Chromium: complete events (X), metadata (M) and counters (C), ordered by time; slices
of a lane follow each other or lie inside each other.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..codegen import provenance
from ..errors import ModelFormatError
from ..ir import Graph, Operator
from ..run.execution import accelerator_of, has_fast_memory, npu_operators
from ..run.timing import TimedCommand, TimingReport, simulate_timing
from ..target import Target, load_target
from ..util.files import write_whole

FRONT_END, COMPUTE, OUTPUT, DMA = range(1, 5)
_LANES = {FRONT_END: "front end", COMPUTE: "compute", OUTPUT: "output stage", DMA: "DMA"}
_FIRST_MEMORY = DMA + 1
_PROCESS = 1
_TEXT_OPERATORS = 5
# System and memory mode of files whose fast scratch is a memory of its own: Vela's own default for the Ethos-U65.
_DEDICATED = ("Ethos_U65_Client_Server", "Dedicated_Sram")


def time_file(
    graph: Graph, system_config: str | None = None, memory_mode: str | None = None, config: str | None = None
) -> list[tuple[str, TimingReport]]:
    """Time each `ethos-u` operator of a compiled file: (operator's name, report).

    Operations bear the names of the network's operators if the file gives them (`provenance`). A file whose fast
    scratch is a memory of its own is timed as Dedicated_Sram unless `memory_mode` says otherwise. Raises
    `ModelFormatError` for a file without such operators or with names for other streams, `SimulationError` for a
    damaged payload, `ConfigError` for a system that does not exist.
    """
    calls = npu_operators(graph)
    entry = graph.metadata.get(provenance.ENTRY)
    names = provenance.short(provenance.decode(entry)) if entry is not None else ((),) * len(calls)
    if len(names) != len(calls):
        raise ModelFormatError(f"metadata '{provenance.ENTRY}' is for {len(names)} calls; the file has {len(calls)}")
    reports = []
    for operator, labels in zip(calls, names, strict=True):
        payload = _payload(graph, operator)
        target = _target(graph, operator, payload, system_config, memory_mode, config)
        report = simulate_timing(payload, target, labels)
        operations = sum(command.bound != "waiting" for command in report.commands)
        if entry is not None and len(labels) != operations:
            raise ModelFormatError(
                f"metadata '{provenance.ENTRY}' names {len(labels)} operations; '{operator.name}' has {operations}",
                operator=operator.name,
            )
        reports.append((operator.name, report))
    return reports


def _payload(graph: Graph, operator: Operator) -> bytes:
    first = operator.inputs[0] if operator.inputs else None
    data = graph.tensors[first].data if first is not None else None
    if data is None:
        raise ModelFormatError(f"operator '{operator.name}' has no constant payload", operator=operator.name)
    return data.tobytes()


def _target(
    graph: Graph,
    operator: Operator,
    payload: bytes,
    system_config: str | None,
    memory_mode: str | None,
    config: str | None,
) -> Target:
    """The system that the caller names; what is left open follows from the file."""
    if memory_mode is None and has_fast_memory(graph, operator):
        memory_mode = _DEDICATED[1]
        system_config = system_config or _DEDICATED[0]
    return load_target(accelerator_of(payload), system_config, memory_mode, config)


def trace(reports: Sequence[tuple[str, TimingReport]]) -> dict[str, Any]:
    """The calls of one inference, one after the other, as a trace object; the CPU's time between them is not in it."""
    memories = list(dict.fromkeys(memory for _, report in reports for memory in report.memories))
    lanes = {memory: _FIRST_MEMORY + position for position, memory in enumerate(memories)}
    events: list[dict[str, Any]] = []
    start = 0
    for name, report in reports:
        events.append(_slice(FRONT_END, name, start, report.cycles, {"accelerator": report.accelerator}))
        events += _call(report, start, lanes)
        start += report.cycles
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
    other = {"unit": "1 us of the trace is 1 NPU cycle", "cycles": start}
    return {"traceEvents": [*_metadata(lanes), *events], "displayTimeUnit": "ms", "otherData": other}


def write_trace(reports: Sequence[tuple[str, TimingReport]], path: str | os.PathLike[str]) -> Path:
    """Write the trace for chrome://tracing or ui.perfetto.dev. Raises `CodegenError` if the file cannot be written."""
    return write_whole(path, json.dumps(trace(reports)).encode())


def timing_json(reports: Sequence[tuple[str, TimingReport]]) -> dict[str, Any]:
    """The `timing` object of `simulate --json`: totals, and the operators and commands of each call."""
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
            stripes = f", {operator.kernels} stripes" if operator.kernels > 1 else ""
            lines.append(f"  {operator.cycles:>12,} cycles  {operator.label} ({operator.bound}{stripes})")
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
                "utilisation": round(operator.utilisation, 6),
                "bound": operator.bound,
                "bytes": dict(operator.bytes),
                "transfers": operator.transfers,
                "transfer_cycles": operator.transfer_cycles,
            }
            for operator in report.operators
        ],
        "commands": [
            {
                "command": command.command,
                "kind": command.kind,
                "label": command.label,
                "stripe": command.stripe,
                "start": command.start,
                "cycles": command.cycles,
                "bound": command.bound,
                "read_bytes": dict(command.read_bytes),
                "written_bytes": dict(command.written_bytes),
            }
            for command in report.commands
        ],
    }


def _metadata(memories: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": "NPU"}}
    lanes = {**_LANES, **{lane: memory for memory, lane in memories.items()}}
    for lane, name in lanes.items():
        yield {"ph": "M", "pid": _PROCESS, "tid": lane, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": _PROCESS, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": lane}}


def _call(report: TimingReport, origin: int, lanes: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for command in report.commands:
        yield from _command(command, origin)
    for memory in report.memories:
        yield from _users(report, memory, lanes[memory], origin)
    yield from _counters(report, origin)


def _command(command: TimedCommand, origin: int) -> Iterator[dict[str, Any]]:
    name = command.name
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


def _users(report: TimingReport, memory: str, lane: int, origin: int) -> Iterator[dict[str, Any]]:
    """A slice for each span in which the same kernel and transfer use a memory; fetching of commands is left out."""
    users = [c for c in report.commands if c.memory_cycles[memory] and c.cycles]
    begins: dict[int, list[TimedCommand]] = {}
    for command in users:
        begins.setdefault(command.start, []).append(command)
    active: list[TimedCommand] = []
    for time, following in itertools.pairwise(sorted({*begins, *(c.end for c in users)})):
        active = [c for c in active if c.end > time] + begins.get(time, [])
        if active:
            shares = {command.name: f"{100 * command.share(memory):.0f}%" for command in active}
            name = ", ".join(f"{user} {share}" for user, share in shares.items())
            yield _slice(lane, name, origin + time, following - time, shares)


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
