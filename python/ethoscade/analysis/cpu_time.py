"""What the operators on the CPU cost: estimated on a described Cortex-M, or named as not counted.

Owns the types of that estimate and the work that an operator is. What work costs is the description's (`targets.cpus`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import ConfigError
from ..ir import Graph, Operator
from ..targets.cpus import CpuDescription, described
from ..targets.target import Target
from ..util.records import dataclass
from .table import OperatorSummary


@dataclass(frozen=True)
class CpuOperatorTime:
    """An operator on the CPU and its cycles there, at least and at most; both None where unknown."""

    name: str
    kind: str
    least_cycles: int | None
    most_cycles: int | None


@dataclass(frozen=True)
class CpuTime:
    """All operators on the CPU, in the order in which they run, on the core that `cpu` describes; None: on no core.

    `milliseconds` are the least and the most of those that are counted, at `clock_hz`; None where none is.
    """

    cpu: CpuDescription | None
    clock_hz: float | None
    operators: tuple[CpuOperatorTime, ...]

    @property
    def milliseconds(self) -> tuple[float, float] | None:
        """The least and the most of the operators that are counted; None where none is."""
        if self.clock_hz is None or len(self.not_counted) == len(self.operators):
            return None
        least = sum(of.least_cycles or 0 for of in self.operators)
        most = sum(of.most_cycles or 0 for of in self.operators)
        return 1000 * least / self.clock_hz, 1000 * most / self.clock_hz

    @property
    def ranges(self) -> tuple[tuple[float, float] | None, ...]:
        """Of each operator the least and the most milliseconds; None where unknown."""
        per_cycle = 1000 / (self.clock_hz or 1.0)
        return tuple(
            None
            if of.least_cycles is None or of.most_cycles is None
            else (per_cycle * of.least_cycles, per_cycle * of.most_cycles)
            for of in self.operators
        )

    @property
    def core_text(self) -> str | None:
        """The core, its clock and its kernels in a few words; None without one."""
        if self.cpu is None:
            return None
        return f"a {self.cpu.name} at {(self.clock_hz or 0) / 1e6:g} MHz with {self.cpu.kernels} kernels"

    @property
    def not_counted(self) -> tuple[CpuOperatorTime, ...]:
        """The operators that no figure has."""
        return tuple(of for of in self.operators if of.least_cycles is None)


def cpu_time_of(
    graph: Graph, operators: Sequence[OperatorSummary], target: Target, cpu: str | CpuDescription | None
) -> CpuTime:
    """The estimate for the operators on the CPU. Raises `ConfigError` for an unknown core, or no clock."""
    core = described(cpu) if isinstance(cpu, str) else cpu
    clock = None if core is None else core.clock_hz or target.core_clock_hz or None
    if core is not None and clock is None:
        raise ConfigError(f"without an NPU the CPU's clock is not known; give it, as in {core.name}@400MHz")
    return CpuTime(core, clock, tuple(_timed(graph, of, core) for of in operators if of.where == "cpu"))


def _timed(graph: Graph, of: OperatorSummary, core: CpuDescription | None) -> CpuOperatorTime:
    cycles = None if core is None else core.cycles(of.kind, of.macs, _elements(graph, graph.operators[of.index]))
    if cycles is None:
        return CpuOperatorTime(of.name, of.kind, None, None)
    return CpuOperatorTime(of.name, of.kind, math.floor(cycles[0]), math.ceil(cycles[1]))


def _elements(graph: Graph, operator: Operator) -> int:
    """Elements of the largest tensor that it reads or makes, constants left out."""
    touched = [t for t in (*operator.inputs, *operator.outputs) if t is not None and not graph.tensors[t].is_constant]
    return max((math.prod(graph.tensors[t].shape) for t in touched), default=0)
