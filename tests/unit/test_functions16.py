"""Functions of one int16 element, over all 65536 inputs: the judge against LiteRT, the NPU against the judge."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering import functions, functions16, support
from ethoscade.lowering.npu import OperationKind
from ethoscade.pipeline import compiler
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import ModelBuilder
from ethoscade.testing.real_operators import UNARY
from npu import execute, read
from promised_cycles import broken_promises
from reference_support import litert_values, needs_litert
from whole_tensor import compile_whole

KINDS = (*("ABS", "EXP", "GELU", "LEAKY_RELU", "LOG", "LOGISTIC", "NEG", "QUANTIZE", "RELU", "RELU6", "RSQRT", "TANH"),)
SEEDS = range(5)
WIDE = DType.INT16


def one_function(kind: str, seed: int) -> Graph:
    """A function of all values; scales of powers of two, which kernels treat apart, among others."""
    rng = np.random.default_rng(seed)
    scales = [float(np.float32(2.0 ** rng.uniform(-16, -4))) for _ in range(2)]
    given, made = Quantisation((2.0**-12 if seed == 1 else scales[0],), (0,)), Quantisation((scales[1],), (0,))
    b = ModelBuilder(dtype=WIDE)
    one = UNARY.get(kind)
    x = b.input((256, 256), quantisation=one.takes(given, WIDE) if one and one.takes and kind == "EXP" else given)
    if kind == "GELU":
        b.gelu(x, approximate=seed % 2 == 0, output=made)
    elif kind == "LEAKY_RELU":
        b.leaky_relu(x, -0.5, output=given) if seed == 1 else b.leaky_relu(x, float(rng.normal()), output=made)
    elif kind == "QUANTIZE":
        narrow = seed % 2 == 0
        b.quantize(x, Quantisation((scales[1] * 256,), (int(rng.integers(-128, 128)),)) if narrow else made,
                   dtype=DType.INT8 if narrow else WIDE)  # fmt: skip
    else:
        b.unary(kind, x, output=one.makes(WIDE) or made)
    return read_tflite(b.build())


def every_value(graph: Graph) -> np.ndarray:
    """All of them; of the root alone those that are not negative."""
    values = np.arange(-32768, 32768)
    if graph.operators[0].kind == "RSQRT":
        values = np.clip(np.abs(values), 0, 32767)
    return values.astype(np.int16).reshape(256, 256)


@pytest.mark.parametrize("kind", KINDS)
def test_all_inputs_on_the_npu_and_in_litert(kind: str) -> None:
    needs_litert()
    ran = 0
    for seed, name in zip(SEEDS, ACCELERATORS, strict=True):
        graph, accelerator = one_function(kind, seed), ACCELERATORS[name]
        values = {graph.tensors[0].name: every_value(graph)}
        (expected,) = reference.run(graph, values).outputs.values()
        np.testing.assert_array_equal(expected, litert_values(graph, values)[graph.outputs[0]], err_msg=f"seed {seed}")
        if support(graph, graph.operators[0], accelerator) is not None:
            continue
        whole = compile_whole(graph, accelerator)
        given = {whole.offsets[graph.inputs[0]]: every_value(graph)}
        machine = execute(whole.payload, whole.constants, whole.arena_bytes, accelerator, given)
        found = read(machine, graph, graph.outputs[0], whole.offsets[graph.outputs[0]])
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
        ran += 1
    assert ran >= 3


def chain(b: ModelBuilder) -> None:
    """Between convolutions of int8, which need all of their rows."""
    x = b.quantize(b.conv2d(b.input((1, 20, 12, 8)), 8, 3), dtype=WIDE)
    x = b.gelu(b.leaky_relu(b.unary("TANH", x), 0.3))
    x = b.unary("EXP", b.unary("LOGISTIC", x))
    b.conv2d(b.quantize(b.unary("ABS", x), dtype=DType.INT8), 4, 3)


@pytest.mark.parametrize("accelerator", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-256"])
def test_a_chain_cascades(accelerator: str) -> None:
    b = ModelBuilder()
    chain(b)
    graph = read_tflite(b.build())
    compiled = ethoscade.compile(graph.source, accelerator=accelerator, optimise="size")
    assert not compiled.cpu_operators
    assert any(len(group.operators) > 5 for group in compiled.explain().groups if group.cascade)
    inputs = random_inputs(graph, 0)
    (found,) = compiled.simulate(inputs).outputs.values()
    (expected,) = reference.run(graph, inputs).outputs.values()
    np.testing.assert_array_equal(found, expected)
    network = compiler.prepare(graph, load_target(accelerator))
    assert not list(broken_promises(network, compiler.search(network), 0))


def test_equal_scales_need_no_less() -> None:
    """The sum of a part that is positive and one that is negative, whatever the slope."""
    b = ModelBuilder(dtype=WIDE)
    x = b.input((4, 4))
    b.leaky_relu(x, 0.1, output=x.quantisation)
    network = compiler.prepare(read_tflite(b.build()), load_target("ethos-u55-256"))
    assert [o.kind for o in network.npu.operations] == [OperationKind.MUL, OperationKind.MUL, OperationKind.ADD]


@pytest.mark.parametrize(
    ("kind", "scales", "words"),
    [
        ("TANH", (6.0, 1 / 32768), "its input has scale 6"),
        ("TANH", (0.001, 0.001), "kernels make it with 1/32768"),
        ("LOG", (0.05, 2.0**-13), "further apart than 16 bits"),
        ("EXP", (0.01, 0.01), "range of float32"),
    ],
)
def test_what_the_npu_cannot_do_is_refused_by_name(kind: str, scales: tuple[float, float], words: str) -> None:
    b = ModelBuilder(dtype=WIDE)
    given, made = (Quantisation((scale,), (0,)) for scale in scales)
    b.unary(kind, b.input((4, 4), quantisation=given), output=made)
    graph = read_tflite(b.build())
    reason = support(graph, graph.operators[0], ACCELERATORS["ethos-u55-256"])
    assert reason is not None and words in reason


def test_a_table_holds_bases_and_slopes() -> None:
    graph = one_function("GELU", 0)
    op = graph.operators[0]
    pairs = np.frombuffer(functions16.table(op, graph.read(op), graph.made(op)).data, "<i2").reshape(512, 2)
    assert (pairs[:-1].sum(axis=1) == pairs[1:, 0]).all()
    assert functions.real_function(op, graph.made(op)) is not None
