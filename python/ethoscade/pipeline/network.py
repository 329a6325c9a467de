"""A model made ready for scheduling on a target, and the scheduling problem that it is.

Owns the type that everything after the encoder works on, and stating its problem. Nothing is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from ..codegen.kernel_table import OURS, KernelTable
from ..codegen.weights import EncodedOperation
from ..ir import Graph
from ..lowering.npu import NpuGraph
from ..rewrites import DeadChannels
from ..scheduling import problem as scheduling_problem
from ..scheduling.problem import Problem
from ..scheduling.specs import Encoding
from ..targets.target import Target
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .borders import Border, inside_of
from .partition import Partition


class Planned(Protocol):
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

    @property
    def borders(self) -> tuple[Border, ...]:
        """The operators around it that write over their inputs."""


@dataclass(frozen=True, eq=False)
class Network:
    """A model made ready for scheduling on a target: everything that no budget changes.

    `problem` is what lies between the `borders`, whose operators write over their inputs before and after it.
    """

    source: Graph
    graph: Graph
    target: Target
    partition: Partition
    npu: NpuGraph
    encoded: tuple[EncodedOperation, ...]
    problem: Problem
    dead_channels: tuple[DeadChannels, ...] = ()
    borders: tuple[Border, ...] = ()
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
    edges: Sequence[Border],
    npu: NpuGraph,
    encodings: Sequence[Encoding],
    target: Target,
    scratch: Mapping[int, int],
) -> Problem:
    """The scheduling problem between the borders."""
    at_edge = {edge.operator for edge in edges}
    between = [operator for operator in divided.order if operator not in at_edge]
    return scheduling_problem.build(inside_of(graph, edges), between, npu, encodings, target.placed_for, scratch)


def with_cache(network: Network, size_bytes: int) -> Network:
    """The network's problem on a device with so many bytes of cache."""
    n = network
    target = n.target.with_cache_of(size_bytes)
    problem = stated(n.graph, n.partition, n.borders, n.npu, n.encodings, target, n.workspaces)
    return replace(n, target=target, problem=problem)
