"""Floats between 8-bit values that look at one element become a table, equal to LiteRT for all 256 values."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import EIGHT_BIT, DType, Quantisation
from ethoscade.rewrites import fold_island, simplify
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value
from graphs import on_npu
from reference_support import litert_values, needs_litert

Chain = Callable[[ModelBuilder, Value], Value]


def of(kind: str, number: float | None = None, first: bool = False) -> Chain:
    # Calibration does not matter: every quantisation here is given.
    return lambda b, x: b.float_function(kind, x, lambda real: real, number, first)


def chain(*links: Chain) -> Chain:
    def linked(b: ModelBuilder, x: Value) -> Value:
        for link in links:
            x = link(b, x)
        return x

    return linked


CHAINS: dict[str, tuple[Chain, float]] = {
    "nothing": (lambda b, x: x, 0.02),
    "rsqrt": (of("RSQRT"), 0.1),
    "sqrt": (of("SQRT"), 0.02),
    "square": (of("SQUARE"), 0.1),
    "part": (of("DIV", 3.7), 0.004),
    "reciprocal": (chain(of("ADD", 0.4), of("DIV", 1.3, first=True)), 0.03),
    "power": (of("POW", 1.7), 0.05),
    "cube": (of("POW", 3.0), 0.3),
    "power_of_a_number": (of("POW", 1.9, first=True), 0.1),
    "distance": (of("SQUARED_DIFFERENCE", 0.8), 0.03),
    "floor": (chain(of("MUL", 20.0), of("FLOOR")), 0.5),
    "whole_parts": (of("FLOOR_DIV", 0.06), 0.3),
    "wave": (chain(of("SIN"), of("ADD", 0.1)), 0.01),
    "other_wave": (of("COS"), 0.01),
    "exp": (of("EXP"), 0.2),
    "tanh": (of("TANH"), 1 / 128),
    "logistic": (of("LOGISTIC"), 1 / 256),
    "log": (of("LOG"), 0.05),
    "relu6": (of("RELU6"), 0.03),
    "abs_less": (chain(of("ABS"), of("SUB", 1.25), of("NEG")), 0.03),
    "number_less": (chain(of("SUB", 1.0, first=True), of("MUL", -0.37)), 0.01),
    "between": (chain(of("MAXIMUM", 0.3), of("MINIMUM", 2.1, first=True), of("ADD", 0.01)), 0.01),
    "sloped_root": (chain(of("ADD", 1e-3), of("RSQRT"), of("MUL", 0.7), of("LOGISTIC")), 1 / 256),
}


def island(dtype: DType, made: Chain, scale: float, zero_point: int | None = None, given: int | None = None) -> bytes:
    lowest = dtype.limits[0]
    b = ModelBuilder(dtype=dtype)
    q = Quantisation((float(np.float32(0.013)),), (lowest if given is None else given,))
    x = b.dequantize(b.input((1, 4, 8, 8), quantisation=q, name="x"))
    b.quantize(made(b, x), Quantisation((float(np.float32(scale)),), (lowest if zero_point is None else zero_point,)))
    return b.build()


@pytest.mark.parametrize("dtype", EIGHT_BIT, ids=lambda d: d.value)
@pytest.mark.parametrize("name", CHAINS)
def test_all_results_are_those_of_litert(name: str, dtype: DType) -> None:
    needs_litert()
    made, scale = CHAINS[name]
    # A zero point beside 0 makes all devices store infinity alike.
    graph = read_tflite(island(dtype, made, scale, dtype.limits[0] + 1))
    compiled = ethoscade.compile(graph.source)
    assert compiled.cpu_operators == () and [op.kind for op in simplify(graph, on_npu).operators] == ["QUANTIZE"]
    inputs = {"x": np.arange(dtype.limits[0], dtype.limits[1] + 1).astype(dtype.numpy).reshape(1, 4, 8, 8)}
    (found,) = compiled.simulate(inputs).outputs.values()
    np.testing.assert_array_equal(found, litert_values(graph, inputs)[graph.outputs[0]])
    assert len(np.unique(found)) > 20
    assert compiled.verify().ok


STAY: dict[str, tuple[Chain, float, int, int]] = {
    # Of values below zero there is no root, and devices store differently what is no number.
    "no_number": (of("RSQRT"), 0.1, -128, -100),
    # Infinity is stored as the lowest or the highest value where the zero point is 0.
    "infinite": (of("RSQRT"), 0.1, 0, -128),
    # In units so fine that a last bit of a number near 1 shows.
    "last_bit": (chain(of("EXP"), of("SUB", 1.0)), 2.0**-24, -128, -128),
    "no_root": (of("POW", 0.5), 0.1, -128, -100),
    "unknown": (of("HARD_SWISH"), 0.01, -128, -128),
}


@pytest.mark.parametrize("name", STAY)
def test_where_results_are_a_matter_of_the_device_floats_stay(name: str) -> None:
    made, scale, zero_point, given = STAY[name]
    graph = read_tflite(island(DType.INT8, made, scale, zero_point, given))
    assert fold_island(graph, on_npu) is graph


def test_an_island_of_two_values_stays() -> None:
    b = ModelBuilder()
    x, y = (b.dequantize(b.input((1, 4), name=name)) for name in "xy")
    product = b._plain("MUL", [x.index, y.index], x.shape, DType.FLOAT32, lambda: b._real(x) * b._real(y), {})
    b.quantize(product)
    graph = read_tflite(b.build())
    assert fold_island(graph, on_npu) is graph


def moved(outputs: int) -> bytes:
    """Floats that are moved three times; of the first `outputs` moves the network makes the results as well."""
    b = ModelBuilder()
    x = b.dequantize(b.input((1, 4, 8, 8), quantisation=Quantisation((0.013,), (-128,)), name="x"))
    x = b.float_function("RSQRT", x, lambda real: real)
    moves = [
        lambda x: b.mirror_pad(x, [(0, 0), (1, 2), (1, 1), (0, 0)], symmetric=False),
        lambda x: b.resize_nearest(x, (14, 20)),
        lambda x: b.strided_slice(x, (0, 1, 2, 0), (1, 14, 19, 8), (1, 1, 1, 2)),
    ]
    between = []
    for move in moves:
        x = move(x)
        between.append(x)
    b.output(b.quantize(x, Quantisation((0.1,), (-127,))), *between[:outputs])
    return b.build()


def test_floats_are_quantised_ahead_of_what_moves_them() -> None:
    needs_litert()
    graph = read_tflite(moved(0))
    compiled = ethoscade.compile(graph.source)
    assert compiled.cpu_operators == () and compiled.verify().ok
    kinds = [op.kind for op in simplify(graph, on_npu).operators]
    assert kinds == ["QUANTIZE", "MIRROR_PAD", "RESIZE_NEAREST_NEIGHBOR", "STRIDED_SLICE"]
    inputs = {"x": np.arange(-128, 128).astype(np.int8).reshape(1, 4, 8, 8)}
    (found,) = compiled.simulate(inputs).outputs.values()
    np.testing.assert_array_equal(found, litert_values(graph, inputs)[graph.outputs[0]])


@pytest.mark.parametrize("outputs", [1, 3])
def test_moved_floats_that_the_network_makes_stay(outputs: int) -> None:
    graph = read_tflite(moved(outputs))
    assert fold_island(graph, on_npu) is graph


def test_floats_that_others_read_are_still_made() -> None:
    b = ModelBuilder()
    q = Quantisation((0.01,), (-128,))
    x = b.dequantize(b.input((1, 4), quantisation=q, name="x"))
    root = b.float_function("RSQRT", x, lambda real: real)
    b.output(b.quantize(root, Quantisation((0.1,), (-128,))), root)
    graph = simplify(read_tflite(b.build()), on_npu)
    assert sorted(op.kind for op in graph.operators) == ["DEQUANTIZE", "QUANTIZE", "RSQRT"]
    assert all(graph.read(op).dtype is DType.INT8 for op in graph.operators if op.kind == "QUANTIZE")
