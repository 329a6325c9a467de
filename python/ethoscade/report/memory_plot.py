"""Draws a placement over time: one picture per pool, a rectangle for every section of every buffer, the peak marked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..errors import CodegenError, ConfigError
from ..memory import Placement
from ..memory.model import Buffer
from ..page.pictures import figure, save

_COLOURS = ("#4878a8", "#d1813c", "#5a9c5a", "#b04f4f", "#8a6fa8", "#8c6d5a")
_MOST_NAMES = 60
"""Beyond this number of buffers names would only hide the rectangles."""


def plot(placement: Placement, path: str | os.PathLike[str]) -> None:
    """Writes the picture; the ending of `path` says in which format.

    Folders that are not there are made. Raises `ConfigError` when matplotlib is not installed or the file cannot be
    written.
    """
    drawn = figure(12, 1 + 4.5 * len(placement.pools))
    axes = drawn.subplots(len(placement.pools), 1, squeeze=False)[:, 0]
    for index, pool in enumerate(placement.pools):
        _draw_pool(axes[index], placement, pool.name, _COLOURS[index % len(_COLOURS)])
    try:
        save(drawn, path)
    except CodegenError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot write the picture: {error}") from error


def _draw_pool(axes: Any, placement: Placement, pool: str, colour: str) -> None:
    first, last = _steps(placement)
    placed = [
        (buffer, offset)
        for buffer, offset, where in zip(placement.buffers, placement.offsets, placement.pool_of, strict=True)
        if where == pool
    ]
    for buffer, offset in placed:
        for lower, upper, low, high in sections(buffer):
            lower, upper = max(lower, first), min(upper, last)
            axes.broken_barh(
                [(lower, upper - lower)], (offset + low, high - low), facecolor=colour, edgecolor="black", linewidth=0.4
            )
        if len(placed) <= _MOST_NAMES and buffer.ever_in_use:
            middle = (max(buffer.lower, first) + min(buffer.upper, last)) / 2
            axes.text(middle, offset + buffer.size_bytes / 2, buffer.name, ha="center", va="center", fontsize=6)
    peak, bound = placement.peaks[pool], placement.lower_bounds[pool]
    axes.axhline(peak, color="#c02020", linewidth=1.2, label=f"peak {peak}")
    if bound < peak:
        axes.axhline(bound, color="#202020", linewidth=0.8, linestyle="--", label=f"lower bound {bound}")
    axes.set(title=f"{pool}: {len(placed)} buffers", xlabel="step", ylabel="bytes", ylim=(0, max(1, peak) * 1.05))
    axes.set_xlim(first, last)
    axes.legend(loc="upper right", fontsize=8)


def _steps(placement: Placement) -> tuple[int, int]:
    """The steps of everything that is not there all the time."""
    moving = [b for b in placement.buffers if not b.is_constant] or [Buffer("", 0, 1, 0)]
    first, last = min(b.lower for b in moving), max(b.upper for b in moving)
    return first, max(last, first + 1)


def sections(buffer: Buffer) -> Iterator[tuple[int, int, int, int]]:
    """What of a buffer is in use when: first and last step, first and last byte, half-open."""
    start = buffer.lower
    for gap in sorted(buffer.gaps, key=lambda gap: (gap.lower, gap.upper)):
        if start < gap.lower:
            yield start, gap.lower, 0, buffer.size_bytes
        if gap.window is not None and gap.lower < gap.upper and gap.window[0] < gap.window[1]:
            yield gap.lower, gap.upper, *gap.window
        start = gap.upper
    if start < buffer.upper and buffer.size_bytes:
        yield start, buffer.upper, 0, buffer.size_bytes
