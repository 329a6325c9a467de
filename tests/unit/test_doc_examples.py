"""Examples in README.md and the other pages do what they say, and print what is shown."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from doc_examples import ROOT, RUNNABLE, Block, blocks, is_alike, run_page, run_python

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(page: Path) -> list[Block]:
    """Blocks of code of a page that are run."""
    found = blocks(page.read_text(encoding="utf-8"))
    return [block for block in found if block.language in RUNNABLE and block.noted("not run") is None]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.stem)
def test_examples_do_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("the examples verify with LiteRT, which is not installed")
    monkeypatch.chdir(tmp_path)
    assert run_page(page.read_text(encoding="utf-8"), tmp_path) == len(examples(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = list(blocks(text))
    assert text.count("\n```") == 2 * len(found), "a block that is not seen"
    for block in found:
        assert block.language in (*RUNNABLE, "text", "c", "toml"), f"{page.name}, line {block.line}: which language?"
        if block.language == "toml":
            tomllib.loads(block.text)
        assert block.noted("not run") != "", f"{page.name}, line {block.line}: why not?"


def test_there_are_examples() -> None:
    assert sum(len(examples(page)) for page in PAGES) >= 8


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("print(1 + 1)  # 3", "prints '2'; the page says '3'"),
        ("print(20)  # 200", "prints '20'; the page says '200'"),
        ("print(20)", "prints '20'; the page says ''"),
    ],
)
def test_a_page_that_shows_something_else_is_found(code: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        run_python(code, {})
    with pytest.raises(AssertionError, match="line 2"):
        run_page(f"```python\n{code}\n```\n", Path())


def test_shown_output() -> None:
    run_python("x = 2\nprint(x, x)  # 2 2: twice", {})
    assert is_alike(["a", "...", "d in 0.1 s"], "a\nb\nc\nd in 2.0 s\n")
    assert is_alike(["seconds  import 0.1"], "seconds  import 0.2, total 0.3\n")
    assert not is_alike(["a", "d"], "a\nb\nd\n")
    assert not is_alike(["a 0.1"], "a 0.2\n")
    assert is_alike(["floor … KiB; …"], "floor 12.4 KiB; more\n")
    assert not is_alike(["floor … KiB; …"], "floor 12.4 KiB; \n")
    assert not is_alike(["floor …", "end"], "floor 1\n2\nend\n")


def test_commands_are_run_and_their_status_is_looked_at(tmp_path: Path) -> None:
    refused = "```console\n$ ethoscade compile nothing.tflite\n```\n"
    with pytest.raises(AssertionError, match="ended with 1"):
        run_page(refused, tmp_path)
    assert run_page("<!-- run as: ethoscade --version -->\n```sh\nmake version\n```\n", tmp_path) == 1
    with pytest.raises(AssertionError, match="nobody knows how to run 'make'"):
        run_page("```sh\nmake version\n```\n", tmp_path)
    assert run_page("<!-- not run: it would set up an environment -->\n```sh\nmake test\n```\n", tmp_path) == 0
