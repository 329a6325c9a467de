"""Points that a search found, of a frontier or of one answer: its knee, and what the search looked at.

Owns the type. Searches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction

from ..errors import ConfigError
from ..scheduling.schedule import Proposal
from ..util.arguments import checked
from ..util.records import dataclass


def knee_of(points: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The knee (`Curve.knee`) of points (bytes, cycles), ascending in bytes; in integers, so that nothing rounds."""
    (least, most_cycles), (most, fewest) = points[0], points[-1]
    wide, high = most - least, most_cycles - fewest
    return min(points, key=lambda point: ((point[0] - least) * high + (point[1] - fewest) * wide, point[0]))


def nearly_fastest_of(points: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The smallest of points (bytes, cycles), ascending in bytes, at most 1 % slower than the fastest."""
    fewest = points[-1][1]
    return next(point for point in points if point[1] <= fewest + fewest // 100)


@dataclass(frozen=True, eq=False)
class Curve:
    """The Pareto-efficient choices found, (SRAM bytes, cycles) ascending in SRAM, and what the search looked at.

    `stop_reason` is "complete" where every front was kept as finely as was asked for, "width" where some were kept more
    coarsely to bound the work, "work" where more programs were worth placing than the search places, and "budget" where
    the search answered one question: the points are those it needed. `floor_is_bound` says that the search looked for
    less SRAM: `floor_bytes` is then an upper bound. `epsilon` is the coarsest that any front was thinned to: one
    thinning leaves a choice out only where a kept one with less SRAM is at most this much slower, and losses of several
    add up. `core_clock_hz` is the target's; None on a described device.
    """

    points: tuple[tuple[int, int], ...]
    uncascaded_bytes: int
    uncascaded_cycles: int
    plans: int
    proposals_considered: int
    seconds: float
    stop_reason: str
    epsilon: Fraction
    proposals: tuple[Proposal, ...] = field(repr=False)
    core_clock_hz: float | None = None
    floor_is_bound: bool = False
    orders: tuple[int, ...] = ()

    def __repr__(self) -> str:
        (least, slowest), (most, fastest) = self.points[0], self.points[-1]
        return (
            f"<Curve of {len(self.points)}: {least:,} bytes, {slowest:,} cycles to {most:,} bytes, {fastest:,} cycles>"
        )

    def _repr_html_(self) -> str:
        from ..page import notebook

        return notebook.curve(self.points, self.knee if self.is_whole else None, self.core_clock_hz)

    @property
    def is_whole(self) -> bool:
        """Whether the points are a whole frontier, not those that one question needed."""
        return self.stop_reason != "budget"

    @property
    def floor_bytes(self) -> int:
        """The least SRAM that the search found the network to run in; an upper bound where `floor_is_bound`."""
        return self.points[0][0]

    @property
    def knee(self) -> tuple[int, int]:
        """The (SRAM bytes, cycles) after which more SRAM buys few cycles: `optimise="balanced"` takes it.

        With both axes scaled to 0..1, x from the least SRAM to that of the fastest point, y from the fewest cycles to
        the most, it has the least x + y, and of equals the least SRAM: the point furthest below the line from end to
        end, as Satopää, Albrecht, Irwin and Raghavan define it ("Finding a 'Kneedle' in a Haystack", 2011).
        """
        return knee_of(self.points)

    @property
    def nearly_fastest(self) -> tuple[int, int]:
        """The (SRAM bytes, cycles) of the least SRAM at most 1 % slower than the fastest point."""
        return nearly_fastest_of(self.points)

    @checked()
    def fastest_within(self, budget: int) -> tuple[int, int] | None:
        """The fastest (SRAM bytes, cycles) within a number of bytes; None below the floor."""
        return next((point for point in reversed(self.points) if point[0] <= budget), None)

    @property
    def milliseconds(self) -> tuple[float, ...]:
        """What each of `points` takes at the core clock. Raises `ConfigError` where the device has none."""
        if self.core_clock_hz is None:
            raise ConfigError("a device by description has no clock; its cycles are what there is")
        return tuple(1000 * cycles / self.core_clock_hz if cycles else 0.0 for _, cycles in self.points)

    @property
    def summary(self) -> str:
        """What was found, in a line of a log."""
        return (
            f"{len(self.points):,} points from {self.floor_bytes:,} bytes on, {self.plans:,} Plans and "
            f"{self.proposals_considered:,} Proposals considered"
        )


def order_of(curve: Curve, proposal: Proposal) -> int:
    """The order of operations of one of a curve's Proposals."""
    return curve.orders[curve.proposals.index(proposal)] if curve.orders else 0


def reduced_to(curve: Curve, indices: Sequence[int]) -> Curve:
    """The curve with the points of those indices alone."""
    return replace(
        curve,
        points=tuple(curve.points[index] for index in indices),
        proposals=tuple(curve.proposals[index] for index in indices),
        orders=tuple(curve.orders[index] for index in indices) if curve.orders else (),
    )


_STOP_REASONS = ("complete", "budget", "width", "work")
"""Ascending in what a search left out."""


def united(curves: Sequence[Curve], orders: Sequence[int]) -> Curve:
    """The Pareto-efficient points of the curves of several `orders`, the first of them the file's."""
    first = curves[0]
    if len(curves) == 1:
        return first
    found = [
        (point, order, proposal)
        for curve, order in zip(curves, orders, strict=True)
        for point, proposal in zip(curve.points, curve.proposals, strict=True)
    ]
    front: list[tuple[tuple[int, int], int, Proposal]] = []
    for choice in sorted(found, key=lambda choice: choice[:2]):
        if not front or choice[0][1] < front[-1][0][1]:
            front.append(choice)
    return replace(
        first,
        points=tuple(point for point, _, _ in front),
        proposals=tuple(proposal for _, _, proposal in front),
        orders=tuple(order for _, order, _ in front),
        plans=sum(curve.plans for curve in curves),
        proposals_considered=sum(curve.proposals_considered for curve in curves),
        seconds=sum(curve.seconds for curve in curves),
        stop_reason=max((curve.stop_reason for curve in curves), key=_STOP_REASONS.index),
        epsilon=max(curve.epsilon for curve in curves),
        floor_is_bound=any(curve.floor_is_bound for curve in curves),
    )
