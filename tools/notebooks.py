"""Notebooks without Jupyter: read, run cell by cell, written as Markdown with what their cells show.

    python tools/notebooks.py --strip FILE ...

`docs/notebooks` has them without outputs; `--strip` takes outputs away again after an editor has put them there. A cell
shows what it prints and what its last expression is worth: HTML or a picture where the value has one. Owns the format
.ipynb as far as it is needed; knows nothing of the site.
"""

from __future__ import annotations

import ast
import io
import json
import pprint
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

FORMAT = {"nbformat": 4, "nbformat_minor": 5}
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


@dataclass(frozen=True)
class Cell:
    """Text or code, and whether it is code."""

    text: str
    is_code: bool


def read(path: Path) -> tuple[Cell, ...]:
    """The cells of a notebook, which may be of Markdown and of Python. Raises `ValueError` for any other."""
    told = json.loads(path.read_text(encoding="utf-8"))
    kinds = {"markdown": False, "code": True}
    if strange := {cell["cell_type"] for cell in told["cells"]} - set(kinds):
        raise ValueError(f"{path.name} has cells that are {', '.join(sorted(strange))}")
    return tuple(Cell("".join(cell["source"]), kinds[cell["cell_type"]]) for cell in told["cells"])


def stripped(text: str) -> str:
    """A notebook without outputs, counts and an editor's words, as it is kept."""
    cells = []
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        source = "".join(cell["source"]).rstrip("\n").splitlines(keepends=True)
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": source}
        cells.append({**kept, "execution_count": None, "outputs": []} if cell["cell_type"] == "code" else kept)
    return json.dumps({"cells": cells, "metadata": KERNEL, **FORMAT}, indent=1, ensure_ascii=False) + "\n"


def run(code: str, names: dict[str, Any]) -> tuple[str, object]:
    """What a cell prints, and the value of the expression that it ends with, None if it ends otherwise."""
    body = ast.parse(code).body
    last = body.pop().value if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        value = eval(compile(ast.Expression(last), "<cell>", "eval"), names) if last is not None else None
    return printed.getvalue(), value


def shown(printed: str, value: object) -> str:
    """What a cell shows, as Markdown; nothing where there is nothing to see."""
    parts = [_text(printed)] if printed.strip() else []
    if value is not None:
        pictures = getattr(value, "_repr_svg_", None) or getattr(value, "_repr_html_", None)
        html = (pictures() if pictures else None) or _figure(value)
        # Blank lines would end the HTML; so would they inside a picture.
        seen = "\n".join(line for line in html.splitlines() if line.strip())
        parts.append(seen or _text(pprint.pformat(value, width=100)))
    return "\n\n".join(parts)


def page(cells: tuple[Cell, ...], names: Mapping[str, Any] | None = None) -> str:
    """Run the cells one after the other, and return Markdown: text, code, and what the code shows."""
    known: dict[str, Any] = {"__name__": "notebook", **(names or {})}
    parts = []
    for cell in cells:
        parts.append(f"```python\n{cell.text}\n```" if cell.is_code else cell.text)
        if cell.is_code and (seen := shown(*run(cell.text, known))):
            parts.append(seen)
    return "\n\n".join(parts) + "\n"


def _text(text: str) -> str:
    return f'<pre class="output"><code>{escape(text.rstrip())}</code></pre>'


def _figure(value: object) -> str:
    """matplotlib's figure as SVG; nothing of any other value."""
    figure = getattr(value, "figure", value)
    if type(figure).__module__.partition(".")[0] != "matplotlib":
        return ""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "<svg" + drawn.getvalue().partition("<svg")[2]


def main() -> int:
    """Strip the files that are named; the exit status."""
    if sys.argv[1:2] != ["--strip"]:
        print(__doc__, file=sys.stderr)
        return 2
    for path in map(Path, sys.argv[2:]):
        path.write_text(stripped(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
