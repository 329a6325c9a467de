"""Any description that makes sense gets a frontier that is proved, ordered and above what its resources allow."""

from __future__ import annotations

from functools import cache

from device_judge import check_pools, judged
from ethoscade import ConfigError, DeviceDescription, SchedulingError
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.pipeline.planning import Outline, prepare
from ethoscade.scheduling.schedule import CacheRead, CacheWrite, Group, Schedule, arrange, prove
from ethoscade.targets.devices import PRIMITIVES, Dma, Engine
from ethoscade.targets.target import Memory
from ethoscade.testing import inverted_residuals, residual_network, tiny_conv
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from replay import check_placed, check_program

NETWORKS = {
    "tiny": tiny_conv,
    "residual": lambda: residual_network(1, 8, 16),
    "inverted": lambda: inverted_residuals(2, 8, 3, 24),
}


@cache
def network(name: str) -> Graph:
    return read_tflite(NETWORKS[name]())


rates = st.tuples(st.integers(1, 65536), st.integers(1, 300))
unlimited = st.none()
sizes = st.integers(1024, 1 << 20)


@st.composite
def memories(draw: st.DrawFn, size: st.SearchStrategy[int | None] = unlimited) -> Memory:
    latency = st.integers(0, 500)
    burst = draw(st.sampled_from([1, 8, 24, 64]))
    return Memory("memory", draw(rates), draw(latency), draw(latency), burst, draw(size))


@st.composite
def engines(draw: st.DrawFn, primitives: tuple[str, ...]) -> Engine:
    granule = draw(st.tuples(*[st.sampled_from([1, 2, 4, 16, 33])] * 4))
    able = {primitive: draw(rates) for primitive in primitives}
    return Engine("engine", able, granule, draw(st.integers(0, 1000)), draw(st.integers(0, 1000)))


@st.composite
def descriptions(draw: st.DrawFn) -> DeviceDescription:
    spill = draw(st.none() | memories() | st.tuples(memories(sizes), memories()))
    count = draw(st.integers(1, len(PRIMITIVES)))
    split = [engines(PRIMITIVES[:count])] + [engines(PRIMITIVES[count:])] * (count < len(PRIMITIVES))
    return DeviceDescription(
        "drawn",
        draw(st.tuples(*split)),
        draw(memories()),
        draw(memories(st.none() | sizes if spill is None else sizes)),
        spill,
        draw(st.none() | st.integers(64, 1 << 17)),
        draw(st.none() | st.builds(Dma, st.integers(0, 500), st.integers(1, 6))),
        draw(st.sampled_from(["NHWC", "NHCWB16"])),
    )


@settings(max_examples=60, deadline=None)
@given(descriptions(), st.sampled_from(sorted(NETWORKS)))
def test_a_drawn_device_is_planned_for(device: DeviceDescription, name: str) -> None:
    judged(prepared(device, name))


def prepared(device: DeviceDescription, name: str) -> Outline:
    try:
        return prepare(network(name), device)
    except ConfigError as error:
        assume("buffer_bytes" not in str(error))
        raise


@settings(max_examples=60, deadline=None)
@given(descriptions().filter(lambda device: device.spill is not None), st.sampled_from(sorted(NETWORKS)), st.data())
def test_tensors_are_copied_between_drawn_memories(device: DeviceDescription, name: str, data: st.DataObject) -> None:
    """Whatever is copied, and wherever it lies: the checker and the replay of all bytes agree that it is there."""
    outline = prepared(device, name)
    problem = outline.problem
    groups = []
    for part, spec in enumerate(problem.specs):
        possible = [CacheWrite(part), *(CacheRead(part, operand=number) for number in range(len(spec.inputs)))]
        drawn = data.draw(st.lists(st.sampled_from(possible), unique=True)) if spec.kernel is not None else []
        groups.append(Group(part, part, tuple(drawn)))
    schedule = Schedule(tuple(groups))
    try:
        placed = arrange(problem, schedule)
    except SchedulingError as error:
        # What is copied into the arena may lie nowhere else.
        if (error.fault, error.pool) != ("arena", device.arena.name):
            raise
        return
    prove(problem, schedule)
    check_pools(outline, placed)
    check_program(outline.npu.operations, placed.program)
    check_placed(outline, placed.program, dict(enumerate(placed.offsets)), placed.pools)
