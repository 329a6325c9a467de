"""What the benches work out themselves: dominance, sizes of a sweep, instruction counts."""

from __future__ import annotations

import argparse
import statistics
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from end_to_end import network_of
from ethoscade import Curve, SchedulingError
from ethoscade.pipeline.compiler import search
from ethoscade.testing import inverted_residuals, tiny_conv

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import ablation
import all_files
import chains
import frontiers
import harness
import losses
import open_forks
import zoo


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
    page = frontiers.page([found], {})
    assert "| 1 of 3 | 1 of 3 |" in page and "dominated by 1" in page


def test_curves_of_inputs_are_told_by_floor_knee_and_fastest() -> None:
    """Both in KiB and millions; behind the floor, cycles within the floor of whole inputs, if there are any."""
    whole = curve((2048, 4_000_000), (3072, 1_000_000), (8192, 900_000))
    rows = curve((1024, 9_000_000), (2048, 3_000_000), (8192, 950_000))
    table = frontiers.inputs_table({"m": {"whole": whole, "rows": rows, "more": curve((4096, 800_000))}})
    assert table.splitlines()[-3:] == [
        "| m | whole | 2.0 | 4.000 | 4.000 | 3.0 | 1.000 | 8.0 | 0.900 | 3 |",
        "| m | rows | 1.0 | 9.000 | 3.000 | 2.0 | 3.000 | 8.0 | 0.950 | 3 |",
        "| m | more | 4.0 | 0.800 | - | 4.0 | 0.800 | 4.0 | 0.800 | 1 |",
    ]


def curve(*points: tuple[int, int]) -> Curve:
    return Curve(points, 0, 0, 0, 0, 0.0, "complete", Fraction(1, 64), ())


def test_a_comparison_is_written_as_a_table_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = (frontiers.Point("ours", 1024, 100, 100), frontiers.Point("ours", 2048, 50, 50))
    found = frontiers.Comparison("m", points, (frontiers.Point("regor Size", 4096, 110, 0),), (8192, 45), 0.1)
    frontiers.write_files(found, tmp_path / "new")
    rows = (tmp_path / "new" / "m.csv").read_text(encoding="utf-8").splitlines()
    assert rows[1:] == [
        "ours,1024,100,100,dominates 1",
        "ours,2048,50,50,dominates 1",
        "regor Size,4096,110,0,dominated by 2",
    ]
    assert (tmp_path / "new" / "m.png").read_bytes().startswith(b"\x89PNG")


def test_sizes_of_a_sweep() -> None:
    sizes = frontiers.sizes_between(100_000, 1_000_000, 12)
    assert len(sizes) == 12 and sizes == sorted(sizes) and all(size % 1024 == 0 for size in sizes)
    assert abs(sizes[0] - 90_000) < 1024 and abs(sizes[-1] - 1_000_000) < 1024


def test_a_chain_is_as_long_as_asked() -> None:
    graph = chains.chain(7, harness.default_target())
    assert "7 parts, 8 tensors" in repr(graph)
    assert chains._core.Search(graph).frontier().proposals


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


def _zoo_options(cache: Path, seconds: int) -> argparse.Namespace:
    return argparse.Namespace(no_verify=False, seeds=1, limit_seconds=seconds, limit_mb=8000, cache=cache)


def test_a_row_of_the_zoo(tmp_path: Path) -> None:
    """Both sides of a built network; what Vela made is used again; a compiler that fails or hangs is a row."""
    path, target, options = tmp_path / "model.tflite", harness.default_target(), _zoo_options(tmp_path, 120)
    path.write_bytes(inverted_residuals())
    vela = zoo.vela_side(path, target, tmp_path / "cache", 120, 8000)
    assert not vela.said and (vela.cpu, vela.calls) == (0, 1) and vela.cycles > 0
    assert zoo.vela_side(path, target, tmp_path / "cache", 1, 1) == vela
    row = zoo.our_row(path, target, None, vela, options)
    assert (row.ours.cpu, row.ours.calls, row.inner) == (0, 1, 0)
    assert row.verdict == "exact" or row.verdict.startswith("VerificationError")
    assert row.fits and 0 < row.ours.floor_bytes <= row.sram_bytes <= vela.floor_bytes
    assert row.macs[0] == row.macs[1] > 0 and row.ratio == row.ours.cycles / vela.cycles
    assert zoo.row_from(row.to_json()) == row and zoo.line_of(row).count("|") == zoo.HEAD.splitlines()[0].count("|")

    failed = zoo.vela_side(path, target, tmp_path / "other", 120, 60)
    assert failed.said and zoo.vela_side(path, target, tmp_path / "other", 120, 8000) == failed
    alone = zoo.our_row(path, target, None, failed, options)
    assert not alone.fits and alone.sram_bytes == alone.ours.floor_bytes == row.ours.floor_bytes and not alone.wrong
    starved = zoo.our_row(path, target, None, vela, argparse.Namespace(**{**vars(options), "limit_mb": 60}))
    assert starved.wrong and starved.ours.npu is None and starved.ours.said in zoo.line_of(starved)


def _zoo_row(model: str, ours: tuple[int, int, int, int], vela: tuple[int, int, int, int], **rest: object) -> zoo.Row:
    """A row of (CPU operators, NPU calls, floor, cycles) on each side."""
    sides = (zoo.Side(npu=9, cpu=c, calls=n, floor_bytes=f, cycles=t) for c, n, f, t in (ours, vela))
    return zoo.Row(model, None, *sides, **{"fits": True, "verdict": "exact", **rest})


def test_aims_of_the_zoo_count_who_meets_them() -> None:
    rows = [
        _zoo_row("good", (0, 1, 100, 64), (0, 1, 100, 100)),
        _zoo_row("slow", (0, 2, 101, 225), (1, 1, 100, 100), verdict="WRONG (1 of 2 elements, 0 hazards)"),
        _zoo_row("left", (3, 1, 90, 10), (1, 1, 100, 100)),
        _zoo_row("large", (0, 1, 101, 10), (0, 1, 100, 100), fits=False),
        zoo.Row("refused", None, zoo.Side(said="ModelFormatError: no"), zoo.Side(npu=1)),
    ]
    said = zoo.aims(rows)
    assert said[0] == "compiled: 4 of 5; not refused"
    assert said[1].endswith("3 of 4; not left") and said[2].endswith("3 of 4; not slow")
    assert said[3].endswith("2 of 4; not slow, large") and said[4].endswith("1 of 2; not slow")
    # The square root of 0.64 times 2.25.
    assert "over 2: 1.200 (aim 0.85: not met); not compared: left, large" in said[5]
    assert said[6].endswith("3 of 5; not slow, refused")
    assert [row.wrong for row in rows] == [False, True, False, False, False]


def test_named_aims_and_changes_of_the_zoo() -> None:
    row = _zoo_row("net", (2, 1, 2048, 50), (0, 1, 100, 100), inner=1)
    reached = {what: zoo.Aim("net", what, 1).reached(row) for what in ("calls", "inner", "CPU", "floor")}
    assert reached == {
        "calls": ("1", "met"),
        "inner": ("1", "met"),
        "CPU": ("2", "not met"),
        "floor": ("2.0", "not met"),
    }
    assert (
        zoo.Aim("net", "floor", 2).reached(row) == ("2.0", "met") and zoo.Aim("net", "CPU", 0).reached(None)[1] == "-"
    )
    assert {aim.what for aim in zoo.NAMED} <= reached.keys()
    other = _zoo_row("net", (1, 1, 2048, 40), (0, 1, 100, 100), inner=1)
    assert zoo.changes([row], [row]) == [] and zoo.changes([], [row]) == ["net: new"]
    assert zoo.changes([row], [other]) == ["net: CPU operators 2 -> 1; cycles 50 -> 40"]


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
    for wrong in (("margin", 1), ("placing.fill_margin", 0)):
        with pytest.raises(SchedulingError, match=f"option '{wrong[0]}'"):
            ablation.search(network, [wrong])


@pytest.mark.parametrize("value", ["X=-1", "within.whole_up_to=x", "X", f"X={1 << 64}", "X=1.5"])
def test_losses_refuse_settings_by_their_value_and_limit(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["losses.py", "--tune", value])
    with pytest.raises(SystemExit) as ended:
        losses.main()
    assert ended.value.code == 2
    assert f"argument --tune: '{value}' is not NAME=VALUE with a whole number from 0 to" in capsys.readouterr().err


def test_losses_are_asked_at_each_point_between_and_beyond() -> None:
    """With one candidate placed a network loses much."""
    assert losses.budgets_of([(100, 9), (200, 8), (230, 7)]) == [100, 150, 200, 215, 230, 345]
    network = network_of(inverted_residuals())
    few, _ = losses.losses(network.problem.core, [("visits", 1)])
    enough, _ = losses.losses(network.problem.core, [])
    assert len(few) == len(enough)
    assert max(few) > 10 and statistics.fmean(few) > statistics.fmean(enough)
    assert "random network 3" in losses.told("random network 3", [0.0, 1.5], 2.0)


def test_what_a_figure_loses_is_a_mean_of_ratios() -> None:
    before = [ablation.Found(((100, 40), (200, 10)), (40, 40, 10), 1.0), ablation.Found(((50, 8),), (8,), 1.0)]
    after = [ablation.Found(((200, 40), (400, 10)), (80, 80, 20), 3.0), ablation.Found(((50, 8),), (8,), 1.0)]
    floors, cycles, worst, answers, seconds = ablation.compared(before, after)
    assert floors == pytest.approx(2**0.5) and seconds == 2.0
    # Budgets of 100, 150 and 200 bytes, and of 50: the leanest counts where nothing fits.
    assert before[0].budgets == (100, 150, 200) and before[1].budgets == (50,)
    assert (cycles, worst) == (pytest.approx(4 ** (1 / 6)), pytest.approx(4 ** (1 / 3)))
    assert answers == pytest.approx(2**0.5)
