"""Public models with operators that only LiteRT plays: they verify; and Vela's files of them run."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from codegen_support import vela_file
from ethoscade.frontend import read_tflite
from ethoscade.judge.verification import JUDGE_CUT, compare, random_inputs, reference_outputs
from ethoscade.run import execution
from model_files import NO_MODELS, model_folder
from test_state import micro_runs, with_two_states

# LOGISTIC behind fully connected; dynamic shapes; MUL; detections; dead channels with biases of -2^31.
VERIFIED = ("cnn_classifier_mul", "simple_transpose_conv", "lresnet", "face_landmarks_192", "style_predict_256")
# States as outputs of the NPU; RESHAPE and DEQUANTIZE on the CPU; float detections.
VELAS = ("micro_speech_lstm", "simple_transpose_conv", "movenet_singlepose_192", "face_detect_64x64")


def model(name: str) -> bytes:
    """The model's bytes. Skips if it is not there."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    folder = model_folder()
    if folder is None or not (folder / f"{name}.tflite").exists():
        pytest.skip(NO_MODELS)
    return (folder / f"{name}.tflite").read_bytes()


@pytest.mark.parametrize("name", VERIFIED)
def test_verified(name: str) -> None:
    check = ethoscade.compile(model(name)).verify(seeds=1)
    assert check.ok and check.findings == ()


def test_what_litert_gets_wrong_is_judged_and_played_by_micro() -> None:
    """SVDF with states of int8, which LiteRT takes for int16, and weights that no reader has words for."""
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")
    data = with_two_states().bytes()
    source, compiled = read_tflite(data, "net"), read_tflite(vela_file(data), "net")
    assert [op.kind for op in compiled.operators if op.opaque].count("SVDF") == 2
    (given,) = random_inputs(source, 0).values()
    expected = reference_outputs(source, {source.tensors[source.inputs[0]].name: given})
    assert expected.judge == JUDGE_CUT
    result = execution.run_tflite(compiled, {compiled.tensors[compiled.inputs[0]].name: given})
    assert result.warnings == () and result.hazards == 0
    for found, wanted in zip(result.outputs.values(), expected.outputs.values(), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_states_that_vela_leaves_to_the_cpu_are_played_in_a_row() -> None:
    data = model("keyword_scrambled_8bit")
    compiled = read_tflite(vela_file(data), "net")
    assert [op.kind for op in compiled.operators].count("SVDF") == len(compiled.variables) == 7
    tensor = compiled.tensors[compiled.given[0]]
    value = np.random.default_rng(0).integers(*tensor.dtype.limits, tensor.shape).astype(tensor.dtype.numpy)
    results = execution.run_tflite_steps(compiled, [{tensor.name: value}] * 4)
    for result, wanted in zip(results, micro_runs(data), strict=True):
        (found,) = result.outputs.values()
        np.testing.assert_array_equal(found, wanted)
        assert result.warnings == () and result.hazards == 0


@pytest.mark.parametrize("name", VELAS)
def test_velas_files_run(name: str) -> None:
    data = model(name)
    compiled, source = read_tflite(vela_file(data), name), read_tflite(data, name)
    inputs = random_inputs(compiled, 0)
    result = execution.run_tflite(compiled, inputs)
    assert result.warnings == () and result.hazards == 0
    _, mismatches, _ = compare(result.outputs, reference_outputs(source, inputs).outputs)
    assert mismatches == 0
