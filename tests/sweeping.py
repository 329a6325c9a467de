"""Small sweeps for tests: networks, executors that lose what they are given, rows out of the air.

Owns no expectation. Nothing here is random.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cache
from typing import Any

from ethoscade.sweeps.questions import Inquiry, budgets_of, options_of, targets_of
from ethoscade.sweeps.rows import SweepRow, failed, row_of
from ethoscade.testing import random_network, tiny_conv

TARGETS = ("ethos-u55-64", "ethos-u65-256")
BUDGETS = ("floor", "fastest", "frontier", 300)


@cache
def networks(count: int = 2) -> dict[str, bytes]:
    """Networks that compile in some ten milliseconds, and one that is none."""
    small = {f"net{i}": random_network(i, max_operators=2, max_resolution=12, max_channels=16) for i in range(count)}
    return {"damaged": b"no network", "tiny": tiny_conv(), **small}


class Here(Executor):
    """Answers in the caller's thread, the last submitted first where `backwards`; remembers what it was given.

    `instead` may do something else with an inquiry: what it returns or raises becomes of the future, unless it is None.
    """

    def __init__(self, instead: Callable[[Inquiry], Any] = lambda _: None) -> None:
        self.given: list[Inquiry] = []
        self._instead = instead

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs it at once."""
        self.given.append(args[0])
        future: Future[Any] = Future()
        try:
            found = self._instead(args[0])
            future.set_result(fn(*args, **kwargs) if found is None else found)
        except Exception as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        return future


class Deadly(Executor):
    """Workers of another executor end in the middle of inquiries that are `guilty`."""

    def __init__(self, workers: Executor, guilty: Callable[[Inquiry], bool]) -> None:
        self.killed = 0
        self._workers, self._guilty = workers, guilty

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Has the worker end instead."""
        if self._guilty(args[0]):
            self.killed += 1
            return self._workers.submit(os._exit, 7)
        return self._workers.submit(fn, *args, **kwargs)


def inquiry(model: str = "net", target: str = "ethos-u55-64", *budgets: str | int, data: bytes = b"data") -> Inquiry:
    """What is asked about a model that nobody looks at."""
    options, _ = options_of("float", 0, True, "ethoscade", None)
    (of,) = targets_of([target])
    return Inquiry(model, data, data.hex(), of, budgets_of(budgets or ["floor"]), options)


def answers(asked: Inquiry, points: int) -> list[tuple[SweepRow, ...]]:
    """For each budget rows that could be: the frontier with so many points, 300 bytes as an error."""
    found = []
    for budget in asked.budgets:
        if budget == "300":
            found.append((failed(asked, budget, ValueError('it is, "so to say", too large\nby much')),))
            continue
        count = points if budget == "frontier" else 1
        numbers = {"points": count, "cycles": 5, "milliseconds": 0.1 + 0.2, "npu_operators": 1, "cpu_operators": 0}
        found.append(
            tuple(row_of(asked, budget, point=n + 1, sram_bytes=16 * (n + 1), **numbers) for n in range(count))
        )
    return found
