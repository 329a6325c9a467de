"""How constants are cut into slices before they are encoded."""

import pytest
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import prepare
from ethoscade.scheduling.problem import MOST_SLICES, SLICE_BYTES, choose_encoding
from ethoscade.target import load_target
from ethoscade.testing import ModelBuilder


@pytest.mark.parametrize(
    ("channels", "depths"),
    [(64, [64]), (192, [96, 96]), (256, [96, 96, 64]), (512, [64] * 8), (1024, [64] * 16), (1536, [96] * 16)],
)
def test_slices_hold_so_many_bytes_and_are_not_too_many(channels: int, depths: list[int]) -> None:
    builder = ModelBuilder("pointwise")
    builder.output(builder.conv2d(builder.input((1, 4, 4, channels)), channels, 1))
    target = load_target("ethos-u55-256")
    (operation,) = prepare(read_tflite(builder.build()), target).npu.operations
    sliced = choose_encoding(operation, target).sliced
    depth = channels if sliced is None else sliced.depth
    assert [min(depth, channels - first) for first in range(0, channels, depth)] == depths
    assert len(depths) <= MOST_SLICES
    assert len(depths) in (1, MOST_SLICES) or channels * depth <= 2 * SLICE_BYTES
