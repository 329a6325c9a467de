"""Draw the rooms of the package and of the core in floors, from the import tables in `tests/rooms.py`.

    python tools/room_diagram.py

A room stands one floor above the highest room that it imports. An arrow means "imports"; what other arrows imply is not
drawn, nor what nearly every room imports, which is said below the drawing. Owns the layout, not the tables.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drawing import Drawing

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rooms import BELOW, RUST_BELOW, room

ROOT = Path(__file__).resolve().parents[1]
EVERYBODYS = ("errors", "util", "_core")
FLOOR_HEIGHT, BOX_HEIGHT, GAP, LETTER = 74, 30, 22, 7.6

Graph = dict[str, set[str]]


def python_rooms() -> Graph:
    """For each room of the package the rooms that it imports, without those that are everybody's."""
    found: Graph = {}
    for unit, below in BELOW.items():
        found.setdefault(room(unit), set()).update({room(name) for name in below} - {*EVERYBODYS, room(unit)})
    return {name: below for name, below in found.items() if name not in EVERYBODYS}


def rust_rooms() -> Graph:
    """For each room of the core the rooms that it uses; `util` is everybody's."""
    return {name: below - {"util"} for name, below in RUST_BELOW.items() if name != "util"}


def floors(rooms: Mapping[str, set[str]]) -> dict[str, int]:
    """Each room's floor, counted from the ground."""
    found: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in found:
            found[name] = max((floor(below) + 1 for below in rooms[name]), default=0)
        return found[name]

    for name in rooms:
        floor(name)
    return found


def arrows(rooms: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Imports that do not follow from others, in order."""
    beyond: Graph = {}

    def reached(name: str) -> set[str]:
        if name not in beyond:
            beyond[name] = rooms[name].union(*(reached(below) for below in rooms[name]))
        return beyond[name]

    return [
        (name, below)
        for name in sorted(rooms)
        for below in sorted(rooms[name])
        if not any(below in reached(other) for other in rooms[name] - {below})
    ]


@dataclass
class Layout:
    """Places on floors: a room, or a point that an arrow over several floors passes."""

    floor: dict[str, int]
    width: dict[str, float]
    above: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    rows: list[list[str]] = field(default_factory=list)
    x: dict[str, float] = field(default_factory=dict)

    def link(self, upper: str, lower: str) -> None:
        self.below.setdefault(upper, []).append(lower)
        self.above.setdefault(lower, []).append(upper)

    def order(self) -> None:
        """Order every floor by the middle of its neighbours on the next one, up and down; keep what crosses least."""
        place = {name: at for row in self.rows for at, name in enumerate(row)}
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for turn in range(24):
            neighbours = self.below if turn % 2 == 0 else self.above
            for row in self.rows if turn % 2 == 0 else reversed(self.rows):
                middle = {}
                for name in row:
                    near = [place[other] / len(self.rows[self.floor[other]]) for other in neighbours.get(name, [])]
                    middle[name] = sum(near) / len(near) if near else place[name] / len(row)
                row.sort(key=lambda name: (middle[name], name))
                place.update({name: at for at, name in enumerate(row)})
            if (now := self.crossings()) < fewest:
                best, fewest = [list(row) for row in self.rows], now
        self.rows = best

    def crossings(self) -> int:
        place = {name: at for row in self.rows for at, name in enumerate(row)}
        found = 0
        for row in self.rows:
            lines = [(place[upper], place[lower]) for upper in row for lower in self.below.get(upper, [])]
            found += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for at, a in enumerate(lines) for b in lines[:at])
        return found

    def settle(self) -> None:
        """Give every place an x near the middle of its neighbours, floors one after the other, boxes apart."""
        for row in self.rows:
            at = 0.0
            for name in row:
                self.x[name] = at + self.width[name] / 2
                at += self.width[name] + GAP
        for turn in range(60):
            for row in self.rows if turn % 2 == 0 else reversed(self.rows):
                wanted = []
                for name in row:
                    near = [self.x[other] for other in (*self.below.get(name, []), *self.above.get(name, []))]
                    wanted.append(sum(near) / len(near) if near else self.x[name])
                self.spread(row, wanted)
        left = min(self.x[name] - self.width[name] / 2 for name in self.x)
        self.x = {name: x - left for name, x in self.x.items()}

    def spread(self, row: list[str], wanted: list[float]) -> None:
        """Places of a row as near to what is `wanted` as boxes allow: the mean of pushing all right and all left."""
        apart = [(self.width[a] + self.width[b]) / 2 + GAP for a, b in itertools.pairwise(row)]
        right, left = list(wanted), list(wanted)
        for at, space in enumerate(apart):
            right[at + 1] = max(right[at + 1], right[at] + space)
        for at in reversed(range(len(apart))):
            left[at] = min(left[at], left[at + 1] - apart[at])
        for name, a, b in zip(row, right, left, strict=True):
            self.x[name] = (a + b) / 2


def laid_out(rooms: Mapping[str, set[str]]) -> Layout:
    """Rooms and the points that arrows pass, ordered and placed."""
    floor = floors(rooms)
    layout = Layout(dict(floor), {name: LETTER * len(name) + 24 for name in rooms})
    layout.rows = [sorted(name for name in rooms if floor[name] == level) for level in range(max(floor.values()) + 1)]
    for upper, lower in arrows(rooms):
        above = upper
        for level in range(floor[upper] - 1, floor[lower], -1):
            passed = f"{upper} {lower} {level}"
            layout.floor[passed], layout.width[passed] = level, 2
            layout.rows[level].append(passed)
            layout.link(above, passed)
            above = passed
        layout.link(above, lower)
    layout.order()
    layout.settle()
    return layout


def drawn(rooms: Mapping[str, set[str]], core: set[str], title: str, words: str) -> str:
    """The drawing; rooms in `core` have a colour of their own, which `words` below it explain."""
    layout = laid_out(rooms)
    side = 28
    tall = len(layout.rows)
    wide = max(layout.x[name] + layout.width[name] / 2 for name in layout.x)
    drawing = Drawing(max(wide, 6.3 * len(words)) + 2 * side, tall * FLOOR_HEIGHT + 66, title)
    drawing.write(side, 24, title, size=14, bold=True)
    shift = side + (drawing.width - 2 * side - wide) / 2

    def middle(name: str) -> tuple[float, float]:
        return shift + layout.x[name], 40 + (tall - 1 - layout.floor[name]) * FLOOR_HEIGHT + BOX_HEIGHT / 2

    for level in range(tall):
        y = 40 + (tall - 1 - level) * FLOOR_HEIGHT + BOX_HEIGHT / 2
        drawing.write(side - 12, y + 4.5, str(level), size=11, colour="dim", anchor="middle")
        if level:
            y += FLOOR_HEIGHT / 2
            drawing.outline([(side - 20, y), (drawing.width - side + 20, y)], "rule", dashed=True)
    for upper, lower in arrows(rooms):
        levels = range(layout.floor[upper] - 1, layout.floor[lower], -1)
        x, y = middle(upper)
        y += BOX_HEIGHT / 2
        path = f"M{x:.1f},{y:.1f}"
        for name in (*(f"{upper} {lower} {level}" for level in levels), lower):
            to_x, to_y = middle(name)
            to_y -= BOX_HEIGHT / 2
            half = (y + to_y) / 2
            path += f" C{x:.1f},{half:.1f} {to_x:.1f},{half:.1f} {to_x:.1f},{to_y:.1f}"
            x, y = to_x, to_y
            if name != lower:
                y += BOX_HEIGHT
                path += f" L{x:.1f},{y:.1f}"
        drawing.arrow(path)
    for name in sorted(rooms):
        x, y = middle(name)
        width = layout.width[name]
        fill = "orange" if name in core else "blue"
        drawing.box(x - width / 2, y - BOX_HEIGHT / 2, width, BOX_HEIGHT, fill, round_by=6)
        drawing.write(x, y + 4.5, name, size=13, anchor="middle")
    drawing.write(side, drawing.height - 14, words, size=12, colour="dim")
    return drawing.text()


def written() -> dict[Path, str]:
    """What the drawings hold, by path."""
    core = {room(unit) for unit, below in BELOW.items() if "_core" in below}
    python = drawn(
        python_rooms(), core, "Rooms of the package: an arrow means that one imports the other",
        "Orange: talks to the compiled core. Not drawn: errors and util, on which all stand; what other arrows imply.",
    )  # fmt: skip
    rust = drawn(
        rust_rooms(), {"python"}, "Rooms of the core: an arrow means that one uses the other",
        "Orange: the only one that knows Python. Not drawn: util, on which all stand; what other arrows imply.",
    )  # fmt: skip
    return {ROOT / "docs" / "rooms-python.svg": python, ROOT / "docs" / "rooms-rust.svg": rust}


def main() -> int:
    """Write the drawings."""
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
