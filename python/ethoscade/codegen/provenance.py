"""Which operator of the network each operation of a command stream came from, as a metadata entry of a .tflite file.

Owns the entry's name and format; writers and readers of files use it alike. Devices ignore the entry, and files without
it are as good.

The entry is UTF-8 JSON: `{"version": 1, "operators": [name, ...], "calls": [[index, ...], ...]}`. Each list of `calls`
belongs to one `ethos-u` operator of the file, in order, and holds an index into `operators` for each kernel and each
transfer of its stream, in order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..errors import ModelFormatError

ENTRY = "NpuOperators"
_VERSION = 1


def encode(calls: Sequence[Sequence[str]]) -> bytes:
    """The entry's bytes for the operators' names of each call, one per operation; the same for the same names."""
    names = list(dict.fromkeys(name for call in calls for name in call))
    index = {name: i for i, name in enumerate(names)}
    entry = {"version": _VERSION, "operators": names, "calls": [[index[name] for name in call] for call in calls]}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def short(calls: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The names for people to read: of TensorFlow's "first;second;..." the first part that no other name has."""
    names = list(dict.fromkeys(name for call in calls for name in call))
    users = Counter(part for name in names for part in {name, *name.split(";")})
    found = {name: next((p for p in name.split(";") if p and users[p] == 1), name) for name in names}
    return tuple(tuple(found[name] for name in call) for call in calls)


def decode(data: bytes) -> tuple[tuple[str, ...], ...]:
    """The names that `encode` was given. Raises `ModelFormatError` for bytes that are no such entry."""
    try:
        entry = json.loads(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"metadata '{ENTRY}' is not JSON: {error}") from None
    names, calls = _field(entry, "operators"), _field(entry, "calls")
    if entry.get("version") != _VERSION or not all(isinstance(name, str) for name in names):
        raise ModelFormatError(f"metadata '{ENTRY}' is not of version {_VERSION}: it needs names of operators")
    return tuple(tuple(names[_index(index, len(names))] for index in _list(call)) for call in calls)


def _field(entry: Any, key: str) -> list[Any]:
    return _list(entry.get(key) if isinstance(entry, dict) else None)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ModelFormatError(f"metadata '{ENTRY}' needs the lists 'operators' and 'calls', and lists in 'calls'")
    return value


def _index(value: Any, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ModelFormatError(f"metadata '{ENTRY}' names operator {str(value)[:40]}; it has {count}")
    return value
