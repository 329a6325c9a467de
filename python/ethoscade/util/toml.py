"""TOML files that people write, read so that every complaint has its line and its key.

Owns the reading and the wording. What the keys mean is for those who ask for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..errors import ConfigError
from .arguments import exactly, number_of, shown
from .files import read_whole
from .sizes import parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1 << 16

# The keys from a file's top to a value; numbers count the entries of arrays.
_Place = tuple["str | int", ...]


@dataclass(frozen=True)
class TomlTable:
    """A table of a file: its values by key, each asked for once by code that knows what it means.

    `place` is where it is in `text`, the file called `name`. All that is wrong is a `ConfigError` that names file, line
    and key.
    """

    name: str
    text: str
    values: Mapping[str, Any]
    place: _Place = ()
    _asked: set[str] = field(default_factory=set, repr=False, compare=False)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def wrong(self, key: str, what: str) -> ConfigError:
        """The complaint about a key, at its line; about one that is missing, at its table's."""
        return ConfigError(f"{self.name}, line {self.line_of((key,))}: {self._called(key)} {what}")

    def line_of(self, place: tuple[str | int, ...]) -> int:
        """The line of what is at `place` below this table, or of the innermost there is of it."""
        return _line_of(self.text, (*self.place, *place))

    def string(self, key: str, default: str | None = None) -> str:
        """A text. Without a `default` it must be there."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {shown(value)}; it must be a text")
        return value

    def number(self, key: str, default: Fraction | int | None = None) -> Fraction:
        """An exact number: 8, 0.5 (the decimal that is written), or "1/3" as a text."""
        value = self._value(key, default)
        found = number_of(value) if isinstance(value, str) else exactly(value)
        if found is None:
            raise self.wrong(key, f'is {shown(value)}; it must be a number such as 8, 0.5 or "1/3"')
        return found

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"is {shown(value)}; it must be a whole number")
        return value

    def wholes(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """An array of whole numbers."""
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)) or any(isinstance(v, bool) or not isinstance(v, int) for v in value):
            raise self.wrong(key, f"is {shown(value)}; it must be an array of whole numbers")
        return tuple(value)

    def size(self, key: str) -> int:
        """Bytes: a whole number, or a text such as "512KiB"."""
        value = self._value(key, None)
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise self.wrong(key, f'is {shown(value)}; it must be a size such as "512KiB", or bytes')
        try:
            return parse_size(value)
        except ConfigError as error:
            raise self.wrong(key, f"is wrong: {error}") from None

    def strings(self, key: str, default: Iterable[str] | None = None) -> tuple[str, ...]:
        """An array of texts; a text alone is an array of one."""
        value = self._value(key, default)
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            raise self.wrong(key, f"is {shown(value)}; it must be a text, or an array of texts")
        return tuple(items)

    def table(self, key: str) -> TomlTable:
        """A table inside this one."""
        return self._inner(key, self._value(key, None), (*self.place, key))

    def tables(self, key: str) -> tuple[TomlTable, ...]:
        """An array of tables (`[[key]]`)."""
        value = self._value(key, None)
        if not isinstance(value, list):
            raise self.wrong(key, f"is {shown(value)}; it must be an array of tables, [[{key}]]")
        return tuple(self._inner(key, item, (*self.place, key, number)) for number, item in enumerate(value))

    def of_each(self) -> tuple[str, ...]:
        """All keys, by which the caller means to ask."""
        return tuple(self.values)

    def end(self) -> None:
        """Nothing more is asked: refuses unknown keys."""
        for key in self.values:
            if key not in self._asked:
                raise self.wrong(key, f"is not known here; known are {', '.join(sorted(self._asked))}")

    def _value(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self.values.get(key, default)
        if value is None:
            raise self.wrong(key, "is missing")
        return value

    def _inner(self, key: str, value: Any, place: _Place) -> TomlTable:
        if not isinstance(value, dict):
            raise self.wrong(key, f"is {shown(value)}; it must be a table")
        return TomlTable(self.name, self.text, value, place)

    def _called(self, key: str) -> str:
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*self.place, key)]
        return f"'{''.join(parts).removeprefix('.')}'"


def read_toml(path: str | os.PathLike[str]) -> TomlTable:
    """The top of a TOML file. Raises `ConfigError` with the line at which it is none."""
    data = read_whole(path, _MOST_BYTES)
    name = os.fspath(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{name}, line {line}: this is no UTF-8, so no TOML file") from None
    return parse_toml(text, name)


def parse_toml(text: str, name: str) -> TomlTable:
    """The top of a TOML file's text; `name` is what it is called in complaints."""
    text = text.replace("\r\n", "\n")
    try:
        return TomlTable(name, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: this is no TOML file: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: this is no TOML file: its values are too deep in each other") from None


def _line_of(text: str, place: _Place) -> int:
    """The line at which the value at `place` is written, counted from 1; of one that is missing, what it would be in.

    That is where the file, cut off behind a line, has it for the first time. Statements of several lines make no
    sense while they are cut, so their first line is the one behind the last cut that did.
    """
    lines = text.split("\n")
    found, begins = _lines_written(lines, place), 1
    while found is None and place:
        place = place[:-1]
        found = _lines_written(lines, place)
    if found is not None:
        begins, ends = found
        while begins < ends and (not lines[begins - 1].strip() or lines[begins - 1].lstrip().startswith("#")):
            begins += 1
    return begins


def _lines_written(lines: list[str], place: _Place) -> tuple[int, int] | None:
    """The first line after the last cut without the value, and the last line of the first cut that has it."""
    begins = 1
    for end in range(1, len(lines) + 1):
        try:
            value: Any = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for key in place:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                break
        else:
            return begins, end
        begins = end + 1
    return None
