"""Compiled files with which something is wrong: run as TensorFlow Lite Micro would, and what is wrong is told.

Each is a file of ours, changed as Vela 5.2 writes some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ethoscade
import flatbuffers
import numpy as np
import pytest
from codegen_support import cpu_artifact
from command_line_support import Capture, one_sentence, run, run_json
from ethoscade.codegen import tflite as writer
from ethoscade.errors import ConfigError, ModelFormatError, SimulationError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Quantisation
from ethoscade.judge.verification import random_inputs, reference_outputs
from ethoscade.run.compiled_file import file_faults, maker_of
from ethoscade.run.execution import run_tflite, run_tflite_steps
from ethoscade.run.judgement import compare_file, on_file
from ethoscade.run.pairing import pairing_of
from ethoscade.testing import ModelBuilder
from flatbuffers import flexbuffers
from reference_support import needs_litert
from tflite_files import FLOAT32, File, Op, T

PLAN = b"OfflineMemoryAllocation"


def changed(file: bytes, change: Callable[[Any, Any], None]) -> bytes:
    """A file after `change` was made to its model and first subgraph, as LiteRT's own schema has them."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0))
    change(model, model.subgraphs[0])
    b = flatbuffers.Builder(len(file))
    b.Finish(model.Pack(b), b"TFL3")
    return bytes(b.Output())


def named(subgraph: Any, name: str) -> Any:
    return next(tensor for tensor in subgraph.tensors if tensor.name == name.encode())


def plan(model: Any) -> Any:
    """The buffer of a file's plan."""
    return model.buffers[next(entry.buffer for entry in model.metadata if entry.name == PLAN)]


@cache
def network() -> bytes:
    """The NPU's ADD, and an ADD of floats on the CPU."""
    real = {"type": FLOAT32, "scales": (), "zero_points": ()}
    shape, few = (1, 4, 4, 4), {"data": np.arange(4, dtype="<f4").tobytes()}
    return File(
        [
            T("input0", shape), T("input1", shape, **real), T("made", shape), T("real", shape, **real),
            T("sum", shape, **real), T("few", (4,), **real, **few), T("more", shape, **real),
        ],
        [
            Op("ADD", [0, 0], [2], "AddOptions"), Op("DEQUANTIZE", [2], [3]), Op("ADD", [3, 1], [6], "AddOptions"),
            Op("ADD", [6, 5], [4], "AddOptions"),
        ],
        [0, 1], [4],
    ).bytes()  # fmt: skip


@cache
def compiled() -> bytes:
    return writer.write(ethoscade.compile(network()).artifact)


def test_a_file_without_a_fault_has_none() -> None:
    needs_litert()
    file = read_tflite(compiled())
    assert file_faults(file) == () and maker_of(file) == "ethoscade's"
    check = compare_file(file, read_tflite(network()), [random_inputs(file, 0)])
    assert check.mismatches == 0 and check.elements == 64 and check.faults == ()
    assert maker_of(read_tflite(network())) == "another compiler's"


def test_a_constant_may_have_a_longer_buffer(tmp_path: Path, capfd: Capture) -> None:
    needs_litert()

    def longer(model: Any, subgraph: Any) -> None:
        operator = next(op for op in subgraph.operators if len(op.inputs) > 4)
        buffer = model.buffers[subgraph.tensors[operator.inputs[1]].buffer]
        buffer.data = np.append(np.asarray(buffer.data, np.uint8), np.full(7, 255, np.uint8))

    (tmp_path / "net.tflite").write_bytes(network())
    (tmp_path / "file.tflite").write_bytes(changed(compiled(), longer))
    both = [tmp_path / "file.tflite", "--reference", tmp_path / "net.tflite"]
    found = run_json(["simulate", *both], capfd)
    assert found["reference"]["mismatches"] == 0
    (fault,) = found["file_faults"]
    assert "its buffer has" in fault and "the first ones are taken" in fault
    status, out, _ = run(["simulate", *both], capfd)
    assert status == 0 and f"ethoscade's file is at fault: {fault}" in out
    status, out, _ = run(["verify", tmp_path / "net.tflite", "--artifact", tmp_path / "file.tflite"], capfd)
    assert status == 0 and f"ethoscade's file is at fault: {fault}" in out
    # Of a network's own file it is no fault: converters pad constants, too.
    read_tflite(changed(network(), lambda model, _: longer_weights(model)))


def longer_weights(model: Any) -> None:
    """A model that nobody has compiled is not taken so."""
    buffer = max((one for one in model.buffers if one.data is not None), key=lambda one: len(one.data))
    buffer.data = np.append(np.asarray(buffer.data, np.uint8), np.full(7, 255, np.uint8))


@pytest.mark.parametrize("shape", [[4, 4, 4], [1, 1, 4, 4, 4], [4, 4, 1, 4]])
def test_outputs_may_differ_by_extents_of_one(shape: Sequence[int]) -> None:
    needs_litert()
    source = read_tflite(network())
    file = read_tflite(changed(compiled(), lambda _, subgraph: setattr(named(subgraph, "sum"), "shape", shape)))
    check = compare_file(file, source, [random_inputs(file, 0)])
    assert check.mismatches == 0 and check.elements == 64
    assert check.faults == (f"'sum' is {list(shape)}, in the model [1, 4, 4, 4]",)
    assert on_file(file, source, 1).ok
    other = read_tflite(changed(compiled(), lambda _, subgraph: setattr(named(subgraph, "sum"), "shape", [1, 8, 2, 4])))
    with pytest.raises(ConfigError, match=r"was not compiled from 'model': it makes 'sum' float32\(1, 8, 2, 4\)"):
        pairing_of(other, source)


def test_inputs_may_be_renamed() -> None:
    needs_litert()

    def rename(_: Any, subgraph: Any) -> None:
        for number, index in enumerate(subgraph.inputs):
            subgraph.tensors[index].name = b"renamed_%d" % number

    source, file = read_tflite(network()), read_tflite(changed(compiled(), rename))
    steps = [random_inputs(file, 0)]
    assert set(steps[0]) == {"renamed_0", "renamed_1"}
    assert compare_file(file, source, steps).mismatches == 0
    assert on_file(file, source, 1).ok
    assert pairing_of(file, source).inputs == {"renamed_0": "input0", "renamed_1": "input1"}


def test_inputs_that_nobody_reads_may_be_dropped() -> None:
    needs_litert()
    b = ModelBuilder("net")
    unread, x = b.input((1, 4, 4, 3)), b.input((1, 4, 4, 3))
    b.conv2d(x, 4, 1, name="conv")
    source = read_tflite(b.build())
    whole = writer.write(ethoscade.compile(b.build()).artifact)
    assert read_tflite(whole).tensors[read_tflite(whole).given[0]].name == "input0"
    for names in ([b"input1"], [b"another"]):

        def drop(_: Any, subgraph: Any, names: Sequence[bytes] = names) -> None:
            subgraph.inputs = subgraph.inputs[1:]
            subgraph.tensors[subgraph.inputs[0]].name = names[0]

        file = read_tflite(changed(whole, drop))
        pairing = pairing_of(file, source)
        if names == [b"input1"]:
            assert (
                pairing.dropped == ("input0",) and pairing.faults[0] == "it has no input 'input0', which the model has"
            )
            assert compare_file(file, source, [random_inputs(file, 0)]).mismatches == 0
            assert on_file(file, source, 1).ok
    assert unread.shape == x.shape


def test_a_plan_may_be_for_more_tensors() -> None:
    """TensorFlow Lite Micro takes none but one for each: `GetOfflinePlannedOffsets` of micro_allocation_info.cc."""
    needs_litert()

    def more(model: Any, subgraph: Any, lost: str | None = None) -> None:
        words = np.frombuffer(bytes(bytearray(plan(model).data)), "<i4").copy()
        words[2] += 3
        if lost is not None:
            words[3 + subgraph.tensors.index(named(subgraph, lost))] = -1
        plan(model).data = np.frombuffer(np.append(words, [-1, 64, 0]).astype("<i4").tobytes(), np.uint8)

    file = read_tflite(changed(compiled(), more))
    inputs = random_inputs(file, 0)
    assert np.array_equal(
        run_tflite(file, inputs).outputs["sum"], run_tflite(read_tflite(compiled()), inputs).outputs["sum"]
    )
    (fault,) = file_faults(file)
    count = len(file.tensors)
    assert f"is for {count + 3} tensors, the file has {count}, which TensorFlow Lite Micro refuses" in fault
    lost = read_tflite(changed(compiled(), lambda model, subgraph: more(model, subgraph, "input0")))
    with pytest.raises(
        ModelFormatError, match=r"what operator '.*' reads or writes has no place in it; the file is at"
    ):
        run_tflite(lost, inputs)
    few = changed(compiled(), lambda model, _: setattr(plan(model), "data", plan(model).data[:-8]))
    with pytest.raises(ModelFormatError, match="the file has"):
        run_tflite(read_tflite(few), inputs)


def by_micro(model: bytes, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One output of a model for several values of its one input, one after the other."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter, found = runtime.Interpreter.from_bytes(model, arena_size=1 << 16), []
    for value in values:
        interpreter.set_input(value, 0)
        interpreter.invoke()
        found.append(np.array(interpreter.get_output(0)))
    return found


def kept(order: Sequence[str]) -> Callable[[Any, Any], None]:
    """Operators in another order: VAR_HANDLEs, then these kinds, `*` for all others as they are."""

    def change(model: Any, subgraph: Any) -> None:
        schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
        names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
        kinds = [names[model.operatorCodes[op.opcodeIndex].builtinCode] for op in subgraph.operators]
        special = ("VAR_HANDLE", "READ_VARIABLE", "CALL_ONCE", "ASSIGN_VARIABLE")
        groups = {kind: [op for op, k in zip(subgraph.operators, kinds, strict=True) if k == kind] for kind in special}
        groups["*"] = [op for op, k in zip(subgraph.operators, kinds, strict=True) if k not in special]
        subgraph.operators = [op for kind in ("VAR_HANDLE", *order) for op in groups[kind]]

    return change


ORDERS = {
    "read before it is set up": ("READ_VARIABLE", "CALL_ONCE", "*", "ASSIGN_VARIABLE"),
    "set up when all is done": ("READ_VARIABLE", "*", "ASSIGN_VARIABLE", "CALL_ONCE"),
}


@pytest.mark.parametrize("zero_point", [0, 5, -3])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_variables_run_in_the_order_of_the_file(order: Sequence[str], zero_point: int) -> None:
    """As TensorFlow Lite Micro itself does with a model in that order."""
    b = ModelBuilder("summed")
    quantisation = Quantisation((2.0 / 256,), (zero_point,))
    x = b.input((1, 2, 2, 8), quantisation=quantisation)
    total = b.variable(x.shape, quantisation, initial=np.full(x.shape, 9, np.int8))
    b.assign(total, b.add(total, x, output=quantisation, name="total"))
    model, change = b.build(), kept(order)
    steps = [{"input0": np.full(x.shape, 11 + step, np.int8)} for step in range(4)]
    alone = changed(writer.write(cpu_artifact(model)), change)
    wanted = by_micro(alone, [step["input0"] for step in steps])
    file = read_tflite(changed(writer.write(ethoscade.compile(model).artifact), change))
    assert "run in the file's order, as in TensorFlow Lite Micro" in file.faults[0]
    for _ in range(2):
        found = [next(iter(result.outputs.values())) for result in run_tflite_steps(file, steps)]
        assert [one.tolist() for one in found] == [one.tolist() for one in wanted], "after a reset each time"
    with pytest.raises((ModelFormatError, UnsupportedOperatorError)):
        read_tflite(alone)


def test_an_operator_that_contradicts_its_tensors_runs_where_a_runtime_runs_it() -> None:
    """Vela 5.2 leaves a MINIMUM an output of other dimensions, of as many elements."""
    needs_litert()
    source = read_tflite(network())

    def reshape(_: Any, subgraph: Any) -> None:
        for tensor in (named(subgraph, "more"),):
            tensor.shape = [1, 2, 2, 4, 4]

    file = read_tflite(changed(compiled(), reshape))
    assert "'more' (ADD) writes tensor 'more' of shape [1, 2, 2, 4, 4]; its inputs" in " ".join(file.faults)
    inputs = random_inputs(file, 0)
    names = [file.tensors[t].name for t in file.given]
    assert [inputs[name].shape for name in names] == [(1, 4, 4, 4), (1, 4, 4, 4)]
    flat = {
        name: value.reshape(source.tensors[t].shape)
        for t, (name, value) in zip(source.given, inputs.items(), strict=True)
    }
    found = run_tflite(file, inputs).outputs["sum"]
    assert np.array_equal(found, reference_outputs(source, flat).outputs["sum"])


def test_what_no_runtime_runs_is_named_and_the_file_is_blamed(tmp_path: Path, capfd: Capture) -> None:
    """Vela 5.2 drops the absent bias of an SVDF, which has 4 inputs then."""
    needs_litert()

    def drop(_: Any, subgraph: Any) -> None:
        end = next(op for op in subgraph.operators if subgraph.tensors[op.outputs[0]].name == b"sum")
        end.inputs = end.inputs[:1]

    (tmp_path / "net.tflite").write_bytes(network())
    (tmp_path / "file.tflite").write_bytes(changed(compiled(), drop))
    status, _, err = run(["simulate", tmp_path / "file.tflite"], capfd)
    assert status == 1 and "operator 'sum' (ADD of float32)" in err
    assert "ethoscade's file is at fault: operator 'sum' (ADD) has 1 input" in err
    one_sentence(err)


def test_a_program_that_no_npu_runs_is_the_files_fault() -> None:
    payload_at = compiled().index(b"COP1")
    cut = bytearray(compiled())
    cut[payload_at + 40 : payload_at + 44] = b"\xff\x7f\xff\x7f"
    file = read_tflite(bytes(cut))
    with pytest.raises(SimulationError, match=r"^NPU call '.*': command .*; the file is at fault, ethoscade's$"):
        run_tflite(file, random_inputs(file, 0))


def test_a_file_without_a_program_runs_on_the_cpu() -> None:
    """Vela's legacy core leaves a network to the CPU, and says where tensors lie."""
    model = network()
    file = read_tflite(writer.write(cpu_artifact(model)))
    check = compare_file(file, read_tflite(model), [random_inputs(file, 0)])
    assert check.mismatches == 0 and check.elements == 64


def test_detections_may_have_no_shapes() -> None:
    """As TensorFlow's object detection writes them; their kernel knows how many there are."""
    needs_litert()
    options = flexbuffers.Dumps({
        "max_detections": 3, "max_classes_per_detection": 1, "detections_per_class": 3, "use_regular_nms": False,
        "nms_score_threshold": 0.1, "nms_iou_threshold": 0.5, "num_classes": 2, "y_scale": 10.0, "x_scale": 10.0,
        "h_scale": 5.0, "w_scale": 5.0,
    })  # fmt: skip
    anchors = np.random.Generator(np.random.PCG64(0)).uniform(0.2, 0.8, (6, 4)).astype("<f4")
    real = {"type": FLOAT32, "scales": (), "zero_points": ()}
    file = File(
        [
            T("x", (1, 6, 4)), T("made", (1, 6, 4)), T("boxes", (1, 6, 4), **real), T("scores", (1, 6, 3), **real),
            T("anchors", (6, 4), FLOAT32, (), (), data=anchors.tobytes()),
            *(T(name, (), **real) for name in ("places", "classes", "found", "count")),
        ],
        [
            Op("ADD", [0, 0], [1], "AddOptions"), Op("DEQUANTIZE", [1], [2]),
            Op("TFLite_Detection_PostProcess", [2, 3, 4], [5, 6, 7, 8], custom=bytes(options)),
        ],
        [0, 3], [5, 6, 7, 8],
    ).bytes()  # fmt: skip
    source = read_tflite(file)
    compiled_file = read_tflite(writer.write(ethoscade.compile(file).artifact))
    inputs = random_inputs(compiled_file, 0)
    inputs["scores"] = np.abs(inputs["scores"])
    check = compare_file(compiled_file, source, [inputs])
    assert check.mismatches == 0 and check.elements == 12 + 3 + 3 + 1
