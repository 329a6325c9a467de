"""The kernels of C sources for operators on the CPU: user-supplied, a library's, or ours.

Owns that choice as an artefact keeps it, so that only writers of C load kernels. How a table is read and what
becomes of calls is `c_kernels.chosen`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ..util.frozen import FrozenMap
from ..util.records import dataclass

if TYPE_CHECKING:
    from .c_kernels.cmsis_nn import CmsisNn


@dataclass(frozen=True)
class ReplacementFunction:
    """A function of the user's, and the bytes of the arena that it works in."""

    function: str
    workspace_bytes: int = 0


@dataclass(frozen=True)
class KernelTable:
    """Functions of the user's by those of ours that they replace, or a library that comes before ours."""

    chosen: Mapping[str, ReplacementFunction] = field(default_factory=lambda: FrozenMap({}))
    library: CmsisNn | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return KernelTable, (FrozenMap(dict(self.chosen)), self.library)


OURS = KernelTable()
"""Nothing is replaced."""
