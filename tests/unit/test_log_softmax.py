"""LOG_SOFTMAX: sums and scales of every size, on the simulated NPU and in LiteRT; and what stays on the CPU."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.reference.log_softmax import logarithm
from ethoscade.testing import ModelBuilder
from reference_support import litert_values, needs_litert
from test_reference_micro import micro_output


def model(rows: int, channels: int, dtype: DType, scale: float, output: Quantisation | None = None) -> bytes:
    b = ModelBuilder(dtype=dtype)
    x = b.input((rows, channels), quantisation=Quantisation((float(np.float32(scale)),), (5,)), name="x")
    b.log_softmax(x, output=output, name="y")
    return b.build()


def rows_of_all_sums(rows: int, channels: int, dtype: DType) -> np.ndarray:
    """Rows of equal values, of one that is greater by far, and drawn ones, each within a range of its own."""
    rng = np.random.default_rng(channels)
    lowest, highest = dtype.limits
    x = rng.integers(lowest, highest, (rows, channels), endpoint=True)
    x = np.where(rng.random((rows, channels)) < rng.random((rows, 1)), highest, x)
    x = np.maximum(x, highest - (256 * rng.random((rows, 1)) ** 2).astype(int))
    x[0], x[1], x[2] = highest, lowest, lowest
    x[2, 0] = highest
    # Beyond what kernels count at some scales, and within the range of results.
    x[3], x[3, 0] = highest - 251, highest
    return x.astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
@pytest.mark.parametrize(
    ("channels", "scale"),
    [(1, 0.1), (3, 16.0), (10, 0.0627), (70, 0.0001), (150, 0.061), (4095, 0.02)],
)
def test_sums_of_every_size(channels: int, scale: float, dtype: DType) -> None:
    needs_litert()
    rows = 8000 // channels + 5
    given, x = model(rows, channels, dtype, scale), rows_of_all_sums(rows, channels, dtype)
    graph = read_tflite(given)
    expected = litert_values(graph, {"x": x})[graph.outputs[0]]
    np.testing.assert_array_equal(reference.run(graph, {"x": x}).outputs["y"], expected)
    compiled = ethoscade.compile(given, accelerator="ethos-u55-128" if channels < 100 else "ethos-u65-256")
    found = compiled.simulate({"x": x})
    assert compiled.cpu_operators == () and found.warnings == () and found.hazards == 0
    np.testing.assert_array_equal(found.outputs["y"], expected)
    if dtype is DType.INT8:
        np.testing.assert_array_equal(micro_output(given, {"x": x}).reshape(expected.shape), expected)


def test_the_logarithm_is_one() -> None:
    """Of sums in Q12.19, at both sides of every power of two and of its product with the root of 2."""
    powers = 2.0 ** np.arange(19, 31, 0.5)
    sums = np.unique(np.concatenate([np.round(powers), np.round(powers) + 1, np.round(powers[1:]) - 1])).astype(
        np.int64
    )
    np.testing.assert_allclose(logarithm(sums) / 2**26, np.log(sums / 2**19), atol=1e-6)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
def test_rows_in_a_cascade(dtype: DType) -> None:
    """Pixel by pixel, in stripes."""
    b = ModelBuilder(dtype=dtype, seed=2)
    x = b.log_softmax(b.conv2d(b.input((1, 24, 20, 3), name="x"), 16, 3))
    b.conv2d(x, 4, 3, stride=(2, 2), name="y")
    inputs = {"x": np.random.default_rng(0).integers(*dtype.limits, (1, 24, 20, 3)).astype(dtype.numpy)}
    both_ends(network_of(b.build()), inputs)


@pytest.mark.parametrize(
    ("channels", "scale", "output", "words"),
    [
        (4096, 0.1, None, "it has 4096 channels; at most 4095 are possible"),
        (8, 16.1, None, "its input has scale 16.1; with more than 16"),
        (8, 1e-8, None, "its input has scale 1e-08; kernels are defined above 2^-26"),
        (8, 0.1, Quantisation((0.01,), (127,)), "its output has scale 0.01 and zero point 127; kernels make it with"),
        (8, 0.1, Quantisation((1 / 16,), (3,)), "its output has scale 0.0625 and zero point 3;"),
    ],
)
def test_what_stays_on_the_cpu(channels: int, scale: float, output: Quantisation | None, words: str) -> None:
    (operator,) = ethoscade.compile(model(2, channels, DType.INT8, scale, output)).operators
    assert operator.reason is not None and words in operator.reason


def test_scales_without_a_factor_have_no_meaning() -> None:
    graph = read_tflite(model(2, 3, DType.INT8, 1e-8))
    with pytest.raises(UnsupportedOperatorError, match="for its differences, which kernels define above 1"):
        reference.run(graph, {"x": np.zeros((2, 3), np.int8)})
