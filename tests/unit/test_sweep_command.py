"""`ethoscade sweep`: rows and page written, gone on from, interrupted; what it says, and to whom."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line_support import Capture, one_sentence, run, run_json
from ethoscade.testing import mobilenet_v1, tiny_conv
from sweeping import networks

HANGS = 120
"""Seconds after which a process counts as one that does not do what is waited for."""

TARGET = ("--targets", "ethos-u55-64", "--jobs", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own to be in, with a folder of networks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name, data in networks().items():
        (tmp_path / "models" / f"{name}.tflite").write_bytes(data)
    return tmp_path


def test_rows_a_page_and_what_they_say(folder: Path, capfd: Capture) -> None:
    options = ["models", *TARGET, "--page", "sweep.html", "--latency", "1", "--share", "75%"]
    found = run_json(["sweep", *options], capfd)
    rows = list(csv.DictReader((folder / "sweep.csv").read_text(encoding="utf-8").splitlines()))
    models = [row["model"] for row in rows]
    assert sorted(set(models)) == models[:1] + sorted(set(models))[1:] == ["damaged", "net0", "net1", "tiny"]
    assert (found["questions"], found["rows"], found["errors"], found["known"]) == (4, len(rows), 1, 0)
    assert found["asked"] == {"networks": 3, "milliseconds": 1.0} and found["output"] == "sweep.csv"
    fitting = {
        model: min(int(r["sram_bytes"]) for r in rows if r["model"] == model and float(r["milliseconds"]) <= 1)
        for model in ("net0", "net1", "tiny")
    }
    need = max(fitting.values())
    assert found["smallest"] == {"target": rows[0]["target"], "sram_bytes": need}
    assert found["targets"] == [{"target": rows[0]["target"], "networks": 3, "sram_bytes": need}]
    page = (folder / "sweep.html").read_text(encoding="utf-8")
    assert "4 networks on 1 target" in page and "75 % of networks in 1 ms" in page

    before = (folder / "sweep.csv").read_bytes()
    status, out, err = run(["sweep", *options], capfd)
    assert (status, err) == (0, "") and (folder / "sweep.csv").read_bytes() == before
    assert out.startswith("4 questions answered, 4 of them before: ")
    assert out.splitlines()[-2:] == ["wrote sweep.csv", "wrote sweep.html"]
    assert f"3 in 1 ms: {need / 1024:.1f} KiB" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.tflite"], "no such file"),
        (["empty"], "there is no .tflite file in the folder 'empty'"),
        (["models", "--targets", "ethos-u99"], "ethos-u99"),
        (["models", "--budgets", "fast"], "or one of floor, balanced, fastest, frontier"),
        (["models", "-o", "rows.txt"], ".csv or .parquet"),
        (["models", "-o", "other.csv", "--budgets", "floor"], "has no rows of a sweep"),
        (["models", "--page", "models/tiny.tflite"], "the same file"),
        (["models", "--dask", "nowhere"], "Dask"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    arguments: list[str], said: str, folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "empty").mkdir()
    (folder / "other.csv").write_text("a,b\n", encoding="utf-8")
    monkeypatch.setattr("ethoscade.sweeps.cluster._PATIENCE_SECONDS", 0.5)
    files = sorted(folder.rglob("*"))
    status, out, err = run(["sweep", *arguments], capfd)
    assert (status, out) == (1, "") and said in err
    one_sentence(err)
    assert sorted(folder.rglob("*")) == files and (folder / "other.csv").read_text(encoding="utf-8") == "a,b\n"


@pytest.mark.parametrize(
    "wrong",
    [["--jobs", "0"], ["--jobs", "2", "--dask", "x"], ["--share", "0"], ["--share", "101"], ["--latency", "0"],
     ["--timeout", "soon"], []],
)  # fmt: skip
def test_wrong_usage_is_status_2(wrong: list[str], folder: Path, capfd: Capture) -> None:
    assert run(["sweep", *(["models", *wrong] if wrong else [])], capfd)[0] == 2
    assert not (folder / "sweep.csv").exists()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ethoscade", "sweep", *arguments, *TARGET]


def until(path: Path, lines: int) -> None:
    """Wait until a file has so many lines."""
    began = time.monotonic()
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert time.monotonic() - began < HANGS
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    """The processes that a process has started, where the system tells."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text(encoding="utf-8").split()] if path.exists() else []


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform == "win32", reason="signals and groups of processes are POSIX's")
def test_ctrl_c_leaves_rows_to_go_on_from_and_no_process(folder: Path, capfd: Capture) -> None:
    """In the middle of a search that takes minutes, behind a network that has its row."""
    (folder / "a.tflite").write_bytes(tiny_conv())
    (folder / "slow.tflite").write_bytes(mobilenet_v1(0.5, 64))
    arguments = command("a.tflite", "slow.tflite", "--budgets", "floor", "--epsilon", "0")
    pipe = subprocess.PIPE
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = subprocess.Popen(arguments, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, before)
    until(folder / "sweep.csv", 2)
    workers = children(child.pid)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=HANGS)
    assert (child.returncode, out, err) == (130, "", "ethoscade: interrupted\n")
    assert not any(map(is_there, workers))
    found = run_json(["sweep", "a.tflite", "--budgets", "floor", "--epsilon", "0", *TARGET], capfd)
    assert (found["known"], found["rows"]) == (1, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX's")
def test_a_terminal_is_told_how_far_it_is(folder: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    at_once = "from ethoscade.cli import working; working.AFTER_SECONDS = working._PAUSE_SECONDS = 0"
    code = f"import sys; from ethoscade.__main__ import main; {at_once}; sys.exit(main())"
    arguments = [sys.executable, "-c", code, *command("models", "--budgets", "floor")[3:]]
    done = subprocess.run(arguments, stderr=theirs, stdout=subprocess.PIPE, text=True)
    os.close(theirs)
    said = b""
    try:
        while piece := os.read(ours, 1 << 12):
            said += piece
    except OSError:
        pass  # a terminal that its last user has closed
    os.close(ours)
    assert done.returncode == 0
    assert b"\r4 of 4 questions, 1 errors [" in said and said.endswith(b"  \r")


def test_two_extras_are_named_where_they_are_missing(
    folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library, extra, options in (
        ("pyarrow", "parquet", ["-o", "r.parquet"]),
        ("distributed", "dask", ["--dask", "x"]),
    ):
        monkeypatch.setitem(sys.modules, library, None)
        status, _, err = run(["sweep", "models", *options], capfd)
        assert status == 1 and f"ethoscade[{extra}]" in err
        one_sentence(err)


def test_commas_part_targets_and_budgets(folder: Path, capfd: Capture) -> None:
    words = ["--targets", "ethos-u55-64,ethos-u55-128", "--budgets", "floor,64KiB", "fastest"]
    found = run_json(["sweep", "models/tiny.tflite", *words], capfd)
    assert (found["questions"], found["errors"], len(found["targets"])) == (6, 0, 2)
