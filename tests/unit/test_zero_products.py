"""Products with nothing, rows of constants, FILL and QUANTIZE of constants are constants: as LiteRT computes them."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType, Graph, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.rewrites import fold_constant_rows, fold_constants, fold_zero_product
from ethoscade.testing import ModelBuilder
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file
from ethoscade.testing.recorder import Value
from graphs import on_npu
from reference_support import litert_values, needs_litert

TYPES = (DType.INT8, DType.UINT8, DType.INT16)
SHAPE = (1, 4, 6, 3)
LOST = 2.0**-17
"""A scale: the product of two of them, over 1, is below 2^-32."""


def zero_point(dtype: DType) -> int:
    return {DType.INT8: -7, DType.UINT8: 200, DType.INT16: 0}[dtype]


def nothing(b: ModelBuilder, dtype: DType) -> Value:
    return b.constant(np.zeros(SHAPE[-1:]), dtype=dtype, quantisation=Quantisation((0.5,), (zero_point(dtype),)))


def product(dtype: DType, activation: Activation, lost: bool = False, swapped: bool = False) -> Graph:
    """A product and a sum with it."""
    b = ModelBuilder(dtype=dtype)
    scale = LOST if lost else 0.25
    x, z = (b.input(SHAPE, quantisation=Quantisation((scale,), (zero_point(dtype),)), name=name) for name in "xz")
    pair = (x, z) if lost else (nothing(b, dtype), x) if swapped else (x, nothing(b, dtype))
    # Zero points at an end, from which an activation moves zero nowhere, and inside.
    output = Quantisation((1.0,), (zero_point(dtype),))
    b.add(b.binary("MUL", *pair, activation=activation, output=output, name="product"), z, output=output, name="sum")
    return read_tflite(b.build())


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("activation", list(Activation), ids=lambda one: one.value)
@pytest.mark.parametrize("how", ["first", "second", "lost"])
def test_a_product_with_nothing_is_litert_s_zero(dtype: DType, activation: Activation, how: str) -> None:
    needs_litert()
    graph = product(dtype, activation, lost=how == "lost", swapped=how == "first")
    folded = fold_zero_product(graph, on_npu)
    assert [op.kind for op in folded.operators] == ["ADD"]
    made = next(t for t in folded.tensors if t.name == "product")
    inputs = random_inputs(graph, 3)
    expected = litert_values(graph, inputs)
    np.testing.assert_array_equal(made.data, expected[graph.operators[0].outputs[0]])
    compiled = ethoscade.compile(graph.source)
    assert compiled.cpu_operators == ()
    (found,) = compiled.simulate(inputs).outputs.values()
    np.testing.assert_array_equal(found, expected[graph.outputs[0]])


def test_a_factor_of_2_to_the_minus_32_is_no_zero() -> None:
    b = ModelBuilder(dtype=DType.INT16)
    x, y = (b.input((1, 8), quantisation=Quantisation((2.0**-16,), (0,)), name=name) for name in "xy")
    b.add(b.binary("MUL", x, y, output=Quantisation((1.0,), (0,))), x)
    graph = read_tflite(b.build())
    assert fold_zero_product(graph, on_npu) is graph


def test_a_constant_that_is_not_all_nothing_is_multiplied() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE, name="x")
    b.add(b.binary("MUL", x, b.constant(np.array([0.0, 0.0, 1.0]))), x)
    graph = read_tflite(b.build())
    assert fold_zero_product(graph, on_npu) is graph


def test_what_the_network_returns_is_computed() -> None:
    b = ModelBuilder()
    b.binary("MUL", b.input(SHAPE, name="x"), nothing(b, DType.INT8))
    graph = read_tflite(b.build())
    assert fold_zero_product(graph, on_npu) is graph


def test_long_rows_of_zeros_are_not_stored_for_the_cpu() -> None:
    b = ModelBuilder()
    x = b.input((1, 16, 16, 3), name="x")
    b.softmax(b.binary("MUL", x, nothing(b, DType.INT8)))
    graph = read_tflite(b.build())
    assert fold_zero_product(graph, on_npu) is graph


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
def test_cells_that_begin_at_zero_are_one_call(dtype: DType) -> None:
    """As unrolled LSTMs begin: the forget gate times a cell state of zeros, plus the input gate times the candidate."""
    b = ModelBuilder(dtype=dtype)
    x = b.input((1, 24), name="x")
    gates = [b.unary("LOGISTIC", b.fully_connected(x, 24)) for _ in range(3)]
    candidate = b.unary("TANH", b.fully_connected(x, 24))
    state = b.constant(
        np.zeros((1, 24)), dtype=dtype, quantisation=Quantisation((1e-38,), (0 if dtype is DType.INT16 else 3,))
    )
    tiny = Quantisation((3.6e-43,), (0 if dtype is DType.INT16 else 3,))
    kept = b.binary("MUL", gates[0], state, output=tiny)
    cell = b.add(kept, b.binary("MUL", gates[1], candidate))
    b.binary("MUL", gates[2], b.unary("TANH", cell))
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == () and len(compiled.artifact.calls) == 1
    assert compiled.verify().ok


def filled(dtype: DType, shape: tuple[int, ...], dims: list[int]) -> bytes:
    """x plus what a FILL makes."""
    q = Quantisation((0.5,), (0,))
    tensors = [
        TensorRecord("x", shape, dtype, q),
        TensorRecord("dims", (len(dims),), DType.INT32, None, np.array(dims, np.int32)),
        TensorRecord("value", (), dtype, q, np.array(-5, dtype.numpy)),
        TensorRecord("filled", shape, dtype, q),
        TensorRecord("y", shape, dtype, q),
    ]
    operators = [
        OperatorRecord("FILL", 3, (1, 2), (3,), None, {}),
        OperatorRecord("ADD", 2, (0, 3), (4,), "AddOptions", {}),
    ]
    return write_file("filled", tensors, operators, (0,), (4,))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=lambda dtype: dtype.value)
def test_a_fill_of_constants_is_a_constant(dtype: DType) -> None:
    needs_litert()
    graph = read_tflite(filled(dtype, (1, 40, 40, 2), [1, 40, 40, 2]))
    inputs = random_inputs(graph, 0)
    expected = litert_values(graph, inputs)
    folded = fold_constants(graph)
    assert [op.kind for op in folded.operators] == ["ADD"]
    np.testing.assert_array_equal(folded.tensors[3].data, expected[3])
    compiled = ethoscade.compile(graph.source)
    assert compiled.cpu_operators == ()
    (found,) = compiled.simulate(inputs).outputs.values()
    np.testing.assert_array_equal(found, expected[4])


def test_a_fill_that_contradicts_its_output_stays() -> None:
    graph = read_tflite(filled(DType.INT8, (1, 4, 4, 2), [1, 4, 4, 3]))
    assert fold_constants(graph) is graph


@pytest.mark.parametrize("given", [DType.FLOAT32, *TYPES], ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("made", TYPES, ids=lambda dtype: dtype.value)
def test_a_quantised_constant_is_litert_s(given: DType, made: DType) -> None:
    """All values of 8 bits, others at random; scales with exact halves, and others."""
    needs_litert()
    pairs = {(DType.INT16, DType.UINT8), (DType.UINT8, DType.INT16)}
    rng = np.random.default_rng(1)
    for scale in (1.0, 0.37, 0.125):
        if given is DType.FLOAT32:
            data, q = np.arange(-300, 300, dtype=np.float32) / 2, None
        else:
            low, high = given.limits
            data = np.arange(low, high + 1) if given is not DType.INT16 else rng.integers(low, high + 1, 5000)
            q = Quantisation((0.5,), (zero_point(given),))
        data = data.astype(given.numpy).reshape(1, -1)
        output = Quantisation((float(np.float32(scale)),), (zero_point(made),))
        tensors = [
            TensorRecord("x", data.shape, made, output),
            TensorRecord("c", data.shape, given, q, data),
            TensorRecord("q", data.shape, made, output),
            TensorRecord("y", data.shape, made, output),
        ]
        operators = [
            OperatorRecord("QUANTIZE", 2, (1,), (2,), None, {}),
            OperatorRecord("ADD", 2, (0, 2), (3,), "AddOptions", {}),
        ]
        graph = read_tflite(write_file("constant", tensors, operators, (0,), (3,)))
        folded = fold_constants(graph)
        if (given, made) in pairs:
            assert folded is graph, "LiteRT has no kernel of it"
            continue
        assert [op.kind for op in folded.operators] == ["ADD"]
        inputs = random_inputs(graph, 0)
        expected = litert_values(graph, inputs)[2]
        np.testing.assert_array_equal(folded.tensors[2].data, expected)
        np.testing.assert_array_equal(reference.run(graph, inputs).values[2], expected)


def test_a_network_returns_what_it_quantises() -> None:
    b = ModelBuilder()
    x = b.input((1, 8), name="x")
    b.output(b.quantize(b.constant(np.ones(8))), b.relu(x))
    graph = read_tflite(b.build())
    assert fold_constants(graph) is graph


def first_steps(dtype: DType) -> bytes:
    """Two steps of an LSTM from a state of zeros, written as single operators."""
    b = ModelBuilder(dtype=dtype, seed=1)
    one = Quantisation((2.0**-15 if dtype is DType.INT16 else 2.0**-7,), (0,))
    hidden, cell = (b.constant(np.zeros((1, 8)), quantisation=one) for _ in range(2))
    for step in range(2):
        x = b.input((1, 16), name=f"x{step}")
        sums = [b.add(b.fully_connected(x, 8), b.fully_connected(hidden, 8)) for _ in range(4)]
        let_in, keep, let_out = (b.unary("LOGISTIC", total) for total in sums[:3])
        cell = b.add(b.binary("MUL", keep, cell), b.binary("MUL", let_in, b.unary("TANH", sums[3])))
        hidden = b.binary("MUL", let_out, b.unary("TANH", cell))
    return b.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=lambda dtype: dtype.value)
def test_an_lstm_from_a_state_of_zeros_is_one_call(dtype: DType) -> None:
    needs_litert()
    compiled = ethoscade.compile(first_steps(dtype))
    assert compiled.cpu_operators == () and len(compiled.artifact.calls) == 1
    assert compiled.verify(seeds=2).ok


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("narrow", [False, True], ids=["", "narrow"])
def test_rows_of_constants_are_what_the_reference_makes_of_them(dtype: DType, narrow: bool) -> None:
    """Of seeded constants, so that sums round in all ways."""
    for seed in range(8):
        b = ModelBuilder(dtype=dtype, seed=seed, narrow_biases=narrow, per_channel=bool(seed % 2))
        values = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, 12))
        rows = b.fully_connected(b.constant(values), 7, activation=list(Activation)[seed % 4], name="rows")
        b.add(rows, b.input((3, 7)), name="sum")
        graph = read_tflite(b.build())
        op = graph.operators[0]
        assert op.kind == "FULLY_CONNECTED"
        folded = fold_constant_rows(graph)
        assert [one.kind for one in folded.operators] == ["ADD"]
        inputs = [None if t is None else graph.tensors[t].constant() for t in op.inputs]
        expected = reference.MEANINGS[op.kind].evaluate(graph, op, inputs)
        np.testing.assert_array_equal(folded.tensors[op.outputs[0]].constant(), expected)


def test_rows_of_a_network_s_output_and_of_inputs_stay() -> None:
    b = ModelBuilder(seed=1)
    b.output(b.fully_connected(b.constant(np.ones((1, 4))), 3))
    b.output(b.fully_connected(b.input((1, 4)), 3))
    graph = read_tflite(b.build())
    assert fold_constant_rows(graph) is graph


def test_a_number_without_dimensions_is_quantised() -> None:
    b = ModelBuilder(seed=1)
    one = b.quantize(b.constant(np.array(0.5), quantisation=Quantisation((0.25,), (0,))), Quantisation((0.5,), (3,)))
    b.add(b.input((1, 4)), one)
    folded = fold_constants(read_tflite(b.build()))
    assert [op.kind for op in folded.operators] == ["ADD"]
    assert any(t.data is not None and t.shape == () and t.data == 4 for t in folded.tensors)
