"""Lowering: what each family says it can do, in words, and the operations it makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from ethoscade.ir import (
    Activation,
    AddAttrs,
    ArgMaxAttrs,
    DType,
    FullyConnectedAttrs,
    Graph,
    Operator,
    PoolAttrs,
    Quantisation,
    ReductionAttrs,
    Window,
)
from ethoscade.judge.reference.pooling import mean_multiplier
from ethoscade.lowering import FAMILIES, lower, support
from ethoscade.lowering.constraints import Case, Constraint
from ethoscade.lowering.npu import NpuOperation, OperationKind, Upscale, tables_of
from ethoscade.lowering.resize import Doublings
from ethoscade.lowering.transpose_conv import SpreadStrides
from ethoscade.pipeline.partition import partition
from ethoscade.quantised import scale_of
from ethoscade.target import ACCELERATORS
from graphs import GraphMaker, same

ACCELERATOR = ACCELERATORS["ethos-u55-256"]


def only_operation(maker: GraphMaker) -> NpuOperation:
    graph = maker.graph()
    found = partition(graph, ACCELERATOR)
    assert [p.reason for p in found.assignments] == [""]
    (operation,) = lower(graph, found).operations
    return operation


def reason(maker: GraphMaker) -> str:
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATOR) or ""


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


def wide_stride(m: GraphMaker) -> None:
    m.conv(m.input((1, 20, 20, 3)), 4, Window(3, 3, 5, 4))


def tall_kernel(m: GraphMaker) -> None:
    m.depthwise(m.input((1, 80, 2, 3)), Window(65, 1))


def batch(m: GraphMaker) -> None:
    m.pool("MAX_POOL_2D", m.input((1, 4, 4, 8)), Window(2, 2))
    m.tensors[0] = dataclasses.replace(m.tensors[0], shape=(300, 4, 4, 8))


def far_multiplier(m: GraphMaker) -> None:
    m.depthwise(m.input((1, 20, 20, 3)), Window(3, 3, 4, 4), multiplier=2)


def fifths(m: GraphMaker) -> None:
    m.pool("MAX_POOL_2D", m.input((1, 20, 20, 3)), Window(5, 5, 5, 5))


def two_constants(m: GraphMaker) -> None:
    m.binary("SUB", m.values((1, 4, 4, 8)), m.values((1, 4, 4, 8)))


def repeated_here_and_there(m: GraphMaker) -> None:
    m.binary("MAXIMUM", m.input((30, 30, 30, 30, 4)), m.input((30, 1, 30, 1, 4)))


def slopes_of_a_constant(m: GraphMaker) -> None:
    m.binary("PRELU", m.values((1, 4, 4, 8)), m.input((8,)))


def large_squares(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((100.0,), (0,)))
    m.binary("SQUARED_DIFFERENCE", x, m.input((1, 4, 4, 8)))


def lost_operand(m: GraphMaker) -> None:
    m.binary("ADD", m.input((1, 4, 4, 8), Quantisation((1e-12,), (0,))), m.values((8,)))


def large_difference(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((1000.0,), (0,)))
    m.binary("SUB", x, m.input((1, 4, 4, 8)), q=Quantisation((0.001,), (0,)))


def large_product(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((1000.0,), (0,)))
    m.binary("MUL", x, x, q=Quantisation((0.001,), (0,)))


def rescaling_pool(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8))
    m.op("AVERAGE_POOL_2D", [x], m.tensor((1, 2, 2, 8)), PoolAttrs(Window(2, 2, 2, 2)))


def padded_average(m: GraphMaker) -> None:
    m.pool("AVERAGE_POOL_2D", m.input((1, 20, 20, 8)), same(20, 20, (9, 9)))


def long_mean(m: GraphMaker) -> None:
    m.mean(m.input((1, 5000, 4, 20)), (1,))


def alternating_mean(m: GraphMaker) -> None:
    m.mean(m.input((2, 3, 4, 5)), (0, 2))


def deep_arg_max(m: GraphMaker) -> None:
    m.arg_max(m.input((1, 4, 4, 129)))


def arg_max_of_rows(m: GraphMaker) -> None:
    x, out = m.input((1, 4, 5, 6)), m.tensor((1, 5, 6), dtype=DType.INT32)
    m.op("ARG_MAX", [x], out, ArgMaxAttrs(1))


def alternating_maximum(m: GraphMaker) -> None:
    m.extreme("REDUCE_MAX", m.input((2, 3, 4, 5)), (0, 2))


def wide_resize(m: GraphMaker) -> None:
    m.resize_bilinear(m.input((1, 4, 5, 6)), (12, 15))


def wide_type(m: GraphMaker) -> None:
    m.quantize(m.input((1, 4, 4, 8)), DType.INT32)


def zero_point_of_int16(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), dtype=DType.INT16)
    m.tensors[x] = dataclasses.replace(m.tensors[x], quantisation=Quantisation((0.25,), (7,)))
    m.quantize(x, DType.INT8)


def int16_layer(m: GraphMaker, result: float, bias: np.ndarray, weight: int = 1) -> None:
    """A FULLY_CONNECTED whose factor is the reciprocal of the output's scale."""
    one = Quantisation((1.0,), (0,))
    x = m.input((1, 4), one, DType.INT16)
    w = m.constant(np.full((2, 4), weight, np.int8), one, DType.INT8)
    b = m.constant(bias, None, DType(str(bias.dtype)))
    out = m.tensor((1, 2), Quantisation((result,), (0,)), DType.INT16)
    m.op("FULLY_CONNECTED", [x, w, b], out, FullyConnectedAttrs())


def wide_sums(m: GraphMaker) -> None:
    int16_layer(m, 2.0**40, np.array([(1 << 39) - 1, 0]))


def wide_results(m: GraphMaker) -> None:
    int16_layer(m, 2.0**-13, np.array([1 << 17, 0]))


def narrow_sums(m: GraphMaker) -> None:
    int16_layer(m, 1.0, np.array([(1 << 31) - 1, 0], np.int32))


def large_factor(m: GraphMaker) -> None:
    int16_layer(m, 2.0**-14, np.array([0, 0]))


def long_average(m: GraphMaker) -> None:
    m.pool("AVERAGE_POOL_2D", m.input((1, 128, 256, 1), dtype=DType.INT16), Window(128, 256))
    m.tensors[-1] = dataclasses.replace(m.tensors[-1], dtype=DType.INT16)


def unknown_kernel(m: GraphMaker) -> None:
    m.quantize(m.input((1, 4, 4, 8), dtype=DType.UINT8), DType.INT16)


def variable_weights(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 16)), 4)
    m.tensors[1] = dataclasses.replace(m.tensors[1], data=None)
    m.inputs.append(1)


def padding_alone(m: GraphMaker) -> None:
    m.conv(m.input((1, 8, 8, 3)), 4, Window(2, 2, pad_top=2))


def per_channel_input(m: GraphMaker) -> None:
    m.quantize(m.input((1, 1, 1, 2), Quantisation((0.1, 0.2), (0, 0), 3)))


def split_of_a_constant(m: GraphMaker) -> None:
    m.split(m.constant(np.zeros((1, 2, 2, 4), np.int8), Quantisation((0.1,), (0,)), DType.INT8), (2, 2))


def many_inputs(m: GraphMaker) -> None:
    m.concatenate([m.input((1, 4, 4, 1))] * 257)


def long_rows(m: GraphMaker) -> None:
    m.slice(m.input((140000,)), ((1, 139000, 1),))


def joined_constant(m: GraphMaker) -> None:
    x = m.input((1, 2, 2, 4))
    m.concatenate([x, m.constant(np.zeros((1, 2, 2, 4), np.int8), m.tensors[x].quantisation, DType.INT8)])


def logistic(m: GraphMaker) -> None:
    m.op("LOGISTIC", [m.input((1, 10))], m.tensor((1, 10), Quantisation((0.0625,), (0,))))


def vast_exponential(m: GraphMaker) -> None:
    m.op("EXP", [m.input((1, 10), Quantisation((1.0,), (-128,)))], m.tensor((1, 10)))


def coarse_swish(m: GraphMaker) -> None:
    out = m.tensor((1, 10), Quantisation((0.0078125,), (0,)))
    m.op("HARD_SWISH", [m.input((1, 10), Quantisation((1.0,), (0,)))], out)


def sine(m: GraphMaker) -> None:
    m.op("SIN", [m.input((1, 10))], m.tensor((1, 10)))


def pad(m: GraphMaker) -> None:
    m.op("PAD", [m.input((1, 4, 4, 2))], m.tensor((1, 6, 6, 2)))


def odd_end(m: GraphMaker) -> None:
    """The last column would be made of zeros between the pixels and of padding: alone in a stripe it reads nothing."""
    m.transpose_conv(m.input((1, 1, 13, 4)), 5, Window(2, 2, 2, 2), (2, 27))


REFUSED: list[tuple[Callable[[GraphMaker], None], str]] = [
    (wide_stride, "stride is 5x4; at most 3"),
    (tall_kernel, "kernel is 65x1; at most 64 rows"),
    (batch, "batch 300; at most 256"),
    (fifths, "stride is 5x5; at most 3 is possible, and products of 2 and 3"),
    (far_multiplier, "stride is 4x4; with groups of channels at most 3"),
    (rescaling_pool, "a pool does not rescale"),
    (padded_average, "at most 8x8"),
    (long_mean, "reduces axes (1,) of (1, 5000, 4, 20); windows of at most 64 rows and 4096 elements"),
    (alternating_mean, "more than three runs"),
    (alternating_maximum, "more than three runs"),
    (deep_arg_max, "129 channels; at most 128"),
    (arg_max_of_rows, "looks along axis 1 of 4; only the last one"),
    (wide_resize, "resizes 4x5 to 12x15 by corners"),
    (two_constants, "are both constants"),
    (repeated_here_and_there, "is repeated to (30, 30, 30, 30, 4), and it takes 900 copies or more; at most 256"),
    (slopes_of_a_constant, "is a constant"),
    (large_squares, "the factor from square to output is"),
    (lost_operand, "lie too far apart; a factor below 2^-32 is lost"),
    (large_difference, "kernels are defined below 1"),
    (large_product, "leave 32 bits"),
    (wide_type, "int32"),
    (zero_point_of_int16, "int16 with zero point 7; only 0 is possible"),
    (wide_sums, "leave the 40 bits"),
    (wide_results, "leave 32 bits"),
    (narrow_sums, "leave 32 bits"),
    (large_factor, "below 2^14 with int16"),
    (long_average, "averages of at most 32767"),
    (unknown_kernel, "no runtime has a kernel that turns uint8 into int16"),
    (variable_weights, "not constant"),
    (padding_alone, "in padding alone"),
    (odd_end, "the last of 27 columns sees none of the input's 13; at most 26 columns are possible"),
    (per_channel_input, "per channel"),
    (split_of_a_constant, "is a constant"),
    (many_inputs, "takes 257 copies or more; at most 256"),
    (long_rows, "takes 138999 copies or more"),
    (joined_constant, "is a constant"),
    (logistic, "its output has scale 0.0625; kernels make it with 1/256"),
    (vast_exponential, "does not fit 32 bits"),
    (coarse_swish, "scale is 128 times its output's; kernels take less than 128 times"),
    (sine, "SIN has no NPU implementation"),
    (pad, "stored values are copied as they are"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_reasons_name_value_and_limit(make: Callable[[GraphMaker], None], words: str) -> None:
    maker = GraphMaker()
    make(maker)
    assert words in reason(maker)


def loosened(constraint: Constraint) -> Constraint | None:
    """The constraint with its limits far out, None for one without a number or list of types."""
    changed: dict[str, object] = {}
    for one in dataclasses.fields(constraint):  # type: ignore[arg-type]
        value = getattr(constraint, one.name)
        if isinstance(constraint, (Doublings, SpreadStrides)) and one.name == "most":
            changed[one.name] = value + 1
        elif one.name in ("most", "rows", "elements", "before", "after", "batch", "sum_limit"):
            changed[one.name] = 1000 * value
        elif one.name == "types":
            changed[one.name] = tuple(DType)
    return dataclasses.replace(constraint, **changed) if changed else None  # type: ignore[type-var]


def heavy(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 70000)), 1)
    m.tensors[1] = dataclasses.replace(m.tensors[1], data=np.full((1, 70000), 127, np.int8))


def tall(m: GraphMaker) -> None:
    m.quantize(m.input((70000, 1)))


def wide_bias(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 16)), 4)
    m.tensors[2] = dataclasses.replace(m.tensors[2], dtype=DType.INT64, data=np.full(4, 1 << 40))


def five_dimensions(m: GraphMaker) -> None:
    m.quantize(m.input((1, 1, 2, 3, 4)))


def deep_softmax(m: GraphMaker) -> None:
    m.softmax(m.input((2, 5000), Quantisation((0.1,), (3,))))


def sixteenfold(m: GraphMaker) -> None:
    m.resize(m.input((1, 2, 3, 4)), (32, 48))


def stride_16(m: GraphMaker) -> None:
    m.transpose_conv(m.input((1, 2, 3, 4)), 5, Window(16, 16, 16, 16), (32, 48))


def far_padding(m: GraphMaker) -> None:
    m.conv(m.input((1, 8, 8, 3)), 4, Window(1, 200, pad_left=128, pad_right=128))


LIMITED = [wide_stride, tall_kernel, batch, padded_average, wide_type,
           heavy, tall, wide_bias, five_dimensions, far_padding,
           deep_softmax, sixteenfold, stride_16]  # fmt: skip


@pytest.mark.parametrize("make", LIMITED)
def test_a_limit_is_one_number_for_the_decision_and_the_page(make: Callable[[GraphMaker], None]) -> None:
    """The constraint that refuses an operator takes it with its limit further out, and says the new limit."""
    maker = GraphMaker()
    make(maker)
    op = maker.operators[-1]
    case = Case(Graph("net", tuple(maker.tensors), (op,), tuple(maker.inputs), op.outputs), op, ACCELERATOR)
    found = next(one for one in FAMILIES[op.kind].takes if one.refusal(case) is not None)
    wider = loosened(found)
    assert wider is not None and wider.refusal(case) is None
    assert str(wider) != str(found)


def test_every_kind_of_limit_is_tried() -> None:
    """A constraint with a limit that no operator above runs into is told here."""
    tried = set()
    for make in LIMITED:
        maker = GraphMaker()
        make(maker)
        op = maker.operators[-1]
        case = Case(Graph("net", tuple(maker.tensors), (op,), tuple(maker.inputs), op.outputs), op, ACCELERATOR)
        tried.add(type(next(one for one in FAMILIES[op.kind].takes if one.refusal(case) is not None)))
    limited = {type(one) for family in FAMILIES.values() for one in family.takes if loosened(one) is not None}
    assert limited == tried


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


@pytest.mark.parametrize(
    ("before", "after", "align", "half_pixel"),
    [((4, 5), (12, 15), False, False), ((4, 5), (8, 5), False, False), ((4, 5), (2, 2), False, False),
     ((4, 5), (16, 20), True, False), ((4, 5), (7, 9), False, True), ((2, 2), (32, 32), False, False)],
)  # fmt: skip
def test_other_resizes_stay_on_the_cpu(
    before: tuple[int, int], after: tuple[int, int], align: bool, half_pixel: bool
) -> None:
    maker = GraphMaker()
    maker.resize(maker.input((1, *before, 6)), after, align, half_pixel)
    assert reason(maker) == (
        f"it resizes {before[0]}x{before[1]} to {after[0]}x{after[1]}; of those copies of rows and columns where each "
        f"comes 1, 2, 4 or 8 times, one after the other, are possible"
    )


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


@pytest.mark.parametrize(
    ("shape", "why"),
    [((1, 4096), "it has 4096 channels; at most 4095 are possible"), ((70000, 1, 2), "has a dimension of 70000")],
)
def test_softmaxes_beyond_the_limits_stay_on_the_cpu(shape: tuple[int, ...], why: str) -> None:
    maker = GraphMaker()
    maker.softmax(maker.input(shape))
    assert why in reason(maker)


def test_each_input_of_a_concatenation_is_a_stage() -> None:
    maker = GraphMaker()
    parts = [maker.input((1, 4, 6, depth)) for depth in (3, 16)]
    out = maker.concatenate(parts)
    graph = maker.graph()
    operations = lower(graph, partition(graph, ACCELERATOR)).operations
    assert [operation.ifm.tensor.graph_tensor for operation in operations] == parts
    assert [(o.ofm.tensor.graph_tensor, o.ofm.channels) for o in operations] == [(out, (0, 19)), (out, (3, 19))]


def scaled(kind: str, factor: float) -> GraphMaker:
    """An operator whose factor from accumulator to output is about `factor`."""
    maker = GraphMaker()
    x = maker.input((1, 4, 4, 8), Quantisation((1.0,), (0,)))
    after = Quantisation((float(np.float32(1.0 / factor)),), (0,))
    if kind == "MEAN":
        maker.op("MEAN", [x], maker.tensor((1, 1, 1, 8), after), ReductionAttrs((1, 2), True))
    elif kind == "ADD":
        maker.op("ADD", [x, x], maker.tensor((1, 4, 4, 8), after), AddAttrs())
    else:
        maker.op("QUANTIZE", [x], maker.tensor((1, 4, 4, 8), after))
    return maker


@pytest.mark.parametrize(
    ("kind", "fine", "beyond"), [("QUANTIZE", 2.0**22, 2.0**24), ("ADD", 2.0**20, 2.0**25), ("MEAN", 2.0**21, 2.0**26)]
)
def test_values_that_a_factor_shifts_out_of_32_bits(kind: str, fine: float, beyond: float) -> None:
    """Kernels of CPUs wrap there and the NPU does not: whoever is right, they would differ."""
    assert reason(scaled(kind, fine)) == ""
    assert "leave 32 bits" in reason(scaled(kind, beyond))


def biased(bias: int, scale: float) -> GraphMaker:
    """A convolution of which one output has the given bias and weights of the given scale."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 4, 4, 8)), 4, Window(1, 1))
    weights, constant = maker.operators[0].inputs[1:]
    values = np.array([0, 0, bias, 0], np.int32)
    scales = (*maker.tensors[weights].quantisation.scales[:2], scale, maker.tensors[weights].quantisation.scales[3])
    maker.tensors[constant] = dataclasses.replace(maker.tensors[constant], data=values)
    maker.tensors[weights] = dataclasses.replace(maker.tensors[weights], quantisation=Quantisation(scales, (0,) * 4, 0))
    return maker


def test_a_bias_that_no_accumulator_holds() -> None:
    """A dead channel may have one: its sums round to zero whichever way they wrap."""
    assert reason(biased(2**24, 0.01)) == ""
    assert "leave 32 bits" in reason(biased(2**31 - 1, 0.01))
    assert "leave 32 bits" in reason(biased(-(2**31), 0.01))
    assert reason(biased(2**31 - 1, 1e-14)) == ""
