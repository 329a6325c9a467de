"""Operators whose outputs read many values: products of matrices, sums, means, extremes, SOFTMAX and its kin."""

from __future__ import annotations

from collections.abc import Callable

from ethoscade.ir import (
    Activation,
    DType,
    Quantisation,
)
from graphs import GraphMaker


def normalised(m: GraphMaker, shape: tuple[int, ...]) -> int:
    """L2_NORMALIZATION of an input of that shape, and its fixed quantisation."""
    middle = Quantisation((1 / 128,), (sum(m.dtype.limits) // 2 + 1,))
    return m.op("L2_NORMALIZATION", [m.input(shape)], m.tensor(shape, middle))


def logarithms(m: GraphMaker, shape: tuple[int, ...], scale: float) -> int:
    """LOG_SOFTMAX of an input of that shape, and its fixed quantisation."""
    made = m.tensor(shape, Quantisation((1 / 16,), (m.dtype.limits[1],)))
    return m.op("LOG_SOFTMAX", [m.input(shape, Quantisation((scale,), (3,)))], made)


REDUCTIONS: dict[str, Callable[[GraphMaker], object]] = {
    "fully_connected": lambda m: m.fully_connected(m.input((1, 300)), 11, Activation.RELU),
    "fully_connected_rows": lambda m: m.fully_connected(m.input((2, 3, 7)), 11, rows=2),
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
}
