"""`ethoscade simulate` as a user meets it: outputs, seeds, comparison, traces, and refusals in one sentence."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from command_line_support import RESIDUAL, TINY, Capture, one_sentence, resized_classifier, run, run_json, written
from ethoscade.cli import simulate
from ethoscade.frontend import read_tflite
from ethoscade.ir import Quantisation
from ethoscade.judge import litert, reference
from ethoscade.judge.verification import random_inputs, reference_outputs
from ethoscade.run import judgement
from ethoscade.testing import ModelBuilder


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A chain of two convolutions."""
    return written(tmp_path / "tiny.tflite", TINY)


@pytest.fixture
def artifact(model: str, tmp_path: Path, capfd: Capture) -> Path:
    """The same, compiled."""
    assert run(["compile", model, "-o", tmp_path], capfd)[0] == 0
    return tmp_path / "tiny_ethosu.tflite"


def test_simulate(model: str, tmp_path: Path, capfd: Capture) -> None:
    compiled = run_json(["compile", model, "-o", tmp_path, "--optimise", "size"], capfd)
    artifact = compiled["artifacts"]["tflite"]
    inputs = random_inputs(read_tflite(TINY), 7)
    np.savez(tmp_path / "in.npz", **inputs)
    arguments = ["--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "deep" / "out.npz", "--reference", model]
    found = run_json(["simulate", artifact, *arguments], capfd)
    assert found["schema_version"] == 1
    assert found["sram_touched_bytes"] == compiled["sram_bytes"]
    assert found["warnings"] == [] and found["reference"]["mismatches"] == 0
    expected = reference_outputs(read_tflite(TINY), inputs).outputs
    with np.load(tmp_path / "deep" / "out.npz") as outputs:
        assert set(outputs.files) == set(expected) == set(found["outputs"])
        for name in outputs.files:
            np.testing.assert_array_equal(outputs[name], expected[name])


def test_simulate_without_inputs_is_seeded(artifact: Path, tmp_path: Path, capfd: Capture) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        status, out, _ = run(["simulate", artifact, "--seed", str(seed), "--outputs", tmp_path / name], capfd)
        assert status == 0 and out
    a, b, c = (np.load(tmp_path / name)["output"] for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_a_fault_is_worth_a_status_when_comparing_and_a_warning_is_not(
    model: str, artifact: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that saturates in 32 bits is a warning: every legacy softmax of Vela's has one."""
    honest = judgement.run_tflite_steps
    told: dict[str, tuple[str, ...]] = {"warnings": ("npu_0: a value was saturated",)}
    changed = lambda *given, **named: [dataclasses.replace(one, **told) for one in honest(*given, **named)]  # noqa: E731
    for module in (simulate, judgement):
        monkeypatch.setattr(module, "run_tflite_steps", changed)
    assert run_json(["simulate", artifact], capfd)["warnings"] == ["npu_0: a value was saturated"]
    status, out, _ = run(["simulate", artifact, "--reference", model], capfd)
    assert status == 0 and "warning: npu_0: a value was saturated" in out
    told |= {"warnings": ("npu_0: a hazard",), "faults": ("npu_0: a hazard",)}
    status, out, _ = run(["simulate", artifact, "--reference", model], capfd)
    assert status == 3 and "a hazard" in out


def test_several_runs_in_a_row_keep_their_state(tmp_path: Path, capfd: Capture) -> None:
    b = ModelBuilder("summed")
    quantisation = Quantisation((2.0 / 256,), (0,))
    x = b.input((1, 2, 2, 8))
    total = b.variable(x.shape, quantisation)
    b.assign(total, b.add(total, x, output=quantisation, name="total"))
    model = tmp_path / "summed.tflite"
    model.write_bytes(b.build())
    run(["compile", model, "-o", tmp_path], capfd)
    artifact, outputs = tmp_path / "summed_ethosu.tflite", tmp_path / "out.npz"
    ones = np.ones((3, 1, 2, 2, 8), np.int8)
    np.savez(tmp_path / "in.npz", input0=ones)
    given = ["--inputs", tmp_path / "in.npz", "--runs", "3"]
    report = run_json(["simulate", artifact, *given, "--outputs", outputs, "--reference", model], capfd)
    assert report["runs"] == 3 and report["outputs"] == {"total": [3, 1, 2, 2, 8]}
    assert report["reference"]["mismatches"] == 0 and report["reference"]["elements"] == ones.size
    steps = np.load(outputs)["total"]
    assert np.array_equal(np.clip(steps[0].astype(int) + 1, -128, 127), steps[1])
    status, out, _ = run(["simulate", artifact, "--runs", "2"], capfd)
    assert status == 0 and "2 times in a row" in out
    status, _, err = run(["simulate", artifact, "--inputs", tmp_path / "in.npz", "--runs", "2"], capfd)
    assert status == 1 and "for --runs 2 its first axis is of as many runs" in err
    checked = run_json(["verify", model, "--seeds", "1", "--runs", "4"], capfd)["verification"]
    assert checked["ok"] and checked["runs"] == 4
    status, out, _ = run(["verify", model, "--artifact", artifact, "--seeds", "1"], capfd)
    assert status == 0 and "3 runs in a row of 1 seed" in out


def test_simulate_refuses_what_does_not_fit(model: str, artifact: Path, tmp_path: Path, capfd: Capture) -> None:
    np.savez(tmp_path / "name.npz", other=np.zeros((1, 8, 8, 3), np.int8))
    np.savez(tmp_path / "shape.npz", input=np.zeros((1, 8, 8), np.int8))
    np.savez(tmp_path / "object.npz", input=np.array([{}], object))
    np.savez(tmp_path / "type.npz", input=np.zeros((1, 8, 8, 3), np.float32))
    np.save(tmp_path / "single.npy", np.zeros(3))
    (tmp_path / "junk.npz").write_bytes(b"PK\3\4 nonsense")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").touch()
    wrong = ("name", "shape", "type", "object", "junk", "text", "empty", "missing")
    for name in (*(f"{name}.npz" for name in wrong), "single.npy", ""):
        status, out, err = run(["simulate", artifact, "--inputs", tmp_path / name], capfd)
        assert (status, out) == (1, ""), name
        one_sentence(err)
        assert "pickle.load" not in err, "advice that a user must not follow"
    other = tmp_path / "other.tflite"
    other.write_bytes(RESIDUAL)
    refused = {
        "compile it first": [model],
        "not a folder": [artifact, "--outputs", tmp_path / "single.npy" / "x"],
        "add --timing": [artifact, "--system-config", "Ethos_U55_Deep_Embedded"],
        "is for the Ethos-U85": [artifact, "--timing", "--system-config", "Ethos_U85_SYS_DRAM_Mid"],
        "was not compiled from 'other'": [artifact, "--reference", other],
    }
    for said, arguments in refused.items():
        status, out, err = run(["simulate", *arguments], capfd)
        assert (status, out) == (1, "")
        one_sentence(err)
        assert said in err


def test_simulate_says_which_npu_a_file_is_for(artifact: Path, capfd: Capture) -> None:
    data = artifact.read_bytes()
    at = data.index(b"COP1") + 8
    for product, said in ((2, "an Ethos-U85"), (9, "product 9, which is unknown")):
        artifact.write_bytes(data[: at + 3] + bytes([product << 4 | data[at + 3] & 15]) + data[at + 4 :])
        status, _, err = run(["simulate", artifact], capfd)
        assert status == 1 and said in err
        one_sentence(err)


def test_a_network_with_unknown_cpu_operators_is_timed_without_being_run(
    artifact: Path, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = run_json(["simulate", artifact, "--timing"], capfd)["timing"]
    padded = artifact.with_name("classifier_ethosu.tflite")
    (tmp_path / "classifier.tflite").write_bytes(resized_classifier())
    run(["compile", tmp_path / "classifier.tflite", "-o", tmp_path], capfd)
    assert "not_run" not in run_json(["simulate", padded, "--timing"], capfd)
    monkeypatch.setattr(reference, "is_known", lambda graph, operator: operator.kind != "RESIZE_NEAREST_NEIGHBOR")
    monkeypatch.setattr(litert, "is_installed", lambda: False)
    found = run_json(["simulate", padded, "--timing"], capfd)
    assert found["not_run"] == ["RESIZE_NEAREST_NEIGHBOR"] and found["timing"]["cycles"] > known["cycles"]
    status, out, _ = run(["simulate", padded, "--trace", tmp_path / "t.json"], capfd)
    assert status == 0 and "did not run" in out and (tmp_path / "t.json").is_file()


def test_a_trace_and_what_it_is_of(artifact: Path, tmp_path: Path, capfd: Capture) -> None:
    status, out, _ = run(["simulate", artifact, "--trace", tmp_path / "deep" / "trace.json"], capfd)
    assert status == 0 and "no hazards" in out and " cycles" in out
    found = json.loads((tmp_path / "deep" / "trace.json").read_text())
    lanes = {event["args"]["name"] for event in found["traceEvents"] if event["name"] == "thread_name"}
    engines = {"front end", "compute", "output stage", "DMA", "Sram", "OffChipFlash"}
    assert lanes == engines | {"operators outside cascades"}
