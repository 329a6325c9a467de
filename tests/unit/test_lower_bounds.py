"""Bounds that no schedule beats: counted by hand on small networks, and held against frontiers."""

from __future__ import annotations

import functools
from fractions import Fraction

import pytest
from end_to_end import network_of
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.testing import (
    ModelBuilder,
    inception_modules,
    inverted_residuals,
    random_network,
    residual_network,
    shuffle_units,
    tiny_conv,
)

from lower_bounds.byte_chains import handed_back
from lower_bounds.cycles import TimeBounds
from lower_bounds.rows import Rows, RowWalk, main_path, plain_bound, walked_bound


def chain(*kernels: tuple[int, int], size: int = 8, channels: int = 4) -> bytes:
    """Convolutions (kernel, stride) on a square image, each with as many channels as its input."""
    builder = ModelBuilder("chain")
    x = builder.input((1, size, size, channels), name="input")
    for kernel, stride in kernels:
        x = builder.conv2d(x, channels, kernel, stride=stride)
    return builder.build()


def test_a_pointwise_convolution_grows_into_its_input() -> None:
    """One row of 32 bytes is read while its successor is written: 8 + 1 rows."""
    network = network_of(chain((1, 1)))
    assert plain_bound(main_path(network.npu.operations)) == 9 * 32
    assert walked_bound(network.problem) == 9 * 32


def test_a_3x3_convolution_keeps_one_row_more() -> None:
    """Row 1 of the output needs rows 0..2: all 8, and rows 0 and 1 made."""
    network = network_of(chain((3, 1)))
    assert plain_bound(main_path(network.npu.operations)) == 10 * 32
    assert walked_bound(network.problem) == 10 * 32


def test_a_group_is_taken_where_it_is_smaller() -> None:
    """8 rows of 32 bytes become 8 of 128 become 4 of 16, by 3x3 windows; one group never has the middle as a whole.

    Most is alive as the middle's third row is made: input rows 1..7 and middle rows 0..2. Alone, the first convolution
    ends with input rows 6 and 7 and all of the middle.
    """
    builder = ModelBuilder("hourglass")
    x = builder.input((1, 8, 8, 4), name="input")
    builder.conv2d(builder.conv2d(x, 16, 3), 4, 3, stride=2)
    network = network_of(builder.build())
    rows = Rows(network.problem)
    assert RowWalk(rows, 0, 0).peak == 2 * 32 + 8 * 128
    assert RowWalk(rows, 0, 1).peak == 7 * 32 + 3 * 128 == walked_bound(network.problem)
    # The plain count has all of the input beside three rows between and one made.
    assert plain_bound(main_path(network.npu.operations)) == 8 * 32 + 3 * 128 + 16


def test_residuals_count_only_where_they_are_walked() -> None:
    network = network_of(residual_network(blocks=1, channels=8, resolution=16))
    plain, walked = (
        plain_bound(main_path(network.npu.operations)),
        walked_bound(network.problem),
    )
    rows = Rows(network.problem)
    add = next(i for i, part in enumerate(network.problem.specs) if len(part.inputs) == 2)
    held = {read.tensor for read in network.problem.specs[add].inputs}
    alone = RowWalk(rows, add, add).peak
    # The output takes the place of one operand's rows as they die: both operands, and one row.
    (output,) = network.problem.specs[add].outputs
    assert alone == sum(rows.bytes_of(tensor) for tensor in held) + rows.row_bytes(output)
    assert plain > 0 and 0 < walked <= alone


@pytest.mark.parametrize("model", [tiny_conv(), residual_network(blocks=2, channels=8, resolution=16)])
def test_no_partition_of_single_operations_beats_the_bound(model: bytes) -> None:
    problem = network_of(model).problem
    rows = Rows(problem)
    singles = [
        RowWalk(rows, part, part).peak if spec.kernel else rows.alone(part) for part, spec in enumerate(problem.specs)
    ]
    assert walked_bound(problem) <= max(singles)


# --- bounds on cycles -------------------------------------------------------------------------------------------------


def heavy_tail() -> bytes:
    """Large maps and hardly any weights first, small maps and many weights last."""
    builder = ModelBuilder("heavy_tail")
    x = builder.conv2d(builder.conv2d(builder.input((1, 48, 48, 3), name="input"), 16, 3), 32, 3, stride=2)
    for channels in (32, 64, 128, 256):
        x = builder.conv2d(builder.depthwise(x, 3, stride=2), channels, 1)
    builder.conv2d(x, 512, 1)
    return builder.build()


def skipping() -> bytes:
    """1x1 kernels of stride 2, of which three quarters of the input never matter, and windows without padding."""
    builder = ModelBuilder("skipping")
    x = builder.conv2d(builder.input((1, 33, 29, 8), name="input"), 24, 3, padding="VALID")
    x = builder.conv2d(builder.conv2d(x, 48, 1, stride=2), 64, 3, padding="VALID")
    builder.conv2d(builder.conv2d(x, 96, 1), 40, 5, stride=2)
    return builder.build()


NETWORKS = {
    "heavy_tail": heavy_tail,
    "skipping": skipping,
    "chain": lambda: chain((3, 1), (3, 2), (1, 1), (5, 1), size=24, channels=16),
    "residual": lambda: residual_network(blocks=2, channels=16, resolution=24),
    "inverted": lambda: inverted_residuals(blocks=3, resolution=32),
    "shuffle": lambda: shuffle_units(units=1, channels=16, resolution=12),
    "inception": lambda: inception_modules(modules=1, channels=16, resolution=12),
    **{f"random_{seed}": functools.partial(random_network, seed, max_resolution=20) for seed in range(12)},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_point_of_a_frontier_beats_its_bounds(name: str) -> None:
    """All that is promised, and what the referee says of the leanest and of the fastest."""
    network = network_of(NETWORKS[name]())
    curve, bounds = search(network), TimeBounds(network.problem, network.target)
    found = [bounds.within(size) for size, _ in curve.points]
    for (_, cycles), bound in zip(curve.points, found, strict=True):
        assert max(bounds.cycles, bound.cycles if bound else 0) <= cycles
    for proposal, bound in {curve.proposals[0]: found[0], curve.proposals[-1]: found[-1]}.items():
        timed = sum(report.cycles for _, report in carry_out(network, curve, proposal).timing())
        assert max(bounds.cycles, bound.cycles if bound else 0) <= timed


def test_a_budget_binds_where_constants_come_last() -> None:
    network = network_of(heavy_tail())
    bounds = TimeBounds(network.problem, network.target)
    floor, ample = search(network).floor_bytes, 1 << 24
    lean, wide = bounds.within(floor), bounds.within(ample)
    assert lean is not None and wide is not None
    assert lean.cycles > bounds.cycles > wide.cycles
    # A byte of budget is a byte of constants, and a cycle of flash, where the same state is the best one.
    more = bounds.within(floor + 16)
    assert more is not None and lean.cycles - more.cycles == 16
    assert lean.tensor_bytes + lean.staged_bytes == floor
    assert lean.cycles == lean.kernel_cycles + lean.constant_bytes - lean.staged_bytes


def test_least_cycles_of_an_operation() -> None:
    """Pointwise, 16x16x64 to 32 channels: 64 micro-blocks of 4 cycles, 4 deep, 2 depth blocks of the input."""
    builder = ModelBuilder("pointwise")
    builder.conv2d(builder.input((1, 16, 16, 64), name="input"), 32, 1)
    network = network_of(builder.build())
    (operation,) = TimeBounds(network.problem, network.target).operations.values()
    assert operation.mac == 64 * 4 * 4 * 2
    assert operation.output == 16 * 16 * 32 / 4
    # Tensors of the network's interface are NHWC: more than 16 channels are written at half the rate.
    assert operation.memory >= (16 * 16 * 64 + 2 * 16 * 16 * 32) / 8
    assert operation.cycles <= operation.in_one_piece


def test_chains_spread_as_evenly_as_windows_allow() -> None:
    whole = [Fraction(1, 4)] * 4
    assert handed_back(whole, [(2 * row, 2 * row + 2) for row in range(4)], 8) == [Fraction(1, 8)] * 8
    assert handed_back(whole, [(2 * row, 2 * row + 1) for row in range(4)], 8) == [Fraction(1, 4), 0] * 4
    assert handed_back([Fraction(1)], [(0, 3)], 3) == [Fraction(1, 3)] * 3
