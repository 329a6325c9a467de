"""SVDF in networks: runs in a row at all budgets; what stays on the CPU."""

from __future__ import annotations

from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from end_to_end import network_of
from ethoscade.codegen import tflite
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation, SvdfInputs
from ethoscade.judge import reference
from ethoscade.judge.verification import JUDGE_MICRO, compare
from ethoscade.lowering import support
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.run.execution import run_artifact_steps, run_tflite_steps
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from graphs import GraphMaker
from in_a_row import check_at_every_budget, in_micro, steps_of
from model_files import NO_MODELS, model_folder


def network(memory: int = 8) -> bytes:
    """A dense layer, SVDFs with states of int8 and of int16, and a dense layer of what they made."""
    b = ModelBuilder(seed=2)
    x = b.fully_connected(b.input((1, 12), name="x"), 20)
    x = b.svdf(x, 24, memory, state=Quantisation((float(np.float32(0.02)),), (30,)))
    x = b.svdf(x, 10, max(memory - 2, 1), rank=2, state_dtype=DType.INT16)
    b.fully_connected(x, 5, name="y")
    return b.build()


@pytest.mark.parametrize(
    ("memory", "accelerator"), [(8, "ethos-u55-128"), (3, "ethos-u65-256"), (32, "ethos-u55-32"), (1, "ethos-u55-64")]
)
def test_runs_in_a_row_at_every_budget(memory: int, accelerator: str) -> None:
    check_at_every_budget(network(memory), accelerator, 2 * memory + 1 if memory < 9 else 3)


def test_states_of_a_batch() -> None:
    b = ModelBuilder(seed=6)
    x = b.input((3, 9), name="x")
    b.svdf(x, 7, 4, rank=3, state=Quantisation((float(np.float32(0.01)),), (-90,)), name="y")
    check_at_every_budget(b.build(), "ethos-u55-256", 6)


def test_the_least_sram() -> None:
    """Products are made and summed stripe by stripe: whole they would be 8 KiB. Both states are one place."""
    b = ModelBuilder(seed=2)
    b.svdf(b.input((1, 8), name="x"), 64, 32, name="y")
    made = network_of(b.build(), "ethos-u55-128")
    curve = search(made)
    artifact = carry_out(made, curve, curve.proposals[0]).artifact
    (variable,) = made.source.variables
    assert artifact.offsets[variable.before] == artifact.offsets[variable.after]
    assert curve.points[0][0] < 4 * 64 * 32


def test_the_written_file_keeps_the_state() -> None:
    model = network()
    compiled = ethoscade.compile(model)
    steps = steps_of((1, 12), DType.INT8)
    written = read_tflite(tflite.write(compiled.artifact))
    for result, wanted in zip(
        run_tflite_steps(written, steps), reference.run_steps(compiled.source, steps), strict=True
    ):
        assert compare(result.outputs, wanted.outputs)[1] == 0


def test_who_is_the_judge() -> None:
    """Micro's arithmetic in every run: LiteRT would take the state of int8 for int16."""
    pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')
    check = ethoscade.compile(network()).verify(seeds=1)
    assert check.ok and check.runs == 3 and check.judge == JUDGE_MICRO


def test_a_real_network_in_a_row() -> None:
    """All seven SVDFs on the NPU, at the least SRAM, for longer than any of them remembers."""
    folder = model_folder()
    if folder is None or not (folder / "keyword_scrambled_8bit.tflite").exists():
        pytest.skip(NO_MODELS)
    model = (folder / "keyword_scrambled_8bit.tflite").read_bytes()
    made = network_of(model, "ethos-u55-128")
    assert all(made.source.operators[index].kind != "SVDF" for index in made.partition.cpu_operators)
    curve = search(made)
    assert curve.points[0][0] < 6400
    (given,), (handed_out,) = made.source.given, made.source.handed_out
    tensor = made.source.tensors[given]
    steps = steps_of(tensor.shape, tensor.dtype, 40)
    expected = in_micro(model, steps)
    named = [{tensor.name: step["x"]} for step in steps]
    results = run_artifact_steps(carry_out(made, curve, curve.proposals[0]).artifact, named)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.outputs[made.source.tensors[handed_out].name], wanted)


def reason(maker: GraphMaker) -> str:
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATORS["ethos-u55-128"]) or ""


def changed(maker: GraphMaker, place: int, **changes: object) -> GraphMaker:
    index = maker.operators[-1].input(place)
    maker.tensors[index] = replace(maker.tensors[index], **changes)  # type: ignore[arg-type]
    return maker


def test_what_stays_on_the_cpu_says_why() -> None:
    def maker(dtype: DType = DType.INT8, memory: int = 2, units: int = 2, use_bias: bool = True) -> GraphMaker:
        made = GraphMaker()
        made.svdf(made.input((1, 4)), units, memory, dtype=dtype, use_bias=use_bias)
        return made

    for last, why in ((1, ""), (2, "sums of up to 2147483648 leave 32 bits")):
        times = np.array([[9, 9, 9], [32767, -32767, last]], np.int16)
        wide = maker(DType.INT16, 3, use_bias=False)
        assert reason(changed(wide, SvdfInputs.in_time, data=times)).startswith(why)
        assert bool(reason(wide)) == bool(why)
    full = changed(maker(DType.INT16, 3), SvdfInputs.in_time, data=np.full((2, 3), 21844, np.int16))
    for bias, why in ((10, ""), (-200_000_000, "sums of up to 2347")):
        assert reason(changed(full, SvdfInputs.bias, data=np.full(2, bias, np.int32))).startswith(why)
        assert bool(reason(full)) == bool(why)
    fine = changed(maker(), SvdfInputs.state, quantisation=Quantisation((2.0**-33,), (0,)))
    assert ", shifted left by " in reason(changed(fine, 0, quantisation=Quantisation((1.0,), (0,))))
    coarse = Quantisation((1e12,), (0,))
    for place in (SvdfInputs.of_input, SvdfInputs.in_time):
        assert "the factor from accumulator to output is" in reason(changed(maker(), place, quantisation=coarse))
        unknown = changed(maker(), place, data=None)
        unknown.inputs.append(unknown.operators[-1].input(place))
        assert "is not constant" in reason(unknown)
    assert "a dimension of 65538" in reason(maker(memory=2, units=32769))
