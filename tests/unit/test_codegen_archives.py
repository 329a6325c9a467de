"""MLF and raw files: layout, metadata, determinism, refusals."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from codegen_support import cpu_artifact, vela_artifact
from ethoscade.codegen import c_source, mlf, raw
from ethoscade.codegen.c.options import DEFAULT
from ethoscade.errors import CodegenError
from ethoscade.testing import ModelBuilder, tiny_conv


def softmax_model() -> bytes:
    b = ModelBuilder()
    b.softmax(b.input((1, 8)))
    return b.build()


def test_mlf_layout(tmp_path: Path) -> None:
    artifact = vela_artifact(tiny_conv())
    path = mlf.write([(artifact, DEFAULT)], tmp_path / "new" / "net.tar")
    with tarfile.open(path) as archive:
        names = archive.getnames()
        metadata = json.load(archive.extractfile("./metadata.json"))
        assert {member.mtime for member in archive} == {0}
        assert {(member.uid, member.gid, member.uname, member.gname) for member in archive} == {(0, 0, "", "")}
    files = {name for name in names if "." in Path(name).name}
    assert files == {
        "./codegen/host/include/tvmgen_net.h",
        "./codegen/host/src/net_lib0.c",
        "./codegen/host/src/net_lib1.c",
        "./codegen/host/src/net_lib3.c",
        "./metadata.json",
        "./parameters/net.params",
        "./src/net.txt",
    }
    assert metadata["version"] == 7
    module = metadata["modules"]["net"]
    assert module["executors"] == ["aot"]
    assert module["style"] == "full-model"
    assert module["export_datetime"] == "1970-01-01 00:00:00Z"
    main = module["memory"]["functions"]["main"][0]
    assert main["workspace_size_bytes"] == -(-artifact.arena_bytes // 32) * 32, "what the header's macro says"
    tensor = artifact.graph.tensors[artifact.graph.inputs[0]]
    told = {"size": tensor.size_bytes, "dtype": "int8", "scale": 1 / 128, "zero_point": 0}
    assert list(main["inputs"].values()) == [told]


def test_mlf_as_a_folder_is_the_same(tmp_path: Path) -> None:
    artifact = cpu_artifact(softmax_model())
    folder = mlf.write([(artifact, DEFAULT)], tmp_path / "net")
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == mlf.contents([(artifact, DEFAULT)])
    assert found["codegen/host/src/net_lib2.c"].decode() == c_source.sources(artifact)["net_lib2.c"]


def test_mlf_is_deterministic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = cpu_artifact(softmax_model())
    first = mlf.write([(artifact, DEFAULT)], tmp_path / "a.tar").read_bytes()
    assert mlf.write([(artifact, DEFAULT)], tmp_path / "b.tar").read_bytes() == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert mlf.metadata([(artifact, DEFAULT)])["modules"]["net"]["export_datetime"] == "1970-01-02 00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(CodegenError, match="yesterday"):
        mlf.write([(artifact, DEFAULT)], tmp_path / "c.tar")
    assert not (tmp_path / "c.tar").exists()


def test_mlf_with_a_long_name(tmp_path: Path) -> None:
    path = mlf.write([(cpu_artifact(softmax_model(), "n" * 120), DEFAULT)], tmp_path / "net.tar")
    with tarfile.open(path) as archive:
        assert f"./codegen/host/include/tvmgen_{'n' * 120}.h" in archive.getnames()


def test_mlf_refuses_compressed_names(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"name it \.tar"):
        mlf.write([(cpu_artifact(softmax_model()), DEFAULT)], tmp_path / "net.tar.gz")


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CodegenError, match="cannot write"):
        mlf.write([(cpu_artifact(softmax_model()), DEFAULT)], tmp_path / "file" / "net.tar")


def test_raw(tmp_path: Path) -> None:
    artifact = vela_artifact(tiny_conv())
    path = raw.write(artifact, tmp_path / "net.npz")
    assert path.read_bytes() == raw.write(artifact, tmp_path / "again.npz").read_bytes()
    with np.load(path) as found:
        assert found["cmd_data"].tobytes() == artifact.calls[0].payload
        assert found["weight_data"].tobytes() == artifact.constants
        assert found["scratch_size"] == artifact.arena_bytes
        assert found["input_shape"].shape == (1, 6)
        assert found["output_offset"].tolist() == [artifact.offsets[artifact.graph.outputs[0]]]
        assert found["variable_shape"].shape == (0, 6)


def test_raw_takes_one_npu_program_only(tmp_path: Path) -> None:
    with pytest.raises(CodegenError, match=r"SOFTMAX.*runs on the CPU"):
        raw.write(cpu_artifact(softmax_model()), tmp_path / "net.npz")
    assert not list(tmp_path.iterdir())
