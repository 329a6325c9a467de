"""What notebooks show of results: a fragment of HTML with its own few styles, a table and small drawings, no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .document import text
from .facts import ArenaMap, NetworkFacts
from .network_page import KIND_NAMES, KINDS, glance, size
from .pictures import colour

_WIDTH, _HEIGHT = 560, 150
_MOST_WINDOWS = 3000
"""Beyond this number of rectangles a notebook would grow by megabytes; the report draws them."""

Point = tuple[int, int]


def fragment(title: str, rows: Iterable[tuple[str, str]], drawings: Iterable[str] = ()) -> str:
    """A heading, rows of (what, text) and drawings below each other."""
    left, quiet = 'style="text-align:left"', 'style="text-align:left;opacity:.7"'
    cells = "".join(f"<tr><td {quiet}>{text(what)}</td><td {left}>{text(told)}</td></tr>" for what, told in rows)
    return f'<div><b>{text(title)}</b><table style="margin:.4em 0">{cells}</table>{"".join(drawings)}</div>'


def network(facts: NetworkFacts) -> str:
    """A compiled network: its figures, and the SRAM map where that is small."""
    rows = [("target", facts.target)]
    rows += [(tile.label, f"{tile.value}{f' ({tile.note})' if tile.note else ''}") for tile in glance(facts)]
    windows = sum(len(holder.windows) for holder in facts.arena.holders)
    return fragment(facts.name, rows, [_map(facts.arena)] if 0 < windows <= _MOST_WINDOWS else [])


def curve(points: Sequence[Point], knee: Point | None, clock_hz: float | None) -> str:
    """A frontier of (SRAM bytes, cycles): its ends, its knee if it is whole, and its staircase from (0, 0) on."""

    def told(point: Point) -> str:
        time = "" if clock_hz is None else f", {1000 * point[1] / clock_hz:,.3f} ms"
        return f"{size(point[0])}, {point[1]:,} cycles{time}"

    marked = [] if knee is None else [("knee", told(knee))]
    rows = [("leanest", told(points[0])), *marked, ("fastest", told(points[-1]))]
    drawings = [_staircase(points, knee)] if knee is not None and points[-1][0] and points[0][1] else []
    return fragment(f"{len(points)} choices of SRAM and cycles", rows, drawings)


def _svg(says: str, content: str) -> str:
    return (
        f'<svg role="img" aria-label="{text(says)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" style="max-width:100%">{content}</svg>'
    )


def _map(arena: ArenaMap) -> str:
    steps = max(len(arena.steps), 1)
    shapes, legend = [], []
    for kind, name in KINDS.items():
        boxes = [
            (first, last, holder.offset + low, holder.offset + high)
            for holder in arena.holders
            if holder.kind == kind
            for first, last, low, high in holder.windows
            if high > low
        ]
        if not boxes:
            continue
        path = "".join(
            f"M{first * _WIDTH / steps:.1f} {_HEIGHT * (1 - high / arena.arena_bytes):.1f}"
            f"H{last * _WIDTH / steps:.1f}V{_HEIGHT * (1 - low / arena.arena_bytes):.1f}H{first * _WIDTH / steps:.1f}Z"
            for first, last, low, high in boxes
        )
        shapes.append(f'<path d="{path}" fill="{colour(name)}"/>')
        told = text(KIND_NAMES.get(kind, kind))
        legend.append(f'<span style="margin-right:1em"><b style="color:{colour(name)}">■</b> {told}</span>')
    says = f"SRAM map: {size(arena.arena_bytes)} upwards, {len(arena.steps)} steps to the right"
    return f"<div>{''.join(legend)}</div>{_svg(says, ''.join(shapes))}"


def _staircase(points: Sequence[Point], knee: Point) -> str:
    most, slowest = points[-1][0], points[0][1]

    def at(point: Point) -> tuple[float, float]:
        return 6 + (_WIDTH - 12) * point[0] / most, 6 + (_HEIGHT - 12) * (1 - point[1] / slowest)

    x, y = at(points[0])
    path = f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in map(at, points[1:]))
    line = f'<path d="{path}" fill="none" stroke="{colour("c4")}" stroke-width="1.6"/>'
    x, y = at(knee)
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="none" stroke="{colour("c4")}" stroke-width="2"/>'
    axes = f'<path d="M6 6V{_HEIGHT - 6}H{_WIDTH - 6}" fill="none" stroke="{colour("c7")}"/>'
    return _svg("SRAM to the right, cycles upwards, the knee as a circle", axes + line + mark)
