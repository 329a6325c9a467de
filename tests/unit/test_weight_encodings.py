"""How constants are cut into slices before they are encoded."""

import pytest
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import prepare, search
from ethoscade.scheduling.problem import MOST_SLICES, SLICE_BYTES, choose_encoding
from ethoscade.targets.target import load_target
from ethoscade.testing import ModelBuilder


@pytest.mark.parametrize(
    ("channels", "depths"),
    [
        (32, [32]),
        (64, [32, 32]),
        (128, [32] * 4),
        (192, [96, 96]),
        (256, [96, 96, 64]),
        (512, [64] * 8),
        (1024, [64] * 16),
        (1536, [96] * 16),
    ],
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


@pytest.mark.parametrize(
    ("plane", "depths"), [((1, 40), [32] * 4), ((1, 198), [32] * 4), ((1, 400), [64, 64]), ((40, 40), [128])]
)
def test_few_constants_are_sliced_the_finer_the_smaller_the_feature_maps_are(
    plane: tuple[int, int], depths: list[int]
) -> None:
    builder = ModelBuilder("rows")
    builder.output(builder.conv2d(builder.input((1, *plane, 32)), 128, (1, 3)))
    target = load_target("ethos-u55-256")
    (operation,) = prepare(read_tflite(builder.build()), target).npu.operations
    sliced = choose_encoding(operation, target).sliced
    depth = 128 if sliced is None else sliced.depth
    assert [min(depth, 128 - first) for first in range(0, 128, depth)] == depths


def test_slices_run_beside_feature_maps_that_leave_no_room_for_all_constants() -> None:
    """Read in place they come once for each block of the plane, which takes longer than copying them."""
    builder = ModelBuilder("rows")
    builder.output(builder.conv2d(builder.input((1, 1, 198, 32)), 128, (1, 3)))
    network = prepare(read_tflite(builder.build()), load_target("ethos-u55-256"))
    (part,) = network.problem.specs
    curve = search(network)
    assert part.kernel is not None
    room = curve.floor_bytes + part.kernel.constant_bytes
    within = [
        (cycles, plan.staging)
        for (size, cycles), proposal in zip(curve.points, curve.proposals, strict=True)
        for plan in proposal.plans
        if size < room
    ]
    assert [staging for _, staging in within[:2]] == [["in_place"], ["sliced"]]
    assert 3 * within[1][0] < 2 * within[0][0]


@pytest.mark.parametrize("plane", [(20, 20), (2, 2)])
def test_orders_are_encoded_until_the_best_one_is(plane: tuple[int, int]) -> None:
    builder = ModelBuilder("pointwise")
    builder.output(builder.conv2d(builder.input((1, *plane, 64)), 128, 1))
    target = load_target("ethos-u55-256")
    (operation,) = prepare(read_tflite(builder.build()), target).npu.operations
    asked: list[tuple[int, bool]] = []

    def bytes_of(block_depth: int, part_kernel: bool) -> int:
        asked.append((block_depth, part_kernel))
        return 9_000 + 16 * len(asked)

    found = choose_encoding(operation, target, bytes_of)
    assert {(way.block_depth, way.part_kernel) for way in (found, found.staged) if way is not None} <= set(asked)
    assert len(set(asked)) == len(asked)
