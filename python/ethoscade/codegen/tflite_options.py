"""Copies an operator's option table from one TFLite file into another, or tells it, for every kind of operator.

Owns the walk over the generated classes of the `tflite` package. Knows no single operator: fields are found by their
builder functions (`<Table>Add<Field>`), so a newer package brings newer operators by itself. What cannot be copied
(a table inside a table) is refused by name, never dropped.
"""

from __future__ import annotations

import re
from functools import cache
from types import ModuleType
from typing import Any

import flatbuffers
import numpy as np

from ..errors import CodegenError
from ..frontend.flatbuffer import Ledger, checked
from ..ir import schema


def copy_options(
    builder: flatbuffers.Builder, union: str, option_type: int, table: Any, operator: str, ledger: Ledger
) -> int | None:
    """Write the option table that an operator's union field points to; return its offset in `builder`.

    `union` is "BuiltinOptions" or "BuiltinOptions2", `option_type` the union's discriminator, `table` the raw table
    that the operator's accessor gave. None if there is nothing to copy. Raises `CodegenError` naming `operator`
    and what the installed package does not know, `ModelFormatError` for a table that is damaged.
    """
    found = _opened(union, option_type, table, operator, ledger)
    if found is None:
        return None
    name, source = found
    module = schema.module(name)
    values = {field: _read(builder, module, name, source, field, operator) for field in _fields(name)}
    getattr(module, f"{name}Start")(builder)
    for field, value in values.items():
        if value is not None:
            getattr(module, f"{name}Add{field}")(builder, value)
    return int(getattr(module, f"{name}End")(builder))


def told_options(
    union: str, option_type: int, table: Any, operator: str, ledger: Ledger
) -> tuple[str, dict[str, Any]] | None:
    """The name of the option table that an operator's union field points to, and its fields by the schema's names.

    Arguments and errors as for `copy_options`; None if there is no table. Vectors are lists, absent ones None.
    """
    found = _opened(union, option_type, table, operator, ledger)
    if found is None:
        return None
    name, source = found
    module = schema.module(name)
    values = {field: _value(module, name, source, field, operator) for field in _fields(name)}
    return name, {field: value.tolist() if isinstance(value, np.ndarray) else value for field, value in values.items()}


def _opened(union: str, option_type: int, table: Any, operator: str, ledger: Ledger) -> tuple[str, Any] | None:
    """The name of an option table and its accessor."""
    if option_type == 0 or table is None:
        return None
    name = _union_names(union).get(option_type)
    if name is None:
        raise CodegenError(
            f"operator '{operator}' has options of kind {option_type} in {union}, which the installed 'tflite' package "
            f"does not know; a newer one may"
        )
    source = getattr(schema.module(name), name)()
    source.Init(table.Bytes, table.Pos)
    checked(source, f"options of operator '{operator}'", ledger)
    return name, source


@cache
def _union_names(union: str) -> dict[int, str]:
    members = vars(getattr(schema.module(union), union))
    return {value: name for name, value in members.items() if isinstance(value, int) and not name.startswith("_")}


@cache
def _fields(name: str) -> tuple[str, ...]:
    module = schema.module(name)
    pattern = re.compile(rf"^{name}Add(\w+)$")
    return tuple(sorted(match.group(1) for word in vars(module) if (match := pattern.match(word))))


def _read(builder: flatbuffers.Builder, module: ModuleType, name: str, source: Any, field: str, operator: str) -> Any:
    """The value to hand to the builder function of `field`: a scalar, or the offset of a vector or a string."""
    value = _value(module, name, source, field, operator)
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    return builder.CreateString(value) if isinstance(value, bytes) else value


def _value(module: ModuleType, name: str, source: Any, field: str, operator: str) -> Any:
    """What a field holds: a scalar, bytes of a string, an array of a vector, None of what is not there."""
    if hasattr(module, f"{name}Start{field}Vector"):
        if getattr(source, f"{field}IsNone")():
            return None
        if not hasattr(source, f"{field}AsNumpy"):
            raise _refusal(operator, name, field)
        return np.asarray(getattr(source, f"{field}AsNumpy")())
    value = getattr(source, field)()
    if value is None or isinstance(value, bytes | int | float | np.generic):
        return value
    raise _refusal(operator, name, field)


def _refusal(operator: str, name: str, field: str) -> CodegenError:
    return CodegenError(
        f"operator '{operator}' stays on the CPU, but field '{field}' of its {name} is a table, which cannot be copied "
        f"into the compiled file"
    )
