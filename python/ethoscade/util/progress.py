"""How far long work has come: calls of progress, its log, and how long its stages took.

Owns the fraction and the log's form. Knows no work by itself; callers begin stages and ticks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import overload

from .records import dataclass

_LOGGER = logging.getLogger(__name__)
# About how the time of a whole compilation is shared out; what is not named takes as much as `place`.
_SHARES = {"import": 2, "encode": 28, "plan": 60, "place": 5, "codegen": 5}
_SHARE = 5


@dataclass(frozen=True)
class OptimalityGap:
    """What a search knows of its answer: the best one's bytes, and how many bytes no answer is below."""

    best_bytes: int
    lower_bound_bytes: int

    def __str__(self) -> str:
        best, bound = self.best_bytes, self.lower_bound_bytes
        if best <= bound:
            return f"best {best:,} bytes, which is optimal"
        above = f" ({100 * (best - bound) / bound:.1f} % above)" if bound else ""
        return f"best {best:,} bytes, at least {bound:,}{above}"


class WorkStage(str):
    """The name of the stage that work is in; `fraction` of all of it is done, from 0 to 1, and never less than before.

    A fraction is an estimate: stages count by how long they usually take. `gap` is there once a memory plan is known:
    its best bytes never rise, its lower bound never falls.
    """

    __slots__ = ("fraction", "gap")
    fraction: float
    gap: OptimalityGap | None

    def __new__(cls, stage: str, fraction: float, gap: OptimalityGap | None = None) -> WorkStage:
        """A stage's name with how much of all is done, and with the gap of its search."""
        step = super().__new__(cls, stage)
        step.fraction, step.gap = fraction, gap
        return step

    def __reduce__(self) -> tuple[type[WorkStage], tuple[str, float, OptimalityGap | None]]:
        return WorkStage, (str(self), self.fraction, self.gap)


Progress = Callable[[WorkStage], object]
"""What a caller gives to see how far work is: called when a stage begins, and now and then while it lasts."""
ProgressCallback = Callable[..., object]
"""What work calls now and then: without an argument, or with the part of it that is done, from 0 to 1."""


def no_progress(part: float | None = None) -> None:
    """The tick of unwatched work."""


@overload
def portion(tick: ProgressCallback, begin: float, end: float) -> ProgressCallback: ...


@overload
def portion(tick: None, begin: float, end: float) -> None: ...


def portion(tick: ProgressCallback | None, begin: float, end: float) -> ProgressCallback | None:
    """The tick of the part from `begin` to `end` of the work of `tick`."""
    if tick is None:
        return None

    def told(part: float | None = None) -> None:
        if part is None:
            tick()
        else:
            tick(begin + (end - begin) * part)

    return told


def one_of_many(progress: Progress | None, number: int, count: int) -> Progress | None:
    """The progress of piece `number`, counted from 0, of `count` pieces of work of the same kind."""
    if progress is None:
        return None
    return lambda step: progress(WorkStage(str(step), (number + step.fraction) / count, step.gap))


@dataclass
class Stopwatch:
    """Seconds spent per stage of one piece of work; tells `progress` when a stage begins, and that it lasts.

    `stages` are all that there will be, in order: by them the fraction is known. What ends is logged, with what `note`
    said of it. `gap` is that of the running stage's search, as far as it is known.
    """

    progress: Progress | None = None
    stages: Sequence[str] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    gap: OptimalityGap | None = None
    _started: float = field(default_factory=time.perf_counter)
    _stage: tuple[str, float] | None = None
    _reached: float = 0.0
    _note: str = ""

    def begin(self, stage: str) -> None:
        """End the running stage and begin another one."""
        self._close()
        self._stage = (stage, time.perf_counter())
        self.tick(0.0)

    def tick(self, part: float | None = None) -> None:
        """The running stage goes on, so much of it done. What `progress` raises ends it."""
        if self._stage is None:
            return
        if part is not None:
            self._reached = max(self._reached, self._whole(self._stage[0], part))
        if self.progress is not None:
            self.progress(WorkStage(self._stage[0], self._reached, self.gap))

    def note(self, text: str) -> None:
        """What the log is to say of the running stage: what came of it, with sizes."""
        self._note = text

    def end(self) -> dict[str, float]:
        """End the running stage, and with it the work; the seconds so far, with their total."""
        self.tick(1.0)
        self._close()
        return {**self.seconds, "total": time.perf_counter() - self._started}

    def _whole(self, stage: str, part: float) -> float:
        """How much of all stages is done when `part` of one is."""
        if stage not in self.stages:
            return 0.0
        shares = [_SHARES.get(one, _SHARE) for one in self.stages]
        place = list(self.stages).index(stage)
        return min((sum(shares[:place]) + shares[place] * min(max(part, 0.0), 1.0)) / sum(shares), 1.0)

    def _close(self) -> None:
        if self._stage is not None:
            name, since = self._stage
            took = time.perf_counter() - since
            self.seconds[name] = self.seconds.get(name, 0.0) + took
            _LOGGER.info("%s: %s%.3f s", name, f"{self._note}; " if self._note else "", took)
            self._stage, self._note, self.gap = None, "", None
