"""What a page is made of, as frozen data: chapters of words, tiles, tables and charts.

Owns the types alone; all texts in them are plain text, which `document` escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..util.records import dataclass

Cell = str | int | float | None
"""A value of a table; None is a value that there is not, which sorts last and is empty in CSV."""

Unit = Literal["text", "number", "share", "time"]
"""How a column's values are written: as they are, with thousands apart, in percent (of 0..1), with three decimals."""

Tone = Literal["plain", "good", "bad"]
"""What a tile's colour says of its value."""


@dataclass(frozen=True)
class Column:
    """A column of a table: `title` heads it, `hint` says what the values are, `key` is its name in CSV."""

    key: str
    title: str
    unit: Unit = "number"
    hint: str = ""


@dataclass(frozen=True)
class Grid:
    """A table that sorts, filters and exports. `name` is its file's name in CSV and unique in a page.

    Every row has a cell for each of `columns`. Beyond `open_rows` rows a button shows the rest.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    open_rows: int = 200

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise AssertionError(f"rows of '{self.name}' have other columns")


@dataclass(frozen=True)
class Tile:
    """A figure that matters: what it is, its value as text, and a line below it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Tiles:
    """Tiles side by side."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Words:
    """A paragraph, or a list where there are several texts and `listed`."""

    texts: tuple[str, ...]
    listed: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing by the script `assets/charts/<kind>.js`, whose head says what `data` (JSON) holds.

    `name` is unique in a page; `says` is the drawing in words, for those who do not see it. `uses` are the kinds of
    charts that its script draws with.
    """

    kind: str
    name: str
    caption: str
    says: str
    data: Mapping[str, Any]
    uses: tuple[str, ...] = ()


Part = Words | Tiles | Grid | Chart


@dataclass(frozen=True)
class Chapter:
    """A heading, and what is below it; `name` is its address in the page."""

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """A whole page; `subtitle` and `footer` are lines of text."""

    title: str
    subtitle: str
    chapters: tuple[Chapter, ...]
    footer: str = ""
