"""One-operator networks: lowered, emitted, run on the simulated NPU, bit-exact with the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from ethoscade.ir import (
    QUANTISED,
    Activation,
    ArithmeticAttrs,
    ConcatenationAttrs,
    DType,
    GeluAttrs,
    Graph,
    LeakyReluAttrs,
    MirrorPadAttrs,
    PackAttrs,
    PadAttrs,
    PoolAttrs,
    Quantisation,
    ReverseAttrs,
    StridedSliceAttrs,
    TileAttrs,
    TransposeAttrs,
    Window,
)
from ethoscade.lowering import FAMILIES, support
from ethoscade.lowering.constraints import FeatureMaps
from ethoscade.operators import RESHAPES
from ethoscade.target import ACCELERATORS
from ethoscade.testing.real_operators import BINARY
from graphs import GraphMaker, quantisation, same
from npu import check_whole


def signed(m: GraphMaker, kind: str, q: Quantisation | None = None, of_sixteen: Quantisation | None = None) -> int:
    """A function of which uint8 has no kernel: int8 in its place."""
    dtype = DType.INT8 if m.dtype is DType.UINT8 else m.dtype
    ifm = m.input((1, 9, 7, 21), of_sixteen if dtype is DType.INT16 else q, dtype)
    return m.op(kind, [ifm], m.tensor((1, 9, 7, 21), dtype=dtype))


def coarser(m: GraphMaker) -> Quantisation | None:
    """A scale above all others of int16, whose sums show no ties of a second operand that has it; of 8 bits any."""
    return Quantisation((0.0005,), (0,)) if m.dtype is DType.INT16 else None


def fine(m: GraphMaker) -> Quantisation:
    """A scale of which nothing is left beside others."""
    return Quantisation((1e-12,), (0 if m.dtype is DType.INT16 else 5,))


def prelu(
    m: GraphMaker, slopes: Quantisation, shape: tuple[int, ...] = (1, 1, 21), q: Quantisation | None = None
) -> int:
    """PRELU with constant slopes, which are int8 for int16."""
    return m.binary("PRELU", m.input((1, 9, 7, 21), q), m.values(shape, slopes, slope_type(m)), q=q)


def repeated_prelu(m: GraphMaker, ifm: tuple[int, ...], slopes: tuple[int, ...], constant: bool = False) -> int:
    """PRELU of int8, whatever else is tested but int16: kernels of uint8 do not repeat the values."""
    dtype = DType.INT16 if m.dtype is DType.INT16 else DType.INT8
    given = m.input(ifm, dtype=dtype)
    made = np.broadcast_shapes(ifm, slopes)
    other = m.values(slopes, None, DType.INT8) if constant else m.input(slopes, dtype=DType.INT8)
    return m.op("PRELU", [given, other], m.tensor(made, dtype=dtype))


def slope_type(m: GraphMaker) -> DType:
    """What kernels of PRELU take beside values of the maker's type."""
    return BINARY["PRELU"].second(m.dtype)


def normalised(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """L2_NORMALIZATION of an input of that shape, and its fixed quantisation."""
    middle = Quantisation((1 / 128,), (sum(m.dtype.limits) // 2 + 1,))
    return m.op("L2_NORMALIZATION", [m.input(shape)], m.tensor(shape, middle))


def a_number(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """A constant that is one number everywhere."""
    return m.constant(np.full(shape, 5, m.dtype.numpy), Quantisation((0.1,), (0,)), m.dtype)


def logarithms(m: GraphMaker, shape: tuple[int, ...], scale: float) -> int:
    """LOG_SOFTMAX of an input of that shape, and its fixed quantisation."""
    made = m.tensor(shape, Quantisation((1 / 16,), (m.dtype.limits[1],)))
    return m.op("LOG_SOFTMAX", [m.input(shape, Quantisation((scale,), (3,)))], made)


def to_words(m: GraphMaker, scale: float) -> int:
    """QUANTIZE of int16, whatever else is tested, to int32."""
    made = m.tensor((1, 9, 7, 21), Quantisation((scale,), (0,)), DType.INT32)
    return m.op("QUANTIZE", [m.input((1, 9, 7, 21), dtype=DType.INT16)], made)


def divided(m: GraphMaker, shape: tuple[int, ...], units: int, activation: Activation = Activation.NONE) -> int:
    """DIV of an input of that shape by a number of so many units of its scale."""
    middle = sum(m.dtype.limits) // 2 + 1
    number = np.array([middle + units], m.dtype.numpy)
    divisor = m.constant(number, Quantisation((0.3 / units if units > 0 else 0.1,), (middle,)), m.dtype)
    ifm = m.input(shape, Quantisation((0.05,), (middle - 20,)))
    return m.op(
        "DIV", [ifm, divisor], m.tensor(shape, Quantisation((0.12,), (middle + 9,))), ArithmeticAttrs(activation)
    )


def transposed(m: GraphMaker, shape: tuple[int, ...], permutation: tuple[int, ...]) -> int:
    """TRANSPOSE of an input of that shape."""
    made = [shape[axis] for axis in permutation]
    return m.moved("TRANSPOSE", m.input(shape), made, TransposeAttrs(permutation, shape))


def rejoined(m: GraphMaker, shapes: Sequence[tuple[int, ...]], axis: int, constant: bool = False) -> int:
    """CONCATENATION of uint8, whatever else is tested, of inputs that all have scales and zero points of their own."""
    parts = [m.input(shape, quantisation(m.rng, DType.UINT8), DType.UINT8) for shape in shapes]
    if constant:
        parts[0] = m.values(shapes[0], quantisation(m.rng, DType.UINT8), DType.UINT8)
        m.inputs = parts[1:]
    made = [sum(extents) if place == axis else extents[0] for place, extents in enumerate(zip(*shapes, strict=True))]
    out = m.tensor(made, quantisation(m.rng, DType.UINT8), DType.UINT8)
    return m.op("CONCATENATION", parts, out, ConcatenationAttrs(axis))


def within_one(m: GraphMaker, of_eight: Quantisation | None = None) -> Quantisation | None:
    """What kernels of int16 make of functions that stay between -1 and 1; of 8 bits as given."""
    return Quantisation((1 / 32768,), (0,)) if m.dtype is DType.INT16 else of_eight


CASES: dict[str, Callable[[GraphMaker], object]] = {
    "abs": lambda m: m.op("ABS", [m.input((1, 20, 20, 9))], m.tensor((1, 20, 20, 9))),
    "abs_of_five_axes": lambda m: m.op("ABS", [m.input((2, 3, 4, 5, 9))], m.tensor((2, 3, 4, 5, 9))),
    "conv_3x3_relu6": lambda m: m.conv(m.input((1, 9, 7, 5)), 7, same(9, 7, (3, 3)), Activation.RELU6),
    "conv_5x3_stride_2": lambda m: m.conv(m.input((1, 10, 8, 20)), 40, same(10, 8, (5, 3), 2)),
    "conv_dilated": lambda m: m.conv(m.input((1, 12, 12, 33)), 9, same(12, 12, (3, 3), 1, 2)),
    "conv_stride_5": lambda m: m.conv(m.input((1, 23, 12, 3)), 9, Window(3, 3, 5, 5)),
    "conv_stride_5_and_4": lambda m: m.conv(m.input((1, 23, 12, 3)), 9, Window(3, 3, 5, 4, pad_top=1, pad_right=1)),
    "conv_stride_10_of_a_row": lambda m: m.conv(m.input((1, 1, 60, 3)), 9, Window(1, 10, 1, 10)),
    "depthwise_stride_7": lambda m: m.depthwise(m.input((1, 23, 30, 5)), Window(3, 3, 7, 7)),
    "average_pool_of_other_scales": lambda m: m.op(
        "AVERAGE_POOL_2D",
        [m.input((1, 9, 7, 21))],
        m.tensor((1, 9, 7, 21)),
        PoolAttrs(same(9, 7, (3, 3)), Activation.RELU6),
    ),
    "max_pool_of_other_scales": lambda m: m.op(
        "MAX_POOL_2D", [m.input((2, 9, 8, 21))], m.tensor((2, 4, 4, 21)), PoolAttrs(Window(2, 2, 2, 2), Activation.NONE)
    ),
    "average_pool_stride_5": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 23, 12, 5)), Window(3, 3, 5, 5)),
    "max_pool_stride_5": lambda m: m.pool("MAX_POOL_2D", m.input((1, 23, 12, 5)), Window(7, 3, 5, 5)),
    "max_pool_stride_10": lambda m: m.pool("MAX_POOL_2D", m.input((1, 43, 12, 5)), Window(12, 3, 10, 5)),
    "max_pool_stride_5_of_a_batch": lambda m: m.pool("MAX_POOL_2D", m.input((2, 13, 12, 5)), Window(3, 3, 5, 5)),
    "conv_stride_4_of_a_batch": lambda m: m.conv(m.input((3, 10, 8, 5)), 7, same(10, 8, (5, 3), 4)),
    "conv_stride_3": lambda m: m.conv(m.input((1, 12, 13, 3)), 9, Window(3, 3, 3, 3)),
    "conv_10x9": lambda m: m.conv(m.input((1, 14, 16, 3)), 9, Window(10, 9)),
    "conv_dilated_9x9": lambda m: m.conv(m.input((1, 20, 20, 3)), 5, same(20, 20, (9, 9), 1, 2)),
    "conv_1x1_deep": lambda m: m.conv(m.input((1, 4, 4, 70)), 130, Window(1, 1), Activation.RELU),
    "conv_uneven_padding": lambda m: m.conv(
        m.input((1, 6, 6, 4)), 8, Window(4, 5, 2, 1, pad_top=3, pad_left=1, pad_bottom=2, pad_right=4)
    ),
    "conv_one_window": lambda m: m.conv(m.input((1, 8, 9, 6)), 8, Window(7, 7, 7, 7)),
    "conv_reshaped_output": lambda m: m.conv(m.input((1, 4, 4, 3)), 5, Window(1, 1), shape=(1, 80)),
    "conv_of_a_batch": lambda m: m.conv(m.input((3, 5, 6, 7)), 9, same(5, 6, (3, 3), 2)),
    "conv_1x1_of_a_batch": lambda m: m.conv(m.input((3, 5, 6, 7)), 9, Window(1, 1)),
    "depthwise_of_a_batch": lambda m: m.depthwise(m.input((2, 5, 6, 7)), same(5, 6, (3, 3))),
    "average_of_a_batch": lambda m: m.pool("AVERAGE_POOL_2D", m.input((2, 7, 6, 9)), same(7, 6, (3, 3), 2)),
    "maximum_of_a_batch": lambda m: m.pool("MAX_POOL_2D", m.input((4, 7, 6, 9)), Window(2, 2, 2, 2)),
    "depthwise_stride_2": lambda m: m.depthwise(m.input((1, 9, 7, 21)), same(9, 7, (3, 3), 2), Activation.RELU),
    "depthwise_dilated": lambda m: m.depthwise(m.input((1, 9, 9, 8)), same(9, 9, (3, 3), 1, 2)),
    "depthwise_tall": lambda m: m.depthwise(m.input((1, 40, 5, 8)), Window(25, 5)),
    "depthwise_of_one_channel": lambda m: m.depthwise(m.input((1, 9, 9, 1)), same(9, 9, (3, 3)), multiplier=9),
    "depthwise_times_3": lambda m: m.depthwise(m.input((1, 9, 7, 5)), same(9, 7, (3, 3), 2), multiplier=3),
    "depthwise_times_6": lambda m: m.depthwise(m.input((1, 7, 7, 40)), same(7, 7, (3, 3)), Activation.RELU, 6),
    "depthwise_times_2_in_bricks": lambda m: m.depthwise(m.input((1, 7, 7, 32)), same(7, 7, (5, 3)), multiplier=2),
    "transpose_conv": lambda m: m.transpose_conv(m.input((1, 6, 5, 9)), 7, Window(2, 2, 2, 2), (12, 10)),
    "transpose_conv_same_5x5": lambda m: m.transpose_conv(
        m.input((1, 6, 5, 20)), 17, same(12, 10, (5, 5), 2), (12, 10), Activation.RELU
    ),
    "transpose_conv_to_odd": lambda m: m.transpose_conv(m.input((1, 6, 5, 9)), 7, same(11, 9, (3, 4), 2), (11, 9)),
    "transpose_conv_valid": lambda m: m.transpose_conv(m.input((1, 4, 5, 9)), 7, Window(5, 3, 2, 2), (12, 12)),
    "transpose_conv_point": lambda m: m.transpose_conv(m.input((1, 4, 5, 9)), 7, Window(1, 1, 2, 2), (8, 9)),
    "transpose_conv_stride_1": lambda m: m.transpose_conv(m.input((1, 7, 7, 9)), 7, same(7, 7, (5, 5)), (7, 7)),
    "transpose_conv_of_a_row": lambda m: m.transpose_conv(
        m.input((1, 1, 16, 32)), 32, Window(1, 5, 1, 2, pad_left=1, pad_right=2), (1, 32)
    ),
    "transpose_conv_rows_alone": lambda m: m.transpose_conv(
        m.input((1, 6, 5, 9)), 7, Window(3, 3, 2, 1, pad_left=1, pad_bottom=1, pad_right=1), (12, 5)
    ),
    "transpose_conv_stride_4": lambda m: m.transpose_conv(m.input((1, 4, 3, 9)), 7, Window(4, 5, 4, 4), (16, 13)),
    "transpose_conv_stride_4x8": lambda m: m.transpose_conv(
        m.input((1, 3, 2, 5)), 4, Window(6, 9, 4, 8, pad_top=1, pad_bottom=1), (12, 17)
    ),
    "transpose_conv_of_a_batch": lambda m: m.transpose_conv(
        m.input((3, 6, 5, 9)), 7, same(12, 10, (3, 3), 2), (12, 10)
    ),
    "transpose_conv_of_a_batch_to_odd": lambda m: m.transpose_conv(
        m.input((2, 6, 5, 9)), 7, same(11, 9, (3, 4), 2), (11, 9)
    ),
    "transpose_conv_of_a_batch_stride_4": lambda m: m.transpose_conv(
        m.input((2, 3, 2, 5)), 4, Window(6, 9, 4, 8, pad_top=1, pad_bottom=1), (12, 17)
    ),
    "transpose_conv_of_a_batch_stride_1": lambda m: m.transpose_conv(
        m.input((2, 7, 7, 9)), 7, same(7, 7, (5, 5)), (7, 7)
    ),
    "fully_connected": lambda m: m.fully_connected(m.input((1, 300)), 11, Activation.RELU),
    "fully_connected_rows": lambda m: m.fully_connected(m.input((2, 3, 7)), 11, rows=2),
    "average_pool_same": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 9, 9, 9)), same(9, 9, (3, 3), 2)),
    "average_pool_8x8_same": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 9, 9, 9)), same(9, 9, (8, 8))),
    "average_pool_2x2": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 30, 30, 9)), Window(2, 2, 2, 2)),
    "average_pool_global": lambda m: m.pool(
        "AVERAGE_POOL_2D", m.input((1, 7, 6, 90)), Window(7, 6, 7, 6), Activation.RELU
    ),
    "average_pool_16x20": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 18, 22, 9)), Window(16, 20)),
    "max_pool_same": lambda m: m.pool("MAX_POOL_2D", m.input((1, 9, 9, 9)), same(9, 9, (3, 3), 2), Activation.RELU),
    "max_pool_2x2": lambda m: m.pool("MAX_POOL_2D", m.input((1, 9, 8, 9)), Window(2, 2, 2, 2), Activation.RELU6),
    "max_pool_stride_8x1": lambda m: m.pool(
        "MAX_POOL_2D", m.input((1, 122, 1, 8)), Window(8, 1, 8, 1), Activation.RELU
    ),
    "max_pool_stride_4x6": lambda m: m.pool("MAX_POOL_2D", m.input((1, 31, 40, 9)), Window(7, 11, 4, 6)),
    "max_pool_small_stride_12x9": lambda m: m.pool("MAX_POOL_2D", m.input((1, 40, 30, 3)), Window(1, 2, 12, 9)),
    "conv_of_two_groups": lambda m: m.conv(m.input((1, 9, 8, 40)), 24, same(9, 8, (3, 3), 2), groups=2),
    "conv_of_many_groups": lambda m: m.conv(m.input((1, 5, 6, 36)), 72, Window(3, 2), Activation.RELU, groups=12),
    "conv_of_groups_and_a_batch": lambda m: m.conv(m.input((3, 1, 4, 20)), 40, Window(1, 1, 2, 2), groups=2),
    "depthwise_times_3_of_a_batch": lambda m: m.depthwise(m.input((3, 1, 5, 8)), Window(1, 3, 2, 2), multiplier=3),
    "conv_of_a_row_of_each_image": lambda m: m.conv(m.input((3, 1, 16, 5)), 9, Window(1, 2, 2, 4)),
    "max_pool_of_a_row_of_each_image": lambda m: m.pool("MAX_POOL_2D", m.input((3, 1, 16, 5)), Window(1, 2, 2, 4)),
    "conv_of_the_first_rows_of_images": lambda m: m.conv(m.input((3, 2, 7, 5)), 9, Window(1, 2, 2, 2)),
    "conv_of_groups_of_several_images": lambda m: m.conv(m.input((2, 9, 8, 40)), 24, same(9, 8, (3, 3), 2), groups=2),
    "conv_of_groups_far_apart": lambda m: m.conv(m.input((1, 13, 12, 36)), 72, Window(3, 3, 5, 4), groups=12),
    "conv_of_groups_of_several_images_far_apart": lambda m: m.conv(
        m.input((2, 13, 12, 36)), 36, Window(3, 3, 5, 4), groups=12
    ),
    "depthwise_to_several_of_images": lambda m: m.depthwise(m.input((2, 9, 8, 20)), Window(3, 3, 4, 4), multiplier=2),
    "conv_of_groups_of_one": lambda m: m.conv(m.input((1, 5, 6, 20)), 60, Window(1, 1), groups=20),
    "conv_dilated_by_4x3": lambda m: m.conv(
        m.input((1, 14, 12, 9)), 7, Window(3, 3, 1, 1, 4, 3, pad_top=2, pad_right=1)
    ),
    "depthwise_dilated_by_6": lambda m: m.depthwise(m.input((1, 17, 15, 9)), same(17, 15, (3, 3), 1, 6)),
    "conv_stride_9x1": lambda m: m.conv(m.input((1, 30, 7, 5)), 9, Window(3, 3, 9, 1, pad_left=1)),
    "conv_stride_4x6": lambda m: m.conv(m.input((1, 21, 20, 5)), 9, Window(5, 3, 4, 6, pad_top=1), Activation.RELU),
    "depthwise_stride_8": lambda m: m.depthwise(m.input((1, 25, 20, 9)), Window(3, 3, 8, 8, pad_left=1)),
    "average_pool_stride_4": lambda m: m.pool("AVERAGE_POOL_2D", m.input((1, 25, 20, 9)), same(25, 20, (5, 5), 4)),
    "max_pool_same_stride_6": lambda m: m.pool("MAX_POOL_2D", m.input((1, 25, 20, 9)), same(25, 20, (7, 7), 6)),
    "add": lambda m: m.add(m.input((1, 30, 30, 9)), m.input((1, 30, 30, 9))),
    "add_relu": lambda m: m.add(m.input((1, 30, 30, 9)), m.input((1, 30, 30, 9)), Activation.RELU),
    "add_to_itself": lambda m: m.add(*(m.input((1, 30, 30, 9)),) * 2),
    "add_equal_powers_of_two": lambda m: m.add(
        m.input((1, 20, 20, 9), Quantisation((0.03125,), (3,))),
        m.input((1, 20, 20, 9), Quantisation((0.03125,), (100,))),
        q=Quantisation((0.0625,), (7,)),
    ),
    "add_far_apart": lambda m: m.add(
        m.input((1, 20, 20, 9), Quantisation((0.0001,), (3,))), m.input((1, 20, 20, 9), Quantisation((0.5,), (9,)))
    ),
    "add_flat": lambda m: m.add(m.input((3, 50)), m.input((3, 50))),
    "add_constant": lambda m: m.binary("ADD", m.input((1, 9, 7, 21)), m.values((1, 9, 7, 21))),
    "add_constant_of_channels": lambda m: m.binary("ADD", m.values((21,)), m.input((1, 9, 7, 21)), Activation.RELU),
    "add_number": lambda m: m.binary("ADD", m.input((3, 50)), m.values((1, 1))),
    "add_repeated_first": lambda m: m.binary("ADD", m.input((1, 1, 1, 20)), m.input((1, 9, 7, 20))),
    "add_both_repeated": lambda m: m.binary("ADD", m.input((1, 9, 1, 8)), m.input((1, 1, 7, 8)), Activation.RELU),
    "add_repeated_along_channels": lambda m: m.binary("ADD", m.input((1, 9, 7, 1)), m.input((1, 1, 1, 40))),
    "mul_repeated_to_a_constant": lambda m: m.binary("MUL", m.input((1, 1, 7, 1)), m.values((1, 9, 1, 16))),
    "mul_repeated_to_a_whole_constant": lambda m: m.binary("MUL", m.input((1, 1, 1, 8)), m.values((1, 4, 5, 8))),
    "sub_both_repeated": lambda m: m.binary("SUB", m.input((1, 1, 7, 20)), m.input((1, 9, 1, 20), coarser(m))),
    "sub_repeated_here_and_there": lambda m: m.binary(
        "SUB", m.input((2, 1, 4, 1, 6)), m.input((2, 3, 4, 5, 6), coarser(m))
    ),
    "maximum_of_rows_and_columns": lambda m: m.binary("MAXIMUM", m.input((1, 7)), m.input((9, 1))),
    "minimum_both_here_and_there": lambda m: m.binary("MINIMUM", m.input((2, 1, 4, 1, 6)), m.input((1, 3, 1, 5, 1))),
    "squared_difference_both_repeated": lambda m: m.binary(
        "SQUARED_DIFFERENCE", m.input((1, 9, 1, 21)), m.input((1, 1, 7, 1))
    ),
    "prelu_repeated_here_and_there": lambda m: m.binary(
        "PRELU", m.input((2, 3, 4, 5, 6)), m.input((2, 1, 4, 1, 6), dtype=slope_type(m))
    ),
    "sub": lambda m: m.binary("SUB", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21), coarser(m)), Activation.RELU6),
    "add_of_nothing": lambda m: m.binary("ADD", m.input((1, 9, 7, 21)), m.values((21,), fine(m)), Activation.RELU),
    "sub_of_nothing": lambda m: m.binary("SUB", m.input((1, 9, 7, 21), coarser(m)), m.values((), fine(m))),
    "sub_from_nothing": lambda m: m.binary("SUB", m.values((9, 7, 21), fine(m)), m.input((1, 9, 7, 21), coarser(m))),
    "sub_from_a_number": lambda m: m.binary("SUB", m.values(()), m.input((1, 9, 7, 21))),
    "sub_from_a_constant": lambda m: m.binary("SUB", m.values((7, 1)), m.input((1, 9, 7, 32))),
    "sub_constant": lambda m: m.binary("SUB", m.input((1, 9, 7, 32)), m.values((1, 9, 7, 32))),
    "sub_from_a_row": lambda m: m.binary("SUB", m.input((1, 1, 7, 21)), m.input((1, 9, 7, 21), coarser(m))),
    "mul": lambda m: m.binary("MUL", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21)), Activation.RELU),
    "mul_by_itself": lambda m: m.binary("MUL", *(m.input((1, 9, 7, 21)),) * 2),
    "mul_squeeze_excite": lambda m: m.binary("MUL", m.input((1, 1, 1, 48)), m.input((1, 9, 7, 48))),
    "mul_constant_of_channels": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((48,))),
    "mul_constant_of_columns": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((7, 1))),
    "mul_constant": lambda m: m.binary("MUL", m.values((1, 9, 7, 32)), m.input((1, 9, 7, 32)), Activation.RELU6),
    "mul_number": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((1,))),
    "mul_of_five_dimensions": lambda m: m.binary("MUL", m.input((2, 3, 4, 5, 6)), m.input((4, 5, 1))),
    "mul_of_batches": lambda m: m.binary("MUL", m.input((3, 4, 5, 6)), m.input((3, 1, 1, 6))),
    "mul_constant_here_and_there": lambda m: m.binary("MUL", m.input((2, 3, 4, 5, 6)), m.values((2, 1, 4, 1, 6))),
    "maximum": lambda m: m.binary("MAXIMUM", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 1))),
    "maximum_with_a_number": lambda m: m.binary("MAXIMUM", m.values((1,)), m.input((40,))),
    "minimum": lambda m: m.binary("MINIMUM", m.input((1, 1, 1, 1)), m.input((1, 9, 7, 21))),
    "minimum_with_a_constant": lambda m: m.binary("MINIMUM", m.input((1, 9, 7, 21)), m.values((1, 9, 1, 21))),
    "squared_difference": lambda m: m.binary("SQUARED_DIFFERENCE", m.input((1, 9, 7, 21)), m.input((1, 1, 7, 21))),
    "squared_difference_to_a_constant": lambda m: m.binary(
        "SQUARED_DIFFERENCE", m.values((7, 21)), m.input((1, 9, 7, 21))
    ),
    "squared_difference_to_a_number": lambda m: m.binary("SQUARED_DIFFERENCE", m.input((40,)), m.values(())),
    "squared_difference_to_itself": lambda m: m.binary("SQUARED_DIFFERENCE", *(m.input((1, 9, 7, 21)),) * 2),
    "prelu": lambda m: prelu(m, Quantisation((0.1,), (100,))),
    "prelu_of_flat_slopes": lambda m: prelu(m, Quantisation((0.002,), (60,))),
    "prelu_of_steep_slopes": lambda m: prelu(m, Quantisation((1.5,), (slope_type(m).limits[0] - 1,)), (21,)),
    "prelu_repeated": lambda m: repeated_prelu(m, (1, 9, 1, 21), (1, 1, 7, 21)),
    "prelu_repeated_along_channels": lambda m: repeated_prelu(m, (4, 1), (1, 7)),
    "prelu_repeated_to_constant_slopes": lambda m: repeated_prelu(m, (1, 1, 1, 7), (1, 4, 5, 7), constant=True),
    "prelu_of_a_feature_map": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21), dtype=slope_type(m))
    ),
    "prelu_of_a_repeated_feature_map": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.input((7, 1), dtype=slope_type(m))
    ),
    "prelu_of_one_slope": lambda m: prelu(m, Quantisation((0.004,), (20,)), ()),
    "prelu_in_place": lambda m: prelu(m, Quantisation((0.002,), (60,)), q=Quantisation((0.1,), (5,))),
    "resize_twice": lambda m: m.resize(m.input((1, 5, 7, 20)), (10, 14)),
    "resize_twice_to_odd": lambda m: m.resize(m.input((1, 5, 7, 20)), (9, 13)),
    "resize_twice_centred": lambda m: m.resize(m.input((1, 5, 7, 3)), (10, 14), half_pixel=True),
    "resize_four_times": lambda m: m.resize(m.input((1, 5, 7, 20)), (20, 28)),
    "resize_eight_times_to_odd": lambda m: m.resize(m.input((1, 3, 2, 17)), (23, 15)),
    "resize_one_row": lambda m: m.resize(m.input((1, 1, 6, 5)), (1, 12)),
    "resize_to_the_same": lambda m: m.resize(m.input((1, 4, 6, 5)), (4, 6)),
    "bilinear_twice": lambda m: m.resize_bilinear(m.input((1, 5, 7, 20)), (10, 14)),
    "bilinear_twice_centred": lambda m: m.resize_bilinear(m.input((1, 6, 5, 24)), (12, 10), half_pixel=True),
    "bilinear_twice_aligned": lambda m: m.resize_bilinear(m.input((1, 5, 7, 9)), (9, 13), align=True),
    "bilinear_four_times": lambda m: m.resize_bilinear(m.input((1, 5, 3, 9)), (20, 12)),
    "bilinear_four_times_centred": lambda m: m.resize_bilinear(m.input((1, 4, 5, 9)), (16, 20), half_pixel=True),
    "bilinear_eight_times": lambda m: m.resize_bilinear(m.input((1, 3, 4, 9)), (24, 32)),
    "bilinear_eight_times_centred": lambda m: m.resize_bilinear(m.input((1, 3, 4, 9)), (24, 32), half_pixel=True),
    "bilinear_four_times_aligned": lambda m: m.resize_bilinear(m.input((1, 3, 4, 9)), (9, 13), align=True),
    "bilinear_eight_times_aligned": lambda m: m.resize_bilinear(m.input((1, 3, 4, 9)), (17, 25), align=True),
    "bilinear_16_times_aligned": lambda m: m.resize_bilinear(m.input((1, 3, 4, 21)), (33, 49), align=True),
    "bilinear_32_times_aligned": lambda m: m.resize_bilinear(m.input((1, 2, 3, 5)), (33, 65), align=True),
    "bilinear_to_the_same": lambda m: m.resize_bilinear(m.input((1, 4, 6, 5)), (4, 6), align=True),
    "bilinear_of_one_pixel": lambda m: m.resize_bilinear(m.input((1, 1, 1, 40)), (33, 33), align=True),
    "bilinear_of_one_pixel_by_centres": lambda m: m.resize_bilinear(m.input((1, 1, 1, 7)), (7, 5), half_pixel=True),
    "bilinear_of_one_pixel_to_many": lambda m: m.resize_bilinear(m.input((1, 1, 1, 5)), (70, 65), align=True),
    **{
        f"nearest_with_corners_{factor}": lambda m, factor=factor: m.resize(
            m.input((1, 4, 6, 21)), (3 * factor + 1, 5 * factor + 1), align=True
        )
        for factor in (2, 4, 8)
    },
    "nearest_with_corners_of_a_row": lambda m: m.resize(m.input((1, 1, 6, 5)), (1, 11), align=True),
    "nearest_of_one_pixel": lambda m: m.resize(m.input((1, 1, 1, 21)), (33, 5)),
    "bilinear_of_a_row": lambda m: m.resize_bilinear(m.input((1, 1, 6, 5)), (1, 12)),
    "bilinear_halved": lambda m: m.resize_bilinear(m.input((1, 6, 8, 5)), (3, 4)),
    "bilinear_halved_by_centres": lambda m: m.resize_bilinear(m.input((1, 6, 8, 5)), (3, 4), half_pixel=True),
    "bilinear_rows_alone": lambda m: m.resize_bilinear(m.input((1, 6, 8, 5)), (12, 8)),
    "softmax": lambda m: m.softmax(m.input((1, 10))),
    "softmax_of_rows": lambda m: m.softmax(m.input((3, 40, 33)), 0.5),
    "softmax_of_an_image": lambda m: m.softmax(m.input((1, 6, 7, 21), Quantisation((0.02,), (3,)))),
    "softmax_of_many_channels": lambda m: m.softmax(m.input((8, 511), Quantisation((0.003,), (3,)))),
    "softmax_of_a_thousand": lambda m: m.softmax(m.input((5, 1001), Quantisation((0.1,), (3,)))),
    "softmax_of_one_pixel_cut_into_rows": lambda m: m.softmax(m.input((1, 1001), Quantisation((0.1,), (3,)))),
    "softmax_of_thousands_alike": lambda m: m.softmax(m.input((8, 4095), Quantisation((1e-5,), (3,)))),
    "softmax_of_two": lambda m: m.softmax(m.input((500, 2), Quantisation((0.1,), (3,)))),
    "softmax_of_many_sums": lambda m: m.softmax(m.input((1, 150, 200, 3), Quantisation((0.01,), (3,)))),
    "softmax_of_many_pixels": lambda m: m.softmax(m.input((3, 150, 150, 2), Quantisation((0.1,), (3,)))),
    "softmax_of_five_thousand": lambda m: m.softmax(m.input((2, 5000), Quantisation((0.0004,), (0,)), DType.INT16)),
    "softmax_of_one": lambda m: m.softmax(m.input((9, 1))),
    "softmax_of_next_to_nothing": lambda m: m.softmax(m.input((4, 64), Quantisation((1e-9,), (3,)))),
    "l2_normalization": lambda m: normalised(m, (1, 128)),
    "l2_normalization_of_an_image": lambda m: normalised(m, (1, 9, 7, 21)),
    "l2_normalization_of_many_pixels": lambda m: normalised(m, (1, 300, 230, 2)),
    "l2_normalization_of_one": lambda m: normalised(m, (300, 1)),
    "l2_normalization_of_many": lambda m: normalised(m, (3, 5, 2064)),
    "div": lambda m: divided(m, (1, 9, 7, 21), 100, Activation.RELU),
    "div_by_a_negative_number": lambda m: divided(m, (5, 60), -3),
    "log_softmax": lambda m: logarithms(m, (1, 10), 0.2),
    "log_softmax_of_an_image": lambda m: logarithms(m, (1, 9, 7, 21), 0.05),
    "log_softmax_of_many": lambda m: logarithms(m, (8, 4095), 0.001),
    "log_softmax_of_many_pixels": lambda m: logarithms(m, (1, 300, 230, 2), 0.05),
    "log_softmax_of_one": lambda m: logarithms(m, (300, 1), 0.1),
    "mean": lambda m: m.mean(m.input((1, 7, 9, 50))),
    "mean_of_a_power_of_two": lambda m: m.mean(m.input((1, 8, 8, 50))),
    "mean_over_height": lambda m: m.mean(m.input((1, 50, 4, 12)), (1,)),
    "mean_large": lambda m: m.mean(m.input((1, 64, 64, 8))),
    "mean_over_channels": lambda m: m.mean(m.input((1, 7, 9, 50)), (3,)),
    "mean_over_everything": lambda m: m.mean(m.input((1, 7, 9, 50)), (1, 2, 3)),
    "mean_over_rows_and_channels": lambda m: m.mean(m.input((1, 7, 9, 50)), (1, 3)),
    "mean_of_rank_3": lambda m: m.mean(m.input((1, 40, 7)), (2,)),
    "mean_of_a_matrix": lambda m: m.mean(m.input((40, 7)), (0,)),
    "mean_of_a_row": lambda m: m.mean(m.input((300,)), (0,)),
    "mean_over_batches": lambda m: m.mean(m.input((5, 4, 3, 6)), (0,)),
    "mean_of_images": lambda m: m.mean(m.input((3, 6, 5, 7)), (1, 2)),
    "mean_of_five_dimensions": lambda m: m.mean(m.input((2, 3, 4, 5, 6)), (2, 3)),
    "mean_of_many_rows": lambda m: m.mean(m.input((1, 200, 5, 8)), (1,)),
    "mean_of_large_planes": lambda m: m.mean(m.input((1, 60, 80, 9))),
    "mean_of_odd_planes": lambda m: m.mean(m.input((1, 83, 79, 5))),
    "mean_of_large_volumes": lambda m: m.mean(m.input((1, 96, 96, 3)), (1, 2, 3)),
    "matmul": lambda m: m.matmul(m.input((9, 20)), m.input((20, 7))),
    "matmul_of_few_rows": lambda m: m.matmul(m.input((1, 4, 20)), m.input((1, 30, 20)), adj_y=True),
    "matmul_of_many_columns": lambda m: m.matmul(m.input((300, 3)), m.input((3, 290))),
    "matmul_of_columns": lambda m: m.matmul(m.input((20, 9)), m.input((20, 1)), adj_x=True),
    "matmul_transposed": lambda m: m.matmul(m.input((3, 20, 9)), m.input((3, 7, 20)), True, True),
    "matmul_of_heads": lambda m: m.matmul(m.input((1, 2, 9, 16)), m.input((1, 2, 12, 16)), adj_y=True),
    "matmul_of_repeated_heads": lambda m: m.matmul(m.input((2, 1, 3, 9, 16)), m.input((4, 1, 16, 5))),
    "matmul_with_itself": lambda m: m.matmul(*(m.input((2, 9, 17)),) * 2, adj_y=True),
    "matmul_with_a_constant": lambda m: m.matmul(m.input((2, 9, 20)), m.values((20, 24))),
    "matmul_with_constants": lambda m: m.matmul(m.input((2, 5, 9)), m.values((3, 2, 7, 9)), adj_y=True),
    "matmul_of_columns_with_a_constant": lambda m: m.matmul(m.input((2, 20, 9)), m.values((1, 20, 7)), adj_x=True),
    "matmul_of_a_constant": lambda m: m.matmul(m.values((2, 6, 20)), m.input((1, 20, 9))),
    "lstm": lambda m: m.lstm(m.input((1, 3, 20)), 9),
    "lstm_of_a_batch": lambda m: m.lstm(m.input((3, 2, 7)), 16, cell_clip=0.5),
    "lstm_by_time": lambda m: m.lstm(m.input((2, 3, 7)), 5, time_major=True, cell_clip=10.0),
    "svdf": lambda m: m.svdf(m.input((1, 20)), 24, 8),
    "svdf_of_a_batch": lambda m: m.svdf(m.input((3, 9)), 5, 4, rank=2, zero_point=-50),
    "svdf_of_one_run": lambda m: m.svdf(m.input((2, 9)), 5, 1, rank=3, zero_point=70),
    "svdf_without_bias": lambda m: m.svdf(m.input((1, 20)), 17, 40, use_bias=False),
    "svdf_with_state_of_int16": lambda m: m.svdf(m.input((1, 20)), 17, 7, rank=2, dtype=DType.INT16),
    "svdf_of_a_batch_with_state_of_int16": lambda m: m.svdf(m.input((2, 20)), 33, 9, dtype=DType.INT16),
    "sum": lambda m: m.total(m.input((1, 7, 9, 50))),
    "sum_over_channels": lambda m: m.total(m.input((1, 7, 9, 50)), (3,), keep=True),
    "sum_over_height": lambda m: m.total(m.input((1, 50, 4, 12)), (1,)),
    "sum_over_columns_and_channels": lambda m: m.total(m.input((1, 7, 9, 50)), (2, 3)),
    "sum_of_a_matrix": lambda m: m.total(m.input((40, 7)), (0,)),
    "sum_over_batches": lambda m: m.total(m.input((5, 4, 3, 6)), (0,), keep=True),
    "sum_of_five_dimensions": lambda m: m.total(m.input((2, 3, 4, 5, 6)), (2, 3)),
    "sum_of_large_planes": lambda m: m.total(m.input((1, 60, 80, 9))),
    "sum_over_batches_and_columns": lambda m: m.total(m.input((3, 5, 6, 7)), (0, 2)),
    "sum_over_every_other_axis": lambda m: m.total(m.input((2, 3, 4, 5, 6)), (0, 2, 4), keep=True),
    "sum_of_long_columns": lambda m: m.total(m.input((1, 2, 4097, 3)), (1, 2)),
    "sum_of_a_prime_number": lambda m: m.total(m.input((2, 4099, 3)), (0, 1)),
    "mean_over_batches_and_columns": lambda m: m.mean(m.input((2, 5, 6, 7)), (0, 2)),
    "mean_over_odd_axes_of_five": lambda m: m.mean(m.input((1, 7, 3, 6, 5)), (1, 3)),
    "mean_over_batches_and_channels_alone": lambda m: m.mean(m.input((3, 2, 3, 2, 3)), (0, 2, 4)),
    "arg_max": lambda m: m.arg_max(m.input((1, 9, 7, 21))),
    "arg_max_of_64_bits": lambda m: m.arg_max(m.input((1, 9, 7, 21)), DType.INT64),
    "arg_max_of_many": lambda m: m.arg_max(m.input((1, 5, 5, 128))),
    "arg_max_of_32": lambda m: m.arg_max(m.input((1, 7, 5, 32)), DType.INT64),
    "arg_max_of_33": lambda m: m.arg_max(m.input((1, 5, 7, 33)), DType.INT64),
    "arg_max_of_two": lambda m: m.arg_max(m.input((40, 2)), DType.INT64),
    "arg_max_of_one": lambda m: m.arg_max(m.input((40, 1))),
    "reduce_max": lambda m: m.extreme("REDUCE_MAX", m.input((1, 7, 9, 50)), keep=True),
    "reduce_max_over_channels": lambda m: m.extreme("REDUCE_MAX", m.input((1, 7, 9, 21)), (3,)),
    "reduce_max_over_everything": lambda m: m.extreme("REDUCE_MAX", m.input((7, 9, 5)), (0, 1, 2)),
    "reduce_max_of_large_planes": lambda m: m.extreme("REDUCE_MAX", m.input((1, 300, 260, 3))),
    "reduce_max_of_many_rows": lambda m: m.extreme("REDUCE_MAX", m.input((1, 300, 6, 3)), (1,)),
    "reduce_max_over_nothing": lambda m: m.extreme("REDUCE_MAX", m.input((1, 5, 6, 3)), (0,)),
    "reduce_max_over_batches": lambda m: m.extreme("REDUCE_MAX", m.input((3, 5, 6, 3)), (0,)),
    "reduce_max_over_batches_and_columns": lambda m: m.extreme("REDUCE_MAX", m.input((3, 5, 6, 7)), (0, 2)),
    "reduce_max_over_every_other_axis": lambda m: m.extreme("REDUCE_MAX", m.input((2, 3, 4, 5, 6)), (0, 2, 4), True),
    "reduce_min_over_batches_and_channels": lambda m: m.extreme("REDUCE_MIN", m.input((2, 5, 1, 6, 7)), (0, 3)),
    "reduce_min_over_odd_axes_of_five": lambda m: m.extreme("REDUCE_MIN", m.input((1, 7, 3, 6, 5)), (1, 3)),
    "reduce_min": lambda m: m.extreme("REDUCE_MIN", m.input((1, 7, 9, 50))),
    "reduce_min_over_channels": lambda m: m.extreme("REDUCE_MIN", m.input((1, 7, 9, 21)), (3,)),
    "reduce_min_over_columns_and_channels": lambda m: m.extreme("REDUCE_MIN", m.input((1, 7, 9, 21)), (2, 3), True),
    "reduce_min_of_a_matrix": lambda m: m.extreme("REDUCE_MIN", m.input((300, 4)), (0,)),
    "concatenate": lambda m: m.concatenate([m.input((1, 9, 7, depth)) for depth in (21, 1, 16)]),
    "concatenate_with_itself": lambda m: m.concatenate([m.input((1, 9, 7, 21))] * 3),
    "concatenate_rows": lambda m: m.concatenate([m.input((3, 16)), m.input((3, 24))], axis=1),
    "concatenate_pieces": lambda m: m.concatenate(m.split(m.input((1, 6, 9, 48)), (16, 32))[::-1]),
    "concatenate_images": lambda m: m.concatenate([m.input((1, rows, 7, 21)) for rows in (4, 1, 9)], axis=1),
    "concatenate_images_of_a_batch": lambda m: m.concatenate([m.input((2, rows, 7, 21)) for rows in (4, 1)], axis=1),
    "concatenate_columns": lambda m: m.concatenate([m.input((1, 5, columns, 16)) for columns in (3, 8, 1)], axis=2),
    "concatenate_batches": lambda m: m.concatenate([m.input((n, 3, 5, 7)) for n in (2, 1)], axis=0),
    "concatenate_a_constant": lambda m: m.concatenate([m.input((1, 9, 7, 21)), m.values((1, 9, 4, 21))], axis=2),
    "concatenate_a_larger_constant": lambda m: m.concatenate([m.values((1, 2, 7, 16)), m.input((1, 2, 7, 1))]),
    "concatenate_one_number": lambda m: m.concatenate([m.input((1, 9, 7, 21)), a_number(m, (1, 2, 7, 21))], axis=1),
    "concatenate_constants_on_both_sides": lambda m: m.concatenate(
        [m.values((2, 1, 6)), m.input((2, 3, 6)), m.values((2, 4, 6))], axis=1
    ),
    "concatenate_of_other_scales": lambda m: rejoined(m, [(1, 9, 7, n) for n in (21, 1, 16)], 3),
    "concatenate_columns_of_other_scales": lambda m: rejoined(m, [(2, 9, n, 5) for n in (3, 4)], 2),
    "concatenate_a_constant_of_another_scale": lambda m: rejoined(m, [(1, n, 7, 5) for n in (3, 4)], 1, constant=True),
    "concatenate_one_of_another_scale": lambda m: rejoined(m, [(1, 3, 7, 5)], 1),
    "concatenate_of_rank_3": lambda m: m.concatenate([m.input((2, n, 6)) for n in (40, 3)], axis=1),
    "concatenate_of_rank_5": lambda m: m.concatenate([m.input((2, 3, n, 2, 6)) for n in (4, 1)], axis=2),
    "split_of_rows": lambda m: m.split(m.input((1, 9, 7, 16)), (1, 6, 2), axis=1),
    "split_of_columns": lambda m: m.split(m.input((1, 9, 7, 5)), (3, 4), axis=2),
    "split_of_rank_5": lambda m: m.split(m.input((2, 3, 4, 2, 5)), (1, 3), axis=2),
    "split": lambda m: m.split(m.input((1, 9, 7, 21)), (7, 7, 7)),
    "split_unevenly": lambda m: m.split(m.input((1, 9, 7, 70)), (1, 32, 16, 21)),
    "split_of_a_row": lambda m: m.split(m.input((3, 40), dtype=m.dtype), (16, 24), axis=1),
    "elu": lambda m: signed(m, "ELU"),
    "exp": lambda m: signed(m, "EXP", Quantisation((0.03125,), (-7,)), Quantisation((0.0001,), (0,))),
    "gelu": lambda m: m.op("GELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21)), GeluAttrs()),
    "gelu_approximate": lambda m: m.op("GELU", [m.input((30, 9))], m.tensor((30, 9)), GeluAttrs(True)),
    "hard_swish": lambda m: m.op("HARD_SWISH", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "leaky_relu": lambda m: m.op("LEAKY_RELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21)), LeakyReluAttrs(0.1)),
    "leaky_relu_steep": lambda m: m.op("LEAKY_RELU", [m.input((300,))], m.tensor((300,)), LeakyReluAttrs(-1.5)),
    "log": lambda m: signed(m, "LOG", Quantisation((0.02,), (-128,))),
    "logistic": lambda m: m.op(
        "LOGISTIC",
        [m.input((1, 2, 3, 9, 7, 21))],
        m.tensor((1, 2, 3, 9, 7, 21), within_one(m, Quantisation((1 / 256,), (0,)))),
    ),
    "neg": lambda m: signed(m, "NEG"),
    "relu_of_another_scale": lambda m: m.op("RELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu6_of_another_scale": lambda m: m.op("RELU6", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu_0_to_1": lambda m: m.op("RELU_0_TO_1", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu_n1_to_1": lambda m: m.op("RELU_N1_TO_1", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    # Of int16 half of all values are negative, where RSQRT is not defined.
    "rsqrt": lambda m: m.op(
        "RSQRT",
        [m.input((1, 9, 7, 21), Quantisation((0.02,), (-128,)), DType.INT8)],
        m.tensor((1, 9, 7, 21), dtype=DType.INT8),
    ),
    "sqrt": lambda m: m.op(
        "SQRT",
        [m.input((1, 9, 7, 21), Quantisation((0.02,), (-128,)), DType.INT8)],
        m.tensor((1, 9, 7, 21), dtype=DType.INT8),
    ),
    "tanh": lambda m: m.op("TANH", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21), within_one(m))),
    "slice_without_strides": lambda m: m.moved(
        "SLICE", m.input((4, 9, 10)), (2, 5, 10), StridedSliceAttrs(((1, 3, 1), (4, 9, 1), (0, 10, 1)))
    ),
    "slice": lambda m: m.slice(m.input((1, 9, 8, 21)), ((0, 1, 1), (2, 9, 1), (1, 7, 1), (3, 20, 1))),
    "slice_by_strides": lambda m: m.slice(m.input((1, 13, 12, 12)), ((0, 1, 1), (1, 13, 3), (0, 12, 2), (1, 12, 4))),
    "slice_by_large_strides": lambda m: m.slice(
        m.input((2, 15, 12, 5)), ((0, 2, 1), (2, 15, 5), (1, 12, 4), (0, 5, 1))
    ),
    "slice_backwards": lambda m: m.slice(m.input((2, 5, 4)), ((1, -1, -1), (4, -1, -2), (0, 4, 1))),
    "slice_of_rank_5": lambda m: m.slice(
        m.input((2, 4, 3, 5, 6)), ((0, 2, 1), (1, 3, 1), (0, 3, 2), (2, 5, 1), (1, 5, 1))
    ),
    "slice_that_drops_axes": lambda m: m.slice(m.input((3, 7, 5)), ((1, 2, 1), (0, 7, 1), (4, 5, 1)), (0, 2)),
    "pack": lambda m: m.pack([m.input((5, 7)) for _ in range(3)], 0),
    "pack_last": lambda m: m.pack([m.input((5, 7)) for _ in range(3)], 2),
    "pack_images": lambda m: m.pack([m.input((1, 4, 5, 7)) for _ in range(2)], 3),
    "unpack": lambda m: m.unpack(m.input((4, 3, 6)), 1),
    "unpack_last": lambda m: m.unpack(m.input((5, 3, 4)), 2),
    "pad": lambda m: m.moved("PAD", m.input((1, 5, 6, 7)), (1, 8, 9, 12), PadAttrs(((0, 0), (1, 2), (3, 0), (2, 3)))),
    "pad_images_of_a_batch": lambda m: m.moved(
        "PAD", m.input((2, 5, 6, 7)), (2, 8, 6, 7), PadAttrs(((0, 0), (1, 2), (0, 0), (0, 0)))
    ),
    "pad_channels": lambda m: m.moved(
        "PAD", m.input((1, 5, 6, 16)), (1, 5, 6, 48), PadAttrs(((0, 0),) * 3 + ((0, 32),))
    ),
    "pad_more_than_there_is": lambda m: m.moved("PAD", m.input((2, 3)), (9, 8), PadAttrs(((5, 2), (1, 4)))),
    "pad_far_around": lambda m: m.moved(
        "PAD", m.input((1, 4, 6, 5)), (1, 84, 146, 5), PadAttrs(((0, 0), (40, 40), (70, 70), (0, 0)))
    ),
    "pad_far_with_a_value": lambda m: m.moved(
        "PADV2", m.input((2, 1, 1, 3)), (4, 21, 33, 8), PadAttrs(((2, 0), (20, 0), (0, 32), (2, 3)), 5)
    ),
    "pad_with_a_value": lambda m: m.moved(
        "PADV2", m.input((1, 5, 6, 7)), (1, 7, 9, 7), PadAttrs(((0, 0), (1, 1), (3, 0), (0, 0)), 5)
    ),
    "mirror": lambda m: m.moved(
        "MIRROR_PAD", m.input((1, 5, 6, 3)), (1, 8, 7, 3), MirrorPadAttrs(((0, 0), (1, 2), (1, 0), (0, 0)), False)
    ),
    "mirror_symmetrically": lambda m: m.moved(
        "MIRROR_PAD", m.input((3, 4)), (8, 6), MirrorPadAttrs(((3, 2), (0, 2)), True)
    ),
    "tile": lambda m: m.moved("TILE", m.input((1, 3, 4, 5)), (2, 3, 8, 15), TileAttrs((2, 1, 2, 3))),
    "tile_three_hundred_times": lambda m: m.moved(
        "TILE", m.input((1, 1, 1, 4)), (1, 300, 1, 4), TileAttrs((1, 300, 1, 1))
    ),
    "tile_along_all_axes": lambda m: m.moved("TILE", m.input((2, 3, 2, 5)), (6, 60, 8, 10), TileAttrs((3, 20, 4, 2))),
    "gather": lambda m: m.gather(m.input((1, 5, 6, 9)), (7, 0, 1, 2, 2, 8), 3),
    "gather_rows": lambda m: m.gather(m.input((1, 9, 4, 21)), (1, 3, 5, 7, 0), 1),
    "gather_backwards": lambda m: m.gather(m.input((1, 3, 9, 8)), (6, 4, 2, 0), 2),
    "gather_to_more_dimensions": lambda m: m.gather(m.input((6, 5)), (0, 1, 3, 4, 5, 2), 0, (3, 2)),
    "gather_one": lambda m: m.gather(m.input((4, 6, 5)), (2,), 1, ()),
    "gather_that_shuffles_channels": lambda m: m.gather(
        m.input((1, 5, 4, 24)), tuple(8 * k + n for n in range(8) for k in range(3)), 3
    ),
    "gather_that_shuffles_rows": lambda m: m.gather(
        m.input((2, 12, 3, 5)), tuple(2 * n + k for k in range(2) for n in range(6)), 1
    ),
    "slice_to_another_scale": lambda m: m.op(
        "SLICE",
        [m.input((1, 9, 8, 21))],
        m.tensor((1, 5, 8, 20)),
        StridedSliceAttrs(((0, 1, 1), (2, 7, 1), (0, 8, 1), (1, 21, 1))),
    ),
    "slice_backwards_to_another_scale": lambda m: m.op(
        "STRIDED_SLICE",
        [m.input((2, 5, 4))],
        m.tensor((2, 3, 4)),
        StridedSliceAttrs(((1, -1, -1), (4, -1, -2), (0, 4, 1))),
    ),
    "slice_of_the_whole_to_another_scale": lambda m: m.op(
        "SLICE", [m.input((3, 5))], m.tensor((3, 5)), StridedSliceAttrs(((0, 3, 1), (0, 5, 1)))
    ),
    "pad_to_another_scale": lambda m: m.op(
        "PAD", [m.input((1, 5, 6, 7))], m.tensor((1, 8, 9, 7)), PadAttrs(((0, 0), (1, 2), (3, 0), (0, 0)))
    ),
    "pad_with_a_value_of_another_scale": lambda m: m.op(
        "PADV2", [m.input((1, 5, 6, 7))], m.tensor((1, 7, 9, 7)), PadAttrs(((0, 0), (1, 1), (3, 0), (0, 0)), 5)
    ),
    "mirror_to_another_scale": lambda m: m.op(
        "MIRROR_PAD",
        [m.input((1, 5, 6, 3), dtype=DType.INT8)],
        m.tensor((1, 8, 7, 3), dtype=DType.INT8),
        MirrorPadAttrs(((0, 0), (1, 2), (1, 0), (0, 0)), False),
    ),
    "pack_of_other_scales": lambda m: m.op(
        "PACK",
        [m.input((5, 7), dtype=DType.INT8) for _ in range(3)],
        m.tensor((5, 3, 7), dtype=DType.INT8),
        PackAttrs(1),
    ),
    "transpose_to_another_scale": lambda m: m.op(
        "TRANSPOSE", [m.input((2, 6, 9, 5))], m.tensor((2, 9, 6, 5)), TransposeAttrs((0, 2, 1, 3), (2, 6, 9, 5))
    ),
    "tile_to_another_scale": lambda m: m.op(
        "TILE", [m.input((1, 3, 4, 5))], m.tensor((2, 3, 8, 5)), TileAttrs((2, 1, 2, 1))
    ),
    "reverse": lambda m: m.moved("REVERSE_V2", m.input((3, 4, 5)), (3, 4, 5), ReverseAttrs((0, 2))),
    "transpose": lambda m: transposed(m, (7, 19), (1, 0)),
    "transpose_of_six_axes": lambda m: transposed(m, (2, 2, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0)),
    "transpose_of_seven_axes": lambda m: transposed(m, (2, 3, 2, 2, 3, 2, 4), (0, 2, 1, 4, 3, 5, 6)),
    "transpose_of_eight_axes": lambda m: transposed(m, (2, 2, 2, 2, 2, 2, 2, 3), (7, 6, 5, 4, 3, 2, 1, 0)),
    "transpose_of_one_axis": lambda m: transposed(m, (37,), (0,)),
    "transpose_to_channels_first": lambda m: transposed(m, (1, 6, 9, 20), (0, 3, 1, 2)),
    "transpose_to_channels_last": lambda m: transposed(m, (2, 20, 6, 5), (0, 2, 3, 1)),
    "transpose_rows_and_columns": lambda m: transposed(m, (1, 9, 7, 20), (0, 2, 1, 3)),
    "transpose_columns_and_channels": lambda m: transposed(m, (1, 5, 6, 18), (0, 1, 3, 2)),
    "transpose_in_reverse": lambda m: transposed(m, (3, 4, 5, 6), (3, 2, 1, 0)),
    "transpose_rows_of_one": lambda m: transposed(m, (1, 21, 1), (1, 0, 2)),
    "transpose_that_shuffles_channels": lambda m: transposed(m, (1, 7, 6, 3, 8), (0, 1, 2, 4, 3)),
    "transpose_five_axes": lambda m: transposed(m, (2, 3, 2, 5, 4), (4, 1, 3, 0, 2)),
    "quantize": lambda m: m.quantize(m.input((1, 30, 30, 9))),
    "quantize_to_16_bits": lambda m: m.op(
        "QUANTIZE", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21), dtype=DType.INT16)
    ),
    "quantize_of_five_axes": lambda m: m.quantize(m.input((2, 3, 4, 5, 9))),
    "quantize_to_32_bits": lambda m: to_words(m, 0.011),
    "quantize_to_finer_units_of_32_bits": lambda m: to_words(m, 0.000003),
    "quantize_to_the_other_type": lambda m: m.quantize(
        m.input((1, 30, 30, 9)), DType.UINT8 if m.dtype is DType.INT8 else DType.INT8
    ),
}
# Accelerator, which of the valid blocks (1 the largest), constants staged in the arena.
SETTINGS = [("ethos-u55-256", 1.0, False), ("ethos-u55-32", 0.5, True), ("ethos-u65-256", 0.0, True)]


def graph_of(case: str, dtype: DType) -> Graph:
    maker = GraphMaker(dtype)
    CASES[case](maker)
    return maker.graph()


def taken(case: str) -> list[DType]:
    """The types that the families of a case's kinds name among their limits; all others are refused, by a test below.

    What is of uint8 is there always: where it has no kernel a case is of int8 in its place.
    """
    limits = [limit for op in graph_of(case, DType.INT8).operators for limit in FAMILIES[op.kind].takes]
    types = [limit.types for limit in limits if isinstance(limit, FeatureMaps)]
    return [dtype for dtype in QUANTISED if all(dtype in found for found in types)]


@pytest.mark.parametrize(("case", "dtype"), [(case, dtype) for case in CASES for dtype in taken(case)])
def test_operator(case: str, dtype: DType) -> None:
    for seed in range(3):
        maker = GraphMaker(dtype, seed)
        CASES[case](maker)
        accelerator, rank, staged = SETTINGS[seed]
        graph = maker.graph()
        assert {support(graph, op, ACCELERATORS[accelerator]) for op in graph.operators} == {None}
        check_whole(graph, ACCELERATORS[accelerator], rank=rank, staged=staged, seed=seed)


@pytest.mark.parametrize("case", CASES)
def test_results_may_be_written_in_another_shape(case: str) -> None:
    """As a RESHAPE that is folded into the operator before it has them: limits are those of what is computed."""
    maker = GraphMaker()
    CASES[case](maker)
    graph = maker.graph()
    for op in graph.operators:
        if len(op.outputs) > 1 or op.kind in RESHAPES:
            continue
        tensors = list(graph.tensors)
        made = tensors[op.outputs[0]]
        tensors[op.outputs[0]] = replace(made, shape=(int(np.prod(made.shape)), 1))
        flat = replace(graph, tensors=tuple(tensors))
        assert support(flat, op, ACCELERATORS["ethos-u55-256"]) is None


def refused() -> list[tuple[str, DType]]:
    """Cases that are of a type which their families do not name; others have another one in its place."""
    return [
        (case, dtype)
        for case in CASES
        for dtype in QUANTISED
        if dtype not in taken(case) and any(tensor.dtype is dtype for tensor in graph_of(case, dtype).tensors)
    ]


@pytest.mark.parametrize(("case", "dtype"), refused())
def test_types_that_no_family_names_are_refused(case: str, dtype: DType) -> None:
    graph = graph_of(case, dtype)
    reasons = [support(graph, op, ACCELERATORS[SETTINGS[0][0]]) for op in graph.operators]
    assert all(reason is not None and f"is {dtype.value};" in reason for reason in reasons)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_network_of_all_kinds(accelerator: str) -> None:
    maker = GraphMaker(seed=5)
    x = maker.conv(maker.input((1, 16, 16, 3)), 24, same(16, 16, (3, 3), 2), Activation.RELU6)
    y = maker.conv(maker.depthwise(x, same(8, 8, (3, 3))), 24, Window(1, 1))
    z = maker.add(x, maker.quantize(y))
    z = maker.pool("MAX_POOL_2D", z, Window(2, 2, 2, 2))
    z = maker.pool("AVERAGE_POOL_2D", z, same(4, 4, (3, 3)))
    maker.fully_connected(maker.mean(z), 10)
    for rank in (0.0, 0.5, 1.0):
        check_whole(maker.graph(), ACCELERATORS[accelerator], rank=rank, staged=rank == 0.5)


def test_average_rounds_ties_away_from_the_stored_zero() -> None:
    """Pairs of all int8 values: every tie, both signs, for a zero point that is not zero."""
    for zero_point in (-128, -1, 0, 77):
        maker = GraphMaker(seed=3)
        x = maker.input((1, 200, 200, 1), Quantisation((0.1,), (zero_point,)))
        maker.pool("AVERAGE_POOL_2D", x, Window(1, 2))
        check_whole(maker.graph(), ACCELERATORS["ethos-u55-128"])
