"""Tensors and shapes of a TOSA file: types, extents and constants.

Owns every check that concerns one of them alone. What operators make of them is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ...errors import ModelFormatError, UnsupportedOperatorError
from ...ir import Array, DType, Tensor
from .fields import TableFields
from .operators import RawOperator
from .refusals import refuse_type
from .schema import DTYPES, ShapeField, TensorField
from .site import Numbers

_MAX_RANK = 32
# As of the other file format: offsets of arenas are signed 32-bit numbers.
_MAX_BYTES = 2**31 - 1
_INT48_BYTES = 6
_SHAPE_BYTES = 8


def read_shapes(tables: Sequence[TableFields]) -> dict[str, Numbers]:
    """The numbers of each CONST_SHAPE by name. Raises `ModelFormatError`."""
    found: dict[str, Numbers] = {}
    for table in tables:
        name, rank = table.text(ShapeField.NAME), table.unsigned(ShapeField.RANK)
        content = table.bytes(ShapeField.DATA)
        if content.size != rank * _SHAPE_BYTES:
            raise ModelFormatError(
                f"shape '{name}' of {rank} numbers has {content.size} bytes; it takes {rank * _SHAPE_BYTES}",
                tensor=name,
                value=int(content.size),
            )
        if name in found:
            raise ModelFormatError(f"shape '{name}' stands in the file twice", tensor=name, value=name)
        found[name] = tuple(map(int, content.view("<i8")))
    return found


def read_tensors(tables: Sequence[TableFields], users: Mapping[str, RawOperator]) -> list[Tensor]:
    """Every tensor, in the file's order; `users` are their first operators, by name.

    Raises `ModelFormatError` for a contradiction, `UnsupportedOperatorError` for element types and forms that are not
    read.
    """
    found: dict[str, Tensor] = {}
    for table in tables:
        name = table.text(TensorField.NAME)
        if name in found:
            raise ModelFormatError(f"tensor '{name}' stands in the file twice", tensor=name, value=name)
        found[name] = _tensor(table, name, users.get(name))
    return list(found.values())


def _tensor(table: TableFields, name: str, user: RawOperator | None) -> Tensor:
    code = table.unsigned(TensorField.TYPE)
    if code not in DTYPES:
        raise refuse_type(name, code, user)
    for field, what in (
        (TensorField.VARIABLE, "is a variable: make the state an input and an output of the network"),
        (TensorField.IS_UNRANKED, "has no fixed shape: export the network with fixed shapes"),
    ):
        if table.flag(field):
            raise UnsupportedOperatorError(
                f"tensor '{name}' {what}", operator=name, constraint="tensors of fixed shape"
            )
    if table.long(TensorField.OFFSET) > 1:
        raise UnsupportedOperatorError(
            f"tensor '{name}' keeps its values behind the tables, as files above 2 GiB do; no microcontroller "
            f"holds them",
            operator=name,
            constraint="values in the file's tables",
        )
    dtype, shape = DTYPES[code], tuple(table.numbers(TensorField.SHAPE))
    if len(shape) > _MAX_RANK or any(extent < 1 for extent in shape):
        raise ModelFormatError(
            f"tensor '{name}' has shape {list(shape)}: at most {_MAX_RANK} dimensions of at least 1 are possible",
            tensor=name,
            value=shape,
        )
    size_bytes = math.prod(shape) * dtype.size_bytes
    if size_bytes > _MAX_BYTES:
        raise ModelFormatError(
            f"tensor '{name}' has shape {list(shape)}: {size_bytes} bytes; an arena ends at {_MAX_BYTES}",
            tensor=name,
            value=shape,
        )
    content = table.bytes(TensorField.DATA)
    # Writers give tensors without values an empty list.
    data = _constant(content, name, shape, dtype) if content.size else None
    return Tensor(name, shape, dtype, data=data)


def _constant(content: npt.NDArray[np.uint8], name: str, shape: Numbers, dtype: DType) -> Array:
    """The elements of a constant; those of int48 have six bytes in the file."""
    element = _INT48_BYTES if dtype is DType.INT48 else dtype.size_bytes
    expected = math.prod(shape) * element
    if (
        expected == element
        and content.size % element == 0
        and (content.reshape(-1, element) == content[:element]).all()
    ):
        # ExecuTorch 1.5 gives the one zero point of weights once for each channel.
        content = content[:element]
    if content.size != expected:
        raise ModelFormatError(
            f"constant '{name}' of type {dtype.value}{list(shape)} has {content.size} bytes; it takes {expected}",
            tensor=name,
            value=int(content.size),
        )
    if dtype is DType.BOOL:
        return np.not_equal(content, 0).reshape(shape)
    if dtype is not DType.INT48:
        return content.view(dtype.numpy).reshape(shape)
    words = np.zeros((content.size // _INT48_BYTES, 8), np.uint8)
    words[:, 2:] = content.reshape(-1, _INT48_BYTES)
    # The sign comes down with the value.
    values: npt.NDArray[np.int64] = words.view(np.int64).reshape(-1) >> 16
    return values.reshape(shape)
