"""Small SVG drawings that read on a light and on a dark page, byte for byte the same on every machine.

Owns colours, text and shapes. Knows nothing of what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

INK = {"ink": ("#1f2328", "#e6edf3"), "dim": ("#59636e", "#9198a1"), "rule": ("#d1d9e0", "#3d444d")}
"""Names of colours, each on a light and on a dark page: text, lesser text, lines."""

FILLS = {
    "blue": ("#8ec1f7", "#1f5fa8"),
    "green": ("#8fd6a0", "#23703a"),
    "orange": ("#f8c58a", "#94581a"),
    "purple": ("#cdb4f4", "#6740a3"),
    "red": ("#f5a9a9", "#973737"),
    "grey": ("#e3e8ed", "#2f363e"),
}
"""Names of colours of areas; text in ink stands out on all of them."""

FONT = "ui-sans-serif, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"


class Drawing:
    """Shapes in pixels from the top left corner; `text()` is the file.

    `title` says what there is to see to those who do not see it. A colour is a name of `INK` or `FILLS`.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._shapes: list[str] = []

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, *, round_by: float = 0, tip: str = ""
    ) -> None:
        """A filled rectangle; `tip` is shown where the pointer rests on it."""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        radius = f' rx="{_number(round_by)}"' if round_by else ""
        at = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._shapes.append(f'<rect class="{fill}" {at}{radius}' + (f">{inner}</rect>" if inner else "/>"))

    def outline(self, points: Iterable[tuple[float, float]], colour: str = "ink", *, dashed: bool = False) -> None:
        """A line through points."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        dash = ' stroke-dasharray="3 3"' if dashed else ""
        self._shapes.append(f'<polyline class="line {colour}-line" points="{path}"{dash}/>')

    def arrow(self, path: str, colour: str = "dim") -> None:
        """A path of SVG that ends in a head."""
        self._shapes.append(f'<path class="line {colour}-line" d="{path}" marker-end="url(#head)"/>')

    def write(
        self, x: float, y: float, text: str, *, size: float = 12, colour: str = "ink", anchor: str = "start",
        bold: bool = False,
    ) -> None:  # fmt: skip
        """A line of text; `y` is its baseline, `anchor` "start", "middle" or "end"."""
        more = (f' text-anchor="{anchor}"' if anchor != "start" else "") + (' font-weight="600"' if bold else "")
        at = f'x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}"'
        self._shapes.append(f'<text class="{colour}" {at}{more}>{escape(text)}</text>')

    def text(self) -> str:
        """The file."""
        size = f'viewBox="0 0 {_number(self.width)} {_number(self.height)}" width="{_number(self.width)}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            "<style>",
            _colours(0),
            "@media (prefers-color-scheme: dark) {",
            _colours(1),
            "}",
            ".line { fill: none; stroke-width: 1; }",
            "</style>",
            f"<defs>{_HEAD}</defs>",
            *self._shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


_HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path class="dim" d="M0,0.8 L7.5,4 L0,7.2 z"/></marker>'
)
"""The head of an arrow."""


def _colours(page: int) -> str:
    fills = [f".{name} {{ fill: {colours[page]}; }}" for name, colours in {**INK, **FILLS}.items()]
    strokes = [f".{name}-line {{ stroke: {colours[page]}; }}" for name, colours in INK.items()]
    return "\n".join([*fills, *strokes])


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
