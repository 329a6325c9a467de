"""The command line's streams: closed, full, read by nobody, unable to spell; and what it says of mixed files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ethoscade
import pytest
from command_line_support import RESIDUAL, TINY, Capture, one_sentence, run, run_json, written
from ethoscade.judge.verification import Verification
from ethoscade.report import summary

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the folder that the test is in."""
    monkeypatch.chdir(tmp_path)
    return Path(written(tmp_path / "tiny.tflite", TINY)).name


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`ethoscade` with these words and redirections."""
    line = f"'{sys.executable}' -m ethoscade {command}"
    given = {**os.environ, **environment}
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=given, check=False)


@needs_full_device
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "command", ["supported-ops", "supported-ops --json", "--help", "--version", "plan-memory b.csv"]
)
def test_a_full_disk_is_said(command: str, unbuffered: str, model: str) -> None:
    Path("b.csv").write_text("id,lower,upper,size\na,0,2,16\n", encoding="utf-8")
    done = shell(f"{command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    one_sentence(done.stderr)
    assert "No space left on device" in done.stderr


def test_a_pipe_that_nobody_reads_is_no_error_to_speak_of(model: str) -> None:
    """Written to a pipe whose reader is gone: neither a traceback nor a complaint of the interpreter at its end."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ethoscade", "supported-ops"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_closed_streams(model: str) -> None:
    done = shell("supported-ops >&-")
    assert done.returncode == 1 and "stdout is closed" in done.stderr
    one_sentence(done.stderr)
    done = shell(f"compile {model} --sram 64 --json 2>&-")
    assert done.returncode == 1 and json.loads(done.stdout)["error"] == "BudgetError"
    assert shell("conquer 2>&-").returncode == 2
    # What is written must not get a closed stream's number, and with it whatever a library prints.
    done = shell(f"compile {model} >&- 2>&-")
    assert done.returncode == 1 and ethoscade.simulate("out/tiny_ethosu.tflite", _inputs()).hazards == 0


def _inputs() -> dict[str, object]:
    from ethoscade.frontend import read_tflite
    from ethoscade.judge.verification import random_inputs

    return dict(random_inputs(read_tflite(TINY), 0))


def test_names_that_stdout_cannot_spell(tmp_path: Path, model: str) -> None:
    folder = "\u00fc \udcff"
    done = subprocess.run(
        [sys.executable, "-m", "ethoscade", "compile", model, "-o", folder],
        capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"") and b"\\xfc \\udcff/tiny_ethosu.tflite" in done.stdout
    assert (tmp_path / folder / "tiny_ethosu.tflite").is_file()


@pytest.mark.parametrize(
    "name", ["new\nline", "q'uo\"te", "-dash", "\udcff", "ümlaut", "back\\slash", "$x`y`", "%s", "..", "*"]
)
def test_models_with_odd_names(name: str, tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(RESIDUAL)
    found = run_json(["compile", path, "-o", tmp_path / "o", "--emit", "tflite,c,mlf"], capfd)
    assert all(Path(made).exists() for made in found["artifacts"].values()) and Path(found["manifest"]).is_file()
    assert run_json(["simulate", found["artifacts"]["tflite"]], capfd)["mixed_files"] == []


def test_a_name_that_is_too_long_for_what_is_written(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / f"{'x' * 248}.tflite"
    path.write_bytes(TINY)
    status, out, err = run(["compile", path, "-o", tmp_path / "o", "--emit", "tflite,c"], capfd)
    assert (status, out) == (1, "") and "File name too long" in err
    one_sentence(err)
    assert not (tmp_path / "o").exists() or list((tmp_path / "o").iterdir()) == []


def test_json_has_no_infinite_numbers() -> None:
    check = Verification(False, 1, 4, 1, float("inf"), 0, 16, "litert")
    assert json.loads(json.dumps(summary.verification_json(check), allow_nan=False))["max_abs_diff"] is None
    assert summary.finite(3) == 3


def test_a_system_that_refuses_is_no_traceback(model: str, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found", "/nowhere")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", nowhere)
    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    status, out, err = run(["verify", model, "--seeds", "1"], capfd)
    assert (status, out) == (1, "") and "/nowhere" in err
    one_sentence(err)


# Files that belong together.


def test_simulate_tells_files_of_several_compilations(model: str, capfd: Capture) -> None:
    found = run_json(["compile", model, "--emit", "tflite,c"], capfd)
    saved = found["artifacts"]["tflite"]
    assert found["manifest"] == str(Path("out") / "tiny.sha256")
    assert run_json(["simulate", saved], capfd)["mixed_files"] == []
    # The header of another compilation, as a writer that was killed leaves it.
    ethoscade.compile(TINY, sram="0.4KiB").write_c("other")
    Path("out/tvmgen_tiny.h").write_bytes(Path("other/tvmgen_model.h").read_bytes())
    (told,) = run_json(["simulate", saved], capfd)["mixed_files"]
    assert "out/tiny.sha256" in told and "tvmgen_tiny.h" in told and "compile again" in told
    assert f"warning: {told}" in run(["simulate", saved], capfd)[1]
    run(["compile", model, "--emit", "tflite,c"], capfd)
    assert run_json(["simulate", saved], capfd)["mixed_files"] == []
    Path("out/tiny.sha256").write_bytes(b"nonsense")
    assert "no list of hashes" in run_json(["simulate", saved], capfd)["mixed_files"][0]


def test_a_single_file_has_no_list(model: str, capfd: Capture) -> None:
    assert run_json(["compile", model], capfd)["manifest"] is None
    assert [path.name for path in Path("out").iterdir()] == ["tiny_ethosu.tflite"]


def test_sources_and_libraries_have_their_lists(tmp_path: Path) -> None:
    from ethoscade.util.files import strangers

    compiled = ethoscade.compile(TINY)
    made = compiled.write_c(tmp_path / "c")
    assert strangers(tmp_path / "c" / "model.sha256") == dict.fromkeys(made, False)
    compiled.write_mlf(tmp_path / "net")
    assert set(strangers(tmp_path / "net.sha256").values()) == {False}
    (tmp_path / "net" / "metadata.json").write_bytes(b"{}")
    assert strangers(tmp_path / "net.sha256")["net/metadata.json"]


def test_one_file_is_not_written_twice(model: str, capfd: Capture) -> None:
    run(["compile", model], capfd)
    saved = Path("out/tiny_ethosu.tflite").read_bytes()
    for options in (["--outputs", "x", "--trace", "./x"], ["--trace", "out/tiny_ethosu.tflite"]):
        status, out, err = run(["simulate", "out/tiny_ethosu.tflite", *options], capfd)
        assert (status, out) == (1, "") and "are the same file" in err
    assert Path("out/tiny_ethosu.tflite").read_bytes() == saved and not Path("x").exists()


@pytest.mark.parametrize("option", ["--outputs", "--trace"])
def test_outputs_follow_links_and_refuse_devices(option: str, model: str, capfd: Capture) -> None:
    run(["compile", model], capfd)
    Path("real").touch()
    Path("link").symlink_to("real")
    command = ["simulate", "out/tiny_ethosu.tflite", option]
    assert run([*command, "link"], capfd)[0] == 0 and Path("link").is_symlink() and Path("real").stat().st_size > 100
    status, _, err = run([*command, "/dev/null"], capfd)
    assert status == 1 and "a device" in err


def test_of_several_files_the_damaged_one_is_named(model: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "cut.tflite").write_bytes(Path(model).read_bytes()[:1000])
    for words in (["compile", "cut.tflite"], ["verify", model, "--artifact", "cut.tflite"]):
        status, _, err = run(words, capfd)
        assert status == 1
        one_sentence(err)
        assert err.startswith("ethoscade: 'cut.tflite': ")
