"""Decisions written by hand: each is carried out as it says, seen in the program, or refused by name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from end_to_end import network_of
from ethoscade import SchedulingError
from ethoscade.pipeline.compiler import Network, search
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import CopyConstants, Program, Stripe
from ethoscade.scheduling.schedule import (
    Backwards,
    Bands,
    CacheRead,
    ComputeAt,
    Decision,
    Group,
    RollingBuffer,
    Schedule,
    Split,
)
from ethoscade.testing import ModelBuilder, inverted_residuals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

STEADY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def chain() -> bytes:
    """Three convolutions in a row."""
    b = ModelBuilder("chain")
    x = b.input((1, 12, 10, 4), name="input")
    for _ in range(3):
        x = b.conv2d(x, 8, 3)
    return b.build()


def forked() -> bytes:
    """Two outputs, one in the middle, and one that no other operator reads."""
    b = ModelBuilder("forked")
    x = b.input((1, 11, 9, 4), name="input")
    x = b.conv2d(x, 8, 3)
    side = b.average_pool(x, 3, stride=1, padding="SAME")
    b.output(x, side, b.conv2d(x, 4, 3, stride=2))
    return b.build()


def heavy() -> bytes:
    """Constants that are worth slicing, a pool without any, and an operator on the CPU."""
    b = ModelBuilder("heavy")
    x = b.conv2d(b.input((1, 6, 5, 48), name="input"), 96, 3)
    b.resize_nearest(b.max_pool(x, 2), (9, 9))
    return b.build()


BUILT: dict[str, Callable[[], bytes]] = {
    "chain": chain,
    "forked": forked,
    "heavy": heavy,
    "residuals": lambda: inverted_residuals(blocks=2, resolution=12),
}


@cache
def network(name: str) -> Network:
    return network_of(BUILT[name]())


def after(name: str, last: int) -> tuple[Group, ...]:
    """Groups of the Parts behind `last`."""
    return tuple(Group(part, part, ()) for part in range(last + 1, len(network(name).problem.specs)))


# Every decision is seen in the program.


class Replay:
    """A program's stripes by Part, and which stripes each of them needs, directly or by way of others."""

    def __init__(self, network: Network, program: Program) -> None:
        self.network, self.program = network, program
        problem = network.problem
        part_of = {
            stage: part
            for part in range(len(problem.specs))
            if problem.specs[part].kernel is not None
            for stage in problem.operations(part)
        }
        self.steps = [(at, step) for at, step in enumerate(program.steps) if isinstance(step, Stripe)]
        self.part = {at: part_of[step.stage] for at, step in self.steps}
        self.needs: dict[int, set[int]] = {}
        makers: dict[int, np.ndarray] = {}
        for at, step in self.steps:
            needed: set[int] = set()
            for read, slab in zip(problem.specs[self.part[at]].inputs, step.inputs, strict=False):
                made = makers.get(read.tensor)
                if made is not None:
                    whole = made if made.shape != tuple(read.plane) else made[slab.y0 : slab.y1, slab.x0 : slab.x1]
                    needed |= {int(maker) for maker in np.unique(whole) if maker >= 0}
            self.needs[at] = needed.union(*(self.needs[maker] for maker in needed))
            tensor = problem.specs[self.part[at]].outputs[0]
            plane = makers.setdefault(tensor, np.full(problem.tensors[tensor].plane, -1))
            plane[step.output.y0 : step.output.y1, step.output.x0 : step.output.x1] = at

    def of(self, part: int) -> list[tuple[int, Stripe]]:
        """Steps and stripes of one Part, in order."""
        return [(at, step) for at, step in self.steps if self.part[at] == part]


def spans(stripes: Sequence[tuple[int, Stripe]], axis: str) -> list[tuple[int, int]]:
    """Rows or columns of each output box."""
    boxes = [step.output for _, step in stripes]
    return [(box.y0, box.y1) if axis == "height" else (box.x0, box.x1) for box in boxes]


def is_seen(replay: Replay, group: Group, decision: Decision) -> bool:
    """Whether the program does what a decision says."""
    problem = replay.network.problem
    stripes = replay.of(decision.part)
    if isinstance(decision, Split):
        across = "width" if decision.axis == "height" else "height"
        bands = sorted(set(spans(stripes, across)))
        for band in bands:
            rows = [
                span
                for span, other in zip(spans(stripes, decision.axis), spans(stripes, across), strict=True)
                if other == band
            ]
            lengths = [end - start for start, end in sorted(set(rows))]
            # All as long as it says but the last one.
            if any(length != decision.extent for length in lengths[:-1]) or lengths[-1] > decision.extent:
                return False
        return bool(stripes)
    if isinstance(decision, Bands):
        plane = problem.tensors[problem.specs[decision.part].outputs[0]].plane
        found = sorted(set(spans(stripes, decision.axis)))
        ends = [0, *(end for _, end in found)]
        whole = plane[0 if decision.axis == "height" else 1]
        return len(found) == decision.count and ends[-1] == whole and [start for start, _ in found] == ends[:-1]
    if isinstance(decision, Backwards):
        first = spans(stripes, decision.axis)
        return len(set(first)) > 1 and first[0][0] > first[1][0]
    if isinstance(decision, ComputeAt):
        wanting = replay.of(decision.consumer)
        for at, _ in stripes:
            following = next((later for later, _ in wanting if later > at), None)
            # What nobody of the loop wants, as others do after the group, comes when the loop is done.
            if following is not None and at not in replay.needs[following]:
                return False
        return any(at in replay.needs[later] for at, _ in stripes for later, _ in wanting)
    if isinstance(decision, RollingBuffer):
        return {replay.program.buffers[step.output.buffer].kind for _, step in stripes} == {"rolling"}
    copies = [step for step in replay.program.steps if isinstance(step, CopyConstants)]
    stage = problem.parts[decision.part][1]
    buffers = {copy.buffer for copy in copies if copy.stage == stage and (copy.slice is not None) == decision.sliced}
    return bool(buffers) and {step.weights for _, step in stripes} == buffers


PARTS = st.integers(0, 3)
AXES = st.sampled_from(["height", "width"])
DECISIONS = st.one_of(
    st.builds(Split, PARTS, AXES, st.integers(0, 13)),
    st.builds(Bands, PARTS, AXES, st.integers(0, 4)),
    st.builds(Backwards, PARTS, AXES),
    st.builds(ComputeAt, PARTS, PARTS, AXES),
    st.builds(RollingBuffer, PARTS, AXES),
    st.builds(CacheRead, PARTS, st.booleans()),
)


def fitting(network: Network, first: int, last: int, axis: str, extents: Sequence[int]) -> list[Decision]:
    """Decisions for Parts first to last, all of which can be carried out together."""
    problem = network.problem
    across = "width" if axis == "height" else "height"
    interior = [problem.is_interior(part, last) for part in range(first, last)]
    last_tensor = problem.specs[last].outputs[0]
    found: list[Decision] = [Split(part, axis, extents[part - first]) for part in range(first, last + 1)]  # type: ignore[arg-type]
    if extents[-1] < problem.tensors[last_tensor].plane[axis == "width"]:
        found.append(Backwards(last, axis))  # type: ignore[arg-type]
    if all(interior) and problem.tensors[last_tensor].plane[across == "width"] > 1:
        found.append(Bands(last, across, 2))  # type: ignore[arg-type]
    for part in range(first, last + 1):
        kernel = problem.specs[part].kernel
        if part < last and interior[part - first] and last == part + 1:
            found.append(ComputeAt(part, last, axis))  # type: ignore[arg-type]
        if part < last and interior[part - first]:
            found.append(RollingBuffer(part, axis))  # type: ignore[arg-type]
        if kernel is not None and kernel.constant_bytes:
            found.append(CacheRead(part))
    return found


@st.composite
def schedules(draw: st.DrawFn, network: Network) -> Schedule:
    """Groups that cover the network, some with decisions that fit, some with any."""
    problem = network.problem
    count = len(problem.specs)
    groups: list[Group] = []
    first = 0
    wild = draw(st.booleans())
    while first < count:
        last = draw(st.integers(first, min(first + 2, count - 1)))
        while last > first and any(problem.specs[part].kernel is None for part in range(first, last + 1)):
            last -= 1
        found: list[Decision] = []
        if problem.specs[first].kernel is not None:
            axis = draw(AXES)
            planes = [problem.tensors[problem.specs[part].outputs[0]].plane for part in range(first, last + 1)]
            extents = [draw(st.integers(1, plane[axis == "width"])) for plane in planes]
            fit = fitting(network, first, last, axis, extents)
            found = [one for one in fit if not isinstance(one, CacheRead | Bands) or draw(st.booleans())]
            if first == last and problem.specs[last].kernel.sliced is not None and draw(st.booleans()):  # type: ignore[union-attr]
                found = [CacheRead(last, sliced=True)]
        if wild and draw(st.booleans()):
            found.append(draw(DECISIONS))
        groups.append(Group(first, last, tuple(draw(st.permutations(found)))))
        first = last + 1
    return Schedule(tuple(groups))


def outcome(of: Network, schedule: Schedule) -> Program | SchedulingError:
    """The program of a schedule, or why it has none."""
    try:
        return scheduling.arrange(of.problem, schedule).program
    except SchedulingError as error:
        return error


@settings(STEADY, max_examples=250)
@given(st.data(), st.sampled_from(list(BUILT)))
def test_every_decision_is_carried_out_or_refused_by_name(data: st.DataObject, name: str) -> None:
    of = network(name)
    schedule = data.draw(schedules(of))
    found = outcome(of, schedule)
    if isinstance(found, SchedulingError):
        assert found.group is not None and found.decision in schedule.groups[found.group].decisions
        assert found.expected is not None and repr(found.decision) in str(found)
        return
    scheduling.prove(of.problem, schedule)
    replay = Replay(of, found)
    for group in schedule.groups:
        for decision in group.decisions:
            assert is_seen(replay, group, decision), (decision, schedule)


@pytest.mark.parametrize("axis", ["height", "width"])
@pytest.mark.parametrize("name", BUILT)
def test_decisions_that_fit_are_all_carried_out(name: str, axis: str) -> None:
    """One group for as many Parts as the NPU runs in a row, with every decision there is for them."""
    of = network(name)
    problem = of.problem
    opaque = [part for part, spec in enumerate(problem.specs) if spec.kernel is None]
    last = min(opaque, default=len(problem.specs)) - 1
    planes = [problem.tensors[problem.specs[part].outputs[0]].plane for part in range(last + 1)]
    decisions = tuple(fitting(of, 0, last, axis, [min(2, plane[axis == "width"]) for plane in planes]))
    schedule = Schedule((Group(0, last, decisions), *after(name, last)))
    scheduling.prove(problem, schedule)
    replay = Replay(of, scheduling.arrange(problem, schedule).program)
    for decision in decisions:
        assert is_seen(replay, schedule.groups[0], decision), decision
    # And what nobody says is not seen.
    plain = Replay(of, scheduling.arrange(problem, scheduling.uncascaded(problem)).program)
    unsaid = [decision for decision in decisions if not isinstance(decision, Split | ComputeAt)]
    assert unsaid and not any(is_seen(plain, schedule.groups[0], decision) for decision in unsaid)


# What cannot be carried out is refused, and the error says what could be.


def refused(name: str, *groups: Group) -> SchedulingError:
    with pytest.raises(SchedulingError) as caught:
        scheduling.arrange(network(name).problem, Schedule(groups))
    return caught.value


REFUSED: dict[str, tuple[str, Group, Decision | None, object]] = {
    "a part that is not there": ("chain", Group(0, 2, (Split(9, "height", 1),)), Split(9, "height", 1), (0, 2)),
    "a part of another group": ("chain", Group(0, 1, (CacheRead(2),)), CacheRead(2), (0, 1)),
    "the same twice": ("chain", Group(0, 2, (CacheRead(1), CacheRead(1))), CacheRead(1), "one of them"),
    "two splits": ("chain", Group(0, 0, (Split(0, "height", 1), Split(0, "height", 2))), None, "one of them"),
    "a split beyond the extent": ("chain", Group(0, 0, (Split(0, "height", 13),)), None, (1, 12)),
    "no extent": ("chain", Group(0, 0, (Split(0, "width", 0),)), None, (1, 10)),
    "mixed axes": ("chain", Group(0, 1, (Split(0, "height", 2), Split(1, "width", 2))), Split(1, "width", 2), "height"),
    "bands along the stripes": ("chain", Group(0, 0, (Split(0, "height", 2), Bands(0, "height", 2))), None, "width"),
    "bands of a part in the middle": ("chain", Group(0, 1, (Bands(0, "width", 2),)), None, 1),
    "more bands than columns": ("chain", Group(0, 0, (Bands(0, "width", 11),)), None, (1, 10)),
    "bands around another output": ("forked", Group(0, 2, (Bands(2, "width", 2),)), None, 1),
    "backwards without stripes": ("chain", Group(0, 0, (Backwards(0, "height"),)), Backwards(0, "height"), None),
    "backwards whole": ("chain", Group(0, 0, (Backwards(0, "height"), Split(0, "height", 12))), None, 12),
    "computed at its own loop": ("chain", Group(0, 1, (ComputeAt(1, 1, "height"),)), None, ()),
    "computed at another loop": ("chain", Group(0, 2, (ComputeAt(0, 1, "height"),)), None, 2),
    "computed where nobody reads it": ("forked", Group(0, 2, (ComputeAt(1, 2, "height"),)), None, ()),
    "rolling what must be whole": ("forked", Group(0, 2, (RollingBuffer(0, "height"),)), None, ()),
    "rolling the last": ("chain", Group(0, 1, (RollingBuffer(1, "height"),)), None, (0,)),
    "slices in a cascade": ("heavy", Group(0, 1, (CacheRead(0, sliced=True),)), None, False),
    "slices that are not encoded": ("chain", Group(0, 0, (CacheRead(0, sliced=True),)), None, False),
    "slices of a split part": (
        "heavy",
        Group(0, 0, (CacheRead(0, sliced=True), Split(0, "height", 2))),
        Split(0, "height", 2),
        6,
    ),
    "constants that are not there": ("heavy", Group(1, 1, (CacheRead(1),)), None, ()),
    "an axis that is none": ("chain", Group(0, 0, (Split(0, "depth", 1),)), None, ("height", "width")),  # type: ignore[arg-type]
    "an extent that is no number": ("chain", Group(0, 0, (Split(0, "height", True),)), None, (1, 12)),
    "sliced by half": ("chain", Group(0, 0, (CacheRead(0, 1),)), None, (True, False)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_carried_out_is_refused_by_name(what: str) -> None:
    name, group, decision, expected = REFUSED[what]
    before = tuple(Group(part, part, ()) for part in range(group.first))
    error = refused(name, *before, group, *after(name, group.last))
    wrong = decision or group.decisions[-1]
    if what == "backwards whole":
        wrong = group.decisions[0]
    assert error.decision == wrong and error.fault == type(wrong).__name__
    assert error.group == len(before)
    if expected is not None:
        assert error.expected == expected
    assert type(wrong).__name__ in str(error) and "possible" in str(error)
    if wrong.part < len(network(name).problem.specs):
        named = network(name).problem.specs[wrong.part].name
        assert error.part == named and named in str(error)
    for again in (copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert vars(again) == vars(error) and str(again) == str(error)


def test_operators_on_the_cpu_take_no_decisions_and_no_company() -> None:
    problem = network("heavy").problem
    opaque = next(part for part, spec in enumerate(problem.specs) if spec.kernel is None)
    alone = tuple(Group(part, part, ()) for part in range(opaque))
    error = refused("heavy", *alone, Group(opaque, opaque, (Split(opaque, "height", 1),)), *after("heavy", opaque))
    assert (error.fault, error.part) == ("Split", problem.specs[opaque].name)
    error = refused("heavy", *alone[:-1], Group(opaque - 1, opaque, ()), *after("heavy", opaque))
    assert (error.fault, error.part, error.expected) == ("cascade", problem.specs[opaque].name, (opaque, opaque))


def test_bands_alone_say_along_which_axis_stripes_would_follow() -> None:
    of = network("chain")
    for axis in ("height", "width"):
        schedule = Schedule((Group(0, 2, (Bands(2, axis, 2),)),))
        replay = Replay(of, scheduling.arrange(of.problem, schedule).program)
        assert is_seen(replay, schedule.groups[0], schedule.groups[0].decisions[0])


@pytest.mark.parametrize(
    ("groups", "value"),
    [
        ((Group(-1, 2, ()),), (-1, 2)),
        ((Group(0, 3, ()),), (0, 3)),
        ((Group(2, 1, ()),), (2, 1)),
        ((Group(1, 2, ()),), (1, 2)),
        ((Group(0, 2, ()), Group(2, 2, ())), (2, 2)),
    ],
)
def test_groups_cover_the_parts(groups: tuple[Group, ...], value: tuple[int, int]) -> None:
    error = refused("chain", *groups)
    assert (error.fault, error.value, error.limit, error.group) == ("cover", value, 3, len(groups) - 1)


@pytest.mark.parametrize("field", ["issue_order", "placement"])
def test_decisions_of_another_program_are_refused(field: str) -> None:
    problem = network("chain").problem
    of = scheduling.from_proposal(problem, search(network("chain")).proposals[0])
    wrong = {"issue_order": (((0, 0),) * 99, ()), "placement": ((0,) * 99, (0,) * 99, (16,))}[field]
    with pytest.raises(SchedulingError, match="that of another program") as caught:
        scheduling.arrange(problem, replace(of, **{field: wrong}))  # type: ignore[arg-type]
    assert caught.value.fault == field


def test_copies_are_early_where_bytes_allow() -> None:
    problem = network("residuals").problem
    staged = [spec.kernel is not None and spec.kernel.constant_bytes > 0 for spec in problem.specs]
    late = Schedule(tuple(Group(i, i, (CacheRead(i),) if is_staged else ()) for i, is_staged in enumerate(staged)))
    early = scheduling.prefetch(problem, late, 1 << 20)
    assert early.groups == late.groups and early.issue_order is not None
    assert scheduling.cycles_of(problem, early) < scheduling.cycles_of(problem, late)
    without_room = scheduling.prefetch(problem, late, 0)
    assert scheduling.arrange(problem, without_room).program.steps == scheduling.arrange(problem, late).program.steps


@pytest.mark.parametrize("value", [-1, 1 << 64, True, 1.5, "1", None])
def test_limits_are_whole_numbers(value: object) -> None:
    problem = network("chain").problem
    with pytest.raises(SchedulingError, match="limit_bytes") as caught:
        scheduling.prefetch(problem, Schedule((Group(0, 2, ()),)), value)  # type: ignore[arg-type]
    assert (caught.value.fault, caught.value.value) == ("range", value)


WRONG_ORDERS: tuple[object, ...] = (
    0,
    "ab",
    ((), (), ()),
    ([], []),
    (((0,),), ()),
    (((0, -1),), ()),
    (((0, 1.5),), ()),
    (((0, 0),), ("a",)),
)
WRONG_PLACEMENTS: tuple[object, ...] = (
    0,
    "abc",
    ((), ()),
    ((0,), (0,), (True,)),
    ((-1,), (0,), (0,)),
    ((0,), (1 << 32,), (0,)),
)


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("issue_order", value) for value in WRONG_ORDERS), *(("placement", value) for value in WRONG_PLACEMENTS)],
)
def test_what_is_no_issue_order_or_placement_is_refused(field: str, value: object) -> None:
    problem = network("chain").problem
    with pytest.raises(SchedulingError, match=f"{field} is ") as caught:
        scheduling.arrange(problem, Schedule((Group(0, 2, ()),), **{field: value}))  # type: ignore[arg-type]
    assert (caught.value.fault, caught.value.value) == (field, value)


def test_buffers_beyond_all_addresses_are_refused() -> None:
    problem = network("chain").problem
    of = scheduling.from_proposal(problem, search(network("chain")).proposals[0])
    assert of.placement is not None
    offsets, pools, pool_bytes = of.placement
    with pytest.raises(SchedulingError, match="that of another program"):
        scheduling.prove(problem, replace(of, placement=(((1 << 64) - 1,) * len(offsets), pools, pool_bytes)))


def test_what_is_no_decision_is_refused() -> None:
    error = refused("chain", Group(0, 2, ("split",)))  # type: ignore[arg-type]
    assert (error.fault, error.decision) == ("decision", "split")


def test_a_proposal_stands_for_a_schedule_of_its_own_decisions() -> None:
    problem = network("chain").problem
    for proposal in search(network("chain")).proposals:
        schedule = scheduling.from_proposal(problem, proposal)
        assert (schedule.issue_order, schedule.placement) == (proposal.issue_order, proposal.placement)
        assert scheduling.arrange(problem, schedule) == scheduling.arrange(problem, proposal)
