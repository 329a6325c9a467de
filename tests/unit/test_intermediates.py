"""Every tensor of a network as a board makes it: at its place after a call, or inside of an NPU program that is cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from board_support import need, read_all, several_calls
from command_line_support import Capture, run
from ethoscade.codegen.artifact import NpuCall
from ethoscade.errors import ProjectError
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import random_inputs
from ethoscade.project import description
from ethoscade.project.connection import Connection
from ethoscade.project.npu_parts import first_part
from ethoscade.project.templates import TEMPLATES
from ethoscade.run.simulator import disassemble
from ethoscade.testing import inverted_residuals, keyword_spotting
from model_files import model_folder


def project_of(model: bytes, template: str, tmp_path: Path, capfd: Capture, *options: str) -> Path:
    path, target = tmp_path / "net.tflite", tmp_path / "project"
    path.write_bytes(model)
    status, _, err = run(["new", "--template", template, str(target), str(path), *options], capfd)
    assert (status, err) == (0, "")
    return target


@pytest.mark.parametrize(
    ("model", "options", "cascaded"),
    [
        (keyword_spotting(), (), 0),
        (inverted_residuals(), ("--optimise", "size"), 2),
        (several_calls(), (), 0),
    ],
    ids=["keywords", "inverted residuals, cascaded", "several calls"],
)
def test_every_tensor_that_exists_whole_is_the_references(
    model: bytes, options: tuple[str, ...], cascaded: int, tmp_path: Path, capfd: Capture
) -> None:
    need(TEMPLATES["host"])
    found, others = read_all(project_of(model, "host", tmp_path, capfd, *options))
    assert all("never lies in the arena whole" in said for said in others.values())
    assert len(others) >= cascaded and len(found) >= 4


def test_public_keywords_on_an_emulated_cortex_m55(tmp_path: Path, capfd: Capture) -> None:
    models = model_folder()
    if models is None:
        pytest.skip("no models: set ETHOSCADE_MODELS")
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    model = (models / "kws_ref_int8.tflite").read_bytes()
    found, others = read_all(project_of(model, "qemu", tmp_path, capfd))
    assert (len(found), others) == (13, {})


def test_a_board_with_an_npu_of_its_own_cannot_be_cut(tmp_path: Path, capfd: Capture) -> None:
    need(TEMPLATES["host"])
    target = project_of(keyword_spotting(), "host", tmp_path, capfd)
    described = description.read(target)
    inside = [tensor for tensor in described.tensors if tensor.operations is not None]
    inputs: Mapping[str, np.ndarray] = random_inputs(read_tflite(target / description.MODEL), 0)
    with ethoscade.connect(target) as board:
        with pytest.raises(ProjectError, match="an NPU program makes it, and may overwrite it"):
            board.read(inside[0].name)
        with pytest.raises(ProjectError, match="an NPU program makes it, and may overwrite it"):
            Connection(board._stream, described).intermediate(inside[0].name, inputs)


def test_a_part_of_a_program_is_its_first_commands() -> None:
    call = ethoscade.compile(keyword_spotting()).artifact.calls[0]
    assert isinstance(call, NpuCall)
    whole = disassemble(call.payload)
    kernels = [at for at, line in enumerate(whole) if is_operation(line)]
    assert len(kernels) == len(call.operators) > 10
    for number, at in enumerate(kernels, 1):
        part = disassemble(first_part(call.payload, number))
        assert part[:-1] == whole[: at + 1] and "STOP" in part[-1]
    with pytest.raises(ProjectError, match="fewer operations"):
        first_part(call.payload, len(kernels) + 1)


def is_operation(line: str) -> bool:
    names = ("OP_CONV", "OP_DEPTHWISE", "OP_POOL", "OP_ELEMENTWISE", "OP_DMA_START")
    return any(name in line.split() for name in names)


def test_the_description_tells_all_of_it(tmp_path: Path, capfd: Capture) -> None:
    target = project_of(several_calls(), "host", tmp_path, capfd)
    told = json.loads((target / description.FILE).read_text())
    assert [call["where"] for call in told["calls"]] == ["cpu", "npu", "cpu"]
    assert description.read(target).text() == (target / description.FILE).read_text()
