"""What an operator family is: the limits within which the NPU runs a kind, and the operations that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph, Integers, Operator
from ..util.records import dataclass
from .constraints import Constraint
from .npu import NpuGraphBuilder

Lower = Callable[[Graph, int, NpuGraphBuilder], None]
"""Adds the operations of the operator with that index. Precondition: it meets the family's constraints."""

Results = Callable[[Graph, Operator, Sequence[Integers]], Integers]
"""The stored results for stored values of the operands. Precondition: the family takes the operator, of 8 bits."""


@dataclass(frozen=True)
class Family:
    """One kind on the NPU: what it runs as, in words; what it takes; how it is lowered.

    `results` is for kinds that look at one element of each operand.
    """

    runs_as: str
    takes: tuple[Constraint, ...]
    lower: Lower
    results: Results | None = None
