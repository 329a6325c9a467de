"""Tables of a TOSA file by the numbers of their fields, every read inside the file.

Owns the way from a field's number to its value, over `flatbuffer.CheckedTable`. Knows no table in particular.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from flatbuffers import number_types

from ...errors import ModelFormatError
from ..flatbuffer import MAX_ENTRIES, TOSA_IDENTIFIER, CheckedTable, Ledger, root_position

_REFERENCE_BYTES = 4


class TableFields:
    """One table of the file. An absent field has the default; an absent list is empty.

    Every method raises `ModelFormatError` for a reference outside the file and for more than 65,536 entries.
    """

    def __init__(self, data: bytes, position: int, place: str, ledger: Ledger) -> None:
        self._table = CheckedTable(data, position, place, ledger)

    @property
    def place(self) -> str:
        """What the table is, in messages."""
        return self._table.place

    def integer(self, field: int, default: int = 0) -> int:
        """A 32-bit number with a sign."""
        return self._scalar(field, default, number_types.Int32Flags)

    def unsigned(self, field: int) -> int:
        """A 32-bit number without a sign: an enumeration."""
        return self._scalar(field, 0, number_types.Uint32Flags)

    def byte(self, field: int) -> int:
        """An 8-bit number without a sign: which table a union has."""
        return self._scalar(field, 0, number_types.Uint8Flags)

    def long(self, field: int) -> int:
        """A 64-bit number without a sign."""
        return self._scalar(field, 0, number_types.Uint64Flags)

    def flag(self, field: int, default: bool = False) -> bool:
        """A yes or no."""
        return bool(self._scalar(field, default, number_types.BoolFlags))

    def text(self, field: int) -> str:
        """A string; an absent one is empty."""
        offset = self._at(field)
        return _decoded(self._table.String(offset + self._table.Pos)) if offset else ""

    def texts(self, field: int) -> list[str]:
        """A list of strings."""
        return [_decoded(self._table.String(place)) for place in self._entries(field)]

    def numbers(self, field: int) -> list[int]:
        """A list of 32-bit numbers with a sign."""
        offset = self._at(field)
        return list(map(int, self._table.GetVectorAsNumpy(number_types.Int32Flags, offset))) if offset else []

    def bytes(self, field: int) -> npt.NDArray[np.uint8]:
        """A list of bytes, as a read-only view of the file."""
        offset = self._at(field)
        if not offset:
            return np.empty(0, np.uint8)
        found: npt.NDArray[np.uint8] = self._table.GetVectorAsNumpy(number_types.Uint8Flags, offset)
        return found

    def table(self, field: int, place: str) -> TableFields | None:
        """A nested table, called `place` in messages, None if it is absent."""
        offset = self._at(field)
        return self._nested(offset + self._table.Pos, place) if offset else None

    def tables(self, field: int, place: str) -> list[TableFields]:
        """A list of nested tables; `place` names one of them ("operator 3")."""
        return [self._nested(at, f"{place} {i}") for i, at in enumerate(self._entries(field))]

    def _at(self, field: int) -> int:
        return self._table.Offset(4 + 2 * field)

    def _scalar(self, field: int, default: int, flags: Any) -> int:
        offset = self._at(field)
        return int(self._table.Get(flags, offset + self._table.Pos)) if offset else default

    def _entries(self, field: int) -> range:
        """Where the references of a list stand."""
        offset = self._at(field)
        if not offset:
            return range(0)
        count, start = self._table.VectorLen(offset), self._table.Vector(offset)
        if count > MAX_ENTRIES:
            raise ModelFormatError(
                f"{self.place}: {count} entries in field {field}; ethoscade reads at most {MAX_ENTRIES}", value=count
            )
        return range(start, start + count * _REFERENCE_BYTES, _REFERENCE_BYTES)

    def _nested(self, at: int, place: str) -> TableFields:
        return TableFields(self._table.Bytes, self._table.Indirect(at), place, self._table.ledger)


def open_file(data: bytes) -> TableFields:
    """The root table. Raises `ModelFormatError` for a file too short, without "TOSA", or with a root outside."""
    return TableFields(data, root_position(data, TOSA_IDENTIFIER, "TOSA"), "model", Ledger(len(data)))


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
