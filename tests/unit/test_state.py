"""Operators with state: variables and intermediates pass through a compilation unharmed, or are refused by name."""

from __future__ import annotations

from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from codegen_support import cpu_artifact, models_folder, vela_file
from ethoscade.codegen import c_source, mlf, tflite
from ethoscade.codegen.artifact import Artifact
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import CodegenError, ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.frontend.operators import READERS
from ethoscade.ir import DType, Quantisation
from ethoscade.ir.operators import own_outputs, updated
from ethoscade.judge import judges
from ethoscade.judge.reference import MEANINGS
from ethoscade.lowering import FAMILIES
from ethoscade.pipeline.partition import partition
from ethoscade.rewrites import simplify
from ethoscade.run.judgement import on_file
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file
from graphs import GraphMaker, on_npu
from tflite import Model
from tflite_files import INT32, File, Op, T, constant
from zoo_builder import Zoo
from zoo_models import _lstm

ACCELERATOR = ACCELERATORS["ethos-u55-256"]


def with_state(depth: int = 8, units: int = 4, memory: int = 3) -> File:
    """FULLY_CONNECTED, SVDF with `memory` steps of state, FULLY_CONNECTED.

    Kernels pass over the zero point of the SVDF's weights; its reader has no words for it.
    """
    rng = np.random.default_rng(3)

    def weights(name: str, *shape: int, **more: object) -> T:
        return T(name, shape, scales=(0.02,), data=rng.integers(-100, 100, np.prod(shape)).tolist(), **more)

    def bias(name: str) -> T:
        return T(name, (units,), INT32, scales=(0.002,), data=[0] * units)

    return File(
        (
            T("x", (1, depth), scales=(0.1,)),
            weights("w1", depth, depth),
            T("hidden", (1, depth), scales=(0.1,)),
            weights("features", units, depth, zero_points=(1,)),
            weights("time", units, memory),
            bias("bias"),
            T("state", (1, units * memory), scales=(0.1,), variable=True),
            T("filtered", (1, units), scales=(0.1,)),
            weights("w2", units, units),
            T("y", (1, units), scales=(0.1,)),
        ),
        (
            Op("FULLY_CONNECTED", (0, 1, -1), (2,), "FullyConnectedOptions"),
            Op("SVDF", (2, 3, 4, 5, 6), (7,), "SVDFOptions", {"Rank": 1}),
            Op("FULLY_CONNECTED", (7, 8, -1), (9,), "FullyConnectedOptions"),
        ),
        (0,),
        (9,),
    )


def with_two_states() -> File:
    """As `with_state`, with another SVDF beside the first one, whose output leaves as well."""
    file = with_state()
    more = (replace(file.tensors[6], name="other_state"), replace(file.tensors[7], name="other_filtered"))
    svdf = replace(file.operators[1], inputs=(2, 3, 4, 5, 10), outputs=(11,))
    return replace(
        file, tensors=(*file.tensors, *more), operators=(*file.operators[:2], svdf, file.operators[2]), outputs=(9, 11)
    )


def lstm() -> bytes:
    """Integer LSTMs, whose intermediates are tensors without bytes."""
    zoo = Zoo("UNIDIRECTIONAL_SEQUENCE_LSTM", DType.INT8)
    _lstm(zoo)
    return write_file("lstm", zoo.tensors, zoo.operators, zoo.inputs, zoo.outputs)


def micro_runs(model: bytes, steps: int = 4) -> np.ndarray:
    """What TensorFlow Lite Micro outputs for the same random input given again and again."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    graph = read_tflite(model)
    tensor = graph.tensors[graph.inputs[0]]
    value = np.random.default_rng(0).integers(*tensor.dtype.limits, tensor.shape).astype(tensor.dtype.numpy)
    interpreter = runtime.Interpreter.from_bytes(model)
    outputs = []
    for _ in range(steps):
        interpreter.set_input(value, 0)
        interpreter.invoke()
        outputs.append(np.array(interpreter.get_output(0)))
    return np.array(outputs)


def test_state_lives_on_in_the_written_file() -> None:
    model = with_state().bytes()
    expected = micro_runs(model)
    assert not np.array_equal(expected[0], expected[1]), "the state ought to show"
    np.testing.assert_array_equal(micro_runs(tflite.write(cpu_artifact(model))), expected)


@pytest.mark.parametrize("name", ["keyword_scrambled_8bit", "micro_speech_lstm"])
def test_real_networks_with_state(name: str) -> None:
    model = (models_folder() / f"{name}.tflite").read_bytes()
    np.testing.assert_array_equal(micro_runs(tflite.write(cpu_artifact(model))), micro_runs(model))


def test_every_run_in_a_row_is_judged() -> None:
    """Of an SVDF, which LiteRT refuses: what Micro makes of a whole sequence, on both sides."""
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    pytest.importorskip("ai_edge_litert")
    model = with_state().bytes()
    compiled = ethoscade.compile(model)
    check = compiled.verify(seeds=2)
    assert check.ok and check.runs == 3
    assert compiled.verify(seeds=2, runs=1).elements * 3 == check.elements
    expected = micro_runs(model)
    value = np.random.default_rng(0).integers(-128, 127, (1, 8)).astype(np.int8)
    steps = compiled.simulate_steps([{"x": value}] * 4)
    np.testing.assert_array_equal([step.outputs["y"] for step in steps], expected)


def test_a_variable_has_bytes_of_its_own_for_the_whole_inference() -> None:
    compiled = ethoscade.compile(with_state().bytes())
    again = read_tflite(tflite.write(compiled.artifact))
    assert [op.kind for op in again.operators] == ["ethos-u", "SVDF", "ethos-u"]
    (state,) = (t for t in again.tensors if t.name == "state")
    assert state.is_variable
    assert (state.name, state.shape, state.quantisation) == ("state", (1, 12), Quantisation((np.float32(0.1),), (0,)))
    (index,) = (i for i, t in enumerate(compiled.artifact.graph.tensors) if t.is_variable)
    buffer = compiled.program.buffers[compiled.program.tensor_buffers[index]]
    assert (buffer.first_step, buffer.last_step) == (0, len(compiled.program.steps))
    begin = compiled.artifact.offsets[index]
    for other, offset in compiled.artifact.offsets.items():
        size = compiled.artifact.graph.tensors[other].size_bytes
        assert other == index or offset + size <= begin or begin + 12 <= offset


def test_intermediates_are_carried_over() -> None:
    """Through the rewrites as well, which renumber tensors."""
    model = lstm()
    before = read_tflite(model)
    again = read_tflite(tflite.write(cpu_artifact(model)))
    simple = simplify(before, on_npu)
    for graph in (again, simple):
        for old, new in zip(before.operators, graph.operators, strict=True):
            assert len(new.intermediates) == 5
            for a, b in zip(old.intermediates, new.intermediates, strict=True):
                assert before.tensors[a].quantisation == graph.tensors[b].quantisation is not None
                assert graph.tensors[b].shape == (0,)
    assert [t.is_variable for t in again.tensors] == [t.is_variable for t in before.tensors]


def test_an_intermediate_out_of_range() -> None:
    tensors = [TensorRecord(name, (1, 4), DType.INT8) for name in "xy"]
    operator = OperatorRecord("UNIDIRECTIONAL_SEQUENCE_LSTM", 1, (0,), (1,), intermediates=(7,))
    with pytest.raises(ethoscade.errors.ModelFormatError, match="tensor 7; the file has 2"):
        read_tflite(write_file("lstm", tensors, [operator], [0], [1]))


def test_c_sources_refuse_state_by_name(tmp_path) -> None:
    """An operator whose kernel there is, but nobody to set its variable up."""
    file = File(
        (T("x", (1, 8)), T("state", (1, 8), variable=True), T("y", (1, 8))),
        (Op("ADD", (0, 1), (2,), "AddOptions"),),
        (0,),
        (2,),
    )
    artifact = ethoscade.compile(file.bytes()).artifact
    for write in (c_source.write, lambda artifact, path: mlf.write([(artifact, COptions())], path)):
        with pytest.raises(CodegenError, match=r"operator 'y' .ADD. keeps state in variable 'state'"):
            write(artifact, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_readers_of_a_variable_keep_their_order() -> None:
    """The second reader is ready before the first; if it ran earlier, both would see another state."""
    maker = GraphMaker()
    shape = (1, 2, 2, 8)
    x, state = maker.input(shape), maker.tensor(shape)
    maker.tensors[state] = replace(maker.tensors[state], is_variable=True)
    first = maker.op("MYSTERY", [maker.quantize(x), state], maker.tensor(shape))
    second = maker.op("MYSTERY", [x, state], maker.tensor(shape))
    end = maker.quantize(second)
    graph = maker.graph([first, end])
    order = partition(graph, ACCELERATOR).order
    readers = [i for i in order if graph.operators[i].kind == "MYSTERY"]
    assert readers == sorted(readers)


def test_a_copy_of_a_variable_has_bytes_of_its_own() -> None:
    """A RESHAPE shares its input's bytes, but not those of a variable, which changes before the copy is read."""
    file = File(
        (
            T("x", (1, 8)),
            T("state", (1, 8), variable=True),
            constant("shape", [8, 1]),
            T("copy", (8, 1)),
            T("changed", (1, 8)),
            T("both", (8, 8)),
        ),
        (
            Op("RESHAPE", (1, 2), (3,), "ReshapeOptions", {"NewShape": [8, 1]}),
            Op("my_filter", (0, 1), (4,)),
            Op("my_join", (3, 4), (5,)),
        ),
        (0,),
        (5,),
    )
    offsets = ethoscade.compile(file.bytes()).artifact.offsets
    assert abs(offsets[1] - offsets[3]) >= 8


@pytest.mark.parametrize("kind", ["IF", "WHILE", "CALL_ONCE", "STABLEHLO_REDUCE"])
def test_operators_that_run_other_subgraphs_are_refused(kind: str) -> None:
    """A compiled file has one subgraph; their numbers would mean others there."""
    tensors = (T("x", (1, 8)), T("y", (1, 8)))
    file = File(tensors, (Op("RELU", (0,), (1,)), Op(kind, (), ())), (0,), (1,), subgraphs=2)
    with pytest.raises(UnsupportedOperatorError, match=f"{kind}.*another subgraph") as caught:
        ethoscade.compile(file.bytes())
    assert caught.value.constraint == "one subgraph"


def test_subgraphs_that_nobody_runs_do_not_matter() -> None:
    tensors = (T("x", (1, 8)), T("y", (1, 8)))
    file = File(tensors, (Op("QUANTIZE", (0,), (1,)),), (0,), (1,), subgraphs=3)
    assert len(read_tflite(tflite.write(ethoscade.compile(file.bytes()).artifact)).operators) == 1


# Numbers of the schema's TensorType: schema.fbs of TensorFlow Lite.
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (13, "RESOURCE.*state as inputs"),
        (14, "VARIANT.*loop.*unroll=True"),
        (5, "STRING.*size"),
        (8, "COMPLEX64.*Fourier.*input"),
        (11, "COMPLEX128.*Fourier.*input"),
    ],
)
def test_types_that_no_plan_can_place(kind: int, words: str) -> None:
    file = File((T("x", (1, 8)), T("r", (), kind), T("y", (1, 8))), (Op("my_op", (0, 1), (2,)),), (0,), (2,))
    with pytest.raises(UnsupportedOperatorError, match=words) as caught:
        read_tflite(file.bytes())
    assert "quantisation" not in str(caught.value)


def test_an_output_named_twice(tmp_path) -> None:
    """Every writer hands it out as often as the file names it, or once where names must differ."""
    model = File(
        (T("x", (1, 4, 4, 8)), T("y", (1, 4, 4, 8), scales=(0.25,))), (Op("QUANTIZE", (0,), (1,)),), (0,), (1, 1)
    ).bytes()
    compiled = ethoscade.compile(model)
    again = read_tflite(tflite.write(compiled.artifact))
    assert len(again.outputs) == 2 and len(set(again.outputs)) == 1
    values = {"x": np.arange(-64, 64, dtype=np.int8).reshape(1, 4, 4, 8)}
    assert list(compiled.simulate(values).outputs) == ["y"]
    header = next(path for path in compiled.write_c(tmp_path).values() if path.suffix == ".h").read_text()
    assert header.count("void* y;") == 1
    pytest.importorskip("ai_edge_litert")
    assert compiled.verify(seeds=1).ok


@pytest.fixture
def understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """SVDF as a kind whose reader takes it, whatever it is, of which nothing else is known but what it writes over."""
    monkeypatch.setattr("ethoscade.frontend.operators.READERS", {**READERS, "SVDF": lambda site: None})
    for table, kinds in (("lowering.FAMILIES", FAMILIES), ("judge.reference.MEANINGS", MEANINGS)):
        monkeypatch.setattr(f"ethoscade.{table}", {kind: one for kind, one in kinds.items() if kind != "SVDF"})


def test_what_an_operator_writes_over_is_one_of_its_outputs(understood: None) -> None:
    graph = read_tflite(with_state().bytes())
    svdf = graph.operators[1]
    (variable,) = graph.variables
    assert (variable.name, variable.in_place, svdf.input(4)) == ("state", True, variable.before)
    assert svdf.outputs == (7, variable.after) and own_outputs(svdf) == (7,)
    assert updated(svdf) == ((variable.before, variable.after),)
    assert not any(tensor.is_variable for tensor in graph.tensors)
    assert variable.initial.shape == (1, 12) and not variable.initial.any()
    assert (graph.given, graph.handed_out) == ((0,), (9,))


def test_an_operator_on_the_cpu_writes_over_its_state_where_it_lies(understood: None) -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    pytest.importorskip("ai_edge_litert")
    model = with_state().bytes()
    compiled = ethoscade.compile(model)
    artifact, (variable,) = compiled.artifact, compiled.artifact.graph.variables
    assert artifact.offsets[variable.before] == artifact.offsets[variable.after]
    begin, end = artifact.offsets[variable.before], artifact.offsets[variable.before] + 12
    for other, offset in artifact.offsets.items():
        size = artifact.graph.tensors[other].size_bytes
        assert other in (variable.before, variable.after) or offset + size <= begin or end <= offset
    assert compiled.verify(seeds=2).ok
    value = np.random.default_rng(0).integers(-128, 127, (1, 8)).astype(np.int8)
    steps = compiled.simulate_steps([{"x": value}] * 4)
    np.testing.assert_array_equal([step.outputs["y"] for step in steps], micro_runs(model))


def test_the_file_has_a_variable_tensor_for_what_is_written_over(understood: None) -> None:
    """Read again, by whoever does not know the kind, it is the file that it was."""
    model = with_state().bytes()
    written = tflite.write(cpu_artifact_in_place(model))
    subgraph = Model.GetRootAs(written, 0).Subgraphs(0)
    operator = subgraph.Operators(1)
    assert operator.OutputsLength() == 1
    assert [subgraph.Tensors(operator.Inputs(i)).IsVariable() for i in range(5)] == [False] * 4 + [True]
    np.testing.assert_array_equal(micro_runs(written), micro_runs(model))


def cpu_artifact_in_place(model: bytes) -> Artifact:
    artifact = cpu_artifact(model)
    (variable,) = artifact.graph.variables
    places = {variable.after: artifact.offsets[variable.before]}
    return replace(artifact, offsets={**artifact.offsets, **places})


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (with_state().tensor(6, variable=False, data=[0] * 12), "writes over its input 4, 'state', which is no"),
        (replace(with_state(), operators=[*with_state().operators, Op("SVDF", (2, 3, 4, 5, 6), (8,))]), "and so does"),
    ],
)
def test_what_is_written_over_is_a_variable_tensor_of_one_operator(understood: None, file: File, words: str) -> None:
    with pytest.raises((ModelFormatError, UnsupportedOperatorError), match=words):
        read_tflite(file.bytes())


def test_micro_is_not_asked_where_others_read_the_state(understood: None) -> None:
    """What it makes of a variable tensor it does not tell."""
    file = with_state()
    alone = read_tflite(file.bytes())
    assert judges.micro_misses(alone, alone.operators[1]) is None
    reader = Op("MYSTERY", (6,), (10,))
    shared = replace(file, tensors=[*file.tensors, T("seen", (1, 12))], operators=[*file.operators, reader])
    graph = read_tflite(replace(shared, outputs=(9, 10)).bytes())
    assert graph.operators[3].inputs == (graph.variables[0].after,)
    assert "what others do to its state" in str(judges.micro_misses(graph, graph.operators[1]))
    handed_out = read_tflite(replace(file, outputs=(9, 6)).bytes())
    assert handed_out.handed_out == (9, handed_out.variables[0].after)
    assert judges.micro_misses(handed_out, handed_out.operators[1]) is not None


def test_a_file_of_another_compiler_keeps_its_state() -> None:
    """Vela unrolls an LSTM, whose variable tensors its commands read and write."""
    pytest.importorskip("ai_edge_litert")
    model = (models_folder() / "micro_speech_lstm.tflite").read_bytes()
    check = on_file(read_tflite(vela_file(model)), read_tflite(model), 1)
    assert check.ok and check.runs == 3
