"""Bounds-checked access to a FlatBuffer through the accessors that the `tflite` package generates.

Owns the proof that every offset, table, vector and string that is followed lies inside the file, and the limit on
how much of it is looked at. The FlatBuffers runtime for Python has no verifier: a wrong offset ends in `struct.error`,
wraps around to the end of the file, or has a four-billion-element vector iterated. Knows nothing of networks.

An accessor of the `tflite` package keeps its position in a `flatbuffers.table.Table`. `checked` swaps that table for
one whose every read is checked; accessors of nested tables must be passed through `checked` again.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
from flatbuffers import number_types
from flatbuffers.table import Table

from ..errors import ModelFormatError

IDENTIFIER = b"TFL3"
TOSA_IDENTIFIER = b"TOSA"
_OTHERS = {
    TOSA_IDENTIFIER: ": a TOSA file, which `frontend.read_model` reads and the reference evaluates; compile the "
    "TensorFlow Lite model of the network",
    IDENTIFIER: ": a TensorFlow Lite file, which `frontend.read_model` reads",
}
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
MAX_ENTRIES = 1 << 16
"""Most entries of a list of tables; the largest networks for microcontrollers have a few thousand."""
# Bytes that a table is charged beyond its vectors, and how often the file may be read over: sharing is legal in a
# FlatBuffer, but a small file whose million entries all point to one long vector is an attack.
_TABLE_COST = 16
_REREADS = 16
_FREE_BYTES = 1 << 20


class Ledger:
    """Counts the bytes that were looked at, so that reading stays linear in the size of the file."""

    def __init__(self, file_bytes: int) -> None:
        self._left = _FREE_BYTES + _REREADS * file_bytes

    def charge(self, size_bytes: int, place: str) -> None:
        """Account for `size_bytes`; raises `ModelFormatError` when the file refers to the same bytes too often."""
        self._left -= size_bytes
        if self._left < 0:
            raise ModelFormatError(
                f"{place}: the file refers to the same data so often that reading it would not end; "
                f"it is damaged or made to do harm",
                value=size_bytes,
            )


class CheckedTable(Table):  # type: ignore[misc]
    """A `flatbuffers.table.Table` that reads nothing outside the file. Method names are the runtime's.

    Every method raises `ModelFormatError` with `place` in its message.
    """

    __slots__ = ("_fields", "_fields_bytes", "ledger", "place")

    def __init__(self, data: bytes, position: int, place: str, ledger: Ledger) -> None:
        super().__init__(data, position)
        self.place = place
        self.ledger = ledger
        self._fields, self._fields_bytes = self._vtable()
        ledger.charge(_TABLE_COST, place)

    def fail(self, what: str, value: int) -> ModelFormatError:
        """The error for a broken reference in this table."""
        return ModelFormatError(
            f"{self.place}: {what} {value} lies outside the file ({len(self.Bytes)} bytes); "
            f"the file is damaged or truncated",
            value=value,
            constraint="references inside the file",
        )

    def _unpack(self, packer: struct.Struct, offset: int) -> Any:
        if not 0 <= offset <= len(self.Bytes) - packer.size:
            raise self.fail("offset", offset)
        return packer.unpack_from(self.Bytes, offset)[0]

    def _vtable(self) -> tuple[int, int]:
        start = self.Pos - self._unpack(_I32, self.Pos)
        size = self._unpack(_U16, start)
        if size < 4 or size % 2 or start + size > len(self.Bytes):
            raise self.fail(f"a field list of {size} bytes at", start)
        return start, size

    def Offset(self, vtable_offset: int) -> int:
        """Offset of a field from the table's start, 0 if absent."""
        if vtable_offset + 2 > self._fields_bytes:
            return 0
        return int(_U16.unpack_from(self.Bytes, self._fields + vtable_offset)[0])

    def Indirect(self, off: int) -> int:
        """The place to which the reference at `off` points."""
        target = off + int(self._unpack(_U32, off))
        if target >= len(self.Bytes):
            raise self.fail("a reference to byte", target)
        return target

    def _extent(self, off: int) -> tuple[int, int]:
        target = self.Indirect(off)
        return target + 4, int(self._unpack(_U32, target))

    def String(self, off: int) -> bytes:
        """The bytes of a string."""
        start, length = self._extent(off)
        if length > len(self.Bytes) - start:
            raise self.fail(f"a string of {length} bytes at", start)
        self.ledger.charge(length, self.place)
        return bytes(self.Bytes[start : start + length])

    def VectorLen(self, off: int) -> int:
        """Number of elements; elements have at least one byte each, so more than the file holds cannot be."""
        start, length = self._extent(off + self.Pos)
        if length > len(self.Bytes) - start:
            raise self.fail(f"a vector of {length} elements at", start)
        return length

    def Vector(self, off: int) -> int:
        """Where the elements start."""
        return self.Indirect(off + self.Pos) + 4

    def Union(self, t2: Table, off: int) -> None:
        """Point `t2` to the union's table."""
        t2.Pos = self.Indirect(off + self.Pos)
        t2.Bytes = self.Bytes

    def Get(self, flags: Any, off: int) -> Any:
        """A scalar."""
        return flags.py_type(self._unpack(flags.packer_type, off))

    def GetVectorAsNumpy(self, flags: Any, off: int) -> npt.NDArray[Any]:
        """A vector of scalars, as a read-only view of the file. Bytes are not charged: no loop walks over them."""
        start, length = self._extent(off + self.Pos)
        dtype = np.dtype(number_types.to_numpy_type(flags)).newbyteorder("<")
        if length * dtype.itemsize > len(self.Bytes) - start:
            raise self.fail(f"a vector of {length} {dtype.name} elements at", start)
        if dtype.itemsize > 1:
            self.ledger.charge(length * dtype.itemsize, self.place)
        return np.frombuffer(self.Bytes, dtype, length, start)


def checked(accessor: Any, place: str, ledger: Ledger) -> Any:
    """Make an accessor of the `tflite` package safe: its reads are verified from here on. Returns the accessor."""
    raw = accessor._tab
    accessor._tab = CheckedTable(raw.Bytes, raw.Pos, place, ledger)
    return accessor


def root_position(data: bytes, identifier: bytes, family: str) -> int:
    """Where the root table of a file stands.

    Raises `ModelFormatError` for a file too short, without the `identifier` of its `family`, or with a root outside.
    """
    if len(data) < 8:
        raise ModelFormatError(f"the model has {len(data)} bytes: too short for a {family} file", value=len(data))
    if data[4:8] != identifier:
        known = _OTHERS.get(data[4:8], "")
        raise ModelFormatError(
            f"the model does not carry the identifier '{identifier.decode()}' of {family} files; bytes 4 to 7 are "
            f"{data[4:8]!r}{known}",
            value=data[4:8],
        )
    root = int(_U32.unpack_from(data, 0)[0])
    if root > len(data) - 4:
        raise ModelFormatError(
            f"the model's root is at byte {root}, the file has {len(data)}; it is damaged or truncated", value=root
        )
    return root


def open_root(accessor_type: Any, data: bytes, ledger: Ledger) -> Any:
    """The file's root table as a checked accessor.

    Raises `ModelFormatError` for a file too short, without the "TFL3" identifier, or with a root outside.
    """
    root = root_position(data, IDENTIFIER, "TensorFlow Lite")
    accessor = accessor_type()
    accessor.Init(data, root)
    return checked(accessor, "model", ledger)


def children(parent: Any, field: str, place: str, limit: int, ledger: Ledger) -> list[Any]:
    """All tables of a vector field as checked accessors; `place` names one of them ("operator 3").

    Raises `ModelFormatError` where one lies outside the file or where there are more than `limit`.
    """
    count = getattr(parent, f"{field}Length")()
    if count > limit:
        raise ModelFormatError(
            f"{parent._tab.place}: {count} entries in '{field.lower()}'; ethoscade reads at most {limit}", value=count
        )
    get = getattr(parent, field)
    return [checked(get(i), f"{place} {i}", ledger) for i in range(count)]


def integers(accessor: Any, field: str) -> list[int]:
    """A vector field of integers as Python ints; an absent one is empty."""
    vector = getattr(accessor, f"{field}AsNumpy")()
    return [] if isinstance(vector, int) else list(map(int, vector.tolist()))


def union(operator: Any, accessor_type: Any, place: str, ledger: Ledger) -> Any | None:
    """The operator's options as a checked `accessor_type`, None if there are none."""
    raw = operator.BuiltinOptions()
    if raw is None:
        return None
    accessor = accessor_type()
    accessor.Init(raw.Bytes, raw.Pos)
    return checked(accessor, place, ledger)
