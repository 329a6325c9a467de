"""Pages as text: their structure, what becomes of hostile texts, the same bytes, and what the wheel must bring."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import pytest
from ethoscade.page.document import embedded, render, shown, text
from ethoscade.page.parts import Chapter, Chart, Column, Grid, Page, Tile, Tiles, Words

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp; \u2028 \x00\x1b \ud800 ü"


def everything(words: str = "conv") -> Page:
    """A page with every kind of part, `words` in every text."""
    grid = Grid(
        "rows", words, (Column("name", words, "text", words), Column("n", "n")), ((words, 12345), (words, None))
    )
    steps = {
        "x": {"title": words, "kib": True},
        "y": {"title": words},
        "series": [{"name": words, "points": [[1024, 10, words], [2048, 5, words]], "steps": True, "hollow": 1}],
        "marks": [{"x": 1500, "name": words}],
    }
    bars = {
        "title": words,
        "parts": [{"name": words, "colour": "c1"}],
        "rows": [{"name": words, "note": words, "values": [3], "lines": [words]}],
    }
    parts = (
        Words((words,)),
        Words((words, words), listed=True),
        Tiles((Tile(words, words, words, "bad"),)),
        grid,
        Chart("steps", "curve", words, words, steps),
        Chart("bars", "bars", words, words, bars),
    )
    return Page(words, words, (Chapter("chapter", words, parts),), words)


class Elements(HTMLParser):
    """All tags with their attributes, the texts outside of scripts and styles, and the scripts that are data."""

    VOID = frozenset({"meta", "img", "br", "hr", "input", "link"})

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data: list[Any] = []
        self._open: list[str] = []
        self.feed(document)
        self.close()
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script" and self.tags[-1][1].get("type") == "application/json":
            self.data.append(json.loads(data))
        elif self._open and self._open[-1] not in ("script", "style") and data.strip():
            self.texts.append(data)


def test_a_page_is_whole_and_names_its_parts() -> None:
    found = Elements(render(everything()))
    tags = [tag for tag, _ in found.tags]
    ids = [given["id"] for _, given in found.tags if "id" in given]
    assert ids == ["chapter", "rows", "curve", "bars"]
    assert tags.count("h1") == 1 and tags.count("table") == 1 and tags.count("nav") == 1
    assert dict(found.tags)["html"] == {"lang": "en"}
    assert [given["scope"] for tag, given in found.tags if tag == "th"] == ["col", "col"]
    assert "12,345" in found.texts and "–" in found.texts


def test_nothing_of_a_text_becomes_markup() -> None:
    """A hostile text changes no tag, no attribute's name and no script, and its letters can be read."""
    calm, hostile = Elements(render(everything())), Elements(render(everything(HOSTILE)))
    assert [(tag, list(given)) for tag, given in calm.tags] == [(tag, list(given)) for tag, given in hostile.tags]
    assert any("alert('x')" in one and "␀␛" in one and "ü" in one for one in hostile.texts)
    assert hostile.data[0]["series"][0]["name"] == HOSTILE
    render(everything(HOSTILE)).encode("utf-8")


def test_embedded_data_has_no_sign_that_html_or_javascript_sees() -> None:
    written = embedded({"name": HOSTILE})
    assert not re.search("[<>&\u2028\u2029]", written) and written.isascii()
    assert json.loads(written) == {"name": HOSTILE}
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded({"infinite": float("inf")})


def test_a_page_asks_for_nothing_from_outside() -> None:
    document = render(everything())
    assert not re.search(r"\b(?:src|href)=[\"'](?!#)", document)
    assert "default-src 'none'" in document and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", document)


def test_the_policy_names_the_very_script_and_style() -> None:
    """Chromium would run nothing else: hashes are of what stands between the tags."""
    import base64
    import hashlib

    document = render(everything())
    for tag in ("script", "style"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", document, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in document


def test_the_same_data_gives_the_same_bytes() -> None:
    assert render(everything()) == render(everything())


def test_charts_bring_their_script_and_pages_without_them_do_not() -> None:
    bare = Page("p", "", (Chapter("c", "c", (Words(("w",)),)),))
    assert "page.charts.steps =" in render(everything()) and "page.charts.steps =" not in render(bare)


def test_names_are_addresses() -> None:
    twice = Page("p", "", (Chapter("c", "c", (Grid("c", "g", (), ()),)),))
    with pytest.raises(AssertionError, match="addresses"):
        render(twice)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "number", "–"),
        (1234567, "number", "1,234,567"),
        (0.12345, "share", "12.3 %"),
        (1234.5, "time", "1,234.500"),
        (1.5, "number", "1.50"),
        ("1 <2", "text", "1 <2"),
    ],
)
def test_values_as_people_read_them(value: Any, unit: Any, expected: str) -> None:
    assert shown(value, unit) == expected


def test_texts_keep_what_utf8_can_write() -> None:
    assert text("a\tb\n'\"ü\U0001f600") == "a\tb\n&#x27;&quot;ü\U0001f600"
    assert text("\ud800\x7f") == "?␡"


def test_the_assets_are_files_of_the_package() -> None:
    assets = resources.files("ethoscade.page").joinpath("assets")
    assert {"page.css", "page.js", "tables.js"} <= {one.name for one in assets.iterdir()}
