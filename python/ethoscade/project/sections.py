"""The sections of an ELF file that take memory: names, places, sizes.

Owns the reading of section headers (System V ABI, "Section Header") of 32 and 64 bits, little endian, and nothing else.
"""

from __future__ import annotations

import struct
from pathlib import Path

from ..errors import ProjectError
from ..util.records import dataclass

_WRITE, _ALLOCATED, _CODE = 1, 2, 4
_NO_BITS = 8
# By class: the header's fields from byte 24 on, and those of a section.
_HEADERS = {1: struct.Struct("<IIIIHHHHHH"), 2: struct.Struct("<QQQIHHHHHH")}
_SECTIONS = {1: struct.Struct("<IIIIIIIIII"), 2: struct.Struct("<IIQQQQIIQQ")}


@dataclass(frozen=True)
class Section:
    """A section that is loaded or set aside. `kind` is "code", "constants", "data" or "zeroed" (or not initialised)."""

    name: str
    kind: str
    address: int
    size_bytes: int


def sections_of(path: Path) -> tuple[Section, ...]:
    """Those of an ELF file that take memory, by address. Raises `ProjectError` for what is no such file."""
    try:
        data = path.read_bytes()
        return _parsed(data)
    except OSError as error:
        raise ProjectError(f"cannot read '{path}': {error.strerror}") from error
    except (struct.error, KeyError, IndexError, ValueError) as error:
        raise ProjectError(f"'{path}' is no little-endian ELF file, or a damaged one") from error


def _parsed(data: bytes) -> tuple[Section, ...]:
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise ValueError
    bits = data[4]
    _, _, start, _, _, _, _, step, count, names_at = _HEADERS[bits].unpack_from(data, 24)
    rows = [_SECTIONS[bits].unpack_from(data, start + step * number) for number in range(count)]
    names = rows[names_at][4]
    found = []
    for name, kind, flags, address, _, size, *_ in rows:
        if flags & _ALLOCATED and size:
            end = data.index(b"\0", names + name)
            text = data[names + name : end].decode("ascii", errors="replace")
            what = (
                "zeroed" if kind == _NO_BITS else "code" if flags & _CODE else "data" if flags & _WRITE else "constants"
            )
            found.append(Section(text, what, address, size))
    return tuple(sorted(found, key=lambda section: section.address))
