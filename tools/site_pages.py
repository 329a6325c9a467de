"""What mkdocs is told beside docs/: pages from the root of the tree, pages that are written anew, links between them.

mkdocs calls `on_files` and `on_page_markdown` (`hooks` in mkdocs.yml). The root's pages become pages of the site, the
command line's helps and the names of the package become two, and notebooks are run and shown with what they print.
Links in pages are those that are right in the tree, and are turned here. Owns no text but headings; the order of pages
is in mkdocs.yml.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# mkdocs runs this file by its path, from wherever.
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python")]

import notebooks  # noqa: E402

OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "THIRD_PARTY_LICENSES.md": "licences.md",
}
"""Pages at the root of the tree, and what they are called on the site."""

MODULES = ("memory", "run.simulator", "targets.devices", "targets.target", "testing")
"""Modules whose public names have a place in the reference beside those of the package."""

_LINK = re.compile(
    r"(?P<text>\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)|(?P<source>src=\")(?P<picture>[^\"]+)"
)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def turned(text: str, written_in: str, shown_as: str) -> str:
    """A page's text with links for the site: `written_in` is its path in the tree, `shown_as` that below docs.

    A link to a file that is no page of the site leaves its text behind. Comments go: they say how examples are tested.
    """
    pieces = _FENCE.split(text)
    for index in range(0, len(pieces), 2):
        pieces[index] = _COMMENT.sub("", pieces[index])
        pieces[index] = _LINK.sub(lambda match: _linked(match, written_in, shown_as), pieces[index])
    return "".join(pieces)


def _linked(match: re.Match[str], written_in: str, shown_as: str) -> str:
    path, mark, heading = (match["target"] or match["picture"]).partition("#")
    if "://" in path or path.startswith("mailto:") or not path:
        return match[0]
    found = posixpath.normpath(posixpath.join(posixpath.dirname(written_in), path))
    page = OUTSIDE.get(found) or (found.removeprefix("docs/") if found.startswith("docs/") else None)
    if page is None:
        return match["text"][1:-1] if match["text"] else match[0]
    if page.endswith(".ipynb"):
        page = page.removesuffix(".ipynb") + ".md"
    target = posixpath.relpath(page, posixpath.dirname(shown_as) or ".") + mark + heading
    return f"{match['text']}({target})" if match["text"] else match["source"] + target


def command_line() -> str:
    """The page of all commands, each with its help."""
    from ethoscade.__main__ import _COMMANDS

    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "python")}

    def told(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ethoscade", *command, "--help"], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return f"```text\n{done.stdout.rstrip()}\n```\n"

    parts = ["# The command line\n", "What `ethoscade --help` and the commands' own helps say.\n", told()]
    for name in _COMMANDS:
        parts += [f"## ethoscade {name}\n", told(name)]
    return "\n".join(parts)


def reference() -> str:
    """The page of all public names, as mkdocstrings fills it from docstrings."""
    import ethoscade

    errors = sorted(name for name in ethoscade.__all__ if name.endswith("Error"))
    parts = [
        "# Python\n",
        "All public names of the package, from their docstrings. Results are frozen; errors are sentences.\n",
    ]
    homes = {name: f"ethoscade.{home}.{name}" for name, home in sorted(ethoscade._HOMES.items())}
    homes |= {name: f"ethoscade.errors.{name}" for name in errors}
    parts += [_entry(f"ethoscade.{name}", path) for name, path in homes.items()]
    parts += [_entry(f"ethoscade.{name.rpartition('.')[2]}", f"ethoscade.{name}") for name in MODULES]
    return "\n".join(parts)


def _entry(heading: str, path: str) -> str:
    return f'::: {path}\n    options:\n      heading: "{heading}"\n      toc_label: "{heading.partition(".")[2]}"\n'


def notebook(path: Path) -> str:
    """A notebook that has just been run, in a folder of its own, with what its cells show."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return notebooks.page(notebooks.read(path))
        finally:
            os.chdir(before)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """All pages of the site: those of docs and those that are not files there."""
    made: dict[str, Callable[[], str]] = {"command-line.md": command_line, "api.md": reference}
    for name, shown_as in OUTSIDE.items():
        made[shown_as] = lambda name=name: (ROOT / name).read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.remove(files.get_file_from_path(f"notebooks/{path.name}"))
        made[f"notebooks/{path.stem}.md"] = lambda path=path: notebook(path)
    for shown_as, text in made.items():
        files.append(File.generated(config, shown_as, content=text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, with links for the site."""
    shown_as = page.file.src_uri
    written_in = next((name for name, other in OUTSIDE.items() if other == shown_as), f"docs/{shown_as}")
    return turned(markdown, written_in, shown_as)
