"""The replay of schedules finds what is wrong: programs changed by hand."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import pytest
from end_to_end import network_of
from ethoscade import SchedulingError, _core
from ethoscade.lowering.feature_maps import Layout
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Program, Stripe
from ethoscade.scheduling.schedule import (
    Group,
    Schedule,
    Split,
)
from ethoscade.testing import (
    ModelBuilder,
    tiny_conv,
)
from replay import check_contents, check_coverage, check_placed, check_program, check_windows


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
