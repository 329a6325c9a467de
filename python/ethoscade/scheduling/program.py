"""The program: NPU operations on stripes, constant copies, rows handed over and CPU calls, in order, over buffers.

Owns the words for what lies between scheduling and memory / code generation. Its classes are the core's own, made where
the search makes them, so that nothing is converted; `_core.pyi` says what each of them holds.
"""

from __future__ import annotations

from typing import Literal

from .._core import Arrangement as Arrangement
from .._core import CallOperator as CallOperator
from .._core import CopyConstants as CopyConstants
from .._core import CopyTensor as CopyTensor
from .._core import Feed as Feed
from .._core import LiveWindow as LiveWindow
from .._core import LoadTable as LoadTable
from .._core import Program as Program
from .._core import ProgramBuffer as ProgramBuffer
from .._core import Slab as Slab
from .._core import Stripe as Stripe
from .._core import Take as Take

BufferKind = Literal["tensor", "rolling", "weights", "workspace"]
"""Why a buffer exists."""

Whole = Literal["in_place", "staged"]
"""All constants of a stage, as encoded for being read in place, or for being copied."""

Portion = Whole | int
"""Constants of a stage: all, or one slice of the output channels."""

SCARCE = 0
"""The memory that frontiers count, as arrangements number them."""


def in_fast(arranged: Arrangement) -> frozenset[int]:
    """The buffers in the NPU's fast memory; none where all lie in the arena, which the caller and the CPU know."""
    return in_scarce(arranged) if len(arranged.pool_bytes) > 1 else frozenset()


def in_scarce(arranged: Arrangement) -> frozenset[int]:
    """The buffers in the memory whose bytes are counted."""
    return frozenset(buffer for buffer, pool in enumerate(arranged.pools) if pool == SCARCE)


Step = Stripe | CopyConstants | CopyTensor | LoadTable | Feed | Take | CallOperator
"""What a program does next."""
