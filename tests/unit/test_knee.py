"""What is wanted of a frontier: its knee, nearly the fastest, half the SRAM; and several budgets from one search."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import ethoscade
import pytest
from command_line_support import RESIDUAL, Capture, one_sentence, run, run_json, written
from ethoscade import BudgetError, Compiled, ConfigError, Curve
from ethoscade.pipeline.curve import knee_of, nearly_fastest_of
from hypothesis import given
from hypothesis import strategies as st

MODEL = RESIDUAL
POINTS = st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 10**10)), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("knee") / "net.tflite", MODEL)


@pytest.fixture(scope="module")
def fastest() -> Compiled:
    return ethoscade.compile(MODEL)


@pytest.fixture(scope="module")
def curve() -> Curve:
    return ethoscade.frontier(MODEL)


@given(POINTS)
def test_the_knee_is_furthest_below_the_line_from_end_to_end(points: list[tuple[int, int]]) -> None:
    """By the distance to a line in the plane, of axes scaled to one, in fractions."""
    sizes, cycles = sorted({size for size, _ in points}), sorted({cycles for _, cycles in points}, reverse=True)
    curve = list(zip(sizes, cycles, strict=False))
    (s0, c0), (s1, c1) = curve[0], curve[-1]

    def below(point: tuple[int, int]) -> Fraction:
        if len(curve) == 1:
            return Fraction(0)
        x, y = Fraction(point[0] - s0, s1 - s0), Fraction(point[1] - c1, c0 - c1)
        return 1 - x - y

    best = max(map(below, curve))
    assert knee_of(curve) == next(point for point in curve if below(point) == best)


def test_units_do_not_move_the_knee() -> None:
    curve = [(100, 900), (120, 500), (150, 420), (400, 300)]
    assert knee_of(curve) == (150, 420)
    assert knee_of([(size * 1024, cycles * 7) for size, cycles in curve]) == (150 * 1024, 2940)
    assert knee_of([(size + 50, cycles + 9) for size, cycles in curve]) == (200, 429)
    assert knee_of(curve[:2]) == (100, 900), "two ends: the leaner"


def test_balanced_takes_the_knee(fastest: Compiled, curve: Curve) -> None:
    balanced = ethoscade.compile(MODEL, optimise="balanced")
    assert (balanced.sram_bytes, balanced.cycles) == balanced.curve.knee == curve.knee
    assert curve.floor_bytes < balanced.sram_bytes < fastest.sram_bytes
    assert balanced.verify(seeds=1).ok


def test_balanced_within_a_budget_takes_the_knee_of_what_fits(curve: Curve) -> None:
    within = (curve.points[:count] for count in range(len(curve.points), 1, -1))
    fitting = next(points for points in within if knee_of(points) != curve.knee)
    budget = fitting[-1][0]
    found = ethoscade.compile(MODEL, optimise="balanced", sram=budget)
    assert (found.sram_bytes, found.cycles) == knee_of(fitting) != curve.knee
    with pytest.raises(BudgetError):
        ethoscade.compile(MODEL, optimise="balanced", sram=curve.floor_bytes - 16)
    with pytest.raises(ConfigError, match="choose performance, size, balanced or fastest"):
        ethoscade.compile(MODEL, optimise="knee")


@given(POINTS)
def test_nearly_the_fastest_is_the_smallest_at_most_one_per_cent_slower(points: list[tuple[int, int]]) -> None:
    sizes, cycles = sorted({size for size, _ in points}), sorted({cycles for _, cycles in points}, reverse=True)
    curve = list(zip(sizes, cycles, strict=False))
    allowed = Fraction(curve[-1][1]) * Fraction(101, 100)
    assert nearly_fastest_of(curve) == next(point for point in curve if point[1] <= allowed)


@pytest.mark.parametrize("share", [None, Fraction(3, 4)])
def test_the_default_takes_no_sram_for_less_than_one_per_cent(curve: Curve, share: Fraction | None) -> None:
    most = curve.points[-1][0]
    budget = None if share is None else int(most * share)
    found = ethoscade.compile(MODEL, sram=budget)
    fastest = ethoscade.compile(MODEL, sram=budget, optimise="fastest")
    assert found.curve.fastest_within(budget or 2 * most) == (fastest.sram_bytes, fastest.cycles)
    assert 100 * found.cycles <= 101 * fastest.cycles
    assert (found.sram_bytes, found.cycles) == nearly_fastest_of(
        [point for point in found.curve.points if budget is None or point[0] <= budget]
    )
    assert found.sram_bytes < fastest.sram_bytes
    assert found.verify(seeds=1).ok


def test_what_the_fastest_takes_is_reported(model: str, tmp_path: Path, capfd: Capture) -> None:
    found = run_json(["compile", model, "-o", str(tmp_path)], capfd)
    fastest = run_json(["compile", model, "-o", str(tmp_path), "--optimise", "fastest"], capfd)
    assert found["fastest"] == {"sram_bytes": fastest["sram_bytes"], "cycles": fastest["cycles"]}
    assert fastest["fastest"] is None and found["sram_bytes"] < fastest["sram_bytes"]
    less = 100 * (fastest["cycles"] / found["cycles"] - 1)
    row = f"  fastest           {fastest['sram_bytes'] / 1024:.1f} KiB: {less:+.1f} % cycles (--optimise fastest)\n"
    assert row in run(["compile", model, "-o", str(tmp_path)], capfd)[1]
    assert "--optimise fastest" not in run(["compile", model, "-o", str(tmp_path), "--optimise", "fastest"], capfd)[1]


def test_what_fits_a_budget_fastest(curve: Curve) -> None:
    for size, cycles in curve.points:
        assert curve.fastest_within(size) == (size, cycles)
        assert curve.fastest_within(size + 1) == (size, cycles)
    assert curve.fastest_within(curve.floor_bytes - 1) is None


def test_without_a_budget_compile_says_what_half_would_cost(
    model: str, fastest: Compiled, curve: Curve, tmp_path: Path, capfd: Capture
) -> None:
    found = run_json(["compile", model, "-o", str(tmp_path)], capfd)
    point = fastest.curve.fastest_within(fastest.sram_bytes // 2)
    best = curve.fastest_within(fastest.sram_bytes // 2)
    assert point is not None and best is not None and 100 * point[1] <= 101 * best[1]
    assert found["half"] == {"sram_bytes": point[0], "cycles": point[1]}
    assert found["knee"] is None, "only a whole frontier has one"
    _, out, _ = run(["compile", model, "-o", str(tmp_path)], capfd)
    more = 100 * (point[1] / fastest.cycles - 1)
    assert f"  half the SRAM     {fastest.sram_bytes // 2 / 1024:.1f} KiB: {more:+.1f} % cycles\n" in out
    assert "knee" not in out
    _, out, _ = run(["compile", model, "-o", str(tmp_path), "--optimise", "balanced"], capfd)
    assert "  knee              this\n" in out


def test_below_the_floor_half_would_not_do(model: str, curve: Curve, tmp_path: Path, capfd: Capture) -> None:
    floor = curve.floor_bytes
    found = run_json(["compile", model, "-o", str(tmp_path), "--optimise", "size"], capfd)
    assert found["half"] is None
    _, out, _ = run(["compile", model, "-o", str(tmp_path), "--optimise", "size"], capfd)
    assert f"not enough: the floor is {floor / 1024:.1f} KiB, with +0.0 % cycles\n" in out
    found = run_json(["compile", model, "-o", str(tmp_path), "--sram", str(floor)], capfd)
    assert (found["half"], found["knee"]) == (None, None), "with a budget the frontier was not searched whole"


def test_the_frontier_tells_its_knee(model: str, curve: Curve, capfd: Capture) -> None:
    found = run_json(["frontier", model], capfd)
    assert (found["knee"]["sram_bytes"], found["knee"]["cycles"]) == curve.knee
    assert f"; knee {curve.knee[0]:,} bytes" in run(["frontier", model], capfd)[1]


def test_several_budgets_come_of_one_search(model: str, curve: Curve, tmp_path: Path, capfd: Capture) -> None:
    """To the bytes that each alone compiles to, in folders of their own; rows of all in one table."""
    chosen = curve.points[:: len(curve.points) // 3]
    sizes = {f"{size}B" if size % 1024 else f"{size // 1024}KiB": size for size, _ in chosen}
    table = tmp_path / "rows.csv"
    options = ["--sram", ",".join(map(str, sizes.values())), "-o", str(tmp_path / "out"), "--csv", str(table)]
    found = run_json(["compile", model, *options], capfd)
    assert len(found["compilations"]) == len(sizes) > 2
    for (name, size), report in zip(sizes.items(), found["compilations"], strict=True):
        alone = ethoscade.compile(model, sram=size)
        assert (report["budget_bytes"], report["cycles"], report["sram_bytes"]) == (
            size, alone.cycles, alone.sram_bytes,
        )  # fmt: skip
        file = tmp_path / "out" / name / "net_ethosu.tflite"
        assert report["artifacts"]["tflite"] == str(file)
        assert file.read_bytes() == alone.save(tmp_path / "alone.tflite").read_bytes()
    rows = csv.DictReader(table.open(encoding="utf-8"))
    assert {row["Budget Bytes"] for row in rows} == {str(size) for size in sizes.values()}


def test_a_budget_that_is_refused_leaves_the_others(model: str, curve: Curve, tmp_path: Path, capfd: Capture) -> None:
    floor = curve.floor_bytes
    options = ["--sram", f"16,{floor}", "-o", str(tmp_path / "out")]
    status, out, err = run(["compile", model, *options, "--json"], capfd)
    refused, made = json.loads(out)["compilations"]
    assert (refused["error"], refused["budget_bytes"], refused["floor_bytes"]) == ("BudgetError", 16, floor)
    assert made["sram_bytes"] == floor and status == 1
    one_sentence(err)
    assert "budget 16B: " in err and str(floor) in err
    (folder,) = (tmp_path / "out").iterdir()
    assert folder == Path(made["artifacts"]["tflite"]).parent
    status, out, err = run(["compile", model, "--sram", "16,32", "-o", str(tmp_path / "none")], capfd)
    assert (status, out) == (1, "") and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--sram", "64KiB,65536"], "twice"),
        (["--sram", "64KiB,"], "cannot read the size"),
        (["--sram", "64KiB,none"], "cannot read the size"),
    ],
)
def test_wrong_lists_of_budgets_are_refused(
    model: str, arguments: list[str], why: str, tmp_path: Path, capfd: Capture
) -> None:
    status, _, err = run(["compile", model, *arguments, "-o", str(tmp_path / "out")], capfd)
    one_sentence(err)
    assert status == 1 and why in err and not (tmp_path / "out").exists()


def test_several_budgets_are_for_one_model(model: str, tmp_path: Path, capfd: Capture) -> None:
    other = written(tmp_path / "other.tflite", MODEL)
    status, _, err = run(["compile", model, other, "--sram", "64KiB,80KiB", "-o", str(tmp_path / "out")], capfd)
    one_sentence(err)
    assert status == 1 and "one model" in err
