"""A compiled network as the graph that TVM's graph executor reads: nodes, the entries that they make, storage.

Owns what the nodes and entries are, their numbers, and the JSON. A node is a call, or something that no call makes: an
input, a variable's value before the run, a constant that is an output. The C that walks them is in `codegen.c.graph`.
Format: apache/tvm v0.18, src/runtime/graph_executor/graph_executor.h.
"""

from __future__ import annotations

import json
from typing import Any

from ..lowering.aliases import root
from ..util.records import dataclass
from .artifact import Artifact, CpuCall, FeedCall, NpuCall, TakeCall
from .layout import call_tensors, lifetimes

# DLPack's device type of the CPU.
_CPU = 1
# What the executor takes for a node whose output is its input's bytes.
_RENAMED = "__nop"


@dataclass(frozen=True)
class Entry:
    """A tensor of the graph. It may be read after `first` calls until `last` are done; equal `storage`, equal place."""

    tensor: int
    storage: int
    first: int
    last: int


@dataclass(frozen=True)
class GraphNode:
    """Something that makes entries: `function` names the call's, "" where no call does; both lists are of entries."""

    name: str
    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class ExecutorGraph:
    """Nodes, each behind those that it reads, their entries in the same order, and the network's outputs."""

    nodes: tuple[GraphNode, ...]
    entries: tuple[Entry, ...]
    outputs: tuple[int, ...]


class _Builder:
    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._whole = lifetimes(artifact)
        self._storages: dict[int | str, int] = {}
        self._entry_of: dict[int, int] = {}
        self.nodes: list[GraphNode] = []
        self.entries: list[Entry] = []

    def add(self, name: str, function: str, read: tuple[int, ...], made: tuple[int, ...]) -> None:
        """A node that reads and makes tensors; an input without a producer becomes a node of its own first."""
        inputs = tuple(self.entry(tensor) for tensor in dict.fromkeys(read))
        begin = len(self.entries)
        for tensor in dict.fromkeys(made):
            self._entry_of[tensor] = len(self.entries)
            self.entries.append(Entry(tensor, self._storage(tensor), *self._life(tensor)))
        self.nodes.append(GraphNode(name, function, inputs, tuple(range(begin, len(self.entries)))))

    def entry(self, tensor: int) -> int:
        """The number of a tensor's entry."""
        if tensor not in self._entry_of:
            graph = self._artifact.graph
            origin = root(graph, tensor)
            renamed = origin != tensor and origin in self._entry_of
            function, read = (_RENAMED, (origin,)) if renamed else ("", ())
            self.add(graph.tensors[tensor].name, function, read, (tensor,))
        return self._entry_of[tensor]

    def _storage(self, tensor: int) -> int:
        constant = self._artifact.graph.tensors[tensor].is_constant
        place = f"constant {tensor}" if constant else self._artifact.offsets[tensor]
        return self._storages.setdefault(place, len(self._storages))

    def _life(self, tensor: int) -> tuple[int, int]:
        if self._artifact.graph.tensors[tensor].is_constant:
            return 0, len(self._artifact.calls)
        if tensor in self._whole:
            return self._whole[tensor]
        # No call makes it: it is there from the start, or from when the tensor is whose bytes it is.
        calls, origin = self._artifact.calls, root(self._artifact.graph, tensor)
        begun = self._whole[origin][0] if origin in self._whole else 0
        if tensor in self._artifact.graph.handed_out:
            return begun, len(calls)
        readers = [n for n, call in enumerate(calls) if tensor in call_tensors(self._artifact, call)[0]]
        return begun, max([begun, *readers])


def function_name(module: str, number: int, call: NpuCall | CpuCall) -> str:
    """The C function of a call."""
    return f"tvmgen_{module}_{'cpu' if isinstance(call, CpuCall) else 'npu'}_{number}"


def build(artifact: Artifact, module: str) -> ExecutorGraph:
    """The graph of an artefact; `module` is the `<mod>` of its functions. Constants that calls read are theirs."""
    graph, builder = artifact.graph, _Builder(artifact)
    for tensor in dict.fromkeys(graph.given):
        builder.entry(tensor)
    for number, call in enumerate(artifact.calls):
        assert not isinstance(call, FeedCall | TakeCall), "streamed networks have no graph, see `c.module.make`"
        read, made = call_tensors(artifact, call)
        name = call.name if isinstance(call, NpuCall) else graph.operators[call.operator].name
        inputs = tuple(tensor for tensor in read if not graph.tensors[tensor].is_constant)
        builder.add(name, function_name(module, number, call), inputs, made)
    outputs = tuple(builder.entry(tensor) for tensor in graph.handed_out)
    return ExecutorGraph(tuple(builder.nodes), tuple(builder.entries), outputs)


def to_json(artifact: Artifact, module: str) -> str:
    """The text of the graph."""
    graph = build(artifact, module)
    tensors = [artifact.graph.tensors[entry.tensor] for entry in graph.entries]
    place = {entry: (number, at) for number, node in enumerate(graph.nodes) for at, entry in enumerate(node.outputs)}
    rows = [0]
    for node in graph.nodes:
        rows.append(rows[-1] + len(node.outputs))
    told = {
        "nodes": [_node(node, [[*place[entry], 0] for entry in node.inputs]) for node in graph.nodes],
        "arg_nodes": [number for number, node in enumerate(graph.nodes) if not node.function],
        "heads": [[*place[entry], 0] for entry in graph.outputs],
        "attrs": {
            "dltype": ["list_str", [tensor.dtype.value for tensor in tensors]],
            "device_index": ["list_int", [_CPU] * len(tensors)],
            "storage_id": ["list_int", [entry.storage for entry in graph.entries]],
            "shape": ["list_shape", [list(tensor.shape) for tensor in tensors]],
        },
        "node_row_ptr": rows,
    }
    return json.dumps(told, indent=2) + "\n"


def _node(node: GraphNode, inputs: list[list[int]]) -> dict[str, Any]:
    if not node.function:
        return {"op": "null", "name": node.name, "inputs": []}
    attrs = {
        "func_name": node.function,
        "num_inputs": str(len(inputs)),
        "num_outputs": str(len(node.outputs)),
        "flatten_data": "0",
    }
    return {"op": "tvm_op", "name": node.name, "attrs": attrs, "inputs": inputs}


def storages(artifact: Artifact, module: str) -> list[dict[str, Any]]:
    """What a library's metadata says of each storage: the most bytes there, and a node that is given."""
    graph = build(artifact, module)
    found: dict[int, dict[str, Any]] = {}
    for entry in graph.entries:
        told = found.setdefault(entry.storage, {"storage_id": entry.storage, "size_bytes": 0})
        told["size_bytes"] = max(told["size_bytes"], artifact.graph.tensors[entry.tensor].size_bytes)
    for node in graph.nodes:
        if not node.function:
            found[graph.entries[node.outputs[0]].storage].setdefault("input_binding", node.name)
    return list(found.values())
