"""What the benches work out themselves: bounds by rows, dominance, sizes of a sweep, instruction counts."""

from __future__ import annotations

import functools
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from end_to_end import network_of
from ethoscade import _core
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

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import ablation
import all_files
import byte_chains
import chains
import frontiers
import harness
import open_forks
import row_bounds
import time_bounds


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
    assert row_bounds.plain_bound(row_bounds.main_path(network.stages)) == 9 * 32
    assert row_bounds.walked_bound(network.problem) == 9 * 32


def test_a_3x3_convolution_keeps_one_row_more() -> None:
    """Row 1 of the output needs rows 0..2: all 8, and rows 0 and 1 made."""
    network = network_of(chain((3, 1)))
    assert row_bounds.plain_bound(row_bounds.main_path(network.stages)) == 10 * 32
    assert row_bounds.walked_bound(network.problem) == 10 * 32


def test_a_group_is_taken_where_it_is_smaller() -> None:
    """8 rows of 32 bytes become 8 of 128 become 4 of 16, by 3x3 windows; one group never has the middle as a whole.

    Most is alive as the middle's third row is made: input rows 1..7 and middle rows 0..2. Alone, the first convolution
    ends with input rows 6 and 7 and all of the middle.
    """
    builder = ModelBuilder("hourglass")
    x = builder.input((1, 8, 8, 4), name="input")
    builder.conv2d(builder.conv2d(x, 16, 3), 4, 3, stride=2)
    network = network_of(builder.build())
    rows = row_bounds.Rows(network.problem)
    assert row_bounds.RowWalk(rows, 0, 0).peak == 2 * 32 + 8 * 128
    assert row_bounds.RowWalk(rows, 0, 1).peak == 7 * 32 + 3 * 128 == row_bounds.walked_bound(network.problem)
    # The plain count has all of the input beside three rows between and one made.
    assert row_bounds.plain_bound(row_bounds.main_path(network.stages)) == 8 * 32 + 3 * 128 + 16


def test_residuals_count_only_where_they_are_walked() -> None:
    network = network_of(residual_network(blocks=1, channels=8, resolution=16))
    plain, walked = (
        row_bounds.plain_bound(row_bounds.main_path(network.stages)),
        row_bounds.walked_bound(network.problem),
    )
    rows = row_bounds.Rows(network.problem)
    add = next(i for i, part in enumerate(network.problem.specs) if len(part.inputs) == 2)
    held = {read.tensor for read in network.problem.specs[add].inputs}
    alone = row_bounds.RowWalk(rows, add, add).peak
    # The output takes the place of one operand's rows as they die: both operands, and one row.
    (output,) = network.problem.specs[add].outputs
    assert alone == sum(rows.bytes_of(tensor) for tensor in held) + rows.row_bytes(output)
    assert plain > 0 and 0 < walked <= alone


@pytest.mark.parametrize("model", [tiny_conv(), residual_network(blocks=2, channels=8, resolution=16)])
def test_no_partition_of_single_operations_beats_the_bound(model: bytes) -> None:
    problem = network_of(model).problem
    rows = row_bounds.Rows(problem)
    singles = [
        row_bounds.RowWalk(rows, part, part).peak if spec.kernel else rows.alone(part)
        for part, spec in enumerate(problem.specs)
    ]
    assert row_bounds.walked_bound(problem) <= max(singles)


def test_dominance() -> None:
    point = frontiers.Point("a", 100, 50, 0)
    for size, cycles, beaten in [(100, 50, False), (100, 51, True), (101, 50, True), (99, 60, False), (101, 51, True)]:
        assert point.dominates(frontiers.Point("b", size, cycles, 0)) is beaten


def test_a_comparison_counts_both_ways() -> None:
    ours = (frontiers.Point("ours", 10, 100, 100), frontiers.Point("ours", 20, 50, 50))
    velas = (
        frontiers.Point("regor", 12, 110, 0),
        frontiers.Point("regor", 19, 49, 0),
        frontiers.Point("legacy", 30, 40, 0),
    )
    found = frontiers.Comparison("m", ours, velas, (40, 45), 0.1)
    assert (found.won, found.lost) == ([velas[0]], [velas[1]])
    assert found.vela_floor == velas[0] and found.ours_within(19) == ours[0] and found.ours_within(9) is None
    page = frontiers.page([found])
    assert "| 1 of 3 | 1 of 3 |" in page and "dominated by 1" in page


def test_sizes_of_a_sweep() -> None:
    sizes = frontiers.sizes_between(100_000, 1_000_000, 12)
    assert len(sizes) == 12 and sizes == sorted(sizes) and all(size % 1024 == 0 for size in sizes)
    assert abs(sizes[0] - 90_000) < 1024 and abs(sizes[-1] - 1_000_000) < 1024


def test_a_chain_is_as_long_as_asked() -> None:
    graph = chains.chain(7, harness.default_target())
    assert "7 parts, 8 tensors" in repr(graph)
    assert chains._core.search_cascades(graph).proposals


def test_instructions_are_those_of_the_search_alone() -> None:
    programs: list[str] = []

    def count(command: list[str]) -> int:
        programs.append(command[-1])
        return 10 if "if True:" in command[-1] else 4

    assert chains.instructions("chains.chain(3, harness.default_target())", count) == 6
    assert len(programs) == 2 and all("graph = chains.chain(3, " in program for program in programs)


def test_every_point_is_a_point() -> None:
    network = network_of(tiny_conv())
    curve = search(network)
    compiled = list(harness.every_point(network, curve))
    assert tuple((one.sram_bytes, one.cycles) for one in compiled) == curve.points
    cost = harness.cost_of(harness.payloads_of(compiled[-1]), network.target)
    assert 0 < cost.bound <= cost.cycles


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
    curve, bounds = search(network), time_bounds.TimeBounds(network.problem, network.target)
    found = [bounds.within(size) for size, _ in curve.points]
    for (_, cycles), bound in zip(curve.points, found, strict=True):
        assert max(bounds.cycles, bound.cycles if bound else 0) <= cycles
    for proposal, bound in {curve.proposals[0]: found[0], curve.proposals[-1]: found[-1]}.items():
        timed = sum(report.cycles for _, report in carry_out(network, curve, proposal).timing())
        assert max(bounds.cycles, bound.cycles if bound else 0) <= timed


def test_a_budget_binds_where_constants_come_last() -> None:
    network = network_of(heavy_tail())
    bounds = time_bounds.TimeBounds(network.problem, network.target)
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
    (operation,) = time_bounds.TimeBounds(network.problem, network.target).operations.values()
    assert operation.mac == 64 * 4 * 4 * 2
    assert operation.output == 16 * 16 * 32 / 4
    # Tensors of the network's interface are NHWC: more than 16 channels are written at half the rate.
    assert operation.memory >= (16 * 16 * 64 + 2 * 16 * 16 * 32) / 8
    assert operation.cycles <= operation.in_one_piece


def test_chains_spread_as_evenly_as_windows_allow() -> None:
    whole = [Fraction(1, 4)] * 4
    assert byte_chains.handed_back(whole, [(2 * row, 2 * row + 2) for row in range(4)], 8) == [Fraction(1, 8)] * 8
    assert byte_chains.handed_back(whole, [(2 * row, 2 * row + 1) for row in range(4)], 8) == [Fraction(1, 4), 0] * 4
    assert byte_chains.handed_back([Fraction(1)], [(0, 3)], 3) == [Fraction(1, 3)] * 3


def test_a_row_for_every_file(tmp_path: Path) -> None:
    """A compiled file, a damaged one, and one that takes more than it may."""
    path = tmp_path / "model.tflite"
    path.write_bytes(tiny_conv())
    found = all_files.row(path, 1, 120, 8000)
    assert found["said"] == "ok" and float(found["seconds"]) >= 0 and int(found["mb"]) > 0
    assert found["verdict"] == "exact" or found["verdict"].startswith("VerificationError")
    assert all_files.row(path, 1, 120, 60)["said"].startswith(all_files.WRONG)
    path.write_bytes(tiny_conv()[:400])
    assert all_files.row(path, 1, 120, 8000)["said"].startswith("ModelFormatError")


@pytest.mark.parametrize("name", open_forks.NETWORKS)
def test_networks_whose_forks_stay_open_are_planned(name: str) -> None:
    seconds, kib, points, floor, reason = open_forks.planned(open_forks.NETWORKS[name](9))
    assert seconds > 0 and kib >= 0 and points > 0 and floor > 0 and reason in ("complete", "width", "work")


def test_ablation_knows_every_tuned_figure_and_its_default() -> None:
    """Set to their defaults, figures change nothing; one that is unknown is refused by name."""
    network = network_of(inverted_residuals())
    before = ablation.search(network)
    defaults = [(name, default) for name, (default, _) in ablation.FIGURES.items()]
    assert ablation.search(network, defaults).points == before.points
    assert ablation.search(network, [("filling.rounds", 0), ("placing.rounds", 0)]).points != before.points
    for wrong in (("margin", 1), ("placing.margin", 0)):
        with pytest.raises(_core.SchedulingError, match=f"option '{wrong[0]}'"):
            ablation.search(network, [wrong])


def test_what_a_figure_loses_is_a_mean_of_ratios() -> None:
    before = [ablation.Found(((100, 40), (200, 10)), 1.0), ablation.Found(((50, 8),), 1.0)]
    after = [ablation.Found(((200, 40), (400, 10)), 3.0), ablation.Found(((50, 8),), 1.0)]
    floors, cycles, seconds = ablation.compared(before, after)
    assert floors == pytest.approx(2**0.5) and seconds == 2.0
    # Budgets of 100, 150 and 200 bytes, and of 50: the leanest counts where nothing fits.
    assert cycles == pytest.approx(4 ** (1 / 4))
