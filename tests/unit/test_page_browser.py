"""Pages in a real browser: no complaint, tables sort, filter and export, charts tell, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, NO_BROWSER, Browser, browser
from ethoscade.page.document import render
from ethoscade.page.parts import Chapter, Column, Grid, Page
from test_page import HOSTILE, everything

pytestmark = pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)

# What `Save CSV` would save: the blob is read instead of being written to a folder of downloads.
CAUGHT = """
window.saved = [];
URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return 'about:blank#'; };
HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def opened(tab: Browser, folder: Path, page: Page) -> None:
    path = folder / "page.html"
    path.write_text(render(page), encoding="utf-8")
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(path)


def table(rows: tuple[tuple[Any, ...], ...], open_rows: int = 200) -> Page:
    columns = (Column("name", "Name", "text"), Column("cycles", "Cycles"), Column("share", "Share", "share"))
    return Page("Tables", "", (Chapter("c", "Chapter", (Grid("rows", "Rows", columns, rows, open_rows),)),))


ROWS = (("b10", 5, 0.5), ("b9", 1000, None), ('=a,"1"', 30, 0.25))


def column(tab: Browser, number: int) -> list[str]:
    found: list[str] = tab.run(f"[...document.querySelectorAll('tbody tr')].map((r) => r.cells[{number}].textContent)")
    return found


@pytest.mark.parametrize("words", ["conv", HOSTILE], ids=["calm", "hostile"])
def test_every_part_opens_without_a_complaint_or_a_request(tab: Browser, tmp_path: Path, words: str) -> None:
    opened(tab, tmp_path, everything(words))
    assert not tab.complaints
    assert [url for url in tab.requests if not url.startswith("file:")] == []
    assert tab.run("document.querySelectorAll('svg').length") == 2
    assert tab.run("document.querySelectorAll('img').length") == 0


def test_complaints_are_seen(tab: Browser, tmp_path: Path) -> None:
    """The test above can fail: scripts that are not the page's are stopped, and errors are heard."""
    path = tmp_path / "page.html"
    path.write_text(render(everything()).replace("<main>", "<main><script>alert(1)</script>"), encoding="utf-8")
    tab.open(path)
    assert any("Content Security Policy" in one for one in tab.complaints)


def test_tables_sort_by_value(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, table(ROWS))
    tab.click("th:nth-child(2) button")
    assert column(tab, 1) == ["1,000", "30", "5"]
    assert tab.run("document.querySelector('th:nth-child(2)').getAttribute('aria-sort')") == "descending"
    tab.click("th:nth-child(2) button")
    assert column(tab, 1) == ["5", "30", "1,000"]
    tab.click("th:nth-child(1) button")
    assert column(tab, 0) == ['=a,"1"', "b9", "b10"]
    for _ in range(2):
        tab.click("th:nth-child(3) button")
        assert column(tab, 2)[-1] == "–"


def test_tables_filter_by_words(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, table(ROWS))
    tab.run("document.querySelector('.tools input').focus()")
    tab.ask("Input.insertText", text="B 1,0")
    assert column(tab, 0) == ["b9"]
    assert tab.run("document.querySelector('[role=status]').textContent") == "1 of 3 rows"


def test_tables_export_what_is_chosen_in_the_order_that_is_seen(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, table(ROWS))
    tab.run(CAUGHT)
    tab.click("th:nth-child(2) button")
    tab.click("button.csv")
    tab.settle()
    assert tab.run("window.savedAs") == "rows.csv"
    expected = 'name,cycles,share\r\nb9,1000,\r\n"\'=a,""1""",30,0.25\r\nb10,5,0.5\r\n'
    assert tab.run("window.saved") == [expected]


def test_a_file_is_saved(tab: Browser, tmp_path: Path) -> None:
    """Past all stand-ins: the policy lets a table be downloaded."""
    opened(tab, tmp_path, table(ROWS))
    tab.ask("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.click("button.csv")
    for _ in range(200):
        tab.settle()
        if (tmp_path / "rows.csv").is_file():
            break
    assert (tmp_path / "rows.csv").read_bytes().startswith(b"name,cycles,share\r\n")


def test_long_tables_show_their_head_until_asked(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, table(tuple((f"row {i}", i, 0.5) for i in range(30)), open_rows=10))
    assert len(column(tab, 0)) == 10
    tab.click("button.more")
    assert len(column(tab, 0)) == 30
    assert tab.run("document.querySelector('button.more').hidden")


def test_marks_tell_the_pointer_and_the_keyboard(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, everything())
    tab.point(*tab.middle("#curve circle"))
    assert tab.run("document.querySelector('.tip').innerText") == "conv\nconv"
    tab.point(1, 1)
    assert tab.run("document.querySelector('.tip').hidden")
    tab.run("document.querySelector('#bars g').focus()")
    assert not tab.run("document.querySelector('.tip').hidden")


def test_light_and_dark_by_the_system_and_by_the_switch(tab: Browser, tmp_path: Path) -> None:
    def paper() -> str:
        tab.settle()
        return str(tab.run("getComputedStyle(document.body).backgroundColor"))

    seen = []
    for scheme in ("light", "dark"):
        tab.prefer(scheme)
        opened(tab, tmp_path, everything())
        seen.append(paper())
    light, dark = seen
    assert light != dark
    for expected in (light, dark, dark):
        tab.click("button.switch")
        assert paper() == expected
    tab.prefer("light")


def contrast(tab: Browser, ink: str, paper: str) -> float:
    """WCAG's contrast of two colours of the style sheet."""
    code = f"[{json.dumps(ink)}, {json.dumps(paper)}].map((c) => page.colour(c).match(/[\\d.]+/g).map(Number))"

    def luminance(rgb: list[float]) -> float:
        parts = [v / 255 for v in rgb[:3]]
        parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted(map(luminance, tab.run(code)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_marks_stand_out(tab: Browser, tmp_path: Path, scheme: str) -> None:
    """WCAG 2.1, AA: 4.5 for text."""
    tab.prefer(scheme)
    opened(tab, tmp_path, everything())
    texts = ("ink", "quiet", "accent", "good", "bad")
    assert all(contrast(tab, ink, paper) >= 4.5 for ink in texts for paper in ("paper", "card", "faint"))
    tab.prefer("light")
