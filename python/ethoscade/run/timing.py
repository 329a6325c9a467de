"""The cost of a command stream of any compiler on a device: cycles and bytes of each operation and in total.

Owns the Python types around the timing model of `_core`; imports nothing of code generation. `docs/timing.md` names the
source of each rule and the weight of each assumption (`rules`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from .. import _core
from ..errors import ConfigError
from ..targets.target import Target
from ..util.arguments import checked
from ..util.records import dataclass
from .played import played

_TRANSFER = "dma"
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

    `kind` is a kernel's function, "dma" or the wait's name; `label` the operator that it serves, empty if unknown.
    Of the `stripes` kernels (or transfers) with this label it is number `stripe`, from 1. The front end reaches it
    at `reached`, it is in its queue at `issued` and runs in [start, end). `bound` is "compute", "output", a memory's
    name, "latency" or "waiting". By memory: `read_bytes`, `written_bytes`, and `memory_cycles`, what these bytes take
    the memory.
    """

    command: int
    kind: str
    label: str
    stripe: int
    stripes: int
    bound: str
    reached: int
    issued: int
    start: int
    end: int
    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]
    memory_cycles: Mapping[str, int]
    kernel: KernelDetail | None = None

    @property
    def cycles(self) -> int:
        """Cycles from start to end."""
        return self.end - self.start

    @property
    def name(self) -> str:
        """What people call it: "conv_3 stripe 4/28", "copy for conv_3", else what it does."""
        if not self.label:
            return self.kind
        what = self.label if self.kernel is not None else f"copy for {self.label}"
        if self.stripes == 1:
            return what
        return f"{what} {'stripe ' if self.kernel is not None else ''}{self.stripe}/{self.stripes}"

    @checked()
    def share(self, memory: str) -> float:
        """Share of a memory's bandwidth that it takes, 0..1: the average over its life. Raises `ConfigError`."""
        if memory not in self.memory_cycles:
            raise ConfigError(f"there is no memory {memory!r}; known are {', '.join(self.memory_cycles)}")
        return min(1.0, self.memory_cycles[memory] / self.cycles) if self.cycles else 0.0


@dataclass(frozen=True)
class OperatorTiming:
    """All kernels with one label: when the first began and the last ended, and the cycles in which one of them ran.

    `bound` is what bound most of these cycles, `bytes` what they moved by memory, `utilisation` the share of the
    multiply-accumulates that the accelerator could have done in these cycles. Transfers with the label ran beside:
    their number and cycles.
    """

    label: str
    kernels: int
    start: int
    end: int
    cycles: int
    macs: int
    bound: str
    utilisation: float
    bytes: Mapping[str, int]
    transfers: int
    transfer_cycles: int


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


@checked()
def simulate_timing(
    payload: bytes,
    target: Target,
    labels: Sequence[str] | None = None,
    rules: Mapping[str, int] | None = None,
) -> TimingReport:
    """Play a driver payload on `target`. Nothing is computed, so neither weights nor inputs are needed.

    `labels` names the operator of each kernel and transfer, in stream order; kernels beyond it are named after what
    they do. Which region lies in which memory `played.played` says. `rules` sets
    switches of docs/timing.md (booleans as 0 and 1). Raises `SimulationError` for a payload that is not one or was
    made for another accelerator, `ConfigError` for a switch that does not exist.
    """
    totals, ports, events = played(payload, target, rules)
    names = [name for name, _ in ports]
    commands = _commands(events, names, labels or ())
    return TimingReport(
        target.accelerator.name,
        *totals,
        memories={name: Traffic(name, *port) for name, port in ports},
        commands=commands,
        operators=_operators(commands, names, target.accelerator.macs),
    )


def _commands(
    events: Sequence[_core.TimedEvent], names: Sequence[str], labels: Sequence[str]
) -> tuple[TimedCommand, ...]:
    named = _labels(events, labels)
    kinds = [(label, event[0] == _TRANSFER) for event, label in zip(events, named, strict=True)]
    sizes, seen = Counter(kinds), Counter[tuple[str, bool]]()
    commands = []
    for (kind, command, bound, times, loads, detail), label, key in zip(events, named, kinds, strict=True):
        seen[key] += 1
        commands.append(
            TimedCommand(
                command,
                _WAITS.get(kind, kind),
                label,
                seen[key] if label else 1,
                sizes[key] if label else 1,
                bound,
                *times,
                read_bytes={name: load[0] for name, load in zip(names, loads, strict=True)},
                written_bytes={name: load[1] for name, load in zip(names, loads, strict=True)},
                memory_cycles={name: load[2] for name, load in zip(names, loads, strict=True)},
                kernel=None if detail is None else KernelDetail(*detail[0], *detail[1]),
            )
        )
    return tuple(commands)


def _labels(events: Sequence[_core.TimedEvent], given: Sequence[str]) -> list[str]:
    """The label of each event: the one given, else a kernel's is what it does."""
    found = []
    operations = kernels = 0
    for kind, _, _, _, _, detail in events:
        label = ""
        if kind not in _WAITS:
            if operations < len(given):
                label = given[operations]
            elif detail is not None:
                height, width, depth = detail[0][0]
                label = f"{kind} {height}x{width}x{depth} #{kernels}"
            operations += 1
            kernels += detail is not None
        found.append(label)
    return found


def _operators(commands: Sequence[TimedCommand], names: Sequence[str], macs: int) -> tuple[OperatorTiming, ...]:
    groups: dict[str, list[TimedCommand]] = {}
    copies: dict[str, list[TimedCommand]] = {}
    for command in commands:
        if command.kernel is not None:
            groups.setdefault(command.label, []).append(command)
        elif command.label:
            copies.setdefault(command.label, []).append(command)
    return tuple(_operator(label, members, copies.get(label, ()), names, macs) for label, members in groups.items())


def _operator(
    label: str, kernels: Sequence[TimedCommand], copies: Sequence[TimedCommand], names: Sequence[str], macs: int
) -> OperatorTiming:
    by_bound: dict[str, int] = {}
    for command in kernels:
        by_bound[command.bound] = by_bound.get(command.bound, 0) + command.cycles
    cycles = sum(command.cycles for command in kernels)
    done = sum(command.kernel.macs for command in kernels if command.kernel is not None)
    return OperatorTiming(
        label=label,
        kernels=len(kernels),
        start=kernels[0].start,
        end=kernels[-1].end,
        cycles=cycles,
        macs=done,
        bound=max(by_bound, key=lambda bound: by_bound[bound]),
        utilisation=done / (cycles * macs) if cycles else 0.0,
        bytes={name: sum(c.read_bytes[name] + c.written_bytes[name] for c in kernels) for name in names},
        transfers=len(copies),
        transfer_cycles=sum(command.cycles for command in copies),
    )
