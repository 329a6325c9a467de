"""Networks of int16 throughout: cascaded at several budgets, in bricks, streams as promised; tables as LiteRT's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.reference import softmax_sixteen
from ethoscade.judge.verification import compare, random_inputs
from ethoscade.lowering import interpolated
from ethoscade.lowering.feature_maps import Layout
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.run.execution import run_artifact
from ethoscade.testing import ModelBuilder, Value
from promised_cycles import broken_promises


def network(narrow: bool) -> bytes:
    """Every operator that runs on int16, and both ways between 16 and 8 bits."""
    b = ModelBuilder(dtype=DType.INT16, seed=4, narrow_biases=narrow)
    x = b.conv2d(b.input((1, 16, 10, 5)), 32, 3)
    y = b.depthwise(x, 3, stride=2)
    y = b.add(b.resize_nearest(y, (16, 10)), x)
    y = b.binary("SUB", y, b.constant(np.linspace(-0.5, 0.5, 32)))
    y = b.binary("MAXIMUM", b.binary("MUL", y, x), y)
    y = b.binary("MINIMUM", b.constant(np.array(0.9)), y)
    left, right = b.split(b.average_pool(y, 3, stride=1, padding="SAME"), (16, 16))
    y = b.concatenate([b.max_pool(right, 3, stride=1, padding="SAME"), left])
    y = b.conv2d(b.quantize(b.quantize(y), dtype=DType.INT8), 32, 3, padding="VALID")
    y = b.unary("ABS", b.conv2d(b.quantize(y, dtype=DType.INT16), 16, 1))
    y = b.fully_connected(b.mean(y), 10)
    b.softmax(y)
    return b.build()


@pytest.mark.parametrize(("accelerator", "narrow"), [("ethos-u55-256", False), ("ethos-u55-32", True)])
def test_points_of_a_network(accelerator: str, narrow: bool) -> None:
    made = network_of(network(narrow), accelerator)
    layouts = {view.layout for operation in made.npu.operations for view in (*operation.inputs, operation.ofm)}
    assert layouts == set(Layout) and made.partition.cpu_operators == ()
    curve = search(made)
    inputs = random_inputs(made.source, 3)
    expected = reference.run(made.source, inputs).outputs
    for place in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(made, curve, place))
        result = run_artifact(carry_out(made, curve, curve.proposals[place]).artifact, inputs)
        assert compare(result.outputs, expected)[1] == 0 and result.hazards == 0 and result.warnings == ()
    assert curve.points[0][0] < 0.6 * curve.uncascaded_bytes, "stripes ought to pass"


def _grouped(b: ModelBuilder, x: Value, weights: Quantisation, output: Quantisation) -> None:
    b.conv2d(x, 32, 3, groups=2, weight_quantisation=weights, use_bias=False, output=output)


def _multiplied(b: ModelBuilder, x: Value, weights: Quantisation, output: Quantisation) -> None:
    b.depthwise(x, 3, multiplier=2, weight_quantisation=weights, use_bias=False, output=output)


def _transposed(b: ModelBuilder, x: Value, weights: Quantisation, output: Quantisation) -> None:
    b.transpose_conv(x, 8, 3, weight_quantisation=weights, use_bias=False, output=output)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize("make", [_grouped, _multiplied, _transposed])
def test_sums_that_end_in_halves(make: Callable[..., None], accelerator: str) -> None:
    """Some sums of either sign are ties, with a shift by more than 31, where rounding twice would tell them apart."""
    b = ModelBuilder(dtype=DType.INT16, seed=1)
    x = b.input((1, 20, 20, 16), quantisation=Quantisation((2.0**-10,), (0,)))
    make(b, x, Quantisation((2.0**-7,), (0,)), Quantisation((2.0,), (0,)))
    made = network_of(b.build(), accelerator)
    assert made.partition.cpu_operators == ()
    assert {operation.accumulator_bits for operation in made.npu.operations} == {40}
    inputs = {"input0": (4096 * np.random.default_rng(2).integers(-7, 8, (1, 20, 20, 16))).astype(np.int16)}
    both_ends(made, inputs)


def test_averages_of_every_kind_of_tie() -> None:
    """Windows of up to 64 elements over values at the ends of the type and next to ties."""
    rng = np.random.default_rng(0)
    for size in range(1, 9):
        b = ModelBuilder(dtype=DType.INT16)
        x = b.input((1, 40, 40, 8), name="x")
        b.average_pool(x, (size, 8), stride=1, padding="SAME" if size % 2 else "VALID", name="mean")
        made = network_of(b.build())
        curve = search(made)
        artifact = carry_out(made, curve, curve.proposals[0]).artifact
        for low, high in ((-32768, 32768), (-2, 3), (32760, 32768), (-32768, -32760)):
            inputs = {"x": rng.integers(low, high, (1, 40, 40, 8)).astype(np.int16)}
            expected = reference.run(made.source, inputs).outputs["mean"]
            np.testing.assert_array_equal(run_artifact(artifact, inputs).outputs["mean"], expected)


@pytest.mark.parametrize("kernel", [(101, 5), (127, 255)])
def test_averages_next_to_ties(kernel: tuple[int, int]) -> None:
    """Of means a hair below a tie, two roundings would make the tie."""
    shape = (1, kernel[0] + 20, kernel[1] + 10, 64)
    b = ModelBuilder(dtype=DType.INT16)
    b.average_pool(b.input(shape, name="x"), kernel, stride=1, name="mean")
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == ()
    inputs = {"x": np.random.default_rng(3).integers(32700, 32768, shape).astype(np.int16)}
    expected = reference.run(compiled.source, inputs).outputs["mean"]
    np.testing.assert_array_equal(compiled.simulate(inputs).outputs["mean"], expected)


def test_sums_beyond_32_bits_next_to_halves() -> None:
    """Sums are the biases where the input is zero: halves and their neighbours, far beyond 32 bits."""
    rng = np.random.default_rng(0)
    real = 1.37 * 2.0**-24
    signs = rng.choice([-1, 1], 256)
    biases = np.rint((rng.integers(-20_000, 20_000, 256) + 0.5) / real).astype(np.int64) + rng.integers(-1, 2, 256)
    b = ModelBuilder(dtype=DType.INT16, per_channel=False)
    b.fully_connected(
        b.input((1, 600), quantisation=Quantisation((1.0,), (0,)), name="x"),
        256,
        weights=np.repeat(127 * signs, 600).reshape(256, 600).astype(np.int8),
        weight_quantisation=Quantisation((1.0,), (0,)),
        bias=biases,
        output=Quantisation((float(np.float32(1 / real)),), (0,)),
        name="y",
    )
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == () and abs(biases).max() > 1 << 36
    for value in (0, 32767, -32768):
        inputs = {"x": np.full((1, 600), value, np.int16)}
        result = compiled.simulate(inputs)
        np.testing.assert_array_equal(result.outputs["y"], reference.run(compiled.source, inputs).outputs["y"])
        assert result.warnings == ()


def test_squares_of_the_largest_differences() -> None:
    """Halves of both ends of the type are 32768 apart, one more than 16 bits hold."""
    ends = np.array([-32768, -32767, -1, 0, 1, 32766, 32767], np.int16)
    b = ModelBuilder(dtype=DType.INT16)
    q = Quantisation((2.0**-12,), (0,))
    first, second = (b.input((7, 7), quantisation=q, name=name) for name in "ab")
    b.binary("SQUARED_DIFFERENCE", first, second, output=Quantisation((2.0**-6,), (0,)), name="y")
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == ()
    inputs = dict(zip("ab", np.meshgrid(ends, ends), strict=True))
    found = compiled.simulate(inputs).outputs["y"]
    np.testing.assert_array_equal(found, reference.run(compiled.source, inputs).outputs["y"])
    assert found.max() == found[0, 6] == found[6, 0] < 32767
    assert found[0, 6] != found[1, 6]


@pytest.mark.parametrize(
    ("function", "vectorised", "scale", "zero_point"),
    [
        (math.exp, np.exp, 10.0 / 65535.0, 32767),
        (lambda x: 1.0 / (1.0 + x), lambda x: 1.0 / (1.0 + x), 1.0 / 65535.0, -32768),
    ],
    ids=["exponential", "reciprocal"],
)
def test_tables_are_the_judges(function, vectorised, scale: float, zero_point: int) -> None:
    found = np.frombuffer(interpolated.table(function, scale, zero_point).data, "<i2").reshape(512, 2)
    expected = softmax_sixteen.table(vectorised, scale, zero_point)
    np.testing.assert_array_equal(found[:, 0], expected[:-1])
    np.testing.assert_array_equal(found[:, 1], np.diff(expected))


def test_a_softmax_of_as_many_as_an_axis_has() -> None:
    """Equal ones have the largest sum there is: all of 31 bits but for 65536."""
    b = ModelBuilder(dtype=DType.INT16)
    b.softmax(b.input((1, 1 << 16), quantisation=Quantisation((2.0**-12,), (0,))))
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == ()
    inputs = random_inputs(compiled.source, 0)
    for given in (inputs, {name: np.full_like(value, 7) for name, value in inputs.items()}):
        run = compiled.simulate(given)
        assert not run.warnings
        for name, value in reference.run(compiled.source, given).outputs.items():
            np.testing.assert_array_equal(run.outputs[name], value)


def test_what_the_reader_has_no_words_for_stays_on_the_cpu() -> None:
    """ADD by shifts, sums of 32 bits that no bias shows, and slopes that kernels would read as if they were int8."""
    b = ModelBuilder(dtype=DType.INT16)
    x = b.input((1, 4, 4, 8), quantisation=Quantisation((2.0**-13,), (0,)))
    b.add(x, x, output=Quantisation((2.0**-12,), (0,)))
    b._operators[-1] = replace(b._operators[-1], fields={"PotScaleInt16": True})
    b.conv2d(x, 4, 1)
    b._operators[-1] = replace(b._operators[-1], fields={**b._operators[-1].fields, "QuantizedBiasType": 2})
    b.binary("PRELU", x, b.constant(np.linspace(-1, 1, 8), dtype=DType.INT16))
    first, second, third = read_tflite(b.build()).operators
    assert "powers of two" in (first.opaque or "") and "32 bits without a bias of int32" in (second.opaque or "")
    assert "slopes for int16 are int8" in (third.opaque or "")


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@pytest.mark.parametrize(
    "scales",
    [(2.0**-13,) * 3, (2.0**-13, 2.0**-13, 0.0003), (2.0**-13, 1.002 * 2.0**-13, 2.0**-12), (1e-4, 2e-4, 5e-4)],
)
def test_operands_that_may_be_shifted_are_multiplied(kind: str, scales: tuple[float, float, float]) -> None:
    """The flag that allows shifts does nothing where not all scales are powers of two, or all are the same."""
    b = ModelBuilder(dtype=DType.INT16)
    left, right, made = (Quantisation((float(np.float32(scale)),), (0,)) for scale in scales)
    b.binary(kind, b.input((1, 9, 7, 8), quantisation=left), b.input((1, 9, 7, 8), quantisation=right), output=made)
    b._operators[-1] = replace(b._operators[-1], fields={"PotScaleInt16": True})
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == ()
    assert compiled.verify(seeds=3).ok
