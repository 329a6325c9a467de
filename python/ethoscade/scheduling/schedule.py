"""Schedules: searched for, or written by hand, and their way to a program.

Owns the search as Python calls it, and carrying out what it finds or what a hand writes. A hand-written schedule is
carried out as it says or refused by name; its program is proved by the checker and runs on the device.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from numbers import Rational, Real

from .. import _core
from ..errors import ConfigError, SchedulingError
from ..util.arguments import shown
from ..util.progress import ProgressCallback
from .decisions import MOST_BYTES, is_whole, schedule_spec
from .decisions import AxisName as AxisName
from .decisions import Backwards as Backwards
from .decisions import Bands as Bands
from .decisions import CacheRead as CacheRead
from .decisions import CacheWrite as CacheWrite
from .decisions import ComputeAt as ComputeAt
from .decisions import Decision as Decision
from .decisions import Group as Group
from .decisions import RollingBuffer as RollingBuffer
from .decisions import Schedule as Schedule
from .decisions import Split as Split
from .decisions import from_proposal as from_proposal
from .decisions import uncascaded as uncascaded
from .problem import Problem
from .program import Arrangement

Proposal = _core.Proposal
Frontier = _core.Frontier
Search = _core.Search

EPSILON = Fraction(1, 64)
"""Default epsilon of Pareto thinning. Cheap searches are repeated with a finer one."""


def search(
    problem: Problem, epsilon: float | Fraction = EPSILON, tick: ProgressCallback | None = None
) -> _core.Frontier:
    """Every Pareto-efficient Proposal of a problem, ascending in SRAM. Deterministic; bounded by work, not by time.

    Whenever a front is thinned, which happens once for each Part, a point is left out only where a kept one
    with less SRAM is at most `epsilon` slower: between 0, which leaves out nothing, and 1. Raises `ConfigError` for
    anything else. At `EPSILON` a search that turns out cheap, as
    that of a small network does, is followed by one that is four times as fine; what either finds counts.
    `tick` is called now and then meanwhile; what it raises ends the search.
    """
    return make_search(problem, epsilon).frontier(tick)


def make_search(problem: Problem, epsilon: float | Fraction = EPSILON) -> _core.Search:
    """The search of a problem, which keeps what several goals need. Raises `ConfigError` for a wrong epsilon."""
    return _core.Search(problem.core, resolution=_told_resolution(epsilon))


def _told_resolution(epsilon: float | Fraction) -> int | None:
    """The resolution that an epsilon asks for; None for `EPSILON`, at which cheap searches are refined."""
    resolution = resolution_of(epsilon)
    return None if epsilon == EPSILON else resolution


def resolution_of(epsilon: float | Fraction) -> int:
    """The least whole number whose inverse is no larger than `epsilon`, 0 for 0. Raises `ConfigError`."""
    wanted = (
        f"epsilon is {shown(epsilon)}; it must be 0 for exact fronts, or a number from 1/{_core.FINEST_RESOLUTION} to 1"
    )
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0 <= epsilon <= 1:
        raise ConfigError(wanted)
    exact = Fraction(epsilon) if isinstance(epsilon, Rational) else Fraction(float(epsilon))
    if exact == 0:
        return 0
    if exact < Fraction(1, _core.FINEST_RESOLUTION):
        raise ConfigError(wanted)
    nearest = round(1 / exact)
    # A float that stands for 1/3 is a little smaller than that.
    return nearest if 1 / nearest == float(exact) else math.ceil(1 / exact)


def prefetch(problem: Problem, schedule: Schedule, limit_bytes: int) -> Schedule:
    """The schedule with copies of constants issued early where no more than `limit_bytes` are then in use.

    Its placement is left open. Raises `SchedulingError` naming the first decision that cannot be carried out.
    """
    if not is_whole(limit_bytes, 0, MOST_BYTES):
        message = f"limit_bytes is {shown(limit_bytes)}; it must be a whole number from 0 to {MOST_BYTES}"
        raise SchedulingError(message, fault="range", value=limit_bytes, limit=MOST_BYTES)
    order = _core.prefetch_plans(problem.core, schedule_spec(problem, schedule), limit_bytes)
    return replace(schedule, issue_order=order, placement=None)


def cycles_of(problem: Problem, schedule: Schedule) -> int:
    """Modelled cycles of a schedule, as a Proposal counts them. Raises `SchedulingError`."""
    return _core.clock_plans(problem.core, schedule_spec(problem, schedule))


def predicted_streams(problem: Problem, schedule: Schedule) -> list[list[_core.StreamCommand]]:
    """The command streams that code generation will make of it, one a run of the NPU. Raises `SchedulingError`."""
    return _core.predict_streams(problem.core, schedule_spec(problem, schedule))


def prove(problem: Problem, schedule: Schedule) -> None:
    """Let the checker replay the schedule's program; raises `SchedulingError` with its first complaint."""
    _core.check_plans(problem.core, schedule_spec(problem, schedule))


def arrange(problem: Problem, what: Schedule | Proposal, tick: ProgressCallback | None = None) -> Arrangement:
    """The program of a schedule or of a Proposal, and where its buffers lie: what was promised is what comes back.

    Its groups are interleaved; nothing is searched for but what a schedule leaves open. `tick` is called now and then
    meanwhile; what it raises ends it. Raises `SchedulingError` naming the first decision that cannot be carried out as
    it is written.
    """
    if isinstance(what, Proposal):
        return what.arrangement(problem.core, tick)
    return _core.arrange_plans(problem.core, schedule_spec(problem, what), tick)
