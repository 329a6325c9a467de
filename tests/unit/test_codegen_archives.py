"""MLF and raw files: layout, metadata, determinism, refusals."""

from __future__ import annotations

import json
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from codegen_support import cpu_artifact, vela_artifact
from ethoscade.codegen import c_source, mlf, raw
from ethoscade.codegen.c.options import DEFAULT, COptions
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


def test_mlf_has_what_its_readers_open(tmp_path: Path) -> None:
    """An empty map of parameters, functions that the sources have, inputs and outputs counted once, lower case."""
    artifact = cpu_artifact(softmax_model(), "My-Net")
    found = mlf.contents([(artifact, DEFAULT)])
    magic, reserved, names, arrays = struct.unpack("<4Q", found["parameters/my_net.params"])
    assert (magic, reserved, names, arrays) == (0xF7E58D4F05049CB7, 0, 0, 0)
    module = json.loads(found["metadata.json"])["modules"]["my_net"]
    assert module["model_name"] == "my_net"
    functions = module["memory"]["functions"]
    main = functions["main"][0]
    assert main["io_size_bytes"] == 0 and main["workspace_size_bytes"] >= 16
    assert [[end["size"] for end in main[ends].values()] for ends in ("inputs", "outputs")] == [[8], [8]]
    source = found["codegen/host/src/my_net_lib2.c"].decode()
    names_of = [function["function_name"] for function in functions["operator_functions"]]
    assert names_of == ["tvmgen_my_net_cpu_0"] and f"void {names_of[0]}(uint8_t* arena)\n{{" in source
    assert (
        json.loads(mlf.contents([(vela_artifact(tiny_conv()), DEFAULT)])["metadata.json"])["modules"]["net"]["memory"][
            "functions"
        ]["operator_functions"]
        == []
    ), "the NPU's calls are no functions"


def test_mlf_brings_weights_as_c_unless_told_otherwise() -> None:
    artifact = replace(vela_artifact(tiny_conv()), constants=bytes(300 * 1024))
    assert not any(name.endswith((".S", ".bin")) for name in mlf.contents([(artifact, DEFAULT)]))
    found = mlf.contents([(artifact, COptions(weights="incbin"))])
    assert found["codegen/host/src/net_weights.bin"] == artifact.constants
    assert "codegen/host/src/net_weights.S" in found


def test_several_networks_are_one_archive(tmp_path: Path) -> None:
    many = ethoscade.compile_many({"first": tiny_conv(), "second": tiny_conv(seed=1)})
    path = many.write_mlf(tmp_path / "net.tar", share_workspace=True, workspace="pools")
    with tarfile.open(path) as archive:
        names = archive.getnames()
        metadata = json.load(archive.extractfile("./metadata.json"))
    assert list(metadata["modules"]) == ["first", "second"]
    for name in metadata["modules"]:
        assert f"./codegen/host/include/tvmgen_{name}.h" in names and f"./parameters/{name}.params" in names
    assert "./codegen/host/include/tvmgen_shared_workspace.h" in names
    assert "./codegen/host/src/tvmgen_shared_workspace.c" not in names, "the caller brings it"


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
