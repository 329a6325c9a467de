"""Variables: what runtimes keep outside of all tensors becomes state of the graph, and lives on from run to run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
import takers
from codegen_support import cpu_artifact, models_folder
from ethoscade.codegen import c_source, tflite
from ethoscade.codegen.layout import carried_over
from ethoscade.errors import CodegenError, ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import reference_steps
from ethoscade.pipeline.compiler import prepare
from ethoscade.pipeline.searches import explore
from ethoscade.run.execution import run_tflite_steps
from ethoscade.run.host_c import HostLibrary
from ethoscade.run.judgement import on_file
from ethoscade.scheduling import schedule
from ethoscade.targets.target import load_target
from ethoscade.testing import random_network
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

    assert same([list(run.outputs.values()) for run in reference.run_steps(graph, steps)], expected)
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
    with HostLibrary(compiled.artifact) as library:
        assert same([list(run.outputs.values()) for run in library.run_steps(steps)], expected)


def read_names(model: bytes) -> list[str]:
    graph = read_tflite(model)
    return [graph.tensors[t].name for t in graph.given]


def test_verification_misses_no_lost_state(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = ethoscade.compile(network("summed"))
    variable = compiled.artifact.graph.variables[0]
    forgetful = replace(compiled.artifact, graph=replace(compiled.artifact.graph, variables=()))
    assert compiled.verify(seeds=1).ok
    monkeypatch.setattr(
        "ethoscade.run.inference._kept_state", lambda graph, arena, state: {variable.before: variable.initial}
    )
    check = compiled.verify(seeds=1)
    assert not check.ok and 0 < check.mismatches <= check.elements * 2 // 3
    assert compiled.verify(seeds=1, runs=1).ok
    assert forgetful.graph.given == (*compiled.artifact.graph.given, variable.before)


@pytest.mark.parametrize(
    ("name", "copied"),
    [("shifted", ()), ("summed", ((0,),)), ("delayed", ((1,), (0,))), ("exchanged", ((0, 1),)), ("set_twice", ((0,),))],
)
def test_state_is_in_one_place_where_its_last_reader_precedes_its_maker(
    name: str, copied: tuple[tuple[int, ...], ...]
) -> None:
    """`fixed` of `set_twice`, which no run changes, lies in one place as well."""
    artifact = ethoscade.compile(network(name)).artifact
    assert carried_over(artifact) == copied
    shared = [artifact.offsets[v.before] == artifact.offsets[v.after] for v in artifact.graph.variables]
    assert [number for number, of in enumerate(shared) if not of] == sorted(itertools.chain.from_iterable(copied))


def test_the_search_places_state_where_it_was() -> None:
    """So that it counts what is alive, and turns stripes round where one place needs it."""
    b = ModelBuilder("streaming")
    x = b.input((1, 2, 1, 16))
    for kept in (4, 8, 12, 20):
        held = b.variable((1, kept, 1, 16), x.quantisation)
        joined = b.concatenate([held, x], axis=1)
        b.assign(held, b.strided_slice(joined, (0, 2, 0, 0), (1, kept + 2, 1, 16), (1, 1, 1, 1)))
        x = b.conv2d(joined, 16, (kept + 1, 1), padding="VALID")
    b.output(x)
    network = prepare(read_tflite(b.build()), load_target("ethos-u55-256"))
    curve = explore(network.problem, 0)
    state = sum(network.graph.tensors[variable.before].size_bytes for variable in network.graph.variables)
    for (size, _), proposal in zip(curve.points, curve.proposals, strict=True):
        found = schedule.arrange(network.problem, proposal)
        places = found.program.tensor_buffers
        for variable in network.graph.variables:
            assert found.offsets[places[variable.before]] == found.offsets[places[variable.after]]
        assert size == found.arena_bytes
    # The longest input twice would be more: while its rows come it takes the place of those that go.
    assert curve.floor_bytes < state + 22 * 16


def test_values_are_carried_over_as_if_all_at_once() -> None:
    """Every way in which four variables can take their values from each other's places or from a fifth."""
    graph = read_tflite(network("exchanged"))
    kind = replace(graph.tensors[graph.variables[0].before], data=None)
    variables = tuple(replace(graph.variables[0], before=n, after=4 + n) for n in range(4))
    whole = replace(graph, tensors=(kind,) * 8, variables=variables)
    plain = cpu_artifact(network("exchanged"))
    for sources in itertools.product(range(5), repeat=4):
        offsets = {**{n: 64 * n for n in range(4)}, **{4 + n: 64 * source for n, source in enumerate(sources)}}
        artifact = replace(plain, graph=whole, offsets=offsets)
        places = list(range(5))
        for turn in carried_over(artifact):
            taken = [places[sources[turn[0]]]] if len(turn) == 1 else [places[n] for n in (*turn[1:], turn[0])]
            for number, value in zip(turn, taken, strict=True):
                places[number] = value
        assert places[:4] == list(sources)


def test_an_output_that_the_next_state_is_written_over_is_refused_in_c(tmp_path: Path) -> None:
    b = ModelBuilder("early")
    x, kept = b.input(SHAPE), b.variable(SHAPE, Q)
    b.assign(kept, b.leaky_relu(x, output=Q))
    b.output(kept)
    compiled = ethoscade.compile(b.build())
    assert compiled.verify(seeds=1).ok
    with pytest.raises(CodegenError, match="'variable0/read' is what variable 'variable0' held before the run"):
        compiled.write_c(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_emitted_reset_begins_anew() -> None:
    model = network("summed")
    artifact, steps = ethoscade.compile(model).artifact, inputs_of(model, 2)
    with HostLibrary(artifact) as library:
        found = [list(run.outputs.values()) for run in library.run_steps([*steps, *steps], resets=[2])]
        kept = [list(run.outputs.values()) for run in library.run_steps([*steps, *steps])]
    assert same(found[:2], found[2:]) and not same(kept[:2], kept[2:])


def test_networks_without_state_have_nothing_to_reset() -> None:
    b = ModelBuilder("plain")
    b.leaky_relu(b.input(SHAPE))
    text = "".join(c_source.sources(ethoscade.compile(b.build()).artifact).values())
    assert "reset" not in text and "carry" not in text


@pytest.mark.parametrize("seed", [4, 20, 44, 52])
def test_random_networks_with_state(seed: int) -> None:
    compiled = ethoscade.compile(random_network(seed), optimise="size")
    assert compiled.artifact.graph.variables
    check = compiled.verify(seeds=2, runs=4)
    assert check.ok and check.sram_touched_bytes == compiled.sram_bytes


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


def test_a_variable_that_is_read_before_it_is_set_is_refused_on_purpose() -> None:
    """LiteRT makes a tensor of nothing, and Vela takes the file as well."""
    refusal = takers.refusal(stateful_file([READ, ADD, ASSIGN], [HANDLE]))
    assert refusal.partition("\n")[0] in takers.NO_NETWORK
