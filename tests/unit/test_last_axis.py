"""Many channels of a single pixel, seen as rows that stripes can cut."""

from __future__ import annotations

import math

import ethoscade
import pytest
from end_to_end import carry_out, network_of
from ethoscade.ir import DType
from ethoscade.lowering import last_axis
from ethoscade.lowering.npu import OperationKind
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling.schedule import from_proposal
from ethoscade.testing import ModelBuilder, mobilenet_v1


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (1, (1, 1, 1)),
        (128, (1, 1, 128)),
        (1000, (25, 1, 40)),
        (1001, (13, 1, 77)),
        (4000, (50, 1, 80)),
        # Of a prime only single channels would do, and of twice a prime pairs: the NPU works on eight at a time.
        (1009, (1, 1, 1009)),
        (2018, (1, 1, 2018)),
    ],
)
def test_rows_that_cost_little(channels: int, expected: tuple[int, int, int]) -> None:
    found = last_axis.cut(channels)
    assert math.prod(found) == channels
    assert found == expected


@pytest.mark.parametrize("channels", range(129, 4096, 61))
def test_no_pixel_is_large_and_the_npu_does_hardly_more(channels: int) -> None:
    rows, columns, depth = last_axis.cut(channels)
    assert (rows * depth, columns) == (channels, 1)
    assert rows == 1 or depth <= last_axis.MOST_IN_ONE_PIXEL
    assert rows * math.ceil(depth / 8) <= 9 / 8 * math.ceil(channels / 8)


def test_images_stay_and_pixels_keep_their_channels() -> None:
    assert last_axis.seen((2, 3, 5, 1000)) == ((6, 5, 1000), (6, 5, 1))
    assert last_axis.seen((1, 1, 2, 3, 1000)) == ((6, 1, 1000), (6, 1, 1))
    assert last_axis.seen((1, 1, 1, 1000)) == ((25, 1, 40), (1, 1, 1))
    assert last_axis.seen(()) == ((1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(("dtype", "most_bytes"), [(DType.INT8, 2500), (DType.UINT8, 2500), (DType.INT16, 4100)])
def test_softmax_of_one_pixel_takes_little_more_than_its_input_and_output(dtype: DType, most_bytes: int) -> None:
    """Exponentials have 32 bits: all of them at once would take four times the input."""
    b = ModelBuilder(dtype=dtype)
    b.softmax(b.input((1, 1000)))
    found = network_of(b.build())
    leanest = from_proposal(found.problem, explore(found.problem, 0).proposals[0])
    assert carry_out(found, leanest).placed_bytes <= most_bytes


def test_softmax_is_no_classifiers_floor() -> None:
    """Images that small leave the thousand classes as the largest tensor."""
    model = mobilenet_v1(0.25, 32)
    assert ethoscade.frontier(model).floor_bytes <= 3456


@pytest.mark.parametrize(
    ("shape", "plane"),
    [
        # A row's pixels, so that stripes of rows pass.
        ((1, 32, 32, 19), (32, 1, 32)),
        ((2, 8, 40, 4), (16, 1, 40)),
        # Few rows, or such as the NPU would work on an eighth more of: as of one pixel.
        ((1, 4, 756, 16), (27, 1, 112)),
        ((1, 41, 41, 4), (1, 1, 1681)),
        ((1, 1000, 1, 4), (25, 1, 40)),
        # Not many pixels.
        ((1, 11, 11, 4), (1, 1, 121)),
    ],
)
def test_numbers_of_pixels_are_channels(shape: tuple[int, ...], plane: tuple[int, int, int]) -> None:
    b = ModelBuilder()
    b.softmax(b.input(shape))
    operations = network_of(b.build()).npu.operations
    found = [operation.ofm.shape for operation in operations if operation.kind is OperationKind.CLZ]
    assert found == [plane]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    # Of the logarithm's sixty operations no one cascade is made.
    [("softmax", 2), ("l2_normalization", 4), ("log_softmax", 7)],
)
def test_numbers_of_pixels_roll_with_the_rows(kind: str, numbers: int) -> None:
    """The image lies whole, and at once fewer than so many numbers of 32 bits for each pixel; some thirty are made."""
    pixels, channels = 64 * 16, 19
    b = ModelBuilder()
    b.conv2d(getattr(b, kind)(b.input((1, 64, 16, channels))), 1, 3)
    compiled = ethoscade.compile(b.build(), optimise="size")
    assert compiled.sram_bytes < pixels * (channels + numbers * 4)
    assert compiled.verify(1).ok
