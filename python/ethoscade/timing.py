"""What a command stream costs on a device: cycles and bytes of each operation and in total, whoever made the stream.

Owns the Python types around the timing model of `_core`; imports nothing of code generation. `docs/timing.md` names the
source of each rule and the weight of each assumption (`rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _core
from .errors import ConfigError
from .target import Memory, Target

_REGIONS = 8
_CONSTANTS_REGION = 0
_WAITS = {"kernels": "KERNEL_WAIT", "transfers": "DMA_WAIT", "everything": "STOP"}

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Traffic:
    """Bytes that went through one memory, and the cycles that they take it at full bandwidth."""

    memory: str
    kernel_read_bytes: int
    kernel_written_bytes: int
    dma_read_bytes: int
    dma_written_bytes: int
    command_bytes: int
    busy_cycles: int

    @property
    def read_bytes(self) -> int:
        """All bytes read: by kernels, DMA and the front end."""
        return self.kernel_read_bytes + self.dma_read_bytes + self.command_bytes

    @property
    def written_bytes(self) -> int:
        """All bytes written: by kernels and DMA."""
        return self.kernel_written_bytes + self.dma_written_bytes


@dataclass(frozen=True)
class KernelDetail:
    """A kernel alone, in cycles unless it says otherwise. Shapes are height, width, depth.

    `alone = max(fill + pipeline + drain, bytes of each memory / its bandwidth + its latencies)`; `hidden` is the part
    of it that BLOCKDEP let overlap with the kernel before.
    """

    ofm: Shape
    ifm: Shape
    block: Shape
    blockdep: int
    macs: int
    blocks: int
    jobs: int
    mac_cycles: int
    output_cycles: int
    pipeline_cycles: int
    fill_cycles: int
    drain_cycles: int
    alone_cycles: int
    hidden_cycles: int


@dataclass(frozen=True)
class TimedCommand:
    """One operation of the stream in time, in cycles from the first command.

    `kind` is a kernel's function, "dma" or the wait's name; `label` the caller's name for a kernel. The front end comes
    to it at `reached`, it is in its queue at `issued` and runs in [start, end). `bound` is "compute", "output", a
    memory's name, "latency" or "waiting". `read_bytes` and `written_bytes` by memory.
    """

    command: int
    kind: str
    label: str
    bound: str
    reached: int
    issued: int
    start: int
    end: int
    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]
    kernel: KernelDetail | None = None

    @property
    def cycles(self) -> int:
        """Cycles from start to end."""
        return self.end - self.start


@dataclass(frozen=True)
class OperatorTiming:
    """All kernels with one label: when the first began and the last ended, and the cycles in which one of them ran.

    `bound` is what bound most of these cycles, `bytes` what they moved by memory.
    """

    label: str
    kernels: int
    start: int
    end: int
    cycles: int
    macs: int
    bound: str
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class TimingReport:
    """A payload in time. Cycles are NPU cycles; CPU operators and the driver are not part of it.

    `lower_bound_cycles` is what no order of these very kernels and transfers beats: the busiest of MAC engine, output
    stage and memories. `constant_bytes` counts each byte of weights, scales and DMA sources in the constants once.
    """

    accelerator: str
    cycles: int
    kernel_cycles: int
    dma_cycles: int
    front_end_cycles: int
    macs: int
    mac_engine_cycles: int
    least_mac_cycles: int
    output_stage_cycles: int
    constant_bytes: int
    lower_bound_cycles: int
    memories: Mapping[str, Traffic]
    commands: tuple[TimedCommand, ...] = field(repr=False)
    operators: tuple[OperatorTiming, ...] = field(repr=False)

    @property
    def utilisation(self) -> float:
        """Share of the multiply-accumulates that the accelerator could have done, 0..1."""
        return self.least_mac_cycles / self.cycles if self.cycles else 0.0

    @property
    def waiting_cycles(self) -> int:
        """Cycles in which no kernel ran."""
        return self.cycles - self.kernel_cycles

    @property
    def bound_cycles(self) -> dict[str, int]:
        """Cycles of kernels by what bound them, and "waiting" for the rest."""
        sums: dict[str, int] = {}
        for command in self.commands:
            if command.kernel is not None:
                sums[command.bound] = sums.get(command.bound, 0) + command.cycles
        sums["waiting"] = self.waiting_cycles
        return sums


def simulate_timing(
    payload: bytes,
    target: Target,
    labels: Sequence[str] | None = None,
    rules: Mapping[str, int] | None = None,
) -> TimingReport:
    """Play a driver payload on `target`. Nothing is computed, so neither weights nor inputs are needed.

    `labels` names the operator of each kernel, in stream order; kernels beyond it are named after what they do. `rules`
    sets switches of docs/timing.md (booleans as 0 and 1). Raises `SimulationError` for a payload that is not one or was
    made for another accelerator, `ConfigError` for a switch that does not exist.
    """
    memories, constants, arena = _ports(target)
    regions = [constants if region == _CONSTANTS_REGION else arena for region in range(_REGIONS)]
    try:
        totals, ports, events = _core.time_payload(
            bytes(payload), target.accelerator.name, memories, regions, constants, list((rules or {}).items())
        )
    except (ValueError, OverflowError) as error:
        raise ConfigError(str(error)) from error
    names = [memory[0] for memory in memories]
    commands = _commands(events, names, labels or ())
    return TimingReport(
        target.accelerator.name,
        *totals,
        memories={name: Traffic(name, *row) for name, row in zip(names, ports, strict=True)},
        commands=commands,
        operators=_operators(commands, names),
    )


def _ports(target: Target) -> tuple[list[Any], int, int]:
    """Rows of the memories, and the indices of the constants' (and the commands') and of the arena's."""

    def row(memory: Memory) -> tuple[str, int, int, int, int, int]:
        rate = memory.bytes_per_cycle
        return (memory.name, rate[0], rate[1], memory.read_latency, memory.write_latency, memory.burst_bytes)

    if target.constants == target.arena:
        return [row(target.arena)], 0, 0
    return [row(target.arena), row(target.constants)], 1, 0


def _commands(
    events: Sequence[_core.TimedEvent], names: Sequence[str], labels: Sequence[str]
) -> tuple[TimedCommand, ...]:
    commands = []
    kernels = 0
    for kind, command, bound, times, loads, detail in events:
        label, kernel = "", None
        if detail is not None:
            (ofm, ifm, block, blockdep), cost = detail
            kernel = KernelDetail(ofm, ifm, block, blockdep, *cost)
            height, width, depth = kernel.ofm
            label = labels[kernels] if kernels < len(labels) else f"{kind} {height}x{width}x{depth} #{kernels}"
            kernels += 1
        commands.append(
            TimedCommand(
                command,
                _WAITS.get(kind, kind),
                label,
                bound,
                *times,
                read_bytes={name: load[0] for name, load in zip(names, loads, strict=True)},
                written_bytes={name: load[1] for name, load in zip(names, loads, strict=True)},
                kernel=kernel,
            )
        )
    return tuple(commands)


def _operators(commands: Sequence[TimedCommand], names: Sequence[str]) -> tuple[OperatorTiming, ...]:
    groups: dict[str, list[TimedCommand]] = {}
    for command in commands:
        if command.kernel is not None:
            groups.setdefault(command.label, []).append(command)
    rows = []
    for label, members in groups.items():
        by_bound: dict[str, int] = {}
        for command in members:
            by_bound[command.bound] = by_bound.get(command.bound, 0) + command.cycles
        rows.append(
            OperatorTiming(
                label=label,
                kernels=len(members),
                start=members[0].start,
                end=members[-1].end,
                cycles=sum(command.cycles for command in members),
                macs=sum(command.kernel.macs for command in members if command.kernel is not None),
                bound=max(by_bound, key=lambda bound: by_bound[bound]),
                bytes={name: sum(c.read_bytes[name] + c.written_bytes[name] for c in members) for name in names},
            )
        )
    return tuple(rows)
