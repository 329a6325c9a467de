"""One-operator networks: lowered, emitted, run on the simulated NPU, bit-exact with the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ethoscade.ir import Activation, DType, Quantisation, Window
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
    "add_constant": lambda m: m.binary("ADD", m.input((1, 9, 7, 21)), m.values((1, 9, 7, 21))),
    "add_constant_of_channels": lambda m: m.binary("ADD", m.values((21,)), m.input((1, 9, 7, 21)), Activation.RELU),
    "add_number": lambda m: m.binary("ADD", m.input((3, 50)), m.values((1, 1))),
    "add_repeated_first": lambda m: m.binary("ADD", m.input((1, 1, 1, 20)), m.input((1, 9, 7, 20))),
    "sub": lambda m: m.binary("SUB", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21)), Activation.RELU6),
    "sub_from_a_number": lambda m: m.binary("SUB", m.values(()), m.input((1, 9, 7, 21))),
    "sub_from_a_constant": lambda m: m.binary("SUB", m.values((7, 1)), m.input((1, 9, 7, 32))),
    "sub_constant": lambda m: m.binary("SUB", m.input((1, 9, 7, 32)), m.values((1, 9, 7, 32))),
    "sub_from_a_row": lambda m: m.binary("SUB", m.input((1, 1, 7, 21)), m.input((1, 9, 7, 21))),
    "mul": lambda m: m.binary("MUL", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21)), Activation.RELU),
    "mul_by_itself": lambda m: m.binary("MUL", *(m.input((1, 9, 7, 21)),) * 2),
    "mul_squeeze_excite": lambda m: m.binary("MUL", m.input((1, 1, 1, 48)), m.input((1, 9, 7, 48))),
    "mul_constant_of_channels": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((48,))),
    "mul_constant_of_columns": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((7, 1))),
    "mul_constant": lambda m: m.binary("MUL", m.values((1, 9, 7, 32)), m.input((1, 9, 7, 32)), Activation.RELU6),
    "mul_number": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((1,))),
    "mul_of_five_dimensions": lambda m: m.binary("MUL", m.input((2, 3, 4, 5, 6)), m.input((3, 1, 1, 6))),
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
    "prelu": lambda m: m.binary("PRELU", m.input((1, 9, 7, 21)), m.values((1, 1, 21), Quantisation((0.1,), (100,)))),
    "prelu_of_flat_slopes": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.values((1, 1, 21), Quantisation((0.002,), (60,)))
    ),
    "prelu_of_steep_slopes": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.values((21,), Quantisation((1.5,), (m.dtype.limits[0] - 1,)))
    ),
    "prelu_of_a_feature_map": lambda m: m.binary("PRELU", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21))),
    "prelu_in_place": lambda m: m.binary(
        "PRELU",
        m.input((1, 9, 7, 21), Quantisation((0.1,), (5,))),
        m.values((1, 1, 21), Quantisation((0.002,), (60,))),
        q=Quantisation((0.1,), (5,)),
    ),
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
    "split": lambda m: m.split(m.input((1, 9, 7, 21)), (7, 7, 7)),
    "split_unevenly": lambda m: m.split(m.input((1, 9, 7, 70)), (1, 32, 16, 21)),
    "split_of_a_row": lambda m: m.split(m.input((3, 40), dtype=m.dtype), (16, 24), axis=1),
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
