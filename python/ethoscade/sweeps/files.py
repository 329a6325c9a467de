"""Rows on the disk, as they come: CSV, or Parquet by way of a CSV journal beside it. The only file that knows pyarrow.

Owns that a stop at any moment loses no answer that was written: rows are appended in whole lines, a line that was cut
is left out when the file is opened again, and so is an answer of which points are missing. At the end the rows are
sorted and the file is written again, so that its bytes tell nothing of the order in which they came. Rows of questions
that a later sweep does not ask stay.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from ..errors import CodegenError, ConfigError
from ..util.files import read_whole, write_whole
from .rows import COLUMNS, SweepRow, cells_of, column_names, merged, row_from

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]

_MOST_BYTES = 1 << 32
SUFFIXES = (".csv", ".parquet")
_JOURNAL = ".rows"


class RowFile:
    """A file of rows that is added to: `known` are the answers that are in it, `add` appends, `finish` sorts.

    For use in a `with` statement, which holds the file against other sweeps.
    """

    def __init__(self, path: str | os.PathLike[str], with_seconds: bool = False) -> None:
        """Opens nothing. Raises `ConfigError` for another suffix than .csv and .parquet, or without pyarrow."""
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise ConfigError(f"rows go to a file that ends in {' or '.join(SUFFIXES)}, and not to '{self.path}'")
        self._is_parquet = self.path.suffix == ".parquet"
        if self._is_parquet:
            _pyarrow()
        self.journal = self.path.with_name(self.path.name + _JOURNAL) if self._is_parquet else self.path
        self._with_seconds = with_seconds
        self._stream: BinaryIO | None = None
        self.known: dict[str, tuple[SweepRow, ...]] = {}

    def __enter__(self) -> RowFile:
        """Reads what is there, and repairs it. Raises `ConfigError` for what no sweep has written."""
        self._stream = self._held()
        try:
            rows = _read_parquet(self.path) if self._is_parquet and self.path.exists() else []
            found, is_sound = _read_csv(self.journal, column_names(self._with_seconds))
            kept = merged([*rows, *found])
            if rows or not is_sound:
                write_whole(self.journal, _csv(kept, self._with_seconds))
                self._stream.close()
                self._stream = self._held()
        except BaseException:
            self._stream.close()
            if self._is_parquet and not self.journal.stat().st_size:
                self.journal.unlink()
            raise
        answers: dict[str, list[SweepRow]] = {}
        for row in kept:
            first = answers.setdefault(row.question, [row])[0]
            if row is not first and row.model == first.model:
                answers[row.question].append(row)
        self.known = {question: tuple(of) for question, of in answers.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def add(self, rows: Iterable[SweepRow]) -> None:
        """Append an answer. Raises `CodegenError` where the disk is full."""
        assert self._stream is not None, "rows are added between entering and leaving"
        try:
            self._stream.write(_lines(rows, self._with_seconds))
            self._stream.flush()
        except OSError as error:
            raise CodegenError(f"cannot write '{self.journal}': {error.strerror or error}") from error

    def finish(self) -> None:
        """Write all rows that are there, sorted."""
        rows = merged(_read_csv(self.journal, column_names(self._with_seconds))[0])
        if self._is_parquet:
            write_whole(self.path, _parquet(rows, self._with_seconds))
            self.journal.unlink()
        else:
            write_whole(self.path, _csv(rows, self._with_seconds))

    def _held(self) -> BinaryIO:
        """The journal, open for appending and held against others."""
        while True:
            try:
                self.journal.parent.mkdir(parents=True, exist_ok=True)
                stream = open(self.journal, "ab")  # noqa: SIM115 - it stays open until the sweep ends
            except OSError as error:
                raise CodegenError(f"cannot write '{self.journal}': {error.strerror or error}") from error
            try:
                if fcntl is not None:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.close()
                raise ConfigError(f"another sweep writes '{self.path}': wait for it, or end it") from None
            except OSError:
                return stream  # some network drives have no locks
            # Whoever held it before may have put another file in its place.
            if self.journal.exists() and os.path.samestat(os.fstat(stream.fileno()), os.stat(self.journal)):
                return stream
            stream.close()


def _lines(rows: Iterable[SweepRow], with_seconds: bool) -> bytes:
    return _text(cells_of(row, with_seconds) for row in rows)


def _csv(rows: Iterable[SweepRow], with_seconds: bool) -> bytes:
    return _text([column_names(with_seconds)]) + _lines(rows, with_seconds)


def _text(lines: Iterable[Sequence[str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(lines)
    return stream.getvalue().encode()


def _read_csv(path: Path, wanted: Sequence[str]) -> tuple[list[SweepRow], bool]:
    """The rows of a file and whether it has the columns that are wanted and no damage.

    What a stop has cut is no row. Raises `ConfigError` for a file that is not of a sweep.
    """
    data = read_whole(path, _MOST_BYTES)
    *lines, rest = data.split(b"\n")
    heads = [column_names(with_seconds) for with_seconds in (False, True)]
    if not lines and any(_text([head]).startswith(rest) for head in heads):
        return [], False
    names = next((head for head in heads if lines and _text([head]) == lines[0] + b"\n"), None)
    if names is None:
        raise ConfigError(f"'{path}' has no rows of a sweep: its first line is {lines[0] if lines else rest!r:.100}")
    rows: list[SweepRow] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            rows.append(row_from(names, _cells(line)))
        except ValueError as error:
            if number == len(lines):
                return rows, False
            raise ConfigError(f"'{path}', line {number}, is no row of a sweep: {error}") from error
    return rows, not rest and names == list(wanted)


def _cells(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise ConfigError('Parquet needs pyarrow: pip install "ethoscade[parquet]", or name a .csv file') from None
    return pa


def _parquet(rows: Sequence[SweepRow], with_seconds: bool) -> bytes:
    arrow = _pyarrow()
    kinds = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    names = column_names(with_seconds)
    columns = [arrow.array([getattr(row, name) for row in rows], kinds[COLUMNS[name]]) for name in names]
    stream = io.BytesIO()
    arrow.parquet.write_table(arrow.table(columns, names=names), stream, compression="zstd")
    return stream.getvalue()


def _read_parquet(path: Path) -> list[SweepRow]:
    arrow = _pyarrow()
    try:
        table = arrow.parquet.read_table(io.BytesIO(read_whole(path, _MOST_BYTES)))
        return [SweepRow(**of) for of in table.to_pylist()]
    except (arrow.ArrowException, TypeError, OSError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"'{path}' has no rows of a sweep: {said:.100}") from error
