"""The emitted C: what it says (golden texts), that it builds without a warning, and what its entry does."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from codegen_support import cpu_artifact, litert, models_folder, random_inputs, vela_artifact
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact, CpuCall, NpuCall
from ethoscade.codegen.c.names import comment, identifier, tensor_identifiers
from ethoscade.errors import CodegenError, ConfigError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Operator, Quantisation, Tensor
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder, tiny_conv

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "c_source"


def mixed() -> Artifact:
    """NPU, then SOFTMAX on the CPU, then the NPU again with the same payload: by hand, so that its text is stable."""
    scale = Quantisation((0.5,), (0,))
    tensors = (
        Tensor("serving_default_x:0", (1, 8), DType.INT8, scale),
        Tensor("middle", (1, 8), DType.INT8, scale),
        Tensor("softmax", (1, 8), DType.INT8, Quantisation((1 / 256,), (-128,))),
        Tensor("StatefulPartitionedCall:0", (1, 8), DType.INT8, scale),
    )
    operators = (
        Operator("CONV_2D", "first", (0,), (1,)),
        Operator("SOFTMAX", "soft /* and */ warm", (1,), (2,)),
        Operator("CONV_2D", "last", (2,), (3,)),
    )
    graph = Graph("mixed", tensors, operators, (0,), (3,))
    payload = b"COP1" + bytes(range(28))
    calls = (NpuCall("first", payload, (0,), (1,)), CpuCall(1), NpuCall("last", payload, (2,), (3,)))
    return Artifact("mixed", "ethos-u55-128", graph, calls, bytes([3]) * 32, 64, {0: 0, 1: 0, 2: 16, 3: 16})


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("stub") / "libdriver.so"
    source = Path(__file__).with_name("driver_stub.c")
    subprocess.run(["cc", "-std=c99", "-fPIC", "-shared", str(source), "-o", str(library)], check=True)
    return library


@pytest.mark.parametrize("name", ["tvmgen_mixed.h", "mixed_lib0.c", "mixed_lib1.c", "mixed_lib2.c"])
def test_golden_text(name: str) -> None:
    """Run with UPDATE_GOLDEN=1 to write the texts anew, then read the difference."""
    text = c_source.sources(mixed())[name]
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_calls_run_in_order_and_the_driver_gets_what_it_needs(stub: Path) -> None:
    artifact = mixed()
    x = np.arange(8, dtype=np.int8).reshape(1, 8) * 3
    found = host_c.run(artifact, {"serving_default_x:0": x}, driver=stub, runs=3)
    b = ModelBuilder()
    b.softmax(b.input((1, 8), quantisation=Quantisation((0.5,), (0,))))
    softmax = next(iter(litert(b.build(), {"input0": x + 3}).values()))
    np.testing.assert_array_equal(found.outputs["StatefulPartitionedCall:0"], softmax + 3)
    assert found.arena_bytes == 64


def test_driver_errors_come_back(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_FAIL", "1")
    with pytest.raises(VerificationError, match="returned -3"):
        host_c.run(mixed(), {"serving_default_x:0": np.zeros((1, 8), np.int8)}, driver=stub)


def test_a_crash_stays_in_the_child(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_CRASH", "1")
    with pytest.raises(VerificationError, match="signal 6"):
        host_c.run(mixed(), {"serving_default_x:0": np.zeros((1, 8), np.int8)}, driver=stub)


def test_a_fragment_for_cmake_names_every_source(tmp_path: Path) -> None:
    files = c_source.write(mixed(), tmp_path)
    text = files["mixed.cmake"].read_text()
    assert all(f"/{name}" in text for name in files if name.endswith(".c"))


def test_a_real_program_builds(tmp_path: Path) -> None:
    assert host_c.build(vela_artifact(tiny_conv()), tmp_path / "deep" / "folder").is_file()


def test_a_real_networks_weights_build(tmp_path: Path) -> None:
    model = (models_folder() / "person_detect.tflite").read_bytes()
    assert host_c.build(vela_artifact(model), tmp_path).stat().st_size > 200_000


@pytest.mark.parametrize("flags", [("-DTVMGEN_MIXED_ARENA=my_arena",), ("-DTVMGEN_MIXED_ARENA_ATTRIBUTE=",)])
def test_the_arena_can_be_placed_or_replaced(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert host_c.build(mixed(), tmp_path, extra_flags=flags).is_file()


def test_the_headers_compile_as_cpp(tmp_path: Path) -> None:
    files = c_source.write(mixed(), tmp_path)
    command = ["c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", str(files["tvmgen_mixed.h"])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        pytest.skip("no C++ compiler")
    assert done.returncode == 0, done.stderr


def test_a_missing_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m32")
    with pytest.raises(VerificationError, match="'no-such-compiler'"):
        host_c.run(mixed(), {"serving_default_x:0": np.zeros((1, 8), np.int8)}, driver="x")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "was not given"),
        ({"x": np.zeros((1, 8), np.int8)}, "no input 'x'"),
        ({"serving_default_x:0": np.zeros((8,), np.int8)}, r"shape \(1, 8\); given is int8 of shape \(8,\)"),
        ({"serving_default_x:0": np.zeros((1, 8), np.float32)}, "must be int8"),
    ],
)
def test_wrong_inputs(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        host_c.run(mixed(), inputs, driver="x")


def test_identifiers() -> None:
    assert identifier("a/b:0") == "a_b_0"
    assert identifier("default") == "default_"
    assert identifier("1x") == "_1x"
    assert identifier("") == "_"
    assert comment("a */ b \\ ??/ \n") == "a * / b / ? ?/ ?"
    assert comment("*\\ \\* ???/ *\\/") == "* / / * ? ? ?/ * //"


@pytest.mark.parametrize(("left", "right"), [("a:0", "a_0"), ("Input", "input"), ("é", "ü")])
def test_clashing_names(left: str, right: str) -> None:
    with pytest.raises(CodegenError, match=f"'{left}' and '{right}'"):
        tensor_identifiers({0: left, 1: right})


def test_a_name_that_the_header_needs() -> None:
    assert tensor_identifiers({0: "workspace", 1: "Fast", 2: "speed"}) == {0: "workspace_", 1: "Fast_", 2: "speed"}


def test_clashing_outputs_leave_nothing_behind(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 8), name="x:0")
    b.softmax(x, name="x_0")
    artifact = cpu_artifact(b.build())
    tensors = list(artifact.graph.tensors)
    tensors[artifact.graph.outputs[0]] = replace(tensors[artifact.graph.outputs[0]], name="x_0")
    artifact = replace(artifact, graph=replace(artifact.graph, tensors=tuple(tensors)))
    with pytest.raises(CodegenError, match="'x:0' and 'x_0'"):
        c_source.write(artifact, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_same_text_every_time() -> None:
    artifact = vela_artifact(tiny_conv())
    assert c_source.sources(artifact) == c_source.sources(artifact)


def test_cpu_network_needs_no_driver() -> None:
    b = ModelBuilder()
    b.softmax(b.input((1, 8)))
    texts = c_source.sources(cpu_artifact(b.build()))
    assert not any("ethosu" in text or "devices" in text for text in texts.values())
    model = b.build()
    inputs = random_inputs(read_tflite(model, "net"))
    assert host_c.run(cpu_artifact(model), inputs).outputs
