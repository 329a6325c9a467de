"""Functions of one element: the compiler's tables against the judge's arithmetic and LiteRT's, over all inputs."""

from __future__ import annotations

import numpy as np
import pytest
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Quantisation
from ethoscade.judge import litert, reference
from ethoscade.judge.reference.functions import FUNCTION_MEANINGS
from ethoscade.lowering import functions, support
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file
from ethoscade.testing.real_operators import UNARY
from reference_support import drawn_quantisation, litert_values, needs_litert
from test_reference_micro import micro_output

KINDS = sorted(functions.FUNCTIONS)
SEEDS = range(24)


def one_function(kind: str, seed: int) -> Graph:
    """A function of all values of a type, with scales that may lie far apart."""
    rng = np.random.default_rng(seed)
    one = UNARY.get(kind)
    dtype = DType.UINT8 if (one is None or DType.UINT8 in one.types) and rng.random() < 0.5 else DType.INT8
    b = ModelBuilder(dtype=dtype)
    given, output = (drawn_quantisation(rng, dtype) for _ in range(2))
    x = b.input((1, 256), quantisation=given if one is None or one.takes is None else one.takes(given, dtype))
    if kind == "GELU":
        b.gelu(x, approximate=bool(rng.random() < 0.5), output=output)
    elif kind == "LEAKY_RELU":
        # Every third one has halves of steps among its results.
        dyadic = seed % 3 == 0
        alpha = float(rng.choice((-2.5, -0.5, -0.25, 0.75))) if dyadic else float(rng.normal())
        b.leaky_relu(x, alpha, output=given if dyadic else output)
    else:
        b.unary(kind, x, output=UNARY[kind].makes(dtype) or output)
    return read_tflite(b.build())


def every_value(graph: Graph) -> dict[str, np.ndarray]:
    low, high = graph.tensors[0].dtype.limits
    return {graph.tensors[0].name: np.arange(low, high + 1).astype(graph.tensors[0].dtype.numpy).reshape(1, 256)}


def tabulated(graph: Graph) -> np.ndarray | None:
    """The compiler's results, None where it says that there are none."""
    op = graph.operators[0]
    try:
        return np.array([functions.results(op, graph.read(op), graph.made(op))])
    except functions.NoResult:
        return None


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_what_the_judge_computes(kind: str) -> None:
    defined = 0
    for seed in SEEDS:
        graph = one_function(kind, seed)
        found = tabulated(graph)
        try:
            (expected,) = reference.run(graph, every_value(graph)).outputs.values()
        except UnsupportedOperatorError:
            assert found is None, f"seed {seed}"
            continue
        if found is not None:
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
            defined += 1
    assert defined > len(SEEDS) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_what_litert_or_micro_computes(kind: str) -> None:
    needs_litert()
    for seed in SEEDS:
        graph = one_function(kind, seed)
        found = tabulated(graph)
        if found is not None:
            if kind == "ELU":
                expected = micro_output(graph.source, every_value(graph))
            else:
                expected = litert_values(graph, every_value(graph))[graph.outputs[0]]
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")


def test_every_function_has_a_meaning_of_its_own() -> None:
    assert set(functions.FUNCTIONS) == {*FUNCTION_MEANINGS, "RELU", "RELU6", "RELU_N1_TO_1"}


@pytest.mark.parametrize("scale", [2.0**-15, 0.0013, 0.37])
def test_roots_of_sixteen_bits_are_litert_s(scale: float) -> None:
    """Of all values that are none below zero; results are not interpolated, so that the NPU has no table of them."""
    needs_litert()
    b = ModelBuilder(dtype=DType.INT16)
    x = b.input((1, 1 << 15), quantisation=Quantisation((float(np.float32(scale)),), (0,)))
    b.unary("SQRT", x, output=Quantisation((float(np.float32(0.008 * scale**0.5)),), (0,)))
    graph = read_tflite(b.build())
    inputs = {graph.tensors[graph.inputs[0]].name: np.arange(1 << 15, dtype=np.int16).reshape(1, -1)}
    expected = litert_values(graph, inputs)[graph.outputs[0]]
    (found,) = reference.run(graph, inputs).outputs.values()
    np.testing.assert_array_equal(found, expected)
    reason = support(graph, graph.operators[0], ACCELERATORS["ethos-u55-128"])
    assert reason is not None and "is int16; int8 are possible" in reason


@pytest.mark.parametrize("interpreter", [litert.LITERT, litert.MICRO], ids=lambda one: one.word)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda dtype: dtype.value)
def test_no_runtime_has_powers_of_quantised_numbers(dtype: DType, interpreter: litert.Interpreter) -> None:
    if not litert.is_installed(interpreter):
        pytest.skip(f"there is no {interpreter.name}")
    q = Quantisation((0.1,), (0,))
    tensors = [TensorRecord("x", (4,), dtype, q), TensorRecord("e", (1,), dtype, q, np.array([20], dtype.numpy))]
    operator = OperatorRecord("POW", 1, (0, 1), (2,), None, {})
    model = write_file("power", [*tensors, TensorRecord("y", (4,), dtype, q)], [operator], (0,), (2,))
    with litert.Session(model, "power", interpreter) as session, pytest.raises(litert.LitertRefusal):
        session.run([0], [0], [2], [{0: np.ones(4, dtype.numpy)}])


@pytest.mark.parametrize("kind", ["RSQRT", "SQRT"])
def test_a_root_of_a_negative_number_has_no_result(kind: str) -> None:
    b = ModelBuilder()
    b.unary(kind, b.input((1, 256)))
    graph = read_tflite(b.build())
    with pytest.raises(UnsupportedOperatorError, match="negative"):
        reference.run(graph, every_value(graph))
