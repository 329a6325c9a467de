"""Built networks: accepted by LiteRT, deterministic, alive, and read back as they were meant."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from ethoscade import testing
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, ConvAttrs, DType, Quantisation, Window
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder
from ethoscade.testing.calibration import activation_quantisation, coarse_scale, dequantise, quantise
from reference_support import check, differences, functions_of_the_c_library, needs_litert, played_by_litert

NETWORKS = {
    "mobilenet_v1": lambda: testing.mobilenet_v1(0.25, 64, 20),
    "mobilenet_v1_mean": lambda: testing.mobilenet_v1(0.25, 33, 7, pool="MEAN"),
    "mobilenet_v1_uint8": lambda: testing.mobilenet_v1(0.25, 64, 20, dtype=DType.UINT8),
    "tiny_conv": testing.tiny_conv,
    "residual_network": testing.residual_network,
    "residual_network_uint8": lambda: testing.residual_network(dtype=DType.UINT8),
    "keyword_spotting": testing.keyword_spotting,
    "inverted_residuals": testing.inverted_residuals,
    "shuffle_units": testing.shuffle_units,
    "inception_modules": testing.inception_modules,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run_and_stay_alive(name: str) -> None:
    needs_litert()
    graph = read_tflite(NETWORKS[name]())
    for seed in range(3):
        inputs = random_inputs(graph, seed)
        for where, _, largest in differences(graph, inputs):
            assert where.startswith("FULLY_CONNECTED") and largest == 1
        values = reference.run(graph, inputs).values
        for op in graph.operators:
            if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD"):
                assert len(np.unique(values[op.outputs[0]])) > 5, f"{op.name} is dead"


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_networks_equal_litert(start: int) -> None:
    needs_litert()
    for seed in range(start, start + 20):
        graph = read_tflite(played_by_litert(seed))
        inputs = random_inputs(graph, seed)
        found = differences(graph, inputs)
        if any(not where.startswith("FULLY_CONNECTED") for where, _, _ in found):
            with functions_of_the_c_library():
                found = differences(graph, inputs)
        for where, _, largest in found:
            assert where.startswith("FULLY_CONNECTED") and largest == 1, f"seed {seed}"


def test_tables_differ_from_litert_by_the_c_library_alone() -> None:
    """A sample that lies at a half but for the last bit of erfcf, which C libraries have otherwise."""
    needs_litert()
    b = ModelBuilder(dtype=DType.INT16)
    x = b.input((1, 256, 256, 1), quantisation=Quantisation((7.805228233337402e-05,), (0,)), name="x")
    b.gelu(x, output=Quantisation((7.763504981994629e-05,), (0,)))
    graph = read_tflite(b.build())
    every = np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(1, 256, 256, 1)
    assert all(largest == 1 for _, _, largest in differences(graph, {"x": every}))
    with functions_of_the_c_library():
        assert differences(graph, {"x": every}) == []


def test_random_networks_without_heads() -> None:
    for seed in range(30):
        graph = read_tflite(
            testing.random_network(seed, max_operators=3, max_resolution=9, max_channels=8, heads=False)
        )
        assert not {op.kind for op in graph.operators} & {"MEAN", "FULLY_CONNECTED", "SOFTMAX"}


def test_the_same_bytes_in_another_process() -> None:
    code = (
        "import hashlib; from ethoscade import testing as t;"
        "print(hashlib.sha256(t.mobilenet_v1(0.25, 64, 20) + t.random_network(7)).hexdigest())"
    )
    here = hashlib.sha256(testing.mobilenet_v1(0.25, 64, 20) + testing.random_network(7)).hexdigest()
    for hash_seed in ("1", "2"):
        environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed, "OPENBLAS_NUM_THREADS": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == here


def test_mobilenet_has_the_published_shape() -> None:
    graph = read_tflite(testing.mobilenet_v1(0.5, 96, 13))
    kinds = [op.kind for op in graph.operators]
    assert kinds == [
        "CONV_2D",
        *["DEPTHWISE_CONV_2D", "CONV_2D"] * 13,
        "AVERAGE_POOL_2D",
        "CONV_2D",
        "RESHAPE",
        "SOFTMAX",
    ]
    assert graph.tensors[graph.outputs[0]].shape == (1, 13)
    assert max(t.shape[-1] for t in graph.tensors if t.shape) == 512
    weights = graph.tensors[graph.operators[0].inputs[1] or 0].quantisation
    assert weights is not None and len(weights.scales) == 16 and weights.axis == 0


def test_explicit_parameters_come_back() -> None:
    b = ModelBuilder(seed=5)
    x = b.input((2, 9, 8, 3), quantisation=Quantisation((0.125,), (-7,)), name="pixels")
    weights = np.arange(2 * 3 * 2 * 3, dtype=np.int8).reshape(2, 3, 2, 3)
    scales = Quantisation((0.5, 0.25), (0, 0), 0)
    out = Quantisation((2.0,), (4,))
    y = b.conv2d(
        x,
        2,
        (3, 2),
        stride=(2, 1),
        dilation=(1, 2),
        activation=Activation.RELU6,
        weights=weights,
        weight_quantisation=scales,
        bias=np.array([100, -100], dtype=np.int32),
        output=out,
        name="features",
    )
    assert y.shape == (2, 5, 8, 2) and y.quantisation == out
    graph = read_tflite(b.build())
    (op,) = graph.operators
    assert op.attrs == ConvAttrs(Window(3, 2, 2, 1, 1, 2, 1, 1, 1, 1), Activation.RELU6)
    tensors = {t.name: t for t in graph.tensors}
    assert tensors["pixels"].quantisation == Quantisation((0.125,), (-7,))
    assert tensors["features"].quantisation == out
    stored = graph.tensors[op.inputs[1] or 0]
    assert np.array_equal(stored.data, weights) and stored.quantisation == scales
    assert graph.tensors[op.inputs[2] or 0].data.tolist() == [100, -100]


def test_every_method_builds_what_litert_runs() -> None:
    needs_litert()
    for dtype in (DType.INT8, DType.UINT8):
        b = ModelBuilder(dtype=dtype)
        x = b.input((1, 9, 7, 3))
        x = b.pad(b.conv2d(x, 8, activation=Activation.RELU6), [(0, 0), (1, 2), (1, 0), (0, 0)])
        x = b.relu(b.depthwise(x, stride=2, padding="VALID"), activation=Activation.RELU6)
        x = b.add(b.average_pool(x, 2, stride=1, padding="SAME"), b.quantize(x))
        x = b.max_pool(x, (2, 1))
        mean = b.mean(x, keep_dims=True)
        flat = b.reshape(mean, (1, 8))
        squeezed = b.squeeze(mean, (1, 2))
        b.output(b.softmax(flat), b.add(flat, squeezed))
        check(b.build())


def test_mistakes_are_named() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 3))
    with pytest.raises(ValueError, match="does not fit"):
        b.conv2d(x, 4, 3, padding="VALID")
    with pytest.raises(ValueError, match="SAME or VALID"):
        b.conv2d(x, 4, 3, padding="same")
    with pytest.raises(ValueError, match="the operator needs"):
        b.conv2d(x, 4, 1, weights=np.zeros((4, 1, 1, 2)))
    with pytest.raises(ValueError, match="quantisation"):
        b.conv2d(x, 4, 1, weights=np.zeros((4, 1, 1, 3), np.int8))


def test_scales_have_few_digits() -> None:
    for value in (1e-7, 0.1, 1 / 3, 1.0, 77.7):
        scale = coarse_scale(value)
        assert value <= scale <= value * (1 + 2.0**-11) and float(np.float32(scale)) == scale
        assert coarse_scale(value * (1 - 1e-9)) == scale or value == scale
    real = np.array([-1.0, 0.0, 3.0])
    found = activation_quantisation(real, DType.UINT8)
    assert np.allclose(dequantise(quantise(real, found, DType.UINT8), found), real, atol=found.scale)
