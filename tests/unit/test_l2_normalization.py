"""L2_NORMALIZATION: sums of squares of every size, on the simulated NPU and in LiteRT; and what stays on the CPU."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.reference.l2_normalization import inverse_root
from ethoscade.lowering.l2_normalization import MOST_SQUARES
from ethoscade.testing import ModelBuilder
from reference_support import litert_values, needs_litert
from test_reference_micro import micro_output


def model(rows: int, channels: int, dtype: DType, zero_point: int, output: Quantisation | None = None) -> bytes:
    b = ModelBuilder(dtype=dtype)
    x = b.input((rows, channels), quantisation=Quantisation((0.05,), (zero_point,)), name="x")
    b.l2_normalization(x, output=output, name="y")
    return b.build()


def rows_of_all_sizes(rows: int, channels: int, dtype: DType, zero_point: int) -> np.ndarray:
    """Rows of zeros, of one element that is not, of extremes, and drawn ones, each within a range of its own."""
    rng = np.random.default_rng(channels)
    lowest, highest = dtype.limits
    spans = 2.0 ** rng.uniform(0, 8, (rows, 1))
    centred = np.round(rng.uniform(-1, 1, (rows, channels)) * spans)
    centred[0] = 0
    centred[1] = np.eye(1, channels)
    centred[2] = -np.eye(1, channels)
    centred[3:5] = [[255], [-255]]
    for row in range(5, rows, 3):
        centred[row] *= rng.random(channels) < 0.2
    return np.clip(centred + zero_point, lowest, highest).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
@pytest.mark.parametrize(("channels", "place"), [(1, 0.5), (5, 1.0), (64, 0.4), (MOST_SQUARES, 1.0)])
def test_sums_of_every_size(channels: int, place: float, dtype: DType) -> None:
    needs_litert()
    lowest, highest = dtype.limits
    zero_point = round(lowest + place * (highest - lowest))
    rows = 3000 if channels < 700 else 60
    given = model(rows, channels, dtype, zero_point)
    x = rows_of_all_sizes(rows, channels, dtype, zero_point)
    graph = read_tflite(given)
    expected = litert_values(graph, {"x": x})[graph.outputs[0]]
    np.testing.assert_array_equal(reference.run(graph, {"x": x}).outputs["y"], expected)
    compiled = ethoscade.compile(given, accelerator="ethos-u55-128" if channels < 100 else "ethos-u65-256")
    found = compiled.simulate({"x": x})
    assert compiled.cpu_operators == () and found.warnings == () and found.hazards == 0
    np.testing.assert_array_equal(found.outputs["y"], expected)
    if dtype is DType.INT8:
        np.testing.assert_array_equal(micro_output(given, {"x": x}).reshape(expected.shape), expected)


def test_one_over_the_root_of_sums_that_the_npu_does_not_take() -> None:
    """Sums of 2^29 and more lose pairs of bits first."""
    for total in (1 << 27, (1 << 29) - 1, 1 << 29, (1 << 31) - 1):
        significand, shift = (int(found[0]) for found in inverse_root(np.array([total], np.int64)))
        assert significand * 2.0 ** (-31 - shift) == pytest.approx(total**-0.5, rel=1e-5)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
def test_rows_in_a_cascade(dtype: DType) -> None:
    """Images are normalised pixel by pixel, in stripes."""
    b = ModelBuilder(dtype=dtype, seed=2)
    x = b.l2_normalization(b.conv2d(b.input((1, 24, 20, 3), name="x"), 16, 3))
    b.conv2d(x, 4, 3, stride=(2, 2), name="y")
    inputs = {"x": np.random.default_rng(0).integers(*dtype.limits, (1, 24, 20, 3)).astype(dtype.numpy)}
    both_ends(network_of(b.build()), inputs)


@pytest.mark.parametrize(
    ("channels", "output", "words"),
    [
        (MOST_SQUARES + 1, None, f"it has {MOST_SQUARES + 1} channels; at most {MOST_SQUARES} are possible"),
        (
            8,
            Quantisation((0.01,), (0,)),
            "its output has scale 0.01 and zero point 0; kernels make it with 1/128",
        ),
        (8, Quantisation((1 / 128,), (3,)), "its output has scale 0.0078125 and zero point 3;"),
    ],
)
def test_what_stays_on_the_cpu(channels: int, output: Quantisation | None, words: str) -> None:
    (operator,) = ethoscade.compile(model(2, channels, DType.INT8, 0, output)).operators
    assert operator.reason is not None and words in operator.reason
