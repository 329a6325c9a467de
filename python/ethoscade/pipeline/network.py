"""A model made ready for scheduling on a target, and the scheduling problem that it is.

Owns the type that everything after the encoder works on, and stating its problem. Nothing is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from ..codegen.kernel_table import OURS, KernelTable
from ..codegen.layout import distance, may_overlay
from ..codegen.weights import EncodedOperation
from ..ir import Graph
from ..lowering.npu import NpuGraph
from ..rewrites import DeadChannels
from ..scheduling import problem as scheduling_problem
from ..scheduling.problem import Problem
from ..scheduling.specs import CallMemory, Encoding
from ..targets.target import Target
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .partition import Partition


class SchedulableModel(Protocol):
    """A model and the scheduling problem that it is, whatever the device."""

    @property
    def source(self) -> Graph:
        """The model as it was read."""

    @property
    def graph(self) -> Graph:
        """The model as the rewrites left it."""

    @property
    def npu(self) -> NpuGraph:
        """What of it the NPU does."""

    @property
    def problem(self) -> Problem:
        """What is searched."""


@dataclass(frozen=True, eq=False)
class Network:
    """A model made ready for scheduling on a target: everything that no budget changes."""

    source: Graph
    graph: Graph
    target: Target
    partition: Partition
    npu: NpuGraph
    encoded: tuple[EncodedOperation, ...]
    problem: Problem
    dead_channels: tuple[DeadChannels, ...] = ()
    kernels: KernelTable = OURS
    encodings: tuple[Encoding, ...] = ()
    workspaces: Mapping[int, int] = field(default_factory=lambda: FrozenMap({}))

    @property
    def summary(self) -> str:
        """What became of the model, in a line of a log."""
        return (
            f"{len(self.partition.npu_operators):,} operators on the NPU as {len(self.npu.operations):,} operations, "
            f"{len(self.partition.cpu_operators):,} on the CPU, "
            f"{sum(one.whole.length_bytes for one in self.encoded if one.whole):,} bytes of weight streams"
        )


def stated(
    graph: Graph,
    divided: Partition,
    npu: NpuGraph,
    encodings: Sequence[Encoding],
    target: Target,
    workspaces: Mapping[int, int],
) -> Problem:
    """The scheduling problem of a lowered network, whose operators on the CPU work in `workspaces` bytes."""

    def memory(operator: int) -> CallMemory:
        op, workspace_bytes = graph.operators[operator], workspaces.get(operator, 0)
        overlays = workspace_bytes == 0 and may_overlay(graph, op)
        return CallMemory(workspace_bytes, distance(graph, op) if overlays else None)

    calls = {operator: memory(operator) for operator in divided.cpu_operators}
    return scheduling_problem.build(graph, divided.order, npu, encodings, target.placed_for, calls)


def with_cache(network: Network, size_bytes: int) -> Network:
    """The network's problem on a device with a given size of cache."""
    n = network
    target = n.target.with_cache_of(size_bytes)
    problem = stated(n.graph, n.partition, n.npu, n.encodings, target, n.workspaces)
    return replace(n, target=target, problem=problem)
