"""Devices without an NPU: every operator as C on the CPU, in a planned arena, bit-exact on the host."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import ethoscade
import pytest
from ethoscade.__main__ import main
from ethoscade.errors import BudgetError, ConfigError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.testing import ModelBuilder, random_network
from reference_support import needs_litert


def network(dtype: DType = DType.INT8) -> bytes:
    b = ModelBuilder(dtype=dtype)
    x = b.conv2d(b.input((1, 12, 10, 3), name="x"), 8, 3, stride=2)
    x = b.add(b.depthwise(x, 3), x)
    x = b.reshape(b.average_pool(x, (6, 5), padding="VALID"), (1, 8))
    b.softmax(b.fully_connected(x, 4), name="y")
    return b.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_a_network_runs_as_c_alone(dtype: DType) -> None:
    needs_litert()
    compiled = ethoscade.compile(network(dtype), accelerator="none")
    assert {op.where for op in compiled.operators} == {"cpu"} and {op.reason for op in compiled.operators} == {"no NPU"}
    assert compiled.cycles == compiled.npu_commands == compiled.cascades == 0
    assert compiled.pools["constants"] == compiled.pools["commands"] == 0
    weights = sum(t.size_bytes for t in compiled.artifact.graph.tensors if t.is_constant and len(t.shape) != 1)
    assert compiled.flash_bytes >= weights
    check = compiled.verify(seeds=2)
    assert check.ok and check.elements == 8 and check.sram_touched_bytes == compiled.sram_bytes
    assert compiled.verify(seeds=1, target="simulator").ok
    # All of it: the input of the widest operator, its output, and a reshape that has no bytes of its own.
    graph = compiled.artifact.graph
    largest = max(
        sum(
            graph.tensors[t].size_bytes
            for t in {*op.inputs, *op.outputs}
            if t is not None and not graph.tensors[t].is_constant
        )
        for op in graph.operators
    )
    assert largest <= compiled.sram_bytes <= largest + 960 * graph.tensors[0].dtype.size_bytes


@pytest.mark.parametrize("seed", [2, 4, 7, 15, 23, 31])
def test_random_networks_equal_the_judge(seed: int) -> None:
    """Among them one with state, an LSTM and an SVDF, whose runs follow each other."""
    needs_litert()
    check = ethoscade.compile(random_network(seed), accelerator="none").verify(seeds=1)
    assert check.ok, check


def test_a_float_input_costs_its_own_bytes_alone() -> None:
    b = ModelBuilder()
    b.max_pool(b.quantize(b.input((1, 16, 16, 4), dtype=DType.FLOAT32)))
    assert ethoscade.compile(b.build(), accelerator="none").sram_bytes == 4096
    assert ethoscade.compile(b.build(), accelerator="none", io="int8").sram_bytes == 1024 + 256


def test_what_is_written_without_an_npu(tmp_path: Path) -> None:
    """A plan for TensorFlow Lite Micro and C, which name no NPU."""
    compiled = ethoscade.compile(network(), accelerator="none")
    planned = read_tflite(compiled.save(tmp_path / "net.tflite"))
    assert [op.kind for op in planned.operators] == [op.kind for op in compiled.artifact.graph.operators]
    assert "OfflineMemoryAllocation" in planned.metadata
    files = compiled.write_c(tmp_path / "c")
    assert not any("ethosu" in path.read_text() for name, path in files.items() if name.endswith((".c", ".h")))
    compiled.write_mlf(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        member = archive.extractfile("./metadata.json") or io.BytesIO()
        (entry,) = json.loads(member.read())["modules"].values()
    assert entry["target"] == ["c -keys=cpu"]


def test_there_is_one_schedule_and_budgets_hold() -> None:
    model = network()
    compiled = ethoscade.compile(model, accelerator="none")
    assert ethoscade.frontier(model, accelerator="none").points == ((compiled.sram_bytes, 0),)
    assert ethoscade.compile(model, accelerator="none", sram=compiled.sram_bytes).sram_bytes == compiled.sram_bytes
    with pytest.raises(BudgetError, match=f"{compiled.sram_bytes} bytes"):
        ethoscade.compile(model, accelerator="none", sram=compiled.sram_bytes - 1)


@pytest.mark.parametrize("option", ["system_config", "memory_mode", "config"])
def test_memories_of_an_npu_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} is 'Shared_Sram'.*leave it out"):
        ethoscade.compile(network(), accelerator="none", **{option: "Shared_Sram"})


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_litert()
    model = tmp_path / "net.tflite"
    model.write_bytes(network())
    command = ["compile", str(model), "--accelerator", "none", "--emit", "c", "-o", str(tmp_path / "out"), "--verify"]
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cycles"] is None and report["accelerator"] == "none" and report["verification"]["ok"]
    assert report["operators"] == {"npu": 0, "cpu": len(read_tflite(model).operators)}
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "not counted" in text and "a CPU alone" in text and "nothing to compile" not in text
    assert main(["verify", str(model), "--accelerator", "none", "--target", "simulator"]) == 0
    assert main(["compile", str(model), "--accelerator", "nobody"]) == 1
    assert "none" in capsys.readouterr().err


def test_an_error_in_c_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C is what is verified, not another player of the operators."""
    needs_litert()
    from ethoscade.codegen.c_kernels import texts

    real = texts._raw
    monkeypatch.setattr(texts, "_raw", lambda file: real(file).replace("sum + (sum32)(a * b)", "sum - (sum32)(a * b)"))
    check = ethoscade.compile(network(), accelerator="none").verify(seeds=2)
    assert not check.ok and check.mismatches
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(VerificationError, match="/nowhere/cc"):
        ethoscade.compile(network(), accelerator="none").verify(seeds=1)


@pytest.mark.parametrize("template", ["host", "qemu-mps3-an547"])
def test_a_project_names_files_that_it_has(tmp_path: Path, template: str) -> None:
    """Among them no stand-in for an NPU's driver."""
    model = tmp_path / "net.tflite"
    model.write_bytes(network())
    assert main(["new", "--template", template, str(tmp_path / "p"), str(model), "--accelerator", "none"]) == 0
    named = re.findall(r"src/\w+\.c", (tmp_path / "p" / "CMakeLists.txt").read_text())
    assert named and all((tmp_path / "p" / name).is_file() for name in named)
