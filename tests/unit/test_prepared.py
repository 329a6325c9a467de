"""prepare(): what is made ready once answers every budget as compile() does, whatever was asked before."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence

import ethoscade
import pytest
from ethoscade import BudgetError, ConfigError, Prepared, _core
from ethoscade.codegen.artifact import NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.pipeline import compiler
from ethoscade.scheduling import schedule as scheduling
from ethoscade.targets.target import load_target
from ethoscade.testing import ModelBuilder, mobilenet_v1, random_network, tiny_conv

Point = tuple[int, int]


@functools.cache
def model() -> bytes:
    """Large enough that a budget is answered without the frontier."""
    return mobilenet_v1(0.25, 48)


@functools.cache
def prepared() -> Prepared:
    return ethoscade.prepare(model())


@functools.cache
def points() -> tuple[Point, ...]:
    return ethoscade.frontier(model()).points


def emitted(compiled: ethoscade.Compiled) -> tuple[bytes, ...]:
    payloads = [call.payload for call in compiled.artifact.calls if isinstance(call, NpuCall)]
    return (*payloads, compiled.artifact.constants)


def within(known: tuple[Point, ...], budget: int) -> int | None:
    """The fewest cycles that a frontier knows within a budget."""
    return next((cycles for size, cycles in reversed(known) if size <= budget), None)


@pytest.mark.parametrize("budget", [(1 << 64) - 1, 1 << 64, "18446744073709551616"])
def test_a_budget_that_takes_more_than_64_bits_is_enough(budget: int | str) -> None:
    tiny = ethoscade.prepare(tiny_conv())
    assert tiny.fits(budget) and tiny.compile(sram=budget).sram_bytes == tiny.compile().sram_bytes


def test_a_budget_is_answered_without_the_frontier() -> None:
    """Few choices are found, and the fastest is nearly as fast as the frontier's."""
    floor, most = points()[0][0], points()[-1][0]
    # The floor itself may be the frontier's alone to know.
    assert (points()[0]) == (prepared().compile(sram=floor).sram_bytes, prepared().compile(sram=floor).cycles)
    for budget in (floor * 21 // 20, floor * 5 // 4, floor * 2, (floor + most) // 2, most, 1 << 50):
        compiled = prepared().compile(sram=budget, optimise="fastest")
        assert compiled.sram_bytes <= budget == compiled.budget_bytes
        # Far from the floor it is told as one that it is at most.
        assert floor <= compiled.curve.floor_bytes <= floor * 21 // 20
        assert not compiled.curve.is_whole and len(compiled.frontier) <= 3
        assert len(prepared().compile(sram=budget).frontier) <= 4
        best = within(points(), budget)
        assert best is not None and 100 * compiled.cycles <= 101 * best


def test_answers_are_those_of_compile_whatever_was_asked_before() -> None:
    floor, most = points()[0][0], points()[-1][0]
    budgets = [floor * 2, most, floor * 3 // 2]
    once = [emitted(ethoscade.compile(model(), sram=budget)) for budget in budgets]
    one, other = ethoscade.prepare(model()), ethoscade.prepare(model())
    other.frontier()
    assert [emitted(one.compile(sram=budget)) for budget in budgets] == once
    assert [emitted(other.compile(sram=budget)) for budget in reversed(budgets)] == once[::-1]
    assert emitted(other.compile()) == emitted(ethoscade.compile(model()))
    assert emitted(other.compile(optimise="size")) == emitted(ethoscade.compile(model(), optimise="size"))


def test_fits_is_what_compile_does_and_refusals_name_the_frontiers_floor() -> None:
    floor = points()[0][0]
    for budget in (1, floor // 2, floor - 16, floor - 1, floor, floor + 1, "1MiB"):
        if prepared().fits(budget):
            curve = prepared().compile(sram=budget).curve
            # Of ample budgets it is a bound.
            assert curve.floor_bytes == floor or (curve.floor_is_bound and budget == "1MiB")
            continue
        assert isinstance(budget, int) and budget < floor
        with pytest.raises(BudgetError) as caught:
            prepared().compile(sram=budget)
        assert (caught.value.budget_bytes, caught.value.floor_bytes) == (budget, floor)
    assert prepared().fits(sram_kb=1024) and prepared().fits(floor) and not prepared().fits(floor - 16)


def test_plans_are_enumerated_once_for_each_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    real = scheduling.make_search

    def counted(*args: object) -> object:
        asked.append(args[1])
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(scheduling, "make_search", counted)
    network = ethoscade.prepare(tiny_conv())
    curve = network.frontier()
    assert network.frontier().points == curve.points
    assert network.fits(curve.floor_bytes)
    network.compile(sram=curve.floor_bytes)
    network.frontier(epsilon=1 / 8)
    network.compile(sram=curve.floor_bytes, epsilon=1 / 8)
    assert asked == [compiler.EPSILON, 1 / 8]


def test_what_is_prepared_pickles_and_answers_the_same() -> None:
    again = pickle.loads(pickle.dumps(prepared()))
    budget = points()[0][0] * 2
    assert emitted(again.compile(sram=budget)) == emitted(prepared().compile(sram=budget))


def test_misuse_is_refused() -> None:
    network = ethoscade.prepare(tiny_conv())
    for wrong in ({}, {"sram": "much"}, {"sram": 1024, "sram_kb": 1}):
        with pytest.raises(ConfigError):
            network.fits(**wrong)  # type: ignore[arg-type]
    for wrong in ({"optimise": "taste"}, {"epsilon": 2}, {"sram": -1}):
        with pytest.raises(ConfigError):
            network.compile(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        network.frontier(epsilon=-1)
    with pytest.raises(ConfigError):
        ethoscade.prepare(tiny_conv(), accelerator="ethos-u99")


def with_float_ends() -> bytes:
    """A QUANTIZE of a float input ahead of what takes many Plans."""
    b = ModelBuilder("floats")
    x = b.quantize(b.input((1, 32, 32, 3), name="input", dtype=DType.FLOAT32))
    for stride, channels in ((2, 16), (1, 16), (2, 32), (1, 32), (1, 32), (2, 48), (1, 48), (1, 64), (1, 64)):
        x = b.conv2d(b.depthwise(x, 3, stride=stride), channels, 1)
    b.output(x)
    return b.build()


def test_bytes_of_operators_on_the_cpu_count() -> None:
    """A float input is larger than all else."""
    network = ethoscade.prepare(with_float_ends())
    known = network.frontier().points
    assert known[0][0] >= 32 * 32 * 3 * 4
    for budget in (known[0][0], known[0][0] * 5 // 4, known[-1][0]):
        compiled, best = network.compile(sram=budget), within(known, budget)
        assert best is not None and network.fits(budget)
        assert compiled.sram_bytes <= budget and 100 * compiled.cycles <= 101 * best
    assert not network.fits(known[0][0] - 16)
    with pytest.raises(BudgetError) as caught:
        network.compile(sram=known[0][0] - 16)
    assert caught.value.floor_bytes == known[0][0]


@pytest.mark.parametrize("model", [tiny_conv, with_float_ends, mobilenet_v1])
def test_whether_a_budget_fits_takes_no_answer(model: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    network = ethoscade.prepare(model())
    curve = ethoscade.prepare(model()).frontier()
    monkeypatch.setattr(Prepared, "within", lambda *_: pytest.fail("an answer is looked for"))
    for budget in (3 * curve.uncascaded_bytes, curve.floor_bytes, curve.floor_bytes - 16, curve.uncascaded_bytes):
        assert network.fits(budget) == (budget >= curve.floor_bytes)


def large_float_input(size: int = 32, channels: int = 16, depths: Sequence[int] = (32, 16, 32, 16)) -> bytes:
    """A QUANTIZE whose float input sets the floor, whatever runs behind it."""
    b = ModelBuilder("large_float_input")
    x = b.quantize(b.input((1, size, size, channels), name="input", dtype=DType.FLOAT32))
    for depth in depths:
        x = b.conv2d(x, depth, 3)
    b.output(x)
    return b.build()


def test_size_takes_the_fastest_where_a_border_sets_the_floor() -> None:
    network = ethoscade.prepare(large_float_input())
    leanest, quantised = network.compile(optimise="size"), ethoscade.prepare(large_float_input(), io="int8")
    floor, cycles = network.frontier().points[0]
    assert leanest.sram_bytes == floor == 32 * 32 * 16 * 4
    assert leanest.cycles <= cycles < quantised.compile(optimise="size").cycles, "the convolutions' own floor is slower"


@pytest.mark.parametrize(("size", "channels", "depths"), [(24, 32, (64, 128, 64, 128, 64)), (32, 16, (128, 16) * 3)])
def test_a_border_that_sets_the_floor_costs_no_cycles(size: int, channels: int, depths: tuple[int, ...]) -> None:
    """Neither size, nor the frontier's first point, is slower than the network without it within as many bytes."""
    model, floor = large_float_input(size, channels, depths), size * size * channels * 4
    network = ethoscade.prepare(model)
    without = ethoscade.prepare(model, io="int8").compile(sram=floor)
    leanest, first = network.compile(optimise="size"), network.frontier().points[0]
    assert leanest.sram_bytes == first[0] == floor
    assert first[1] <= leanest.cycles
    assert 100 * leanest.cycles <= 101 * without.cycles


def test_without_a_budget_only_the_fastest_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    frontier = prepared().frontier()
    compiled = prepared().compile()
    assert 100 * compiled.cycles <= 101 * frontier.points[-1][1]
    assert compiled.curve.stop_reason == "budget" and compiled.curve.floor_bytes >= frontier.floor_bytes
    assert (compiled.curve.floor_is_bound, frontier.floor_is_bound) == (True, False)
    monkeypatch.setattr(_core.Search, "frontier", lambda *_: pytest.fail("a frontier is searched for"))
    network = ethoscade.prepare(model())
    assert network.compile().curve.floor_is_bound
    assert network.compile(optimise="size").sram_bytes == frontier.floor_bytes


def test_a_frontier_is_searched_once_more_for_its_lean_end() -> None:
    core = prepared().network.problem.core
    without = _core.Search(core, tuning=[("lean.resolution", 0)]).frontier().proposals
    assert points()[0][0] < without[0].sram_bytes
    assert points()[-1] == (without[-1].sram_bytes, without[-1].cycles)


@pytest.mark.parametrize("seed", range(8))
def test_on_random_networks_a_budget_loses_next_to_nothing(seed: int) -> None:
    """However small they are: within 1 % of the frontier, and what fits is never doubted."""
    graph = compiler.prepare(read_tflite(random_network(seed)), load_target("ethos-u55-256")).problem.core
    search = _core.Search(graph)
    known = tuple((proposal.sram_bytes, proposal.cycles) for proposal in search.frontier().proposals)
    floor = known[0][0]
    assert not search.fits(floor - 1) and search.floor().proposals[0].sram_bytes == floor
    assert [proposal.sram_bytes for proposal in search.within(floor - 1).proposals] == [floor]
    for budget in {*(size for size, _ in known), known[-1][0] + 64, (floor + known[-1][0]) // 2}:
        answer, best = search.within(budget).proposals[-1], within(known, budget)
        assert best is not None and search.fits(budget)
        assert answer.sram_bytes <= budget and 100 * answer.cycles <= 101 * best


def test_bytes_of_a_budget_that_no_buffer_can_end_at_do_no_harm() -> None:
    """Nothing lies across a multiple of 16, so a few bytes more change nothing."""
    network = ethoscade.prepare(mobilenet_v1(0.25, 96))
    floor = network.frontier().floor_bytes
    for budget in (floor, 3 * floor // 2 // 16 * 16, 2 * floor):
        for more in (1, 12, 15):
            assert network.within(budget + more).points == network.within(budget).points
