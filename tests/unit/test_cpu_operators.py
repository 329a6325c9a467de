"""CPU operators that ethoscade does not know itself: played by LiteRT one by one, and complained of before the run."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from codegen_support import vela_file
from ethoscade.codegen import tflite
from ethoscade.errors import UnsupportedOperatorError, VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.judge import litert, litert_models
from ethoscade.judge.verification import random_inputs
from ethoscade.run import execution, inference
from ethoscade.testing import tiny_conv
from reference_support import litert_values, needs_litert, played_by_litert
from test_judges import behind_fully_connected
from zoo_models import zoo

UNKNOWN = ("GATHER_ND",)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_litert_plays_is_verified(kind: str) -> None:
    needs_litert()
    compiled = ethoscade.compile(behind_fully_connected(kind))
    assert {op.kind for op in compiled.cpu_operators} == {kind}
    check = compiled.verify(seeds=1)
    assert check.ok and check.hazards == 0


def test_the_written_file_is_played_as_well() -> None:
    needs_litert()
    compiled = ethoscade.compile(behind_fully_connected("GATHER_ND"))
    inputs = random_inputs(compiled.source, 0)
    ours = execution.simulate(tflite.write(compiled.artifact), inputs)
    for name, value in compiled.simulate(inputs).outputs.items():
        np.testing.assert_array_equal(ours.outputs[name], value)


@pytest.mark.parametrize("limit", [None, 10**9])
def test_what_is_missing_is_named_before_anything_runs(monkeypatch: pytest.MonkeyPatch, limit: int | None) -> None:
    """Without LiteRT, and in a file that nobody trusts: LiteRT's work cannot be bounded."""
    compiled = ethoscade.compile(behind_fully_connected("GATHER_ND"))
    graph = read_tflite(tflite.write(compiled.artifact))
    if limit is None:
        monkeypatch.setattr(litert, "is_installed", lambda: False)
    monkeypatch.setattr(inference.Machine, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(UnsupportedOperatorError, match=r"'GATHER_ND' \(GATHER_ND of int8\): ") as caught:
        execution.run_tflite(graph, random_inputs(graph, 0), work_limit=limit)
    assert caught.value.operator == "GATHER_ND"
    assert ("pip install" in str(caught.value)) == (limit is None)


def test_files_whose_npu_operators_write_variables_run() -> None:
    """Vela unrolls an LSTM in time, and lists the states between the steps as outputs that nobody may write."""
    needs_litert()
    model = zoo("UNIDIRECTIONAL_SEQUENCE_LSTM", DType.INT8).build()
    compiled, source = read_tflite(vela_file(model), "net"), read_tflite(model, "net")
    variables = {i for i, tensor in enumerate(compiled.tensors) if tensor.is_variable}
    assert any(t in variables for op in compiled.operators for t in op.outputs)
    inputs = random_inputs(compiled, 0)
    result = execution.run_tflite(compiled, inputs)
    assert result.warnings == () and result.hazards == 0, "states are there before the first step"
    expected = litert_values(source, {source.tensors[t].name: inputs[source.tensors[t].name] for t in source.given})
    for name, t in zip(result.outputs, source.handed_out, strict=True):
        apart = np.abs(result.outputs[name].astype(int) - expected[t].astype(int))
        assert apart.max() <= 1, "Micro rounds twice, LiteRT once"


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_a_file_are_models(seed: int) -> None:
    """Each operator alone, on the values that LiteRT has for the whole, makes what it makes in the whole."""
    needs_litert()
    graph = read_tflite(played_by_litert(seed))
    values = litert_values(graph, random_inputs(graph, seed))
    with litert.Session(graph.source, graph.name) as session:
        for index, op in enumerate(graph.operators):
            read = [t for t in op.inputs if t is not None and not graph.tensors[t].is_constant]
            given = {t: values[t] for t in read}
            twice = session.run([index], list(given), op.outputs, [given, given])
            for found in twice:
                assert all(np.array_equal(found[t], values[t]) for t in op.outputs)


def test_a_head_keeps_the_alignment_of_what_follows() -> None:
    source = tiny_conv()
    graph = read_tflite(source)
    head = litert_models.head(source, [0], graph.inputs, graph.operators[0].outputs)
    assert len(head) % 16 == 0
    part = read_tflite(head + source)
    assert [op.kind for op in part.operators] == [graph.operators[0].kind]
    assert part.inputs == graph.inputs and part.outputs == graph.operators[0].outputs


def test_a_session_survives_what_ends_its_child() -> None:
    needs_litert()
    graph = read_tflite(tiny_conv())
    values = {graph.inputs[0]: random_inputs(graph, 0)["input"]}
    everything = range(len(graph.operators))
    with litert.Session(graph.source, graph.name) as session:
        first = session.run(everything, graph.inputs, graph.outputs, [values])
        session._child.kill()
        with pytest.raises(VerificationError, match="signal 9"):
            session.run(everything, graph.inputs, graph.outputs, [values])
        again = session.run(everything, graph.inputs, graph.outputs, [values])
        with pytest.raises(litert.LitertRefusal, match="LiteRT refuses"):
            session.run(everything, (), graph.outputs, [{}])
    assert np.array_equal(first[0][graph.outputs[0]], again[0][graph.outputs[0]])
