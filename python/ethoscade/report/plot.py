"""Pictures: the frontier as a step curve. Needs matplotlib (extra `report`)."""

from __future__ import annotations

from pathlib import Path

from ..compiled import Curve
from ..errors import CodegenError, ConfigError


def frontier(curve: Curve, title: str, path: Path) -> None:
    """Draw SRAM against cycles into `path` (format by suffix). Raises `ConfigError` if matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError('drawing needs matplotlib: pip install "ethoscade[report]"') from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    kib = [size / 1024 for size, _ in curve.points]
    mega = [cycles / 1e6 for _, cycles in curve.points]
    axes.step(kib, mega, where="post", marker="o", markersize=3)
    axes.axvline(curve.uncascaded_bytes / 1024, linestyle=":", color="grey", label="without cascades")
    axes.set(title=title, xlabel="SRAM (KiB)", ylabel="cycles (million)")
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise CodegenError(f"cannot draw into '{path}': {error}") from error
