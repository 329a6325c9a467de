"""CMSIS-NN in the place of our kernels: calls, scratch and refusals against a stand-in written from its interface."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from codegen_support import models_folder
from command_line_support import Capture, run, run_json, written
from ethoscade.codegen import c_source
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import ConfigError, VerificationError
from ethoscade.ir import Activation, DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline.compiled import Compiled
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder
from firmware_builds import FIRMWARE, STRICT

STANDIN = FIRMWARE / "cmsis_nn"
INCLUDED = f"-I{STANDIN / 'Include'}"
CORES = ("c", "dsp", "mve")


def network(dtype: DType = DType.INT8) -> bytes:
    """Each function: a window, a point, a row; channels one by one, several from one, dilated; two kinds of dense."""
    b = ModelBuilder("network", dtype=dtype)
    x = b.conv2d(b.input((1, 9, 8, 3), name="x"), 8, 3, stride=2, activation=Activation.RELU)
    x = b.depthwise(x, 3, stride=1)
    x = b.conv2d(x, 12, 1)
    x = b.depthwise(x, (1, 5), multiplier=2, use_bias=False)
    x = b.depthwise(x, 3, dilation=2, activation=Activation.RELU6)
    x = b.conv2d(x, 5, (1, 3), padding="VALID")
    x = b.fully_connected(x, 7, inputs=5 * 5 * 2)
    b.fully_connected(x, 6, name="y", per_channel=dtype is DType.INT8)
    return b.build()


def one_channel() -> bytes:
    b = ModelBuilder("one_channel")
    b.depthwise(b.input((2, 6, 7, 1), name="x"), 3, multiplier=10, name="y")
    return b.build()


def built(folder: Path, core: int, *flags: str) -> tuple[str, ...]:
    """The stand-in as a library, and what the compiler is told of it."""
    library = folder / "libstandin.so"
    command = [
        "cc",
        "-std=c99",
        "-O1",
        "-Wall",
        "-fPIC",
        "-shared",
        f"-DSTANDIN_CORE={core}",
        *flags,
        INCLUDED,
    ]
    subprocess.run([*command, str(STANDIN / "Source" / "standin.c"), "-o", str(library)], check=True)
    return (INCLUDED, "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}", *STRICT)


def compiled_for(model: bytes, kernels: str = "cmsis-nn", **more: str) -> Compiled:
    return ethoscade.compile(model, accelerator="none", kernels=kernels, cmsis_nn=STANDIN, **more)


def calls(compiled: Compiled) -> list[str]:
    texts = c_source.sources(compiled.artifact)
    return re.findall(r"^  return (\w+)\(&context", "".join(texts.values()), re.MULTILINE)


EXPECTED = {
    DType.INT8: [
        *("arm_convolve_wrapper_s8", "arm_depthwise_conv_wrapper_s8") * 2,
        *("arm_depthwise_conv_wrapper_s8", "arm_convolve_wrapper_s8"),
        *("arm_fully_connected_s8", "arm_fully_connected_per_channel_s8"),
    ],
    DType.INT16: [
        *("arm_convolve_wrapper_s16", "arm_depthwise_conv_wrapper_s16") * 2,
        *("arm_depthwise_conv_wrapper_s16", "arm_convolve_wrapper_s16"),
        *("arm_fully_connected_s16",) * 2,
    ],
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("dtype", EXPECTED)
def test_the_library_is_called_exactly(tmp_path: Path, dtype: DType, core: str) -> None:
    """On each core, planned for it and for all: the reference's outputs, whatever the library leaves in its scratch."""
    model = network(dtype)
    for kernels in (f"cmsis-nn:{core}", "cmsis-nn"):
        compiled = compiled_for(model, kernels)
        assert calls(compiled) == EXPECTED[dtype]
        folder = tmp_path / kernels.replace(":", "_")
        folder.mkdir()
        flags = built(folder, CORES.index(core))
        steps = [random_inputs(compiled.artifact.graph, seed) for seed in range(3)]
        with host_c.HostLibrary(compiled.artifact, extra_flags=flags) as library:
            for step, found in zip(steps, library.run_steps(steps), strict=True):
                np.testing.assert_array_equal(
                    found.outputs["y"], reference.run(compiled.artifact.graph, step).outputs["y"]
                )


@pytest.mark.parametrize("core", CORES)
def test_one_channel_to_many(tmp_path: Path, core: str) -> None:
    compiled = compiled_for(one_channel(), f"cmsis-nn:{core}")
    (step,) = [random_inputs(compiled.artifact.graph, 1)]
    found = host_c.run(compiled.artifact, step, extra_flags=built(tmp_path, CORES.index(core)))
    np.testing.assert_array_equal(found.outputs["y"], reference.run(compiled.artifact.graph, step).outputs["y"])


def test_scratch_is_planned_for_the_core() -> None:
    """By the library's formulas: bytes of each call, and of the arena, which is the largest where all are."""
    needed = {}
    for core in CORES:
        artifact = compiled_for(network(), f"cmsis-nn:{core}").artifact
        needed[core] = [call.workspace_bytes for call in artifact.calls]
    assert needed["c"] == [4 * 28, 0, 0, 0, 0, 4 * 72, 0, 0]
    assert needed["dsp"] == [4 * 28, 2 * 8 * 9, 4 * 8, 2 * 12 * 5, 2 * 24 * 9, 4 * 72, 0, 0]
    assert needed["mve"] == [4 * 32, 496 * 9, 0, 496 * 5, 496 * 9, 4 * 80, 4 * 7, 4 * 6]
    everywhere = [call.workspace_bytes for call in compiled_for(network()).artifact.calls]
    assert everywhere == [max(sizes) for sizes in zip(*needed.values(), strict=True)]


def test_a_library_for_another_core_is_noticed(tmp_path: Path) -> None:
    """Planned for plain C and built for MVE: the run ends before scratch is written that is not its own."""
    compiled = compiled_for(network(), "cmsis-nn:c")
    with pytest.raises(VerificationError, match="_run returned -5"):
        host_c.run(compiled.artifact, random_inputs(compiled.artifact.graph, 0), extra_flags=built(tmp_path, 2))


def test_an_error_of_the_library_ends_the_run(tmp_path: Path) -> None:
    compiled = compiled_for(network(), "cmsis-nn:c")
    flags = built(tmp_path, 0, "-DSTANDIN_FAILS")
    with pytest.raises(VerificationError, match="_run returned -7"):
        host_c.run(compiled.artifact, random_inputs(compiled.artifact.graph, 0), extra_flags=flags)


def test_operators_beside_an_npu(tmp_path: Path) -> None:
    """What the NPU leaves to the CPU goes to the library as well, in the same arena; runs that do not wait build."""
    b = ModelBuilder("beside")
    x = b.conv2d(b.input((1, 6, 6, 4), name="x"), 8, 3)
    # A kernel of so many rows is none of the NPU's.
    x = b.conv2d(x, 2, (66, 66))
    b.softmax(b.reshape(x, (1, 72)), name="y")
    compiled = ethoscade.compile(b.build(), kernels="cmsis-nn", cmsis_nn=STANDIN)
    assert compiled.pools["commands"] > 0 and calls(compiled) == ["arm_convolve_wrapper_s8"]
    for index, options in enumerate((COptions(), COptions(workspace="pools", executor="graph"))):
        files = c_source.write(compiled.artifact, tmp_path / str(index), options)
        units = [str(path) for path in files.values() if path.suffix == ".c"]
        command = [
            "cc",
            *STRICT,
            "-DETHOSCADE_ETHOSU_ASYNC=1",
            INCLUDED,
            f"-I{tmp_path / str(index)}",
            "-c",
        ]
        for unit in units:
            done = subprocess.run([*command, unit, "-o", str(tmp_path / "x.o")], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


# --- what stays with our kernels -----------------------------------------------------------------------------------


def test_what_the_library_does_not_do_exactly_stays_ours() -> None:
    for dtype in (DType.UINT8, DType.INT16):
        b = ModelBuilder("net", dtype=dtype)
        depth = 3 if dtype is DType.UINT8 else 64
        b.conv2d(b.input((1, 6, 6, depth)), 4, 3)
        assert calls(compiled_for(b.build())) == [], "uint8, and sums of int16 that leave 32 bits"
    b = ModelBuilder("net")
    x = b.input((1, 6, 6, 2), quantisation=Quantisation((4.0,), (0,)))
    b.conv2d(x, 4, 1, output=Quantisation((0.0001,), (0,)))
    assert calls(compiled_for(b.build())) == [], "a factor above one, which the library shifts to the left in 32 bits"
    assert set(calls(compiled_for(network()))) <= set(EXPECTED[DType.INT8]), "and with the same tensors it is taken"


def test_the_choice_is_kept_where_a_model_is_prepared() -> None:
    prepared = ethoscade.prepare(network(), accelerator="none", kernels="cmsis-nn:dsp", cmsis_nn=STANDIN)
    again = pickle.loads(pickle.dumps(prepared)).compile()
    assert calls(again) == EXPECTED[DType.INT8]
    assert again.sram_bytes == compiled_for(network(), "cmsis-nn:dsp").sram_bytes


# --- how it is asked for ---------------------------------------------------------------------------------------------


def test_the_header_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMSIS_NN", raising=False)
    model = network()

    def refused(words: str, kernels: str = "cmsis-nn", folder: Path | None = None) -> None:
        with pytest.raises(ConfigError, match=words):
            ethoscade.compile(model, accelerator="none", kernels=kernels, cmsis_nn=folder)

    refused("--cmsis-nn .*environment variable CMSIS_NN")
    refused(r"is no folder of CMSIS-NN: it has no Include/arm_nnfunctions\.h", folder=tmp_path)
    refused("'cmsis-nn:m7'; behind 'cmsis-nn:' comes c, dsp or mve", "cmsis-nn:m7", STANDIN)
    with pytest.raises(ConfigError, match="cmsis_nn is the folder of kernels 'cmsis-nn', which were not asked for"):
        ethoscade.compile(model, accelerator="none", cmsis_nn=STANDIN)
    (tmp_path / "Include").mkdir()
    text = (STANDIN / "Include" / "arm_nnfunctions.h").read_text()
    header = tmp_path / "Include" / "arm_nnfunctions.h"
    header.write_text(text.replace("const int32_t rhs_offset, ", ""))
    refused("declares arm_vector_sum_s8 with 6 parameters, and the sources would call it with 7", folder=tmp_path)
    header.write_text(text.replace("arm_fully_connected_s16(", "arm_fully_connected_q15("))
    refused("declares arm_fully_connected_s16 nowhere", folder=tmp_path)
    header.write_text(
        text.replace("arm_cmsis_nn_status arm_fully_connected_s16(", "/* arm_fully_connected_s16(") + "*/"
    )
    refused("declares arm_fully_connected_s16 nowhere", folder=tmp_path)
    shutil.copy(STANDIN / "Include" / "arm_nnfunctions.h", header)
    monkeypatch.setenv("CMSIS_NN", str(tmp_path))
    assert calls(ethoscade.compile(model, accelerator="none", kernels="cmsis-nn")) == EXPECTED[DType.INT8]


def test_the_command_line_passes_it_on(tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "network.tflite", network())
    words = [
        "compile",
        model,
        "--accelerator",
        "none",
        "--emit",
        "c",
        "-o",
        tmp_path / "o",
        "--kernels",
        "cmsis-nn:mve",
    ]
    found = run_json([*words, "--cmsis-nn", STANDIN], capfd)
    assert found["sram_bytes"] == compiled_for(network(), "cmsis-nn:mve").workspace_bytes
    assert "arm_convolve_wrapper_s8(" in (tmp_path / "o" / "network_lib2.c").read_text()
    status, _, err = run([*words, "--cmsis-nn", tmp_path], capfd)
    assert status == 1 and "is no folder of CMSIS-NN" in err


def test_public_models_call_the_library(tmp_path: Path) -> None:
    """Which operators it takes of a keyword spotter; the reference's outputs."""
    model = (models_folder() / "kws_ref_int8.tflite").read_bytes()
    compiled = compiled_for(model)
    assert len(calls(compiled)) == 10
    step = random_inputs(compiled.artifact.graph, 1)
    found = host_c.run(compiled.artifact, step, extra_flags=built(tmp_path, 2))
    expected = reference.run(compiled.artifact.graph, step).outputs
    assert all(np.array_equal(found.outputs[name], value) for name, value in expected.items())
