"""Writes a page as one HTML file: the same bytes for the same data, every text escaped, nothing fetched.

The file forbids itself (by its Content-Security-Policy) every script and style but its own, and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from .parts import Cell, Chapter, Chart, Column, Grid, Page, Part, Tiles, Unit, Words

_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}
_UNSAFE = re.compile("[<>&\u2028\u2029]")
_EMPTY = "–"
_LONG_TEXT = 28


def render(page: Page) -> str:
    """The page's HTML. Charts' scripts are included where the page has such charts."""
    parts = [part for chapter in page.chapters for part in chapter.parts]
    names = [part.name for part in parts if isinstance(part, Grid | Chart)] + [one.name for one in page.chapters]
    if len(names) != len(set(names)):
        raise AssertionError("names of tables, charts and chapters are addresses in the page")
    kinds = dict.fromkeys(kind for part in parts if isinstance(part, Chart) for kind in (*part.uses, part.kind))
    style = _asset("page.css")
    script = "\n".join(["'use strict';", _asset("page.js"), _asset("tables.js"), *map(_chart_script, kinds)])
    script += "\npage.start();\n"
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{text(page.title)}</title>",
        f"<style>{style}</style></head>",
        "<body>",
        *_head(page),
        "<main>",
        *(line for chapter in page.chapters for line in _chapter(chapter)),
        "</main>",
        f"<footer>{text(page.footer)}</footer>" if page.footer else "",
        f"<script>{script}</script>",
        "</body></html>",
        "",
    ]
    return "\n".join(line for line in lines[:-1] if line) + "\n"


def text(value: str) -> str:
    """Any text as HTML, in elements and in attributes: what UTF-8 cannot write and controls become visible signs."""
    encodable = value.encode("utf-8", "replace").decode("utf-8")
    return html.escape(encodable.translate(_CONTROLS), quote=True)


def embedded(value: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for an end of its element, and that is ASCII whatever the names in it are."""
    written = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def shown(value: Cell, unit: Unit) -> str:
    """A table's value as people read it."""
    if value is None:
        return _EMPTY
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "time":
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets").joinpath(name).read_text(encoding="utf-8")


def _chart_script(kind: str) -> str:
    return _asset(f"charts/{kind}.js")


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _head(page: Page) -> Iterator[str]:
    yield f'<header><div class="title"><h1>{text(page.title)}</h1><p>{text(page.subtitle)}</p></div>'
    yield '<nav aria-label="Chapters">'
    yield from (f'<a href="#{text(one.name)}">{text(one.title)}</a>' for one in page.chapters)
    yield "</nav></header>"


def _chapter(chapter: Chapter) -> Iterator[str]:
    yield f'<section id="{text(chapter.name)}"><h2>{text(chapter.title)}</h2>'
    for part in chapter.parts:
        yield from _WRITERS[type(part)](part)
    yield "</section>"


def _words(words: Words) -> Iterator[str]:
    if words.listed:
        yield f"<ul>{''.join(f'<li>{text(one)}</li>' for one in words.texts)}</ul>"
    else:
        yield from (f"<p>{text(one)}</p>" for one in words.texts)


def _tiles(tiles: Tiles) -> Iterator[str]:
    yield '<dl class="tiles">'
    for tile in tiles.tiles:
        note = f'<dd class="note">{text(tile.note)}</dd>' if tile.note else ""
        yield f'<div class="tile {tile.tone}"><dt>{text(tile.label)}</dt><dd>{text(tile.value)}</dd>{note}</div>'
    yield "</dl>"


def _grid(grid: Grid) -> Iterator[str]:
    yield f'<figure class="grid" id="{text(grid.name)}" data-open="{grid.open_rows}">'
    yield f"<figcaption>{text(grid.caption)}</figcaption>"
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{text(grid.caption)}"><table><thead><tr>'
    classes = [_class(column, [row[place] for row in grid.rows]) for place, column in enumerate(grid.columns)]
    yield from map(_heading, grid.columns, classes)
    yield "</tr></thead><tbody>"
    for row in grid.rows:
        cells = zip(row, grid.columns, classes, strict=True)
        yield f"<tr>{''.join(_cell(value, of.unit, kind) for value, of, kind in cells)}</tr>"
    yield "</tbody></table></div></figure>"


def _class(column: Column, values: Sequence[Cell]) -> str:
    """How a column is set: numbers to the right; texts in one line, or in several where some are long."""
    if column.unit != "text":
        return ""
    long = any(isinstance(value, str) and len(value) > _LONG_TEXT for value in values)
    return ' class="text long"' if long else ' class="text"'


def _heading(column: Column, kind: str) -> str:
    hint = f' title="{text(column.hint)}"' if column.hint else ""
    return f'<th scope="col" data-key="{text(column.key)}"{kind}{hint}>{text(column.title)}</th>'


def _cell(value: Cell, unit: Unit, kind: str) -> str:
    if value is None:
        return f'<td{kind} data-none="">{_EMPTY}</td>'
    number = "" if isinstance(value, str) else f' data-value="{value!r}"'
    return f"<td{kind}{number}>{text(shown(value, unit))}</td>"


def _chart(chart: Chart) -> Iterator[str]:
    yield f'<figure class="chart" id="{text(chart.name)}" data-kind="{text(chart.kind)}">'
    yield f"<figcaption>{text(chart.caption)}</figcaption>"
    yield f'<div class="drawing"><p class="says">{text(chart.says)}</p></div>'
    yield f'<script type="application/json">{embedded(chart.data)}</script></figure>'


_WRITERS: Mapping[type[Part], Callable[[Any], Iterator[str]]] = {
    Words: _words,
    Tiles: _tiles,
    Grid: _grid,
    Chart: _chart,
}
