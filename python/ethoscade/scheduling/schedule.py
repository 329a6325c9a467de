"""Schedules: what the chosen Proposal decides, spelled as schedule primitives on Parts.

Owns the decision types, reading them off a Plan, and turning them into a program. A schedule may be written by hand:
anything that `lower_schedule` accepts is proved by the checker and runs on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real
from typing import Literal

from .. import _core
from ..errors import ConfigError
from ..util.arguments import shown
from .problem import Problem
from .program import BufferKind, CallOperator, CopyConstants, LiveWindow, Program, ProgramBuffer, Slab, Step, Stripe

AxisName = Literal["height", "width"]


@dataclass(frozen=True)
class Split:
    """Cut the Part's output along `axis` into stripes of `extent` rows or columns (the last may be shorter)."""

    part: int
    axis: AxisName
    extent: int


@dataclass(frozen=True)
class Bands:
    """Cut the group's last output along `axis` into `count` bands, the outermost loop; overlaps are recomputed."""

    part: int
    axis: AxisName
    count: int


@dataclass(frozen=True)
class Backwards:
    """Make the group's stripes along `axis` from the far end on. The Part is the group's last."""

    part: int
    axis: AxisName


@dataclass(frozen=True)
class ComputeAt:
    """Make the Part's rows where `consumer`'s stripe loop along `axis` wants them."""

    part: int
    consumer: int
    axis: AxisName


@dataclass(frozen=True)
class RollingBuffer:
    """Keep only the Part's output rows (columns) along `axis` that are still wanted."""

    part: int
    axis: AxisName


@dataclass(frozen=True)
class CacheRead:
    """Copy the Part's encoded constants into the arena before its first stripe.

    `sliced` copies them slice by slice of the output channels, while earlier ones are in use; the Part is then
    alone in its group.
    """

    part: int
    sliced: bool = False


Decision = Split | Bands | Backwards | ComputeAt | RollingBuffer | CacheRead


@dataclass(frozen=True)
class Group:
    """Parts [first, last] (inclusive) scheduled together, with the decisions for them."""

    first: int
    last: int
    decisions: tuple[Decision, ...]

    @property
    def is_cascade(self) -> bool:
        """Whether several Parts run interleaved."""
        return self.first != self.last


@dataclass(frozen=True)
class Schedule:
    """Groups that cover the Parts in order.

    `prefetch_bytes` lets copies of constants be issued early where no more bytes than that are in use; 0 for none.
    `fill_bytes` has them issued anew, once all is placed, into what is free of so many bytes of the arena; 0 has not.
    """

    groups: tuple[Group, ...]
    prefetch_bytes: int = 0
    fill_bytes: int = 0


@dataclass(frozen=True)
class Arrangement:
    """A program, modelled cycles of each of its steps (0 for calls), and where its buffers lie.

    `offsets` are the first bytes of its buffers, in its own order, `arena_bytes` what they take, a multiple of 16.
    """

    program: Program
    cycles: tuple[int, ...]
    offsets: tuple[int, ...]
    arena_bytes: int


@dataclass(frozen=True)
class PlanSpec:
    """A Plan as the core reads it."""

    first: int
    last: int
    roll: str
    backwards: bool
    tiles: int
    stripes: tuple[int, ...]
    staging: tuple[str, ...]


Proposal = _core.Proposal

EPSILON = Fraction(1, 64)
"""How much slower than a choice that is left out a leaner one that stays may be, where nobody says: at most, as a cheap
search is repeated more finely."""


def search(
    problem: Problem,
    epsilon: float | Fraction = EPSILON,
    budget_bytes: int | None = None,
    tick: Callable[[], object] | None = None,
) -> _core.Frontier:
    """Every Pareto-efficient Proposal of a problem, ascending in SRAM. Deterministic; bounded by work, not by time.

    Whenever a front is thinned, which happens once for each Part, a point is left out only where a leaner one that
    stays is at most `epsilon` slower: between 0, which leaves out nothing, and 1. Raises `ConfigError` for anything
    else. At `EPSILON` a search that turns out cheap, as
    that of a small network does, is followed by one that is four times as fine; what either finds counts.
    With `budget_bytes` the last effort, to issue copies of constants into whatever a placement leaves free, goes into
    what is fastest within these alone. `tick` is called now and then meanwhile; what it raises ends the search.
    """
    resolution = resolution_of(epsilon)
    return _core.search_cascades(
        problem.core, resolution=None if epsilon == EPSILON else resolution, budget_bytes=budget_bytes, tick=tick
    )


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


def from_proposal(problem: Problem, proposal: _core.Proposal) -> Schedule:
    """The schedule that a Proposal of `problem` stands for."""
    groups = tuple(_group(problem, plan) for plan in proposal.plans)
    return Schedule(groups, proposal.prefetch_bytes, proposal.fill_bytes)


def _group(problem: Problem, plan: _core.Plan) -> Group:
    axis: AxisName = "height" if plan.roll == "height" else "width"
    across: AxisName = "width" if axis == "height" else "height"
    decisions: list[Decision] = []
    if plan.tiles > 1:
        decisions.append(Bands(plan.last, across, plan.tiles))
    if plan.backwards:
        decisions.append(Backwards(plan.last, axis))
    for part, extent, staging in zip(range(plan.first, plan.last + 1), plan.stripes, plan.staging, strict=True):
        decisions.append(Split(part, axis, extent))
        if part != plan.last:
            decisions.append(ComputeAt(part, plan.last, axis))
            if problem.is_interior(part, plan.last):
                decisions.append(RollingBuffer(part, axis))
        if staging != "in_place":
            decisions.append(CacheRead(part, staging == "sliced"))
    return Group(plan.first, plan.last, tuple(decisions))


def plan_spec(group: Group) -> PlanSpec:
    """The Plan that a group's decisions amount to. Parts without a `Split` are not cut."""
    splits = {d.part: d for d in group.decisions if isinstance(d, Split)}
    bands = next((d for d in group.decisions if isinstance(d, Bands)), None)
    cached = {d.part: "sliced" if d.sliced else "whole" for d in group.decisions if isinstance(d, CacheRead)}
    roll = next((d.axis for d in splits.values()), "height")
    parts = range(group.first, group.last + 1)
    return PlanSpec(
        group.first,
        group.last,
        roll,
        any(isinstance(d, Backwards) for d in group.decisions),
        bands.count if bands else 1,
        tuple(splits[p].extent if p in splits else 1 << 30 for p in parts),
        tuple(cached.get(p, "in_place") for p in parts),
    )


def uncascaded(problem: Problem) -> Schedule:
    """Every Part by itself, in one piece, constants in place."""
    return Schedule(tuple(Group(part, part, ()) for part in range(len(problem.specs))))


def cycles_of(problem: Problem, schedule: Schedule) -> int:
    """Modelled cycles of a schedule, as a Proposal counts them."""
    return _core.clock_plans(problem.core, *_decisions(schedule))


def predicted_streams(problem: Problem, schedule: Schedule) -> list[list[_core.StreamCommand]]:
    """The command streams that code generation will make of a schedule, one for each run of the NPU."""
    return _core.predict_streams(problem.core, *_decisions(schedule))


def prove(problem: Problem, schedule: Schedule) -> None:
    """Let the checker replay the schedule's program; raises `_core.SchedulingError` with its first complaint."""
    _core.check_plans(problem.core, *_decisions(schedule))


def arrange(problem: Problem, schedule: Schedule, tick: Callable[[], object] | None = None) -> Arrangement:
    """The program of a schedule, placed as the search places it: what a Proposal promises is what comes back.

    `tick` is called now and then meanwhile; what it raises ends it.
    """
    steps, buffers, tensor_buffers, offsets, arena_bytes = _core.arrange_plans(
        problem.core, *_decisions(schedule), tick
    )
    lowered = tuple(_step(problem, step) for step in steps)
    cycles = tuple(0 if step[0] == "call" else step[-1] for step in steps)
    described = tuple(_buffer(problem, *buffer) for buffer in buffers)
    placed = {tensor: tensor_buffers[dense] for tensor, dense in problem.ids.items()}
    program = Program(lowered, described, {tensor: b for tensor, b in placed.items() if b is not None})
    return Arrangement(program, cycles, tuple(offsets), arena_bytes)


def lower_schedule(problem: Problem, schedule: Schedule) -> tuple[Program, tuple[int, ...]]:
    """The program of a schedule, and the modelled cycles of each of its steps (0 for calls)."""
    arranged = arrange(problem, schedule)
    return arranged.program, arranged.cycles


def _decisions(schedule: Schedule) -> tuple[list[PlanSpec], int, int]:
    return [plan_spec(group) for group in schedule.groups], schedule.prefetch_bytes, schedule.fill_bytes


def _step(problem: Problem, step: _core.StepTuple) -> Step:
    _, number = problem.parts[step[1]]
    if step[0] == "copy":
        return CopyConstants(number, step[2], step[3])
    if step[0] == "call":
        return CallOperator(number, step[2])
    _, _, inputs, output, (top, left, bottom, right), (height, width, depth), constants, slice_, _ = step
    kernel = problem.specs[step[1]].kernel
    if slice_ is not None and kernel is not None and kernel.joined:
        # What the core calls slices of a Part that joins its inputs are stages of their own.
        number, slice_ = number + slice_, None
    return Stripe(
        stage=number,
        inputs=tuple(_slab(view) for view in inputs),
        output=_slab(output),
        padding=(top, left, bottom, right),
        block=(height, width, depth),
        weights=constants,
        slice=slice_,
    )


def _slab(view: _core.ViewTuple) -> Slab:
    buffer, (y0, y1, x0, x1), (rows, columns), (origin_y, origin_x) = view
    return Slab(buffer, y0, y1, x0, x1, rows, columns, origin_y, origin_x)


def _buffer(
    problem: Problem,
    kind: str,
    of: int,
    size_bytes: int,
    first: int,
    last: int,
    windows: Sequence[tuple[int, int, int, int]],
) -> ProgramBuffer:
    role = BufferKind(kind)
    live = tuple(LiveWindow(*window) for window in windows)
    if role in (BufferKind.TENSOR, BufferKind.ROLLING):
        tensor = next(index for index, dense in problem.ids.items() if dense == of)
        return ProgramBuffer(f"{kind} of '{problem.tensors[of].name}'", role, size_bytes, first, last, tensor, live)
    return ProgramBuffer(f"{kind} of '{problem.specs[of].name}'", role, size_bytes, first, last)
