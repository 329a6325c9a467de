"""Operators that move a window: convolutions, pools, resizing."""

from __future__ import annotations

from collections.abc import Callable

from ethoscade.ir import (
    Activation,
    PoolAttrs,
    Window,
)
from graphs import GraphMaker, same

WINDOWS: dict[str, Callable[[GraphMaker], object]] = {
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
}
