"""Tables of int16 functions: 512 values of Q0.15 and the slopes between them, as the NPU's LUT area holds them.

Owns their construction after LiteRT's kernels, in double: each value is moved to halve the error half way to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from .npu import Table

_STEPS = 512
_LOWEST, _HIGHEST = -(1 << 15), (1 << 15) - 1
FULL_RANGE = float(_HIGHEST - _LOWEST)
"""Steps from the lowest int16 to the highest."""


def table(function: Callable[[float], float], scale: float, zero_point: int) -> Table:
    """`function` at inputs of the quantisation, in units of 2 / 65535 around 0."""
    values = _values(function, scale, zero_point)
    slopes = [after - value for value, after in pairwise(values)]
    return Table(np.array([(v, s) for v, s in zip(values, slopes, strict=False)], "<i2").tobytes())


def _values(function: Callable[[float], float], scale: float, zero_point: int) -> list[int]:
    """One more than there are steps."""
    least, most = scale * (_LOWEST - zero_point), scale * (_HIGHEST - zero_point)
    step, unit = (most - least) / _STEPS, 2.0 / FULL_RANGE
    inverse = (FULL_RANGE + 1) / (unit * _HIGHEST - unit * _LOWEST)
    values = []
    for number in range(_STEPS):
        sample = _rounded(function(least + number * step) * inverse)
        between = _rounded(function(least + number * step + step / 2) * inverse)
        chord = _rounded((function(least + (number + 1) * step) * inverse + sample) / 2)
        values.append(sample - _rounded((chord - between) / 2))
    values.append(_rounded(function(most) * inverse))
    return [min(max(value, _LOWEST), _HIGHEST) for value in values]


def _rounded(x: float) -> int:
    """Halves away from zero."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))
