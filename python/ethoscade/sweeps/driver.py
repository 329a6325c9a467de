"""sweep(): questions handed out and rows taken in, whatever executor runs them; what is lost is asked again.

Owns the order of work: how many questions are out at once, what becomes of those whose worker died or that took too
long, and which a file of an earlier run has answered. The compiler is `answers`' business, the file `files`'.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import replace
from fractions import Fraction
from types import TracebackType
from typing import Annotated

from ..codegen.streams import WEIGHT_ENCODERS
from ..errors import ConfigError, EthoscadeError, SweepError
from ..frontend.source import load
from ..pipeline.compiler import EPSILON, Model
from ..targets.target import ACCELERATORS
from ..util.arguments import Range, checked, shown
from ..util.records import dataclass
from .answers import Answer, answer, out_of_time
from .files import RowFile
from .questions import FRONTIER, Inquiry, Questions, budgets_of, models_of, options_of, targets_of
from .rows import SweepRow, failed, merged, plain
from .workers import Workers

_LOG = logging.getLogger(__name__)
_MOST = 1 << 16
# What a worker of this machine may take beyond the time of its questions before it is killed: to see that time is up,
# and to send what it has.
_GRACE_SECONDS = 5.0
# Inquiries that an executor of the caller's is given at once, where nobody says how many it runs.
_WINDOW = 128


@dataclass(frozen=True)
class _Attempt:
    """A query batch and how often it has been lost."""

    inquiry: Inquiry
    lost: int = 0


class Sweep(Iterator[SweepRow]):
    """The rows of a sweep as they come, each once; an iterator that can be closed, and used in a `with` statement.

    `questions` is how many are asked, `answered` how many of them have their rows, `known` how many of these came from
    the file of an earlier run. Nothing begins before the first row is asked for. Closed early, it ends its own workers;
    what a file has of it, another run goes on from.
    """

    def __init__(
        self, questions: Questions, file: RowFile | None, executor: Executor | None, jobs: int, window: int, tries: int
    ) -> None:
        self.questions = len(questions)
        self.answered = 0
        self.known = 0
        self._asked = questions
        self._file = file
        self._executor = executor
        self._jobs, self._window, self._tries = jobs, window, tries
        self._rows = self._run()

    def __next__(self) -> SweepRow:
        return next(self._rows)

    def __enter__(self) -> Sweep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; workers that were started for it are killed."""
        self._rows.close()

    def collect(self) -> tuple[SweepRow, ...]:
        """The rows that are still to come, sorted by model, target and budget."""
        return tuple(merged(self))

    def _run(self) -> Generator[SweepRow, None, None]:
        with contextlib.ExitStack() as stack:
            file = self._file
            if file is not None:
                stack.enter_context(file)
            executor = self._executor or stack.enter_context(_own(self._jobs))
            for found in self._answers(executor):
                self.answered += 1
                yield from found
            if file is not None:
                file.finish()

    def _answers(self, executor: Executor) -> Iterator[Answer]:
        """All answers, those from the file as they are met."""
        inquiries = self._inquiries()
        again: deque[_Attempt] = deque()
        out: dict[Future[tuple[Answer, ...]], _Attempt] = {}
        more = True
        try:
            while more or again or out:
                while more and not again and len(out) < self._window:
                    following = next(inquiries, None)
                    more = following is not None
                    if isinstance(following, Inquiry):
                        again.append(_Attempt(following))
                    elif following is not None:
                        yield following
                while again and len(out) < self._window:
                    attempt = again.popleft()
                    out[_submitted(executor, attempt.inquiry)] = attempt
                done, _ = wait(out, return_when=FIRST_COMPLETED)
                for future in done:
                    for found in self._taken(future, out.pop(future), again):
                        if self._file is not None:
                            self._file.add(found)
                        yield found
        finally:
            for future in out:
                future.cancel()

    def _inquiries(self) -> Iterator[Inquiry | Answer]:
        """What is to be asked, model by model, between the answers that are there already."""
        for name, model in self._asked.models.items():
            data, unreadable = b"", None
            try:
                data, _ = load(model)
            except EthoscadeError as error:
                unreadable = error
            for inquiry in self._asked.of_model(name, data):
                if unreadable is not None:
                    for budget in inquiry.budgets:
                        yield self._kept((failed(inquiry, budget, unreadable),))
                    continue
                open_budgets = []
                for budget in inquiry.budgets:
                    found = self._known_answer(inquiry, budget)
                    if found is None:
                        open_budgets.append(budget)
                    else:
                        self.known += 1
                        yield found
                if open_budgets:
                    yield replace(inquiry, budgets=tuple(open_budgets))

    def _known_answer(self, inquiry: Inquiry, budget: str) -> Answer | None:
        """What the file has of a question, under the name that the model has now."""
        known = self._file.known.get(inquiry.question(budget)) if self._file is not None else None
        if known is None or not all(row.is_settled for row in known):
            return None
        named = tuple(replace(row, model=plain(inquiry.model)) for row in known)
        return known if named == known else self._kept(named)

    def _kept(self, found: Answer) -> Answer:
        if self._file is not None:
            self._file.add(found)
        return found

    def _taken(
        self, future: Future[tuple[Answer, ...]], attempt: _Attempt, again: deque[_Attempt]
    ) -> tuple[Answer, ...]:
        """The answers of a query batch; none where it has to be asked again, question by question."""
        inquiry = attempt.inquiry
        try:
            return future.result()
        except CancelledError as error:
            raise SweepError(f"the executor gave up: {_rest(self)} have no answer yet") from error
        except Exception as error:  # noqa: BLE001 - whatever ended a worker is the row of the question that it had
            _LOG.debug("%s on %s was lost: %s: %s", inquiry.model, inquiry.target.name, type(error).__name__, error)
            if len(inquiry.budgets) > 1:
                again.extend(_Attempt(replace(inquiry, budgets=(budget,))) for budget in inquiry.budgets)
                return ()
            if isinstance(error, TimeoutError) and inquiry.timeout is not None:
                return ((failed(inquiry, inquiry.budgets[0], TimeoutError(out_of_time(inquiry.timeout))),),)
            if attempt.lost + 1 < self._tries:
                again.append(_Attempt(inquiry, attempt.lost + 1))
                return ()
            return ((failed(inquiry, inquiry.budgets[0], error),),)


def _rest(sweep: Sweep) -> str:
    return f"{sweep.questions - sweep.answered} of {sweep.questions} questions"


def _submitted(executor: Executor, inquiry: Inquiry) -> Future[tuple[Answer, ...]]:
    try:
        return executor.submit(answer, inquiry)
    except (BrokenExecutor, RuntimeError) as error:
        raise SweepError(f"the executor takes no more questions: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _own(jobs: int) -> Iterator[Workers]:
    """Workers that are killed however the work ends: they have nothing left to do, or it is not needed."""
    workers = Workers(jobs, _seconds_of)
    try:
        yield workers
    finally:
        workers.shutdown(cancel_futures=True)


def _seconds_of(inquiry: Inquiry) -> float | None:
    """After how many seconds the worker of a query batch is killed."""
    return None if inquiry.timeout is None else inquiry.timeout * len(inquiry.budgets) + _GRACE_SECONDS


def _processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@checked("models", "targets", "budgets", "executor", "epsilon", "timeout")
def sweep(
    models: Mapping[str, Model] | Sequence[Model],
    targets: Sequence[str] = tuple(ACCELERATORS),
    budgets: Sequence[str | int] = (FRONTIER,),
    executor: Executor | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    jobs: Annotated[int, Range(1, _MOST)] | None = None,
    window: Annotated[int, Range(1, _MOST)] | None = None,
    timeout: float | None = None,
    tries: Annotated[int, Range(1, _MOST)] = 3,
    config: str | os.PathLike[str] | None = None,
    epsilon: float | Fraction = EPSILON,
    dead_channels: bool = True,
    weight_encoder: str = WEIGHT_ENCODERS[0],
    io: str = "float",
    seconds: bool = False,
) -> Sweep:
    """Ask what every model takes on every target within every budget; the rows come as they are found.

    `models` are paths, or a mapping from names to paths or bytes, which may be made as they are asked for. `targets`
    are accelerators, "ACCELERATOR/SYSTEM_CONFIG/MEMORY_MODE" with the names of `config`, a vela.ini, or boards.
    `budgets` are sizes as for `compile`, "floor", "balanced", "fastest", or "frontier" for a row per point of the whole
    curve. All budgets of a model on a target are answered by one search.

    `executor` is any of `concurrent.futures`, Dask's included; it gets `window` models on targets at once, with the
    models' bytes. By default `jobs` processes of this machine answer, one for each processor. Whatever goes wrong with
    a question is its row: an error, no answer within `timeout` seconds, or a worker that died `tries` times over it.

    With `output`, a .csv or .parquet file, rows are kept as they come, and what it has of an earlier run is not asked
    again: questions are known by the model's bytes, the target, the budget, the options and ethoscade's version. At the
    end its rows are sorted, so that its bytes do not depend on who answered when; `seconds` adds a column that does.

    Raises `ConfigError` for targets, budgets and options that there are not; while it runs `SweepError` if the
    executor is gone, `CodegenError` if rows cannot be written.
    """
    if executor is not None and not isinstance(executor, Executor):
        raise ConfigError(f"executor is {shown(executor)}; it must be an Executor of concurrent.futures")
    if executor is not None and jobs is not None:
        raise ConfigError("jobs counts processes of this machine; an executor brings its own")
    options, limit = options_of(io, epsilon, dead_channels, weight_encoder, timeout)
    asked = Questions(models_of(models), targets_of(targets, config), budgets_of(budgets), options, limit)
    file = None if output is None else RowFile(output, seconds)
    processes = jobs or _processors()
    # Two for each worker: the next one is at hand when one is done.
    many = window or (2 * processes if executor is None else _WINDOW)
    return Sweep(asked, file, executor, processes, many, tries)
