"""A record as a graph for Google's Model Explorer, with numbers to lay over its nodes.

Owns nodes, edges, namespaces and the two JSON formats: a graph collection, and node data by graph and node. A node is a
command, a kernel or a transfer of an NPU call, or an operator on the CPU, an input or an output; an edge leads from who
made bytes to who reads them. Namespaces nest: NPU call, cascade, operator, stripe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .perfetto import NOT_COUNTED, shape
from .record import Live, Origin, Record, RecordedCall, RecordedCpu, RecordedOperation

Json = dict[str, Any]

_LIVE = "live bytes"
_CASCADE_COLOUR, _TRANSFER_COLOUR, _CPU_COLOUR = "#e3edfb", "#ececec", "#fde9cf"
_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#f4a15d"})


def graph(record: Record) -> Json:
    """The graph, as Model Explorer's `Graph`."""
    return {
        "id": record.name,
        "nodes": list(_nodes(record)),
        "groupNodeAttributes": _groups(record),
        "groupNodeConfigs": [{"namespaceRegex": "(^|.*/)cascade [0-9]+$", "backgroundColor": _CASCADE_COLOUR}],
    }


def overlays(record: Record) -> dict[str, Json]:
    """Numbers by overlay and node, as Model Explorer's `GraphNodeData`; nodes without one have none."""
    measures: Mapping[str, Callable[[RecordedOperation], int]] = {
        "cycles": lambda operation: operation.timed.cycles,
        "bytes moved": _moved,
        _LIVE: lambda operation: _live(operation.live, operation.buffers),
    }
    found: dict[str, Json] = {}
    for name, measure in measures.items():
        results = {
            _id(number, at): {"value": measure(operation)}
            for number, call in enumerate(record.calls)
            if isinstance(call, RecordedCall)
            for at, operation in enumerate(call.operations)
        }
        if name == _LIVE:
            on_cpu = ((number, call) for number, call in enumerate(record.calls) if isinstance(call, RecordedCpu))
            results |= {_id(number, 0): {"value": _live(call.live, call.buffers)} for number, call in on_cpu}
        found[name] = {"name": name, "results": results, "gradient": list(_GRADIENT)}
        if name == _LIVE:
            # What is in use at one moment and at another does not add up.
            found[name] |= {"hideAggregatedStats": ["sum"], "hideInChildrenStatsTable": True}
    return found


def files(record: Record) -> dict[str, bytes]:
    """The graph and its overlays by file name, for Model Explorer without the adapter."""
    made: dict[str, Json] = {f"{record.name}_graph.json": {"label": record.name, "graphs": [graph(record)]}}
    for name, data in overlays(record).items():
        made[f"{record.name}_{name.replace(' ', '_')}.json"] = {record.name: data}
    return {name: _encoded(content) for name, content in made.items()}


def _encoded(content: Json) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape")


# --- nodes ------------------------------------------------------------------------------------------------------------


def _nodes(record: Record) -> Iterator[Json]:
    for tensor, name in record.inputs.items():
        yield {"id": _id(-1, tensor), "label": name, "namespace": "", "attrs": _attributes({"kind": "input"})}
    for number, call in enumerate(record.calls):
        if isinstance(call, RecordedCpu):
            yield _cpu_node(number, call)
            continue
        names = _namespaces(record, call)
        for at, operation in enumerate(call.operations):
            yield _operation_node(_id(number, at), names[at], operation)
    for position, (name, makers) in enumerate(record.outputs):
        found = {"id": f"output {position}", "label": name, "namespace": "", "attrs": _attributes({"kind": "output"})}
        yield {**found, "incomingEdges": _edges(makers)}


def _cpu_node(number: int, call: RecordedCpu) -> Json:
    estimated = f"{call.microseconds:g} us, estimated" if call.microseconds is not None else NOT_COUNTED
    told = {"kind": call.kind, "runs on": "CPU", "time": estimated}
    told[_LIVE] = f"{_live(call.live, call.buffers):,}"
    return {
        "id": _id(number, 0),
        "label": call.name,
        "namespace": "",
        "attrs": _attributes(told),
        "incomingEdges": _edges(call.makers),
        "style": {"backgroundColor": _CPU_COLOUR},
    }


def _operation_node(identifier: str, namespace: str, operation: RecordedOperation) -> Json:
    command = operation.timed
    told = {
        "command": command.kind,
        "operator": operation.operator,
        "cycles": f"{command.cycles:,}",
        "begins at cycle": f"{command.start:,}",
        "bound by": command.bound,
    }
    for memory in command.read_bytes:
        moved = (command.read_bytes[memory], command.written_bytes[memory])
        told[f"{memory} bytes"] = f"{moved[0]:,} read, {moved[1]:,} written"
    told[_LIVE] = f"{_live(operation.live, operation.buffers):,}"
    told["offset in the command stream"] = str(operation.offset)
    node: Json = {"id": identifier, "label": operation.name, "namespace": namespace}
    if command.kernel is None:
        node["style"] = {"backgroundColor": _TRANSFER_COLOUR}
    else:
        kernel = command.kernel
        told |= {"block": shape(kernel.block), "MACs": f"{kernel.macs:,}", "BLOCKDEP": str(kernel.blockdep)}
        node["inputsMetadata"] = [{"id": "0", "attrs": _attributes({"shape": shape(kernel.ifm)})}]
        node["outputsMetadata"] = [{"id": "0", "attrs": _attributes({"shape": shape(kernel.ofm)})}]
    return {**node, "attrs": _attributes(told), "incomingEdges": _edges(operation.makers)}


def _namespaces(record: Record, call: RecordedCall) -> list[str]:
    """The namespace of each operation; a transfer is in that of the kernel that first reads what it brings."""
    kernels: dict[str, list[int]] = {}
    for at, operation in enumerate(call.operations):
        if operation.timed.kernel is not None:
            kernels.setdefault(operation.operator, []).append(at)
    whole = f"NPU call {1 + next(at for at, one in enumerate(record.npu_calls) if one is call)}"
    found: dict[int, str] = {}
    for operator, places in kernels.items():
        alike = len({call.operations[at].timed.kind for at in places}) == 1
        for count, at in enumerate(places, start=1):
            cascade, part = call.operations[at].cascade, call.operations[at].part
            parts = [whole, *([] if cascade is None else [f"cascade {cascade}"]), _level(operator)]
            if len(places) > 1:
                numbered = f"{'stripe' if alike else 'kernel'} {count} of {len(places)}"
                parts.append(f"{numbered}, {part}" if part else numbered)
            found[at] = "/".join(parts)
    served = [operation.serves for operation in call.operations]
    return [found.get(at) or (whole if of is None else found.get(of, whole)) for at, of in enumerate(served)]


def _level(name: str) -> str:
    """A name as one level of a namespace, which slashes divide."""
    return name.replace("/", ".") or "unnamed"


def _groups(record: Record) -> dict[str, dict[str, str]]:
    """What is said of the network and of each namespace: cycles of kernels, their number, and the most live bytes."""
    sums: dict[str, list[int]] = {}
    for call in record.npu_calls:
        for namespace, operation in zip(_namespaces(record, call), call.operations, strict=True):
            levels = namespace.split("/")
            kernel = operation.timed.kernel is not None
            for depth in range(1, len(levels) + 1):
                of = sums.setdefault("/".join(levels[:depth]), [0, 0, 0, 0])
                of[0] += operation.timed.cycles if kernel else 0
                of[1 if kernel else 2] += 1
                of[3] = max(of[3], _live(operation.live, operation.buffers))
    whole = {
        "accelerator": record.accelerator,
        "cycles of the NPU": f"{record.cycles:,}",
        "operators on the CPU": str(sum(isinstance(call, RecordedCpu) for call in record.calls)),
    }
    if record.clock_hz is not None:
        whole["milliseconds of the NPU"] = f"{1000 * record.cycles / record.clock_hz:.3f}"
    return {"": whole} | {
        name: {"kernel cycles": f"{of[0]:,}", "kernels": str(of[1]), "copies": str(of[2]), _LIVE: f"{of[3]:,}"}
        for name, of in sums.items()
    }


def _attributes(told: Mapping[str, str]) -> list[Json]:
    return [{"key": key, "value": value} for key, value in told.items()]


def _edges(makers: tuple[Origin, ...]) -> list[Json]:
    return [
        {"sourceNodeId": _id(of.call, of.operation), "sourceNodeOutputId": "0", "targetNodeInputId": str(position)}
        for position, of in enumerate(makers)
    ]


def _id(call: int, operation: int) -> str:
    return f"input {operation}" if call < 0 else f"{call}.{operation}"


def _moved(operation: RecordedOperation) -> int:
    command = operation.timed
    return sum(command.read_bytes.values()) + sum(command.written_bytes.values())


def _live(live: Mapping[str, Live], buffers: Mapping[str, int]) -> int:
    """Bytes in use: by the buffers where they are known, else by what streams still read."""
    return sum(buffers.values()) if buffers else sum(of.bytes for of in live.values())
