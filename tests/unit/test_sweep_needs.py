"""What rows say together, worked out a second time by trying every SRAM; and the page of it, in a browser too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from browser import BROWSER, NO_BROWSER, Browser, browser
from ethoscade.page.document import render
from ethoscade.sweeps import sweep_page
from ethoscade.sweeps.needs import Needs, needs_of
from ethoscade.sweeps.rows import SweepRow, failed, row_of
from hypothesis import given
from hypothesis import strategies as st
from sweeping import inquiry

TARGETS = ("ethos-u55-32", "ethos-u55-256", "ethos-u55-256//Sram_Only", "ethos-u65-256")
LATENCIES = (None, 0.5, 2.0, 7.0, 99.0)
SHARES = (Fraction(1), Fraction(9, 10), Fraction(1, 2), Fraction(1, 100))


def row(model: str, target: str, size: int, time: float, on_cpu: int = 0) -> SweepRow:
    figures = {"sram_bytes": size, "milliseconds": time, "cycles": round(1000 * time), "cpu_operators": on_cpu}
    return row_of(inquiry(model, target), "floor", npu_operators=1, **figures)


drawn_rows = st.lists(
    st.builds(
        row,
        st.sampled_from("abcde"),
        st.sampled_from(TARGETS),
        st.integers(1, 6).map(lambda n: 1024 * n),
        st.sampled_from((0.25, 1.0, 2.0, 5.0)),
    ),
    max_size=25,
).map(lambda rows: [*rows, failed(inquiry("f", TARGETS[0]), "floor", ValueError("too large"))])


@given(drawn_rows, st.sampled_from(LATENCIES), st.sampled_from(SHARES))
def test_needs_are_what_trying_every_size_finds(rows: list[SweepRow], limit: float | None, share: Fraction) -> None:
    needs = needs_of(rows)
    assert set(needs.models) == {one.model for one in rows}
    sizes = sorted({one.sram_bytes for one in rows if one.sram_bytes is not None})
    answers = []
    for of in needs.targets:
        least = None
        for size in sizes:
            fit = {
                one.model for one in rows
                if one.target == of.target and one.sram_bytes is not None and one.milliseconds is not None
                and one.sram_bytes <= size and (limit is None or one.milliseconds <= limit)
            }  # fmt: skip
            assert of.fitting(size, limit) == len(fit)
            if least is None and len(fit) >= share * len(needs.models):
                least = size
        assert of.sram_for(needs.count_of(share), limit) == least
        if least is not None:
            answers.append((of.macs, least, of.target))
    found = needs.smallest(share, limit)
    assert (found and (found[0].macs, found[1])) == (min(answers)[:2] if answers else None)


def some() -> list[SweepRow]:
    """Three networks that run, one only slowly, one of them on the CPU alone, and one that does not."""
    rows = [row("small", target, 1024, 1.0) for target in TARGETS]
    rows += [
        row("large", TARGETS[1], size, time) for size, time in ((4096, 9.0), (8192, 3.0), (8192, 4.0), (9000, 3.0))
    ]
    rows += [row("large", TARGETS[0], 4096, 90.0), row("cpu", TARGETS[0], 2048, 0.0, on_cpu=3)]
    return [*rows, *(failed(inquiry("bad", target), "floor", ValueError("no")) for target in TARGETS[:2])]


def test_fronts_hold_what_is_worth_choosing() -> None:
    fronts = {of.target: of.fronts for of in needs_of(some()).targets}
    of = {target.split("/")[0]: found for target, found in fronts.items() if "Sram_Only" not in target}
    assert of["ethos-u55-256"]["large"] == ((4096, 9.0), (8192, 3.0))
    assert of["ethos-u55-32"]["cpu"] == ((2048, None),)


def test_what_runs_on_the_cpu_alone_meets_no_time() -> None:
    (least, *_) = needs_of(some()).targets
    assert (least.sram_of("cpu"), least.sram_of("cpu", 1e9)) == (2048, None)


def test_targets_come_by_their_size_and_refusals_by_their_errors() -> None:
    needs = needs_of(some())
    assert [of.macs for of in needs.targets] == [32, 256, 256, 256]
    assert [(of.error, of.message, of.models) for of in needs.refusals] == [("ValueError", "no", ("bad",))] * 2
    # One budget that is too small is no refusal where another one fits.
    again = needs_of([*some(), failed(inquiry("small", TARGETS[0]), "300", ValueError("no"))])
    assert again == needs


def test_the_smallest_target_that_is_enough() -> None:
    needs = needs_of(some())
    half = Fraction(1, 2)
    found = needs.smallest(half), needs.smallest(half, 5.0), needs.smallest(half, 0.1)
    assert [one and (one[0].accelerator, one[1]) for one in found] == [
        ("ethos-u55-32", 2048),
        ("ethos-u55-256", 8192),
        None,
    ]


# The page.


def html(rows: list[SweepRow], milliseconds: float | None = None, share: Fraction = Fraction(1)) -> str:
    return render(sweep_page.sweep_page(needs_of(rows), "1.0", milliseconds, share))


def test_the_page_is_the_same_whatever_the_order_of_rows() -> None:
    assert html(some()) == html(some()[::-1])


def test_the_page_has_what_it_was_asked() -> None:
    page = sweep_page.sweep_page(needs_of(some()), "1.0", 5.0, Fraction(1, 2))
    tiles = page.chapters[0].parts[0].tiles  # type: ignore[union-attr]
    assert [(tile.label, tile.value) for tile in tiles][-1] == (
        "50 % of networks in 5 ms",
        "ethos-u55-256/Shared_Sram",
    )
    assert [tile.tone for tile in tiles] == ["bad", "bad", "good"]
    assert page.title == "4 networks on 4 targets" and len(page.chapters) == 4
    names = {"ethos-u55-32", "ethos-u55-256/Shared_Sram", "ethos-u55-256/Sram_Only", "ethos-u65-256"}
    assert {cells[0] for cells in page.chapters[1].parts[0].rows} == names  # type: ignore[union-attr]


def test_a_large_sweep_has_a_page_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_page, "MOST_LISTED", 3)
    monkeypatch.setattr(sweep_page, "MOST_DRAWN", 1)
    words, chart, grid = sweep_page.sweep_page(needs_of(some()), "1.0").chapters[2].parts
    assert words.texts == ("The table has the 3 of 7 that need most.",)  # type: ignore[union-attr]
    assert len(chart.data["options"]) == 1 and "1 more" in chart.caption  # type: ignore[union-attr]
    assert [cells[2] for cells in grid.rows] == [4.0, 4.0, 2.0]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    with browser() as opened:
        yield opened


def told(needs: Needs, share: Fraction, limit: float | None) -> str:
    """The sentence that the page should have."""
    words = "run" if limit is None else f"take at most {limit:g} ms"
    found = needs.smallest(share, limit)
    if found is None:
        return "No target here is enough"
    of, size = found
    fit = of.fitting(size, limit)
    return f"{fit} of {len(needs.models)} networks {words} on {sweep_page._short(needs, of)} in {size / 1024:g} KiB of"


def test_the_page_answers_in_a_browser_what_is_typed(tab: Browser, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    path.write_text(html(some()), encoding="utf-8")
    tab.open(path)
    needs = needs_of(some())
    for share in SHARES:
        for limit in (None, 0.5, 1.0, 5.0, 99.0):
            typed = ("" if limit is None else limit, float(100 * share))
            for place, value in enumerate(typed):
                tab.run(
                    f"(() => {{ const field = document.querySelectorAll('#fitting input')[{place}];"
                    f" field.value = {value!r}; field.dispatchEvent(new Event('input')); }})()"
                )
            assert str(tab.run("document.querySelector('.answer').textContent")).startswith(told(needs, share, limit))
    chosen = "const l = document.querySelector('#curves select'); l.value = 0; l.dispatchEvent(new Event('change'))"
    tab.run(f"(() => {{ {chosen} }})()")
    tab.settle()
    assert tab.run("document.querySelectorAll('#curves circle').length") == 3
    tab.click("#networks_table th:nth-child(3) button")
    assert not tab.complaints and [url for url in tab.requests if not url.startswith("file:")] == []


def test_names_of_networks_are_text_whatever_they_are(tab: Browser, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)></script>&\u2028"
    path = tmp_path / "sweep.html"
    path.write_text(html([replace(one, model=one.model + hostile) for one in some()]), encoding="utf-8")
    tab.complaints.clear()
    tab.open(path)
    assert not tab.complaints and tab.run("document.querySelectorAll('img').length") == 0
