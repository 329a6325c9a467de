"""Results and errors pass from process to process, and copy: found by looking, so that a new one is not forgotten."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import importlib.util
import inspect
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import ethoscade
import numpy as np
import pytest
from ethoscade import _core, memory
from ethoscade.codegen import tflite
from ethoscade.errors import AliveBuffer, BudgetError, EthoscadeError, SchedulingError
from ethoscade.judge.verification import Verification, random_inputs
from ethoscade.scheduling import schedule
from ethoscade.targets import devices
from ethoscade.testing import inception_modules, mobilenet_v1, tiny_conv
from ethoscade.util.frozen import FrozenMap
from streamed_networks import segmentation
from sweeping import Here

COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda value, p=p: pickle.loads(pickle.dumps(value, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)),
]


def modules() -> list[Any]:
    """All modules of the package but those that are run as a script, or loaded by a program that is not installed."""
    left_out = {"ethoscade.judge.litert_child", "ethoscade.__main__"}
    if importlib.util.find_spec("model_explorer") is None:
        left_out.add("ethoscade.explorer.main")
    found = pkgutil.walk_packages(ethoscade.__path__, "ethoscade.")
    names = [m.name for m in found if m.name not in left_out]
    return [ethoscade, _core, *(importlib.import_module(name) for name in names)]


def classes() -> dict[str, type]:
    """All classes that the package defines, by full name."""
    every = [c for m in modules() for c in vars(m).values() if isinstance(c, type)]
    mine = [c for c in every if c.__module__.split(".")[0] == "ethoscade"]
    return {f"{c.__module__}.{c.__qualname__}": c for c in mine}


# Errors.

SAMPLES: dict[str, Any] = {
    "str": "a word",
    "str | None": "a word",
    "int": 7,
    "int | None": 7,
    "object": (1, "two"),
    "tuple[int, int] | None": (3, 4),
    "tuple[AliveBuffer, ...]": (AliveBuffer("b", "tensor", 1, 2),),
    "Sequence[Buffer]": [memory.Buffer("b", 0, 1, 16)],
}
"""By annotation of a constructor's parameter."""

ERRORS = {name: kind for name, kind in classes().items() if issubclass(kind, BaseException)}


def an_error(kind: type[BaseException]) -> BaseException:
    """One with something in every attribute."""
    if not inspect.isfunction(kind.__init__):
        return kind("what is wrong, and where")
    parameters = list(inspect.signature(kind).parameters.values())
    missing = {str(p.annotation) for p in parameters} - SAMPLES.keys()
    assert not missing, f"SAMPLES has nothing for {missing}, which {kind.__name__} takes"
    named = {p.name: SAMPLES[p.annotation] for p in parameters if p.kind is p.KEYWORD_ONLY}
    return kind(*(SAMPLES[p.annotation] for p in parameters if p.kind is not p.KEYWORD_ONLY), **named)


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_copies_with_its_attributes(name: str) -> None:
    error = an_error(ERRORS[name])
    for duplicate in COPIES:
        again = duplicate(error)
        assert type(again) is type(error) and str(again) == str(error)
        assert again.args == error.args and vars(again) == vars(error)


def test_errors_are_found() -> None:
    public = {getattr(ethoscade, name) for name in ethoscade.__all__ if name.endswith("Error")}
    assert public | {memory.PoolOverflowError, SchedulingError, _core.MemoryProblemError} <= set(ERRORS.values())
    assert len({an_error(kind).__class__ for kind in ERRORS.values()}) == len(ERRORS)


# Results.


@cache
def results() -> tuple[Any, ...]:
    """What the public functions return."""
    compiled = ethoscade.compile(mobilenet_v1(0.25, 32), sram_kb=24)
    joined = ethoscade.compile(inception_modules())
    inputs = random_inputs(compiled.source, 0)
    buffers = [memory.Buffer("a", 0, 2, 32, gaps=(memory.Gap(1, 2, (0, 8)),)), memory.Buffer("b", 1, 3, 16)]
    searched = schedule.search(compiled.problem)
    row = (16, 16, 0, 2, [], [0], None, [], [])
    return (
        compiled,
        joined,
        ethoscade.prepare(tiny_conv()),
        ethoscade.compile_many({"net": tiny_conv()}),
        next(ethoscade.sweep({"net": tiny_conv()}, ["ethos-u55-32"], ["floor"], Here())),
        compiled.curve,
        compiled.explain(),
        ethoscade.check(mobilenet_v1(0.25, 32)),
        compiled.table(),
        compiled.addresses(),
        joined.cpu_time("cortex-m4"),
        compiled.simulate(inputs),
        ethoscade.compile(tiny_conv(), stream_input=2),
        ethoscade.compile(segmentation(), stream_output=2),
        ethoscade.slide(tiny_conv()),
        compiled.timing(),
        compiled.record(),
        ethoscade.plan(tiny_conv(), devices.cortex_m55()),
        devices.cortex_m7(),
        memory.plan(buffers),
        memory.place_program(compiled.program),
        Verification(True, 1, 2, 0, 0.0, 0, 16, "LiteRT"),
        searched,
        searched.proposals[0].plans[0],
        searched.proposals[-1].arrangement(compiled.problem.core),
        _core.part_floor(compiled.problem.core, 0),
        _core.WeightOrder(16, True),
        _core.LiveWindow(0, 2, 0, 16),
        _core.LoadTable(3, 4),
        _core.StreamCommand("NPU_OP_CONV", 0, 3, [("NPU_SET_IFM_PAD_TOP", 1)]),
        _core.CallOperator(5, 1),
        schedule.predicted_streams(compiled.problem, compiled.schedule)[0],
        _core.plan_memory([row], [(None, 16, 0)], "best", 0, 10, 1),
        _core.plan_memory([row], [(8, 16, 0)], "best", 0, 10, 1),
    )


def parts(value: Any) -> Iterator[Any]:
    """What a value holds."""
    if isinstance(value, ethoscade.Prepared):
        # What it keeps is made again.
        yield from value.__reduce__()[1]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))
    elif isinstance(value, Mapping):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, (tuple, list, set, frozenset)):
        yield from value
    elif type(value).__module__ == "ethoscade._core":
        yield from value.__reduce__()[1]


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    held = [list(parts(one)), list(parts(other))]
    if held[0] or held[1] or dataclasses.is_dataclass(one):
        return len(held[0]) == len(held[1]) and all(same(a, b) for a, b in zip(*held, strict=True))
    return bool(one == other)


def test_every_result_copies() -> None:
    for result in results():
        for duplicate in (copy.copy, copy.deepcopy, COPIES[-1]):
            assert same(result, duplicate(result)), type(result)


def test_what_a_result_holds_pickles_by_itself() -> None:
    """And every public class of results is among it."""
    seen: dict[type, Any] = {}
    left = list(results())
    while left:
        value = left.pop()
        if type(value).__module__.split(".")[0] == "ethoscade":
            seen.setdefault(type(value), value)
        left += parts(value)
    for value in seen.values():
        assert same(value, pickle.loads(pickle.dumps(value)))
    public = {getattr(ethoscade, name) for name in ethoscade.__all__}
    public = {kind for kind in public if isinstance(kind, type) and not issubclass(kind, BaseException)}
    extension = {c for c in vars(_core).values() if isinstance(c, type) and not issubclass(c, BaseException)}
    # A machine is memories and what was done to them, not a result; a report of its run has no other way here, copies
    # of tensors are for schedules written by hand, and a search that budgets are asked of is made again.
    others = {_core.Machine, _core.RunReport, _core.CopyTensor, _core.Search}
    assert public | extension - others <= seen.keys()


def test_a_copy_of_a_tensor_copies() -> None:
    step = _core.CopyTensor(1, 2, 3, 4)
    for duplicate in COPIES:
        assert duplicate(step) == step
        assert repr(duplicate(step)) == "CopyTensor(tensor=1, source=2, buffer=3, cycles=4)"
    assert _core.CopyTensor(1, 2, 4, 4) != step


def test_a_report_of_a_run_copies() -> None:
    report = _core.RunReport(1, 2, 3, 4, 5, [("saturation", 6, 2, "why")], [("raw", None, 7, 1, 8, 9, "why")])
    for duplicate in COPIES:
        again = duplicate(report)
        names = ("commands", "kernels", "transfers", "bytes_read", "bytes_written", "warnings", "hazards")
        assert [getattr(again, name) for name in names] == [getattr(report, name) for name in names]


def test_a_copy_does_what_the_original_does() -> None:
    compiled = ethoscade.compile(mobilenet_v1(0.25, 32), sram_kb=24)
    inputs = random_inputs(compiled.source, 0)
    for duplicate in (copy.deepcopy, COPIES[-1]):
        again = duplicate(compiled)
        assert tflite.write(again.artifact) == tflite.write(compiled.artifact)
        assert str(again.explain()) == str(compiled.explain()) and again.pools == compiled.pools
        assert same(again.simulate(inputs).outputs, compiled.simulate(inputs).outputs)
        # What was planned can still be carried out.
        for proposal, want in zip(again.curve.proposals, compiled.curve.proposals, strict=True):
            lowered = schedule.arrange(again.problem, proposal)
            assert lowered == schedule.arrange(compiled.problem, want)
            decisions = schedule.from_proposal(compiled.problem, want)
            assert lowered == schedule.arrange(compiled.problem, decisions)


def test_proposals_and_plans_are_told_apart() -> None:
    proposals = ethoscade.frontier(mobilenet_v1(0.25, 96)).proposals
    again = pickle.loads(pickle.dumps(proposals))
    assert again == proposals and len(set(again) | set(proposals)) == len(proposals) > 1
    assert set(again[0].plans) == set(proposals[0].plans)


def test_frozen_maps_stay_as_they_are() -> None:
    items = {"b": 1, "a": 2}
    frozen = FrozenMap(items)
    items["c"] = 3
    assert frozen == {"b": 1, "a": 2} and list(frozen) == ["b", "a"] and len(frozen) == 2 and "a" in frozen
    with pytest.raises(TypeError):
        frozen["d"] = 4  # type: ignore[index]


# Processes.


def compile_in_a_process(sram: int) -> Any:
    """What a pool is given to do."""
    return ethoscade.compile(mobilenet_v1(0.25, 32), sram=sram)


@pytest.mark.parametrize("method", ["spawn", *(["fork"] if "fork" in multiprocessing.get_all_start_methods() else [])])
def test_a_pool_of_processes_returns_results_and_raises_errors(method: str) -> None:
    here = compile_in_a_process(24 << 10)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        there = pool.submit(compile_in_a_process, 24 << 10).result()
        refused = pool.submit(compile_in_a_process, 1024).exception()
        assert pool.submit(compile_in_a_process, 24 << 10).result().sram_bytes == here.sram_bytes
    assert tflite.write(there.artifact) == tflite.write(here.artifact)
    assert isinstance(refused, BudgetError)
    assert (refused.budget_bytes, refused.floor_bytes) == (1024, here.curve.floor_bytes)
    assert refused.alive and isinstance(refused, EthoscadeError)
