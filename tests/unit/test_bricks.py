"""Which tensors lie in bricks of 16 channels, and that nobody but the NPU gets to see one."""

from __future__ import annotations

import dataclasses
import functools

import ethoscade
import pytest
from ethoscade import memory, testing
from ethoscade.codegen.artifact import CpuCall, NpuCall
from ethoscade.codegen.layout import touched_tensors
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Window
from ethoscade.lowering import lower
from ethoscade.lowering.feature_maps import FeatureMap, Layout
from ethoscade.lowering.npu import NpuGraph
from ethoscade.pipeline import compiler
from ethoscade.pipeline.partition import partition
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as schedules
from ethoscade.scheduling.bricks import lay_in_bricks
from ethoscade.scheduling.program import Arrangement
from ethoscade.targets.target import ACCELERATORS, load_target
from graphs import GraphMaker

U55 = ACCELERATORS["ethos-u55-256"]


def npu_of(graph: Graph) -> NpuGraph:
    return lower(graph, partition(graph, U55))


def layouts(graph: Graph, exposed: set[int] | None = None) -> dict[int, Layout]:
    """Layout by the graph's tensor; all views of a tensor have the same."""
    ends = {*graph.inputs, *graph.outputs} if exposed is None else exposed
    found: dict[int, Layout] = {}
    for operation in lay_in_bricks(npu_of(graph), ends).operations:
        for view in (*operation.inputs, operation.ofm):
            assert view.tensor.graph_tensor is not None
            assert found.setdefault(view.tensor.graph_tensor, view.layout) is view.layout
    return found


def in_bricks(graph: Graph, exposed: set[int] | None = None) -> set[int]:
    return {tensor for tensor, layout in layouts(graph, exposed).items() if layout is Layout.NHCWB16}


def test_tensors_between_npu_operations_lie_in_bricks() -> None:
    maker = GraphMaker()
    a = maker.conv(maker.input((1, 4, 6, 16)), 32, Window(1, 1))
    b = maker.depthwise(a, Window(1, 1))
    c = maker.add(a, b)
    maker.conv(c, 16, Window(1, 1))
    assert in_bricks(maker.graph()) == {a, b, c}


@pytest.mark.parametrize("channels", [8, 15, 24, 100])
def test_channels_that_leave_gaps_stay_pixel_by_pixel(channels: int) -> None:
    maker = GraphMaker()
    maker.conv(maker.conv(maker.input((1, 4, 6, 3)), channels, Window(1, 1)), 16, Window(1, 1))
    assert in_bricks(maker.graph()) == set()


def test_a_single_column_stays_pixel_by_pixel() -> None:
    maker = GraphMaker()
    wide = maker.conv(maker.input((1, 4, 6, 3)), 32, Window(1, 1))
    narrow = maker.pool("MAX_POOL_2D", wide, Window(1, 6))
    maker.conv(narrow, 32, Window(1, 1))
    assert in_bricks(maker.graph()) == {wide}


@pytest.mark.parametrize(
    ("dtype", "layouts"), [(DType.INT16, {Layout.NHWC, Layout.NHCWB16}), (DType.INT32, {Layout.NHWC})]
)
def test_elements_of_32_bits_stay_pixel_by_pixel(dtype: DType, layouts: set[Layout]) -> None:
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 4, 6, 16)), 32, Window(1, 1))
    maker.conv(x, 16, Window(1, 1))
    graph = maker.graph()
    npu = npu_of(graph)
    tensors = tuple(dataclasses.replace(tensor, dtype=dtype) for tensor in npu.tensors)

    def widened(view: FeatureMap) -> FeatureMap:
        return dataclasses.replace(view, tensor=tensors[view.tensor.id])

    wider = tuple(dataclasses.replace(o, ifm=widened(o.ifm), ofm=widened(o.ofm)) for o in npu.operations)
    laid = lay_in_bricks(NpuGraph(tensors, wider), {*graph.inputs, *graph.outputs}).operations
    assert {view.layout for operation in laid for view in (*operation.inputs, operation.ofm)} == layouts


def test_a_tensor_that_anyone_sees_as_another_shape_stays_pixel_by_pixel() -> None:
    """A fully connected operator reads 4 x 6 x 16 elements as one pixel; another reader does not change that."""
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 4, 6, 16)), 16, Window(1, 1))
    y = maker.depthwise(x, Window(1, 1))
    outputs = [maker.conv(x, 16, Window(1, 1)), maker.fully_connected(y, 5), maker.conv(y, 16, Window(1, 1))]
    assert in_bricks(maker.graph(outputs)) == {x}


def test_exposed_tensors_stay_pixel_by_pixel() -> None:
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 4, 6, 16)), 16, Window(1, 1))
    y = maker.depthwise(x, Window(1, 1))
    z = maker.conv(y, 16, Window(1, 1))
    graph = maker.graph([y, z])
    assert in_bricks(graph) == {x}
    assert in_bricks(graph, {x, *graph.inputs, *graph.outputs}) == set()


@pytest.mark.parametrize(("sizes", "bricks"), [((16, 32), True), ((32, 16), True), ((8, 40), False), ((40, 8), False)])
def test_pieces_that_begin_inside_a_brick_stay_pixel_by_pixel(sizes: tuple[int, int], bricks: bool) -> None:
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 4, 6, 16)), 48, Window(1, 1))
    pieces = maker.split(x, sizes)
    graph = maker.graph([maker.conv(piece, 16, Window(1, 1)) for piece in pieces])
    assert in_bricks(graph) == ({x, *pieces} if bricks else set())


@pytest.mark.parametrize(("depths", "bricks"), [((16, 32), True), ((16, 16, 16), True), ((8, 40), False)])
def test_inputs_that_are_joined_inside_a_brick_are_joined_pixel_by_pixel(depths: tuple[int, ...], bricks: bool) -> None:
    maker = GraphMaker()
    x = maker.input((1, 4, 6, 16))
    joined = maker.concatenate([maker.conv(x, depth, Window(1, 1)) for depth in depths])
    maker.conv(joined, 16, Window(1, 1))
    assert (joined in in_bricks(maker.graph())) == bricks


def shifted(b: testing.ModelBuilder, x: testing.Value) -> testing.Value:
    """A resize to the same size that takes each pixel for the one before it, and stays on the CPU."""
    return b.resize_nearest(x, (x.shape[1], x.shape[2]), align_corners=True, half_pixel_centers=True)


def across_a_cpu_operator() -> bytes:
    """x -> y -> a resize -> ADD with x: x is made and read by the NPU alone, but by two of its runs."""
    b = testing.ModelBuilder("across")
    x = b.conv2d(b.conv2d(b.input((1, 6, 8, 16)), 32, 3), 16, 3)
    y = b.depthwise(b.conv2d(x, 48, 1), 3)
    b.conv2d(b.conv2d(b.add(x, b.conv2d(shifted(b, y), 16, 1)), 32, 1), 16, 1)
    return b.build()


MODELS = {
    "across": across_a_cpu_operator,
    "residual": testing.residual_network,
    **{f"random {seed}": functools.partial(testing.random_network, seed) for seed in range(8)},
}


@pytest.mark.parametrize("model", MODELS)
def test_what_calls_read_and_write_lies_pixel_by_pixel(model: str) -> None:
    network = compiler.prepare(read_tflite(MODELS[model]()), load_target("ethos-u55-256"))
    proposal = explore(network.problem, 0).proposals[-1]
    program = schedules.arrange(network.problem, schedules.from_proposal(network.problem, proposal)).program
    placed = memory.place_program(program)
    artifact = compiler.emit(network, Arrangement(program, placed.offsets, placed.arena_bytes))
    views = [view for operation in network.npu.operations for view in (*operation.inputs, operation.ofm)]
    # Temporaries are nobody's but their operator's.
    bricks = {view.tensor.graph_tensor for view in views if view.layout is Layout.NHCWB16} - {None}
    assert bricks.isdisjoint(touched_tensors(artifact))
    stated = {network.problem.tensors[network.problem.ids[tensor]].layout for tensor in bricks}
    assert stated <= {Layout.NHCWB16.value}
    if model == "across":
        assert [type(call) for call in artifact.calls] == [NpuCall, CpuCall, NpuCall]
        assert len(bricks) == 5


def test_networks_in_bricks_are_exact_and_without_hazards() -> None:
    """Both runs around the CPU operator, with much and with little memory."""
    for optimise in ("performance", "size"):
        assert ethoscade.compile(across_a_cpu_operator(), optimise=optimise).verify(seeds=2).ok
