"""Memory in whole cache lines: what a budget counts where the arena's array ends with a line, as that of C does.

Owns the rounding of a curve and of a budget. The search counts in steps of 16 bytes, as the NPU does; a driver drops
whole lines of the cache, so a neighbour in the arena's last one would lose what it wrote.
"""

from __future__ import annotations

from dataclasses import replace

from ..codegen.layout import ALIGNMENT_BYTES, whole_lines
from ..errors import ConfigError
from .compiled import Curve
from .curve import reduced_to

_MOST_BYTES = 4096


def check_line(line_bytes: int) -> None:
    """Raises `ConfigError` for what is no size of a line."""
    if not ALIGNMENT_BYTES <= line_bytes <= _MOST_BYTES or line_bytes & (line_bytes - 1):
        raise ConfigError(f"line_bytes is {line_bytes}; it must be a power of two, {ALIGNMENT_BYTES} to {_MOST_BYTES}")


def in_steps(budget: int, constants: int, line_bytes: int) -> int:
    """The most bytes, as the search counts them, of which arena and `constants` bytes in whole lines fit the budget."""
    arena = budget - whole_lines(constants, line_bytes)
    return constants + arena // line_bytes * line_bytes if arena >= 0 else 0


def in_lines(curve: Curve, constants: int, line_bytes: int) -> Curve:
    """The curve with arenas, and the `constants` bytes beside them, in whole lines; choices that others now beat go."""
    if line_bytes == ALIGNMENT_BYTES:
        return curve

    def counted(size: int) -> int:
        return whole_lines(size - constants, line_bytes) + whole_lines(constants, line_bytes)

    # Of choices that come to the same size the last is the fastest.
    kept = {counted(size): at for at, (size, _) in enumerate(curve.points)}
    points = tuple((size, curve.points[at][1]) for size, at in kept.items())
    fewer = reduced_to(curve, list(kept.values()))
    return replace(fewer, points=points, uncascaded_bytes=counted(curve.uncascaded_bytes))
