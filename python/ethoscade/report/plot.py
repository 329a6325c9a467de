"""Pictures: frontiers as step curves, one or several on the same axes. Needs matplotlib (extra `report`)."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CodegenError, ConfigError
from ..pipeline.compiled import Curve
from ..util.files import write_whole


@dataclass(frozen=True)
class Series:
    """Points (SRAM bytes, cycles), ascending in SRAM; a `frontier` is drawn as steps, other points as crosses."""

    name: str
    points: Sequence[tuple[int, int]]
    frontier: bool = True


def frontier(curve: Curve, title: str, path: Path) -> None:
    """Draw a curve, its floor and the point without cascades into `path`. Raises as `draw` does."""
    uncascaded = Series("without cascades", [(curve.uncascaded_bytes, curve.uncascaded_cycles)], frontier=False)
    draw([Series("frontier", curve.points), uncascaded], title, path, floor_bytes=curve.floor_bytes)


def draw(series: Sequence[Series], title: str, path: Path, floor_bytes: int | None = None) -> None:
    """Draw cycles against KiB into `path` (format by suffix).

    Raises `ConfigError` if matplotlib is missing, `CodegenError` if the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError('drawing needs matplotlib: pip install "ethoscade[report]"') from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for one in series:
        kib = [size / 1024 for size, _ in one.points]
        mega = [cycles / 1e6 for _, cycles in one.points]
        if one.frontier:
            axes.step(kib, mega, where="post", marker="o", markersize=3, label=one.name)
        else:
            axes.plot(kib, mega, linestyle="none", marker="x", label=one.name)
    if floor_bytes is not None:
        axes.axvline(floor_bytes / 1024, linestyle=":", color="grey", label=f"floor, {floor_bytes / 1024:.1f} KiB")
    axes.set(title=title, xlabel="SRAM (KiB)", ylabel="cycles (million)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all, in the format of the path's suffix. Raises `CodegenError`."""
    stream = io.BytesIO()
    try:
        figure.savefig(stream, format=Path(path).suffix.removeprefix(".") or "png")
    except (OSError, ValueError) as error:
        raise CodegenError(f"cannot draw into '{os.fspath(path)}': {error}") from error
    write_whole(path, stream.getvalue())
