"""Written .tflite files: read back by the frontend, run by LiteRT where no NPU is needed, laid out as devices need."""

from __future__ import annotations

from dataclasses import replace

import flatbuffers
import numpy as np
import pytest
import tflite as schema
from codegen_support import artifact_of_compiled, cpu_artifact, litert, models_folder, random_inputs, vela_artifact
from ethoscade.codegen import tflite
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.errors import CodegenError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.testing import ModelBuilder, tiny_conv
from reference_support import played_by_litert

REAL = (
    "ad01_int8",
    "hello_world_int8",
    "kws_ref_int8",
    "micro_speech",
    "mobilenet_v1_0.25_128_uint8",
    "mobilenet_v1_1.0_224_int8_rand",
    "mobilenet_v2_1.0_224_ptq",
    "person_detect",
    "resnet8_int8",
    "vww_96_int8",
)


def same_tensor(left: Graph, a: int, right: Graph, b: int) -> None:
    x, y = left.tensors[a], right.tensors[b]
    assert (x.name, x.shape, x.dtype, x.quantisation) == (y.name, y.shape, y.dtype, y.quantisation)


@pytest.mark.parametrize("name", REAL)
def test_cpu_operators_are_carried_over_whole(name: str) -> None:
    """A real model whose operators all stay on the CPU computes in LiteRT what the original computes."""
    model = (models_folder() / f"{name}.tflite").read_bytes()
    graph = read_tflite(model, "net")
    written = tflite.write(cpu_artifact(model))
    again = read_tflite(written, "net")
    assert [op.kind for op in again.operators] == [op.kind for op in graph.operators]
    assert [op.attrs for op in again.operators] == [op.attrs for op in graph.operators]
    for a, b in zip((*graph.inputs, *graph.outputs), (*again.inputs, *again.outputs), strict=True):
        same_tensor(graph, a, again, b)
    if name == "person_detect":
        return  # LiteRT refuses the original as well: its biases name a quantised dimension that they do not have.
    inputs = random_inputs(graph)
    # LiteRT's reference kernels abort the process on one of these models, so both sides run the optimised ones.
    expected, found = (litert(data, inputs, "BUILTIN_WITHOUT_DEFAULT_DELEGATES") for data in (model, written))
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values)


@pytest.mark.parametrize("seed", range(5))
def test_random_networks_are_carried_over(seed: int) -> None:
    model = played_by_litert(seed)
    inputs = random_inputs(read_tflite(model, "net"), seed)
    try:
        expected = litert(model, inputs)
    except RuntimeError as error:
        # The oldest LiteRT that is promised has fewer kernels.
        if "failed to prepare" not in str(error):
            raise
        pytest.skip(f"this LiteRT cannot play the network: {error}")
    found = litert(tflite.write(cpu_artifact(model)), inputs)
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values)


def test_tensorflow_lite_micro_follows_the_plan(capfd: pytest.CaptureFixture[str]) -> None:
    """Its interpreter computes the same and uses exactly the arena that the file plans."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    model = (models_folder() / "kws_ref_int8.tflite").read_bytes()
    artifact = cpu_artifact(model)
    value = next(iter(random_inputs(artifact.graph).values()))
    outputs = []
    for data in (model, tflite.write(artifact)):
        interpreter = runtime.Interpreter.from_bytes(data)
        interpreter.set_input(value, 0)
        interpreter.invoke()
        outputs.append(interpreter.get_output(0))
    np.testing.assert_array_equal(*outputs)
    interpreter.print_allocations()
    assert f"allocation head {artifact.arena_bytes} bytes" in "".join(capfd.readouterr())


def test_custom_operators_keep_code_and_options() -> None:
    """A file that Vela compiled, treated as a model: its custom operator must come through unharmed."""
    source = vela_artifact(tiny_conv()).graph
    artifact = Artifact("net", "x", source, (CpuCall(0),), b"", 1 << 20, dict.fromkeys(range(len(source.tensors)), 0))
    again = read_tflite(tflite.write(artifact), "net")
    assert again.operators[0].kind == "ethos-u"
    operator = schema.Model.GetRootAs(again.source, 0).Subgraphs(0).Operators(0)
    assert operator.CustomOptionsAsNumpy().tolist() == [1, 4, 1]


def test_npu_call() -> None:
    artifact = vela_artifact(tiny_conv())
    written = tflite.write(artifact)
    again = read_tflite(written, "net")
    back = artifact_of_compiled(again)
    assert [op.kind for op in again.operators] == ["ethos-u"]
    assert back.calls[0].payload == artifact.calls[0].payload
    assert back.constants == artifact.constants
    assert back.arena_bytes == artifact.arena_bytes
    for a, b in zip((*artifact.graph.inputs, *artifact.graph.outputs), (*again.inputs, *again.outputs), strict=True):
        same_tensor(artifact.graph, a, again, b)
        assert artifact.offsets[a] == back.offsets[b]
    operator = schema.Model.GetRootAs(written, 0).Subgraphs(0).Operators(0)
    assert operator.Inputs(2) == operator.Inputs(3)
    assert operator.CustomOptionsAsNumpy().tolist() == [1, 4, 1]


def test_metadata_is_what_vela_writes() -> None:
    artifact = vela_artifact(tiny_conv())
    again = read_tflite(tflite.write(artifact), "net")
    ours, theirs = (
        np.frombuffer(graph.metadata["OfflineMemoryAllocation"], np.int32) for graph in (again, artifact.graph)
    )
    assert ours.tolist() == theirs.tolist()


def test_buffers_lie_on_16_byte_boundaries() -> None:
    written = tflite.write(vela_artifact(tiny_conv()))
    model = schema.Model.GetRootAs(written, 0)
    starts = []
    for index in range(model.BuffersLength()):
        buffer = model.Buffers(index)
        if buffer.DataLength():
            starts.append(buffer._tab.Vector(buffer._tab.Offset(4)))
    assert len(starts) == 3
    assert all(start % 16 == 0 for start in starts)


def test_several_calls_share_buffers() -> None:
    artifact = vela_artifact(tiny_conv())
    call = artifact.calls[0]
    outputs = (replace(call, name="again"), call)
    model = schema.Model.GetRootAs(tflite.write(replace(artifact, calls=outputs)), 0)
    payloads = [i for i in range(model.BuffersLength()) if model.Buffers(i).DataLength() == len(call.payload)]
    assert len(payloads) == 1
    assert model.OperatorCodesLength() == 1
    assert model.Subgraphs(0).OperatorsLength() == 2


def test_the_same_bytes_every_time() -> None:
    artifact = vela_artifact(tiny_conv())
    assert tflite.write(artifact) == tflite.write(artifact)


def test_room_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing would take twice the file's bytes, beside the file."""
    few = vela_artifact(tiny_conv())
    names = tuple(f"layer {i}" for i in range(2000))
    many = replace(few, calls=tuple(replace(call, operators=names) for call in few.calls))
    b = ModelBuilder()
    x = b.input((1, 8))
    for _ in range(200):
        x = b.softmax(x)
    long = cpu_artifact(b.build())
    made: list[tuple[flatbuffers.Builder, int]] = []

    class Watched(flatbuffers.Builder):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__(size)
            made.append((self, len(self.Bytes)))

    monkeypatch.setattr(flatbuffers, "Builder", Watched)
    for artifact in (few, many, long):
        tflite.write(artifact)
    assert len(made) == 3
    assert all(len(builder.Bytes) == size for builder, size in made)


def test_operators_of_our_own_making_are_refused() -> None:
    b = ModelBuilder()
    b.softmax(b.input((1, 8)), name="end")
    artifact = cpu_artifact(b.build())
    made = replace(artifact.graph.operators[0], source_index=None)
    with pytest.raises(CodegenError, match=r"SOFTMAX.*made during compilation"):
        tflite.write(replace(artifact, graph=replace(artifact.graph, operators=(made,))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arena_bytes": 40}, "not a multiple of 16"),
        ({"arena_bytes": 16}, "of an arena of 16"),
        ({"offsets": {0: 0}}, "no place in the arena"),
        ({"offsets": {0: 8, 1: 32}}, "not a multiple of 16"),
        ({"constants": b"123"}, "3 bytes"),
    ],
)
def test_layouts_that_a_device_would_refuse(change: dict[str, object], message: str) -> None:
    b = ModelBuilder()
    b.softmax(b.input((1, 20)))
    with pytest.raises(CodegenError, match=message):
        tflite.write(replace(cpu_artifact(b.build()), **change))
