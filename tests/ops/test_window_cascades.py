"""Operators with windows between convolutions: every point of the frontier exact, and at the floor cut into stripes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.ir import DType
from ethoscade.testing import ModelBuilder, Value

CASES: dict[str, Callable[[ModelBuilder, Value], Value]] = {
    "transpose_conv": lambda b, x: b.transpose_conv(x, 16, 5, stride=2),
    "transpose_conv_valid": lambda b, x: b.transpose_conv(x, 16, (3, 2), stride=2, padding="VALID"),
    "transpose_conv_stride_4": lambda b, x: b.transpose_conv(x, 8, 6, stride=4),
    "transpose_conv_rows_alone": lambda b, x: b.transpose_conv(x, 16, 3, stride=(2, 1)),
    "depthwise_times_6": lambda b, x: b.depthwise(b.conv2d(x, 48, 1), 3, multiplier=6),
    "depthwise_times_2": lambda b, x: b.depthwise(x, 3, multiplier=2, stride=2),
    "max_pool_stride_4": lambda b, x: b.max_pool(b.conv2d(x, 48, 1), (5, 4), stride=4),
    "mean_over_channels": lambda b, x: b.mean(b.conv2d(x, 200, 1), (3,), keep_dims=True),
    "mean_over_columns": lambda b, x: b.mean(b.conv2d(x, 40, 1), (2,), keep_dims=True),
    "arg_max": lambda b, x: b.arg_max(b.conv2d(b.resize_nearest(x, (48, 40)), 21, 1), dtype=DType.INT64),
    "reduce_max_over_channels": lambda b, x: b.reduce("REDUCE_MAX", b.conv2d(x, 200, 1), (3,), keep_dims=True),
    "reduce_min_over_columns": lambda b, x: b.reduce("REDUCE_MIN", b.conv2d(x, 40, 1), (2,), keep_dims=True),
    "conv_of_groups": lambda b, x: b.conv2d(b.conv2d(x, 96, 1), 96, 3, groups=4),
    "conv_dilated_by_3": lambda b, x: b.conv2d(b.conv2d(x, 48, 1), 48, 3, dilation=3),
    "conv_stride_4": lambda b, x: b.conv2d(b.conv2d(x, 48, 1), 32, 3, stride=4, padding="VALID"),
    "bilinear_twice": lambda b, x: b.resize_bilinear(x, (24, 20)),
    "bilinear_centred": lambda b, x: b.resize_bilinear(x, (24, 20), half_pixel_centers=True),
    "bilinear_four_times_centred": lambda b, x: b.resize_bilinear(x, (48, 40), half_pixel_centers=True),
    "bilinear_16_times": lambda b, x: b.resize_bilinear(x, (177, 145), align_corners=True),
    "both_repeated": lambda b, x: b.binary("MUL", b.max_pool(x, (12, 1)), b.input((1, 60, 1, 16))),
    "repeated_along_channels": lambda b, x: b.binary("ADD", b.conv2d(x, 1, 1), b.input((1, 1, 1, 64))),
}
"""Of 12 rows and 10 columns of 16 channels each makes something larger."""


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *((case, dtype) for case in CASES for dtype in (DType.INT8, DType.UINT8)),
        *((case, DType.INT16) for case in CASES if case.startswith(("bilinear", "reduce", "both"))),
    ],
)
def test_points_are_exact_and_the_floor_is_striped(case: str, dtype: DType) -> None:
    accelerator = ("ethos-u55-256", "ethos-u55-32", "ethos-u65-256")[len(case) % 3]
    b = ModelBuilder(dtype=dtype, seed=len(case))
    x = CASES[case](b, b.conv2d(b.input((1, 12, 10, 3)), 16, 3))
    if x.dtype is dtype:
        b.conv2d(x, 1, 3, stride=(3, 3))
    network = network_of(b.build(), accelerator)
    curve = both_ends(network)
    largest = max(int(np.prod(o.ofm.shape)) for o in network.npu.operations) * dtype.size_bytes
    assert curve.points[0][0] < largest, f"{curve.points[0][0]} bytes at the floor hold what has {largest} whole"
