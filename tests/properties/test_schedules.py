"""Invariants of schedules: those that the search proposes, and those that anybody may write by hand."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from end_to_end import ACCELERATORS, carry_out, network_of
from ethoscade import SchedulingError, _core
from ethoscade.ir import Activation, DType
from ethoscade.lowering.npu import Layout, OperationKind
from ethoscade.pipeline.compiler import Network, search
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.problem import Problem
from ethoscade.scheduling.program import Program, Stripe
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
from ethoscade.testing import (
    ModelBuilder,
    inception_modules,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    random_network,
    residual_network,
    shuffle_units,
    tiny_conv,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay import check_contents, check_coverage, check_placed, check_program, check_windows

# The same examples everywhere and every time: continuous integration must not be a lottery.
STEADY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))

SEEDS = st.integers(0, 100_000)
CHIPS = st.sampled_from(ACCELERATORS)
TYPES = st.sampled_from([DType.INT8, DType.UINT8])


def chain(seed: int = 0) -> bytes:
    """Convolutions of all kinds in a row on an odd image."""
    b = ModelBuilder("chain", seed=seed)
    x = b.input((1, 19, 13, 3), name="input")
    x = b.conv2d(x, 8, (3, 5), activation=Activation.RELU)
    x = b.depthwise(x, 3, stride=2)
    x = b.conv2d(x, 12, 3, dilation=2)
    x = b.max_pool(x, (3, 2), stride=(1, 2), padding="SAME")
    b.conv2d(x, 5, 1)
    return b.build()


def residuals(seed: int = 0) -> bytes:
    """Two residual blocks, one inside the other."""
    b = ModelBuilder("residuals", seed=seed)
    x = b.input((1, 12, 15, 4), name="input")
    x = b.conv2d(x, 8, 3, stride=(2, 1))
    y = b.conv2d(x, 8, 3, activation=Activation.RELU)
    z = b.add(y, b.conv2d(b.depthwise(y, (5, 3)), 8, 1))
    b.conv2d(b.add(x, z), 6, (2, 3))
    return b.build()


def forked() -> bytes:
    """Two outputs, one of them in the middle."""
    b = ModelBuilder("forked", dtype=DType.UINT8)
    x = b.input((1, 11, 9, 4), name="input")
    x = b.conv2d(x, 8, 3)
    y = b.average_pool(x, 3, stride=1, padding="SAME")
    b.output(x, b.conv2d(y, 4, 3, stride=2))
    return b.build()


def heavy() -> bytes:
    """Constants that are worth slicing beside small images."""
    b = ModelBuilder("heavy")
    x = b.input((1, 6, 5, 48), name="input")
    x = b.conv2d(x, 96, 3, activation=Activation.RELU)
    x = b.depthwise(x, 3)
    x = b.conv2d(x, 120, 3, stride=2)
    b.fully_connected(b.mean(x), 40)
    return b.build()


def dense_on_images() -> bytes:
    """FULLY_CONNECTED over the pixels of images, between operators that see the same tensors as images."""
    b = ModelBuilder("dense_on_images")
    x = b.input((1, 17, 2, 2), name="input")
    x = b.conv2d(b.fully_connected(x, 14, keep_num_dims=True), 64, 1, stride=2)
    x = b.depthwise(x, 4, stride=3)
    y = b.fully_connected(x, 9, keep_num_dims=True)
    joined = b.concatenate([b.quantize(b.quantize(x), y.quantisation), y, b.quantize(x, y.quantisation)])
    b.output(y, b.fully_connected(joined, 5))
    return b.build()


def reshaped() -> bytes:
    """Tensors that readers see in other shapes: images, rows, batches, in the middle and at two readers at once."""
    b = ModelBuilder("reshaped")
    x = b.conv2d(b.input((1, 6, 10, 3), name="input"), 16, 3)
    x = b.depthwise(b.reshape(x, (1, 10, 6, 16)), 3)
    y = b.fully_connected(b.reshape(x, (5, 192)), 12)
    z = b.fully_connected(b.reshape(x, (60, 16)), 4)
    image = b.depthwise(b.reshape(b.quantize(z), (1, 12, 5, 4)), 3, stride=2)
    rows = b.reshape(b.conv2d(x, 8, 1), (3, 20, 8))
    left, right = b.split(b.add(b.quantize(rows), rows), 2)
    joined = b.quantize(b.concatenate([left, right, left]))
    b.output(y, image, b.fully_connected(b.quantize(y), 7), b.mean(b.reshape(joined, (1, 20, 3, 12)), (2,)), joined)
    return b.build()


def renamed() -> bytes:
    """Reshapes that no rule folds: of the input, of tensors with other readers, of outputs, before a CONCATENATION."""
    b = ModelBuilder("renamed")
    given = b.input((1, 60, 6), name="input")
    x = b.conv2d(b.reshape(given, (1, 10, 9, 4)), 16, 3)
    y = b.depthwise(b.reshape(x, (1, 18, 5, 16)), 3)
    z = b.max_pool(x, 3, stride=3)
    joined = b.concatenate([b.reshape(x, (1, 90, 16)), b.reshape(z, (1, 9, 16))], axis=1)
    rows = b.conv2d(b.expand_dims(joined, 1), 8, 1)
    b.output(b.reshape(given, (2, 5, 9, 4, 1)), y, b.reshape(y, (90, 16)), rows, b.squeeze(rows, (0, 1)))
    return b.build()


def resized() -> bytes:
    """Pixels repeated twice, four and eight times between convolutions, to odd sizes too, and beside each other."""
    b = ModelBuilder("resized")
    x = b.conv2d(b.input((1, 7, 9, 4), name="input"), 16, 3, stride=2)
    y = b.conv2d(b.resize_nearest(x, (8, 10), half_pixel_centers=True), 16, 3)
    z = b.depthwise(b.resize_nearest(x, (15, 19)), 3)
    four = b.conv2d(b.resize_nearest(y, (31, 40)), 8, (3, 2), stride=2)
    eight = b.max_pool(b.resize_nearest(b.max_pool(x, 2, stride=2), (16, 24)), 3, padding="SAME", stride=1)
    joined = b.resize_nearest(b.concatenate([b.quantize(y), b.quantize(y)]), (16, 20))
    b.output(four, b.conv2d(eight, 5, 1), b.conv2d(z, 3, 3), b.conv2d(joined, 3, 3, stride=3))
    return b.build()


def softmaxed() -> bytes:
    """SOFTMAX over images and rows, in the middle, and of two kinds of scales at once."""
    b = ModelBuilder("softmaxed")
    x = b.conv2d(b.input((1, 6, 5, 3), name="input"), 20, 3)
    y = b.softmax(b.fully_connected(b.reshape(x, (30, 20)), 12), beta=0.5)
    z = b.conv2d(b.softmax(b.depthwise(x, 3)), 4, 3)
    b.output(b.fully_connected(y, 7), z, b.softmax(b.reshape(b.mean(z), (1, 4))))
    return b.build()


def joined_on_rows() -> bytes:
    """Branches joined along rows, columns and channels between convolutions, read again in rows."""
    b = ModelBuilder("joined_on_rows")
    x = b.conv2d(b.input((1, 14, 9, 4), name="input"), 16, 3)
    y = b.conv2d(x, 16, 3, output=x.quantisation)
    tall = b.conv2d(b.concatenate([y, x, y], axis=1), 16, 3, stride=2, output=x.quantisation)
    wide = b.depthwise(b.concatenate([tall, b.max_pool(tall, 3, stride=1, padding="SAME")], axis=2), 3, stride=(2, 1))
    both = b.concatenate([b.split(wide, (3, 7), axis=2)[1], b.split(wide, (7, 3), axis=2)[0]])
    b.output(b.conv2d(both, 12, 3), tall)
    return b.build()


def sliced() -> bytes:
    """Rows, columns and channels taken out, with strides and without, and what is read of it further on."""
    b = ModelBuilder("sliced")
    x = b.conv2d(b.input((1, 17, 12, 4), name="input"), 24, 3)
    top = b.strided_slice(x, (0, 0, 0, 0), (1, 9, 12, 24), (1, 1, 1, 1))
    low = b.strided_slice(x, (0, 5, 1, 3), (1, 17, 11, 19), (1, 2, 3, 1))
    first, rest = b.split(b.depthwise(top, 3), (4, 5), axis=1)
    odd = b.strided_slice(x, (0, 1, 0, 0), (1, 17, 12, 24), (1, 5, 1, 2))
    b.output(b.conv2d(low, 8, 3), b.conv2d(first, 5, 1), b.max_pool(rest, 2), b.conv2d(odd, 4, 1))
    return b.build()


def batches() -> bytes:
    """Images above one another, each with its own padding, and together again."""
    b = ModelBuilder("batches")
    x = b.conv2d(b.input((3, 9, 7, 4), name="input"), 16, 3)
    y = b.average_pool(b.depthwise(x, 3, stride=2), 3, stride=1, padding="SAME")
    b.output(b.conv2d(b.max_pool(y, 2, stride=2), 8, 3), x)
    return b.build()


BUILT = {
    "batches": batches,
    "joined_on_rows": joined_on_rows,
    "sliced": sliced,
    "resized": resized,
    "softmaxed": softmaxed,
    "dense_on_images": dense_on_images,
    "reshaped": reshaped,
    "renamed": renamed,
    "heavy": heavy,
    "tiny_conv": tiny_conv,
    "residual_network": lambda: residual_network(blocks=2, channels=8, resolution=16),
    "keyword_spotting": lambda: keyword_spotting(channels=16),
    "inverted_residuals": lambda: inverted_residuals(blocks=3, resolution=24),
    "mobilenet_v1": lambda: mobilenet_v1(0.25, 32, classes=12),
    "chain": chain,
    "residuals": residuals,
    "forked": forked,
    "inception_modules": lambda: inception_modules(resolution=17),
    "inception_modules_in_pixels": lambda: inception_modules(channels=10, resolution=13),
    "shuffle_units": lambda: shuffle_units(resolution=15),
    "shuffle_units_in_pixels": lambda: shuffle_units(channels=24, resolution=13),
}


def choices(network: Network) -> list[tuple[int, Schedule]]:
    """Every Proposal of the frontier: promised bytes, those of float borders included, and schedule."""
    curve = search(network)
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
    for _, schedule in choices(network):
        scheduling.prove(network.problem, schedule)
        program = scheduling.arrange(network.problem, schedule).program
        check_program(network.npu.operations, program)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", BUILT)
def test_built_networks_are_exact_and_keep_their_promise(name: str, accelerator: str) -> None:
    network = network_of(BUILT[name](), accelerator)
    for promised, schedule in spread(choices(network), 3):
        assert carry_out(network, schedule).placed_bytes == promised
    assert carry_out(network, scheduling.uncascaded(network.problem)).placed_bytes == search(network).uncascaded_bytes


@settings(STEADY, max_examples=150)
@given(SEEDS, CHIPS, TYPES)
def test_random_networks_are_proved_exact_and_keep_their_promise(seed: int, accelerator: str, dtype: DType) -> None:
    network = network_of(random_network(seed, dtype=dtype), accelerator)
    points = choices(network)
    for _, schedule in points:
        scheduling.prove(network.problem, schedule)
        program = scheduling.arrange(network.problem, schedule).program
        check_program(network.npu.operations, program)
    for promised, schedule in spread(points, 3):
        assert carry_out(network, schedule, seed).placed_bytes == promised
    assert (
        carry_out(network, scheduling.uncascaded(network.problem), seed).placed_bytes
        == search(network).uncascaded_bytes
    )


def test_cascades_pass_through_dense_layers_on_images() -> None:
    """The leanest Proposal never holds what a FULLY_CONNECTED makes between two windows as a whole."""
    b = ModelBuilder("dense")
    x = b.depthwise(b.input((1, 24, 20, 4), name="input"), 3)
    wide = b.fully_connected(x, 64, keep_num_dims=True)
    b.fully_connected(b.depthwise(wide, 3), 4, keep_num_dims=True)
    network = network_of(b.build())
    promised, schedule = choices(network)[0]
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
    for promised, schedule in choices(network):
        executed = carry_out(network, schedule)
        assert executed.placed_bytes == promised
        made.append({step.stage for step in executed.program.steps if isinstance(step, Stripe)})
    assert any(second not in stages for stages in made)


@st.composite
def groups(draw: st.DrawFn, network: Network, first: int) -> Group:
    """A legal group that starts at Part `first`, with any legal decisions."""
    problem = network.problem
    run = 1
    while first + run < len(problem.specs) and problem.specs[first + run].kernel and problem.specs[first].kernel:
        run += 1
    last = first + draw(st.integers(0, min(run, 5) - 1))
    if problem.specs[last].kernel is None:
        return Group(first, last, ())
    axis = draw(st.sampled_from(["height", "width"]))
    along, across = (0, 1) if axis == "height" else (1, 0)
    planes = {part: problem.tensors[problem.specs[part].outputs[0]].plane for part in range(first, last + 1)}
    decisions: list[Decision] = []
    interior = [problem.is_interior(part, last) for part in range(first, last)]
    # What doubles its input makes two rows or columns of one at least.
    steps = {part: step_of(problem, part) for part in planes}
    bands = draw(st.integers(1, min(4, -(-planes[last][across] // steps[last]))))
    if bands > 1 and all(interior):
        decisions.append(Bands(last, "width" if axis == "height" else "height", bands))
    backwards = draw(st.booleans())
    served = read_in_the_end(problem, first, last)
    for part in range(first, last + 1):
        kernel = problem.specs[part].kernel
        assert kernel is not None
        sliced = False
        if kernel.constant_bytes and draw(st.booleans()):
            sliced = first == last and kernel.sliced is not None and draw(st.booleans())
            decisions.append(CacheRead(part, sliced))
        extent = steps[part] * draw(st.integers(1, max(planes[part][along] // steps[part], 1)))
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
    return Schedule(tuple(found), draw(st.sampled_from([0, 0, 2_000, 100_000])))


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
)
def test_schedules_by_hand_are_proved_and_exact(data: st.DataObject, name: str, accelerator: str) -> None:
    network = network_of(BUILT[name](), accelerator)
    carry_out(network, data.draw(schedules(network)))


@settings(STEADY, max_examples=150)
@given(st.data(), SEEDS, CHIPS, TYPES)
def test_schedules_by_hand_of_random_networks(data: st.DataObject, seed: int, accelerator: str, dtype: DType) -> None:
    network = network_of(random_network(seed, dtype=dtype), accelerator)
    carry_out(network, data.draw(schedules(network)), seed)


def test_nothing_that_a_hand_writes_beats_the_frontier_by_much() -> None:
    """The leanest Proposal is at least as lean as the obvious hand-written cascade."""
    network = network_of(chain())
    last = len(network.problem.specs) - 1
    decisions = tuple(Split(part, "height", 1) for part in range(last + 1))
    by_hand = carry_out(network, Schedule((Group(0, last, decisions),)))
    assert choices(network)[0][0] <= by_hand.placed_bytes


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


def changed(value: Any, **fields: object) -> Any:
    """A step, a slab or a buffer with other fields."""
    names = list(inspect.signature(type(value)).parameters)
    return type(value)(**{name: fields.get(name, getattr(value, name)) for name in names})


def corrupted(program: Program, which: int, **changes: object) -> Program:
    """The program with the output or the first input box of one stripe moved."""
    steps = list(program.steps)
    step = steps[which]
    assert isinstance(step, Stripe)
    if "output" in changes:
        steps[which] = changed(step, output=changed(step.output, **changes["output"]))  # type: ignore[arg-type]
    else:
        first = changed(step.inputs[0], **changes["input"])  # type: ignore[arg-type]
        steps[which] = changed(step, inputs=(first, *step.inputs[1:]))
    return Program(steps, program.buffers, program.tensor_buffers)


def test_the_replay_itself_finds_faults() -> None:
    network = network_of(tiny_conv())
    schedule = Schedule((Group(0, 1, (Split(0, "height", 1), Split(1, "height", 1))),))
    program = scheduling.arrange(network.problem, schedule).program
    check_program(network.npu.operations, program)
    stripes = [i for i, step in enumerate(program.steps) if isinstance(step, Stripe) and step.stage == 1]
    last = program.steps[stripes[-1]]
    assert isinstance(last, Stripe)
    twice = corrupted(program, stripes[-1], output={"y0": last.output.y0 - 1})
    with pytest.raises(AssertionError, match="times"):
        check_coverage(network.npu.operations, twice)
    less = corrupted(program, stripes[-1], input={"y1": last.inputs[0].y1 - 1})
    with pytest.raises(AssertionError, match="rows"):
        check_windows(network.npu.operations, less)
    stale = corrupted(program, stripes[-1], input={"origin_y": 1})
    with pytest.raises(AssertionError, match=r"wraps|other pixels"):
        check_contents(network.npu.operations, stale)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_the_replay_finds_boxes_that_are_left_out(axis: int) -> None:
    """Of an output that two operations make, in a cascade and whole, all that one of them makes or a stripe of it."""
    b = ModelBuilder("joined")
    x = b.input((1, 8, 6, 16), name="input")
    b.conv2d(b.concatenate([b.max_pool(x, 3, stride=1, padding="SAME"), x], axis=axis), 8, 1)
    network = network_of(b.build())
    operations = network.npu.operations
    assert operations[0].ofm.tensor.id == operations[1].ofm.tensor.id
    cascade = Group(0, 1, tuple(Split(part, "height", 2) for part in range(2)))
    heights = [network.problem.tensors[spec.outputs[0]].plane[0] for spec in network.problem.specs]
    alone = tuple(Group(part, part, (Split(part, "height", height),)) for part, height in enumerate(heights))
    for groups, complaint in (((cascade,), "left out"), (alone, "times")):
        program = scheduling.arrange(network.problem, Schedule(groups)).program
        check_program(operations, program)
        second = [i for i, step in enumerate(program.steps) if isinstance(step, Stripe) and step.stage == 1]
        assert (len(second) > 1) == (groups == (cascade,))

        def without(numbers: Sequence[int], program: Program = program) -> Program:
            steps = [step for i, step in enumerate(program.steps) if i not in numbers]
            return Program(steps, program.buffers, program.tensor_buffers)

        with pytest.raises(AssertionError, match="slices"):
            check_coverage(operations, without(second))
        if len(second) > 1:
            with pytest.raises(AssertionError, match=complaint):
                check_coverage(operations, without(second[1:]))
        else:
            twice = Program([*program.steps, program.steps[second[0]]], program.buffers, program.tensor_buffers)
            with pytest.raises(AssertionError, match=complaint):
                check_coverage(operations, twice)


def test_the_replay_finds_faults_in_reshaped_reads() -> None:
    """The head of a tensor given to every stripe, and a tensor in bricks seen in another shape."""
    b = ModelBuilder("reshaped")
    x = b.conv2d(b.input((1, 12, 6, 3), name="input"), 16, 1)
    b.depthwise(b.reshape(x, (1, 9, 8, 16)), 3)
    network = network_of(b.build())
    schedule = Schedule((Group(0, 1, (Split(0, "height", 6), Split(1, "height", 5))),))
    program = scheduling.arrange(network.problem, schedule).program
    check_program(network.npu.operations, program)
    last = len(program.steps) - 1
    step = program.steps[last]
    assert isinstance(step, Stripe) and (step.inputs[0].y0, step.inputs[0].y1) == (4, 9)
    with pytest.raises(AssertionError, match="rows"):
        check_windows(network.npu.operations, corrupted(program, last, input={"y0": 0}))
    with pytest.raises(AssertionError, match="in place"):
        check_contents(network.npu.operations, corrupted(program, last, input={"rows": 8, "columns": 9}))
    first, second = network.npu.operations
    bricks = dataclasses.replace(second.ifm.tensor, layout=Layout.NHCWB16)
    operations = (first, dataclasses.replace(second, ifm=dataclasses.replace(second.ifm, tensor=bricks)))
    with pytest.raises(AssertionError, match="bricks"):
        check_contents(operations, program)
    laid = [
        dataclasses.replace(t, layout="NHCWB16" if i == 1 else t.layout) for i, t in enumerate(network.problem.tensors)
    ]
    with pytest.raises(SchedulingError, match="in another shape, though it lies in bricks"):
        _core.CascaderGraph(laid, network.problem.specs, network.target)


def test_the_replay_in_the_arena_finds_faults() -> None:
    network = network_of(tiny_conv())
    program = scheduling.arrange(network.problem, scheduling.uncascaded(network.problem)).program
    apart, top = {}, 0
    for index, buffer in enumerate(program.buffers):
        apart[index], top = top, top + -(-buffer.size_bytes // 16) * 16
    check_placed(network, program, apart)
    output = program.tensor_buffers[network.graph.outputs[0]]
    middle = next(b for b in apart if b not in {program.tensor_buffers[network.graph.inputs[0]], output})
    with pytest.raises(AssertionError, match=r"in place|writes what it reads"):
        check_placed(network, program, {**apart, output: apart[middle]})
    dead = [changed(buffer, last_step=buffer.last_step - 1) for buffer in program.buffers]
    with pytest.raises(AssertionError, match="dead bytes"):
        check_placed(network, Program(program.steps, dead, program.tensor_buffers), apart)
