"""Questions answered, in whatever process or on whatever machine they have come to.

Owns how one search serves several budgets, how work is stopped that takes too long, and that no error but an interrupt
gets out: each becomes a row of the question that met it.

Time is looked at wherever the compiler calls back: at each stage, and every 50 ms while the core works. Who owns the
process kills it where that is not enough.
"""

from __future__ import annotations

import time
from dataclasses import replace

from .._core import __version__
from ..errors import SweepError
from ..pipeline.compiled import Compiled
from ..pipeline.prepared import Prepared, prepare_on
from .questions import BALANCED, FASTEST, FLOOR, FRONTIER, Inquiry
from .rows import SweepRow, failed, row_of

Answer = tuple[SweepRow, ...]

_OPTIMISED = {FLOOR: "size", BALANCED: "balanced", FASTEST: "fastest"}


class _Deadline:
    """Raises `TimeoutError` from a compiler's progress once a question has had its time."""

    def __init__(self, seconds: float | None) -> None:
        self._limit = seconds
        self._began = time.perf_counter()

    @property
    def passed(self) -> float:
        """Seconds since the question was begun."""
        return time.perf_counter() - self._began

    def look(self, _stage: str) -> None:
        """Called as `progress`."""
        if self._limit is not None and self.passed > self._limit:
            raise TimeoutError(out_of_time(self._limit))


def out_of_time(seconds: float) -> str:
    """What a row says of a question that took too long."""
    return f"no answer within {seconds:g} seconds"


def answer(inquiry: Inquiry) -> tuple[Answer, ...]:
    """The rows of each budget, in the budgets' order. Raises `SweepError` where another ethoscade asked."""
    if inquiry.version != __version__:
        raise SweepError(f"the worker has ethoscade {__version__}, and {inquiry.version} asks: install the same")
    deadline = _Deadline(inquiry.timeout)
    try:
        options = inquiry.options
        prepared = prepare_on(
            inquiry.target.target,
            inquiry.data,
            dead_channels=options.dead_channels,
            weight_encoder=options.weight_encoder,
            io=options.io,
            progress=deadline.look,
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a model meets is its row, the core's panics too
        return tuple((failed(inquiry, budget, error, deadline.passed),) for budget in inquiry.budgets)
    found = []
    for budget in inquiry.budgets:
        found.append(_answered(inquiry, budget, prepared, deadline))
        deadline = _Deadline(inquiry.timeout)
    return tuple(found)


def _answered(inquiry: Inquiry, budget: str, prepared: Prepared, deadline: _Deadline) -> Answer:
    try:
        rows = _rows(inquiry, budget, prepared, deadline)
        return tuple(replace(row, seconds=deadline.passed) for row in rows)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        return (failed(inquiry, budget, error, deadline.passed),)


def _rows(inquiry: Inquiry, budget: str, prepared: Prepared, deadline: _Deadline) -> list[SweepRow]:
    epsilon = inquiry.options.epsilon
    if budget != FRONTIER:
        compiled = prepared.compile(
            sram=int(budget) if budget.isdecimal() else None,
            optimise=_OPTIMISED.get(budget, "performance"),
            epsilon=epsilon,
            progress=deadline.look,
        )
        return [row_of(inquiry, budget, **_figures(compiled))]
    curve = prepared.frontier(epsilon=epsilon, progress=deadline.look)
    partition = prepared.network.partition
    common = {
        "points": len(curve.points),
        "npu_operators": len(partition.npu_operators),
        "cpu_operators": len(partition.cpu_operators),
        "floor_bytes": curve.floor_bytes,
    }
    points = enumerate(zip(curve.points, curve.milliseconds, strict=True), start=1)
    return [
        row_of(inquiry, budget, point=number, sram_bytes=size, cycles=cycles, milliseconds=milliseconds, **common)
        for number, ((size, cycles), milliseconds) in points
    ]


def _figures(compiled: Compiled) -> dict[str, int | float]:
    on_cpu = len(compiled.cpu_operators)
    return {
        "sram_bytes": compiled.sram_bytes,
        "cycles": compiled.cycles,
        "milliseconds": compiled.milliseconds,
        "flash_bytes": compiled.flash_bytes,
        "npu_operators": len(compiled.operators) - on_cpu,
        "cpu_operators": on_cpu,
        "floor_bytes": compiled.curve.floor_bytes,
    }
