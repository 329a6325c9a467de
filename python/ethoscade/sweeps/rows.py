"""What a sweep answers: one row for each question, or for each point of a frontier, and rows as text.

Owns the columns, their order and types, the order of rows, and which rows of several runs stand. Knows no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, fields
from typing import Any

from ..errors import (
    BudgetError,
    CodegenError,
    ConfigError,
    ModelFormatError,
    SchedulingError,
    SimulationError,
    UnsupportedOperatorError,
)
from ..util.records import dataclass
from .questions import BALANCED, FASTEST, FLOOR, FRONTIER, Inquiry

# What the same question comes to on every machine; anything else may end otherwise the next time.
_SETTLED = {
    kind.__name__
    for kind in (
        BudgetError, CodegenError, ConfigError, ModelFormatError, SchedulingError, SimulationError,
        UnsupportedOperatorError,
    )
}  # fmt: skip


@dataclass(frozen=True)
class SweepRow:
    """One answer of a sweep. Sizes are bytes; what is not known is None, and where there is an `error` nearly all is.

    `target` is what the rows of one target have in common. `budget` is in bytes, or one of `BUDGET_WORDS`; a
    frontier has `points` rows of which this is number `point`, any other answer one. `milliseconds` are the NPU's
    alone, at the configuration's clock. A frontier has no `flash_bytes`: no code is generated for its points.
    `floor_bytes` is the least SRAM that was found; of "fastest" and of a large budget in bytes an upper bound
    (`Curve.floor_is_bound`). `error` is the name of a type and `message` one sentence. `question` is the hash of all
    that the answer depends on. `seconds` is the time that the answer took, which no two runs agree on, and makes rows
    no different.
    """

    model: str
    model_sha256: str
    target: str
    accelerator: str
    system_config: str
    memory_mode: str
    budget: str
    point: int
    points: int
    sram_bytes: int | None
    cycles: int | None
    milliseconds: float | None
    flash_bytes: int | None
    npu_operators: int | None
    cpu_operators: int | None
    floor_bytes: int | None
    error: str
    message: str
    options: str
    version: str
    question: str
    seconds: float | None = field(default=None, compare=False)

    @property
    def is_settled(self) -> bool:
        """Whether asking again would give the same: not after a time-out, a lost worker or a file that is not there."""
        return bool(self.model_sha256) and (not self.error or self.error in _SETTLED)


def _kind(annotation: str) -> type:
    return next(kind for kind in (int, float, str) if annotation.startswith(kind.__name__))


COLUMNS: dict[str, type] = {of.name: _kind(str(of.type)) for of in fields(SweepRow)}
"""The columns of a row in their order, with the types of what is in them."""


def row_of(inquiry: Inquiry, budget: str, **found: Any) -> SweepRow:
    """A row of a query batch: `found` are the columns that are known, None or "" the others."""
    target = inquiry.target.target
    cells: dict[str, Any] = {name: "" if kind is str else None for name, kind in COLUMNS.items()}
    cells |= {
        "model": inquiry.model,
        "model_sha256": inquiry.model_sha256,
        "target": inquiry.target.name,
        "accelerator": target.accelerator.name,
        "system_config": target.system_config,
        "memory_mode": target.memory_mode,
        "budget": budget,
        "point": 1,
        "points": 1,
        "options": str(inquiry.options),
        "version": inquiry.version,
        "question": inquiry.question(budget),
        **found,
    }
    cells = {name: plain(value) if isinstance(value, str) else value for name, value in cells.items()}
    return SweepRow(**cells)


def failed(inquiry: Inquiry, budget: str, error: BaseException, seconds: float | None = None) -> SweepRow:
    """The row of a question that an error answers."""
    floor = error.floor_bytes if isinstance(error, BudgetError) else None
    message = " ".join(str(error).split())
    return row_of(inquiry, budget, error=type(error).__name__, message=message, floor_bytes=floor, seconds=seconds)


def plain(text: str) -> str:
    """The text on one line, in characters that every file can spell."""
    spelled = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", lambda found: ascii(found[0])[1:-1], spelled)


def cells_of(row: SweepRow, with_seconds: bool) -> list[str]:
    """The row as text, a cell for each column; empty for None."""
    values = [getattr(row, name) for name in column_names(with_seconds)]
    return ["" if value is None else repr(value) if isinstance(value, float) else str(value) for value in values]


def column_names(with_seconds: bool) -> list[str]:
    """The columns of a file, that of seconds only where it is wanted."""
    return [name for name in COLUMNS if with_seconds or name != "seconds"]


def row_from(names: Sequence[str], cells: Sequence[str]) -> SweepRow:
    """The row that `cells_of` made text of. Raises `ValueError` for anything else."""
    given = dict(zip(names, cells, strict=True))
    found = {name: _value(kind, given[name]) for name, kind in COLUMNS.items() if name in given}
    row = SweepRow(**found)
    if [str(getattr(row, name)) for name in ("point", "points")] != [given["point"], given["points"]]:
        raise ValueError("a point has no number")
    return row


def _value(kind: type, cell: str) -> Any:
    return cell if kind is str else kind(cell) if cell else None


def answers_among(rows: Iterable[SweepRow]) -> Iterator[tuple[SweepRow, ...]]:
    """The answers that are whole: runs of rows of one question in which no point is missing."""
    run: list[SweepRow] = []
    for row in rows:
        follows = run and (row.model, row.question, row.points) == (run[0].model, run[0].question, run[0].points)
        if not (follows and row.point == len(run) + 1):
            run = []
        if row.point == len(run) + 1:
            run.append(row)
            if row.point == row.points:
                yield tuple(run)
                run = []


def merged(rows: Iterable[SweepRow]) -> list[SweepRow]:
    """Of each model and question the last whole answer, sorted: the same whatever the order in which they came."""
    last = {(answer[0].model, answer[0].question): answer for answer in answers_among(rows)}
    return sorted((row for answer in last.values() for row in answer), key=_place_of)


def _place_of(row: SweepRow) -> tuple[Any, ...]:
    """By model, target and budget, the floor first and the whole frontier last; numbers in names by their values."""
    size = int(row.budget) if row.budget.isdecimal() else 0
    budget = {FLOOR: 0, BALANCED: 2, FASTEST: 3, FRONTIER: 4}.get(row.budget, 1)
    names = (_natural(row.model), row.model, row.model_sha256, _natural(row.target), row.target)
    return (*names, budget, size, row.options, row.version, row.question, row.point)


def _natural(text: str) -> list[tuple[int, str]]:
    """A key by which "u55-64" comes before "u55-128"."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", text)]
