"""Runs the code blocks of a Markdown page, one after the other, and compares what they print with what the page shows.

A ```python block runs statement by statement; where a statement prints, the comment behind it begins with what is
printed. In a ```console block a line `$ command` is followed by its output, in which a line `...` stands for any number
of lines and `…` for a part of one; seconds may differ. A ```sh block only has commands. An HTML comment right above a
block, which nobody sees on the page, may say

    <!-- not run: the reason -->
    <!-- run as: another command in place of the block's first -->
    <!-- run first: Python statements that make what the block takes for given -->

Blocks in ```text are no code, those in ```toml only have to be TOML; those in ```c are compiled by
`unit/test_firmware_toolchains.py`. Owns no pages.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNNABLE = ("python", "console", "sh")

_BLOCK = re.compile(
    r"(?:^<!--(?P<note>(?:(?!-->).)*)-->\n)?^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block: the page's line on which its text starts, its language, its text, and the note above it."""

    line: int
    language: str
    text: str
    note: str = ""

    def noted(self, kind: str) -> str | None:
        """What the note says after `kind` and a colon; None for another note or none."""
        head, _, rest = self.note.strip().partition(":")
        return rest.strip() if head == kind else None


def blocks(page: str) -> Iterator[Block]:
    """All fenced blocks of a page."""
    for match in _BLOCK.finditer(page):
        line = page.count("\n", 0, match.start("text")) + 1
        yield Block(line, match["language"], match["text"], match["note"] or "")


def run_python(code: str, names: dict[str, Any]) -> None:
    """Run statements with `names`; what they print is what their comments begin with. Raises AssertionError."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), "<page>", "exec"), names)
        said = " ".join(printed.getvalue().split())
        if not said:
            continue
        comment = lines[(statement.end_lineno or 1) - 1].partition("  # ")[2]
        told = re.match(re.escape(said) + r"(?=$|[:,;])", comment)
        assert told, f"{ast.unparse(statement)} prints {said!r}; the page says {comment!r}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a ```console block, each with the output that is shown."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition("  #")[0].strip(), []))
        else:
            assert found, f"{line!r} stands before any command"
            found[-1][1].append(line)
    yield from found


def timeless(line: str) -> str:
    """A line whose seconds are told from no others."""
    if line.startswith("seconds "):
        return "seconds"
    return re.sub(r"\b\d+\.\d+ s\b", "# s", line)


def is_alike(shown: list[str], printed: str) -> bool:
    """Whether an output is the one that is shown."""
    lines = [r"(?:.*\n)*?" if line.strip() == "..." else _pattern(line) + r"\n" for line in shown]
    text = "".join(timeless(line) + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(lines), text) is not None


def _pattern(line: str) -> str:
    """A line as an expression; what it leaves open is at least a character."""
    return ".+".join(map(re.escape, timeless(line).split("…")))


def run_command(command: str, shown: list[str], folder: Path) -> None:
    """Run a command in a folder and compare what it prints, unless nothing is shown. Raises AssertionError."""
    first, *rest = shlex.split(command)
    programs = {"ethoscade": [sys.executable, "-m", "ethoscade"], "python": [sys.executable]}
    assert first in programs, f"nobody knows how to run '{first}' here: say 'run as' or 'not run' above the block"
    rest = [str(ROOT / word) if word.endswith(".py") and (ROOT / word).is_file() else word for word in rest]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    ended = subprocess.run(
        [*programs[first], *rest],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    refused = any(line.startswith("ethoscade: ") for line in shown)
    assert ended.returncode == int(refused), f"{command} ended with {ended.returncode}:\n{ended.stdout}"
    assert not shown or is_alike(shown, ended.stdout), f"{command} prints\n{ended.stdout}"


def run_page(page: str, folder: Path) -> int:
    """Run the blocks of a page that are not marked, in `folder`, the working directory; how many there were."""
    names: dict[str, Any] = {"__name__": "page"}
    count = 0
    for block in blocks(page):
        if block.language not in RUNNABLE or block.noted("not run") is not None:
            continue
        count += 1
        try:
            if (before := block.noted("run first")) is not None:
                exec(before, names)
            if block.language == "python":
                run_python(block.text, names)
                continue
            shown = block.text if block.language == "console" else "".join(f"$ {s}\n" for s in block.text.splitlines())
            for command, output in commands(shown):
                run_command(block.noted("run as") or command, output, folder)
        except Exception as error:
            raise AssertionError(f"the block at line {block.line}: {error}") from error
    return count
