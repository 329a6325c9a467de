"""Frontiers as step curves, one or several on the same axes, in milliseconds and cycles. Needs matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..page.pictures import colour, figure, save
from ..pipeline.compiled import Curve
from ..util.records import dataclass

_COLOURS = ("c4", "c3", "c2", "c5", "c6", "c8", "c1", "c7")
_WIDE = 12
"""Beyond this ratio of most to least SRAM the axis is logarithmic."""


@dataclass(frozen=True)
class NamedCurve:
    """A curve with what it is of, told in the legend."""

    name: str
    curve: Curve


def frontiers(curves: Sequence[NamedCurve], title: str, path: str | os.PathLike[str]) -> Path:
    """Draw curves over each other into `path` (format by suffix), each with its knee as a diamond.

    A single one has its floor as well, and the point without cascades.

    Time is milliseconds where every curve has a clock, else cycles; if all have the same clock, both. Raises
    `ConfigError` if matplotlib is missing, `CodegenError` if the file cannot be written.
    """
    drawn = figure(9, 5.4)
    axes = drawn.add_subplot()
    clocks = {one.curve.core_clock_hz for one in curves}
    for place, one in enumerate(curves):
        _curve(axes, one, colour(_COLOURS[place % len(_COLOURS)]), None not in clocks, alone=len(curves) == 1)
    if len(curves) > 1:
        axes.plot([], [], "D", markerfacecolor="none", markeredgewidth=1.6, color=colour("quiet"), label="knee")
    sizes = [size for one in curves for size, _ in one.curve.points]
    if max(sizes) > _WIDE * max(min(sizes), 1):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.set(xlabel="SRAM (KiB)", ylabel="ms" if None not in clocks else "cycles (million)")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=colour("line"), linewidth=0.8)
    if len(clocks) == 1 and None not in clocks:
        (clock,) = clocks
        _second_axis(axes, float(clock or 0))
    axes.legend(fontsize=9, frameon=False)
    return save(drawn, path)


def _curve(axes: Any, one: NamedCurve, shade: str, in_time: bool, alone: bool) -> None:
    curve = one.curve
    per_unit = (curve.core_clock_hz or 0) / 1000 if in_time else 1e6
    kib = [size / 1024 for size, _ in curve.points]
    time = [cycles / per_unit for _, cycles in curve.points]
    axes.step(kib, time, where="post", marker="o", markersize=3, linewidth=1.4, color=shade, label=one.name)
    if len(curve.points) == 1:
        return
    knee = curve.knee[0] / 1024, curve.knee[1] / per_unit
    told = f"knee, {knee[0]:,.1f} KiB" if alone else None
    axes.plot(*knee, "D", markersize=7, markerfacecolor="none", markeredgewidth=1.6, color=shade, label=told)
    if alone:
        axes.axvline(kib[0], linestyle=":", color=colour("quiet"), label=f"floor, {kib[0]:,.1f} KiB")
        uncascaded = curve.uncascaded_bytes / 1024, curve.uncascaded_cycles / per_unit
        axes.plot(*uncascaded, "x", color=colour("c6"), label=f"without cascades, {uncascaded[0]:,.1f} KiB")


def _second_axis(axes: Any, clock_hz: float) -> None:
    """Cycles on the right, at the clock that all curves have."""
    per_ms = clock_hz / 1e9
    right = axes.secondary_yaxis("right", functions=(lambda ms: ms * per_ms, lambda mega: mega / per_ms))
    right.set_ylabel(f"million cycles at {clock_hz / 1e6:,.0f} MHz")
    right.spines["right"].set_visible(False)
