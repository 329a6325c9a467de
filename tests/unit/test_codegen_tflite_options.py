"""The copier of option tables, on every table that the schema has."""

from __future__ import annotations

import importlib
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from ethoscade.codegen.tflite_options import _fields, _union_names, copy_options
from ethoscade.errors import CodegenError, ModelFormatError
from ethoscade.frontend.flatbuffer import Ledger

TABLES = [
    (union, kind, name)
    for union in ("BuiltinOptions", "BuiltinOptions2")
    for kind, name in _union_names(union).items()
    if kind
]


def filled(name: str) -> Any:
    """A table of this kind in which every scalar is 1."""
    module = importlib.import_module(f"tflite.{name}")
    empty = build(flatbuffers.Builder(0), module, name, {})
    scalars = [field for field in _fields(name) if not hasattr(module, f"{name}Start{field}Vector")]
    values = {field: 1 for field in scalars if isinstance(getattr(empty, field)(), int | float)}
    return build(flatbuffers.Builder(0), module, name, values)


def build(builder: flatbuffers.Builder, module: Any, name: str, values: dict[str, Any]) -> Any:
    getattr(module, f"{name}Start")(builder)
    for field, value in values.items():
        getattr(module, f"{name}Add{field}")(builder, value)
    builder.Finish(getattr(module, f"{name}End")(builder))
    return getattr(module, name).GetRootAs(builder.Output(), 0)


@pytest.mark.parametrize(("union", "kind", "name"), TABLES)
def test_scalars_of_every_table(union: str, kind: int, name: str) -> None:
    original = filled(name)
    builder = flatbuffers.Builder(0)
    offset = copy_options(builder, union, kind, original._tab, "op", Ledger(1 << 16))
    assert offset is not None
    builder.Finish(offset)
    copy = type(original).GetRootAs(builder.Output(), 0)
    for field in _fields(name):
        left = getattr(original, field, None)
        if left is not None and not hasattr(original, f"{field}Length"):
            assert left() == getattr(copy, field)(), field


def test_vectors_are_copied() -> None:
    builder = flatbuffers.Builder(0)
    shape = builder.CreateNumpyVector(np.array([3, -1, 7], np.int32))
    tflite.ReshapeOptionsStart(builder)
    tflite.ReshapeOptionsAddNewShape(builder, shape)
    builder.Finish(tflite.ReshapeOptionsEnd(builder))
    original = tflite.ReshapeOptions.GetRootAs(builder.Output(), 0)
    again = flatbuffers.Builder(0)
    again.Finish(
        copy_options(
            again, "BuiltinOptions", tflite.BuiltinOptions.ReshapeOptions, original._tab, "op", Ledger(1 << 16)
        )
    )
    assert tflite.ReshapeOptions.GetRootAs(again.Output(), 0).NewShapeAsNumpy().tolist() == [3, -1, 7]


def test_nothing_to_copy() -> None:
    assert copy_options(flatbuffers.Builder(0), "BuiltinOptions", 0, None, "op", Ledger(0)) is None


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(CodegenError, match=r"'op' has options of kind 250"):
        copy_options(flatbuffers.Builder(0), "BuiltinOptions", 250, object(), "op", Ledger(0))


def test_a_damaged_table_is_refused() -> None:
    """What stays on the CPU is looked into for the first time when it is copied."""
    builder = flatbuffers.Builder(64)
    shape = builder.CreateNumpyVector(np.array([1, 2, 3], np.int32))
    tflite.ReshapeOptionsStart(builder)
    tflite.ReshapeOptionsAddNewShape(builder, shape)
    builder.Finish(tflite.ReshapeOptionsEnd(builder))
    data = builder.Output()
    table = tflite.ReshapeOptions.GetRootAs(data, 0)._tab
    length = table.Vector(table.Offset(4)) - 4
    data[length : length + 4] = (2**31).to_bytes(4, "little")
    damaged = tflite.ReshapeOptions.GetRootAs(bytes(data), 0)._tab
    kind = tflite.BuiltinOptions.ReshapeOptions
    with pytest.raises(ModelFormatError, match="options of operator 'op': a vector of 2147483648"):
        copy_options(flatbuffers.Builder(64), "BuiltinOptions", kind, damaged, "op", Ledger(1 << 16))
