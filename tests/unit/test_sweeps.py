"""sweep(): every question has its rows once, whatever becomes of executors; one search for several budgets."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from ethoscade import BudgetError, ConfigError, SweepError, SweepRow
from ethoscade.pipeline import prepared
from ethoscade.sweeps import answers, driver
from ethoscade.sweeps.questions import Inquiry, budgets_of, models_of, targets_of
from ethoscade.sweeps.rows import merged
from ethoscade.targets.boards import known_boards
from ethoscade.targets.target import ACCELERATORS, load_target
from ethoscade.testing import mobilenet_v1, tiny_conv
from sweeping import BUDGETS, TARGETS, Deadly, Here, inquiry, networks

Key = tuple[str, str, str]


def questions_of(rows: tuple[SweepRow, ...]) -> list[Key]:
    """Every question that has rows, in their order; each answer is whole."""
    for row in rows:
        alike = [one for one in rows if (one.model, one.question) == (row.model, row.question)]
        assert sorted(one.point for one in alike) == list(range(1, row.points + 1))
    return list(dict.fromkeys((row.model, row.target, row.budget) for row in rows))


def all_questions() -> set[Key]:
    return {
        (model, of.name, budget) for model in networks() for of in targets_of(TARGETS) for budget in budgets_of(BUDGETS)
    }


@pytest.fixture(scope="module")
def expected() -> tuple[SweepRow, ...]:
    """The rows of a sweep that nothing disturbs."""
    return ethoscade.sweep(networks(), TARGETS, BUDGETS, Here()).collect()


def test_rows_are_what_compile_says(expected: tuple[SweepRow, ...]) -> None:
    assert set(questions_of(expected)) == all_questions()
    once = cache(lambda model, accelerator: ethoscade.prepare(networks()[model], accelerator=accelerator))
    for row in expected:
        if row.model == "damaged":
            assert row.error == "ModelFormatError" and "TFL3" in row.message and row.sram_bytes is None
            continue
        prepared_once = once(row.model, row.accelerator)
        curve = prepared_once.frontier()
        if row.budget == "frontier":
            assert (row.sram_bytes, row.cycles) == curve.points[row.point - 1]
            assert row.milliseconds == curve.milliseconds[row.point - 1] and row.flash_bytes is None
            continue
        try:
            wanted = {"floor": "size", "fastest": "fastest"}.get(row.budget, "performance")
            compiled = prepared_once.compile(sram=300 if row.budget == "300" else None, optimise=wanted)
        except BudgetError as error:
            refusal = error
        if row.error:
            assert (row.error, row.message, row.floor_bytes) == ("BudgetError", str(refusal), refusal.floor_bytes)
            continue
        figures = (compiled.sram_bytes, compiled.cycles, compiled.milliseconds, compiled.flash_bytes)
        assert (row.sram_bytes, row.cycles, row.milliseconds, row.flash_bytes) == figures
        on_cpu = len(compiled.cpu_operators)
        assert (row.npu_operators, row.cpu_operators) == (len(compiled.operators) - on_cpu, on_cpu)
        assert row.budget != "floor" or row.floor_bytes == curve.floor_bytes
        assert row.budget == "300" or row.floor_bytes == compiled.curve.floor_bytes >= curve.floor_bytes
    assert {row.error for row in expected} == {"", "ModelFormatError", "BudgetError"}


def test_the_knee_is_a_budget() -> None:
    (row,) = ethoscade.sweep({"tiny": tiny_conv()}, ["ethos-u55-64"], ["balanced"], Here())
    knee = ethoscade.compile(tiny_conv(), accelerator="ethos-u55-64", optimise="balanced")
    assert (row.sram_bytes, row.cycles) == (knee.sram_bytes, knee.cycles) and row.sram_bytes not in (384, 704)


def test_rows_are_frozen_pickle_and_do_not_differ_by_time(expected: tuple[SweepRow, ...]) -> None:
    row = expected[-1]
    assert pickle.loads(pickle.dumps(row)) == row and row.seconds is not None and row.seconds > 0
    with pytest.raises(AttributeError):
        row.cycles = 1  # type: ignore[misc]


@pytest.mark.parametrize("window", [1, 3, 100])
def test_any_executor_gives_the_same_rows(window: int, expected: tuple[SweepRow, ...]) -> None:
    with ThreadPoolExecutor(3) as threads:
        sweep = ethoscade.sweep(networks(), TARGETS, BUDGETS, threads, window=window)
        assert sweep.collect() == expected
    assert sweep.answered == sweep.questions == len(all_questions())


def test_the_standard_librarys_pool_does_as_well(expected: tuple[SweepRow, ...]) -> None:
    """Answers are a function of a module, and questions and rows pickle."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert ethoscade.sweep(networks(), TARGETS, BUDGETS, pool).collect() == expected


def test_rows_come_before_all_is_asked() -> None:
    class Endless(Mapping[str, bytes]):
        """Models that are made when their turn comes, and never kept."""

        made = 0

        def __getitem__(self, name: str) -> bytes:
            self.made += 1
            return tiny_conv()

        def __iter__(self) -> Iterator[str]:
            return map(str, range(10**6))

        def __len__(self) -> int:
            return 10**6

    models = Endless()
    with ethoscade.sweep(models, ["ethos-u55-32"], ["floor"], Here(), window=2) as sweep:
        for _ in range(5):
            next(sweep)
    assert models.made < 10 and next(sweep, None) is None


def test_all_budgets_of_a_model_on_a_target_are_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[str] = Counter()
    for owner, name in ((answers, "prepare_on"), (prepared.scheduling, "make_search")):
        function = getattr(owner, name)

        def counted(*args: Any, _name: str = name, _function: Any = function, **named: Any) -> Any:
            made[_name] += 1
            return _function(*args, **named)

        monkeypatch.setattr(owner, name, counted)
    here = Here()
    rows = ethoscade.sweep({"tiny": tiny_conv()}, TARGETS, BUDGETS, here).collect()
    assert len(questions_of(rows)) == 8 and len(here.given) == 2
    assert made == {"prepare_on": 2, "make_search": 2}


# What is lost.


def test_whoever_loses_an_inquiry_is_asked_again_question_by_question(expected: tuple[SweepRow, ...]) -> None:
    """All inquiries of several questions are lost: nothing is missing, nothing twice, and nothing says so."""

    def lose(asked: Inquiry) -> None:
        if len(asked.budgets) > 1:
            raise OSError("gone")

    here = Here(lose)
    assert ethoscade.sweep(networks(), TARGETS, BUDGETS, here).collect() == expected
    inquiries = len(networks()) * len(TARGETS)
    assert Counter(len(asked.budgets) for asked in here.given) == {4: inquiries, 1: 4 * inquiries}


@pytest.mark.parametrize("tries", [1, 3])
def test_a_question_that_is_lost_every_time_is_an_error_row(tries: int, expected: tuple[SweepRow, ...]) -> None:
    def lose(asked: Inquiry) -> None:
        if asked.model == "tiny" and "floor" in asked.budgets:
            raise OSError("worker\n gone")

    here = Here(lose)
    rows = ethoscade.sweep(networks(), TARGETS, BUDGETS, here, tries=tries).collect()
    lost = [row for row in rows if row.error == "OSError"]
    assert [(row.model, row.budget, row.message) for row in lost] == [("tiny", "floor", "worker gone")] * 2
    assert not any(row.is_settled for row in lost)
    rest = {row for row in expected if (row.model, row.budget) != ("tiny", "floor")}
    assert {row for row in rows if row.error != "OSError"} == rest
    assert len(rows) == len(lost) + len(rest)
    alone = [asked for asked in here.given if asked.budgets == ("floor",)]
    assert len(alone) == 2 * tries


def test_an_executor_that_is_gone_ends_the_sweep_with_an_error() -> None:
    threads = ThreadPoolExecutor(1)
    sweep = ethoscade.sweep(networks(), TARGETS, BUDGETS, threads, window=1)
    next(sweep)
    threads.shutdown()
    with pytest.raises(SweepError, match="takes no more questions"):
        sweep.collect()


def test_an_executor_that_gives_up_ends_the_sweep_with_an_error() -> None:
    class GivesUp(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(SweepError, match="8 of 8 questions have no answer"):
        ethoscade.sweep({"tiny": tiny_conv()}, TARGETS, BUDGETS, GivesUp()).collect()


def test_workers_that_die_over_a_question_are_replaced(expected: tuple[SweepRow, ...]) -> None:
    """Real processes: the guilty question's row says so, after as many tries as are allowed."""
    workers = driver.Workers(2)
    try:
        deadly = Deadly(workers, lambda asked: asked.model == "net1" and "300" in asked.budgets)
        rows = ethoscade.sweep(networks(), TARGETS, BUDGETS, deadly, tries=2).collect()
    finally:
        workers.shutdown(cancel_futures=True)
    lost = [row for row in rows if row.error == "BrokenProcessPool"]
    assert [(row.model, row.budget) for row in lost] == [("net1", "300")] * 2
    assert {row.message for row in lost} == {"a worker ended with status 7"}
    assert deadly.killed == 2 * (1 + 2)
    assert [row for row in rows if row not in lost] == [
        row for row in expected if (row.model, row.budget) != ("net1", "300")
    ]


def test_workers_that_are_killed_lose_nothing(expected: tuple[SweepRow, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[driver.Workers] = []

    class Watched(driver.Workers):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(driver, "Workers", Watched)
    rows, killed = [], set()
    with ethoscade.sweep(networks(), TARGETS, BUDGETS, jobs=2, tries=1000) as sweep:
        for row in sweep:
            rows.append(row)
            if len(rows) % 4 == 0 and len(killed) < 4:
                for pid in made[0].pids[:1]:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
    assert len(killed) == 4
    assert len(rows) == len(expected) and merged(rows) == list(expected)
    assert made[0].pids == ()


# Time.


def test_time_is_up_in_the_middle_of_a_search() -> None:
    """The core is busy for minutes with an exact frontier; the other questions of the model have their answers."""
    models = {"slow": mobilenet_v1(0.5, 64)}
    rows = ethoscade.sweep(models, ["ethos-u55-128"], ["frontier", 100_000], Here(), timeout=0.7, epsilon=0).collect()
    assert [(row.budget, row.error, row.message) for row in rows if row.budget == "frontier"] == [
        ("frontier", "TimeoutError", "no answer within 0.7 seconds")
    ]
    assert len(rows) == 2 and not rows[1].is_settled


def test_a_worker_that_does_not_look_at_the_time_is_killed(
    expected: tuple[SweepRow, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sleepy(Executor):
        """Workers that sleep over one question."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            asked = args[0]
            if asked.model == "tiny" and "fastest" in asked.budgets:
                return workers.submit(sleep_over, asked)
            return workers.submit(fn, replace(asked, timeout=None))

    monkeypatch.setattr(driver, "_GRACE_SECONDS", 0.2)
    workers = driver.Workers(2, driver._seconds_of)
    try:
        rows = ethoscade.sweep(networks(), TARGETS[:1], BUDGETS, Sleepy(), timeout=0.5).collect()
    finally:
        workers.shutdown(cancel_futures=True)
    (late,) = [row for row in rows if row.error == "TimeoutError"]
    assert (late.model, late.budget, late.message) == ("tiny", "fastest", "no answer within 0.5 seconds")
    assert len(questions_of(rows)) == len(networks()) * len(BUDGETS)


def sleep_over(_asked: object) -> None:
    time.sleep(300)


# What may be asked.


def test_models_are_called_after_their_files(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "net.tflite", tmp_path / "b" / "net.tflite", tmp_path / "b" / "other.tflite"]
    named = models_of([*paths, str(paths[2])])
    assert named == {str(paths[0]): str(paths[0]), str(paths[1]): str(paths[1]), "other": str(paths[2])}


def test_a_file_that_is_not_there_is_a_row_for_each_question() -> None:
    rows = ethoscade.sweep(["missing.tflite"], TARGETS, ["floor", "frontier"], Here()).collect()
    assert len(questions_of(rows)) == 4
    assert {(row.error, row.model_sha256, row.is_settled) for row in rows} == {("ModelFormatError", "", False)}


def test_targets_by_pattern_and_in_full() -> None:
    names = [of.name for of in targets_of(["ethos-u65-*", "ethos-u55-64//Sram_Only", "ethos-u65-256", "none"])]
    assert names == [
        "ethos-u65-256/Ethos_U65_Embedded/Shared_Sram",
        "ethos-u55-64/Ethos_U55_High_End_Embedded/Sram_Only",
        "none",
    ]
    assert {of.target.accelerator.name for of in targets_of(["*"])} == {*ACCELERATORS, "none"}


def test_boards_are_targets_by_their_names(tmp_path: Path) -> None:
    """And by a file; with the memories that the board has, and no word of where that is known from."""
    table = known_boards()["alif-ensemble-hp"]
    mine = tmp_path / "mine.toml"
    mine.write_text('accelerator = "ethos-u55-64"\nsystem_config = "Ethos_U55_Deep_Embedded"\nsram = "1MiB"\n', "utf-8")
    (known, same, own) = targets_of(["alif-ensemble-hp", "ethos-u55-64/Ethos_U55_Deep_Embedded", str(mine)])
    assert targets_of([*table.aliases, "alif-ensemble-hp", "Alif_Ensemble_HP"]) == (known,)
    assert known.name == table.name and known.target == replace(load_target(board=table.name), board=None)
    assert (own.name, own.target) == ("mine", same.target)
    assert inquiry("net", str(mine)).question("floor") != inquiry("net", "ethos-u55-64").question("floor")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"models": []}, "no models"),
        ({"models": [b"x"]}, "has no name"),
        ({"models": "net.tflite"}, "give a list of paths"),
        ({"models": {1: b"x"}}, "name is 1"),
        ({"targets": []}, "no targets"),
        ({"targets": ["ethos-u99"]}, "ethos-u99"),
        ({"targets": ["ethos-u55-64/a/b/c"]}, "more parts"),
        ({"targets": ["ethos-u55-64/Nowhere"]}, "Nowhere"),
        ({"budgets": []}, "no budgets"),
        ({"budgets": ["fast"]}, "cannot read the size 'fast'"),
        ({"budgets": [1.5]}, "a budget is 1.5"),
        ({"budgets": [-1]}, "out of range"),
        ({"executor": 5}, "executor is 5"),
        ({"executor": Here(), "jobs": 2}, "brings its own"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": "1"}, "timeout is '1'"),
        ({"epsilon": 2}, "epsilon is 2"),
        ({"tries": 0}, "tries is 0"),
        ({"io": "int9"}, "io is 'int9'"),
        ({"weight_encoder": "zip"}, "weight_encoder is 'zip'"),
        ({"output": "rows.txt"}, "ends in .csv or .parquet"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_questions_are_refused_before_anything_is_asked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ethoscade.sweep(**{"models": {"tiny": tiny_conv()}, "executor": None, **wrong})
    assert said in str(caught.value)


def test_a_question_is_known_by_all_that_its_answer_depends_on() -> None:
    """Each of them in turn; the model's name and the time allowed are none."""
    asked = inquiry()
    same = [replace(asked, model="other"), replace(asked, timeout=5.0), replace(asked, budgets=("floor", "fastest"))]
    options = [
        replace(asked.options, **change)
        for change in ({"io": "int8"}, {"epsilon": 1}, {"dead_channels": False}, {"weight_encoder": "vela"})
    ]
    faster = replace(asked.target, target=replace(asked.target.target, core_clock_hz=1.0))
    others = [
        replace(asked, model_sha256="00"),
        replace(asked, version="9"),
        replace(asked, target=faster),
        *(replace(asked, options=of) for of in options),
    ]
    known = [one.question("floor") for one in (asked, *others)] + [asked.question("300")]
    assert {one.question("floor") for one in same} == {known[0]} and len(set(known)) == len(known)


def test_workers_of_another_version_are_refused() -> None:
    with pytest.raises(SweepError, match=r"9\.9 asks"):
        answers.answer(replace(inquiry(), version="9.9"))
