"""Element types that few networks have: whatever comes of them, it is a result or an `EthoscadeError`."""

from __future__ import annotations

import contextlib
import itertools

import ethoscade
import numpy as np
import pytest
import tflite
from ethoscade.errors import EthoscadeError, UnsupportedOperatorError, VerificationError
from ethoscade.ir import TFLITE_TYPES, DType, Graph, Operator, Quantisation, Tensor
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from reference_support import needs_litert
from tflite_files import File, Op, T, constant

IMAGE = (1, 4, 4, 8)
OPERATORS = {
    "QUANTIZE": (None, {}),
    "DEQUANTIZE": (None, {}),
    "RELU": (None, {}),
    "RELU6": (None, {}),
    "SOFTMAX": ("SoftmaxOptions", {"Beta": 1.0}),
    "ADD": ("AddOptions", {}),
    "RESHAPE": ("ReshapeOptions", {"NewShape": list(IMAGE)}),
    "PACK": ("PackOptions", {"ValuesCount": 2, "Axis": 0}),
    "CONCATENATION": ("ConcatenationOptions", {"Axis": 1}),
    "PAD": ("PadOptions", {}),
    "MAX_POOL_2D": ("Pool2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 3}),
}


PAIRS = list(
    dict.fromkeys(
        itertools.chain.from_iterable(
            ((d, d), (d, DType.INT8), (DType.INT8, d), (d, DType.FLOAT32), (DType.INT16, d)) for d in TFLITE_TYPES
        )
    )
)


@pytest.fixture
def litert() -> None:
    """Skips where LiteRT is not installed."""
    needs_litert()


def number(dtype: DType) -> int:
    """TFLite's number of an element type."""
    return int(getattr(tflite.TensorType, dtype.name))


def of_types(kind: str, source: DType, result: DType) -> bytes:
    """An int8 QUANTIZE, without which there would be nothing quantised, and an operator between two types."""
    quantised = DType.FLOAT16 not in (source, result) and not source.is_float
    options, fields = OPERATORS[kind]
    shape = {"PACK": (2, *IMAGE), "CONCATENATION": (1, 8, 4, 8)}.get(kind, IMAGE)
    inputs = {"ADD": (2, 2), "PACK": (2, 2), "CONCATENATION": (2, 2), "PAD": (2, 4)}.get(kind, (2,))
    scales = {"scales": (0.5,), "zero_points": (0,)} if quantised else {"scales": (), "zero_points": ()}
    return File(
        (
            T("a", IMAGE),
            T("b", IMAGE, scales=(0.25,)),
            T("x", IMAGE, number(source), **scales),
            T("y", shape, number(result), **scales),
            constant("pads", [0] * 8, (4, 2)),
        ),
        (Op("QUANTIZE", (0,), (1,)), Op(kind, inputs, (3,), options, fields)),
        (0, 2),
        (1, 3),
    ).bytes()


@pytest.mark.parametrize("dtype", DType)
def test_inputs_of_every_type_are_drawn(dtype: DType) -> None:
    tensors = tuple(Tensor(name, (2, 500), dtype, Quantisation((0.5,), (3,))) for name in "xy")
    graph = Graph("net", tensors, (), (0, 1), (0,))
    for seed in range(3):
        first, again = random_inputs(graph, seed), random_inputs(graph, seed)
        for name, value in first.items():
            assert value.dtype == dtype.numpy and value.shape == (2, 500)
            assert len(np.unique(value)) > 1
            np.testing.assert_array_equal(value, again[name])
        assert not np.array_equal(first["x"], first["y"])


@pytest.mark.parametrize("kind", OPERATORS)
def test_any_pair_of_types_compiles_and_runs_or_is_refused(kind: str) -> None:
    ran = 0
    for source, result in PAIRS:
        with contextlib.suppress(EthoscadeError):
            compiled = ethoscade.compile(of_types(kind, source, result))
            found = compiled.simulate(random_inputs(compiled.source, 1)).outputs["y"]
            assert found.dtype == result.numpy
            ran += 1
    assert ran


@pytest.mark.usefixtures("litert")
@pytest.mark.parametrize(
    ("kind", "source", "result"),
    [
        ("QUANTIZE", DType.FLOAT32, DType.INT8),
        ("QUANTIZE", DType.INT8, DType.FLOAT16),
        ("DEQUANTIZE", DType.FLOAT16, DType.FLOAT32),
        ("RELU", DType.FLOAT32, DType.FLOAT32),
        ("RELU6", DType.FLOAT64, DType.FLOAT64),
        ("PAD", DType.FLOAT64, DType.FLOAT16),
        ("RESHAPE", DType.UINT64, DType.UINT64),
    ],
)
def test_odd_types_are_verified_or_refused(kind: str, source: DType, result: DType) -> None:
    with contextlib.suppress(VerificationError, UnsupportedOperatorError):
        assert ethoscade.compile(of_types(kind, source, result)).verify(seeds=2).ok


@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_float_activations_are_not_rounded(kind: str) -> None:
    tensors = tuple(Tensor(name, (5,), DType.FLOAT32) for name in "xy")
    operator = Operator(kind, "y", (0,), (1,), opaque="tensor 'x' is float32")
    graph = Graph("net", tensors, (operator,), (0,), (1,))
    values = np.array([-3.5, -0.25, 0.25, 0.75, 7.5], np.float32)
    low, high = {"RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}[kind]
    np.testing.assert_array_equal(reference.run(graph, {"x": values}).outputs["y"], np.clip(values, low, high))


def test_half_floats_keep_their_fractions() -> None:
    tensors = (Tensor("x", (3,), DType.FLOAT16), Tensor("y", (3,), DType.FLOAT32))
    graph = Graph("net", tensors, (Operator("DEQUANTIZE", "y", (0,), (1,)),), (0,), (1,))
    values = np.array([-0.25, 0.5, 3.75], np.float16)
    np.testing.assert_array_equal(reference.run(graph, {"x": values}).outputs["y"], values.astype(np.float32))


@pytest.mark.usefixtures("litert")
@pytest.mark.parametrize("shape", [(), (4, 8)])
def test_shapes_that_litert_knows_better(shape: tuple[int, ...]) -> None:
    """As detectors have them, whose converter left the shapes of its custom operators out."""
    tensors = (T("x", (1, 8)), T("y", shape, scales=(1 / 256,), zero_points=(-128,)), T("z", shape))
    file = File(tensors, (Op("LOGISTIC", (0,), (1,)), Op("QUANTIZE", (1,), (2,))), (0,), (1, 2))
    with pytest.raises(VerificationError, match=r"'y' is int8\[.*LiteRT makes int8\[1, 8\]"):
        ethoscade.compile(file.bytes()).verify(seeds=1)
