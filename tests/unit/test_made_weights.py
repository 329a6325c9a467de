"""FULLY_CONNECTED by weights that are made while the network runs: a product of matrices on the NPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, BatchMatMulAttrs, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.rewrites import multiply_matrices
from ethoscade.testing import ModelBuilder
from graphs import on_npu
from test_reference_micro import micro_output

ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6)


def weighed(
    rows: tuple[int, ...] = (5,), depth: int = 9, units: int = 7, seed: int = 0, use_bias: bool = False
) -> bytes:
    """Rows by weights, both network inputs, of drawn quantisations; with a bias and one activation or another."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder()
    scales = [float(np.float32(scale)) for scale in rng.uniform(0.005, 0.05, 2)]
    x = b.input((*rows, depth), quantisation=Quantisation((scales[0],), (int(rng.integers(-128, 128)),)))
    b.weighed_by(
        x,
        b.input((units, depth), quantisation=Quantisation((scales[1],), (0,))),
        use_bias=use_bias,
        activation=ACTIVATIONS[seed % 3] if use_bias else Activation.NONE,
        # A zero point in the middle: values below zero are there to be clamped, and such beyond six.
        output=Quantisation((float(np.float32(0.07)),), (3,)) if use_bias else None,
    )
    return b.build()


def test_it_becomes_a_product_by_the_transposed_weights() -> None:
    graph = read_tflite(weighed())
    (operator,) = multiply_matrices(graph, on_npu).operators
    assert (operator.kind, operator.attrs) == ("BATCH_MATMUL", BatchMatMulAttrs(adj_y=True))
    assert (operator.inputs, operator.outputs) == (graph.operators[0].inputs, graph.operators[0].outputs)
    assert multiply_matrices(graph, lambda _graph, _op: False) is graph


def constant_weights(b: ModelBuilder) -> None:
    b.fully_connected(b.input((5, 9)), 7, use_bias=False)


def one_row_of_several(b: ModelBuilder) -> None:
    b.weighed_by(b.input((9,)), b.input((7, 9)))


@pytest.mark.parametrize("make", [constant_weights, one_row_of_several])
def test_others_stay_what_they_are(make: Callable[[ModelBuilder], None]) -> None:
    builder = ModelBuilder()
    make(builder)
    graph = read_tflite(builder.build())
    assert multiply_matrices(graph, on_npu) is graph


def made_bias(b: ModelBuilder) -> None:
    x, weights = b.input((5, 9)), b.input((7, 9))
    b.weighed_by(x, weights, use_bias=True)


def test_a_bias_that_is_made_as_well_stays_on_the_cpu() -> None:
    builder = ModelBuilder()
    made_bias(builder)
    graph = read_tflite(builder.build())
    (bias,) = graph.operators[0].inputs[2:]
    assert bias is not None
    made = replace(graph.tensors[bias], data=None)
    unknown = replace(graph, tensors=(*graph.tensors[:bias], made, *graph.tensors[bias + 1 :]))
    assert multiply_matrices(unknown, on_npu) is unknown
    assert multiply_matrices(graph, on_npu) is not graph


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_meaning_is_micro_s(seed: int, use_bias: bool) -> None:
    model = weighed((11,), 30, 8, seed, use_bias)
    graph = read_tflite(model)
    inputs = random_inputs(graph, seed)
    (found,) = reference.run(graph, inputs).outputs.values()
    np.testing.assert_array_equal(found, micro_output(model, inputs))


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize(("rows", "depth", "units"), [((5,), 9, 7), ((2, 12), 16, 30), ((40,), 8, 3), ((1,), 9, 7)])
def test_it_runs_on_the_npu(rows: tuple[int, ...], depth: int, units: int, use_bias: bool) -> None:
    for seed, accelerator in enumerate(("ethos-u55-64", "ethos-u65-256", "ethos-u55-128")):
        compiled = ethoscade.compile(weighed(rows, depth, units, seed, use_bias), accelerator=accelerator)
        assert not compiled.kinds_on_cpu
        found = compiled.verify(seeds=2)
        assert found.ok and not found.hazards
