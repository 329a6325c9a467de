"""docs/worked-example.md and its drawings are what `tools/worked_example.py` writes, and their sums are right."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import ethoscade
import pytest
from ethoscade import BudgetError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import worked_example

PAGE = worked_example.ROOT / "docs" / "worked-example.md"


@pytest.fixture(scope="module")
def written() -> dict[Path, str]:
    return worked_example.written()


def test_the_example_is_as_it_is_written(written: dict[Path, str]) -> None:
    """Run `make pages` where this fails for a good reason, and read the page again."""
    assert len(written) == 4
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_the_readme_promises_what_the_example_takes() -> None:
    example = worked_example.Example()
    figures = worked_example.figures(example)
    readme = (worked_example.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"in {figures['floor_bytes']} bytes instead of {figures['whole_bytes']}" in readme


def test_drawings_are_svg_for_light_and_dark_pages(written: dict[Path, str]) -> None:
    drawings = [text for path, text in written.items() if path.suffix == ".svg"]
    for text in drawings:
        assert ET.fromstring(text).tag.endswith("svg")
        assert "prefers-color-scheme: dark" in text


def test_sums_that_the_page_writes_out_are_right() -> None:
    """Every sum or product of numbers on the page that ends with `=` and a number."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", PAGE.read_text(encoding="utf-8")).replace("\n", " ")
    sums = re.findall(r"([\d(][\d ()+*]*) = (\d+)", text.replace("6 - y + y + 1 = 7", ""))
    checked = [(left, int(right)) for left, right in sums if re.search(r"[+*]", left)]
    assert len(checked) >= 10
    for left, right in checked:
        assert eval(left, {"__builtins__": {}}) == right, left


def test_a_byte_less_is_refused() -> None:
    model = worked_example.model()
    least = ethoscade.compile(model, sram=1472)
    assert least.sram_bytes == 1472
    with pytest.raises(BudgetError) as refused:
        ethoscade.compile(model, sram=1471)
    assert refused.value.floor_bytes == least.sram_bytes
