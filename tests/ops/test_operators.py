"""One-operator networks: lowered, emitted, run on the simulated NPU, bit-exact with the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ethoscade.ir import (
    Activation,
    DType,
    MirrorPadAttrs,
    PadAttrs,
    Quantisation,
    ReverseAttrs,
    StridedSliceAttrs,
    TileAttrs,
    Window,
)
from ethoscade.target import ACCELERATORS
from graphs import GraphMaker, same
from npu import check_whole

CASES: dict[str, Callable[[GraphMaker], object]] = {
    "abs": lambda m: m.op("ABS", [m.input((1, 20, 20, 9))], m.tensor((1, 20, 20, 9))),
    "conv_3x3_relu6": lambda m: m.conv(m.input((1, 9, 7, 5)), 7, same(9, 7, (3, 3)), Activation.RELU6),
    "conv_5x3_stride_2": lambda m: m.conv(m.input((1, 10, 8, 20)), 40, same(10, 8, (5, 3), 2)),
    "conv_dilated": lambda m: m.conv(m.input((1, 12, 12, 33)), 9, same(12, 12, (3, 3), 1, 2)),
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
    "resize_twice": lambda m: m.resize(m.input((1, 5, 7, 20)), (10, 14)),
    "resize_twice_to_odd": lambda m: m.resize(m.input((1, 5, 7, 20)), (9, 13)),
    "resize_twice_centred": lambda m: m.resize(m.input((1, 5, 7, 3)), (10, 14), half_pixel=True),
    "resize_four_times": lambda m: m.resize(m.input((1, 5, 7, 20)), (20, 28)),
    "resize_eight_times_to_odd": lambda m: m.resize(m.input((1, 3, 2, 17)), (23, 15)),
    "resize_one_row": lambda m: m.resize(m.input((1, 1, 6, 5)), (1, 12)),
    "resize_to_the_same": lambda m: m.resize(m.input((1, 4, 6, 5)), (4, 6)),
    "softmax": lambda m: m.softmax(m.input((1, 10))),
    "softmax_of_rows": lambda m: m.softmax(m.input((3, 40, 33)), 0.5),
    "softmax_of_an_image": lambda m: m.softmax(m.input((1, 6, 7, 21), Quantisation((0.02,), (3,)))),
    "softmax_of_many_channels": lambda m: m.softmax(m.input((8, 511), Quantisation((0.003,), (3,)))),
    "softmax_of_a_thousand": lambda m: m.softmax(m.input((5, 1001), Quantisation((0.1,), (3,)))),
    "softmax_of_thousands_alike": lambda m: m.softmax(m.input((8, 4095), Quantisation((1e-5,), (3,)))),
    "softmax_of_two": lambda m: m.softmax(m.input((500, 2), Quantisation((0.1,), (3,)))),
    "softmax_of_many_sums": lambda m: m.softmax(m.input((1, 150, 200, 3), Quantisation((0.01,), (3,)))),
    "softmax_of_one": lambda m: m.softmax(m.input((9, 1))),
    "softmax_of_next_to_nothing": lambda m: m.softmax(m.input((4, 64), Quantisation((1e-9,), (3,)))),
    "mean": lambda m: m.mean(m.input((1, 7, 9, 50))),
    "mean_of_a_power_of_two": lambda m: m.mean(m.input((1, 8, 8, 50))),
    "mean_over_height": lambda m: m.mean(m.input((1, 50, 4, 12)), (1,)),
    "mean_large": lambda m: m.mean(m.input((1, 64, 64, 8))),
    "concatenate": lambda m: m.concatenate([m.input((1, 9, 7, depth)) for depth in (21, 1, 16)]),
    "concatenate_with_itself": lambda m: m.concatenate([m.input((1, 9, 7, 21))] * 3),
    "concatenate_rows": lambda m: m.concatenate([m.input((3, 16)), m.input((3, 24))], axis=1),
    "concatenate_pieces": lambda m: m.concatenate(m.split(m.input((1, 6, 9, 48)), (16, 32))[::-1]),
    "concatenate_images": lambda m: m.concatenate([m.input((1, rows, 7, 21)) for rows in (4, 1, 9)], axis=1),
    "concatenate_columns": lambda m: m.concatenate([m.input((1, 5, columns, 16)) for columns in (3, 8, 1)], axis=2),
    "concatenate_batches": lambda m: m.concatenate([m.input((n, 3, 5, 7)) for n in (2, 1)], axis=0),
    "concatenate_of_rank_3": lambda m: m.concatenate([m.input((2, n, 6)) for n in (40, 3)], axis=1),
    "concatenate_of_rank_5": lambda m: m.concatenate([m.input((2, 3, n, 2, 6)) for n in (4, 1)], axis=2),
    "split_of_rows": lambda m: m.split(m.input((1, 9, 7, 16)), (1, 6, 2), axis=1),
    "split_of_columns": lambda m: m.split(m.input((1, 9, 7, 5)), (3, 4), axis=2),
    "split_of_rank_5": lambda m: m.split(m.input((2, 3, 4, 2, 5)), (1, 3), axis=2),
    "split": lambda m: m.split(m.input((1, 9, 7, 21)), (7, 7, 7)),
    "split_unevenly": lambda m: m.split(m.input((1, 9, 7, 70)), (1, 32, 16, 21)),
    "split_of_a_row": lambda m: m.split(m.input((3, 40), dtype=m.dtype), (16, 24), axis=1),
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
    "pad_channels": lambda m: m.moved(
        "PAD", m.input((1, 5, 6, 16)), (1, 5, 6, 48), PadAttrs(((0, 0),) * 3 + ((0, 32),))
    ),
    "pad_more_than_there_is": lambda m: m.moved("PAD", m.input((2, 3)), (9, 8), PadAttrs(((5, 2), (1, 4)))),
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
    "reverse": lambda m: m.moved("REVERSE_V2", m.input((3, 4, 5)), (3, 4, 5), ReverseAttrs((0, 2))),
    "quantize": lambda m: m.quantize(m.input((1, 30, 30, 9))),
    "quantize_to_the_other_type": lambda m: m.quantize(
        m.input((1, 30, 30, 9)), DType.UINT8 if m.dtype is DType.INT8 else DType.INT8
    ),
}
# Accelerator, which of the valid blocks (1 the largest), constants staged in the arena.
SETTINGS = [("ethos-u55-256", 1.0, False), ("ethos-u55-32", 0.5, True), ("ethos-u65-256", 0.0, True)]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
@pytest.mark.parametrize("case", CASES)
def test_operator(case: str, dtype: DType) -> None:
    for seed in range(3):
        maker = GraphMaker(dtype, seed)
        CASES[case](maker)
        accelerator, rank, staged = SETTINGS[seed]
        check_whole(maker.graph(), ACCELERATORS[accelerator], rank=rank, staged=staged, seed=seed)


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
