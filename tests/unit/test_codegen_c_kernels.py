"""Every C kernel against LiteRT's reference kernels, bit for bit, built by the system compiler."""

from __future__ import annotations

import numpy as np
import pytest
from codegen_support import cpu_artifact, litert, random_inputs
from ethoscade.codegen import c_source
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType, Graph, Operator, Quantisation, Tensor
from ethoscade.judge import reference
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder

BOTH = pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])


def check(model: bytes, seeds: int = 2) -> None:
    graph = read_tflite(model, "net")
    artifact = cpu_artifact(model)
    for seed in range(seeds):
        inputs = random_inputs(graph, seed)
        expected = litert(model, inputs)
        found = host_c.run(artifact, inputs)
        assert found.arena_bytes == artifact.arena_bytes
        for name, values in expected.items():
            np.testing.assert_array_equal(found.outputs[name], values)


@BOTH
@pytest.mark.parametrize("scale", [0.0035, 0.05, 0.17, 1.3])
@pytest.mark.parametrize("beta", [1.0, 0.25])
def test_softmax(dtype: DType, scale: float, beta: float) -> None:
    b = ModelBuilder(dtype=dtype)
    x = b.input((40, 33), quantisation=Quantisation((float(np.float32(scale)),), (3,)))
    b.softmax(x, beta=beta)
    check(b.build(), seeds=1)


@BOTH
@pytest.mark.parametrize("scale", [1e-7, 7.8e-9, 1e-18])
def test_softmax_of_next_to_nothing(dtype: DType, scale: float) -> None:
    """Where LiteRT aborts, because the difference is shifted right, the reference semantics decide."""
    b = ModelBuilder(dtype=dtype)
    b.softmax(b.input((4, 1000), quantisation=Quantisation((float(np.float32(scale)),), (3,))), name="y")
    model = b.build()
    inputs = random_inputs(read_tflite(model), 0)
    expected = reference.run(read_tflite(model), inputs).outputs["y"]
    np.testing.assert_array_equal(host_c.run(cpu_artifact(model), inputs).outputs["y"], expected)


@pytest.mark.parametrize("depth", [1, 2, 1001])
def test_softmax_depths(depth: int) -> None:
    b = ModelBuilder()
    b.softmax(b.input((3, depth)))
    check(b.build())


@BOTH
@pytest.mark.parametrize("target", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scale", [1 / 128, 0.0031, 0.9])
def test_requantise(dtype: DType, target: DType, scale: float) -> None:
    b = ModelBuilder(dtype=dtype)
    zero = 128 if target is DType.UINT8 else 0
    b.quantize(b.input((1, 7, 5, 19)), Quantisation((float(np.float32(scale)),), (zero + 5,)), dtype=target)
    check(b.build())


@BOTH
def test_reshape_and_squeeze(dtype: DType) -> None:
    b = ModelBuilder(dtype=dtype)
    b.squeeze(b.reshape(b.input((1, 6, 4, 2)), (1, 1, 48)), (1,))
    check(b.build())


@BOTH
def test_pad(dtype: DType) -> None:
    b = ModelBuilder(dtype=dtype)
    b.pad(b.input((1, 5, 4, 3)), ((0, 0), (1, 2), (3, 0), (0, 1)))
    check(b.build())


@BOTH
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("half_pixel_centers", [False, True])
@pytest.mark.parametrize("size", [(10, 8), (3, 13), (1, 1), (7, 4)])
def test_resize_nearest(dtype: DType, align_corners: bool, half_pixel_centers: bool, size: tuple[int, int]) -> None:
    b = ModelBuilder(dtype=dtype)
    b.resize_nearest(b.input((2, 5, 4, 3)), size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    check(b.build(), seeds=1)


@BOTH
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("activation", [Activation.NONE, Activation.RELU, Activation.RELU6])
def test_pools(dtype: DType, padding: str, activation: Activation) -> None:
    b = ModelBuilder(dtype=dtype)
    x = b.input((1, 9, 8, 5), quantisation=Quantisation((0.0625,), (128 if dtype is DType.UINT8 else 0,)))
    b.output(
        b.average_pool(x, 3, stride=2, padding=padding, activation=activation),
        b.max_pool(x, (2, 3), stride=(1, 2), padding=padding, activation=activation),
    )
    check(b.build())


def test_an_operator_without_a_kernel_is_named() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 2))
    b.conv2d(x, 3, name="middle")
    with pytest.raises(
        UnsupportedOperatorError, match=r"CONV_2D.*C kernels exist for AVERAGE_POOL_2D.*SOFTMAX"
    ) as info:
        c_source.sources(cpu_artifact(b.build()))
    assert info.value.operator


@BOTH
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (3,), (1,), (0, 1, 2, 3)])
@pytest.mark.parametrize("keep", [True, False])
def test_mean(dtype: DType, axes: tuple[int, ...], keep: bool) -> None:
    if len(axes) == 4 and not keep:
        pytest.skip("the builder makes no scalars")
    b = ModelBuilder(dtype=dtype)
    b.mean(b.input((1, 7, 5, 6)), axes, keep_dims=keep)
    check(b.build())


@BOTH
@pytest.mark.parametrize("to_float", [True, False])
def test_floats(dtype: DType, to_float: bool) -> None:
    """Against the reference semantics, with halves and values beyond the range among the inputs."""
    quantised = Tensor("q", (1, 256), dtype, Quantisation((0.0625,), (7,)))
    real = Tensor("f", (1, 256), DType.FLOAT32)
    tensors = (quantised, real) if to_float else (real, quantised)
    operator = Operator("DEQUANTIZE" if to_float else "QUANTIZE", "convert", (0,), (1,))
    graph = Graph("net", tensors, (operator,), (0,), (1,))
    values = np.arange(256).astype(np.uint8).view(dtype.numpy) if to_float else (np.arange(256) - 128) * 0.15625 / 2
    x = values.reshape(1, 256).astype(tensors[0].dtype.numpy)
    artifact = Artifact("net", "ethos-u55-256", graph, (CpuCall(0),), b"", 2048, {0: 0, 1: 1024})
    expected = reference.run_operator(graph, 0, {0: x})[1]
    np.testing.assert_array_equal(host_c.run(artifact, {tensors[0].name: x}).outputs[tensors[1].name], expected)
