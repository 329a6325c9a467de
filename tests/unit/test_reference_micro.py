"""FULLY_CONNECTED, SUM and int16 against TensorFlow Lite Micro: recorded vectors, the interpreter if installed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder
from reference_support import drawn_operator, models_folder

# Input, weights, bias, output of TensorFlow Lite Micro's reference kernel. In each, one output differs from LiteRT 2's.
RECORDED = (
    ([-117, -128, -116, -90], [[3, 6, -9, 6], [-1, 0, 2, -4], [9, -8, -4, -2]], [42, -55, -222], [-27, 5, 14]),
    ([115, -48, 8, 83], [[3, 7, -5, 7], [6, 5, 5, -9], [-7, -9, 6, -3]], [-90, 225, -134], [12, -6, -27]),
    ([104, -60, 79, 20], [[-8, -3, 6, -1], [8, 8, -5, 8], [-9, -8, 0, -9]], [-95, -29, -104], [-13, -5, -25]),
    ([-42, 41, 26, 67], [[1, 4, -9, 4], [-1, 8, -9, -8], [-1, 4, -8, 8]], [125, -15, -267], [8, -16, 7]),
)
# Models whose operators TensorFlow Lite Micro and LiteRT compute alike, but for FULLY_CONNECTED.
MODELS = ("ad01_int8", "hello_world_int8", "kws_ref_int8", "micro_speech", "resnet8_int8", "vww_96_int8")


@pytest.mark.parametrize(("x", "weights", "bias", "expected"), RECORDED)
def test_recorded_vectors(x: list[int], weights: list[list[int]], bias: list[int], expected: list[int]) -> None:
    b = ModelBuilder()
    given = b.input((1, 4), quantisation=Quantisation((0.25,), (7,)), name="x")
    b.fully_connected(
        given,
        3,
        weights=np.array(weights, dtype=np.int8),
        weight_quantisation=Quantisation((float(np.float32(0.0313)),), (0,)),
        bias=np.array(bias, dtype=np.int32),
        output=Quantisation((0.203125,), (-3,)),
        name="y",
    )
    outputs = reference.run(read_tflite(b.build()), {"x": np.array([x], dtype=np.int8)}).outputs
    assert outputs["y"].tolist() == [expected]


def micro_output(model: bytes, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The first output of TensorFlow Lite Micro."""
    return micro_outputs(model, inputs)[0]


def micro_outputs(model: bytes, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of TensorFlow Lite Micro, for inputs in the model's order."""
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 20)
    for place, value in enumerate(inputs.values()):
        interpreter.set_input(value, place)
    interpreter.invoke()
    return [np.asarray(interpreter.get_output(place)) for place in range(len(read_tflite(model).handed_out))]


@pytest.mark.parametrize("kind", ["FULLY_CONNECTED", "SUM", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_drawn_models(kind: str) -> None:
    compared = 0
    for seed in range(100):
        model = drawn_operator(kind, seed)
        graph = read_tflite(model)
        if graph.tensors[graph.inputs[0]].dtype is DType.UINT8:
            continue  # TensorFlow Lite Micro has no uint8 kernels
        inputs = random_inputs(graph, seed)
        (mine,) = reference.run(graph, inputs).outputs.values()
        assert np.array_equal(micro_output(model, inputs).reshape(mine.shape), mine), f"seed {seed}"
        compared += 1
    assert compared > 30


@pytest.mark.parametrize("kind", [kind for kind, one in reference.MEANINGS.items() if DType.INT16 in one.micro])
@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_drawn_operators_of_int16(kind: str, narrow: bool) -> None:
    """With biases of both types, where there are any."""
    if narrow and kind not in ("CONV_2D", "FULLY_CONNECTED"):
        pytest.skip("it has no bias, or one of int64 alone")
    for seed in range(40):
        model = drawn_operator(kind, seed, DType.INT16, narrow)
        graph = read_tflite(model)
        inputs = random_inputs(graph, seed)
        expected = micro_outputs(model, inputs)
        for mine, value in zip(reference.run(graph, inputs).outputs.values(), expected, strict=True):
            assert np.array_equal(value.reshape(mine.shape), mine), f"seed {seed}"


@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str) -> None:
    folder = models_folder()
    if folder is None or not (folder / f"{name}.tflite").exists():
        pytest.skip("no models: set ETHOSCADE_MODELS")
    model = (folder / f"{name}.tflite").read_bytes()
    graph = read_tflite(model)
    for seed in range(6):
        inputs = random_inputs(graph, seed)
        (mine,) = reference.run(graph, inputs).outputs.values()
        assert np.array_equal(micro_output(model, inputs).reshape(mine.shape), mine)
