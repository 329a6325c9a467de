"""Which operator an operator code of a TFLite file means, by the schema's rule.

Owns that rule and its inverse. The kind is the larger of two fields: `deprecated_builtin_code` (int8), all that old
files fill, and `builtin_code` (int32), all that some new ones fill. The accessor of the `tflite` package for the second
returns the first wherever the second is below 127, which reads a file of the new kind as if it were all ADD; so the
fields are read here, from the table's own slots.
"""

from __future__ import annotations

from typing import Any

from flatbuffers import number_types

FIRST_NEW = 127
"""What the old field says of operators that it cannot express; the new field then says more than that."""
_DEPRECATED, _BUILTIN = 4 + 2 * 0, 4 + 2 * 3


def stored_codes(code: Any) -> tuple[int, int]:
    """The two fields of an `OperatorCode` accessor as the file has them, (deprecated, new); an absent one is 0."""
    return _slot(code, _DEPRECATED, number_types.Int8Flags), _slot(code, _BUILTIN, number_types.Int32Flags)


def builtin_code(code: Any) -> int | None:
    """The number of the builtin operator (32 for custom ones); None where the two fields together name none.

    They name none where both are negative, or where the old one defers to the new one and that says nothing.
    """
    number = max(stored_codes(code))
    return None if number < 0 or number == FIRST_NEW else number


def _slot(code: Any, entry: int, flags: Any) -> int:
    table = code._tab
    offset = table.Offset(entry)
    return int(table.Get(flags, offset + table.Pos)) if offset else 0
