"""DIV of 8 bits by one number: all results of all stored values, and what stays on the CPU."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import EIGHT_BIT, Activation, DType, Quantisation
from ethoscade.judge import reference
from ethoscade.testing import ModelBuilder
from reference_support import drawn_quantisation, litert_values, needs_litert


def divided(
    dtype: DType,
    number: Quantisation,
    units: int,
    scale: float,
    zero_point: int = 3,
    given: int = 5,
    relu: bool = False,
) -> bytes:
    """All values of a type, divided by so many units of a number's scale."""
    b = ModelBuilder(dtype=dtype)
    x = b.input((1, 4, 8, 8), quantisation=Quantisation((0.05,), (given,)), name="x")
    stored = np.array(number.zero_point + units)
    divisor = b._tensor("divisor", (), dtype, number, stored.astype(dtype.numpy))
    b._thunks[divisor.index] = lambda: np.float64(units * number.scale)
    activation = Activation.RELU6 if relu else Activation.NONE
    b.divide(
        x, divisor, activation=activation, output=Quantisation((float(np.float32(scale)),), (zero_point,)), name="y"
    )
    return b.build()


def all_values(dtype: DType) -> np.ndarray:
    lowest, highest = dtype.limits
    return np.arange(lowest, highest + 1).astype(dtype.numpy).reshape(1, 4, 8, 8)


@pytest.mark.parametrize("dtype", EIGHT_BIT, ids=lambda d: d.value)
def test_all_results_are_those_of_litert(dtype: DType) -> None:
    needs_litert()
    rng, taken = np.random.default_rng(7), 0
    for _ in range(40):
        number = drawn_quantisation(rng, dtype)
        units = int(rng.integers(dtype.limits[0], dtype.limits[1] + 1)) - number.zero_point or 1
        units = units if dtype.limits[0] <= number.zero_point + units <= dtype.limits[1] else -units
        real = number.scale * abs(units)
        zero_point, given = (int(rng.integers(dtype.limits[0], dtype.limits[1])) for _ in range(2))
        scale = 0.05 / real * 2.0 ** rng.uniform(-5, 2)
        graph = read_tflite(divided(dtype, number, units, scale, zero_point, given, bool(rng.random() < 0.3)))
        compiled = ethoscade.compile(graph.source)
        inputs = {"x": all_values(dtype)}
        if compiled.cpu_operators:
            assert "shifts the quotient of" in str(compiled.cpu_operators[0].reason)
            with pytest.raises(UnsupportedOperatorError, match="shifts of quotients by"):
                reference.run(graph, inputs)
            continue
        expected = litert_values(graph, inputs)[graph.outputs[0]]
        np.testing.assert_array_equal(reference.run(graph, inputs).outputs["y"], expected)
        np.testing.assert_array_equal(compiled.simulate(inputs).outputs["y"], expected)
        taken += 1
    assert taken >= 20


def reasoned(b: ModelBuilder) -> str:
    (operator,) = ethoscade.compile(b.build()).cpu_operators
    assert operator.reason is not None
    return operator.reason


def test_other_divisors_stay_on_the_cpu_and_say_why() -> None:
    b = ModelBuilder()
    b.divide(b.input((1, 4, 4, 3)), b.constant(np.array([0.5, 0.7, 0.9])))
    assert "has 3 different values; one is possible" in reasoned(b)
    b = ModelBuilder()
    b.divide(b.input((1, 4)), b.input((1, 4)), output=Quantisation((0.1,), (0,)))
    assert "is made while the network runs" in reasoned(b)
    b = ModelBuilder()
    b.divide(b.constant(np.array([0.5, 0.7])), b.input((2,)), output=Quantisation((0.1,), (0,)))
    assert "its first input 'constant0' is a constant" in reasoned(b)
    zero = divided(DType.INT8, Quantisation((0.1,), (4,)), 0, 0.1)
    (operator,) = ethoscade.compile(zero).cpu_operators
    assert operator.reason == "its divisor 'divisor' is 0"
    with pytest.raises(UnsupportedOperatorError, match="a divisor of 0"):
        reference.run(read_tflite(zero), {"x": all_values(DType.INT8)})


def test_a_divisor_of_more_dimensions_repeats_the_value() -> None:
    b = ModelBuilder()
    b.divide(b.input((1, 4)), b.constant(np.full((3, 1), 0.5)))
    assert "of shape (1, 4) is repeated to (3, 4)" in reasoned(b)
