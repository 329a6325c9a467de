"""The graph executor: runs that go call by call under the simulator's driver, every live tensor read; its JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from board_support import several_calls
from codegen_support import cpu_artifact
from command_line_support import Capture, resized_classifier, run_json, written
from ethoscade.codegen import c_source, executor_graph, mlf
from ethoscade.codegen.artifact import Artifact
from ethoscade.codegen.c.options import COptions
from ethoscade.codegen.layout import call_tensors
from ethoscade.errors import ConfigError
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering.aliases import root
from ethoscade.run import simulator
from ethoscade.testing import ModelBuilder, inverted_residuals, keyword_spotting, tiny_conv
from firmware_builds import FIRMWARE, STRICT

NETWORKS = {
    "npu and cpu": (resized_classifier(), "ethos-u55-256"),
    "state": (several_calls(), "ethos-u55-128"),
    "one program": (tiny_conv(), "ethos-u65-256"),
    "no npu": (keyword_spotting(), "none"),
    "no npu, residuals": (inverted_residuals(), "none"),
}
OPTIONS = {"internal": COptions(executor="graph"), "pools": COptions("net", "pools", executor="graph")}


def walked(folder: Path, artifact: Artifact, options: COptions, steps: Sequence[Mapping[str, Any]]) -> Any:
    """What a run call by call shows, step by step, in a process of its own."""
    files = c_source.write(artifact, folder, options)
    units = [str(path) for path in files.values() if path.suffix in (".c", ".S")]
    library = folder / "net.so"
    command = ["cc", *STRICT, "-O1", "-fPIC", "-shared", f"-I{folder}", *units, "-o", str(library), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    graph, header = artifact.graph, (folder / c_source.header_name(artifact, options)).read_text()
    entries = re.search(r"_GRAPH_ENTRIES (\d+)", header)
    assert entries is not None
    job = {
        "library": str(library),
        "simulator": str(simulator.driver_interface()[1]) if "_devices" in header else "",
        "module": c_source.module_name(artifact, options),
        "entries": int(entries.group(1)),
        "steps": [[step[graph.tensors[t].name].tobytes().hex() for t in graph.given] for step in steps],
        "outputs": [graph.tensors[t].size_bytes for t in graph.handed_out],
        "pools": options.has_pools,
        "arena_bytes": -(-artifact.arena_bytes // 32) * 32,
    }
    (folder / "job.json").write_text(json.dumps(job))
    ran = subprocess.run(
        [sys.executable, str(FIRMWARE / "graph_child.py"), str(folder / "job.json")], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("choice", OPTIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_live_tensor_is_the_references(tmp_path: Path, name: str, choice: str) -> None:
    """What a call made is there until its last reader has run, and is the reference's; outputs are, after the run."""
    model, accelerator = NETWORKS[name]
    artifact = ethoscade.compile(model, accelerator=accelerator).artifact
    graph, calls = artifact.graph, artifact.calls
    steps = [random_inputs(graph, seed) for seed in (0, 1)]
    told = executor_graph.build(artifact, "net")
    for found, expected in zip(
        walked(tmp_path, artifact, OPTIONS[choice], steps), reference.run_steps(graph, steps), strict=True
    ):
        assert found["status"] == 0 and len(found["seen"]) == len(calls) + 1
        assert found["after"] == [0, 0, None], "a run that is done stays so, and there is no such entry"
        for done, live in enumerate(found["seen"]):
            for entry, (tensor_name, data) in live.items():
                tensor = told.entries[int(entry)].tensor
                assert tensor_name == graph.tensors[tensor].name
                assert bytes.fromhex(data) == expected.values[tensor].tobytes(), (done, tensor_name)
            made = {t for call in calls[:done] for t in call_tensors(artifact, call)[1]} | set(graph.given)
            wanted = {t for call in calls[done:] for t in call_tensors(artifact, call)[0]}
            wanted = {t for t in wanted if not graph.tensors[t].is_constant and t in made}
            if done == len(calls):
                wanted |= set(graph.handed_out)
            assert wanted <= {told.entries[int(entry)].tensor for entry in live}, "what is still read can be read"
        for t, data in zip(graph.handed_out, found["outputs"], strict=True):
            assert bytes.fromhex(data) == expected.values[t].tobytes()


def test_a_run_that_fails_ends(tmp_path: Path) -> None:
    """The simulator refuses a damaged program: nothing is live any more, and further steps say so."""
    artifact = ethoscade.compile(tiny_conv()).artifact
    call = replace(artifact.calls[0], payload=artifact.calls[0].payload[:-8] + bytes(8))
    (found,) = walked(
        tmp_path, replace(artifact, calls=(call,)), OPTIONS["internal"], [random_inputs(artifact.graph, 0)]
    )
    assert found["status"] == -3 and found["seen"][-1] == {} and found["after"] == [-3, -3, None]


# --- the graph ------------------------------------------------------------------------------------------------------


def in_tvm(text: str) -> tuple[list[str], list[str]]:
    """Reads the JSON as TVM's executor does, checking what it relies on; functions in order, names of what is given."""
    told = json.loads(text)
    nodes, rows, attrs = told["nodes"], told["node_row_ptr"], told["attrs"]
    assert set(told) == {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"}
    kinds = {"dltype": "list_str", "device_index": "list_int", "storage_id": "list_int", "shape": "list_shape"}
    assert {name: value[0] for name, value in attrs.items()} == kinds
    assert len(rows) == len(nodes) + 1 and rows[0] == 0
    assert all(len(value) == rows[-1] for _, value in attrs.values())
    functions = []
    for number, node in enumerate(nodes):
        outputs = rows[number + 1] - rows[number]
        for source, index, version in node["inputs"]:
            assert source < number and index < rows[source + 1] - rows[source] and version == 0
        if node["op"] == "null":
            assert number in told["arg_nodes"] and outputs == 1
            continue
        assert node["op"] == "tvm_op" and number not in told["arg_nodes"]
        assert node["attrs"]["num_inputs"] == str(len(node["inputs"])) and node["attrs"]["num_outputs"] == str(outputs)
        functions.append(node["attrs"]["func_name"])
    assert all(index < rows[node + 1] - rows[node] for node, index, _ in told["heads"])
    return functions, [nodes[number]["name"] for number in told["arg_nodes"]]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_says_what_the_calls_do(name: str) -> None:
    """Its storage is a plan: run by it, with a buffer a storage, each node finds what it reads as it was made."""
    model, accelerator = NETWORKS[name]
    artifact = ethoscade.compile(model, accelerator=accelerator).artifact
    graph = artifact.graph
    text = executor_graph.to_json(artifact, "net")
    functions, given = in_tvm(text)
    assert functions == [executor_graph.function_name("net", n, call) for n, call in enumerate(artifact.calls)]
    kept = [graph.tensors[variable.before].name for variable in graph.variables]
    assert given == [graph.tensors[t].name for t in graph.given] + kept
    told, built = json.loads(text), executor_graph.build(artifact, "net")
    held: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for node in built.nodes:
        for entry in node.inputs:
            assert root(graph, held[built.entries[entry].storage]) == root(graph, built.entries[entry].tensor)
        for entry in node.outputs:
            held[built.entries[entry].storage] = built.entries[entry].tensor
            size = graph.tensors[built.entries[entry].tensor].size_bytes
            sizes[built.entries[entry].storage] = max(size, sizes.get(built.entries[entry].storage, 0))
    assert [held[built.entries[entry].storage] for entry in built.outputs] == list(graph.handed_out)
    assert {told["storage_id"]: told["size_bytes"] for told in executor_graph.storages(artifact, "net")} == sizes
    assert told["attrs"]["shape"][1][0] == list(graph.tensors[graph.given[0]].shape)


def test_an_output_that_no_call_makes_has_a_node() -> None:
    """An input that is handed out, in another shape too, and a constant."""
    b = ModelBuilder("net")
    x = b.input((1, 8), name="x")
    b.output(b.reshape(x, (2, 4)))
    b.output(b.softmax(x))
    artifact = cpu_artifact(b.build())
    functions, given = in_tvm(executor_graph.to_json(artifact, "net"))
    assert functions == ["tvmgen_net_cpu_0", "tvmgen_net_cpu_1"] and given == ["x"]

    alone = replace(artifact, calls=artifact.calls[1:], offsets={**artifact.offsets, graph_output(artifact): 0})
    functions, given = in_tvm(executor_graph.to_json(alone, "net"))
    assert functions == ["tvmgen_net_cpu_0", "__nop"] and given == ["x"]


def graph_output(artifact: Artifact) -> int:
    return artifact.graph.handed_out[0]


# --- where it is written ----------------------------------------------------------------------------------------------


def test_the_archive_has_what_tvms_consumers_open(tmp_path: Path) -> None:
    many = ethoscade.compile_many({"first": resized_classifier(), "second": tiny_conv(seed=1)})
    path = many.write_mlf(tmp_path / "net.tar", executor="graph")
    with tarfile.open(path) as archive:
        metadata = json.load(archive.extractfile("./metadata.json"))
        for name, module in metadata["modules"].items():
            functions, _ = in_tvm(archive.extractfile(f"./executor-config/graph/{name}.graph").read().decode())
            assert module["executors"] == ["graph"]
            memory = module["memory"]
            assert [one["function_name"] for one in memory["functions"]["operator_functions"]] == functions
            bindings = [one["input_binding"] for one in memory["sids"] if "input_binding" in one]
            assert bindings == [next(iter(memory["functions"]["main"][0]["inputs"]))]
            sources = "".join(
                archive.extractfile(member).read().decode()
                for member in archive
                if member.name.endswith(f"{name}_lib0.c")
            ) + "".join(
                archive.extractfile(member).read().decode()
                for member in archive
                if member.name.endswith(f"{name}_lib2.c")
            )
            for function in functions:
                assert re.search(rf"^(void|int32_t) {function}\([^;]*\n\{{", sources, re.MULTILINE), function


def test_the_command_line_and_python_agree(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", tiny_conv())
    words = ["compile", model, "-o", tmp_path / "o", "--emit", "c,mlf", "--executor", "graph"]
    run_json(words, capfd)
    compiled = ethoscade.compile(model)
    files = compiled.write_c(tmp_path / "c", executor="graph")
    assert {"net.graph", "net_lib4.c"} <= set(files)
    assert all((tmp_path / "o" / name).read_bytes() == path.read_bytes() for name, path in files.items())
    assert mlf.archive([(compiled.artifact, COptions(executor="graph"))]) == (tmp_path / "o" / "net.tar").read_bytes()
    assert not {"net.graph", "net_lib4.c"} & set(compiled.write_c(tmp_path / "plain"))
    with pytest.raises(ConfigError, match="executor is 'debug'; choose aot or graph"):
        compiled.write_mlf(tmp_path / "n.tar", executor="debug")
