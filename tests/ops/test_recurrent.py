"""UNIDIRECTIONAL_SEQUENCE_LSTM in networks: runs in a row at all budgets, against Micro; what stays on the CPU."""

from __future__ import annotations

from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from end_to_end import network_of
from ethoscade.codegen import tflite
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, LstmInputs, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import compare
from ethoscade.lowering import support
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.run.execution import run_artifact_steps, run_tflite_steps
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from graphs import GraphMaker
from in_a_row import check_at_every_budget, in_micro, steps_of


def network(dtype: DType, time_major: bool = False, clip: float = 0.0) -> bytes:
    """Two LSTMs, of which the second reads all steps of the first, and a dense layer of what it made."""
    b = ModelBuilder(dtype=dtype, seed=2)
    x = b.input((2, 1, 12) if time_major else (1, 2, 12), name="x")
    x = b.lstm(x, 16, time_major=time_major, cell_clip=clip, gain=2.0)
    x = b.lstm(x, 7, time_major=time_major, cell_scale=2.0**-13)
    b.fully_connected(b.reshape(x, (1, 14)), 5, name="y")
    return b.build()


@pytest.mark.parametrize(
    ("dtype", "time_major", "clip", "accelerator"),
    [
        (DType.INT8, False, 0.4, "ethos-u55-128"),
        (DType.INT8, True, 10.0, "ethos-u65-256"),
        (DType.INT16, False, 0.0, "ethos-u55-32"),
    ],
)
def test_runs_in_a_row_at_every_budget(dtype: DType, time_major: bool, clip: float, accelerator: str) -> None:
    check_at_every_budget(network(dtype, time_major, clip), accelerator)


@pytest.mark.parametrize(("dtype", "time_major"), [(DType.INT8, False), (DType.INT8, True), (DType.INT16, False)])
def test_runs_in_a_row_equal_micro(dtype: DType, time_major: bool) -> None:
    """The reference's and, of the written file, Micro's own around the NPU's state."""
    b = ModelBuilder(dtype=dtype, seed=4)
    x = b.input((5, 2, 9) if time_major else (2, 5, 9), name="x")
    b.lstm(x, 11, time_major=time_major, cell_clip=0.7, gain=2.0, name="y")
    model = b.build()
    steps = steps_of(x.shape, dtype)
    expected = in_micro(model, steps)
    for run, wanted in zip(reference.run_steps(read_tflite(model), steps), expected, strict=True):
        np.testing.assert_array_equal(run.outputs["y"], wanted)
    first = reference.run(read_tflite(model), steps[1]).outputs["y"]
    assert not np.array_equal(first, expected[1]), "the state ought to show"


def test_the_written_file_keeps_the_state() -> None:
    model = network(DType.INT8)
    compiled = ethoscade.compile(model)
    steps = steps_of((1, 2, 12), DType.INT8)
    written = read_tflite(tflite.write(compiled.artifact))
    for result, wanted in zip(
        run_tflite_steps(written, steps), reference.run_steps(compiled.source, steps), strict=True
    ):
        assert compare(result.outputs, wanted.outputs)[1] == 0


def test_sums_of_int16_that_end_in_halves() -> None:
    """With a shift by more than 31, where rounding twice would tell them apart."""
    b = ModelBuilder(dtype=DType.INT16, seed=1)
    x = b.input((1, 1, 12), quantisation=Quantisation((2.0**-16,), (0,)), name="x")
    b.lstm(x, 64, cell_scale=2.0**-15, gain=0.002, weight_quantisation=Quantisation((2.0**-16,), (0,)), name="y")
    made = network_of(b.build())
    assert made.partition.cpu_operators == ()
    curve = search(made)
    rng = np.random.default_rng(2)
    steps = [{"x": (4096 * rng.integers(-7, 8, (1, 1, 12))).astype(np.int16)} for _ in range(8)]
    results = run_artifact_steps(carry_out(made, curve, curve.proposals[0]).artifact, steps)
    for result, wanted in zip(results, reference.run_steps(made.source, steps), strict=True):
        assert compare(result.outputs, wanted.outputs)[1] == 0 and result.warnings == ()


def reason(maker: GraphMaker) -> str:
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATORS["ethos-u55-128"]) or ""


def test_what_stays_on_the_cpu_says_why() -> None:
    maker = GraphMaker()
    maker.lstm(maker.input((300, 1, 2)), 2, time_major=True)
    assert "it has 300 steps; at most 256 operations" in reason(maker)
    maker = GraphMaker()
    maker.lstm(maker.input((1, 2, 2)), 2)
    weights = maker.operators[-1].inputs[LstmInputs.of_state[1]]
    maker.tensors[weights] = replace(maker.tensors[weights], quantisation=Quantisation((1e9,), (0,)))
    assert "the factor from accumulator to output is" in reason(maker)
    maker = GraphMaker()
    maker.lstm(maker.input((1, 2, 2)), 2)
    weights = maker.operators[-1].inputs[LstmInputs.of_input[3]]
    maker.tensors[weights] = replace(maker.tensors[weights], data=None)
    maker.inputs.append(weights)
    assert "is not constant" in reason(maker)
