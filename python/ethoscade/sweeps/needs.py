"""Rows read together: which networks run on which target in how much SRAM, and how fast.

Owns what "fits" and "meets a latency" mean of a sweep: a network does if some row of it says so. Draws nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from ..targets.target import ACCELERATORS
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .rows import SweepRow

Front = tuple[tuple[int, float | None], ...]
"""(SRAM bytes, milliseconds) of what is worth choosing, ascending in SRAM and each faster than those before it.

Of a network that runs on the CPU alone the time is not known: None.
"""


@dataclass(frozen=True)
class Refusal:
    """Networks on one target that have no row but this error: its name, one of its messages, and which they are."""

    target: str
    error: str
    message: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class TargetNeeds:
    """What networks need on one target: `fronts` of those that run there at all, and their `cpu_operators`.

    `macs` are the accelerator's multiply-accumulates a cycle, by which NPUs are smaller and larger.
    """

    target: str
    accelerator: str
    system_config: str
    memory_mode: str
    macs: int
    fronts: Mapping[str, Front]
    cpu_operators: Mapping[str, int]

    def sram_of(self, model: str, milliseconds: float | None = None) -> int | None:
        """The least SRAM in which a network takes at most so long, if it does in any."""
        front = self.fronts.get(model, ())
        if milliseconds is None:
            return front[0][0] if front else None
        return next((size for size, time in front if time is not None and time <= milliseconds), None)

    def fitting(self, sram_bytes: int, milliseconds: float | None = None) -> int:
        """How many networks take at most so long in so much SRAM."""
        needs = (self.sram_of(model, milliseconds) for model in self.fronts)
        return sum(need is not None and need <= sram_bytes for need in needs)

    def sram_for(self, count: int, milliseconds: float | None = None) -> int | None:
        """The least SRAM in which `count` networks take at most `milliseconds`."""
        needs = sorted(n for model in self.fronts if (n := self.sram_of(model, milliseconds)) is not None)
        return needs[count - 1] if len(needs) >= count else None


@dataclass(frozen=True)
class Needs:
    """A sweep's networks, and what they need on each of its targets, the smallest NPU first."""

    models: tuple[str, ...]
    targets: tuple[TargetNeeds, ...]
    refusals: tuple[Refusal, ...]

    def count_of(self, share: Fraction) -> int:
        """How many networks a share of all is, rounded up; at least one."""
        return max(1, -(-len(self.models) * share.numerator // share.denominator))

    def smallest(self, share: Fraction, milliseconds: float | None = None) -> tuple[TargetNeeds, int] | None:
        """The smallest target on which such a share of all networks takes at most so long, and the SRAM it takes.

        Of targets with the same accelerator the one that takes least. None where no target is enough.
        """
        count = self.count_of(share)
        found = [(of, sram) for of in self.targets if (sram := of.sram_for(count, milliseconds)) is not None]
        return min(found, key=lambda one: (one[0].macs, one[1]), default=None)


def needs_of(rows: Iterable[SweepRow]) -> Needs:
    """What rows say together; in any order."""
    points: dict[tuple[str, str, str, str], dict[str, set[tuple[int, float | None]]]] = {}
    on_cpu: dict[str, dict[str, int]] = {}
    errors: dict[tuple[str, str], dict[str, SweepRow]] = {}
    models: dict[str, None] = {}
    for row in sorted(rows, key=lambda row: (row.model, row.target, row.budget, row.point)):
        models[row.model] = None
        of = points.setdefault((row.target, row.accelerator, row.system_config, row.memory_mode), {})
        if row.sram_bytes is not None and row.milliseconds is not None:
            is_known = bool(row.cycles or not row.cpu_operators)
            of.setdefault(row.model, set()).add((row.sram_bytes, row.milliseconds if is_known else None))
            on_cpu.setdefault(row.target, {})[row.model] = row.cpu_operators or 0
        else:
            errors.setdefault((row.target, row.model), {})[row.error] = row
    targets = [
        TargetNeeds(
            target,
            accelerator,
            system,
            mode,
            ACCELERATORS[accelerator].macs if accelerator in ACCELERATORS else 0,
            FrozenMap({model: _front(found) for model, found in of.items()}),
            FrozenMap(on_cpu.get(target, {})),
        )
        for (target, accelerator, system, mode), of in points.items()
    ]
    by_size = sorted(targets, key=lambda of: (of.macs, of.accelerator, of.target))
    running = {(of.target, model) for of in targets for model in of.fronts}
    refused = [row for place, found in errors.items() if place not in running for row in found.values()]
    return Needs(tuple(models), tuple(by_size), _refusals(refused))


def _front(points: Iterable[tuple[int, float | None]]) -> Front:
    front: list[tuple[int, float | None]] = []
    fastest = math.inf
    for size, time in sorted(points, key=lambda point: (point[0], math.inf if point[1] is None else point[1])):
        if not front or (time is not None and time < fastest):
            front.append((size, time))
            fastest = math.inf if time is None else time
    return tuple(front)


def _refusals(rows: Iterable[SweepRow]) -> tuple[Refusal, ...]:
    found: dict[tuple[str, str], list[SweepRow]] = {}
    for row in rows:
        found.setdefault((row.target, row.error), []).append(row)
    return tuple(
        Refusal(target, error, alike[0].message, tuple(row.model for row in alike))
        for (target, error), alike in sorted(found.items())
    )
