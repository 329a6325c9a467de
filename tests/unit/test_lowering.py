"""Lowering: what each family says it can do, in words, and the operations it makes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import (
    Activation,
    DType,
    Operator,
    Window,
)
from ethoscade.ir.quantised import scale_of
from ethoscade.judge.reference.pooling import mean_multiplier
from ethoscade.lowering import lower, support
from ethoscade.lowering.npu import NpuOperation, OperationKind, Upscale, tables_of
from ethoscade.pipeline.partition import partition
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import random_network
from graphs import GraphMaker, same

ACCELERATOR = ACCELERATORS["ethos-u55-256"]


def only_operation(maker: GraphMaker) -> NpuOperation:
    graph = maker.graph()
    found = partition(graph, ACCELERATOR)
    assert [p.reason for p in found.assignments] == [""]
    (operation,) = lower(graph, found).operations
    return operation


def test_convolution_stage() -> None:
    maker = GraphMaker()
    maker.conv(maker.input((1, 8, 6, 5)), 7, same(8, 6, (3, 3), 2), Activation.RELU6)
    operation = only_operation(maker)
    assert operation.kind is OperationKind.CONVOLUTION
    assert operation.ofm.shape == (4, 3, 7)
    assert operation.weights is not None and operation.weights.values.shape == (7, 3, 3, 5)
    zero = operation.ofm.zero_point
    assert operation.clamp == (zero, min(127, zero + round(6 / scale_of(maker.tensors[-1]))))


def test_depthwise_of_one_channel_becomes_a_convolution() -> None:
    maker = GraphMaker()
    maker.depthwise(maker.input((1, 8, 6, 1)), same(8, 6, (3, 3)), multiplier=8)
    operation = only_operation(maker)
    assert operation.kind is OperationKind.CONVOLUTION
    assert operation.weights is not None and operation.weights.values.shape == (8, 3, 3, 1)


def test_fully_connected_takes_rows_as_height() -> None:
    maker = GraphMaker()
    maker.fully_connected(maker.input((3, 4, 5)), 6, rows=3)
    operation = only_operation(maker)
    assert operation.inputs[0].shape == (3, 1, 20)
    assert operation.ofm.shape == (3, 1, 6)


def views_of(maker: GraphMaker) -> list[tuple[tuple[int, ...], ...]]:
    """Shapes of what each operation reads, and of what it makes."""
    graph = maker.graph()
    operations = lower(graph, partition(graph, ACCELERATOR)).operations
    return [(*(view.shape for view in operation.inputs), operation.ofm.shape) for operation in operations]


@pytest.mark.parametrize("keep_num_dims", [True, False])
def test_fully_connected_over_the_pixels_of_an_image_sees_the_image(keep_num_dims: bool) -> None:
    """Whoever makes its input and reads its output sees them as it does. Without kept dimensions its readers do not."""
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 6, 5, 3)), 4, Window(1, 1))
    y = maker.fully_connected(x, 7, rows=30, shape=(1, 6, 5, 7) if keep_num_dims else None, keep=keep_num_dims)
    maker.quantize(y)
    first, second, third = views_of(maker)
    assert (first[-1], second) == ((6, 5, 4), ((6, 5, 4), (6, 5, 7)))
    assert third[0] == ((6, 5, 7) if keep_num_dims else (30, 1, 7))


def test_fully_connected_takes_the_shape_of_its_output_where_its_input_has_another() -> None:
    """As a reshape behind it that was folded leaves it."""
    maker = GraphMaker()
    maker.fully_connected(maker.input((2, 3, 5, 4)), 7, rows=6, shape=(1, 2, 3, 7))
    assert views_of(maker) == [((2, 3, 20), (2, 3, 7))]


def test_matrices_are_seen_alike_by_all() -> None:
    maker = GraphMaker()
    x = maker.fully_connected(maker.input((6, 8)), 5, rows=6)
    left, right = maker.split(maker.add(maker.quantize(x), maker.quantize(x)), (2, 3), axis=1)
    maker.fully_connected(maker.concatenate([left, right, left], axis=1), 4, rows=6)
    assert {shape[:2] for shapes in views_of(maker) for shape in shapes} == {(6, 1)}


def test_mean_multiplier_agrees_with_the_reference() -> None:
    maker = GraphMaker()
    x = maker.input((1, 7, 9, 4))
    maker.mean(x)
    operation = only_operation(maker)
    assert operation.kind is OperationKind.DEPTHWISE
    assert operation.weights is not None
    significand, shift = mean_multiplier(*(scale_of(tensor) for tensor in maker.tensors), 63)
    assert (operation.weights.multipliers[0], operation.weights.shifts[0]) == (significand, 31 - shift)
    assert np.all(operation.weights.values == 1)


def test_global_pool_with_a_large_stride_stays_on_the_npu() -> None:
    maker = GraphMaker()
    maker.pool("AVERAGE_POOL_2D", maker.input((1, 7, 7, 8)), Window(7, 7, 7, 7))
    assert only_operation(maker).window == Window(7, 7)


def test_dropping_a_stride_keeps_one_window() -> None:
    maker = GraphMaker()
    maker.pool("MAX_POOL_2D", maker.input((1, 8, 8, 8)), Window(5, 5, 5, 5))
    operation = only_operation(maker)
    assert (operation.ofm.shape, operation.window) == ((1, 1, 8), Window(5, 5))


def test_output_of_another_shape_is_seen_naturally() -> None:
    maker = GraphMaker()
    maker.conv(maker.input((1, 4, 4, 3)), 5, Window(1, 1), shape=(1, 80))
    assert only_operation(maker).ofm.shape == (4, 4, 5)


def test_quantize_changes_the_type() -> None:
    maker = GraphMaker()
    maker.quantize(maker.input((2, 5)), DType.UINT8)
    operation = only_operation(maker)
    assert (operation.kind, operation.window) == (OperationKind.AVERAGE_POOL, Window(1, 1))
    assert (operation.inputs[0].dtype, operation.ofm.dtype) == (DType.INT8, DType.UINT8)
    assert operation.ofm.shape == (2, 1, 5)


def test_opaque_operators_keep_their_reason() -> None:
    maker = GraphMaker()
    maker.quantize(maker.input((1, 4)))
    graph = maker.graph()
    op: Operator = dataclasses.replace(graph.operators[0], opaque="its options are unknown")
    assert support(graph, op, ACCELERATOR) == "its options are unknown"


def test_mean_of_a_single_column_axis() -> None:
    maker = GraphMaker()
    maker.mean(maker.input((1, 9, 4, 8)), (1,))
    operation = only_operation(maker)
    assert (operation.ofm.shape, operation.window) == ((1, 4, 8), Window(9, 1))


def test_pieces_of_a_split_that_nobody_reads_are_not_made() -> None:
    maker = GraphMaker()
    pieces = maker.split(maker.input((1, 4, 6, 30)), (16, 4, 10))
    graph = maker.graph([pieces[0], maker.quantize(pieces[2])])
    first, last, _ = lower(graph, partition(graph, ACCELERATOR)).operations
    assert (first.ofm.tensor.graph_tensor, last.ofm.tensor.graph_tensor) == (pieces[0], pieces[2])
    assert (last.inputs[0].shape, last.inputs[0].channels) == ((4, 6, 10), (20, 30))
    assert last.propagators()[0].offset == (0, 0, 0, 20)


@pytest.mark.parametrize(
    ("before", "after", "half_pixel", "doublings"),
    [
        ((4, 5), (8, 10), False, 1),
        ((4, 5), (8, 10), True, 1),
        ((4, 5), (7, 9), False, 1),
        ((4, 5), (16, 20), False, 2),
        ((3, 3), (23, 24), False, 3),
        ((1, 5), (1, 20), True, 2),
        ((4, 5), (4, 5), True, 0),
    ],
)
def test_a_resize_doubles_by_way_of_temporaries(
    before: tuple[int, int], after: tuple[int, int], half_pixel: bool, doublings: int
) -> None:
    maker = GraphMaker()
    maker.resize(maker.input((1, *before, 6)), after, half_pixel=half_pixel)
    graph = maker.graph()
    npu = lower(graph, partition(graph, ACCELERATOR))
    assert len(npu.operations) == max(doublings, 1)
    assert all(o.upscale is (Upscale.NEAREST if doublings else Upscale.NONE) for o in npu.operations)
    between = [tensor for tensor in npu.tensors if tensor.graph_tensor is None]
    assert [t.name for t in between] == [
        f"temporary {i + 1} of 'resize_nearest_neighbor0'" for i in range(max(doublings, 1) - 1)
    ]
    assert [o.ofm.tensor for o in npu.operations[:-1]] == between == [o.ifm.tensor for o in npu.operations[1:]]
    left = range(len(npu.operations))[::-1]
    assert [o.ofm.shape[:2] for o in npu.operations] == [(-(-after[0] >> n), -(-after[1] >> n)) for n in left]


def test_a_softmax_is_one_table_and_arithmetic_on_32_bits() -> None:
    maker = GraphMaker()
    maker.softmax(maker.input((2, 3, 10)))
    graph = maker.graph()
    npu = lower(graph, partition(graph, ACCELERATOR))
    first, second, *_, last = npu.operations
    assert (first.kind, first.ifm.shape, first.window) == (OperationKind.MAX_POOL, (6, 10, 1), Window(1, 10))
    assert (second.kind, second.broadcast, second.clamp) == (OperationKind.SUB, (False, False, True), (-128, 127))
    assert tables_of(npu.operations) == (second.function,)
    assert tables_of(npu.operations)[0].size_bytes == 1024
    assert {o.ofm.dtype for o in npu.operations[1:-1]} == {DType.INT32}
    assert {t.pool for t in npu.tensors} == {"arena"} and {o.operator for o in npu.operations} == {0}
    assert (last.kind, last.ofm.shape, last.ofm.zero_point) == (OperationKind.SHR, (2, 3, 10), -128)
    read = {view.tensor for operation in npu.operations for view in operation.inputs}
    assert set(npu.tensors) - read == {last.ofm.tensor}


def test_each_input_of_a_concatenation_is_a_stage() -> None:
    maker = GraphMaker()
    parts = [maker.input((1, 4, 6, depth)) for depth in (3, 16)]
    out = maker.concatenate(parts)
    graph = maker.graph()
    operations = lower(graph, partition(graph, ACCELERATOR)).operations
    assert [operation.ifm.tensor.graph_tensor for operation in operations] == parts
    assert [(o.ofm.tensor.graph_tensor, o.ofm.channels) for o in operations] == [(out, (0, 19)), (out, (3, 19))]


@pytest.mark.parametrize("seed", range(12))
def test_expressions_begin_at_the_channel_that_views_begin_with(seed: int) -> None:
    graph = read_tflite(random_network(seed))
    for operation in lower(graph, partition(graph, ACCELERATOR)).operations:
        # A number that is an operand is read without a view.
        for view, read in zip(operation.inputs, operation.compute.reads, strict=False):
            assert read.indices[3].constant == view.first_channel


def test_groups_begin_where_those_before_end() -> None:
    """Two of 8 channels each are made together."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 6, 5, 24)), 48, Window(1, 1), groups=3)
    graph = maker.graph()
    operations = lower(graph, partition(graph, ACCELERATOR)).operations
    assert [operation.ifm.first_channel for operation in operations] == [0, 16]
    assert [operation.compute.reads[0].indices[3].constant for operation in operations] == [0, 16]
