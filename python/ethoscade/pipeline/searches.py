"""The searches of a network: one for each order of its operations worth one, and one by slices of channels.

Owns what is searched, and putting together what is found. A question is asked of each search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from fractions import Fraction

from ..codegen.weights import laid_out_bytes
from ..lowering.npu import tables_of
from ..scheduling import schedule as scheduling
from ..scheduling.orders import ahead
from ..scheduling.problem import Problem
from ..scheduling.schedule import EPSILON
from ..util.progress import ProgressCallback, portion
from ..util.records import dataclass
from .curve import Curve, united
from .network import Network

_LOOKING = 0.25
"""The part of a question for choosing orders, where there are several."""

Question = Callable[[scheduling.Search, ProgressCallback | None], scheduling.Frontier]
"""What is asked of the search of one order."""


@dataclass(frozen=True, eq=False)
class Searches:
    """What questions about a network share. Nothing is searched before the first one."""

    network: Network
    epsilon: float | Fraction
    _chosen: list[tuple[int, ...]] = field(default_factory=list, repr=False)
    _made: dict[int, scheduling.Search] = field(default_factory=dict, repr=False)

    def ask(self, question: Question, tick: ProgressCallback | None = None) -> Curve:
        """What the orders worth a search answer, on one front. Raises `SchedulingError` and what `tick` raises."""
        orders = self._worth_a_search(tick)
        begin = _LOOKING if len(self.network.orders) > 1 else 0.0
        ticks = _portions(tick, begin, 1.0, len(orders))
        curves = [self._asked(order, question, part) for order, part in zip(orders, ticks, strict=True)]
        found = united(curves, orders)
        least = found.orders[0] if found.orders else 0
        sliced = self._by_slices(found.proposals[0].sram_bytes, (least,))
        # Nobody knew of them before: the work seems done meanwhile.
        curves += [self._asked(order, question, portion(tick, 1.0, 1.0)) for order in sliced]
        return united(curves, (*orders, *sliced))

    def ask_file(self, question: Question, tick: ProgressCallback | None = None) -> Curve:
        """What the file's order answers."""
        return self._asked(0, question, tick)

    def fits(self, size_bytes: int, tick: ProgressCallback | None = None) -> bool:
        """Whether some order needs no more than a number of bytes, constants not counted."""
        if self._search(0).fits(size_bytes, tick):
            return True
        others = self._worth_a_search(tick)
        if any(self._search(order).fits(size_bytes, tick) for order in others[1:]):
            return True
        return any(self._search(sliced).fits(size_bytes, tick) for sliced in self._by_slices(size_bytes, others))

    def _search(self, order: int) -> scheduling.Search:
        if order not in self._made:
            self._made[order] = scheduling.make_search(self.network.order(order).problem, self.epsilon)
        return self._made[order]

    def _by_slices(self, size_bytes: int, orders: Sequence[int]) -> list[int]:
        """Numbers of `orders` by slices, of those which could then take fewer bytes than `size_bytes`."""
        found = [order for order in orders if self.network.order(order).sliced_bytes >= size_bytes]
        return [len(self.network.orders) + order for order in found if self.network.order(order).in_slices is not None]

    def _worth_a_search(self, tick: ProgressCallback | None) -> tuple[int, ...]:
        """Orders by their numbers, the file's first."""
        count = len(self.network.orders)
        if count == 1:
            return (0,)
        if not self._chosen:
            ticks = _portions(tick, 0.0, _LOOKING, count)
            fronts = [self._search(order).coarse_front(part) for order, part in enumerate(ticks)]
            self._chosen.append(ahead(fronts))
        return self._chosen[0]

    def _asked(self, order: int, question: Question, tick: ProgressCallback | None) -> Curve:
        started, network = time.perf_counter(), self.network.order(order)
        found = question(self._search(order), tick)
        clock_hz = network.target.core_clock_hz
        return curve_of(found, constants_in_sram(network), time.perf_counter() - started, clock_hz)


def _portions(tick: ProgressCallback | None, begin: float, end: float, count: int) -> list[ProgressCallback | None]:
    """The ticks of `count` equal pieces of the work from `begin` to `end`."""
    step = (end - begin) / count
    return [portion(tick, begin + step * piece, begin + step * (piece + 1)) for piece in range(count)]


def explore(
    problem: Problem, extra: int, epsilon: float | Fraction = EPSILON, tick: ProgressCallback | None = None
) -> Curve:
    """All Pareto-efficient Proposals of one problem; sizes include `extra` bytes.

    `tick` is called now and then meanwhile; what it raises ends the search.
    """
    started = time.perf_counter()
    return curve_of(scheduling.search(problem, epsilon, tick), extra, time.perf_counter() - started)


def constants_in_sram(network: Network) -> int:
    """Bytes of SRAM that the constants take: none where the memory mode keeps them elsewhere."""
    tables = tables_of(network.npu.operations)
    return laid_out_bytes(network.encoded, tables) if network.target.constants_in_sram else 0


def curve_of(found: scheduling.Frontier, extra: int, seconds: float, core_clock_hz: float | None = None) -> Curve:
    """What a search found, and its seconds; sizes include `extra` bytes."""
    return Curve(
        tuple((p.sram_bytes + extra, p.cycles) for p in found.proposals),
        found.uncascaded_bytes + extra,
        found.uncascaded_cycles,
        found.plans_considered,
        found.proposals_considered,
        seconds,
        found.stop_reason,
        Fraction(*found.epsilon),
        tuple(found.proposals),
        core_clock_hz,
        found.floor_is_bound,
    )
