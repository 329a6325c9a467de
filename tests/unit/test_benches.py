"""What the benches work out themselves: dominance, sizes of a sweep, instruction counts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from end_to_end import network_of
from ethoscade import SchedulingError
from ethoscade.pipeline.compiler import search
from ethoscade.testing import inverted_residuals, tiny_conv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import ablation
import all_files
import chains
import frontiers
import harness
import open_forks


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
        with pytest.raises(SchedulingError, match=f"option '{wrong[0]}'"):
            ablation.search(network, [wrong])


def test_what_a_figure_loses_is_a_mean_of_ratios() -> None:
    before = [ablation.Found(((100, 40), (200, 10)), 1.0), ablation.Found(((50, 8),), 1.0)]
    after = [ablation.Found(((200, 40), (400, 10)), 3.0), ablation.Found(((50, 8),), 1.0)]
    floors, cycles, seconds = ablation.compared(before, after)
    assert floors == pytest.approx(2**0.5) and seconds == 2.0
    # Budgets of 100, 150 and 200 bytes, and of 50: the leanest counts where nothing fits.
    assert cycles == pytest.approx(4 ** (1 / 4))
