"""Raw files of any network: a reader that knows nothing but the file runs them, and is compared with the judge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from codegen_support import cpu_artifact, vela_file
from command_line_support import resized_classifier
from ethoscade.codegen import raw
from ethoscade.codegen.artifact import Artifact
from ethoscade.errors import CodegenError
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, random_network, tiny_conv
from raw_reader import RawProgram
from test_variables import NETWORKS as STATEFUL
from test_variables import network as stateful_network
from tflite_files import File, Op, T


def written(artifact: Artifact, folder: Path) -> RawProgram:
    path = raw.write(artifact, folder / "net.npz")
    assert path.read_bytes() == raw.archive(artifact)
    return RawProgram(path)


def compare(program: RawProgram, model: bytes, runs: int = 3) -> None:
    """Runs in a row, with their state, against the reference on the model as it was read; then anew after a reset."""
    graph = read_tflite(model)
    steps = [random_inputs(graph, 5, step) for step in range(runs)]
    expected = reference.run_steps(graph, steps)
    for again in range(2):
        for step, run in zip(steps[: runs - again], expected, strict=False):
            found = program.run(step)
            assert list(found) == list(run.outputs)
            for name, value in run.outputs.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)
        program.reset()
    assert program.hazards == 0


def test_npu_programs_and_cpu_operators_in_turn(tmp_path: Path) -> None:
    model = resized_classifier()
    artifact = ethoscade.compile(model, sram_kb=6).artifact
    program = written(artifact, tmp_path)
    calls = program.told["calls"]
    assert [call["on"] for call in calls] == ["npu", "cpu", "npu"]
    assert [call["commands"] for call in calls if call["on"] == "npu"] == ["cmd_data_0", "cmd_data_1"]
    assert program.told["arena_bytes"] == artifact.arena_bytes
    resize = calls[1]
    assert resize["kind"] == "RESIZE_NEAREST_NEIGHBOR" and resize["attributes"]["size"] == [7, 5]
    options = resize["file"]["options"]["ResizeNearestNeighborOptions"]
    assert options == {"AlignCorners": False, "HalfPixelCenters": False}
    compare(program, model)


@pytest.mark.parametrize("name", sorted(STATEFUL))
def test_state_lives_from_run_to_run(name: str, tmp_path: Path) -> None:
    """Vela's layout where all state stays in one place, else the program, which says what is to be copied."""
    model = stateful_network(name)
    compiled = ethoscade.compile(model).artifact
    in_one_place = name == "shifted"
    assert ("cmd_data" in raw.arrays(compiled)) == in_one_place
    for artifact in (cpu_artifact(model), *([] if in_one_place else [compiled])):
        compare(written(artifact, tmp_path), model)


@pytest.mark.parametrize("seed", range(16))
def test_every_operator_of_random_networks_is_described(seed: int, tmp_path: Path) -> None:
    """All on the CPU: attributes, constants, quantisations and state are all that a reader has."""
    model = random_network(seed)
    program = written(cpu_artifact(model), tmp_path)
    assert program.told["accelerator"] is None and program.told["regions"] == []
    compare(program, model)


def test_a_network_for_a_plain_cpu(tmp_path: Path) -> None:
    program = written(ethoscade.compile(tiny_conv(), accelerator="none").artifact, tmp_path)
    assert program.told["accelerator"] is None and {call["on"] for call in program.told["calls"]} == {"cpu"}
    compare(program, tiny_conv())


def test_operators_that_nobody_here_understands_keep_what_their_file_says() -> None:
    """A custom operator's options, as bytes, and the fields of a builtin one that is only carried along."""
    compiled = cpu_artifact(vela_file(tiny_conv()))
    (custom,) = program_of(compiled)["calls"]
    assert (custom["kind"], custom["file"]["custom_code"], custom["attributes"]) == ("ethos-u", "ethos-u", None)
    assert bytes.fromhex(custom["file"]["custom_options"]) == bytes((1, 4, 1))
    file = File((T("x", (4,)), T("y", (4,))), (Op("CUMSUM", (0,), (1,), "CumsumOptions", {"Reverse": 1}),), (0,), (1,))
    (carried,) = program_of(cpu_artifact(file.bytes()))["calls"]
    assert (carried["kind"], carried["attributes"]) == ("CUMSUM", None)
    assert carried["file"]["options"] == {"CumsumOptions": {"Exclusive": False, "Reverse": True}}
    assert carried["file"]["builtin_code"] == 128 and carried["file"]["custom_options"] is None


def test_a_variable_tensor_that_an_unknown_operator_changes_is_state(tmp_path: Path) -> None:
    tensors = (T("x", (1, 8)), T("state", (1, 8), zero_points=(3,), variable=True), T("y", (1, 8)))
    file = File(tensors, (Op("CUMSUM", (0, 1), (2,), "CumsumOptions"),), (0,), (2,))
    program = written(cpu_artifact(file.bytes()), tmp_path)
    assert program.told["state"] == [{"name": "state", "before": 1, "after": 1, "initial_offset": 0}]
    assert program.arrays["variable_data"].tobytes() == bytes([3] * 8 + [0] * 8)


def test_one_npu_call_beyond_velas_layout_is_a_program(tmp_path: Path) -> None:
    """A seventh dimension has no column there."""
    model = tiny_conv()
    artifact = ethoscade.compile(model).artifact
    assert "cmd_data" in raw.arrays(artifact)
    graph, index = artifact.graph, artifact.graph.outputs[0]
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], shape=(1, 1, 1, *tensors[index].shape))
    program = written(replace(artifact, graph=replace(graph, tensors=tuple(tensors))), tmp_path)
    inputs = random_inputs(read_tflite(model), 0)
    (found,) = program.run(inputs).values()
    (expected,) = reference.run(read_tflite(model), inputs).outputs.values()
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_a_constant_output_is_in_the_file(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 8))
    b.output(b.softmax(x), b.constant(np.arange(6, dtype=np.int8).reshape(2, 3)))
    compare(written(cpu_artifact(b.build()), tmp_path), b.build())


def test_without_its_file_a_network_is_refused(tmp_path: Path) -> None:
    artifact = cpu_artifact(random_network(0))
    with pytest.raises(CodegenError, match="the original model is not at hand"):
        raw.write(replace(artifact, graph=replace(artifact.graph, source=b"")), tmp_path / "net.npz")
    assert not list(tmp_path.iterdir())


def program_of(artifact: Artifact) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(raw.arrays(artifact)["program"].tobytes())
    return found
