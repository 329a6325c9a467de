"""A record as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

Owns lanes, counters, names and the format: "Trace Event Format" of Chromium, with complete events (X), instants (i),
counters (C), flows (s, f) and metadata (M), ordered by time; slices of a lane follow each other or lie inside each
other. Times are microseconds at the configuration's clock, in whole nanoseconds; a slice's `cycles` are exact.

Processes: the NPU with its engines, DMA and memories; a process for each cascade with a lane for each operator; the
other operators of the NPU; operators on the CPU, which take no time where none is known; counters of memory in use.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from ..run.timing import TimedCommand, TimingReport
from ..util.files import write_whole
from ..util.records import dataclass
from .record import Record, RecordedCall, RecordedCpu, RecordedOperation

Event = dict[str, Any]

_NPU, _CPU, _MEMORY, _ALONE, _CASCADES = 1, 2, 3, 4, 10
FRONT_END, COMPUTE, OUTPUT, DMA = "front end", "compute", "output stage", "DMA"
ON_CPU = "operators"
ALONE = "operators outside cascades"
NOT_COUNTED = "not counted"
_NANOSECONDS = 10**9


def trace(record: Record) -> dict[str, Any]:
    """The calls of one inference, one after the other, as a trace object."""
    drawing = _Drawing(record)
    for number, call in enumerate(record.calls):
        if isinstance(call, RecordedCall):
            drawing.npu_call(number, call)
        else:
            drawing.cpu_operator(call)
    return drawing.finished()


def write_trace(record: Record, path: str | os.PathLike[str]) -> Path:
    """Write the trace, whole or not at all. Raises `CodegenError` if the file cannot be written."""
    return write_whole(path, json.dumps(trace(record), ensure_ascii=False).encode("utf-8", "surrogateescape"))


def microseconds(nanoseconds: int) -> int | float:
    """The number that stands for nanoseconds: Perfetto cuts a thousand times it down to a whole number."""
    whole, rest = divmod(nanoseconds, 1000)
    if not rest:
        return whole
    number = nanoseconds / 1000
    return number if int(number * 1000.0) == nanoseconds else math.nextafter(number, math.inf)


@dataclass(frozen=True)
class _Clock:
    """From cycles to nanoseconds, rounded, so that what touches goes on touching."""

    hz: float

    def nanoseconds(self, cycles: int) -> int:
        hz = int(self.hz) if self.hz == int(self.hz) else self.hz
        return int((2 * cycles * _NANOSECONDS + hz) // (2 * hz))


@dataclass
class _Drawing:
    """The events of a trace as they come; `now` is where the next call begins, in nanoseconds."""

    record: Record
    now: int = 0
    events: list[tuple[int, int, Event]] = field(default_factory=list)
    lanes: dict[tuple[int, str], int] = field(default_factory=dict)
    samples: dict[int, _Sample] = field(default_factory=dict)
    flows: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.clock = _Clock(self.record.clock_hz or float(_NANOSECONDS))
        for name in (FRONT_END, COMPUTE, OUTPUT, DMA):
            self.lane(_NPU, name)
        for call in self.record.npu_calls:
            for memory in call.report.memories:
                self.lane(_NPU, memory)

    def lane(self, process: int, name: str) -> int:
        """The lane's number, which no other lane has in any process."""
        return self.lanes.setdefault((process, name), len(self.lanes) + 1)

    # --- calls ---------------------------------------------------------------------------------------------------

    def npu_call(self, number: int, call: RecordedCall) -> None:
        report, origin = call.report, self.now
        told = {"cycles": report.cycles, "accelerator": report.accelerator}
        self.slice((_NPU, FRONT_END), "call", call.name, (0, report.cycles), told)
        names = {of.timed.command: of.name for of in call.operations}
        for command in report.commands:
            waited = command.issued - command.reached
            if waited > 0:
                waits = command.bound == "waiting"
                why = f"waits: {command.kind}" if waits else f"queue full: {names[command.command]}"
                told = {"command": command.command, "cycles": waited}
                self.slice((_NPU, FRONT_END), "wait", why, (command.reached, command.issued), told)
        for at, operation in enumerate(call.operations):
            self.operation(number, operation)
            self.sample(operation, self.ns(operation.timed.start))
            self.arrivals(number, call, at)
        for memory in report.memories:
            self.users(report, names, memory)
            self.rates(report, memory)
        self.now = origin + self.clock.nanoseconds(report.cycles)

    def cpu_operator(self, call: RecordedCpu) -> None:
        self.sample(call, self.now)
        told = {"kind": call.kind, "time": NOT_COUNTED}
        place = {"pid": _CPU, "tid": self.lane(_CPU, ON_CPU), "cat": "cpu", "name": call.name}
        if call.microseconds is None:
            self.add(self.now, 0, {**place, "ph": "i", "s": "t", "args": told})
            return
        duration = max(0, round(call.microseconds * 1000))
        told["time"] = "estimated"
        self.add(self.now, duration, {**place, "ph": "X", "dur": microseconds(duration), "args": told})
        self.now += duration

    def operation(self, number: int, operation: RecordedOperation) -> None:
        command, told = operation.timed, _arguments(operation)
        span = (command.start, command.end)
        if command.kernel is None:
            self.slice((_NPU, DMA), "dma", operation.name, span, told)
            return
        self.slice((_NPU, COMPUTE), "kernel", operation.name, span, told)
        # The output stage works until the kernel drains; where exactly between the blocks is not modelled.
        busy = min(command.kernel.output_cycles, command.cycles)
        reference = {"command": command.command, "cycles": busy}
        self.slice((_NPU, OUTPUT), "kernel", operation.name, (command.end - busy, command.end), reference)
        cascade = operation.cascade
        own = (_ALONE, ALONE) if cascade is None else (_CASCADES + cascade, operation.operator)
        self.slice(own, "kernel", operation.name, span, {**told, "call": number})

    def arrivals(self, number: int, call: RecordedCall, at: int) -> None:
        """Arrows from the transfers whose bytes a kernel is the first to read."""
        kernel = call.operations[at].timed
        for maker in call.operations[at].makers:
            source = call.operations[maker.operation] if maker.call == number else None
            if source is None or source.serves != at or not source.timed.cycles or not kernel.cycles:
                continue
            flow = next(self.flows)
            for phase, lane, time in (("s", DMA, source.timed.start), ("f", COMPUTE, kernel.start)):
                place = {"pid": _NPU, "tid": self.lane(_NPU, lane), "cat": "dma", "name": "bytes copied", "id": flow}
                # An arrow belongs to the slice around it, so it comes behind the slice that begins with it.
                self.add(self.ns(time), -1, {**place, "ph": phase, "bp": "e", "args": {}})

    def users(self, report: TimingReport, names: Mapping[int, str], memory: str) -> None:
        """A slice for each span in which the same kernel and transfer use a memory; fetching commands is left out."""
        users = [c for c in report.commands if c.memory_cycles[memory] and c.cycles]
        begins: dict[int, list[TimedCommand]] = {}
        for command in users:
            begins.setdefault(command.start, []).append(command)
        active: list[TimedCommand] = []
        for time, following in itertools.pairwise(sorted({*begins, *(c.end for c in users)})):
            active = [c for c in active if c.end > time] + begins.get(time, [])
            if active:
                shares = {names[command.command]: f"{100 * command.share(memory):.0f}%" for command in active}
                name = ", ".join(f"{user} {share}" for user, share in shares.items())
                told = {**shares, "cycles": following - time}
                self.slice((_NPU, memory), "memory", name, (time, following), told)

    def rates(self, report: TimingReport, memory: str) -> None:
        """Average bytes per cycle of a memory over each operation's life, kernels and DMA apart."""
        changes: dict[int, dict[str, float]] = {}
        for command in report.commands:
            moved = command.read_bytes[memory] + command.written_bytes[memory]
            if moved == 0 or command.cycles == 0:
                continue
            who, rate = "DMA" if command.kernel is None else "kernels", moved / command.cycles
            for time, change in ((command.start, rate), (command.end, -rate)):
                at = changes.setdefault(time, {})
                at[who] = at.get(who, 0.0) + change
        level = {"kernels": 0.0, "DMA": 0.0}
        for time in sorted(changes):
            for who, change in changes[time].items():
                level[who] += change
            rates = {who: round(abs(rate), 3) for who, rate in level.items()}
            self.counter(_NPU, f"{memory} bytes/cycle", self.ns(time), rates)

    # --- events --------------------------------------------------------------------------------------------------

    def ns(self, cycles: int) -> int:
        """A moment of the running call."""
        return self.now + self.clock.nanoseconds(cycles)

    def slice(
        self, lane: tuple[int, str], category: str, name: str, span: tuple[int, int], arguments: Mapping[str, Any]
    ) -> None:
        start, end = map(self.ns, span)
        place = {"pid": lane[0], "tid": self.lane(*lane), "cat": category, "name": name}
        self.add(start, end - start, {**place, "ph": "X", "dur": microseconds(end - start), "args": dict(arguments)})

    def counter(self, process: int, name: str, time: int, values: Mapping[str, float]) -> None:
        self.add(time, 0, {"pid": process, "name": name, "ph": "C", "args": dict(values)})

    def add(self, time: int, duration: int, event: Event) -> None:
        self.events.append((time, duration, {**event, "ts": microseconds(time)}))

    def sample(self, step: RecordedOperation | RecordedCpu, time: int) -> None:
        """Memory in use at a step; steps count in their order, also where a copy begins before a step ahead of it."""
        time = max(time, max(self.samples, default=0))
        found = _Sample(
            {memory: live.bytes for memory, live in step.live.items()},
            {memory: live.end for memory, live in step.live.items()},
            dict(step.buffers),
        )
        before = self.samples.get(time)
        self.samples[time] = found if before is None else before.most(found)

    def finished(self) -> dict[str, Any]:
        for time, sample in self.samples.items():
            for name, values in sample.counters(next(iter(sample.live), "")):
                self.counter(_MEMORY, name, time, values)
        self.events.sort(key=lambda event: (event[0], -event[1]))
        other = {
            "accelerator": self.record.accelerator,
            "clock_hz": self.record.clock_hz,
            "cycles": self.record.cycles,
            "cpu_operators": self._cpu_time(),
        }
        events = [*self._metadata(), *(event for _, _, event in self.events)]
        return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}

    def _cpu_time(self) -> str:
        on_cpu = [call for call in self.record.calls if isinstance(call, RecordedCpu)]
        counted = sum(call.microseconds is not None for call in on_cpu)
        return f"{len(on_cpu)}, the time of {counted} estimated, of the others {NOT_COUNTED}"

    def _metadata(self) -> Iterator[Event]:
        names = {_NPU: f"NPU {self.record.accelerator}", _CPU: "CPU", _MEMORY: "memory in use"}
        names[_ALONE] = "operators of the NPU"
        for process in sorted({process for process, _ in self.lanes} | ({_MEMORY} if self.samples else set())):
            name = names.get(process) or self._cascade(process)
            yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
            yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
        for (process, name), lane in self.lanes.items():
            yield {"ph": "M", "pid": process, "tid": lane, "name": "thread_name", "args": {"name": name}}
            yield {"ph": "M", "pid": process, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": lane}}

    def _cascade(self, process: int) -> str:
        operators = [name for of, name in self.lanes if of == process]
        return f"cascade {process - _CASCADES}: {operators[0]} to {operators[-1]}"


@dataclass(frozen=True)
class _Sample:
    """Memory in use at a moment: live bytes and the highest of them by memory, bytes by kind of buffer."""

    live: Mapping[str, int]
    highest: Mapping[str, int]
    buffers: Mapping[str, int]

    def most(self, other: _Sample) -> _Sample:
        """What is most of two that fall on one moment."""
        fuller = max(self, other, key=lambda sample: sum(sample.buffers.values()))
        return _Sample(_larger(self.live, other.live), _larger(self.highest, other.highest), fuller.buffers)

    def counters(self, arena: str) -> Iterator[tuple[str, dict[str, int]]]:
        for memory, size in self.live.items():
            known = sum(self.buffers.values()) if self.buffers and memory == arena else size
            yield f"{memory} live bytes", {"bytes": known}
            yield f"{memory} highest byte in use", {"bytes": self.highest[memory]}
        if self.buffers:
            yield f"{arena} live bytes by kind", dict(self.buffers)


def _larger(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {key: max(a.get(key, 0), b.get(key, 0)) for key in (*a, *b)}


def _arguments(operation: RecordedOperation) -> dict[str, Any]:
    """What a slice says of its operation."""
    command = operation.timed
    told: dict[str, Any] = {"command": command.command, "offset": operation.offset, "cycles": command.cycles}
    told |= {"bound": command.bound, "operator": operation.operator}
    if operation.cascade is not None:
        told["cascade"] = operation.cascade
    for memory in command.read_bytes:
        told[f"{memory} bytes read"] = command.read_bytes[memory]
        told[f"{memory} bytes written"] = command.written_bytes[memory]
    told |= {f"{memory} live bytes": live.bytes for memory, live in operation.live.items()}
    if command.kernel is not None:
        kernel = command.kernel
        told |= {"kind": command.kind, "ofm": shape(kernel.ofm), "ifm": shape(kernel.ifm), "block": shape(kernel.block)}
        told |= {
            "MACs": kernel.macs,
            "MAC engine cycles": kernel.mac_cycles,
            "output stage cycles": kernel.output_cycles,
        }
        told |= {"BLOCKDEP": kernel.blockdep, "hidden cycles": kernel.hidden_cycles}
    return told


def shape(sizes: Iterable[int]) -> str:
    """Height, width, depth in words."""
    return "x".join(map(str, sizes))
