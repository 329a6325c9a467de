"""Variables: what runtimes keep outside of all tensors becomes state of the graph, and lives on from run to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from codegen_support import cpu_artifact, models_folder
from ethoscade.codegen import tflite
from ethoscade.errors import ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import reference_steps
from ethoscade.run.execution import run_tflite_steps
from ethoscade.run.judgement import on_file
from ethoscade.testing.builder import ModelBuilder
from ethoscade.testing.flatfile import OperatorRecord, SubgraphRecord, TensorRecord, write_file

SHAPE = (1, 3, 1, 8)
Q = Quantisation((2.0 / 256,), (0,))


def shifted(b: ModelBuilder) -> None:
    """The last rows of a longer input, as streaming convolutions keep them."""
    x = b.input(SHAPE)
    kept = b.variable((1, 4, 1, 8), Q)
    joined = b.concatenate([kept, x], axis=1)
    b.assign(kept, b.strided_slice(joined, (0, 3, 0, 0), (1, 7, 1, 8), (1, 1, 1, 1)))
    b.output(b.conv2d(joined, 16, (5, 1), padding="VALID"))


def summed(b: ModelBuilder) -> None:
    """A sum over all runs, which is read again once it is set."""
    total = b.variable(SHAPE, Q)
    b.assign(total, b.add(total, b.input(SHAPE), output=Q))
    b.output(b.leaky_relu(b.read(total)))


def delayed(b: ModelBuilder) -> None:
    """The input of two runs ago, handed on from one variable to the next."""
    x, first, second = b.input(SHAPE), b.variable(SHAPE, Q), b.variable(SHAPE, Q)
    b.assign(second, first)
    b.assign(first, x)
    b.output(b.add(b.read(second), second))


def exchanged(b: ModelBuilder) -> None:
    """Two variables that change places in every run."""
    x, first, second = b.input(SHAPE), b.variable(SHAPE, Q), b.variable(SHAPE, Q)
    b.assign(second, first)
    b.assign(first, second)
    b.output(b.add(first, x), b.conv2d(second, 8, 1))


def set_twice(b: ModelBuilder) -> None:
    """The last value counts, one that is never set stays as it was, and what is never read is nothing."""
    x, kept, fixed, unread = b.input(SHAPE), *(b.variable(SHAPE, Q) for _ in range(3))
    b.assign(kept, b.leaky_relu(x, output=Q))
    again = b.read(kept)
    b.assign(kept, x)
    b.assign(unread, again)
    b.output(b.add(again, b.add(kept, fixed)))


NETWORKS: dict[str, Callable[[ModelBuilder], None]] = {
    of.__name__: of for of in (shifted, summed, delayed, exchanged, set_twice)
}


def network(name: str, dtype: DType = DType.INT8) -> bytes:
    b = ModelBuilder(name, dtype=dtype)
    NETWORKS[name](b)
    return b.build()


def inputs_of(model: bytes, steps: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    graph = read_tflite(model)
    return [
        {graph.tensors[t].name: rng.integers(-128, 128, graph.tensors[t].shape).astype(np.int8) for t in graph.given}
        for _ in range(steps)
    ]


def in_litert(model: bytes, steps: Sequence[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """LiteRT, which keeps the state itself."""
    module = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = module.Interpreter(
        model_content=model, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    found = []
    for inputs in steps:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        interpreter.invoke()
        found.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return found


def in_micro(model: bytes, steps: Sequence[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(model)
    found = []
    for inputs in steps:
        for number, value in enumerate(inputs.values()):
            interpreter.set_input(value, number)
        interpreter.invoke()
        found.append([np.array(interpreter.get_output(n)) for n in range(len(read_tflite(model).handed_out))])
    return found


def same(found: Sequence[Sequence[np.ndarray]], expected: Sequence[Sequence[np.ndarray]]) -> bool:
    return all(
        len(a) == len(b) and all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_every_room_keeps_state_as_litert_does(name: str) -> None:
    model, steps = network(name), inputs_of(network(name), 5)
    expected = in_litert(model, steps)
    assert not same(expected[1:2], in_litert(model, steps[1:2])), "the state ought to show"
    graph = read_tflite(model)

    state, runs = None, []
    for inputs in steps:
        run = reference.run(graph, inputs, state)
        state = {v.before: run.values[v.after] for v in graph.variables}
        runs.append(list(run.outputs.values()))
    assert same(runs, expected)
    (judged,) = reference_steps(graph, [steps])
    assert same([list(step.outputs.values()) for step in judged], expected)

    rewritten = tflite.write(cpu_artifact(model))
    again = [dict(zip(read_names(rewritten), step.values(), strict=True)) for step in steps]
    assert same(in_litert(rewritten, again), expected)
    assert same(in_micro(rewritten, again), expected)

    compiled = ethoscade.compile(model)
    assert [op.kind for op in compiled.operators if op.where == "cpu"] == []
    assert same([list(result.outputs.values()) for result in compiled.simulate_steps(steps)], expected)
    file = read_tflite(tflite.write(compiled.artifact))
    assert same([list(result.outputs.values()) for result in run_tflite_steps(file, steps)], expected)
    assert compiled.verify(seeds=2).ok and compiled.verify(seeds=1, runs=5).runs == 5
    assert on_file(file, graph, 1).ok


def read_names(model: bytes) -> list[str]:
    graph = read_tflite(model)
    return [graph.tensors[t].name for t in graph.given]


def test_verification_misses_no_lost_state(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ethoscade.compile(network("summed"))
    variable = compiled.artifact.graph.variables[0]
    forgetful = replace(compiled.artifact, graph=replace(compiled.artifact.graph, variables=()))
    assert compiled.verify(seeds=1).ok
    monkeypatch.setattr(
        "ethoscade.run.execution._kept", lambda graph, arena, state: {variable.before: variable.initial}
    )
    check = compiled.verify(seeds=1)
    assert not check.ok and 0 < check.mismatches <= check.elements * 2 // 3
    assert compiled.verify(seeds=1, runs=1).ok
    assert forgetful.graph.given == (*compiled.artifact.graph.given, variable.before)


def test_a_streaming_wake_word_is_one_call() -> None:
    model = (models_folder() / "alexa_resource.tflite").read_bytes()
    compiled = ethoscade.compile(model)
    assert compiled.cpu_operators == () and len(compiled.artifact.calls) == 1
    assert len(compiled.artifact.graph.variables) == 6
    assert [tensor.name for tensor in compiled.interface] == [
        "serving_default_input_audio:0",
        "StatefulPartitionedCall:0",
    ]
    assert compiled.verify(seeds=2, runs=8).ok


# --- what cannot be -------------------------------------------------------------------------------------------------


def stateful_file(
    operators: Sequence[OperatorRecord], first: Sequence[OperatorRecord] | None = None, subgraph: int = 1
) -> bytes:
    """A file of tensors 0 handle, 1 read, 2 input, 3 output, 4 of another shape; `first` is in the second subgraph."""
    tensors = [
        TensorRecord("handle", (), None),
        TensorRecord("read", SHAPE, DType.INT8, Q),
        TensorRecord("x", SHAPE, DType.INT8, Q),
        TensorRecord("y", SHAPE, DType.INT8, Q),
        TensorRecord("wide", (1, 3, 1, 16), DType.INT8, Q),
    ]
    initial = TensorRecord("zeros", SHAPE, DType.INT8, Q, np.zeros(SHAPE, np.int8))
    made = TensorRecord("made", SHAPE, DType.INT8, Q)
    once = OperatorRecord("CALL_ONCE", 1, (), (), "CallOnceOptions", {"InitSubgraphIndex": subgraph})
    first = [HANDLE, OperatorRecord("ASSIGN_VARIABLE", 1, (0, 1), ())] if first is None else first
    return write_file(
        "stateful",
        tensors,
        [once, HANDLE, *operators],
        [2],
        [3],
        others=[SubgraphRecord("initial", [tensors[0], initial, made], first)],
    )


HANDLE = OperatorRecord("VAR_HANDLE", 1, (), (0,), "VarHandleOptions", {"Container": "shared", "SharedName": "state"})
READ = OperatorRecord("READ_VARIABLE", 1, (0,), (1,))
ADD = OperatorRecord("ADD", 2, (1, 2), (3,), "AddOptions")
ASSIGN = OperatorRecord("ASSIGN_VARIABLE", 1, (0, 3), ())


def test_a_variable_is_known_by_container_and_name() -> None:
    (variable,) = read_tflite(stateful_file([READ, ADD, ASSIGN])).variables
    assert (variable.name, variable.before, variable.after) == ("shared/state", 1, 3)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (
            stateful_file([READ, ADD, ASSIGN], [HANDLE]),
            ModelFormatError,
            "is read of variable 'shared/state' before",
        ),
        (stateful_file([READ, ADD, ASSIGN], subgraph=2), ModelFormatError, "runs subgraph 2; the file has 2"),
        (stateful_file([READ, ADD, ASSIGN], subgraph=0), UnsupportedOperatorError, "does more than set variables"),
        (
            stateful_file([READ, ADD, ASSIGN], [HANDLE, OperatorRecord("RELU", 2, (1,), (2,))]),
            UnsupportedOperatorError,
            r"number 1.*does more than set variables to constants: it has operator 'made' .RELU",
        ),
        (
            stateful_file([READ, ADD, ASSIGN], [HANDLE, OperatorRecord("ASSIGN_VARIABLE", 1, (0, 2), ())]),
            UnsupportedOperatorError,
            "does more than set variables to constants: it has operator 'ASSIGN_VARIABLE_1'",
        ),
        (
            stateful_file([READ, ADD, OperatorRecord("ASSIGN_VARIABLE", 1, (0, 4), ())]),
            ModelFormatError,
            r"starts as int8\(1, 3, 1, 8\), and tensor 'wide'",
        ),
        (
            stateful_file([READ, ADD, ASSIGN, OperatorRecord("READ_VARIABLE", 1, (0,), (4,))]),
            UnsupportedOperatorError,
            "reads variable 'shared/state' as int8",
        ),
        (
            stateful_file([READ, ADD, OperatorRecord("ASSIGN_VARIABLE", 1, (2, 3), ())]),
            ModelFormatError,
            "takes 'x' for a variable, which no VAR_HANDLE makes",
        ),
        (stateful_file([READ, ADD, OperatorRecord("ASSIGN_VARIABLE", 1, (0,), ())]), ModelFormatError, "has 1 inputs"),
        (
            stateful_file([READ, OperatorRecord("ADD", 2, (1, 0), (3,), "AddOptions"), ASSIGN]),
            UnsupportedOperatorError,
            "only READ_VARIABLE and ASSIGN_VARIABLE can be compiled",
        ),
        (
            stateful_file([OperatorRecord("VAR_HANDLE", 1, (), (0,)), READ, ADD]),
            ModelFormatError,
            "names no variable",
        ),
        (
            stateful_file(
                [
                    OperatorRecord("ASSIGN_VARIABLE", 1, (0, 2), ()),
                    OperatorRecord("CALL_ONCE", 1, (), (), "CallOnceOptions", {"InitSubgraphIndex": 1}),
                    READ,
                    ADD,
                ]
            ),
            UnsupportedOperatorError,
            "which the first run has set by then",
        ),
        (stateful_file([READ]), ModelFormatError, "the model has no operators"),
    ],
)
def test_variables_that_contradict_themselves(model: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ethoscade.compile(model)
