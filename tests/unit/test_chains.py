"""Operators that together look at one 8-bit element become a table, equal to LiteRT for all 256 values."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import EIGHT_BIT, Activation, DType, Quantisation, TableAttrs
from ethoscade.lowering import elements
from ethoscade.lowering.npu import OperationKind
from ethoscade.rewrites import fold_chain, simplify
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value
from graphs import on_npu
from reference_support import litert_values, needs_litert

Chain = Callable[[ModelBuilder, Value], Value]


def number(b: ModelBuilder, real: float, shape: tuple[int, ...] = ()) -> Value:
    return b.constant(np.full(shape, real))


def silu(b: ModelBuilder, x: Value) -> Value:
    return b.binary("MUL", x, b.unary("LOGISTIC", x))


def hard_swish(b: ModelBuilder, x: Value) -> Value:
    gate = b.add(x, number(b, 0.3, x.shape[-1:]), activation=Activation.RELU6)
    return b.binary("MUL", b.binary("MUL", x, gate), number(b, 1 / 6))


def below_zero(b: ModelBuilder, x: Value) -> Value:
    return b.binary("SUB", x, b.unary("ABS", x))


def between(b: ModelBuilder, x: Value) -> Value:
    low = b.constant(np.full((), -0.3), quantisation=x.quantisation)
    high = b.constant(np.full((1, 1), 0.4), quantisation=x.quantisation)
    return b.add(b.binary("MINIMUM", high, b.binary("MAXIMUM", x, low)), number(b, 0.5))


def less(b: ModelBuilder, x: Value) -> Value:
    return b.binary("SUB", number(b, 0.8), b.binary("MUL", x, number(b, -0.7), activation=Activation.RELU_N1_TO_1))


def square_of_root(b: ModelBuilder, x: Value) -> Value:
    y = b.relu(b.quantize(b.unary("TANH", x)), activation=Activation.RELU6)
    return b.binary("MUL", y, y)


CHAINS: dict[str, Chain] = {
    "silu": silu,
    "hard_swish": hard_swish,
    "below_zero": below_zero,
    "between": between,
    "less": less,
    "square_of_root": square_of_root,
    "two": lambda b, x: b.leaky_relu(silu(b, hard_swish(b, x))),
}


def network(chain: Chain, dtype: DType) -> bytes:
    b = ModelBuilder(dtype=dtype, seed=3)
    q = Quantisation((float(np.float32(0.013)),), (sum(dtype.limits) // 2 - 20,))
    b.output(chain(b, b.input((1, 4, 8, 8), quantisation=q, name="x")))
    return b.build()


def everything(dtype: DType) -> dict[str, np.ndarray]:
    return {"x": np.arange(dtype.limits[0], dtype.limits[1] + 1).astype(dtype.numpy).reshape(1, 4, 8, 8)}


SIGNED = ("below_zero", "square_of_root")
"""Chains with an operator of which LiteRT has no kernel of uint8."""


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in CHAINS for dtype in EIGHT_BIT[: 1 if name in SIGNED else 2]]
)
def test_all_results_are_those_of_litert(name: str, dtype: DType) -> None:
    needs_litert()
    graph = read_tflite(network(CHAINS[name], dtype))
    assert [op.kind for op in simplify(graph, on_npu, elements).operators] == ["QUANTIZE"]
    compiled = ethoscade.compile(graph.source)
    (found,) = compiled.simulate(everything(dtype)).outputs.values()
    np.testing.assert_array_equal(found, litert_values(graph, everything(dtype))[graph.outputs[0]])
    assert len(np.unique(found)) > 20
    assert compiled.verify().ok


def test_a_table_becomes_part_of_what_makes_its_input() -> None:
    b = ModelBuilder(seed=1)
    b.output(b.leaky_relu(silu(b, b.conv2d(b.input((1, 9, 8, 8)), 8, 3))))
    compiled = ethoscade.compile(b.build())
    assert [operation.kind for operation in compiled.npu.operations] == [OperationKind.CONVOLUTION]
    assert compiled.verify().ok


def test_numbers_are_folded_only_where_a_table_takes_no_longer() -> None:
    """A copy in the convolution's place costs nothing; beside other readers two fast operators stay."""

    def kinds(readers: int) -> list[str]:
        b = ModelBuilder(seed=1)
        y = b.conv2d(b.input((1, 9, 8, 8)), 8, 3)
        b.output(b.unary("ABS", b.binary("MUL", y, number(b, 0.4))), *[y] * (readers - 1))
        return [op.kind for op in simplify(read_tflite(b.build()), on_npu, elements).operators]

    assert kinds(1) == ["CONV_2D", "QUANTIZE"]
    assert kinds(2) == ["CONV_2D", "MUL", "ABS"]


def two_tensors(b: ModelBuilder, x: Value) -> Value:
    return b.binary("MUL", x, b.unary("LOGISTIC", b.input(x.shape, name="y")))


def of_channels(b: ModelBuilder, x: Value) -> Value:
    return b.leaky_relu(b.binary("MUL", x, b.constant(np.linspace(0.1, 0.9, 8))))


def repeated(b: ModelBuilder, x: Value) -> Value:
    y = b.input((1, 1, 1, 8), name="y")
    return b.add(x, b.binary("MUL", y, b.unary("LOGISTIC", y)))


def of_several_elements(b: ModelBuilder, x: Value) -> Value:
    return b.binary("MUL", x, b.softmax(x))


def given_back(b: ModelBuilder, x: Value) -> Value:
    gate = b.unary("LOGISTIC", x)
    b.output(gate)
    return b.binary("MUL", x, gate)


def read_elsewhere(b: ModelBuilder, x: Value) -> Value:
    gate = b.unary("LOGISTIC", x)
    b.output(b.max_pool(gate))
    return b.binary("MUL", x, gate)


def of_another_type(b: ModelBuilder, x: Value) -> Value:
    y = b.quantize(x, dtype=DType.UINT8)
    return b.binary("MUL", y, b.unary("LOGISTIC", y))


def of_sixteen_bits(b: ModelBuilder, x: Value) -> Value:
    return silu(b, b.quantize(x, dtype=DType.INT16))


@pytest.mark.parametrize(
    "chain", [two_tensors, of_channels, of_several_elements, given_back, read_elsewhere, of_sixteen_bits]
)
def test_what_is_no_function_of_one_element_stays(chain: Chain) -> None:
    graph = read_tflite(network(chain, DType.INT8))
    assert fold_chain(graph, on_npu, elements) is graph


@pytest.mark.parametrize("chain", [repeated, of_another_type])
def test_only_the_part_of_one_shape_and_type_is_a_table(chain: Chain) -> None:
    graph = read_tflite(network(chain, DType.INT8))
    changed = fold_chain(graph, on_npu, elements)
    assert len(changed.operators) == len(graph.operators) - 1
    assert [op.kind for op in changed.operators if isinstance(op.attrs, TableAttrs)] == ["QUANTIZE"]
    assert ethoscade.compile(graph.source).verify().ok


def test_operators_on_the_cpu_stay() -> None:
    graph = read_tflite(network(silu, DType.INT8))
    for kind in ("LOGISTIC", "MUL"):
        assert fold_chain(graph, lambda g, op, kind=kind: op.kind != kind, elements) is graph


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256"])
def test_a_network_of_chains_is_exact(accelerator: str) -> None:
    b = ModelBuilder(seed=5)
    x = silu(b, b.conv2d(b.input((1, 14, 12, 4)), 12, 3))
    x = b.add(x, hard_swish(b, b.depthwise(x, 3)))
    x = b.fully_connected(b.mean(below_zero(b, less(b, x)), keep_dims=True), 6)
    b.output(hard_swish(b, silu(b, x)))
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(b.build(), accelerator=accelerator, optimise=optimise)
        assert compiled.cpu_operators == () and compiled.verify(seeds=2).ok
