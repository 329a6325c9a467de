"""Files of buffers in MiniMalloc's format: `id,lower,upper,size[,alignment][,gaps][,offset]`, columns in any order.

Lifetimes are half-open; a column `end` instead of `upper` is inclusive, for gaps too. A gap is `lower-upper` or, when
the bytes [low, high) stay in use, `lower-upper@low:high`; several are separated by blanks. An offset pins the buffer.

Columns beyond MiniMalloc's: `conflicts` lists ids, `shares` ids that may be overlapped, as `id` for the same address or
`id@low:high` for a range of differences of offsets in bytes, `pools` names of pools, the preferred one first, `access`
is `target:ro` or `target:rw`, and `pin` is a fixed offset in the first pool. Where there is a column `pin`, offsets are
a former answer and pin nothing. Names in lists write a blank as %20 and each of % @ : by its code too: %25 %40 %3A.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar
from urllib.parse import unquote

from ..errors import CodegenError, ConfigError
from ..util.arguments import checked
from ..util.files import read_whole, write_whole
from .model import Buffer, Gap, Share

_SYNONYMS = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower"}
_REQUIRED = ("id", "lower", "upper", "size")
_COLUMNS = (*_REQUIRED, "alignment", "gaps", "conflicts", "shares", "pools", "access", "pin", "offset")
_MOST_BYTES = 1 << 30
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_SHARE = re.compile(r"([^@:]+)(?:@([+-]?[0-9]{1,30}):([+-]?[0-9]{1,30}))?")
_ACCESS = re.compile(r"([^@:]+):(ro|rw)")
_ESCAPED = re.compile(r"[\s%@:]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_GAP = re.compile(r"(-?[0-9]{1,30})-(-?[0-9]{1,30})(?:@([0-9]{1,30}):([0-9]{1,30}))?")

_T = TypeVar("_T")


@checked()
def read_csv(path: str | os.PathLike[str]) -> tuple[Buffer, ...]:
    """Reads the buffers of a file. Raises `ConfigError` that names the file and, where known, line and column."""
    try:
        text = read_whole(path, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot read this file of buffers: {error}") from error
    return _CsvReader(os.fspath(path)).read(text)


@checked()
def write_csv(
    path: str | os.PathLike[str],
    buffers: Sequence[Buffer],
    offsets: Iterable[int] | None = None,
    pool_of: Iterable[str] | None = None,
) -> None:
    """Writes buffers and, when given, their offsets; optional columns only where some buffer needs them.

    Without `offsets` the buffers' own pins are written as offsets, if any; with them, pins have a column of their own.
    `pool_of` says by buffer in which pool it lies: that one is then written first. Folders that are not there are made.
    Raises `ConfigError` when the file cannot be written.
    """
    pins = [buffer.offset for buffer in buffers]
    placed = pins if offsets is None else list(offsets)
    pools = [buffer.pools for buffer in buffers]
    if pool_of is not None:
        lying = list(pool_of)
        if len(lying) != len(buffers):
            raise ConfigError(f"{os.fspath(path)}: {len(lying)} pools for {len(buffers)} buffers")
        pools = [(at, *(name for name in names if name != at)) for at, names in zip(lying, pools, strict=True)]
    if len(placed) != len(buffers):
        raise ConfigError(f"{os.fspath(path)}: {len(placed)} offsets for {len(buffers)} buffers")
    optional: tuple[tuple[str, list[str]], ...] = (
        ("alignment", ["" if buffer.alignment == 1 else str(buffer.alignment) for buffer in buffers]),
        ("gaps", [" ".join(map(_write_gap, buffer.gaps)) for buffer in buffers]),
        ("conflicts", [" ".join(map(_write_name, buffer.conflicts)) for buffer in buffers]),
        ("shares", [" ".join(map(_write_share, buffer.shares)) for buffer in buffers]),
        ("pools", [" ".join(map(_write_name, names)) for names in pools]),
        ("access", [" ".join(f"{_write_name(who)}:{right}" for who, right in buffer.access) for buffer in buffers]),
        ("pin", ["" if pin is None or offsets is None else str(pin) for pin in pins]),
        ("offset", ["" if offset is None else str(offset) for offset in placed]),
    )
    columns: list[tuple[str, list[object]]] = [
        ("id", [buffer.name for buffer in buffers]),
        ("lower", [buffer.lower for buffer in buffers]),
        ("upper", [buffer.upper for buffer in buffers]),
        ("size", [buffer.size_bytes for buffer in buffers]),
    ]
    columns += [(name, [*values]) for name, values in optional if any(values) or (name == "offset" and offsets)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(name for name, _ in columns)
    writer.writerows(zip(*(values for _, values in columns), strict=True))
    try:
        write_whole(path, out.getvalue().encode("utf-8", "surrogateescape"))
    except CodegenError as error:
        raise ConfigError(f"{os.fspath(path)}: cannot write the placement: {error}") from error


def _write_name(name: str) -> str:
    return _ESCAPED.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def _write_share(share: Share) -> str:
    differences = "" if (share.low, share.high) == (0, 0) else f"@{share.low}:{share.high}"
    return _write_name(share.name) + differences


def _write_gap(gap: Gap) -> str:
    window = "" if gap.window is None else f"@{gap.window[0]}:{gap.window[1]}"
    return f"{gap.lower}-{gap.upper}{window}"


class _CsvReader:
    """Reads one file; remembers where it is, so that every complaint can say so."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.line = 1
        self.inclusive = 0
        self.columns: list[str] = []

    def read(self, text: str) -> tuple[Buffer, ...]:
        rows = csv.reader(io.StringIO(text), strict=True)
        buffers: list[Buffer] = []
        lines: dict[str, int] = {}
        try:
            for row in rows:
                self.line = rows.line_num
                if not any(field.strip() for field in row):
                    continue
                if not self.columns:
                    self._header([field.strip() for field in row])
                    continue
                buffer = self._buffer([field.strip() for field in row])
                first = lines.setdefault(buffer.name, self.line)
                if first != self.line:
                    self._refuse("id", buffer.name, f"is taken: line {first} has it too")
                buffers.append(buffer)
        except csv.Error as error:
            raise ConfigError(f"{self.file}:{self.line}: not a row of comma-separated values: {error}") from error
        if not self.columns:
            raise ConfigError(
                f"{self.file}: the file is empty; its first line must be a header such as id,lower,upper,size"
            )
        self._check_partners(buffers, lines)
        return tuple(buffers)

    def _check_partners(self, buffers: list[Buffer], lines: dict[str, int]) -> None:
        for buffer in buffers:
            for column, names in (("conflicts", buffer.conflicts), ("shares", [s.name for s in buffer.shares])):
                for name in names:
                    if name not in lines or name == buffer.name:
                        self.line = lines[buffer.name]
                        self._refuse(column, name, "is the id of no other buffer in this file")

    def _header(self, names: list[str]) -> None:
        if "end" in names:
            self.inclusive = 1
        self.columns = ["upper" if name == "end" else _SYNONYMS.get(name, name) for name in names]
        for name, column in zip(names, self.columns, strict=True):
            if column not in _COLUMNS:
                self._refuse(name, name, f"is not a column of this format: {','.join(_COLUMNS)}")
            if self.columns.count(column) > 1:
                self._refuse(name, name, f"is there twice (columns {', '.join(names)})")
        for column in _REQUIRED:
            if column not in self.columns:
                self._refuse(column, ",".join(names), f"lacks the column {column!r}")

    def _buffer(self, row: list[str]) -> Buffer:
        if len(row) != len(self.columns):
            column = self.columns[min(len(row), len(self.columns) - 1)]
            self._refuse(column, ",".join(row), f"has {len(row)} fields; the header has {len(self.columns)}")
        fields = dict(zip(self.columns, row, strict=True))
        if not fields["id"]:
            self._refuse("id", "", "is empty; every buffer needs a name")
        lower = self._integer("lower", fields["lower"])
        upper = self._integer("upper", fields["upper"]) + self.inclusive
        if upper < lower:
            self._refuse("upper", fields["upper"], f"is before the first step, {lower}")
        size = self._integer("size", fields["size"], least=0)
        alignment = self._integer("alignment", fields.get("alignment") or "1", least=1)
        offset = self._integer("offset", fields["offset"], least=0) if fields.get("offset") else None
        if "pin" in fields:
            offset = self._integer("pin", fields["pin"], least=0) if fields["pin"] else None
        try:
            return Buffer(
                fields["id"],
                lower,
                upper,
                size,
                alignment,
                offset=offset,
                gaps=self._gaps(fields.get("gaps", "")),
                conflicts=self._list(fields, "conflicts", self._name),
                shares=self._list(fields, "shares", self._share),
                pools=self._list(fields, "pools", self._name),
                access=self._list(fields, "access", self._access),
            )
        except ConfigError as error:
            if str(error).startswith(f"{self.file}:"):
                raise
            # Whatever is still wrong within one row concerns its gaps, its shares or the range of its numbers.
            raise ConfigError(f"{self.file}:{self.line}: {error}") from None

    def _gaps(self, field: str) -> tuple[Gap, ...]:
        gaps = []
        for word in field.split():
            found = _GAP.fullmatch(word)
            if found is None:
                self._refuse("gaps", word, "is no gap; write lower-upper or lower-upper@low:high")
            lower, upper, low, high = found.groups()
            window = None if low is None else (int(low), int(high))
            gaps.append(Gap(int(lower), int(upper) + self.inclusive, window))
        return tuple(gaps)

    def _list(self, fields: dict[str, str], column: str, read: Callable[[str, str], _T]) -> tuple[_T, ...]:
        return tuple(read(column, word) for word in fields.get(column, "").split())

    def _name(self, column: str, word: str) -> str:
        if _BAD_ESCAPE.search(word):
            self._refuse(column, word, "has a % that is not followed by two hexadecimal digits; write %25 for % itself")
        try:
            return unquote(word, errors="strict")
        except UnicodeDecodeError:
            self._refuse(column, word, "has codes behind % that are no UTF-8")

    def _share(self, column: str, word: str) -> Share:
        found = _SHARE.fullmatch(word)
        if found is None:
            self._refuse(column, word, "is no share; write id or id@low:high")
        name, low, high = found.groups()
        return Share(self._name(column, name), int(low or 0), int(high or 0))

    def _access(self, column: str, word: str) -> tuple[str, str]:
        found = _ACCESS.fullmatch(word)
        if found is None:
            self._refuse(column, word, "is no access; write target:ro or target:rw")
        return self._name(column, found[1]), found[2]

    def _integer(self, column: str, field: str, *, least: int | None = None) -> int:
        if _INTEGER.fullmatch(field) is None:
            self._refuse(column, field, "is not a whole number")
        value = int(field)
        if least is not None and value < least:
            self._refuse(column, field, f"is below the least, {least}")
        if not (-1 << 63 if least is None else 0) <= value < (1 << 63 if least is None else 1 << 60):
            self._refuse(column, field, "is too large")
        return value

    def _refuse(self, column: str, value: str, what: str) -> NoReturn:
        shown = "end" if column == "upper" and self.inclusive else column
        raise ConfigError(f"{self.file}:{self.line}: column {shown!r}: {value!r} {what}")
