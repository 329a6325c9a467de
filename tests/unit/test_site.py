"""The site: every page has its place, links are turned, notebooks run, and mkdocs has nothing to complain of."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_examples import run_page
from test_imports import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import notebooks

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def nav() -> list[str]:
    """The pages of the navigation, in its order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    return re.findall(r"- (\S+\.md)$", text, re.MULTILINE)


def test_every_page_has_its_place_once() -> None:
    """A new page of docs goes into `nav` of mkdocs.yml, where its readers look for it."""
    site_pages = pytest.importorskip("site_pages")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    made = {*site_pages.OUTSIDE.values(), "command-line.md", "api.md"}
    made |= {f"notebooks/{path.stem}.md" for path in NOTEBOOKS}
    assert sorted(nav()) == sorted(pages | made)


def test_links_are_turned() -> None:
    site_pages = pytest.importorskip("site_pages")

    def turned(text: str, written_in: str = "README.md", shown_as: str = "index.md") -> str:
        return str(site_pages.turned(text, written_in, shown_as))

    assert turned("[a](docs/raw.md#x) [b](CONTRIBUTING.md)") == "[a](raw.md#x) [b](contributing.md)"
    assert turned('<img src="docs/x.svg">') == '<img src="x.svg">'
    assert turned("[a](../ARCHITECTURE.md#x)", "docs/raw.md", "raw.md") == "[a](architecture.md#x)"
    assert turned("[a](../raw.md)", "docs/notebooks/a.md", "notebooks/a.md") == "[a](../raw.md)"
    assert turned("[a](docs/notebooks/a.ipynb)") == "[a](notebooks/a.md)"
    assert turned("[the code](python/x.py) [w](https://x.org/a) [h](#here)") == (
        "the code [w](https://x.org/a) [h](#here)"
    )
    assert turned("<!-- run first: x -->\n```python\n[a](docs/raw.md)\n```\n") == "```python\n[a](docs/raw.md)\n```\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning of mkdocs ends it."""
    for name in ("material", "mkdocstrings_handlers.python", "ai_edge_litert", "matplotlib"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_is_built_without_warnings(site: Path) -> None:
    pages = {name.removesuffix(".md") + ".html" for name in nav()}
    assert not [name for name in pages if not (site / name).is_file()]
    shown = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="worked-example-arena.svg"' in shown and (site / "worked-example-arena.svg").is_file()
    assert 'href="worked-example.html"' in shown


def test_the_reference_has_every_public_name(site: Path) -> None:
    import ethoscade

    text = (site / "api.html").read_text(encoding="utf-8")
    headings = set(re.findall(r'<h2 id="[^"]+" class="doc doc-heading">\s*(?:<[^>]+>)*\s*([\w.]+)', text))
    missing = {f"ethoscade.{name}" for name in ethoscade.__all__ if not name.startswith("_")} - headings
    assert not missing
    assert "smallest budget" in text  # from a docstring


def test_no_page_asks_another_server(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    for page in pages:
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text(encoding="utf-8"))
        assert not loaded, page.name


def test_notebooks_show_what_their_cells_show(site: Path) -> None:
    text = (site / "notebooks" / "frontier.html").read_text(encoding="utf-8")
    assert text.count('<pre class="output">') >= 4 and "<svg" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs(path: Path) -> None:
    """Run `python tools/notebooks.py --strip` on it where this fails."""
    text = path.read_text(encoding="utf-8")
    assert notebooks.stripped(text) == text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_do_what_they_say(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ai_edge_litert", "matplotlib"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    cells = notebooks.read(path)
    page = "\n".join(f"```python\n{cell.text}\n```" for cell in cells if cell.is_code)
    assert run_page(page, tmp_path) == sum(cell.is_code for cell in cells) > 3


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 3


def test_a_cell_shows_what_it_prints_and_its_value() -> None:
    cells = (
        notebooks.Cell("Text.", False),
        notebooks.Cell("x = 2\nprint(x)\nx * 21", True),
        notebooks.Cell("x = 3", True),
    )
    first, second = ('<pre class="output"><code>2</code></pre>', '<pre class="output"><code>42</code></pre>')
    code = ("```python\nx = 2\nprint(x)\nx * 21\n```", "```python\nx = 3\n```")
    assert notebooks.page(cells) == "\n\n".join(["Text.", code[0], first, second, code[1]]) + "\n"

    class Drawn:
        def _repr_html_(self) -> str:
            return "<table>\n\n</table>"

    assert notebooks.shown("", Drawn()) == "<table>\n</table>"
    assert notebooks.shown("a < b\n", None) == '<pre class="output"><code>a &lt; b</code></pre>'


def test_outputs_are_stripped(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {"a": 1}, "source": "x\n", "outputs": [{}], "execution_count": 3}
    path = tmp_path / "a.ipynb"
    path.write_text(notebooks.stripped(json.dumps({"cells": [cell], "metadata": {"kernel": "mine"}})), encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))["cells"]
    wanted = {"cell_type": "code", "id": "cell-1", "metadata": {}, "source": ["x"], "execution_count": None}
    assert kept == [{**wanted, "outputs": []}]
    assert notebooks.read(path) == (notebooks.Cell("x", True),)
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["cells"][0]["cell_type"] = "raw"
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ValueError, match="cells that are raw"):
        notebooks.read(path)
