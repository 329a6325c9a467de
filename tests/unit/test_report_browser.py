"""The page of a compiled network in a real browser: it opens, and pointing at a byte tells whose it is."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from browser import BROWSER, NO_BROWSER, Browser, browser
from command_line_support import resized_classifier
from ethoscade import Compiled
from ethoscade.analysis.facts import arena_map, facts_of
from ethoscade.page.facts import ArenaMap, Holder
from ethoscade.testing import ModelBuilder, inverted_residuals

pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@functools.cache
def cascaded() -> Compiled:
    return ethoscade.compile(inverted_residuals(), optimise="size")


@functools.cache
def with_cpu() -> Compiled:
    return ethoscade.compile(resized_classifier())


def opened(tab: Browser, folder: Path, made: Compiled) -> None:
    made.report(folder / "report.html")
    tab.complaints.clear()
    tab.requests.clear()
    tab.resize(1200, 900)
    tab.open(folder / "report.html")
    tab.run("document.querySelector('#map canvas').scrollIntoView({block: 'center', behavior: 'instant'})")
    tab.settle()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("made", [cascaded, with_cpu], ids=["cascades", "CPU"])
def test_a_report_opens_without_a_complaint(tab: Browser, tmp_path: Path, made: Any, scheme: str) -> None:
    tab.prefer(scheme)
    opened(tab, tmp_path, made())
    assert not tab.complaints
    assert [url for url in tab.requests if not url.startswith("file:")] == []
    assert tab.run("document.querySelectorAll('figure.chart.drawn').length") == 5
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    tab.prefer("light")


def place_of(tab: Browser, found: ArenaMap, step: float, byte: float) -> tuple[float, float]:
    """Where a byte at a step is in the window, by the map's own edges (see the chart's script)."""
    box = "document.querySelector('#map canvas').getBoundingClientRect()"
    left, above, width = (tab.run(f"{box}.{what}") for what in ("x", "y", "width"))
    top = found.arena_bytes * 1.03
    x = left + 74 + (step + 0.5) / len(found.steps) * (width - 74 - 12)
    return x, above + 18 + 400 * (1 - (byte + 0.5) / top)


def tip(tab: Browser) -> list[str]:
    lines: list[str] = tab.run("[...document.querySelector('.tip').children].map((line) => line.textContent)")
    return lines


def middles(holder: Holder) -> Iterator[tuple[int, int]]:
    """A byte in the middle of each window, at its middle step."""
    for first, last, low, high in holder.windows:
        if high > low:
            yield (first + last - 1) // 2, holder.offset + (low + high) // 2


def test_pointing_at_a_byte_tells_whose_it_is(tab: Browser, tmp_path: Path) -> None:
    """Every buffer that is more than a few pixels high, in each of its windows."""
    opened(tab, tmp_path, cascaded())
    found = arena_map(cascaded())
    asked = 0
    for holder in found.holders:
        for step, byte in list(middles(holder))[:3]:
            window = next(w for w in holder.windows if w[0] <= step < w[1])
            if (window[3] - window[2]) / found.arena_bytes * 400 < 4:
                continue
            tab.point(*place_of(tab, found, step, byte))
            lines = tip(tab)
            assert lines[0] == holder.name
            assert f"{window[3] - window[2]:,} of {holder.size_bytes:,} bytes in use" in lines[1]
            assert f"from byte {holder.offset:,} on" in lines[1]
            assert f"step {step}:" in lines[-1]
            asked += 1
    assert asked > 10
    assert tab.run("document.querySelector('#map .readout').textContent").startswith(lines[0])


def test_the_reason_is_the_next_use(tab: Browser, tmp_path: Path) -> None:
    """A tensor that waits for its reader says for whom, and when; a free byte says that it is free."""
    made = cascaded()
    opened(tab, tmp_path, made)
    found = arena_map(made)
    names = [node.name for node in facts_of(made, made.frontier, made.curve.knee, made.cpu_time()).nodes]
    waiting = [
        (holder, step, next(read for read in holder.reads if read > step))
        for holder in found.holders
        for step in range(len(found.steps))
        if holder.live_bytes(step) > found.arena_bytes // 20
        and step not in (*holder.writes, *holder.reads)
        and any(read > step for read in holder.reads)
    ]
    assert waiting
    for holder, step, read in waiting[:: max(1, len(waiting) // 10)]:
        window = next(w for w in holder.windows if w[0] <= step < w[1])
        tab.point(*place_of(tab, found, step, holder.offset + (window[2] + window[3]) // 2))
        reader = names[found.steps[read].operator]
        assert f"held because {reader} still reads it, in step {read}" in tip(tab)
    tab.point(*place_of(tab, found, 0, found.arena_bytes * 1.02))
    assert tip(tab)[0] == "free"


def test_the_keyboard_walks_through_the_map(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, cascaded())
    found = arena_map(cascaded())
    tab.run("document.querySelector('#map canvas').focus()")
    tab.press("ArrowRight", 39)
    assert f"step {found.peak_step + 1}:" in tip(tab)[-1]
    tab.press("ArrowLeft", 37)
    assert f"step {found.peak_step}:" in tip(tab)[-1]
    tab.press("+", 187)
    assert not tab.run("document.querySelector('#map .whole').hidden")
    tab.press("Escape", 27)
    assert tab.run("document.querySelector('#map .whole').hidden")


def test_time_runs_in_steps_or_in_cycles(tab: Browser, tmp_path: Path) -> None:
    """The same pixel is another step, and the canvas another picture."""
    opened(tab, tmp_path, cascaded())
    found = arena_map(cascaded())
    drawn = "document.querySelector('#map canvas').toDataURL()"
    before = tab.run(drawn)
    tab.run("document.querySelector('#map .time').click()")
    after = tab.run(drawn)
    assert before != after
    cycles = [step.cycles if step.what == "stripe" else 0 for step in found.steps]
    halfway = next(at for at in range(len(cycles)) if sum(cycles[: at + 1]) > sum(cycles) / 2)
    tab.point(*place_of(tab, found, len(found.steps) / 2 - 0.5, 0))
    assert f"step {halfway}:" in tip(tab)[-1]


def test_the_map_is_drawn_anew_for_another_theme(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, cascaded())
    drawn = "document.querySelector('#map canvas').toDataURL()"
    light = tab.run(drawn)
    for _ in range(2):
        tab.run("document.querySelector('.switch').click()")
    assert tab.run(drawn) != light


def test_operators_sort_and_bars_follow_their_length(tab: Browser, tmp_path: Path) -> None:
    made = cascaded()
    opened(tab, tmp_path, made)
    column = next(
        index
        for index, key in enumerate(
            tab.run("[...document.querySelectorAll('#operators th')].map((h) => h.dataset.key)")
        )
        if key == "cycles"
    )
    tab.click(f"#operators th:nth-child({column + 1}) button")
    cells = tab.run(f"[...document.querySelectorAll('#operators tbody tr')].map((r) => r.cells[{column}].textContent)")
    expected = sorted((row.cycles for row in made.table().rows), reverse=True)
    assert cells == [f"{cycles:,}" for cycles in expected]
    notes = "[...document.querySelectorAll('#bounds g text:last-child')].map((t) => t.textContent)"
    tab.run("document.querySelector('#bounds .order').click()")
    assert [note.split(" ")[0] for note in tab.run(notes)] == [f"{cycles:,}" for cycles in expected if cycles]


def test_the_graph_has_a_node_for_each_operator_and_a_square_for_the_cpu(tab: Browser, tmp_path: Path) -> None:
    made = with_cpu()
    opened(tab, tmp_path, made)
    assert tab.run("document.querySelectorAll('#graph g.node').length") == len(made.operators)
    (resize,) = made.cpu_operators
    assert tab.run("document.querySelectorAll('#graph g.cpu').length") == 1
    assert resize.reason in tab.run("document.querySelector('#graph g.cpu').getAttribute('aria-label')")


def test_a_network_of_150_operators_is_drawn(tab: Browser, tmp_path: Path) -> None:
    builder = ModelBuilder("deep")
    x = builder.input((1, 16, 16, 8))
    for _ in range(75):
        x = builder.depthwise(builder.conv2d(x, 8, 1), 3)
    made = ethoscade.compile(builder.build())
    opened(tab, tmp_path, made)
    assert len(made.operators) == 150 and not tab.complaints
    assert tab.run("document.querySelectorAll('#graph g.node').length") == 150
    assert tab.run("document.querySelectorAll('#operators tbody tr').length") == 150
