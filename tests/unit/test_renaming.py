"""Operators that only rename bytes: which of them the NPU has without an operation, and all names of such bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade import _core
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, StridedSliceAttrs, TransposeAttrs
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.lowering import aliases, support
from ethoscade.pipeline.partition import partition
from ethoscade.pipeline.renaming import renamed
from ethoscade.run import host_c
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from ethoscade.testing.flatfile import TENSOR_TYPES, OperatorRecord, TensorRecord, write_file
from graphs import GraphMaker
from hypothesis import given, settings
from hypothesis import strategies as st

ACCELERATOR = ACCELERATORS["ethos-u55-256"]


def leading(b: ModelBuilder) -> None:
    """A network input that is read in another shape alone."""
    b.output(b.conv2d(b.reshape(b.input((1, 64)), (1, 4, 4, 4)), 4))


def given_and_returned(b: ModelBuilder) -> None:
    """An output that is the input under another name, and is read on the NPU."""
    x = b.input((1, 8, 8, 4))
    b.output(b.reshape(x, (64, 4)), b.conv2d(x, 4), b.squeeze(x, (0,)))


def forked(b: ModelBuilder) -> None:
    """A tensor that is wanted in two shapes on the NPU, in bricks but for that."""
    x = b.conv2d(b.input((1, 8, 8, 16)), 32)
    b.output(b.depthwise(b.reshape(x, (1, 4, 16, 32)), 3), b.conv2d(x, 8))


def returned_thrice(b: ModelBuilder) -> None:
    """One buffer that leaves the network under three names."""
    x = b.conv2d(b.input((1, 8, 8, 16)), 16)
    b.output(b.reshape(x, (64, 16)), x, b.squeeze(x, (0,)))


def joined(b: ModelBuilder) -> None:
    """Other shapes before a CONCATENATION along another axis."""
    x = b.conv2d(b.input((1, 8, 8, 4)), 4)
    y = b.max_pool(x, 2, stride=2)
    rows = b.concatenate([b.reshape(x, (1, 64, 4)), b.reshape(y, (1, 16, 4))], axis=1)
    b.output(rows, b.conv2d(y, 4))


def in_a_row(b: ModelBuilder) -> None:
    """An axis taken off and put on again, and five dimensions, at three readers."""
    x = b.conv2d(b.input((1, 8, 8, 4)), 32)
    again = b.expand_dims(b.squeeze(x, (0,)), 0)
    b.output(b.depthwise(again, 3), b.reshape(x, (1, 2, 2, 16, 32)), b.max_pool(x, 2))


def behind_the_cpu(b: ModelBuilder) -> None:
    """Bytes of an operator on the CPU, which the NPU alone reads in another shape; and some for an operator there."""
    x = b.conv2d(b.input((1, 8, 8, 4)), 8)
    y = b.resize_nearest(b.reshape(x, (1, 4, 16, 8)), (6, 18))
    b.output(b.depthwise(b.reshape(y, (1, 18, 6, 8)), 3), b.max_pool(x, 2))


def moving_nothing(b: ModelBuilder) -> None:
    """PACK of one value, UNPACK to one, a TRANSPOSE of one row: mere reshapes, since their axes have extent 1."""
    x = b.conv2d(b.input((1, 6, 5, 4)), 8)
    packed = b.pack([b.reshape(x, (6, 5, 8))], axis=0)
    (bare,) = b.unpack(packed, 0)
    behind = b.transpose(packed, (1, 0, 2, 3))
    b.output(
        b.depthwise(packed, 3), b.max_pool(b.pack([bare], axis=0), 2), b.conv2d(x, 4), b.conv2d(behind, 4, 1), behind
    )


CASES: dict[str, Callable[[ModelBuilder], None]] = {
    case.__name__: case
    for case in (
        leading,
        given_and_returned,
        forked,
        returned_thrice,
        joined,
        in_a_row,
        behind_the_cpu,
        moving_nothing,
    )
}


def built(name: str, dtype: DType = DType.INT8) -> bytes:
    b = ModelBuilder(name, dtype=dtype)
    CASES[name](b)
    return b.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda d: d.value)
@pytest.mark.parametrize("name", CASES)
def test_renaming_takes_no_operation_and_is_exact(name: str, dtype: DType, tmp_path: Path) -> None:
    """In what is simulated and in the file, at the floor and at the fastest; promised is touched."""
    model = built(name, dtype)
    inputs = random_inputs(read_tflite(model), 0)
    expected = reference.run(read_tflite(model), inputs).outputs
    for optimise in ("performance", "size"):
        compiled = ethoscade.compile(model, optimise=optimise)
        if name != "behind_the_cpu":
            assert compiled.cpu_operators == () and len(compiled.artifact.calls) == 1
        else:
            assert {op.kind for op in compiled.cpu_operators} == {"RESIZE_NEAREST_NEIGHBOR"}
        stages = {compiled.npu.operations[step.stage].name for step in compiled.program.steps if hasattr(step, "stage")}
        assert stages.isdisjoint(compiled.source.tensors[t].name for t in compiled.npu.aliases)
        for found in (compiled.simulate(inputs), ethoscade.simulate(compiled.save(tmp_path / "model.tflite"), inputs)):
            assert found.arena_touched_bytes == compiled.sram_bytes and not found.warnings
            assert found.outputs.keys() == expected.keys()
            for output, value in expected.items():
                assert found.outputs[output].shape == value.shape
                np.testing.assert_array_equal(found.outputs[output], value)


@pytest.mark.parametrize("name", ["given_and_returned", "returned_thrice", "in_a_row"])
def test_all_names_of_one_buffer_are_one_place(name: str) -> None:
    compiled = ethoscade.compile(built(name))
    graph, offsets = compiled.artifact.graph, compiled.artifact.offsets
    shared = [t for t in graph.outputs if t in compiled.npu.aliases]
    assert shared
    for tensor in shared:
        assert offsets[tensor] == offsets[compiled.npu.aliases[tensor]]
    (call,) = compiled.artifact.calls
    assert isinstance(call, NpuCall) and set(call.outputs) == set(graph.outputs)


def test_what_the_cpu_makes_and_reads_is_renamed_by_a_call() -> None:
    """Nobody on the NPU has to do with these bytes, and the CPU is called anyway."""
    b = ModelBuilder("around")
    x, y = b.input((1, 8, 8, 4)), b.input((1, 4, 4, 2))
    b.output(b.reshape(x, (64, 4)), b.resize_nearest(y, (6, 5)))
    compiled = ethoscade.compile(b.build())
    operator = next(operator for operator in compiled.cpu_operators if operator.kind == "RESHAPE")
    assert "'input0' is given from outside" in operator.reason and "'reshape0' leaves the network" in operator.reason
    # The bytes stay where they are.
    assert compiled.sram_bytes == 256 + 32 + 64 and compiled.verify(1).ok


# A network of float32 alone is not quantised.
@pytest.mark.parametrize(
    "dtype", [dtype for dtype in TENSOR_TYPES if dtype is not DType.FLOAT32], ids=lambda d: d.value
)
def test_what_would_be_all_of_the_cpu_is_copied(dtype: DType) -> None:
    """From what is given to what is handed out, of any type: one of two names of the copy is another one's."""
    names = ("x", "flat", "other", "bare")
    shapes = ((1, 8, 6, 4), (48, 4), (1, 48, 1, 4), (48, 1, 4))
    tensors = [TensorRecord(name, shape, dtype) for name, shape in zip(names, shapes, strict=True)]
    operators = [
        OperatorRecord("RESHAPE", 1, (0,), (1,), "ReshapeOptions", {"NewShape": shapes[1]}),
        OperatorRecord("RESHAPE", 1, (1,), (2,), "ReshapeOptions", {"NewShape": shapes[2]}),
        OperatorRecord("SQUEEZE", 1, (2,), (3,), "SqueezeOptions", {"SqueezeDims": (0,)}),
    ]
    compiled = ethoscade.compile(write_file("names", tensors, operators, (0,), (3,)))
    assert compiled.cpu_operators == () and len(compiled.npu.operations) == 1
    size = 192 * dtype.size_bytes
    assert compiled.sram_bytes <= 2 * size
    given = np.random.default_rng(1).integers(0, 2, size, np.uint8).view(dtype.numpy).reshape(shapes[0])
    found = compiled.simulate({"x": given})
    assert found.outputs["bare"].tobytes() == given.tobytes() and not found.warnings


def test_a_copy_beside_others_leaves_nothing_to_the_cpu() -> None:
    b = ModelBuilder("beside")
    x, y = b.input((1, 8, 8, 4)), b.input((1, 4, 4, 2))
    b.output(b.conv2d(x, 8), b.reshape(y, (16, 2)))
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == () and len(compiled.artifact.calls) == 1 and compiled.verify(2).ok


def test_what_is_too_long_for_a_copy_is_renamed_by_a_call() -> None:
    maker = GraphMaker()
    graph = maker.graph([maker.op("RESHAPE", [maker.input((70000,))], maker.tensor((1, 70000)))])
    (place,) = partition(graph, ACCELERATOR).assignments
    assert place.where == "cpu" and "given from outside" in place.reason


def test_reasons_name_what_is_in_the_way() -> None:
    maker = GraphMaker()
    x = maker.input((1, 4, 4, 2))
    made = maker.op("MYSTERY", [x], maker.tensor((1, 4, 4, 2)))
    flat = maker.op("RESHAPE", [made], maker.tensor((16, 2)))
    fixed = maker.op("RESHAPE", [maker.constant(np.zeros((4,), np.int8), None, DType.INT8)], maker.tensor((2, 2)))
    read = maker.op("MYSTERY", [flat, fixed], maker.tensor((1,)))
    graph = maker.graph([read])
    assigned = zip(graph.operators, partition(graph, ACCELERATOR).assignments, strict=True)
    by_cpu, constant = (place.reason for op, place in assigned if op.kind == "RESHAPE")
    assert "made on the CPU by" in by_cpu and "is read by" in by_cpu
    assert "is a constant, of which it is a copy" in constant


def test_only_what_keeps_every_element_in_its_place_is_an_alias() -> None:
    maker = GraphMaker()
    x = maker.input((1, 4, 4, 2))

    def sliced(rows: tuple[int, int, int], channels: int) -> int:
        attrs = StridedSliceAttrs(((0, 1, 1), rows, (0, 4, 1), (0, channels, 1)))
        return maker.op("STRIDED_SLICE", [x], maker.tensor((1, 4, 4, channels)), attrs)

    half, turned, whole = sliced((0, 4, 1), 1), sliced((3, -1, -1), 2), sliced((0, 4, 1), 2)

    def transposed(*order: int) -> int:
        attrs = TransposeAttrs(order, (1, 4, 4, 2))
        return maker.op("TRANSPOSE", [x], maker.tensor([attrs.extents[axis] for axis in order]), attrs)

    transposed(1, 0, 2, 3), transposed(0, 2, 1, 3)
    graph = maker.graph([half, turned, whole])
    assert [aliases.source(graph, op) for op in graph.operators] == [None, None, x, x, None]
    assert aliases.root(graph, whole) == x and aliases.root(graph, turned) == turned


STEPS = st.lists(st.tuples(st.sampled_from(["npu", "cpu", "reshape"]), st.integers(0, 100)), min_size=1, max_size=9)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.lists(st.integers(0, 100), max_size=3))
def test_every_reader_knows_the_bytes_by_a_name_that_somebody_tells(
    steps: list[tuple[str, int]], outs: list[int]
) -> None:
    """The CPU never reads an alias whose bytes the NPU has not made, and aliases stand where they mean something."""
    maker = GraphMaker()
    shapes = ((1, 4, 4, 2), (1, 2, 8, 2))
    values = [maker.input(shapes[0])]
    for kind, which in steps:
        x = values[which % len(values)]
        shape = maker.tensors[x].shape
        if kind == "npu":
            values.append(maker.quantize(x))
        elif kind == "cpu":
            values.append(maker.op("MYSTERY", [x], maker.tensor(shape)))
        else:
            values.append(maker.op("RESHAPE", [x], maker.tensor(shapes[shape == shapes[0]])))
    graph = maker.graph(list(dict.fromkeys([values[-1], *(values[i % len(values)] for i in outs)])))
    divided = partition(graph, ACCELERATOR)
    assert sorted(divided.order) == list(range(len(graph.operators)))
    producer, place = graph.producer(), {op: number for number, op in enumerate(divided.order)}
    made_by_npu = {t for i in divided.npu_operators for t in graph.operators[i].outputs if t not in divided.aliases}
    for alias, root in divided.aliases.items():
        assert root not in divided.aliases and aliases.root(graph, alias) in (root, aliases.root(graph, root))
        near = place[producer[alias]]
        assert root not in producer or place[producer[root]] < near
        readers = graph.consumers().get(alias, ())
        assert all(near < place[reader] for reader in readers)
        if root not in made_by_npu:
            assert not set(readers) & set(divided.cpu_operators)
    # An alias alone starts no NPU.
    assert all(
        any(t not in divided.aliases for i in region.operators for t in graph.operators[i].outputs)
        for region in divided.regions
    )
    reasons = [support(graph, op, ACCELERATOR) for op in graph.operators]
    assert renamed(graph, reasons, range(len(graph.operators))).roots == {}


@pytest.mark.parametrize("name", ["given_and_returned", "returned_thrice", "behind_the_cpu"])
def test_the_c_sources_give_each_name_its_bytes(name: str) -> None:
    if not hasattr(ctypes.CDLL(str(_core.__file__)), "ethosu_invoke_v3"):
        pytest.skip("the built extension exports no Ethos-U driver")
    artifact = ethoscade.compile(built(name)).artifact
    inputs = random_inputs(artifact.graph, 0)
    found = host_c.run(artifact, inputs, runs=2)
    for output, value in reference.run(artifact.graph, inputs).outputs.items():
        np.testing.assert_array_equal(found.outputs[output].reshape(value.shape), value)
