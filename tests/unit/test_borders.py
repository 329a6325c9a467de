"""Float at the borders: what is cut off, what writes over its input, and that every way of running it agrees."""

from __future__ import annotations

import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from command_line_support import Capture, run_json
from end_to_end import carry_out, network_of
from ethoscade.codegen import c_source, layout
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.errors import CodegenError, ConfigError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Operator, Quantisation, Tensor
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.pipeline import borders
from ethoscade.report import summary
from ethoscade.run import host_c
from ethoscade.run.execution import run_artifact, run_tflite
from ethoscade.scheduling import schedule as scheduling
from ethoscade.testing import ModelBuilder
from reference_support import litert_values, needs_litert
from replay import check_placed

EIGHT_BIT = pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])


def framed(dtype: DType = DType.INT8, inputs: int = 1, shape: tuple[int, ...] = (1, 12, 12, 3)) -> bytes:
    """A convolution network between float inputs, which are added, and one float output."""
    b = ModelBuilder(dtype=dtype)
    given = [b.quantize(b.input(shape, dtype=DType.FLOAT32, name=f"x{i}"), name=f"q{i}") for i in range(inputs)]
    x = given[0]
    for other in given[1:]:
        x = b.add(x, other)
    b.output(b.dequantize(b.conv2d(b.conv2d(x, 4, stride=2), 8)))
    return b.build()


def uneven() -> bytes:
    """An input that a QUANTIZE and another operator read, one that is int8 anyway, and two kinds of outputs."""
    b = ModelBuilder()
    real, stored = b.input((1, 6, 6, 4), dtype=DType.FLOAT32, name="real"), b.input((1, 6, 6, 4), name="stored")
    twice = b.input((1, 6, 6, 4), dtype=DType.FLOAT32, name="twice")
    x = b.add(b.add(b.quantize(real), stored), b.quantize(twice))
    y = b.conv2d(b.add(x, b.quantize(twice)), 4)
    b.output(y, b.dequantize(y), b.dequantize(b.max_pool(y, 2)))
    return b.build()


def overlaid(artifact: Artifact) -> list[str]:
    """The conversions on the CPU whose output lies over their input's bytes, by kind."""
    offsets, graph = artifact.offsets, artifact.graph
    found = []
    for op in (graph.operators[call.operator] for call in artifact.calls if isinstance(call, CpuCall)):
        source, target = op.input(0), op.outputs[0]
        ends = [offsets[t] + graph.tensors[t].size_bytes for t in (source, target)]
        if "QUANTIZE" in op.kind and max(offsets[source], offsets[target]) < min(ends):
            found.append(op.kind)
    return found


@EIGHT_BIT
def test_the_interface_is_the_quantised_tensor(dtype: DType, tmp_path: Path) -> None:
    model = framed(dtype)
    compiled = ethoscade.compile(model, io="int8", optimise="size")
    given, made = compiled.interface
    source = read_tflite(model)
    inside, outside = (
        source.tensors[t].quantisation for t in (source.operators[0].outputs[0], source.operators[-1].input(0))
    )
    assert inside is not None
    assert outside is not None
    assert (given.name, given.is_input, given.dtype, given.shape) == ("x0", True, dtype.value, (1, 12, 12, 3))
    assert (given.size_bytes, given.scale, given.zero_point) == (432, inside.scale, inside.zero_point)
    assert (made.scale, made.zero_point, made.dtype) == (outside.scale, outside.zero_point, dtype.value)
    assert given.is_cut and made.is_cut and not given.reason
    assert {op.kind for op in compiled.operators} == {"CONV_2D"}
    check = compiled.verify(2)
    assert check.ok
    assert check.sram_touched_bytes == compiled.sram_bytes
    # The same in every file.
    written = read_tflite(compiled.save(tmp_path / "net.tflite"))
    tensor = written.tensors[written.inputs[0]]
    assert (tensor.name, tensor.dtype, tensor.quantisation) == ("x0", dtype, inside)
    text = c_source.sources(compiled.artifact)[c_source.header_name(compiled.artifact)]
    assert f"_X0_ZERO_POINT ({inside.zero_point})\n" in text
    (scale,) = [line.split()[-1] for line in text.splitlines() if "_X0_SCALE " in line]
    assert np.float32(scale.removesuffix("f")) == np.float32(inside.scale)
    with tarfile.open(compiled.write_mlf(tmp_path / "net.tar")) as archive:
        member = archive.extractfile("./metadata.json")
        assert member is not None
        (module,) = json.loads(member.read())["modules"].values()
    assert module["memory"]["functions"]["main"][0]["inputs"]["x0"] == {
        "size": 432, "dtype": dtype.value, "scale": inside.scale, "zero_point": inside.zero_point,
    }  # fmt: skip
    told = summary.compile_json(compiled, {})
    assert told["io"] == "int8"
    assert (told["inputs"][0]["scale"], told["outputs"][0]["float_in_file"]) == (inside.scale, True)
    assert f"scale {inside.scale:.9g}, zero point {inside.zero_point}; to quantise" in summary.compile_text(compiled)


def test_both_interfaces_compute_the_same() -> None:
    """What a caller makes of the int8 interface by the told scales is what the file computes."""
    model = framed()
    real, stored = (ethoscade.compile(model, io=io, optimise="size") for io in ("float", "int8"))
    x = random_inputs(real.source, 5)
    given, made = stored.interface
    assert given.scale is not None and given.zero_point is not None
    assert made.scale is not None and made.zero_point is not None
    q = np.clip(np.rint(x["x0"] / np.float32(given.scale)) + given.zero_point, -128, 127).astype(np.int8)
    found = stored.simulate({"x0": q}).outputs[made.name].astype(np.float64)
    wanted = real.simulate(x).outputs[made.name]
    np.testing.assert_array_equal((made.scale * (found - made.zero_point)).astype(np.float32), wanted)


@EIGHT_BIT
@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_float_input_costs_its_own_bytes_only(dtype: DType, inputs: int) -> None:
    compiled = ethoscade.compile(framed(dtype, inputs, (1, 24, 24, 3)), optimise="size")
    assert compiled.sram_bytes == inputs * 24 * 24 * 3 * 4
    assert compiled.live_bytes == compiled.sram_bytes
    check = compiled.verify(2)
    assert check.ok
    assert check.sram_touched_bytes == compiled.sram_bytes
    assert "QUANTIZE" in str(compiled.explain())


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u65-256"])
def test_every_point_is_what_is_compiled_and_run(accelerator: str) -> None:
    """Promised, placed and touched are the same between borders; a budget of a point gives that point."""
    model = framed(shape=(1, 20, 20, 3), inputs=2)
    curve = ethoscade.frontier(model, accelerator=accelerator)
    sizes = [size for size, _ in curve.points]
    assert sizes == sorted(set(sizes))
    assert [cycles for _, cycles in curve.points] == sorted({cycles for _, cycles in curve.points}, reverse=True)
    for size, cycles in curve.points:
        compiled = ethoscade.compile(model, accelerator=accelerator, sram=size)
        assert compiled.sram_bytes <= size
        assert compiled.cycles <= cycles
        assert compiled.verify(1).sram_touched_bytes == compiled.sram_bytes
    with pytest.raises(ethoscade.BudgetError) as info:
        ethoscade.compile(model, accelerator=accelerator, sram=sizes[0] - 16)
    assert info.value.floor_bytes == sizes[0]


def test_schedules_by_hand_have_borders_too() -> None:
    network = network_of(framed(inputs=2))
    outcome = carry_out(network, scheduling.uncascaded(network.problem))
    assert outcome.placed_bytes >= sum(network.graph.tensors[t].size_bytes for t in network.graph.inputs)


def within() -> bytes:
    """Two convolutions' results multiplied as floats, and a convolution of the product."""
    b = ModelBuilder()
    x = b.conv2d(b.input((1, 16, 16, 8)), 16, 3)
    y, z = (b.dequantize(b.conv2d(x, 16, kernel)) for kernel in (1, 3))
    product = b._plain("MUL", [y.index, z.index], y.shape, DType.FLOAT32, lambda: b._real(y) * b._real(z), {})
    b.output(b.conv2d(b.quantize(product), 8, 1))
    return b.build()


def test_conversions_inside_a_network_write_over_their_inputs() -> None:
    """Two float tensors are there at once, and the product is a third."""
    needs_litert()
    compiled = ethoscade.compile(within(), optimise="size")
    assert compiled.sram_bytes == 3 * 16 * 16 * 16 * 4
    assert "DEQUANTIZE" in overlaid(compiled.artifact)
    check_placed(network_of(within()), compiled.program, dict(enumerate(compiled.arrangement.offsets)))
    inputs = random_inputs(compiled.source, 1)
    expected = litert_values(compiled.source, inputs)
    in_c = host_c.run(compiled.artifact, inputs).outputs
    for tensor in compiled.source.outputs:
        np.testing.assert_array_equal(in_c[compiled.source.tensors[tensor].name], expected[tensor])


@EIGHT_BIT
def test_emitted_c_and_the_written_file_write_over_their_inputs(dtype: DType, tmp_path: Path) -> None:
    compiled = ethoscade.compile(framed(dtype, 2), optimise="size")
    assert len(overlaid(compiled.artifact)) >= 2
    inputs = random_inputs(compiled.source, 1)
    expected = compiled.simulate(inputs).outputs
    in_c = host_c.run(compiled.artifact, inputs)
    from_file = run_tflite(read_tflite(compiled.save(tmp_path / "net.tflite")), inputs)
    assert from_file.warnings == ()
    for name, wanted in expected.items():
        np.testing.assert_array_equal(in_c.outputs[name], wanted)
        np.testing.assert_array_equal(from_file.outputs[name], wanted)


def test_mixed_borders_say_why_they_stay() -> None:
    compiled = ethoscade.compile(uneven(), io="int8")
    told = {tensor.name: tensor for tensor in compiled.interface}
    assert told["real"].dtype == "int8" and told["real"].is_cut
    assert told["stored"].dtype == "int8" and not told["stored"].is_cut
    assert (told["twice"].dtype, told["twice"].reason) == ("float32", "2 QUANTIZE operators read it")
    kept, *others = [tensor for tensor in compiled.interface if not tensor.is_input and tensor.dtype == "float32"]
    assert "is an input or output itself" in kept.reason
    assert not others
    assert "it stays float: 2 QUANTIZE operators read it" in summary.compile_text(compiled)
    assert compiled.verify(1).ok
    assert ethoscade.compile(uneven()).verify(1).ok


def test_commands_that_search_or_look_are_told_of_the_interface(tmp_path: Path, capfd: Capture) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(framed())
    for io in borders.INTERFACES:
        found = run_json(["frontier", model, "--io", io], capfd)
        assert found["floor_bytes"] == ethoscade.frontier(model, io=io).floor_bytes
        looked = run_json(["check", model, "--io", io], capfd)
        assert looked["sram_bytes"] == ethoscade.check(model, io=io).sram_bytes
    assert ethoscade.check(model, io="int8").sram_bytes < ethoscade.check(model).sram_bytes


@pytest.mark.parametrize("io", ["int8", "float"])
def test_without_float_borders_nothing_changes(io: str) -> None:
    b = ModelBuilder()
    b.conv2d(b.input((1, 8, 8, 4)), 8)
    model = b.build()
    plain, asked = ethoscade.compile(model), ethoscade.compile(model, io=io)
    assert (plain.artifact.constants, plain.artifact.calls) == (asked.artifact.constants, asked.artifact.calls)
    assert not any(tensor.is_cut or tensor.reason for tensor in asked.interface)


@pytest.mark.parametrize("call", [ethoscade.compile, ethoscade.frontier])
def test_an_unknown_interface_is_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(ConfigError, match=r"io is 'uint4'; choose float .* or int8"):
        call(framed(), io="uint4")


# --- reasons, one graph each -----------------------------------------------------------------------------------------


def graph_of(operators: list[tuple[str, int, int]], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Graph:
    """Tensors 0 to 3 are float, 4 to 7 int8, 8 int8 by channel, 9 int16."""
    q = Quantisation((0.5,), (3,))
    tensors = [Tensor(f"f{i}", (1, 4), DType.FLOAT32) for i in range(4)]
    tensors += [Tensor(f"q{i}", (1, 4), DType.INT8, q) for i in range(4)]
    tensors.append(Tensor("channels", (1, 4), DType.INT8, Quantisation((0.5,) * 4, (0,) * 4, 1)))
    tensors.append(Tensor("wide", (1, 4), DType.INT16, Quantisation((0.5,), (0,))))
    made = tuple(Operator(kind, f"op{n}", (source,), (target,)) for n, (kind, source, target) in enumerate(operators))
    return Graph("net", tuple(tensors), made, inputs, outputs).verify()


@pytest.mark.parametrize(
    ("operators", "inputs", "outputs", "reason"),
    [
        ([("QUANTIZE", 0, 4), ("NEG", 0, 1)], (0,), (4, 1), r"operator 'op1' \(NEG\) reads it"),
        ([("NEG", 4, 5)], (0, 4), (5,), "no operator reads it"),
        ([("QUANTIZE", 0, 4), ("NEG", 4, 5)], (0,), (0, 5), "it is an output as well"),
        ([("QUANTIZE", 0, 4)], (0,), (4,), "'q0' is an input or output itself"),
        ([("QUANTIZE", 0, 8), ("NEG", 8, 5)], (0,), (5,), "'channels' has a scale for each channel"),
        ([("NEG", 4, 0)], (4,), (0,), r"operator 'op0' \(NEG\) makes it"),
        ([("NEG", 4, 5), ("DEQUANTIZE", 5, 0), ("NEG", 0, 1)], (4,), (0, 1), r"'op2' \(NEG\) reads it as well"),
        ([("NEG", 4, 5), ("DEQUANTIZE", 5, 0), ("DEQUANTIZE", 5, 1)], (4,), (0, 1), "'q1' is at another border"),
        ([("QUANTIZE", 0, 4), ("DEQUANTIZE", 4, 1)], (0,), (1,), "'q0' is at another border"),
    ],
)
def test_what_stays_float_says_why(
    operators: list[tuple[str, int, int]], inputs: tuple[int, ...], outputs: tuple[int, ...], reason: str
) -> None:
    found = borders.find(graph_of(operators, inputs, outputs))
    assert any(re.search(reason, told) for told in found.kept.values()), found.kept


def test_sixteen_bits_are_cut_but_not_overlaid() -> None:
    graph = graph_of([("QUANTIZE", 0, 9), ("NEG", 9, 4)], (0,), (4,))
    assert [border.inside for border in borders.find(graph).found] == [9]
    assert borders.overlaid(graph) == ()


def test_bytes_of_another_output_are_not_grown_over() -> None:
    """RESHAPE on the CPU gives the same bytes another shape: DEQUANTIZE must not write over them in place."""
    graph = graph_of([("NEG", 4, 5), ("RESHAPE", 5, 6), ("DEQUANTIZE", 6, 0)], (4,), (5, 0))
    assert len(borders.find(graph).found) == 1
    assert borders.overlaid(graph) == ()


# --- places ----------------------------------------------------------------------------------------------------------


def converting(kind: str, source: int, target: int, elements: int = 37) -> Artifact:
    """A QUANTIZE or DEQUANTIZE alone, its tensors at these bytes."""
    stored, real = (
        Tensor("q", (elements,), DType.INT8, Quantisation((0.25,), (-3,))),
        Tensor("f", (elements,), DType.FLOAT32),
    )
    tensors = (real, stored) if kind == "QUANTIZE" else (stored, real)
    graph = Graph("net", tensors, (Operator(kind, "convert", (0,), (1,)),), (0,), (1,))
    return Artifact("net", "ethos-u55-256", graph, (CpuCall(0),), b"", 512, {0: source, 1: target})


@pytest.mark.parametrize(
    ("kind", "source", "target", "fits"),
    [
        ("QUANTIZE", 0, 0, True),
        ("QUANTIZE", 48, 16, True),
        ("QUANTIZE", 16, 32, False),
        ("QUANTIZE", 0, 160, True),  # beyond the input's last byte
        ("DEQUANTIZE", 112, 0, True),  # 3 * 37 = 111 bytes on
        ("DEQUANTIZE", 96, 0, False),
        ("DEQUANTIZE", 0, 0, False),
        ("DEQUANTIZE", 16, 160, True),
    ],
)
def test_places_are_allowed_as_far_as_the_kernel_is_right(kind: str, source: int, target: int, fits: bool) -> None:
    """The emitted C on these very bytes decides; the check, the simulator and the writers say the same."""
    artifact = converting(kind, source, target)
    tensor = artifact.graph.tensors[0]
    x = random_inputs(artifact.graph, 0)["f" if kind == "QUANTIZE" else "q"] * (20 if kind == "QUANTIZE" else 1)
    x = x.astype(tensor.dtype.numpy)
    wanted = reference.run_operator(artifact.graph, 0, {0: x})[1]
    if fits:
        layout.verify(artifact)
        np.testing.assert_array_equal(
            host_c.run(artifact, {tensor.name: x}).outputs[artifact.graph.tensors[1].name], wanted
        )
        assert run_artifact(artifact, {tensor.name: x}).warnings == ()
    else:
        with pytest.raises(CodegenError, match="over its input"):
            layout.verify(artifact)
        (warning,) = run_artifact(artifact, {tensor.name: x}).warnings
        assert "which it has not read by then" in warning


@pytest.mark.parametrize("kind", ["QUANTIZE", "DEQUANTIZE"])
@pytest.mark.parametrize("elements", [1, 2, 3, 16, 61])
def test_the_distance_is_the_least_that_is_right(kind: str, elements: int) -> None:
    """Every pair of places, value by value as a loop from front to back does it."""
    artifact = converting(kind, 0, 0, elements)
    op, graph = artifact.graph.operators[0], artifact.graph
    read, written = (t.size_bytes // elements for t in graph.tensors)
    for source in range(4 * elements + 2):
        for target in range(4 * elements + 2):
            unread = [range(source + read * (i + 1), source + read * elements) for i in range(elements)]
            writes = [range(target + written * i, target + written * (i + 1)) for i in range(elements)]
            right = not any(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(unread, writes, strict=True))
            told = layout.overwritten(graph, op, {0: source, 1: target}) is None
            assert right or not told
            if told != right:
                # Two or three bytes beyond are right as well; the arena's grid has no such places.
                assert abs(source - target - layout.distance(graph, op)) < 4
    assert replace(artifact, offsets={0: 0, 1: 0}).graph is graph
