"""A MODEL that is "-" comes from stdin, wherever a command takes one."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import ethoscade
import pytest
from ethoscade.__main__ import main
from ethoscade.cli import common
from ethoscade.testing import mobilenet_v1, tiny_conv


class Pipe(io.TextIOWrapper):
    """Stdin with these bytes in it; perhaps a terminal."""

    def __init__(self, data: bytes, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Pipe(tiny_conv()))
    return tmp_path


def test_compile_writes_what_it_writes_of_the_file(folder: Path) -> None:
    assert main(["compile", "-", "-q"]) == 0
    (folder / "model.tflite").write_bytes(tiny_conv())
    assert main(["compile", "model.tflite", "-o", "again", "-q"]) == 0
    written = [(folder / name / "model_ethosu.tflite").read_bytes() for name in ("out", "again")]
    assert written[0] == written[1]


def test_one_of_several_models_may_be_piped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "net.tflite").write_bytes(mobilenet_v1(0.25, 32))
    assert main(["compile", "net.tflite", "-", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["networks"]) == ["net", "model"]
    assert main(["compile", "-", "-"]) == 1
    assert "- is named 2 times; there is one stdin" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["frontier", "-"], ["check", "-"], ["plan", "-", "--device", "cortex-m7"], ["verify", "-", "--seeds", "1"]],
)
def test_other_commands_take_it_too(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if command[0] == "verify":
        pytest.importorskip("ai_edge_litert")
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_compiled_files_are_piped_into_simulate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ethoscade.compile(tiny_conv()).save("net_ethosu.tflite")
    monkeypatch.setattr(sys, "stdin", Pipe(Path(path).read_bytes()))
    assert main(["simulate", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
    assert main(["simulate", "-", "--reference", "-"]) == 1
    assert "there is one stdin to read from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (Pipe(b""), "MODEL is -, and stdin is empty"),
        (Pipe(tiny_conv(), is_terminal=True), "nothing is piped into stdin; give a file"),
        (None, "nothing is piped into stdin"),
        (Pipe(b"x" * 2000), "more than 1,000 bytes"),
        (Pipe(b"no model"), "does not carry the identifier 'TFL3'"),
    ],
)
def test_what_is_no_model_is_refused(
    stdin: Pipe | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(common, "MAX_FILE_BYTES", 1000)
    assert main(["compile", "-"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and said in err
    assert not (folder / "out").exists()


def test_a_file_of_that_name_has_a_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "-").write_bytes(mobilenet_v1(0.25, 32))
    assert main(["frontier", "./-", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["points"]
    assert found[-1]["cycles"] == ethoscade.frontier(mobilenet_v1(0.25, 32)).points[-1][1]
