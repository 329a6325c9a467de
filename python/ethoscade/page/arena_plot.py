"""The SRAM map as a picture: address against steps, coloured by what bytes are for, with arena, budget and peak."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .facts import ArenaMap, Holder, HolderKind
from .network_page import KIND_NAMES, KINDS, size
from .pictures import colour, figure, save

# Shares of the map's height and width: the least box that bears a name, and one of its letters.
_LEAST_LABELLED = 0.035
_LETTER = 0.0062
_LEAST_LETTERS = 9
# On these kinds' colours dark letters are read better than white ones.
_DARK_LETTERS = ("intermediate", "weights")


def plot(arena: ArenaMap, title: str, budget_bytes: int | None, path: str | os.PathLike[str]) -> Path:
    """Draw the map into `path`, in the format of its suffix.

    Raises `ConfigError` if matplotlib is missing, `CodegenError` if the file cannot be written.
    """
    drawn = figure(12, 6.6)
    upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(6, 1))
    shades = {kind: colour(name) for kind, name in KINDS.items()}
    top = max(arena.arena_bytes, budget_bytes or 0, 1)
    _holders(upper, arena, shades, top)
    upper.axhline(
        arena.arena_bytes / 1024, color=colour("ink"), linewidth=1.2, label=f"arena {size(arena.arena_bytes)}"
    )
    if budget_bytes is not None:
        label = f"budget {size(budget_bytes)}"
        upper.axhline(budget_bytes / 1024, color=colour("bad"), linewidth=1.2, linestyle="--", label=label)
    _in_use(lower, arena)
    for axes in (upper, lower):
        axes.axvline(arena.peak_step + 0.5, color=colour("ink"), linewidth=1, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_facecolor(colour("faint"))
        axes.tick_params(colors=colour("quiet"), labelsize=9)
    upper.set(xlim=(0, max(len(arena.steps), 1)), ylim=(0, top * 1.02 / 1024), ylabel="address (KiB)")
    lower.set(xlabel="step", ylabel="in use (KiB)")
    upper.set_title(title, loc="left", fontsize=11)
    drawn.legend(loc="outside lower center", ncols=9, fontsize=9, frameon=False)
    return save(drawn, path)


def _holders(axes: Any, arena: ArenaMap, shades: Mapping[HolderKind, str], top: int) -> None:
    from matplotlib.collections import PolyCollection

    for kind, shade in shades.items():
        shapes = [shape for holder in arena.holders if holder.kind == kind for shape in _outlines(holder)]
        if shapes:
            name = KIND_NAMES.get(kind, kind)
            paper = colour("card")
            axes.add_collection(PolyCollection(shapes, facecolors=shade, edgecolors=paper, linewidths=0.5, label=name))
    for holder in arena.holders:
        _label(axes, holder, max(len(arena.steps), 1), top)


def _outlines(holder: Holder) -> Iterator[Sequence[tuple[float, float]]]:
    """The staircases that a holder's bytes are, one for each time in which it has some: along the top and back."""
    used = [window for window in holder.windows if window[3] > window[2]]
    while used:
        count = next((n for n in range(1, len(used)) if used[n][0] != used[n - 1][1]), len(used))
        run, used = used[:count], used[count:]
        above: list[tuple[float, float]] = [
            (at, (holder.offset + high) / 1024) for first, last, _, high in run for at in (first, last)
        ]
        below: list[tuple[float, float]] = [
            (at, (holder.offset + low) / 1024) for first, last, low, _ in run for at in (first, last)
        ]
        yield above + below[::-1]


def _label(axes: Any, holder: Holder, steps: int, top: int) -> None:
    """The end of the holder's name inside its widest box, where there is room for it."""
    if not holder.windows:
        return
    first, last, low, high = max(holder.windows, key=lambda window: (window[1] - window[0]) * (window[3] - window[2]))
    letters = int((last - first) / steps / _LETTER)
    if (high - low) / top < _LEAST_LABELLED or letters < _LEAST_LETTERS:
        return
    name = holder.name if len(holder.name) <= letters else f"…{holder.name[1 - letters :]}"
    middle = (first + last) / 2, (holder.offset + (low + high) / 2) / 1024
    ink = colour("ink") if holder.kind in _DARK_LETTERS else "white"
    axes.text(*middle, name, ha="center", va="center", fontsize=7, color=ink, clip_on=True)


def _in_use(axes: Any, arena: ArenaMap) -> None:
    live = [held / 1024 for held in arena.live_bytes]
    peak = arena.live_bytes[arena.peak_step]
    axes.fill_between(range(len(live) + 1), [*live, live[-1]], step="post", color=colour("c7"), alpha=0.45, linewidth=0)
    axes.set_ylim(0, max(*live, 1 / 1024) * 1.3)
    right = arena.peak_step > 0.75 * len(live)
    words = f"peak {size(peak)}  " if right else f"  peak {size(peak)}"
    axes.text(
        arena.peak_step + 0.5, max(live) * 1.08, words, ha="right" if right else "left", fontsize=8, color=colour("ink")
    )
