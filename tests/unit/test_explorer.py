"""Graphs for Model Explorer: nodes, edges and numbers by its documented schema, and by its own types where it is."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from codegen_support import vela_file
from command_line_support import Capture, one_sentence, resized_classifier, run, run_json
from ethoscade import Compiled
from ethoscade.frontend import read_tflite
from ethoscade.testing import inverted_residuals, mobilenet_v1
from ethoscade.trace.files import record_file, target_of, time_file
from ethoscade.trace.graph import files, graph, overlays
from ethoscade.trace.record import Record, RecordedCall, RecordedCpu

Json = dict[str, Any]

# Model Explorer's graph_builder.py and node_data_builder.py: of each object its fields, with * those it needs.
SCHEMA: dict[str, dict[str, str]] = {
    "Graph": {
        "id*": "str", "nodes*": "[GraphNode]", "groupNodeAttributes": "{str: {str: str}}",
        "groupNodeConfigs": "[GroupNodeConfig]",
    },
    "GraphNode": {
        "id*": "str", "label*": "str", "namespace": "str", "attrs": "[KeyValue]", "incomingEdges": "[IncomingEdge]",
        "outputsMetadata": "[MetadataItem]", "inputsMetadata": "[MetadataItem]", "style": "GraphNodeStyle",
    },
    "KeyValue": {"key*": "str", "value*": "str"},
    "IncomingEdge": {"sourceNodeId*": "str", "sourceNodeOutputId": "str", "targetNodeInputId": "str"},
    "MetadataItem": {"id*": "str", "attrs": "[KeyValue]"},
    "GraphNodeStyle": {"backgroundColor": "str", "borderColor": "str", "hoveredBorderColor": "str"},
    "GroupNodeConfig": {"namespaceRegex*": "str", "backgroundColor": "str", "layoutDirection": "int"},
    "GraphNodeData": {
        "name*": "str", "results*": "{str: NodeDataResult}", "gradient": "[GradientItem]",
        "hideAggregatedStats": "[str]", "hideInChildrenStatsTable": "bool",
    },
    "NodeDataResult": {"value*": "int"},
    "GradientItem": {"stop*": "int", "bgColor": "str"},
}  # fmt: skip


def check(value: Any, kind: str) -> None:
    """The value is of a kind: a name of `SCHEMA`, str, int, bool, a list in brackets, a mapping from str in braces."""
    if kind.startswith("["):
        assert isinstance(value, list)
        for item in value:
            check(item, kind[1:-1])
    elif kind.startswith("{str: "):
        assert isinstance(value, dict) and all(isinstance(key, str) for key in value)
        for item in value.values():
            check(item, kind[6:-1])
    elif kind in ("str", "int", "bool"):
        assert type(value).__name__ == kind, value
    else:
        fields = SCHEMA[kind]
        known = {name.rstrip("*"): of for name, of in fields.items()}
        assert isinstance(value, dict) and set(value) <= set(known), value
        assert {name[:-1] for name in fields if name.endswith("*")} <= set(value)
        for name, item in value.items():
            check(item, known[name])


def of_file(data: bytes, name: str = "net") -> Record:
    file = read_tflite(data, name)
    return record_file(file, time_file(file), target_of(file))


@pytest.fixture(scope="module", params=["calls", "cascades"])
def compiled(request: pytest.FixtureRequest) -> Compiled:
    model = resized_classifier() if request.param == "calls" else mobilenet_v1(alpha=0.25, resolution=64)
    return ethoscade.compile(model, optimise="size")


@pytest.fixture(scope="module")
def velas() -> Record:
    return of_file(vela_file(inverted_residuals(), "--optimise", "Size", "--debug-force-legacy-core"), "velas")


def check_graph(record: Record) -> Json:
    """The schema, unique nodes, edges between them that run forwards, no level that is empty, every command once."""
    found = graph(record)
    check(found, "Graph")
    nodes = {node["id"]: node for node in found["nodes"]}
    assert len(nodes) == len(found["nodes"])
    order = {identifier: place for place, identifier in enumerate(nodes)}
    for node in nodes.values():
        assert all(node.get("namespace", "").split("/")) or node["namespace"] == ""
        for edge in node.get("incomingEdges", []):
            assert order[edge["sourceNodeId"]] < order[node["id"]]
    steps = [step for call in record.calls for step in getattr(call, "operations", [call])]
    assert len(nodes) == len(steps) + len(record.inputs) + len(record.outputs)
    return found


def test_graphs_follow_the_schema(compiled: Compiled, velas: Record) -> None:
    for record in (compiled.record(), velas):
        check_graph(record)
        for data in overlays(record).values():
            check(data, "GraphNodeData")


def test_namespaces_nest_call_cascade_operator_stripe(compiled: Compiled) -> None:
    record = compiled.record()
    found = check_graph(record)
    spaces = {node["id"]: node["namespace"].split("/") for node in found["nodes"]}
    calls = [number for number, call in enumerate(record.calls) if isinstance(call, RecordedCall)]
    for number, call in enumerate(record.calls):
        if isinstance(call, RecordedCpu):
            assert spaces[f"{number}.0"] == [""]
            continue
        operators = [operation.operator for operation in call.operations if operation.timed.kernel is not None]
        for at, operation in enumerate(call.operations):
            space = spaces[f"{number}.{at}"]
            if operation.timed.kernel is None:
                assert space == spaces[f"{number}.{operation.serves}"]
                continue
            cascade = [f"cascade {operation.cascade}"] if operation.cascade is not None else []
            whole = [f"NPU call {1 + calls.index(number)}", *cascade, operation.operator.replace("/", ".")]
            times = operators.count(operation.operator)
            assert space[: len(whole)] == whole and len(space) == len(whole) + (times > 1)
            if times > 1 and operation.part:
                assert space[-1].endswith(f"of {times}, {operation.part}")
    cascades = {space[1] for space in spaces.values() if len(space) > 1 and space[1].startswith("cascade ")}
    assert len(cascades) == compiled.cascades


def test_numbers_are_the_timing_models(compiled: Compiled) -> None:
    record = compiled.record()
    found = overlays(record)
    assert list(found) == ["cycles", "bytes moved", "live bytes"]
    reports = [report for _, report in compiled.timing()]
    results = {name: data["results"] for name, data in found.items()}
    expected = sum(command.cycles for report in reports for command in report.commands if command.bound != "waiting")
    assert sum(of["value"] for of in results["cycles"].values()) == expected
    moved = sum(
        memory.read_bytes + memory.written_bytes - memory.command_bytes
        for report in reports
        for memory in report.memories.values()
    )
    assert sum(of["value"] for of in results["bytes moved"].values()) == moved
    assert max(of["value"] for of in results["live bytes"].values()) == compiled.live_bytes
    nodes = {node["id"] for node in graph(record)["nodes"]}
    assert all(set(of) <= nodes for of in results.values())
    on_cpu = sum(isinstance(call, RecordedCpu) for call in record.calls)
    assert len(results["live bytes"]) == len(results["cycles"]) + on_cpu


def test_groups_add_up(compiled: Compiled) -> None:
    groups = graph(compiled.record())["groupNodeAttributes"]
    levels = {name: of for name, of in groups.items() if name}
    calls = {name for name in levels if "/" not in name}
    number = {name: int(of["kernel cycles"].replace(",", "")) for name, of in levels.items()}
    assert sum(number[name] for name in calls) == sum(
        command.cycles for _, report in compiled.timing() for command in report.commands if command.kernel is not None
    )
    for parent in levels:
        children = [name for name in levels if name.rpartition("/")[0] == parent]
        assert not children or sum(number[child] for child in children) <= number[parent]
    assert groups[""]["cycles of the NPU"] == f"{sum(report.cycles for _, report in compiled.timing()):,}"


def test_velas_operators_are_stripes_in_cascades(velas: Record) -> None:
    found = check_graph(velas)
    spaces = [node["namespace"].split("/") for node in found["nodes"]]
    striped = [space for space in spaces if len(space) == 4]
    assert striped and all(
        space[1].startswith("cascade ") and space[3].startswith(("stripe ", "kernel ")) for space in striped
    )


def test_every_value_has_a_way_from_the_inputs(compiled: Compiled) -> None:
    """Going back from the outputs one gets to all kernels and to the inputs: no edge is missing."""
    record = compiled.record()
    nodes = {node["id"]: node for node in graph(record)["nodes"]}
    reached, ahead = set[str](), [name for name in nodes if name.startswith("output")]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [edge["sourceNodeId"] for edge in nodes[name].get("incomingEdges", [])]
    for number, call in enumerate(record.calls):
        if isinstance(call, RecordedCall):
            assert {f"{number}.{at}" for at in range(len(call.operations))} <= reached
    assert any(name.startswith("input") for name in reached)


def test_the_command_writes_what_model_explorer_loads(compiled: Compiled, tmp_path: Path, capfd: Capture) -> None:
    artifact = compiled.save(tmp_path / "net.tflite")
    report = run_json(["explore", artifact, "-o", tmp_path / "out"], capfd)
    drawn = json.loads(Path(report["graph"]).read_text(encoding="utf-8"))
    assert (drawn["label"], [one["id"] for one in drawn["graphs"]]) == ("net", ["net"])
    check(drawn["graphs"][0], "Graph")
    for path in report["node_data"]:
        ((name, data),) = json.loads(Path(path).read_text(encoding="utf-8")).items()
        assert name == "net"
        check(data, "GraphNodeData")
    status, out, _ = run(["explore", artifact, "-o", tmp_path / "again"], capfd)
    assert status == 0 and "model-explorer " in out and "--node_data_paths=" in out
    for name in files(of_file(artifact.read_bytes())):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_what_is_not_compiled_is_refused(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "net.tflite").write_bytes(resized_classifier())
    status, _, err = run(["explore", tmp_path / "net.tflite", "-o", tmp_path / "out"], capfd)
    one_sentence(err)
    assert status == 1 and "not compiled" in err and not (tmp_path / "out").exists()


def test_model_explorer_itself_converts(compiled: Compiled, tmp_path: Path) -> None:
    """Through its own loading of extensions and commands, as its server calls them."""
    pytest.importorskip("model_explorer", reason="ai-edge-model-explorer is not installed (extra explorer)")
    from model_explorer.extension_manager import ExtensionManager

    manager = ExtensionManager(["ethoscade.explorer"])
    manager.load_extensions()
    assert {"ethoscade", "ethoscade_numbers"} <= {of["id"] for of in manager.get_extensions_metadata()}
    path = compiled.save(tmp_path / "net.tflite")
    record = of_file(path.read_bytes())
    convert = {"extensionId": "ethoscade", "cmdId": "convert", "modelPath": str(path), "settings": {}}
    (found,) = manager.run_cmd({**convert, "deleteAfterConversion": False})["graphs"]
    for made, node in zip(found["nodes"], graph(record)["nodes"], strict=True):
        assert all(made[key] == value for key, value in node.items() if key != "style")
    numbers = {"extensionId": "ethoscade_numbers", "cmdId": "run", "modelPath": str(path), "configValues": {}}
    answer = manager.run_cmd({**numbers, "graphId": found["id"], "graph": found})
    assert not answer["error"]
    for given, data in itertools.zip_longest(answer["result"], overlays(record).values()):
        assert given["name"] == data["name"]
        assert {node: of["value"] for node, of in given["results"].items()} == {
            node: of["value"] for node, of in data["results"].items()
        }
    (tmp_path / "plain.tflite").write_bytes(resized_classifier())
    plain = {**numbers, "modelPath": str(tmp_path / "plain.tflite"), "graphId": "plain"}
    assert "not compiled" in manager.run_cmd(plain)["error"]
