"""Inputs that the caller keeps in a memory of their own: read there, exactly, with none of their bytes counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from command_line_support import Capture, run, run_json, written
from ethoscade import CodegenError, ConfigError
from ethoscade.codegen.artifact import NpuCall
from ethoscade.codegen.c.options import COptions
from ethoscade.codegen.c.regions import used
from ethoscade.codegen.raw import arrays
from ethoscade.ir import DType
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiled import Compiled
from ethoscade.pipeline.compiler import prepare, search
from ethoscade.run import host_c
from ethoscade.run.execution import run_artifact
from ethoscade.run.timing import simulate_timing
from ethoscade.targets.target import ACCELERATORS, compilation_target
from ethoscade.testing import ModelBuilder, inverted_residuals
from firmware_builds import SANITIZED, Firmware
from promised_cycles import broken_promises
from raw_reader import RawProgram
from test_firmware import DRIVERS, EXTERNAL, artifact_of, steps_of

FLASH = "OffChipFlash"


def image() -> bytes:
    return inverted_residuals(resolution=32)


def two_inputs() -> bytes:
    """The second operand of the first operation is the first input, so that regions and operands go different ways."""
    b = ModelBuilder("two_inputs")
    first, second = (b.input((1, 12, 10, 8), name=name) for name in ("first", "second"))
    b.conv2d(b.add(b.depthwise(second, 3), first), 8, 3)
    return b.build()


def reshaped() -> bytes:
    """The input under another name, in another shape."""
    b = ModelBuilder("reshaped")
    b.conv2d(b.reshape(b.input((1, 24, 5, 8), name="input"), (1, 10, 12, 8)), 8, 3)
    return b.build()


def joined() -> bytes:
    """An operation that copies the input into a part of its output, and a row of it read alone."""
    b = ModelBuilder("joined")
    x = b.input((1, 8, 8, 8), name="input")
    top, bottom = b.split(b.concatenate([x, b.quantize(b.conv2d(x, 8, 3), x.quantisation)], axis=3), (2, 6), axis=1)
    b.output(b.conv2d(top, 8, 1), b.depthwise(bottom, 3))
    return b.build()


def with_state() -> bytes:
    b = ModelBuilder("with_state")
    b.fully_connected(b.lstm(b.input((1, 6, 8)), 12), 4)
    return b.build()


def operators_behind() -> bytes:
    """The NPU reads the input, the CPU what comes of it."""
    b = ModelBuilder("operators_behind")
    b.dequantize(b.conv2d(b.conv2d(b.input((1, 12, 12, 4), name="input"), 16, 3), 8, 3))
    return b.build()


MODELS: dict[str, Callable[[], bytes]] = {
    made.__name__: made for made in (image, two_inputs, reshaped, joined, with_state, operators_behind)
}


def compiled(name: str, optimise: str = "size", **options: str) -> Compiled:
    return ethoscade.compile(MODELS[name](), optimise=optimise, **{"input_memory": FLASH, **options})


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize("optimise", ["size", "fastest"])
@pytest.mark.parametrize("name", MODELS)
def test_results_are_exact_and_bytes_as_promised(name: str, optimise: str, accelerator: str) -> None:
    found = compiled(name, optimise, accelerator=accelerator)
    check = found.verify(seeds=2)
    assert check.ok and check.hazards == 0 and check.sram_touched_bytes == found.sram_bytes
    calls = [call for call in found.artifact.calls if isinstance(call, NpuCall)]
    regions = set.union(*(set(used(call.payload) or ()) for call in calls))
    assert {region for region in regions if region >= 3} == {3 + n for n in range(len(found.source.given))}


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", MODELS)
def test_streams_are_those_that_were_promised(name: str, accelerator: str) -> None:
    target = compilation_target(accelerator, input_memory=FLASH)
    network = prepare(ethoscade.frontend.read_tflite(MODELS[name]()), target)
    curve = search(network)
    for index in {0, len(curve.points) - 1}:
        assert list(broken_promises(network, curve, index)) == []


def test_the_input_takes_none_of_the_sram() -> None:
    inside, outside = (ethoscade.frontier(image(), input_memory=memory) for memory in (None, FLASH))
    size = 32 * 32 * 3
    assert inside.floor_bytes >= size > outside.floor_bytes
    # Where every tensor is whole it is the input's bytes that are missing, or it is not at the peak.
    assert 0 <= inside.uncascaded_bytes - outside.uncascaded_bytes <= size
    fastest = compiled("image", "fastest")
    with pytest.raises(ethoscade.BudgetError, match=f"needs {outside.floor_bytes} bytes"):
        ethoscade.compile(image(), sram=outside.floor_bytes - 16, input_memory=FLASH)
    assert ethoscade.compile(image(), sram=outside.floor_bytes, input_memory=FLASH).sram_bytes == outside.floor_bytes
    assert fastest.verify(seeds=1).ok


def test_rows_cost_what_their_memory_costs() -> None:
    """A slower memory makes the same network slower, and the bytes of the input go through it."""
    in_sram, in_flash = (compiled("image", "fastest", input_memory=memory) for memory in ("Sram", FLASH))
    assert in_sram.cycles < in_flash.cycles
    for found, memory in ((in_sram, "Sram"), (in_flash, FLASH)):
        (call,) = (call for call in found.artifact.calls if isinstance(call, NpuCall))
        target = compilation_target(input_memory=memory)
        with_input = simulate_timing(call.payload, target).memories[memory]
        without = simulate_timing(call.payload, compilation_target()).memories[memory]
        moved = with_input.read_bytes - without.read_bytes
        assert moved >= 32 * 32 * 3 if memory == FLASH else moved == 0


def test_external_inputs_begin_with_a_cache_line(tmp_path: Path) -> None:
    """-4 before anything is written; at sixteen bytes the driver's own check would not find it."""
    firmware = Firmware(artifact_of(EXTERNAL), tmp_path, COptions(), driver=DRIVERS["24.02"], flags=SANITIZED)
    assert firmware.run(steps_of(EXTERNAL), input_shift=16).statuses == [-4, -4]
    assert firmware.run(steps_of(EXTERNAL), input_shift=32).statuses == [0, 0]


@pytest.mark.parametrize("name", ["image", "two_inputs", "joined", "operators_behind"])
def test_the_emitted_c_reads_them_where_they_are(name: str) -> None:
    found = compiled(name)
    inputs = random_inputs(found.artifact.graph, 5)
    expected = run_artifact(found.artifact, inputs).outputs
    ran = host_c.run(found.artifact, inputs, runs=2)
    assert ran.hazards == 0 and ran.arena_bytes == found.artifact.arena_bytes
    assert all(np.array_equal(ran.outputs[key], value) for key, value in expected.items())


def test_raw_files_name_their_regions(tmp_path: Path) -> None:
    found = arrays(compiled("two_inputs").artifact)
    assert (found["input_region"].tolist(), found["input_offset"].tolist()) == ([3, 4], [0, 0])
    assert found["output_region"].tolist() == [1]
    made = compiled("operators_behind")
    inputs = random_inputs(made.artifact.graph, 3)
    program = RawProgram(made.write_raw(tmp_path / "net.npz"))
    expected = run_artifact(made.artifact, inputs).outputs
    assert all(np.array_equal(program.run(inputs)[key], value) for key, value in expected.items())
    assert program.told["regions"][3:] == ["input_0"] and program.hazards == 0


def test_addresses_and_reports_say_where_they_lie(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", image())
    arguments = ["compile", model, "--input-memory", FLASH.lower(), "--emit", "c,raw", "-o", str(tmp_path)]
    report = run_json(arguments, capfd)
    assert report["input_memory"] == FLASH
    (row,) = (row for row in report["addresses"] if row["pool"] == "input")
    assert (row["memory"], row["address"], row["size_bytes"]) == (FLASH, 0, 32 * 32 * 3)
    assert f"outputs included; inputs lie in {FLASH}" in run(arguments, capfd)[1]
    page = tmp_path / "report.html"
    assert run([*arguments, "--report", str(page)], capfd)[0] == 0 and page.stat().st_size > 10_000
    listed = json.loads(run(["frontier", model, "--input-memory", FLASH, "--json"], capfd)[1])
    assert listed["floor_bytes"] == ethoscade.frontier(image(), input_memory=FLASH).floor_bytes


# --- what cannot be ---------------------------------------------------------------------------------------------------


def passed_through() -> bytes:
    b = ModelBuilder("passed_through")
    x = b.input((1, 4, 4, 8), name="input")
    b.output(b.reshape(x, (1, 128)), b.conv2d(x, 8, 3))
    return b.build()


def six_inputs() -> bytes:
    b = ModelBuilder("six_inputs")
    first, *others = (b.input((1, 4, 4, 8), name=f"x{number}") for number in range(6))
    for other in others:
        first = b.add(first, other)
    return b.build()


def float_input() -> bytes:
    b = ModelBuilder("float_input")
    b.conv2d(b.quantize(b.input((1, 8, 8, 4), dtype=DType.FLOAT32, name="input")), 8, 3)
    return b.build()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (passed_through, {}, "input 'input' of 'model' is an output as well"),
        (six_inputs, {}, "has 6 inputs, and an NPU reads at most 5"),
        (float_input, {}, "on the CPU reads input 'input'.*--io int8"),
        (image, {"input_memory": "Dram"}, "input_memory is 'Dram'; system configuration .* has Sram and OffChipFlash"),
        (image, {"accelerator": "none"}, "input_memory is 'OffChipFlash'; it describes the memories of an NPU"),
        (
            image,
            {
                "accelerator": "ethos-u65-256",
                "system_config": "Ethos_U65_High_End",
                "memory_mode": "Dedicated_Sram",
                "input_memory": "Dram",
            },
            "inputs lie in Dram already",
        ),
    ],
)
def test_what_cannot_be_external_is_refused(model: Callable[[], bytes], options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ethoscade.compile(model(), **{"input_memory": FLASH, **options})


def test_a_border_of_floats_is_the_callers() -> None:
    found = ethoscade.compile(float_input(), io="int8", input_memory=FLASH)
    assert found.verify(seeds=1).ok


def test_writers_that_know_no_such_inputs_refuse(tmp_path: Path, capfd: Capture) -> None:
    found = compiled("image")
    with pytest.raises(CodegenError, match="TensorFlow Lite Micro keeps all inputs in its arena"):
        found.save(tmp_path / "net.tflite")
    for options, named in (({"workspace_io": True}, "workspace_io"), ({"executor": "graph"}, "executor 'graph'")):
        with pytest.raises(CodegenError, match=named):
            ethoscade.compile(image(), input_memory=FLASH, line_bytes=32).write_c(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []
    model = written(tmp_path / "net.tflite", image())
    status, _, err = run(["compile", model, "--input-memory", FLASH, "-o", str(tmp_path / "out")], capfd)
    assert status == 1 and "TensorFlow Lite Micro" in err and "Traceback" not in err
    status, _, err = run(
        ["new", "--template", "host", str(tmp_path / "project"), model, "--input-memory", FLASH], capfd
    )
    assert status == 1 and "a project's inputs lie in its arena" in err and not (tmp_path / "project").exists()


def test_a_network_is_looked_at_with_its_inputs_there(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", image())
    there = run_json(["check", model, "--input-memory", FLASH], capfd)
    here = run_json(["check", model], capfd)
    assert there["sram_bytes"] <= here["sram_bytes"]
    refused = written(tmp_path / "cpu.tflite", float_input())
    status, _, err = run(["check", refused, "--input-memory", FLASH], capfd)
    assert status == 1 and "on the CPU reads input" in err
