"""The page and the map of a compiled network: what they say is what the program does, whatever it is called."""

from __future__ import annotations

import functools
import itertools
import sys
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from command_line_support import Capture, one_sentence, resized_classifier, run, run_json, written
from ethoscade import Compiled, ConfigError
from ethoscade.analysis.facts import arena_map, facts_of
from ethoscade.page import arena_plot
from ethoscade.page.facts import ArenaMap, NetworkFacts
from ethoscade.page.network_page import network_page
from ethoscade.page.parts import Chart, Grid, Page, Tiles
from ethoscade.testing import ModelBuilder, inception_modules, inverted_residuals, tiny_conv
from test_page import HOSTILE, Elements

RESIZED = resized_classifier()
NETWORKS = {"resized": RESIZED, "tiny": tiny_conv(), "residuals": inverted_residuals(), "joins": inception_modules()}


def facts(compiled: Compiled) -> NetworkFacts:
    return facts_of(compiled, compiled.frontier, compiled.curve.knee, compiled.cpu_time())


def part(page: Page, name: str) -> Any:
    """The table or chart with this name."""
    parts = (one for chapter in page.chapters for one in chapter.parts)
    return next(one for one in parts if isinstance(one, Grid | Chart) and one.name == name)


def rows(grid: Grid) -> list[dict[str, Any]]:
    return [dict(zip((column.key for column in grid.columns), row, strict=True)) for row in grid.rows]


@functools.cache
def cascaded() -> Compiled:
    return ethoscade.compile(inverted_residuals(), optimise="size")


@pytest.fixture(scope="module", params=list(itertools.product(NETWORKS, ("size", "performance"))), ids="-".join)
def compiled(request: pytest.FixtureRequest) -> Compiled:
    name, optimise = request.param
    return ethoscade.compile(NETWORKS[name], optimise=optimise)


def test_the_map_is_the_program(compiled: Compiled) -> None:
    """Bytes in use at every step, and the peak, counted from what is drawn."""
    found = arena_map(compiled)
    program = compiled.program
    assert len(found.steps) == len(program.steps) and len(found.holders) == len(program.buffers)
    for step in range(len(program.steps)):
        drawn = sum(holder.live_bytes(step) for holder in found.holders)
        assert drawn == found.live_bytes[step] == sum(buffer.live_bytes(step) for buffer in program.buffers)
    peak = compiled.explain().peak
    assert found.peak_step == peak.step and found.live_bytes[peak.step] == peak.live_bytes
    assert [held for _, held in found.alive(peak.step)] == [alive.live_bytes for alive in peak.alive]


def test_no_byte_is_drawn_twice(compiled: Compiled) -> None:
    """A step's windows lie apart inside the arena, but where an operator on the CPU writes over what it reads."""
    found = arena_map(compiled)
    for step in range(len(found.steps)):
        used = sorted(
            (holder.offset + low, holder.offset + high)
            for holder in found.holders
            for first, last, low, high in holder.windows
            if first <= step < last and high > low
        )
        assert all(below[1] <= above[0] for below, above in itertools.pairwise(used))
        assert not used or used[-1][1] <= found.arena_bytes


def test_who_holds_bytes_is_who_uses_them(compiled: Compiled) -> None:
    """Whatever is written or read at a step is in use then, and every buffer is somebody's."""
    found = arena_map(compiled)
    assert {holder.kind for holder in found.holders} >= {"input", "output"}
    for holder in found.holders:
        assert holder.reads or holder.kind == "output"
        assert holder.writes or holder.kind == "input"
        for step in (*holder.writes, *holder.reads):
            assert holder.live_bytes(step) or any(first <= step < last for first, last, *_ in holder.windows)
    on_cpu = {i for i, op in enumerate(compiled.operators) if op.where == "cpu"}
    assert {moment.operator for moment in found.steps if moment.what == "CPU"} == on_cpu


def test_a_stripe_says_which_rows_it_makes() -> None:
    made = cascaded()
    found = arena_map(made)
    striped = [moment for moment in found.steps if moment.what == "stripe" and moment.of > 1]
    assert striped and all(moment.rows is not None for moment in striped)
    for operator in {moment.operator for moment in striped}:
        own = [moment for moment in striped if moment.operator == operator]
        assert [moment.number for moment in own] == list(range(1, own[0].of + 1))
        covered = {row for moment in own if moment.rows for row in range(*moment.rows[:2])}
        assert covered == set(range(own[0].rows[2] if own[0].rows else 0))


def test_an_input_dies_row_by_row() -> None:
    """Somewhere in a cascade the bytes of a whole tensor in use become fewer before it is gone."""
    found = arena_map(cascaded())
    inputs = [holder for holder in found.holders if len(holder.windows) > 2 and holder.kind != "rolling"]
    assert any(
        holder.windows[-1][2] > holder.windows[0][2] or holder.windows[-1][3] < holder.size_bytes for holder in inputs
    )


def test_the_page_says_what_the_compilation_says(compiled: Compiled) -> None:
    page = network_page(facts(compiled))
    tiles = next(one for one in page.chapters[0].parts if isinstance(one, Tiles))
    told = {tile.label: f"{tile.value} {tile.note}" for tile in tiles.tiles}
    assert f"{compiled.sram_bytes:,} bytes; no budget" in told["SRAM"]
    assert f"{compiled.cycles:,}" in told["Cycles"] and f"{compiled.milliseconds:,.3f} ms" in told["Time on the NPU"]
    assert f"{compiled.flash_bytes:,} bytes" in told["Flash"]
    operators = rows(part(page, "operators"))
    assert [row["operator"] for row in operators] == [node.name for node in facts(compiled).nodes]
    assert sum(row["cycles"] or 0 for row in operators) == compiled.table().cycles
    buffers = rows(part(page, "buffers"))
    assert sorted(row["offset"] for row in buffers) == sorted(compiled.buffer_offsets)
    assert max(row["offset"] + row["size_bytes"] for row in buffers) <= compiled.sram_bytes
    bars = part(page, "bounds").data["rows"]
    assert sum(sum(row["values"]) for row in bars) == compiled.table().cycles


def test_each_point_says_what_it_would_change() -> None:
    network = ethoscade.prepare(inverted_residuals())
    curve = network.frontier()
    middle = curve.points[len(curve.points) // 2]
    made = network.compile(sram=middle[0])
    page = network_page(facts_of(made, curve.points, curve.points[1], made.cpu_time()))
    points = rows(part(page, "points"))
    assert [(row["sram_bytes"], row["cycles"]) for row in points] == list(curve.points)
    for row in points:
        assert row["more_bytes"] == row["sram_bytes"] - made.sram_bytes
        assert row["more_cycles"] == row["cycles"] - made.cycles
        assert ("over the budget" in row["note"]) == (row["sram_bytes"] > middle[0])
    assert [place for place, row in enumerate(points) if "knee" in row["note"]] == [1]
    assert [row["sram_bytes"] for row in points if "compiled" in row["note"]] == [middle[0]]
    marks = part(page, "curve").data["marks"]
    assert [mark["x"] for mark in marks] == [middle[0], curve.points[1][0]]


def test_operators_on_the_cpu_are_told_with_their_reason_and_never_as_nothing() -> None:
    made = ethoscade.compile(RESIZED)
    (resize,) = made.cpu_operators
    page = network_page(facts(made))
    row = next(row for row in rows(part(page, "operators")) if row["where"] == "CPU")
    assert row["reason"] == resize.reason and row["cycles"] is None and row["bound"] == "not counted"
    bar = next(bar for bar in part(page, "bounds").data["rows"] if bar["name"] == resize.name)
    assert bar["note"] == "CPU, not counted" and resize.reason in bar["lines"]
    assert any(node["where"] == "cpu" and node["reason"] == resize.reason for node in part(page, "graph").data["rows"])


def test_operators_on_the_cpu_take_what_is_estimated_on_a_core() -> None:
    made = ethoscade.compile(RESIZED)
    least, most = made.cpu_time("cortex-m55@400MHz").milliseconds or (0.0, 0.0)
    estimate = f"about {least:,.3f} to {most:,.3f} ms"
    told, untold = (" ".join(Elements(made.report(cpu=cpu)).texts) for cpu in ("cortex-m55@400MHz", None))
    assert f"CPU {estimate} on a cortex-m55 at 400 MHz" in told and f"{estimate} " in told and estimate not in untold
    assert "not counted" in untold and "not counted" not in told
    with pytest.raises(ConfigError, match="cortex-m55"):
        made.report(cpu="cortex-m99")


def test_without_an_npu_nothing_is_counted() -> None:
    made = ethoscade.compile(tiny_conv(), accelerator="none")
    text = made.report()
    assert "not counted" in text and "inferences" not in Elements(text).texts
    assert {node.where for node in facts(made).nodes} == {"cpu"}


def test_constants_in_sram_are_told_apart_from_the_arena() -> None:
    made = ethoscade.compile(tiny_conv(), memory_mode="Sram_Only")
    constants = made.pools["constants"]
    assert constants and f"{constants:,} bytes outside of the arena" in made.report()


def test_hostile_names_are_texts() -> None:
    """A model's names change no tag of the page; a file cannot hold the one sign that UTF-8 has no bytes for."""
    name = HOSTILE.replace("\ud800", "")
    texts = []
    for words in ("calm", name):
        builder = ModelBuilder(words)
        builder.conv2d(builder.input((1, 8, 8, 3), name=f"in {words}"), 4, 3, name=f"out {words}")
        texts.append(ethoscade.compile(builder.build()).report())
    calm, hostile = map(Elements, texts)
    assert [(tag, list(given)) for tag, given in calm.tags] == [(tag, list(given)) for tag, given in hostile.tags]
    assert any("alert('x')" in text for text in hostile.texts)
    assert any("alert('x')" in holder[0] for data in hostile.data for holder in data.get("holders", ()))


def test_the_same_network_has_the_same_page() -> None:
    first, again = (ethoscade.compile(RESIZED, optimise="size").report() for _ in range(2))
    assert first == again


def test_the_report_is_written_as_it_is_returned(tmp_path: Path) -> None:
    made = ethoscade.compile(tiny_conv())
    text = made.report(tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_bytes() == text.encode() == made.report().encode()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_map_is_drawn_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    made = cascaded()
    first, again = (made.plot(tmp_path / f"{place}.{suffix}").read_bytes() for place in range(2))
    assert first == again and len(first) > 5_000


def test_a_staircase_is_one_outline() -> None:
    """The shapes that are drawn cover as many bytes, step by step, as the windows have."""
    found: ArenaMap = arena_map(cascaded())
    for holder in found.holders:
        area = sum(_area(shape) for shape in arena_plot._outlines(holder)) * 1024
        assert area == pytest.approx(sum((last - first) * (high - low) for first, last, low, high in holder.windows))


def _area(shape: Any) -> float:
    """Of a polygon, by the shoelace formula."""
    pairs = zip(shape, [*shape[1:], shape[0]], strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) / 2


def test_the_command_writes_page_and_picture(tmp_path: Path, capfd: Capture) -> None:
    pytest.importorskip("matplotlib")
    model = written(tmp_path / "net.tflite", inverted_residuals())
    page, picture = tmp_path / "new" / "r.html", tmp_path / "new" / "a.png"
    least = ethoscade.frontier(model).floor_bytes
    asked = ["compile", model, "-o", tmp_path / "out", "--sram", least, "--report", page, "--plot", picture]
    found = run_json(asked, capfd)
    assert found["pictures"]["report"] == str(page) and found["pictures"]["plot"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    # Within a budget two points are known; the page shows all of them.
    assert page.read_text(encoding="utf-8").count("over the budget") == len(ethoscade.frontier(model).points) - 1


@pytest.mark.parametrize("option", ["--report", "--plot"])
def test_a_picture_is_of_one_network_and_no_model(option: str, tmp_path: Path, capfd: Capture) -> None:
    model = written(tmp_path / "net.tflite", tiny_conv())
    other = written(tmp_path / "other.tflite", tiny_conv())
    picture = tmp_path / "x.png"
    for asked in (
        [model, option, model],
        [model, other, option, picture],
        [model, option, picture, "--sram", "1KiB,2KiB"],
    ):
        status, _, err = run(["compile", *asked, "-o", tmp_path / "out"], capfd)
        assert status == 1 and option in err
        one_sentence(err)
    assert Path(model).read_bytes() == tiny_conv() and not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    model = written(tmp_path / "net.tflite", tiny_conv())
    status, _, err = run(["compile", model, "-o", tmp_path / "out", "--plot", tmp_path / "a.png"], capfd)
    assert status == 1 and "ethoscade[report]" in err and not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="ethoscade"):
        ethoscade.compile(model).plot(tmp_path / "a.png")
