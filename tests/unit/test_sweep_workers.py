"""Workers alone: results, errors and prints come back right; deaths and delays are the fault of one call."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest
from ethoscade import BudgetError
from ethoscade.sweeps.worker_process import reply_of
from ethoscade.sweeps.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Two, that take at most two seconds over bytes."""
    made = Workers(2, lambda first: 2.0 if isinstance(first, bytes) else None)
    yield made
    made.shutdown(cancel_futures=True)
    assert made.pids == ()


def test_results_errors_and_prints(workers: Workers) -> None:
    """What a call prints, as Python or as the system knows it, is no message."""
    assert workers.submit(print, "READY" * 1000).result() is None
    assert workers.submit(os.write, 1, b"\0" * 8).result() == 8
    assert workers.submit(divmod, 7, 2).result() == (3, 1)
    assert list(workers.map(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
    with pytest.raises(ValueError, match="invalid literal"):
        workers.submit(int, "x").result()
    assert 1 <= len(workers.pids) <= 2


class Unspeakable(Exception):
    """An error that does not come out of a pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail(kind: type[Exception], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    """Raise an error that is put together here, as it may not pickle."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    raise error


@pytest.mark.parametrize(
    "error",
    [BudgetError("no", budget_bytes=1, floor_bytes=2, operator="conv"), Unspeakable(1, 2)],
    ids=["ours", "other"],
)
def test_errors_come_back_as_they_were_or_in_words(error: Exception) -> None:
    is_result, found = pickle.loads(reply_of(pickle.dumps((fail, (type(error), error.args, vars(error)), {}))))
    assert not is_result and str(error) in str(found)
    assert isinstance(found, BudgetError) is isinstance(error, BudgetError)


def test_a_call_that_cannot_be_read_is_answered() -> None:
    """As where a worker lacks a module that the caller has."""
    is_result, found = pickle.loads(reply_of(b"cno_such_module\nname\n."))
    assert not is_result and isinstance(found, ModuleNotFoundError)


def test_a_death_is_the_fault_of_one_call(workers: Workers) -> None:
    before = {workers.submit(os.getpid).result() for _ in range(4)}
    dead = workers.submit(os._exit, 3)
    others = [workers.submit(len, "x" * n) for n in range(10)]
    with pytest.raises(BrokenProcessPool, match="a worker ended with status 3"):
        dead.result()
    assert [other.result() for other in others] == list(range(10))
    assert before & set(workers.pids) or len(before) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="processes are stopped by a signal")
def test_a_worker_that_does_not_even_read_is_killed(workers: Workers) -> None:
    for pid in {workers.submit(os.getpid).result() for _ in range(8)}:
        os.kill(pid, signal.SIGSTOP)
    stopped = [workers.submit(len, bytes(5_000_000)) for _ in range(2)]
    for future in stopped:
        # A worker that was not there before may have got it.
        assert str(future.exception() or future.result()) in ("a worker was killed after 2 seconds", "5000000")
    assert any(future.exception() for future in stopped)
    assert workers.submit(len, "abc").result() == 3


def test_what_has_ended_takes_nothing_more(workers: Workers) -> None:
    assert workers.submit(abs, -1).result() == 1
    workers.shutdown()
    with pytest.raises(RuntimeError):
        workers.submit(abs, -1)
