"""What TOSA's operators compute on integers, bit by bit: the pseudocode of the specification 1.0, in NumPy.

Owns the table of these meanings. Where the specification requires something of values that does not hold, there is no
result: `arithmetic.Unpredictable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..meaning import ReferenceKernel, anything
from .elementwise import TOSA_ELEMENTWISE
from .moving import TOSA_MOVES
from .windows import TOSA_WINDOWS

TOSA_MEANINGS: Mapping[str, ReferenceKernel] = MappingProxyType(
    {
        kind: ReferenceKernel(evaluate, anything)
        for kind, evaluate in {**TOSA_ELEMENTWISE, **TOSA_MOVES, **TOSA_WINDOWS}.items()
    }
)
"""What operators of each TOSA kind compute."""
