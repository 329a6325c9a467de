"""The command line: exit status, one JSON object, aliases, and errors in one sentence."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from command_line_support import (
    TINY,
    Capture,
    check_keys,
    one_sentence,
    resized_classifier,
    run,
    run_json,
    written,
)
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import Expectation, random_inputs, reference_outputs
from ethoscade.lowering import FAMILIES
from ethoscade.targets.target import ACCELERATORS
from tflite_files import File, Op, T

COMPILE_KEYS = {
    "schema_version": int,
    "model": str,
    "accelerator": str,
    "sram_bytes": int,
    "flash_bytes": int,
    "cycles": int,
    "operators": dict,
    "cpu_operators": list,
    "cascades": int,
    "npu_commands": int,
    "artifacts": dict,
    "seconds": dict,
}
VERIFICATION_KEYS = {
    "ok": bool,
    "seeds": int,
    "elements": int,
    "mismatches": int,
    "max_abs_diff": (int, float),
    "hazards": int,
    "findings": list,
    "sram_touched_bytes": int,
}


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A chain of two convolutions."""
    return written(tmp_path / "tiny.tflite", TINY)


@pytest.fixture
def classifier(tmp_path: Path) -> str:
    """A network whose PAD stays on the CPU."""
    return written(tmp_path / "classifier.tflite", resized_classifier())


# compile


def test_compile_writes_a_model_that_runs(model: str, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "new" / "folder"
    status, text, err = run(["compile", model, "-o", out, "--verify", "--seeds", "2"], capfd)
    assert (status, err) == (0, "")
    assert "bit-exact" in text and "tiny" in text
    saved = out / "tiny_ethosu.tflite"
    assert str(saved) in text
    inputs = random_inputs(read_tflite(TINY), 0)
    expected = reference_outputs(read_tflite(TINY), inputs).outputs
    for name, value in ethoscade.simulate(saved, inputs).outputs.items():
        np.testing.assert_array_equal(value, expected[name])


def test_compile_json(model: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["compile", model, "-o", tmp_path, "--sram", "4KiB"], capfd)
    check_keys(found, COMPILE_KEYS)
    assert (found["schema_version"], found["model"], found["accelerator"]) == (1, "tiny", "ethos-u55-256")
    assert found["budget_bytes"] == 4096 >= found["sram_bytes"]
    assert found["operators"] == {"npu": 2, "cpu": 0}
    assert found["artifacts"] == {"tflite": str(tmp_path / "tiny_ethosu.tflite")}
    assert {"import", "plan", "place", "codegen", "total"} <= set(found["seconds"])
    assert "verification" not in found
    compiled = ethoscade.compile(TINY, sram="4KiB")
    for name in ("sram_bytes", "flash_bytes", "cycles", "cascades", "npu_commands"):
        assert found[name] == getattr(compiled, name)
    for name in ("milliseconds", "inferences_per_second", "utilisation"):
        assert found[name] == getattr(compiled, name)
    assert found["core_clock_hz"] == 500e6


def test_compile_tells_the_time_and_whose_is_not_counted(
    model: str, classifier: str, tmp_path: Path, capfd: Capture
) -> None:
    _, text, _ = run(["compile", model, "-o", tmp_path], capfd)
    compiled = ethoscade.compile(TINY)
    assert f"{compiled.milliseconds:,.3f} ms at 500 MHz, {compiled.inferences_per_second:,.1f} inferences/s\n" in text
    assert f"{100 * compiled.utilisation:.1f} % of the NPU's" in text
    _, text, _ = run(["compile", classifier, "-o", tmp_path], capfd)
    assert "CPU operator not counted (1: RESIZE_NEAREST_NEIGHBOR); --cpu cortex-m55 estimates\n" in text


def test_compile_json_without_a_budget_and_with_cpu_operators(classifier: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["compile", classifier, "-o", tmp_path, "--verify", "--seeds", "1"], capfd)
    assert found["budget_bytes"] is None
    assert found["operators"]["cpu"] == len(found["cpu_operators"]) == 1
    assert set(found["cpu_operators"][0]) >= {"name", "kind", "reason"}
    assert found["cpu_operators"][0]["kind"] == "RESIZE_NEAREST_NEIGHBOR"
    check_keys(found["verification"], VERIFICATION_KEYS)
    assert found["verification"]["ok"] and found["verification"]["seeds"] == 1
    assert found["verification"]["sram_touched_bytes"] == found["sram_bytes"]


def test_compile_emits_what_is_asked_for(model: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["compile", model, "-o", tmp_path / "o", "--emit", "tflite,c,mlf,raw"], capfd)
    assert set(found["artifacts"]) == {"tflite", "c", "mlf", "raw"}
    assert all(Path(path).exists() for path in found["artifacts"].values())
    assert list((tmp_path / "o").rglob("*.c"))
    found = run_json(["compile", model, "-o", tmp_path / "p", "--emit", "mlf,mlf"], capfd)
    assert set(found["artifacts"]) == {"mlf"}
    assert not list((tmp_path / "p").rglob("*.tflite"))


def test_compile_for_size_uses_less(classifier: str, tmp_path: Path, capfd: Capture) -> None:
    fast = run_json(["compile", classifier, "-o", tmp_path], capfd)
    lean = run_json(["compile", classifier, "-o", tmp_path, "--optimise", "size"], capfd)
    assert lean["sram_bytes"] < fast["sram_bytes"] and lean["cycles"] >= fast["cycles"]
    assert lean["cascades"] >= 1


def test_velas_words_are_understood(model: str, tmp_path: Path, capfd: Capture) -> None:
    words = ["--accelerator-config", "ethos-u65-256", "--arena-cache-size", "8192", "--output-dir", tmp_path / "v"]
    found = run_json(["compile", model, *words], capfd)
    assert (found["accelerator"], found["budget_bytes"]) == ("ethos-u65-256", 8192)
    assert (tmp_path / "v" / "tiny_ethosu.tflite").is_file()
    options = ["--system-config", "Ethos_U55_Deep_Embedded", "--memory-mode", "Sram_Only"]
    found = run_json(["compile", model, "-o", tmp_path, *options], capfd)
    assert (found["system_config"], found["memory_mode"]) == ("Ethos_U55_Deep_Embedded", "Sram_Only")
    assert found["sram_bytes"] > found["pools"]["arena"]


# Faults of the model, the configuration or the budget: status 1.


def test_a_budget_too_small(classifier: str, tmp_path: Path, capfd: Capture) -> None:
    status, out, err = run(["compile", classifier, "-o", tmp_path / "o", "--sram", "64"], capfd)
    assert (status, out) == (1, "")
    one_sentence(err)
    assert not (tmp_path / "o").exists()
    for command in (["compile", classifier, "-o", tmp_path], ["verify", classifier]):
        found = run_json([*command, "--sram", "64"], capfd, 1)
        assert found["error"] == "BudgetError" and found["budget_bytes"] == 64
        floor = found["floor_bytes"]
        assert found["message"] and found["operator"]
        assert run_json([*command[:2], "--sram", str(floor)], capfd)["sram_bytes"] == floor


@pytest.mark.parametrize("command", ["compile", "frontier", "verify"])
@pytest.mark.parametrize(
    "options",
    [
        ["--accelerator", "ethos-u1"],
        ["--system-config", "None_Such"],
        ["--memory-mode", "None_Such"],
        ["--config", "/nowhere.ini"],
    ],
)
def test_faulty_options(command: str, options: list[str], model: str, capfd: Capture) -> None:
    status, out, err = run([command, model, *options], capfd)
    assert (status, out) == (1, "")
    one_sentence(err)
    assert options[1] in err
    found = run_json([command, model, *options], capfd, 1)
    assert found["error"] == "ConfigError" and options[1] in found["message"]


def test_a_faulty_budget(model: str, capfd: Capture) -> None:
    for size in ("much", "0", "-4", "0.1"):
        status, out, err = run(["compile", model, f"--sram={size}"], capfd)
        assert (status, out) == (1, "")
        one_sentence(err)


@pytest.mark.parametrize("command", ["compile", "frontier", "verify", "simulate"])
def test_faulty_models(command: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "empty.tflite").touch()
    (tmp_path / "random.tflite").write_bytes(np.random.default_rng(1).bytes(3000))
    (tmp_path / "cut.tflite").write_bytes(TINY[: len(TINY) // 2])
    for name in ("empty.tflite", "random.tflite", "cut.tflite", "missing.tflite", "."):
        status, out, err = run([command, tmp_path / name], capfd)
        assert (status, out) == (1, ""), name
        one_sentence(err)
        assert run_json([command, tmp_path / name], capfd, 1)["error"] == "ModelFormatError"


def test_outputs_that_cannot_be_written(model: str, tmp_path: Path, capfd: Capture) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("here first")
    for arguments in (
        ["compile", model, "-o", in_the_way],
        ["compile", model, "-o", in_the_way / "below", "--emit", "c"],
        ["compile", model, "-o", "/proc/nowhere", "--emit", "mlf"],
        ["frontier", model, "--plot", in_the_way / "a.png"],
        ["frontier", model, "--plot", tmp_path / "a.nonsense"],
    ):
        status, out, err = run(arguments, capfd)
        assert (status, out) == (1, ""), arguments
        one_sentence(err)
    assert in_the_way.read_text() == "here first"


def test_what_can_be_written_is_and_the_rest_is_named(tmp_path: Path, capfd: Capture) -> None:
    """Nobody has a C kernel for a custom operator; the network's other artefacts are wanted."""
    tensors = (T("x", (1, 4, 4, 8)), T("y", (1, 4, 4, 8)), T("z", (1, 4, 4, 8)))
    file = File(tensors, (Op("ADD", (0, 0), (1,), "AddOptions"), Op("MYSTERY", (1,), (2,))), (0,), (2,))
    model, folder = written(tmp_path / "mystery.tflite", file.bytes()), tmp_path / "o"
    status, out, err = run(["compile", model, "-o", folder, "--emit", "tflite,raw,c"], capfd)
    assert status == 1 and "wrote" in out
    one_sentence(err)
    assert "c was not written, but tflite and raw" in err and "'z' (MYSTERY)" in err
    assert (folder / "mystery_ethosu.tflite").is_file() and (folder / "mystery.npz").is_file()
    found = run_json(["compile", model, "-o", folder, "--emit", "tflite,raw,c"], capfd, 1)
    assert set(found["artifacts"]) == {"tflite", "raw"}
    assert [(left["artifact"], left["error"]) for left in found["not_written"]] == [("c", "UnsupportedOperatorError")]
    assert run_json(["compile", model, "-o", folder], capfd)["not_written"] == []
    # Nothing at all can be written: nothing is, and the error is all there is to say.
    status, out, err = run(["compile", model, "-o", tmp_path / "p", "--emit", "c"], capfd)
    assert (status, out) == (1, "") and "MYSTERY" in err and not (tmp_path / "p").exists()
    one_sentence(err)


def test_a_folder_where_the_artefact_should_be(model: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "tiny_ethosu.tflite").mkdir()
    status, out, err = run(["compile", model, "-o", tmp_path], capfd)
    assert (status, out) == (1, "")
    one_sentence(err)


# Wrong usage: status 2.


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["conquer"],
        ["compile"],
        ["frontier"],
        ["verify", "a", "b"],
        ["compile", "a", "--unknown"],
        ["compile", "a", "--emit", "elf"],
        ["compile", "a", "--emit", ""],
        ["compile", "a", "--optimise", "luck"],
        ["compile", "a", "--seeds", "0"],
        ["compile", "a", "--seeds", "x"],
        ["verify", "a", "--target", "moon"],
        ["verify", "a", "--seeds", "-1"],
        ["simulate"],
        ["simulate", "a", "--seed", "x"],
        ["simulate", "a", "--seed", "-1"],
        ["plan-memory"],
        ["plan-memory", "a", "--capacity", "-1"],
        ["plan-memory", "a", "--algorithm", "magic"],
        ["supported-ops", "more"],
    ],
)
def test_wrong_usage(arguments: list[str], capfd: Capture) -> None:
    status, out, err = run(arguments, capfd)
    assert (status, out) == (2, "")
    assert "usage: ethoscade" in err and "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["compile", "--help"], ["plan-memory", "--help"]])
def test_help_is_no_error(arguments: list[str], capfd: Capture) -> None:
    status, out, err = run(arguments, capfd)
    assert (status, err) == (0, "")
    assert "ethoscade" in out


# frontier


def test_frontier(classifier: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["frontier", classifier], capfd)
    assert set(found) >= {"schema_version", "points", "floor_bytes", "plans", "proposals", "seconds"}
    curve = ethoscade.frontier(resized_classifier())
    assert tuple((p["sram_bytes"], p["cycles"]) for p in found["points"]) == curve.points
    assert tuple(p["milliseconds"] for p in found["points"]) == curve.milliseconds
    assert found["core_clock_hz"] == curve.core_clock_hz == 500e6
    assert found["floor_bytes"] == curve.floor_bytes == found["points"][0]["sram_bytes"]
    assert found["plans"] > 0 and found["proposals"] > 0
    uncascaded = (found["uncascaded_bytes"], found["uncascaded_cycles"])
    assert uncascaded == (curve.uncascaded_bytes, curve.uncascaded_cycles)
    assert found["stop_reason"] == curve.stop_reason in ("complete", "width")
    status, out, _ = run(["frontier", classifier], capfd)
    assert status == 0 and f"{curve.floor_bytes:,}" in out and f"{curve.uncascaded_cycles:,} cycles" in out
    assert f"; epsilon {curve.epsilon}" in out
    assert f"{curve.milliseconds[0]:.3f}\n" in out
    assert ("search truncated (beam width)" in out) == (curve.stop_reason == "width")
    run_json(["frontier", classifier, "--plot", tmp_path / "new" / "a.png"], capfd)
    assert (tmp_path / "new" / "a.png").read_bytes()[1:4] == b"PNG"


def test_epsilon(classifier: str, tmp_path: Path, capfd: Capture) -> None:
    assert run_json(["frontier", classifier, "--epsilon", "1/4"], capfd)["epsilon"] == 0.25
    assert run_json(["frontier", classifier, "--epsilon", "0.5"], capfd)["epsilon"] == 0.5
    exact = run_json(["frontier", classifier, "--epsilon", "0"], capfd)
    assert (exact["epsilon"] == 0) == (exact["stop_reason"] == "complete")
    assert run_json(["compile", classifier, "--epsilon", "1/4", "-o", tmp_path], capfd)["epsilon"] == 0.25
    assert run_json(["verify", classifier, "--epsilon", "1/4", "--seeds", "1"], capfd)["epsilon"] == 0.25
    for value in ("-1", "2", "1e-9"):
        status, _, err = run(["frontier", classifier, f"--epsilon={value}"], capfd)
        assert status == 1 and "epsilon is" in err and "from 1/1048576 to 1" in err
    for value in ("nan", "1/0", "fine"):
        assert run(["frontier", classifier, "--epsilon", value], capfd)[0] == 2


# verify


def test_verify(classifier: str, capfd: Capture) -> None:
    found = run_json(["verify", classifier, "--seeds", "2", "--optimise", "size"], capfd)
    check_keys(found, COMPILE_KEYS)
    check_keys(found["verification"], VERIFICATION_KEYS)
    assert found["verification"]["seeds"] == 2 and found["artifacts"] == {}
    assert found["verification"]["sram_touched_bytes"] == found["sram_bytes"]
    assert run(["verify", classifier, "--seeds", "1"], capfd)[0] == 0


def test_verify_in_c(classifier: str, capfd: Capture) -> None:
    found = run_json(["verify", classifier, "--seeds", "1", "--target", "c"], capfd)
    assert found["verification"]["ok"]
    assert found["verification"]["sram_touched_bytes"] == found["sram_bytes"]


def lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that is wrong in its first element."""
    from ethoscade.judge import verification
    from ethoscade.run import judgement

    honest = verification.reference_steps

    def lying(graph: Any, sequences: Any, *cuts: Any) -> tuple[tuple[Expectation, ...], ...]:
        found = honest(graph, sequences, *cuts)
        for expectation in itertools.chain.from_iterable(found):
            for name, value in expectation.outputs.items():
                wrong = value.copy()
                wrong.flat[0] ^= 1
                expectation.outputs[name] = wrong  # type: ignore[index]
        return found

    for module in (verification, judgement):
        monkeypatch.setattr(module, "reference_steps", lying)


def test_differences_have_a_status_of_their_own(
    model: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["compile", model, "-o", tmp_path], capfd)
    lie(monkeypatch)
    found = run_json(["verify", model, "--seeds", "2"], capfd, 3)
    assert found["verification"]["ok"] is False
    assert found["verification"]["mismatches"] == 2 and found["verification"]["max_abs_diff"] == 1
    status, out, err = run(["verify", model], capfd)
    assert status == 3 and "FAILED" in out + err
    assert run_json(["compile", model, "-o", tmp_path, "--verify"], capfd, 3)["verification"]["mismatches"] == 3
    simulate = ["simulate", tmp_path / "tiny_ethosu.tflite", "--reference", model]
    assert run_json(simulate, capfd, 3)["reference"]["mismatches"] == 1


# plan-memory


def test_plan_memory(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size\n0,0,10,64\n1,5,15,32\n2,12,20,64\n")
    found = run_json(["plan-memory", path, "--output", tmp_path / "placed.csv"], capfd)
    assert set(found) >= {"peak_bytes", "lower_bound_bytes", "optimal", "stop_reason", "seconds"}
    assert (found["peak_bytes"], found["lower_bound_bytes"], found["optimal"]) == (96, 96, True)
    assert (tmp_path / "placed.csv").read_text().splitlines()[0].startswith("id,lower,upper,size")
    assert run(["plan-memory", path], capfd)[0] == 0
    found = run_json(["plan-memory", path, "--capacity", "64"], capfd, 1)
    assert found["error"] == "BudgetError" and found["budget_bytes"] == 64
    status, out, err = run(["plan-memory", tmp_path / "missing.csv"], capfd)
    assert (status, out) == (1, "")
    one_sentence(err)


# supported-ops


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_supported_operators(accelerator: str, capfd: Capture) -> None:
    found = run_json(["supported-ops", "--accelerator", accelerator], capfd)
    assert found["accelerator"] == accelerator and set(found["operators"]) == set(FAMILIES)
    status, out, _ = run(["supported-ops", "--markdown", "--accelerator-config", accelerator], capfd)
    assert status == 0
    assert all(f"| {kind} |" in out for kind in FAMILIES)


def test_supported_operators_of_nothing(capfd: Capture) -> None:
    status, out, err = run(["supported-ops", "--accelerator", "abacus"], capfd)
    assert (status, out) == (1, "")
    one_sentence(err)


# Extras.


def test_without_matplotlib_the_extra_is_named(
    model: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["frontier", model], capfd)[0] == 0
    status, _, err = run(["frontier", model, "--plot", tmp_path / "a.png"], capfd)
    assert status == 1
    assert "ethoscade[report]" in err


@pytest.mark.parametrize("command", [["verify"], ["compile", "--verify"]])
def test_without_litert_the_extra_is_named(
    command: list[str], model: str, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert run(["compile", model], capfd)[0] == 0
    status, _, err = run([*command, model], capfd)
    assert status == 1
    one_sentence(err)
    assert "ethoscade[verify]" in err
    assert run_json([*command, model], capfd, 1)["error"] == "VerificationError"


# As a program.


def test_as_a_program(model: str, tmp_path: Path) -> None:
    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ethoscade", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    done = call("compile", model, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / json.loads(done.stdout)["artifacts"]["tflite"]).is_file()
    assert json.loads(done.stdout)["artifacts"]["tflite"].startswith("out")
    done = call("compile", model, "--sram", "16", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["error"] == "BudgetError"
    one_sentence(done.stderr)
    assert call().returncode == 2
    done = call("compile", tmp_path / "nothing.tflite")
    assert (done.returncode, done.stdout) == (1, "")
    one_sentence(done.stderr)
