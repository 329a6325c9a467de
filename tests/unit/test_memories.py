"""Devices with several memories of tensors: limits, hand-written copies between them, and errors that name them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import ethoscade
import pytest
from device_judge import check_pools, judged
from ethoscade import BudgetError, ConfigError, DeviceDescription, SchedulingError
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.planning import Outline, prepare
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Arrangement, CopyTensor
from ethoscade.scheduling.schedule import CacheRead, CacheWrite, Decision, Group, Schedule
from ethoscade.targets.configurations import default_config
from ethoscade.targets.devices import PRIMITIVES, Dma, Engine, cortex_m55
from ethoscade.targets.target import Memory, compilation_target, load_target
from ethoscade.testing import inverted_residuals, residual_network
from ethoscade.util.frozen import FrozenMap
from replay import check_placed, check_program

TCM = Memory("tcm", (64, 1), 0, 0, 16, 12 * 1024)
SRAM = Memory("sram", (8, 1), 4, 4, 16, 40 * 1024)
DRAM = Memory("dram", (1, 1), 50, 50, 64)


def device(*tensors: Memory) -> DeviceDescription:
    engine = Engine("all", FrozenMap(dict.fromkeys(PRIMITIVES, (256, 1))))
    return DeviceDescription("layered", (engine,), DRAM, tensors[0], tensors[1:] or None, dma=Dma(20, 3))


@cache
def outline(*tensors: Memory) -> Outline:
    return prepare(read_tflite(residual_network()), device(*tensors))


@pytest.mark.parametrize("tensors", [(TCM, DRAM), (SRAM, DRAM), (TCM, SRAM, DRAM)], ids=["tcm", "sram", "three"])
def test_a_frontier_counts_the_scarce_memory(tensors: tuple[Memory, ...]) -> None:
    scarce = tensors[0].size_bytes
    assert scarce is not None
    curve = judged(outline(*tensors))
    assert all(size <= scarce for size, _ in curve.points)
    assert curve.uncascaded_bytes > scarce
    spilled = [scheduling.arrange(outline(*tensors).problem, proposal).pool_bytes for proposal in curve.proposals]
    assert all(size % 16 == 0 for sizes in spilled for size in sizes)


def test_more_of_the_scarce_memory_is_never_slower() -> None:
    fastest = [
        ethoscade.plan(residual_network(), device(replace(TCM, size_bytes=kib * 1024), DRAM)).points[-1][1]
        for kib in (4, 16, 64)
    ]
    assert fastest == sorted(fastest, reverse=True)
    assert fastest[0] > fastest[-1]


def test_the_last_memory_has_a_limit_too() -> None:
    small = replace(TCM, size_bytes=1024)
    unlimited = judged(outline(small, SRAM))
    problem = outline(small, SRAM).problem
    taken = [scheduling.arrange(problem, proposal).pool_bytes[-1] for proposal in unlimited.proposals]
    enough = replace(SRAM, size_bytes=max(taken))
    assert ethoscade.plan(residual_network(), device(small, enough)).points == unlimited.points
    with pytest.raises(BudgetError, match="1024 bytes of the memory 'sram' of device 'layered'") as caught:
        ethoscade.plan(residual_network(), device(small, replace(SRAM, size_bytes=1024)))
    assert (caught.value.budget_bytes, caught.value.floor_bytes) == (1024, min(taken))
    assert caught.value.operator


def schedule(*decisions: Decision) -> Schedule:
    """Every Part by itself, with decisions for some."""
    count = len(outline(SRAM, DRAM).problem.specs)
    return Schedule(tuple(Group(p, p, tuple(d for d in decisions if d.part == p)) for p in range(count)))


def forks(problem: scheduling.Problem) -> tuple[int, int, int]:
    """A Part whose output two others read: itself, the last of its readers, and which operand it is there."""
    for part, spec in enumerate(problem.specs):
        readers = [
            (reader, number)
            for reader, other in enumerate(problem.specs)
            for number, read in enumerate(other.inputs)
            if read.tensor in spec.outputs
        ]
        if len(readers) > 1:
            return part, *readers[-1]
    raise AssertionError("a residual network has a fork")


@pytest.mark.parametrize("tensors", [(SRAM, DRAM), (SRAM, replace(SRAM, name="more"), DRAM)], ids=["two", "three"])
def test_a_tensor_waits_in_another_memory(tensors: tuple[Memory, ...]) -> None:
    problem = outline(*tensors).problem
    maker, reader, operand = forks(problem)
    away = schedule(CacheWrite(maker), CacheRead(reader, operand=operand))
    scheduling.prove(problem, away)
    placed = scheduling.arrange(problem, away)
    check_pools(outline(*tensors), placed)
    check_program(outline(*tensors).npu.operations, placed.program)
    check_placed(outline(*tensors), placed.program, dict(enumerate(placed.offsets)), placed.pools)
    copies = [step for step in placed.program.steps if isinstance(step, CopyTensor)]
    assert [placed.pools[step.source] > 0 for step in copies] == [False, True]
    home = placed.program.tensor_buffers[copies[0].tensor]
    assert placed.program.buffers[home].pools == tuple(range(1, len(tensors)))
    assert all(step.cycles >= placed.program.buffers[home].size_bytes / 8 for step in copies)
    near = scheduling.arrange(problem, schedule())
    assert not any(isinstance(step, CopyTensor) for step in near.program.steps)
    assert scheduling.cycles_of(problem, away) > scheduling.cycles_of(problem, schedule())


def test_a_damaged_placement_is_noticed() -> None:
    one = outline(SRAM, DRAM)
    maker, reader, operand = forks(one.problem)
    right = scheduling.arrange(one.problem, schedule(CacheWrite(maker), CacheRead(reader, operand=operand)))
    check_pools(one, right)
    copy = next(step for step in right.program.steps if isinstance(step, CopyTensor))
    home = right.program.tensor_buffers[copy.tensor]

    def damaged(pools: dict[int, int], offsets: dict[int, int], grown: int = 0) -> Arrangement:
        return Arrangement(
            right.program,
            [offsets.get(buffer, offset) for buffer, offset in enumerate(right.offsets)],
            right.arena_bytes,
            [pools.get(buffer, pool) for buffer, pool in enumerate(right.pools)],
            [right.pool_bytes[0] + grown, *right.pool_bytes[1:]],
        )

    with pytest.raises(AssertionError, match="lies in 'sram', which may not hold it"):
        check_pools(one, damaged({home: 0}, {}))
    beyond = SRAM.size_bytes or 0
    end = -(-(beyond + right.program.buffers[copy.source].size_bytes) // 16) * 16
    with pytest.raises(AssertionError, match="'sram' ends at 40960"):
        check_pools(one, damaged({}, {copy.source: beyond}, end - right.pool_bytes[0]))
    with pytest.raises(AssertionError, match="are used twice"):
        check_pools(one, damaged({}, dict.fromkeys(range(len(right.offsets)), 0)))


def test_a_decision_on_memories_is_refused_by_name() -> None:
    problem = outline(SRAM, DRAM).problem
    maker, reader, operand = forks(problem)
    alone = outline(SRAM).problem
    cases: list[tuple[scheduling.Problem, Decision, str]] = [
        (alone, CacheWrite(maker), "tensors lie in 'sram' alone"),
        (alone, CacheRead(reader, operand=operand), "tensors lie in 'sram' alone"),
        (problem, CacheRead(reader, operand=7), "there is no such operand"),
        (problem, CacheRead(reader, sliced=True, operand=operand), "a tensor is copied as a whole"),
    ]
    for network, decision, why in cases:
        with pytest.raises(SchedulingError, match=why) as caught:
            scheduling.prove(network, schedule(decision))
        assert (caught.value.decision, caught.value.group) == (decision, decision.part)
    inside = Schedule(
        (Group(0, 1, (CacheRead(1, operand=0),)), *(Group(p, p, ()) for p in range(2, len(problem.specs))))
    )
    with pytest.raises(SchedulingError, match="the group makes that tensor itself"):
        scheduling.prove(problem, inside)


def test_what_may_lie_in_a_full_memory_alone_is_refused_by_its_name() -> None:
    tight = outline(replace(SRAM, size_bytes=2048), DRAM).problem
    maker, reader, operand = forks(tight)
    with pytest.raises(SchedulingError, match="pool 'sram' holds 2048 bytes") as caught:
        scheduling.arrange(tight, schedule(CacheWrite(maker), CacheRead(reader, operand=operand)))
    assert caught.value.pool == "sram"


def test_constants_in_the_scarce_memory_leave_less_of_it() -> None:
    """What weights take of it is not there for tensors."""
    alone = Memory("ram", (8, 1), 1, 1, 4, 64 * 1024)
    described = replace(cortex_m55(), constants=alone, arena=alone, spill=DRAM)
    curve = ethoscade.plan(inverted_residuals(), described)
    constants = prepare(read_tflite(inverted_residuals()), described).constant_bytes
    assert constants > 1024
    assert all(constants <= size <= 64 * 1024 for size, _ in curve.points)


@pytest.mark.parametrize("mode", ["Shared_Sram", "Sram_Only"])
def test_modes_with_one_memory_of_tensors_are_compiled_for(mode: str) -> None:
    target = compilation_target(memory_mode=mode)
    assert target.memories.tensors == (target.arena,)
    assert target.memories.scarce.is_sram
    assert (target.memories.constants == target.memories.scarce) == (mode == "Sram_Only")


def test_a_mode_with_two_has_both() -> None:
    target = load_target("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram")
    cache_, arena = target.memories.tensors
    assert (cache_.is_sram, arena.is_sram, target.memories.constants) == (True, False, arena)
    # A cache whose size nobody says has as much as is wanted.
    assert target.cache.size_bytes is None and cache_.size_bytes is not None and cache_.size_bytes >= 1 << 40
    assert target.with_cache_of(4096).memories.scarce.size_bytes == 4096
    assert load_target("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram_384KB").cache.size_bytes == 393216


def test_an_ethos_u55_writes_to_one_memory(tmp_path: Path) -> None:
    """Its second port only reads, so that no mode can give it two memories of tensors."""
    ini = default_config().read_text(encoding="utf-8").replace("axi1_port=OffChipFlash", "axi1_port=Dram")
    (tmp_path / "vela.ini").write_text(ini.replace("OffChipFlash_", "Dram_"), encoding="utf-8")
    options = {"memory_mode": "Dedicated_Sram", "config": tmp_path / "vela.ini"}
    assert load_target("ethos-u55-256", **options).arena.name == "Dram"
    with pytest.raises(ConfigError, match="an Ethos-U55 writes through one of them alone; choose Shared_Sram"):
        compilation_target("ethos-u55-256", **options)
    assert compilation_target("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram").has_cache
