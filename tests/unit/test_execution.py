"""Whole compiled networks on the simulator, against LiteRT; and what the runner says about wrong files and inputs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from codegen_support import (
    artifact_of_compiled,
    cpu_artifact,
    litert,
    models_folder,
    random_inputs,
    vela_artifact,
    vela_file,
)
from ethoscade.codegen import tflite
from ethoscade.codegen.artifact import Artifact, CpuCall, NpuCall
from ethoscade.errors import ConfigError, ModelFormatError, SimulationError, UnsupportedOperatorError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.judge import litert as litert_room
from ethoscade.run import compiled_file, execution, host_c, inference, simulator
from ethoscade.testing import ModelBuilder, residual_network, tiny_conv
from hazard_judge import commands_of, payload_with
from reference_support import needs_litert
from test_state import with_two_states

EXACT = ("kws_ref_int8", "micro_speech", "resnet8_int8", "vww_96_int8", "mobilenet_v1_0.25_128_uint8")


def has_driver() -> bool:
    from ethoscade import _core

    return hasattr(ctypes.CDLL(str(_core.__file__)), "ethosu_invoke_v3")


needs_driver = pytest.mark.skipif(not has_driver(), reason="the built extension exports no Ethos-U driver")


def compare(model: bytes, graph: Graph, result: execution.ExecutionResult, inputs: dict[str, np.ndarray]) -> None:
    expected = litert(model, inputs)
    assert len(expected) == len(result.outputs)
    for left, right in zip(result.outputs.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_velas_file_ours_and_the_artefact_agree() -> None:
    model = tiny_conv()
    compiled = read_tflite(vela_file(model), "net")
    artifact = artifact_of_compiled(compiled)
    ours = read_tflite(tflite.write(artifact), "net")
    inputs = random_inputs(compiled)
    results = [
        execution.run_tflite(compiled, inputs),
        execution.run_artifact(artifact, inputs),
        execution.run_tflite(ours, inputs),
    ]
    for result in results:
        compare(model, compiled, result, inputs)
        assert result.arena_touched_bytes == artifact.arena_bytes
        assert len(result.reports) == 1
        assert not result.warnings


def npu_and_cpu() -> bytes:
    """A network of which Vela leaves the pool, with its stride of 5, to the CPU."""
    b = ModelBuilder(seed=3)
    x = b.conv2d(b.input((1, 16, 16, 3)), 8)
    x = b.conv2d(b.average_pool(x, 12, stride=5, padding="SAME"), 12)
    b.softmax(b.reshape(b.conv2d(x, 4, padding="VALID"), (1, 16)))
    return b.build()


def test_npu_and_cpu_in_turn() -> None:
    model = npu_and_cpu()
    compiled = read_tflite(vela_file(model), "net")
    assert [op.kind for op in compiled.operators] == ["ethos-u", "AVERAGE_POOL_2D", "ethos-u"]
    artifact = artifact_of_compiled(compiled)
    inputs = random_inputs(compiled)
    for result in (
        execution.run_tflite(compiled, inputs),
        execution.run_artifact(artifact, inputs),
        execution.run_tflite(read_tflite(tflite.write(artifact), "net"), inputs),
    ):
        compare(model, compiled, result, inputs)
        assert len(result.reports) == 2
        assert not result.warnings


def compare_c(artifact: Artifact, inputs: dict[str, np.ndarray]) -> None:
    """The emitted C against the simulator; both twice over the same arena."""
    expected = execution.run_artifact(artifact, inputs)
    found = host_c.run(artifact, inputs, runs=2)
    assert found.arena_bytes == artifact.arena_bytes
    for name, values in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], values)


@needs_driver
@pytest.mark.parametrize("model", [tiny_conv, residual_network, npu_and_cpu])
def test_emitted_c_computes_what_the_simulator_does(model: Callable[[], bytes]) -> None:
    artifact = vela_artifact(model())
    compare_c(artifact, random_inputs(artifact.graph))


@pytest.mark.parametrize("name", EXACT)
def test_real_models(name: str) -> None:
    """Vela's program in a file of ours gives LiteRT's values, in the arena that the file states."""
    model = (models_folder() / f"{name}.tflite").read_bytes()
    artifact = artifact_of_compiled(read_tflite(vela_file(model), name))
    ours = read_tflite(tflite.write(artifact), name)
    inputs = random_inputs(ours)
    result = execution.run_tflite(ours, inputs)
    compare(model, ours, result, inputs)
    assert result.arena_touched_bytes == artifact.arena_bytes


@needs_driver
@pytest.mark.parametrize("name", ["person_detect", "resnet8_int8"])
def test_real_models_in_c(name: str) -> None:
    model = (models_folder() / f"{name}.tflite").read_bytes()
    artifact = artifact_of_compiled(read_tflite(vela_file(model), name))
    compare_c(artifact, random_inputs(artifact.graph))


@needs_driver
def test_the_simulators_reason_comes_back_through_c() -> None:
    artifact = vela_artifact(tiny_conv())
    call = artifact.calls[0]
    assert isinstance(call, NpuCall)
    damaged = replace(call, payload=call.payload[:32] + b"\xff" * 4 + call.payload[36:])
    with pytest.raises(VerificationError, match=r"returned -3:\n.*command 0"):
        host_c.run(replace(artifact, calls=(damaged,)), random_inputs(artifact.graph))


@needs_driver
def test_hazards_are_counted_through_c() -> None:
    """A stream without its waits for copies has as many hazards behind the C interface as on the simulator itself."""
    artifact = ethoscade.compile(residual_network()).artifact
    inputs = random_inputs(artifact.graph)
    assert host_c.run(artifact, inputs).hazards == 0
    hasty = replace(artifact, calls=tuple(_without_dma_waits(call) for call in artifact.calls))
    expected = execution.run_artifact(hasty, inputs)
    assert host_c.run(hasty, inputs).hazards == expected.hazards > 0


def _without_dma_waits(call: NpuCall | CpuCall) -> NpuCall | CpuCall:
    if isinstance(call, CpuCall):
        return call
    dma_wait, commands = 17, commands_of(call.payload)
    kept = [c for c in commands if c.words[0] & 0xFFFF != dma_wait]
    assert len(kept) < len(commands)
    return replace(call, payload=payload_with(call.payload, kept))


def test_our_declarations_agree_with_the_drivers_header(tmp_path: Path) -> None:
    header = simulator.driver_interface()[0] / "ethosu_driver.h"
    artifact = vela_artifact(tiny_conv())
    for flags in (["-include", str(header)], [f'-DETHOSCADE_ETHOSU_DRIVER_H="{header}"']):
        assert host_c.build(artifact, tmp_path, extra_flags=flags).is_file()


@pytest.mark.parametrize("interpreters", [(), (litert_room.LITERT,)], ids=["none", "LiteRT"])
def test_state_that_nobody_plays_names_every_operator(
    monkeypatch: pytest.MonkeyPatch, interpreters: tuple[litert_room.Interpreter, ...]
) -> None:
    """LiteRT takes their state for another type."""
    if interpreters:
        needs_litert()
    graph = read_tflite(vela_file(with_two_states().bytes()), "net")
    monkeypatch.setattr(litert_room, "is_installed", lambda interpreter=litert_room.LITERT: interpreter in interpreters)
    with pytest.raises(UnsupportedOperatorError) as caught:
        execution.run_tflite(graph, random_inputs(graph))
    assert str(caught.value).count("(SVDF of int8)") == 2
    assert ("LiteRT takes state" in str(caught.value)) == bool(interpreters)


def test_cpu_operators_count_as_touches() -> None:
    b = ModelBuilder()
    b.softmax(b.input((1, 20)))
    model = b.build()
    artifact = cpu_artifact(model)
    inputs = random_inputs(artifact.graph)
    result = execution.run_artifact(artifact, inputs)
    compare(model, artifact.graph, result, inputs)
    assert result.arena_touched_bytes == artifact.arena_bytes == 64
    assert result.touched_bytes[inference.ARENA_REGION] == 32 + 20
    assert result.reports == ()
    roomy = replace(artifact, arena_bytes=256, calls=(CpuCall(0, workspace_offset=128, workspace_bytes=100),))
    assert execution.run_artifact(roomy, inputs).arena_touched_bytes == 240


def test_reading_what_nobody_wrote_is_worth_a_warning() -> None:
    b = ModelBuilder()
    b.softmax(b.softmax(b.input((1, 20))))
    artifact = cpu_artifact(b.build())
    result = execution.run_artifact(replace(artifact, calls=artifact.calls[1:]), random_inputs(artifact.graph))
    assert len(result.warnings) == 1
    assert "SOFTMAX" in result.warnings[0]
    assert "was never written" in result.warnings[0]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "was not given"),
        ({"other": np.zeros((1, 20), np.int8)}, "has no input 'other'; its inputs are 'input0'"),
        ({"input0": np.zeros((20,), np.int8)}, r"must be int8 of shape \(1, 20\); given is int8 of shape \(20,\)"),
        ({"input0": np.zeros((1, 20), np.float64)}, "given is float64"),
    ],
)
def test_wrong_inputs(inputs: dict[str, np.ndarray], message: str) -> None:
    b = ModelBuilder()
    b.softmax(b.input((1, 20)))
    with pytest.raises(ConfigError, match=message):
        execution.run_artifact(cpu_artifact(b.build()), inputs)


def test_vela_puts_an_npu_operators_memories_ahead_of_what_the_network_brings() -> None:
    graph = read_tflite(vela_file(tiny_conv()), "net")
    (operator,) = graph.operators
    assert operator.inputs == (*operator.memories, *graph.inputs)
    assert not {*operator.memories} & {*graph.inputs}


def test_a_file_that_is_not_compiled() -> None:
    with pytest.raises(ModelFormatError, match="no 'ethos-u' operator"):
        execution.run_tflite(read_tflite(tiny_conv(), "net"), {})


@pytest.mark.parametrize(
    ("plan", "message"),
    [(None, "does not say where"), (b"", "0 words"), (struct.pack("<4i", 0, 1, 1, 0), "for 1 tensors")],
)
def test_plans_that_contradict_the_file(plan: bytes | None, message: str) -> None:
    graph = read_tflite(vela_file(tiny_conv()), "net")
    metadata = {} if plan is None else {compiled_file.OFFLINE_PLAN: plan}
    with pytest.raises(ModelFormatError, match=message):
        execution.run_tflite(replace(graph, metadata=metadata), random_inputs(graph))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (0x00001005, "ethos-u55-32"),
        (0x00001006, "ethos-u55-64"),
        (0x00001807, "ethos-u55-128"),
        (0x00003008, "ethos-u55-256"),
        (0x10003008, "ethos-u65-256"),
        (0x10006009, "ethos-u65-512"),
    ],
)
def test_accelerator_of_a_payload(config: int, name: str) -> None:
    assert compiled_file.accelerator_of(b"COP1" + struct.pack("<2I", 0x00100001, config)) == name


@pytest.mark.parametrize("payload", [b"", b"COP1", b"COP2" + bytes(8), b"COP1" + bytes(7) + b"\x20"])
def test_payloads_of_nothing_known(payload: bytes) -> None:
    with pytest.raises(SimulationError):
        compiled_file.accelerator_of(payload)
