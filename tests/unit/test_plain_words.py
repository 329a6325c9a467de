"""The program that holds the rules of plain words: each rule is red on bad text and green on good text.

Nothing here reads the tree or its recorded counts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import words

LONG = " ".join(["word"] * 31)
FIRST = " ".join(["word"] * 21)


def rules(findings: Iterator[words.Finding]) -> list[tuple[int, str]]:
    return [(number, rule) for number, rule, _ in findings]


@pytest.mark.parametrize(
    ("phrase", "plain"),
    [
        ("so many", "number"),
        ("nobody", "name who"),
        ("Whoever", "name who"),
        ("as it is", "unchanged"),
        ("of use", "needed"),
        ("comes to", "is"),
        ("is told", "given"),
        ("contender", "candidate"),
        ("would not do", "not enough"),
        ("anew", "again"),
        ("made in turns", "alternating"),
    ],
)
def test_phrases_with_a_plain_word_are_named_with_it(phrase: str, plain: str) -> None:
    """In a page, in Rust's doc comments, in a docstring; also across two lines."""
    broken = phrase.replace(" ", "\n")
    for findings, text in (
        (words.page_findings, f"# A page\n\nA clean line.\n\nIt {phrase} here.\n"),
        (words.rust_findings, f"//! A module.\n\n/// A sum.\n///\n/// It {phrase} here.\nfn sum() {{}}\n"),
        (words.python_findings, f'"""A module."""\n\n\ndef one():\n    """A sum.\n\n    It {phrase} here.\n    """\n'),
        (words.python_findings, f'"""A module."""\n\nLIMIT = 1\n"""A limit.\n\nIt {phrase} here.\n"""\n'),
        (words.page_findings, f"A line.\n\nIt\n{broken} here.\n"),
    ):
        found = list(findings(text))
        assert [rule for _, rule, _ in found] == ["banned words"], text
        assert plain in found[0][2]


def test_a_finding_names_the_line() -> None:
    assert rules(words.page_findings("One.\n\nTwo two\nand nobody.\n")) == [(4, "banned words")]
    assert rules(words.page_findings("| a | b |\n| - | - |\n| x | nobody |\n")) == [(3, "banned words")]
    assert rules(words.rust_findings("//! One.\n//!\n//! Nobody.\n")) == [(3, "banned words")]


def test_code_is_quoted_and_plain_text_is_clean() -> None:
    page = "# nobody\n\n```sh\nnobody so many\n```\n\nThe name `nobody` is quoted. Bytes of each row count.\n"
    assert not list(words.page_findings(page))
    rust = (
        "//! The sum of bytes.\n//!\n//! ```\n//! let nobody = 1;\n//! ```\n\n// nobody: no doc comment\nstruct Sum;\n"
    )
    assert not list(words.rust_findings(rust))
    assert not list(words.python_findings('"""The sum of bytes."""\nnobody = "so many"\n'))


def test_long_sentences_of_pages() -> None:
    """Of paragraphs over several lines, list items and table cells."""
    long = [(1, "long sentence")]
    assert rules(words.page_findings(f"{LONG}.\n")) == long
    assert rules(words.page_findings(LONG.replace(" ", "\n", 3) + ".\n")) == long
    assert rules(words.page_findings(f"- {LONG}.\n- short.\n")) == long
    assert rules(words.page_findings(f"| {LONG} | short |\n")) == long
    assert not list(words.page_findings(LONG.rsplit(" ", 1)[0] + ".\n"))
    assert not list(
        words.page_findings(LONG.replace("word word", "end. Word", 1).replace("word word", "`a b` [c](d)", 1))
    )
    assert not list(words.page_findings(f"- {LONG[:60]}\n- {LONG[:60]}\n- {LONG[:60]}\n"))


def test_first_sentences_of_docstrings() -> None:
    for findings, text in (
        (words.python_findings, '"""{}. More."""\n'),
        (words.rust_findings, "/// {}. More.\nfn one() {{}}\n"),
    ):
        assert [rule for _, rule in rules(findings(text.format(FIRST)))] == ["long first sentence"]
        assert not list(findings(text.format(FIRST.rsplit(" ", 1)[0])))
        assert [rule for _, rule in rules(findings(text.format("Bytes that a row takes")))] == ["that"]
        assert not list(findings(text.format("Bytes of a row. It has those that count")))


@pytest.mark.parametrize("name", ["Settled", "Planned", "Whole", "Found", "Known", "Lean"])
def test_types_named_by_a_state(name: str) -> None:
    for line in (f"pub(crate) struct {name}<'a> {{", f"enum {name} {{", f"pub trait {name} {{"):
        assert rules(words.rust_findings(f"\n{line}\n")) == [(2, "type name")], line
    assert rules(words.python_findings(f"class {name}:\n    pass\n")) == [(1, "type name")]


def test_types_named_by_a_noun() -> None:
    for name in ("PlacedCandidate", "Seed", "Feed", "WholeTensor", "Candidate"):
        assert not list(words.rust_findings(f"pub struct {name} {{\n")), name
        assert not list(words.python_findings(f"class {name}:\n    pass\n")), name


@pytest.mark.parametrize(
    "title",
    [
        "Interleaving asks the graph for producers",
        "search: added a limit for candidates",
        "search: adds a limit for candidates",
        "search: adding a limit for candidates",
        "search: the limit of candidates",
        "search: Add a limit",
        "search: add a limit.",
        "search:add a limit",
        "search: add",
        f"search: add {'a' * 61}",
    ],
)
def test_titles_of_another_shape(title: str) -> None:
    assert rules(words.title_findings(["docs: name the limit", title])) == [(2, "commit title")]


def test_titles_of_the_shape() -> None:
    titles = [
        "search: give alternating candidates their own retry limit",
        "tests/unit: feed bad text",
        "usmp, plans: pass limits",
        "docs: re-measure",
    ]
    assert not list(words.title_findings(titles[:3]))
    assert rules(words.title_findings(titles)) == [(4, "commit title")]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The program on a tree of its own without git: pages by name, counts allowed, arguments."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()

    def program(pages: dict[str, str], allowed: dict[str, int], *arguments: str) -> int:
        for name, text in pages.items():
            (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
        monkeypatch.setattr(words, "ALLOWED", allowed)
        monkeypatch.setattr(sys, "argv", ["words.py", *arguments])
        return words.main()

    return program


def test_old_text_may_break_rules_as_often_as_is_allowed(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {"a.md": f"{LONG}.\n\n{LONG}.\n", "b.md": f"{LONG}.\n"}
    assert run(pages, {"long sentence": 3}) == 0
    assert capsys.readouterr().out == ""
    assert run(pages, {"long sentence": 2}) == 1
    *found, last = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in found] == ["docs/a.md:1", "docs/a.md:3", "docs/b.md:1"]
    assert last == "long sentence: 3, 2 allowed"
    assert run(pages, {"long sentence": 3}, "--all") == 0
    assert capsys.readouterr().out.splitlines() == found


def test_what_is_printed_is_in_files_changed_last(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run({"a.md": f"{LONG}.\n", "b.md": "Clean.\n"}, {"long sentence": 1})
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "One"], ["commit", "-qm", "Two", "--allow-empty"]):
        subprocess.run(["git", "-C", str(tmp_path), *identity, *command], check=True)
    assert run({"b.md": f"{LONG}.\n"}, {"long sentence": 1}) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["docs/b.md", "long sentence"]


def test_titles_are_read_from_git_and_skipped_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert words.new_titles() == []
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    git = ("git", "-C", str(tmp_path), *identity)
    subprocess.run([*git, "init", "-q"], check=True)
    for title in ("Base", "docs: name it", "Wrong"):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", title], check=True)
    assert words.new_titles() == [], "a history that the base is no part of"
    base = subprocess.run([*git, "rev-parse", "HEAD~2"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setattr(words, "BASE", base)
    assert words.new_titles() == ["Wrong", "docs: name it"]
