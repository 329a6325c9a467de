"""What a schedule may say: decisions on Parts, read off the core's Plans and turned into them.

Owns the decision types and what each of them asks of the network. A decision is carried out as it is written, or it is
refused by name: nothing that a hand writes is left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from .. import _core
from ..errors import SchedulingError
from ..util.arguments import shown
from ..util.records import dataclass
from .problem import Problem

AxisName = Literal["height", "width"]

_AXES: tuple[AxisName, AxisName] = ("height", "width")

MOST_BYTES = (1 << 64) - 1
"""The most bytes that the core counts."""


@dataclass(frozen=True)
class Split:
    """Cut the Part's output along `axis` into stripes of `extent` rows or columns (the last may be shorter)."""

    part: int
    axis: AxisName
    extent: int


@dataclass(frozen=True)
class Bands:
    """Cut the group's last output along `axis` into `count` bands, the outermost loop; overlaps are recomputed.

    The Part is the group's last, and no other output of the group is wanted after it.
    """

    part: int
    axis: AxisName
    count: int


@dataclass(frozen=True)
class Backwards:
    """Make the group's stripes along `axis` from the far end on. The Part is the group's last, and split."""

    part: int
    axis: AxisName


@dataclass(frozen=True)
class ComputeAt:
    """Make the Part's rows where `consumer`'s stripe loop along `axis` wants them. The consumer is the group's last."""

    part: int
    consumer: int
    axis: AxisName


@dataclass(frozen=True)
class RollingBuffer:
    """Keep only the Part's output rows (columns) along `axis` that are still wanted.

    The output is not needed after the group.
    """

    part: int
    axis: AxisName


@dataclass(frozen=True)
class CacheRead:
    """Copy the Part's encoded constants into the arena before its first stripe.

    `sliced` copies them slice by slice of the output channels, while earlier ones are in use; the Part is then
    alone in its group and not split. With `operand`, the number of one of the Part's inputs, that tensor is copied
    instead: it lives in a memory behind the arena, and all of it is copied into the arena before the group, every Part
    of which reads the copy. For described devices with several memories of tensors.
    """

    part: int
    sliced: bool = False
    operand: int | None = None


@dataclass(frozen=True)
class CacheWrite:
    """Make the Part's output in the arena and copy all of it to where it lives, behind the arena, after the group.

    The output is wanted after the group. For described devices with several memories of tensors.
    """

    part: int


Decision = Split | Bands | Backwards | ComputeAt | RollingBuffer | CacheRead | CacheWrite


@dataclass(frozen=True)
class Group:
    """Parts [first, last] (inclusive) scheduled together, with the decisions for them.

    Every Part but the last is made where the last one's loop wants it, and tensors not needed after the group roll,
    whether decisions say so or not. Parts without a `Split` are not cut.
    """

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

    `issue_order` says where copies of constants are issued; None has each right before its first use. `placement` says
    where the buffers of the program lie; None leaves that to the memory planner. Both are a Proposal's, and hold for
    its groups alone.
    """

    groups: tuple[Group, ...]
    issue_order: _core.IssueOrderTuple | None = None
    placement: _core.PlacementTuple | None = None


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
    copied: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True)
class ScheduleSpec:
    """A schedule as the core reads it."""

    plans: Sequence[PlanSpec | _core.Plan]
    issue_order: _core.IssueOrderTuple | None = None
    placement: _core.PlacementTuple | None = None


def from_proposal(problem: Problem, proposal: _core.Proposal) -> Schedule:
    """The schedule that a Proposal of `problem` stands for."""
    groups = tuple(_group(problem, plan) for plan in proposal.plans)
    return Schedule(groups, proposal.issue_order, proposal.placement)


def uncascaded(problem: Problem) -> Schedule:
    """Every Part by itself, in one piece, constants in place."""
    return Schedule(tuple(Group(part, part, ()) for part in range(len(problem.specs))))


def schedule_spec(problem: Problem, schedule: Schedule) -> ScheduleSpec:
    """What carries out a schedule. Raises `SchedulingError` naming the first decision that cannot be carried out."""
    for field, is_right in (("issue_order", _is_issue_order), ("placement", _is_placement)):
        value = getattr(schedule, field)
        if value is not None and not is_right(value):
            message = f"{field} is {shown(value)}; it must be None, or the tuples of whole numbers that a Proposal has"
            raise SchedulingError(message, fault=field, value=value)
    plans = [_Reading(problem, number, group).plan() for number, group in enumerate(schedule.groups)]
    return ScheduleSpec(plans, schedule.issue_order, schedule.placement)


_WHOLE = 1 << 30
"""A stripe that no plane is as large as."""


def _group(problem: Problem, plan: _core.Plan) -> Group:
    if plan.first == plan.last and problem.specs[plan.last].kernel is None:
        return Group(plan.first, plan.last, ())
    axis: AxisName = "height" if plan.roll == "height" else "width"
    across: AxisName = "width" if axis == "height" else "height"
    reading = _Reading(problem, 0, Group(plan.first, plan.last, ()))
    decisions: list[Decision] = []
    if plan.tiles > 1:
        decisions.append(Bands(plan.last, across, plan.tiles))
    if plan.backwards:
        decisions.append(Backwards(plan.last, axis))
    for part, extent, staging in zip(range(plan.first, plan.last + 1), plan.stripes, plan.staging, strict=True):
        if problem.specs[part].kernel is None or not reading.makes_anything(part):
            continue
        decisions.append(Split(part, axis, min(extent, reading.extent(part, axis))))
        if part != plan.last:
            if reading.serves(part, {plan.last}):
                decisions.append(ComputeAt(part, plan.last, axis))
            if problem.is_interior(part, plan.last):
                decisions.append(RollingBuffer(part, axis))
        if staging != "in_place":
            decisions.append(CacheRead(part, staging == "sliced"))
    for part, operand in plan.copied:
        decisions.append(CacheWrite(part) if operand is None else CacheRead(part, operand=operand))
    return Group(plan.first, plan.last, tuple(decisions))


class _Reading:
    """One group of a schedule, read decision by decision."""

    def __init__(self, problem: Problem, number: int, group: Group) -> None:
        self.problem, self.number, self.group = problem, number, group
        count = len(problem.specs)
        if not is_whole(group.first, 0, count - 1) or not is_whole(group.last, group.first, count - 1):
            raise SchedulingError(
                f"group {number} is Parts {group.first!r} to {group.last!r}; the network has Parts 0 to {count - 1}",
                fault="cover",
                group=number,
                value=(group.first, group.last),
                expected=(0, count - 1),
                limit=count,
            )
        self.parts = range(group.first, group.last + 1)
        self.roll: AxisName | None = None
        self.splits: dict[int, int] = {}
        self.staging: dict[int, str] = {}
        self.copied: list[tuple[int, int | None]] = []
        self.bands = 1
        self.turned: Backwards | None = None

    def plan(self) -> PlanSpec:
        """The Plan that carries out all decisions."""
        specs = ((part, self.problem.specs[part]) for part in self.parts)
        opaque = next((part for part, spec in specs if spec.kernel is None and spec.handed_rows is None), None)
        if opaque is not None and self.group.is_cascade:
            raise SchedulingError(
                f"group {self.number} holds Part {opaque} '{self.name(opaque)}', which runs on the CPU; it needs a "
                "group of its own",
                fault="cascade",
                group=self.number,
                part=self.name(opaque),
                value=(self.group.first, self.group.last),
                expected=(opaque, opaque),
            )
        seen: dict[tuple[type, int, int | None], Decision] = {}
        for decision in self.group.decisions:
            reader = _READERS.get(type(decision))
            if reader is None:
                raise SchedulingError(
                    f"group {self.number}: {decision!r} is no decision; there are "
                    + ", ".join(kind.__name__ for kind in _READERS),
                    fault="decision",
                    group=self.number,
                    decision=decision,
                )
            self._check_part(decision)
            operand = decision.operand if isinstance(decision, CacheRead) else None
            about = type(decision), decision.part, operand
            if about in seen:
                self.refuse(decision, f"the group has {seen[about]!r} already", "one of them")
            seen[about] = decision
            reader(self, decision)
        self._check_together()
        return PlanSpec(
            self.group.first,
            self.group.last,
            self.roll or "height",
            self.turned is not None,
            self.bands,
            tuple(self.splits.get(part, self.problem.specs[part].handed_rows or _WHOLE) for part in self.parts),
            tuple(self.staging.get(part, "in_place") for part in self.parts),
            tuple(self.copied),
        )

    def name(self, part: int) -> str:
        """What the Part is called."""
        return self.problem.specs[part].name

    def extent(self, part: int, axis: AxisName) -> int:
        """Rows or columns of a Part's output."""
        return self.problem.tensors[self.problem.specs[part].outputs[0]].plane[_AXES.index(axis)]

    def serves(self, part: int, wanted: set[int]) -> bool:
        """Whether the Part's output is read, directly or by way of others of the group, to make one of those."""
        tensor = self.problem.specs[part].outputs[0]
        readers = [
            reader
            for reader in range(part + 1, self.group.last + 1)
            if any(read.tensor == tensor for read in self.problem.specs[reader].inputs)
        ]
        return part in wanted or any(self.serves(reader, wanted) for reader in readers)

    def makes_anything(self, part: int) -> bool:
        """Whether anybody reads what a Part of the group makes: of the group's ends, or on the way to one."""
        last = self.group.last
        return self.serves(part, {end for end in self.parts if end == last or not self.problem.is_interior(end, last)})

    def refuse(self, decision: Decision, why: str, possible: str, expected: object = None) -> NoReturn:
        """Raise the error that names the decision, its Part and what could be said instead."""
        part = decision.part
        known = is_whole(part, 0, len(self.problem.specs) - 1)
        of = f" of Part {part} '{self.name(part)}'" if known else ""
        raise SchedulingError(
            f"group {self.number}: {decision!r}{of} cannot be carried out: {why}; possible: {possible}",
            fault=type(decision).__name__,
            group=self.number,
            part=self.name(part) if known else None,
            decision=decision,
            value=part,
            expected=possible if expected is None else expected,
        )

    def _check_part(self, decision: Decision) -> None:
        first, last = self.group.first, self.group.last
        if not is_whole(decision.part, 0, len(self.problem.specs) - 1):
            self.refuse(decision, "there is no such Part", f"Parts {first} to {last}", (first, last))
        if decision.part not in self.parts:
            self.refuse(decision, "the Part is in another group", f"Parts {first} to {last}", (first, last))
        if (rows := self.problem.specs[decision.part].handed_rows) is not None:
            self.refuse(decision, f"the Part hands rows over, {rows} at a time", "no decision", ())
        if self.problem.specs[decision.part].kernel is None:
            self.refuse(decision, "the Part runs on the CPU, as a whole", "no decision", ())
        if not self.makes_anything(decision.part):
            self.refuse(decision, "no Part reads its output, so it makes nothing", "no decision", ())

    def take_axis(self, decision: Decision, axis: AxisName, *, across: bool = False) -> None:
        """Stripes of all Parts of a group follow each other along one axis, and bands lie across it."""
        if axis not in _AXES:
            self.refuse(decision, f"{axis!r} is no axis", "height or width", _AXES)
        roll = _AXES[1 - _AXES.index(axis)] if across else axis
        if self.roll is not None and roll != self.roll:
            other = _AXES[1 - _AXES.index(axis)]
            self.refuse(decision, f"stripes of the group follow each other along the {self.roll}", other, other)
        self.roll = roll

    def _check_last(self, decision: Decision) -> None:
        last = self.group.last
        if decision.part != last:
            self.refuse(decision, "it is for the group's last Part to say", f"Part {last} '{self.name(last)}'", last)

    def split(self, decision: Split) -> None:
        self.take_axis(decision, decision.axis)
        most = self.extent(decision.part, decision.axis)
        if not is_whole(decision.extent, 1, most):
            self.refuse(decision, f"the output's {decision.axis} is {most}", f"extents from 1 to {most}", (1, most))
        self.splits[decision.part] = decision.extent

    def cut_into_bands(self, decision: Bands) -> None:
        self._check_last(decision)
        self.take_axis(decision, decision.axis, across=True)
        most = self.extent(decision.part, decision.axis)
        if not is_whole(decision.count, 1, most):
            self.refuse(decision, f"the output's {decision.axis} is {most}", f"counts from 1 to {most}", (1, most))
        wanted = [part for part in self.parts[:-1] if not self.problem.is_interior(part, self.group.last)]
        if decision.count > 1 and wanted:
            why = f"the output of Part {wanted[0]} '{self.name(wanted[0])}' is wanted after the group"
            self.refuse(decision, why, "1 band, or a group with a single output", 1)
        self.bands = decision.count

    def turn(self, decision: Backwards) -> None:
        self._check_last(decision)
        self.take_axis(decision, decision.axis)
        self.turned = decision

    def compute_at(self, decision: ComputeAt) -> None:
        last = self.group.last
        if decision.part == last:
            self.refuse(decision, "its loop is the group's own", f"Parts {self.group.first} to {last - 1}", ())
        if decision.consumer != last:
            possible = f"consumer {last} '{self.name(last)}'"
            self.refuse(decision, "the loop of a group is that of its last Part", possible, last)
        if not self.serves(decision.part, {last}):
            self.refuse(decision, "the consumer does not read what the Part makes", "no ComputeAt", ())
        self.take_axis(decision, decision.axis)

    def roll_buffer(self, decision: RollingBuffer) -> None:
        if decision.part == self.group.last or not self.problem.is_interior(decision.part, self.group.last):
            rolling = [p for p in self.parts[:-1] if self.problem.is_interior(p, self.group.last)]
            possible = f"Parts {', '.join(map(str, rolling))}" if rolling else "no RollingBuffer"
            self.refuse(decision, "the output is wanted after the group, whole", possible, tuple(rolling))
        self.take_axis(decision, decision.axis)

    def cache(self, decision: CacheRead) -> None:
        kernel = self.problem.specs[decision.part].kernel
        assert kernel is not None, "decisions about Parts on the CPU are refused before they are carried out"
        staged = kernel.constant_bytes if kernel.staged is None else kernel.staged.bytes
        if decision.operand is not None:
            self._copy_operand(decision, decision.operand)
            return
        if not isinstance(decision.sliced, bool):
            self.refuse(decision, f"sliced is {decision.sliced!r}", "True or False", (True, False))
        if staged == 0:
            self.refuse(decision, "the Part has no constants", "no CacheRead", ())
        if decision.sliced and self.group.is_cascade:
            self.refuse(decision, "only a Part that is alone in its group is copied in slices", "sliced=False", False)
        if decision.sliced and kernel.sliced is None:
            self.refuse(decision, "the Part's constants are not encoded in slices", "sliced=False", False)
        self.staging[decision.part] = "sliced" if decision.sliced else "whole"

    def _copy_operand(self, decision: CacheRead, operand: int) -> None:
        reads = self.problem.specs[decision.part].inputs
        if decision.sliced is not False:
            self.refuse(decision, "a tensor is copied as a whole", "sliced=False", False)
        if not is_whole(operand, 0, len(reads) - 1):
            most = len(reads) - 1
            self.refuse(decision, "there is no such operand", f"operands 0 to {most}", (0, most))
        made = {self.problem.specs[part].outputs[0] for part in self.parts}
        if reads[operand].tensor in made:
            self.refuse(decision, "the group makes that tensor itself", "a group that begins after its maker", ())
        self._check_pools(decision)
        self.copied.append((decision.part, operand))

    def write_back(self, decision: CacheWrite) -> None:
        if self.problem.is_interior(decision.part, self.group.last):
            self.refuse(decision, "no Part reads the output after the group", "no CacheWrite", ())
        self._check_pools(decision)
        self.copied.append((decision.part, None))

    def _check_pools(self, decision: Decision) -> None:
        if len(self.problem.memories.tensors) == 1:
            only = self.problem.memories.scarce.name
            self.refuse(decision, f"tensors lie in '{only}' alone", "a device with another memory of tensors", only)

    def _check_together(self) -> None:
        """What the order of decisions does not tell."""
        cut = next((part for part, staging in self.staging.items() if staging == "sliced"), None)
        if cut is not None and self.copied:
            part, operand = self.copied[0]
            copied = CacheWrite(part) if operand is None else CacheRead(part, operand=operand)
            self.refuse(copied, "the Part's constants are copied in slices", "CacheRead with sliced=False", False)
        if self.roll is None:
            return
        last, whole = self.group.last, self.extent(self.group.last, self.roll)
        is_cut = self.splits.get(last, whole) < whole
        if self.turned is not None and not is_cut:
            why = "the Part is made in one piece, which has no direction"
            self.refuse(self.turned, why, f"with a Split of Part {last} below {whole}", whole)
        if self.staging.get(last) == "sliced" and is_cut:
            why = "a Part whose constants are copied in slices is made in one piece"
            self.refuse(Split(last, self.roll, self.splits[last]), why, f"extent {whole}, or no Split", whole)


_READERS: Mapping[type, Callable[[_Reading, Any], None]] = {
    Split: _Reading.split,
    Bands: _Reading.cut_into_bands,
    Backwards: _Reading.turn,
    ComputeAt: _Reading.compute_at,
    RollingBuffer: _Reading.roll_buffer,
    CacheRead: _Reading.cache,
    CacheWrite: _Reading.write_back,
}


def _is_issue_order(value: object) -> bool:
    match value:
        case (tuple(copies), tuple(tables)) if isinstance(value, tuple):
            pairs = all(_are_whole(copy) and len(copy) == 2 for copy in copies)
            return pairs and _are_whole(tuple(ahead for ahead in tables if ahead is not None))
    return False


def _is_placement(value: object) -> bool:
    match value:
        case (offsets, pools, pool_bytes) if isinstance(value, tuple):
            return _are_whole(offsets) and _are_whole(pools, (1 << 32) - 1) and _are_whole(pool_bytes)
    return False


def _are_whole(values: object, most: int = MOST_BYTES) -> bool:
    """Whether a value is a tuple of whole numbers up to that."""
    return isinstance(values, tuple) and all(is_whole(value, 0, most) for value in values)


def is_whole(value: object, least: int, most: int) -> bool:
    """Whether a value is a whole number in that range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
