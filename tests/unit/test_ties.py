"""Exact halves: how kernels round them on either side of zero, where factors or what they multiply are negative."""

from __future__ import annotations

import functools
from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Quantisation
from ethoscade.judge import reference
from ethoscade.lowering import support
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value
from graphs import GraphMaker
from npu import check_whole
from operator_batches import Batch
from reference_support import litert_values, needs_litert
from test_codegen_c_kernels import differences as differences_of_c
from test_reference_micro import micro_output

U55 = ACCELERATORS["ethos-u55-256"]
TYPES = (DType.INT8, DType.UINT8, DType.INT16)

# What LiteRT 2.2.0 and 2.3.0 and tflite_micro 0.dev20261023182759 make of -1 to -12, input and output of one scale.
RECORDED = {
    -1.5: (1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18),
    -0.5: (0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6),
    -0.25: (0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3),
    -2.5: (2, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 30),
    0.5: (0, -1, -1, -2, -2, -3, -3, -4, -4, -5, -5, -6),
}


def zero_of(dtype: DType) -> int:
    return 100 if dtype is DType.UINT8 else 0


def every_value(dtype: DType) -> np.ndarray:
    """All values of 8 bits; of int16 those next to zero and both ends."""
    if dtype is not DType.INT16:
        return np.arange(dtype.limits[0], dtype.limits[1] + 1).astype(dtype.numpy).reshape(1, 256)
    ends = (-32768, -32767, -32766, 32765, 32766, 32767)
    return np.array([*ends, *range(-125, 125)], np.int16).reshape(1, 256)


def of_one_value(dtype: DType, build: Callable[[ModelBuilder, Value], object]) -> Graph:
    b = ModelBuilder(dtype=dtype)
    build(b, b.input((1, 256), quantisation=Quantisation((0.5,), (zero_of(dtype),)), name="x"))
    return read_tflite(b.build())


def leaky(alpha: float) -> Callable[[ModelBuilder, Value], None]:
    def build(b: ModelBuilder, x: Value) -> None:
        b.leaky_relu(x, alpha, output=x.quantisation)

    return build


def of_npu(graph: Graph, value: np.ndarray) -> np.ndarray:
    compiled = ethoscade.compile(graph.source, accelerator="ethos-u55-256")
    assert compiled.cpu_operators == ()
    (found,) = compiled.simulate({"x": value}).outputs.values()
    return found


def of_reference(graph: Graph, value: np.ndarray) -> np.ndarray:
    (found,) = reference.run(graph, {"x": value}).outputs.values()
    return found


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("alpha", RECORDED)
def test_leaky_relu_makes_the_recorded_values(alpha: float, dtype: DType) -> None:
    graph, zero = of_one_value(dtype, leaky(alpha)), zero_of(dtype)
    value = np.full((1, 256), zero, dtype.numpy)
    value[0, :12] = zero - np.arange(1, 13)
    expected = np.full((1, 256), zero, dtype.numpy)
    expected[0, :12] = zero + np.array(RECORDED[alpha])
    np.testing.assert_array_equal(of_reference(graph, value), expected)
    np.testing.assert_array_equal(of_npu(graph, value), expected)
    batch = Batch()
    batch.include(graph, graph.operators[0], {graph.inputs[0]: value}, {graph.outputs[0]: expected})
    assert differences_of_c(batch) == []


def dyadic(scale: float, dtype: DType) -> Quantisation:
    return Quantisation((scale,), (zero_of(dtype),))


KINDS: dict[str, Callable[..., object]] = {
    "ABS": lambda b, x, s: b.unary("ABS", x, output=dyadic(s, x.dtype)),
    "ADD": lambda b, x, s: b.add(x, b.constant(np.full((1,), -0.25), dtype=x.dtype), output=dyadic(s, x.dtype)),
    "LEAKY_RELU": lambda b, x, s: b.leaky_relu(x, -0.75, output=dyadic(s, x.dtype)),
    "MUL": lambda b, x, s: b.binary("MUL", x, numbers(b, x, x.dtype, -3.0), output=dyadic(s, x.dtype)),
    "PRELU": lambda b, x, s: b.binary(
        "PRELU", x, numbers(b, x, DType.INT8 if x.dtype is DType.INT16 else x.dtype, -3.0), output=dyadic(s, x.dtype)
    ),
    "QUANTIZE": lambda b, x, s: b.quantize(x, dyadic(s, x.dtype)),
    "RELU": lambda b, x, s: b.relu(x, output=dyadic(s, x.dtype)),
    "SUB": lambda b, x, s: b.binary("SUB", numbers(b, x, x.dtype, -3.0), x, output=dyadic(s, x.dtype)),
}


def numbers(b: ModelBuilder, x: Value, dtype: DType, stored: float) -> Value:
    """One number of so many steps of 1/4."""
    return b.constant(np.full((1,), 0.25 * stored), dtype=dtype, quantisation=dyadic(0.25, dtype))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("kind", KINDS)
def test_halves_are_those_of_litert_and_micro(kind: str, dtype: DType) -> None:
    """In steps of the output that are twice, four times, 4/3 and half of the input's.

    Micro's package differs in steps of 2/3, for a reason that is not known; it is compared in powers of two.
    """
    needs_litert()
    if kind == "ABS" and dtype is DType.UINT8:
        pytest.skip("no runtime has a kernel of it")
    for scale in (1.0, 2.0, 2 / 3, 0.25):
        graph = of_one_value(dtype, functools.partial(KINDS[kind], s=float(np.float32(scale))))
        value = every_value(dtype)
        expected = litert_values(graph, {"x": value})[graph.outputs[0]]
        np.testing.assert_array_equal(of_reference(graph, value), expected, err_msg=f"reference, {scale}")
        np.testing.assert_array_equal(of_npu(graph, value), expected, err_msg=f"NPU, {scale}")
        if dtype is not DType.UINT8 and scale != 2 / 3:
            np.testing.assert_array_equal(micro_output(graph.source, {"x": value}), expected, err_msg=f"Micro, {scale}")


# Minuend, subtrahend, output: the subtrahend's factor has a significand that ends in seven zeros.
TIES = Quantisation((0.0625,), (113,)), Quantisation((0.017753856256604195,), (108,)), Quantisation((2.0**-20,), (84,))
WIDE_TIES = Quantisation((1.0,), (0,)), Quantisation((0.6172528862953186,), (0,)), Quantisation((2.0**-13,), (0,))
# What LiteRT 1.2.0 to 2.3.0 and tflite_micro 0.dev20261023182759 make of such pairs, in which the subtrahend, scaled,
# ends in a half: both operands are rounded up, and then subtracted.
DIFFERENCES = (
    (DType.INT8, TIES, [88], [20], [-85]),
    (
        DType.INT16,
        WIDE_TIES,
        [-19120, -17856, -16592, -14063],
        [-30976, -28928, -26880, -22784],
        [208, -889, -1986, 4012],
    ),
)


def difference(dtype: DType, scales: tuple[Quantisation, ...], shape: tuple[int, ...]) -> Graph:
    b = ModelBuilder(dtype=dtype)
    first, second = (b.input(shape, quantisation=q, name=name) for q, name in zip(scales, "xy", strict=False))
    b.binary("SUB", first, second, output=scales[2])
    return read_tflite(b.build())


@pytest.mark.parametrize(("dtype", "scales", "first", "second", "expected"), DIFFERENCES, ids=["int8", "int16"])
def test_differences_make_the_recorded_values(
    dtype: DType, scales: tuple[Quantisation, ...], first: list[int], second: list[int], expected: list[int]
) -> None:
    graph = difference(dtype, scales, (1, len(first)))
    values = {"x": np.array([first], dtype.numpy), "y": np.array([second], dtype.numpy)}
    wanted = np.array([expected], dtype.numpy)
    (found,) = reference.run(graph, values).outputs.values()
    np.testing.assert_array_equal(found, wanted)
    compiled = ethoscade.compile(graph.source, accelerator="ethos-u55-256")
    assert compiled.cpu_operators == ()
    (found,) = compiled.simulate(values).outputs.values()
    np.testing.assert_array_equal(found, wanted)
    batch = Batch()
    batch.include(
        graph, graph.operators[0], dict(zip(graph.inputs, values.values(), strict=True)), {graph.outputs[0]: wanted}
    )
    assert differences_of_c(batch) == []


@pytest.mark.parametrize("seed", range(8))
def test_differences_next_to_nothing_are_litert_s(seed: int) -> None:
    """Of numbers that nearly cancel each other every half shows, in steps of the output as fine as there are."""
    needs_litert()
    rng = np.random.default_rng(seed)
    scale = float((rng.integers(1 << 22, 1 << 23) * 2 + 1) * 2.0 ** -(24 + seed % 3))
    graph = difference(DType.INT16, (*WIDE_TIES[:1], Quantisation((scale,), (0,)), *WIDE_TIES[2:]), (256, 256))
    second = np.arange(-32768, 32768).reshape(256, 256)
    values = {"x": np.rint(second * scale).astype(np.int16), "y": second.astype(np.int16)}
    expected = litert_values(graph, values)[graph.outputs[0]]
    (found,) = reference.run(graph, values).outputs.values()
    np.testing.assert_array_equal(found, expected)
    (found,) = ethoscade.compile(graph.source).simulate(values).outputs.values()
    np.testing.assert_array_equal(found, expected)


def test_all_differences_of_eight_bits_are_litert_s() -> None:
    needs_litert()
    graph = difference(DType.INT8, TIES, (256, 256))
    first, second = np.meshgrid(*[np.arange(-128, 128).astype(np.int8)] * 2)
    values = {"x": first, "y": second}
    expected = litert_values(graph, values)[graph.outputs[0]]
    (found,) = ethoscade.compile(graph.source).simulate(values).outputs.values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("number", "possible"), [(32767, True), (-32768, False)])
def test_a_product_of_int16_may_be_as_large_as_its_constant_lets_it(number: int, possible: bool) -> None:
    """A factor of more than 1 shifts 2^30, the square of the lowest value, beyond 32 bits."""
    maker = GraphMaker(DType.INT16, seed=3)
    shape, q = (1, 60, 60, 20), Quantisation((1.0,), (0,))
    constant = maker.constant(np.full((1,), number, np.int16), q, DType.INT16)
    maker.binary("MUL", maker.input(shape, q), constant, q=Quantisation((0.75,), (0,)))
    graph = maker.graph()
    why = support(graph, graph.operators[0], U55)
    assert (why is None) == possible and (why is None or "leave 32 bits" in why)
    check_whole(graph, U55)
