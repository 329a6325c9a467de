"""uint8 FULLY_CONNECTED: one rounding, as LiteRT does, exact for every accumulator, or else the CPU."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference, verification
from ethoscade.judge.reference.fixed_point import NoKernelResult, multiply, multiply_once
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering import single_rounding
from ethoscade.testing import ModelBuilder
from reference_support import litert_values, needs_litert

REALS = [2.0**-k for k in range(0, 21, 4)] + [0.1, 0.3, 1.37 * 2.0**-9, 1 / 3, 1.999, 3.0, 5e-5]


def near_halves(rng: np.random.Generator, real: float, count: int) -> np.ndarray:
    """Accumulators whose scaled value lies on, or next to, a half or an integer of the output's range, or anywhere."""
    near = np.rint((rng.integers(-300, 301, count) + rng.choice([0.0, 0.5, 0.25], count)) / real)
    anywhere = rng.integers(-(2**20), 2**20, count)
    return np.where(np.abs(near) < 2**29, near, anywhere).astype(np.int64)


def layer(biases: np.ndarray, real: float, seed: int = 0, scale: float = 1.0) -> bytes:
    """A layer whose accumulators are near its biases, and the biases themselves for an input of zero points."""
    rng = np.random.default_rng(seed)
    zero, weight_zero = (int(n) for n in rng.integers(0, 256, 2))
    b = ModelBuilder(dtype=DType.UINT8, per_channel=False)
    x = b.input((3, 4), quantisation=Quantisation((scale,), (zero,)), name="x")
    weights = rng.integers(0, 256, (len(biases), 4)).astype(np.uint8)
    b.fully_connected(
        x,
        len(biases),
        weights=weights,
        weight_quantisation=Quantisation((1.0,), (weight_zero,)),
        bias=biases.astype(np.int32),
        output=Quantisation((float(np.float32(1 / real)),), (int(rng.integers(0, 256)),)),
        name="fc",
    )
    return b.build()


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("zero_point", [0, 128, 255])
def test_a_scale_is_exact_for_every_accumulator(real: float, zero_point: int) -> None:
    low, high = -40_000 - zero_point, 50_000
    found = single_rounding.scale(real, low, high, -zero_point, 255 - zero_point)
    assert found is not None
    scale, shift = found
    accumulators = np.arange(low, high + 1)
    npu = (accumulators * scale + ((1 << shift) >> 1)) >> shift
    wanted = multiply_once(accumulators, real)
    assert np.array_equal(*(np.clip(v, -zero_point, 255 - zero_point) for v in (npu, wanted)))


def test_halves_fall_away_from_zero() -> None:
    halves = np.array([-5, -3, -1, 1, 3, 5])
    assert multiply_once(halves, 0.5).tolist() == [-3, -2, -1, 1, 2, 3]
    assert multiply_once(np.array([1]), 0.49999999999999994).tolist() == [0]


def test_what_no_scale_does_exactly_is_said() -> None:
    """In double, 0.7 times 5 is a half and 0.7 times 45 is not: no multiple of any scale goes that way."""
    assert multiply_once(np.array([5, 45]), 0.7).tolist() == [4, 31]
    assert single_rounding.scale(0.7, -40_000, 50_000, -128, 127) is None
    (op,) = ethoscade.compile(layer(np.array([-100, 100]), 0.1, scale=7.0)).cpu_operators
    assert "times 0.7 once" in op.reason and "no scale of the NPU" in op.reason


def test_results_beyond_32_bits_have_no_reference() -> None:
    model = layer(np.array([2**30, 5]), 4.0)
    assert [op.name for op in ethoscade.compile(model).cpu_operators] == ["fc"]
    assert "no reference defines a result" in (single_rounding.undefined(4.0, 0, 2**30) or "")
    assert "32 bits hold" in (single_rounding.undefined(1e-9, 0, 2**31) or "")
    assert single_rounding.undefined(1.9, -(2**30), 0) is None
    with pytest.raises(UnsupportedOperatorError, match=r"'fc'.*does not fit 32 bits"):
        reference.run(read_tflite(model), {"x": np.zeros((3, 4), np.uint8)})


def test_shifts_beyond_31_have_no_reference() -> None:
    with pytest.raises(NoKernelResult, match="shift by 32"):
        multiply(np.array([1]), 1 << 30, np.array([3, 32]))
    assert multiply(np.array([1]), 1 << 30, 31).tolist() == [-(2**30)], "31 wraps"


@pytest.mark.parametrize("seed", range(12))
def test_the_npu_and_the_reference_equal_litert(seed: int) -> None:
    """Adversarial accumulators: halves, their neighbours, powers of two, single precision at its ends."""
    needs_litert()
    rng = np.random.default_rng(seed)
    real = float(np.float32(rng.choice([1.0, 1.37, rng.uniform(1, 2)]) * 2.0 ** rng.integers(-22, 2)))
    graph = read_tflite(layer(near_halves(rng, real, 300), real, seed))
    zero = graph.tensors[graph.inputs[0]].quantisation.zero_point
    inputs = [{"x": np.full((3, 4), zero, np.uint8)}, *(random_inputs(graph, s) for s in range(2))]
    compiled = ethoscade.compile(graph.source)
    assert compiled.cpu_operators == ()
    for given in inputs:
        expected = litert_values(graph, given)[graph.outputs[0]]
        np.testing.assert_array_equal(compiled.simulate(given).outputs["fc"], expected)
        np.testing.assert_array_equal(reference.run(graph, given).outputs["fc"], expected)


def test_litert_alone_judges_it() -> None:
    needs_litert()
    check = ethoscade.compile(layer(near_halves(np.random.default_rng(0), 0.125, 64), 0.125)).verify()
    assert check.ok and check.judge == verification.JUDGE_LITERT


def test_the_product_of_the_scales_is_not_rounded_first() -> None:
    """Sums that a half of the output's step tells apart: by the product in double, and by the one in float32."""
    needs_litert()
    rng = np.random.default_rng(0)
    told_apart = 0
    while told_apart < 3:
        first, second, third = (float(np.float32(scale)) for scale in rng.uniform(0.005, 0.02, 3))
        whole, rounded = first * second / third, float(np.float32(first) * np.float32(second)) / third
        sums = np.arange(-100_000, 100_000)
        apart = sums[(multiply_once(sums, whole) != multiply_once(sums, rounded)) & (np.abs(sums * whole) < 100)]
        if not apart.size:
            continue
        told_apart += 1
        b = ModelBuilder(dtype=DType.UINT8, per_channel=False)
        x = b.input((1, 4), quantisation=Quantisation((first,), (128,)), name="x")
        output, weights = Quantisation((third,), (128,)), np.full((len(apart), 4), 128, np.uint8)
        kind = Quantisation((second,), (128,))
        b.fully_connected(
            x, len(apart), weights=weights, weight_quantisation=kind, bias=apart.astype(np.int32), output=output
        )
        graph = read_tflite(b.build())
        inputs = {"x": np.full((1, 4), 128, np.uint8)}
        made = litert_values(graph, inputs)[graph.operators[0].outputs[0]]
        assert np.array_equal(made.reshape(-1).astype(np.int64) - 128, multiply_once(apart, whole))
        assert np.array_equal(made, reference.run(graph, inputs).outputs[graph.tensors[graph.outputs[0]].name])
