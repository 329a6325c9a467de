"""Invariants of schedules: those that the search proposes, and those that anybody may write by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from end_to_end import ACCELERATORS, carry_out, network_of
from ethoscade import ConfigError, SchedulingError, _core
from ethoscade.ir import DType
from ethoscade.judge.judges import undefined
from ethoscade.lowering.npu import OperationKind
from ethoscade.pipeline.compiler import Network
from ethoscade.pipeline.curve import Curve
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.program import Stripe
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
from ethoscade.targets.target import Streaming
from ethoscade.testing import (
    ModelBuilder,
    random_network,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from replay import check_program
from small_networks import BUILT, chain, forked

# The same examples everywhere and every time: continuous integration must not be a lottery.
STEADY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))

SEEDS = st.integers(0, 100_000)
CHIPS = st.sampled_from(ACCELERATORS)
TYPES = st.sampled_from([DType.INT8, DType.UINT8])


def choices(network: Network, curve: Curve) -> list[tuple[int, Schedule]]:
    """Every Proposal of the frontier: promised bytes, those of float borders included, and schedule."""
    schedules = (scheduling.from_proposal(network.problem, proposal) for proposal in curve.proposals)
    return [(size, schedule) for (size, _), schedule in zip(curve.points, schedules, strict=True)]


def spread(points: list[tuple[int, Schedule]], count: int) -> list[tuple[int, Schedule]]:
    """The first, the last and some between."""
    step = max(1, (len(points) - 1) // max(1, count - 1))
    return [*points[:-1:step][: count - 1], points[-1]]


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", BUILT)
def test_every_proposal_is_proved(name: str, accelerator: str) -> None:
    network = network_of(BUILT[name](), accelerator)
    for _, schedule in choices(network, explore(network.problem, 0)):
        scheduling.prove(network.problem, schedule)
        program = scheduling.arrange(network.problem, schedule).program
        check_program(network.npu.operations, program)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", BUILT)
def test_built_networks_are_exact_and_keep_their_promise(name: str, accelerator: str) -> None:
    network = network_of(BUILT[name](), accelerator)
    curve = explore(network.problem, 0)
    for promised, schedule in spread(choices(network, curve), 3):
        assert carry_out(network, schedule).placed_bytes == promised
    assert carry_out(network, scheduling.uncascaded(network.problem)).placed_bytes == curve.uncascaded_bytes


@settings(STEADY, max_examples=150)
@given(SEEDS, CHIPS, TYPES)
def test_random_networks_are_proved_exact_and_keep_their_promise(seed: int, accelerator: str, dtype: DType) -> None:
    network = drawn_network(seed, accelerator, dtype)
    # The orders, then the same by slices of channels.
    network = network.order(seed // 8 % (2 * len(network.orders)))
    curve = explore(network.problem, 0)
    points = choices(network, curve)
    for _, schedule in points:
        scheduling.prove(network.problem, schedule)
        program = scheduling.arrange(network.problem, schedule).program
        check_program(network.npu.operations, program)
    # Scales beyond those that kernels are defined for have no reference.
    assume(not any(undefined(network.graph, network.graph.operators[i]) for i in network.partition.cpu_operators))
    for promised, schedule in spread(points, 3):
        assert carry_out(network, schedule, seed).placed_bytes == promised
    uncascaded = carry_out(network, scheduling.uncascaded(network.problem), seed)
    assert uncascaded.placed_bytes == curve.uncascaded_bytes


def drawn_network(seed: int, accelerator: str, dtype: DType) -> Network:
    """A random network; one of three takes its input row by row and one of four gives its output so, where it may."""
    model = random_network(seed, dtype=dtype)
    streaming = Streaming(1 + seed % 5, seed % 2 == 0) if seed % 3 == 0 else None
    taken_rows = 1 + seed % 3 if seed % 4 == 0 else None
    for pieces in ((streaming, taken_rows), (streaming, None), (None, taken_rows)):
        try:
            return network_of(model, accelerator, *pieces)
        except ConfigError:
            assert pieces != (None, None)
    return network_of(model, accelerator)


def test_cascades_pass_through_dense_layers_on_images() -> None:
    """The leanest Proposal never holds what a FULLY_CONNECTED makes between two windows as a whole."""
    b = ModelBuilder("dense")
    x = b.depthwise(b.input((1, 24, 20, 4), name="input"), 3)
    wide = b.fully_connected(x, 64, keep_num_dims=True)
    b.fully_connected(b.depthwise(wide, 3), 4, keep_num_dims=True)
    network = network_of(b.build())
    promised, schedule = choices(network, explore(network.problem, 0))[0]
    assert promised < np.prod(wide.shape) / 4
    carry_out(network, schedule)


def test_rows_that_are_joined_and_never_read_are_not_made() -> None:
    """Of two images one above the other the network goes on with the first: the second one's Part has nothing to do."""
    b = ModelBuilder("half")
    first = b.conv2d(b.input((1, 8, 6, 8), name="input"), 8, 3)
    joined = b.concatenate([first, b.quantize(b.depthwise(first, 3), first.quantisation)], axis=1)
    b.output(b.conv2d(b.split(joined, (8, 8), axis=1)[0], 8, 3))
    network = network_of(b.build())
    (second,) = (i for i, one in enumerate(network.npu.operations) if one.kind is OperationKind.DEPTHWISE)
    made = []
    for promised, schedule in choices(network, explore(network.problem, 0)):
        executed = carry_out(network, schedule)
        assert executed.placed_bytes == promised
        made.append({step.stage for step in executed.program.steps if isinstance(step, Stripe)})
    assert any(second not in stages for stages in made)


@st.composite
def groups(draw: st.DrawFn, network: Network, first: int) -> Group:
    """A legal group that starts at Part `first`, with any legal decisions."""
    problem = network.problem
    run = 1
    cascades = [spec.kernel is not None or spec.handed_rows is not None for spec in problem.specs]
    while first + run < len(problem.specs) and cascades[first + run] and cascades[first]:
        run += 1
    last = first + draw(st.integers(0, min(run, 5) - 1))
    if problem.specs[last].kernel is None and problem.specs[last].take_rows is None:
        return Group(first, first, ())
    # Rows that are handed over in order are used and made in order.
    is_fed = any(problem.specs[part].handed_rows for part in range(first, last + 1))
    axis = "height" if is_fed else draw(st.sampled_from(["height", "width"]))
    along, across = (0, 1) if axis == "height" else (1, 0)
    planes = {part: problem.tensors[problem.specs[part].outputs[0]].plane for part in range(first, last + 1)}
    decisions: list[Decision] = []
    interior = [problem.is_interior(part, last) for part in range(first, last)]
    # What doubles its input makes two rows or columns of one at least.
    steps = {part: step_of(problem, part) for part in planes if problem.specs[part].kernel}
    bands = draw(st.integers(1, min(4, -(-planes[last][across] // steps.get(last, 1)))))
    if bands > 1 and all(interior) and not is_fed:
        decisions.append(Bands(last, "width" if axis == "height" else "height", bands))
    backwards = draw(st.booleans()) and not is_fed
    served = read_in_the_end(problem, first, last)
    ends = [last, *(part for part in range(first, last) if not interior[part - first])]
    made = set(ends).union(*(read_in_the_end(problem, first, end) for end in ends))
    for part in range(first, last + 1):
        if part not in made:
            # A Part that makes nothing, as what an SVDF keeps of rows that are never read, has no decision.
            continue
        kernel = problem.specs[part].kernel
        if kernel is None:
            # How many rows are handed over at once is nobody's decision.
            continue
        sliced = False
        if kernel.constant_bytes and draw(st.booleans()):
            sliced = first == last and kernel.sliced is not None and draw(st.booleans())
            decisions.append(CacheRead(part, sliced))
        # Of what is doubled the first row or column alone may be made: that is all of it, and less than a step.
        extent = steps[part] * draw(st.integers(1, max(planes[part][along] // steps[part], 1)))
        extent = min(extent, planes[part][along])
        if sliced:
            # What is made in slices of channels is made in one piece.
            extent = planes[part][along]
        decisions.append(Split(part, axis, extent))
        if part == last and backwards and extent < planes[part][along]:
            decisions.append(Backwards(last, axis))
        if part != last:
            if part in served:
                decisions.append(ComputeAt(part, last, axis))
            if interior[part - first]:
                decisions.append(RollingBuffer(part, axis))
    return Group(first, last, tuple(decisions))


def step_of(problem: Problem, part: int) -> int:
    """Of how many rows or columns a Part makes multiples."""
    kernel = problem.specs[part].kernel
    assert kernel is not None
    return 1 if kernel.upscale == "none" else 2


def read_in_the_end(problem: Problem, first: int, last: int) -> set[int]:
    """The Parts of a group of which its last one reads something, through others or itself."""
    wanted = {read.tensor for read in problem.specs[last].inputs}
    found: set[int] = set()
    for part in reversed(range(first, last)):
        if wanted.intersection(problem.specs[part].outputs):
            found.add(part)
            wanted.update(read.tensor for read in problem.specs[part].inputs)
    return found


@st.composite
def schedules(draw: st.DrawFn, network: Network) -> Schedule:
    """Any legal schedule of a network."""
    found: list[Group] = []
    first = 0
    while first < len(network.problem.specs):
        found.append(draw(groups(network, first)))
        first = found[-1].last + 1
    schedule = Schedule(tuple(found))
    limit_bytes = draw(st.sampled_from([None, None, 2_000, 100_000]))
    return schedule if limit_bytes is None else scheduling.prefetch(network.problem, schedule, limit_bytes)


@settings(STEADY, max_examples=150)
@given(
    st.data(),
    st.sampled_from(
        [
            "chain",
            "residuals",
            "forked",
            "inverted_residuals",
            "heavy",
            "shuffle_units",
            "inception_modules",
            "dense_on_images",
            "reshaped",
            "renamed",
            "resized",
            "softmaxed",
        ]
    ),
    CHIPS,
    st.sampled_from([None, None, Streaming(1), Streaming(3), Streaming(1, True), Streaming(2, True)]),
    st.sampled_from([None, None, 1, 2, 5]),
)
def test_schedules_by_hand_are_proved_and_exact(
    data: st.DataObject, name: str, accelerator: str, streaming: Streaming | None, taken_rows: int | None
) -> None:
    try:
        network = network_of(BUILT[name](), accelerator, streaming, taken_rows)
    except ConfigError:
        # The CPU makes the output, or there are several.
        assert taken_rows is not None
        network = network_of(BUILT[name](), accelerator, streaming)
    carry_out(network, data.draw(schedules(network)))


@settings(STEADY, max_examples=150)
@given(st.data(), SEEDS, CHIPS, TYPES)
def test_schedules_by_hand_of_random_networks(data: st.DataObject, seed: int, accelerator: str, dtype: DType) -> None:
    network = drawn_network(seed, accelerator, dtype)
    # Scales beyond those that kernels are defined for have no reference.
    assume(not any(undefined(network.graph, network.graph.operators[i]) for i in network.partition.cpu_operators))
    carry_out(network, data.draw(schedules(network)), seed)


def test_nothing_that_a_hand_writes_beats_the_frontier_by_much() -> None:
    """The leanest Proposal is at least as lean as the obvious hand-written cascade."""
    network = network_of(chain())
    last = len(network.problem.specs) - 1
    decisions = tuple(Split(part, "height", 1) for part in range(last + 1))
    by_hand = carry_out(network, Schedule((Group(0, last, decisions),)))
    assert choices(network, explore(network.problem, 0))[0][0] <= by_hand.placed_bytes


# What is wrong must be refused, by the core and by the replay of this test's helpers.


def illegal(network: Network) -> dict[str, Schedule]:
    last = len(network.problem.specs) - 1
    whole = Group(0, last, ())
    return {
        "a part left out": Schedule((Group(1, last, ()),)),
        "a part twice": Schedule((whole, Group(last, last, ()))),
        "an end left out": Schedule((Group(0, last - 1, ()),)),
        "beyond the end": Schedule((Group(0, last + 1, ()),)),
        "a stripe of nothing": Schedule((Group(0, last, (Split(0, "height", 0),)),)),
        "no bands": Schedule((Group(0, last, (Bands(last, "width", 0),)),)),
        "more bands than columns": Schedule((Group(0, last, (Bands(last, "width", 10_000),)),)),
    }


@pytest.mark.parametrize("fault", illegal(network_of(chain())))
def test_illegal_schedules_are_refused(fault: str) -> None:
    network = network_of(chain())
    with pytest.raises(SchedulingError):
        scheduling.prove(network.problem, illegal(network)[fault])


def test_bands_around_a_second_output_are_refused() -> None:
    network = network_of(forked())
    last = len(network.problem.specs) - 1
    with pytest.raises(SchedulingError, match="single output"):
        scheduling.prove(network.problem, Schedule((Group(0, last, (Bands(last, "width", 2),)),)))


@pytest.mark.parametrize("change", [{"ofm_depth": 0}, {"stride": (1, 0)}, {"kernel": (-1, 1)}, {"dilation": (0, 1)}])
def test_kernels_of_nothing_are_refused(change: dict[str, object]) -> None:
    network = network_of(chain())
    specs = network.problem.specs
    kernels = [dataclasses.replace(spec.kernel, **change) for spec in specs if spec.kernel is not None]
    empty = tuple(dataclasses.replace(spec, kernel=kernel) for spec, kernel in zip(specs, kernels, strict=True))
    with pytest.raises(SchedulingError, match="at least 1"):
        _core.CascaderGraph(network.problem.tensors, empty, network.target)
