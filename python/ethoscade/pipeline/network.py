"""A model made ready for scheduling on a target, and the scheduling problem that it is.

Owns the type that everything after the encoder works on, and stating its problem. Nothing is chosen here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Protocol

from ..codegen.kernel_table import OURS, KernelTable
from ..codegen.layout import distance, may_overlay
from ..codegen.weights import EncodedOperation, Encoder
from ..ir import Graph
from ..lowering import channel_slices
from ..lowering.joins import without_copies
from ..lowering.npu import NpuGraph
from ..lowering.slices import read_in_place
from ..rewrites import DeadChannels
from ..scheduling import problem as scheduling_problem
from ..scheduling.bricks import lay_in_bricks
from ..scheduling.orders import orders_of
from ..scheduling.problem import Problem
from ..scheduling.specs import CallMemory, Encoding
from ..targets.target import Target
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .encoding import choose_encodings, encode
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

    def order(self, number: int) -> SchedulableModel:
        """The model as one of its searches saw it, 0 for the file's order of operations."""


@dataclass(frozen=True, eq=False)
class Network:
    """A model made ready for scheduling on a target: everything no budget changes.

    `lowered` are its operations in the file's order, with all copies; `encoder` knows what they have been encoded to.
    """

    source: Graph
    graph: Graph
    target: Target
    partition: Partition
    lowered: NpuGraph = field(repr=False)
    npu: NpuGraph
    encoder: Encoder = field(repr=False)
    encoded: tuple[EncodedOperation, ...]
    problem: Problem
    dead_channels: tuple[DeadChannels, ...] = ()
    kernels: KernelTable = OURS
    encodings: tuple[Encoding, ...] = ()
    workspaces: Mapping[int, int] = field(default_factory=lambda: FrozenMap({}))

    @cached_property
    def orders(self) -> tuple[Network, ...]:
        """The network itself, then with its operations in other orders."""
        return (self, *_in_other_orders(self))

    def order(self, number: int) -> Network:
        """The network in one of its orders of operations, 0 for the file's, then in the same by slices of channels."""
        if number == 0:
            return self
        turn, number = divmod(number, len(self.orders))
        ordered = self.orders[number]
        return ordered.in_slices or ordered if turn else ordered

    @cached_property
    def in_slices(self) -> Network | None:
        """The network with convolutions in front of global pools by slices of channels; None without any."""
        npu = channel_slices.in_slices(self.npu, self.partition.exposed)
        return None if npu is self.npu else _restated(self, npu)

    @cached_property
    def sliced_bytes(self) -> int:
        """The most bytes read and made by one such convolution: in more than these, slices are of no use."""
        return channel_slices.whole_bytes(self.npu, self.partition.exposed)

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


def without_needless_copies(npu: NpuGraph, exposed: Collection[int], all_pieces: bool = False) -> NpuGraph:
    """Operations whose copies are left out where readers or makers do without, in this order; tensors in bricks.

    `all_pieces` as for `read_in_place`.
    """
    return lay_in_bricks(without_copies(read_in_place(npu, exposed, all_pieces), exposed), exposed)


def _in_other_orders(network: Network) -> Iterator[Network]:
    """The network with its operations in other orders, or reading all pieces in place; each once, none for a chain."""
    known = [network.problem.specs]
    for npu in _other_ways(network):
        found = _restated(network, npu)
        # Orders that differ in copies alone are one problem where these copies are left out.
        if found is not None and found.problem.specs not in known:
            known.append(found.problem.specs)
            yield found


def _restated(network: Network, npu: NpuGraph) -> Network | None:
    """The network with other operations of the NPU; None where no block of the device holds one of them."""
    n, encodings = network, choose_encodings(network.encoder, npu.operations, network.target)
    if not all(encoding.block_depth for encoding in encodings):
        return None
    encoded, sized = encode(n.encoder, npu.operations, encodings, n.target.accelerator)
    problem = stated(n.graph, n.partition, npu, sized, n.target, n.workspaces)
    return replace(n, npu=npu, encoded=encoded, encodings=sized, problem=problem)


def _other_ways(network: Network) -> Iterator[NpuGraph]:
    exposed = network.partition.exposed
    regions = [region.operators for region in network.partition.regions]
    for lowered in orders_of(network.lowered, regions, exposed, network.graph.variables):
        npu = network.npu if lowered is network.lowered else without_needless_copies(lowered, exposed)
        if npu is not network.npu:
            yield npu
        pieces = without_needless_copies(lowered, exposed, all_pieces=True)
        if len(pieces.operations) < len(npu.operations):
            yield pieces


def with_cache(network: Network, size_bytes: int) -> Network:
    """The network's problem on a device with a given size of cache."""
    n = network
    target = n.target.with_cache_of(size_bytes)
    problem = stated(n.graph, n.partition, n.npu, n.encodings, target, n.workspaces)
    return replace(n, target=target, problem=problem)
