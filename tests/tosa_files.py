"""Writes TOSA 1.0 files, operator by operator, with every field of their tables at hand.

Owns a second transcription of the serialization library's `schema/tosa.fbs` v1.0: the order of operators, and of each
table's fields. Arm's reference model reads the same bytes, and so judges it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TYPES = ["UNKNOWN", "BOOL", "INT4", "INT8", "INT16", "INT32", "INT48", "FP32", "FP16", "BF16", "SHAPE"]
NUMPY = {"BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT48": np.int64, "FP32": np.float32}

OPS = (
    "UNKNOWN", "ARGMAX", "AVG_POOL2D", "CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "FFT2D", "MATMUL", "MAX_POOL2D",
    "RFFT2D", "TRANSPOSE_CONV2D", "CLAMP", "ERF", "SIGMOID", "TANH", "ADD", "ARITHMETIC_RIGHT_SHIFT", "BITWISE_AND",
    "BITWISE_OR", "BITWISE_XOR", "INTDIV", "LOGICAL_AND", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT", "LOGICAL_OR",
    "LOGICAL_XOR", "MAXIMUM", "MINIMUM", "MUL", "POW", "SUB", "TABLE", "ABS", "BITWISE_NOT", "CEIL", "CLZ", "COS",
    "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEGATE", "RECIPROCAL", "RSQRT", "SIN", "SELECT", "EQUAL", "GREATER",
    "GREATER_EQUAL", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM",
    "CONCAT", "PAD", "RESHAPE", "REVERSE", "SLICE", "TILE", "TRANSPOSE", "GATHER", "SCATTER", "RESIZE", "CAST",
    "RESCALE", "CONST", "IDENTITY", "CUSTOM", "COND_IF", "WHILE_LOOP", "VARIABLE", "VARIABLE_WRITE",
    "VARIABLE_READ", "CONST_SHAPE",
)  # fmt: skip

_CONV = "pad:[i] stride:[i] dilation:[i] local_bound:b acc_type:u"
_AXIS, _AXIS_NAN = "axis:i", "axis:i nan_mode:u"
ATTRIBUTES = {
    "ARGMAX": _AXIS_NAN,
    "AVG_POOL2D": "kernel:[i] stride:[i] pad:[i] acc_type:u",
    "CONV2D": _CONV,
    "CONV3D": _CONV,
    "DEPTHWISE_CONV2D": _CONV,
    "MAX_POOL2D": "kernel:[i] stride:[i] pad:[i] nan_mode:u",
    "TRANSPOSE_CONV2D": "out_pad:[i] stride:[i] local_bound:b acc_type:u",
    "CLAMP": "min_val:[b] max_val:[b] nan_mode:u",
    "ARITHMETIC_RIGHT_SHIFT": "round:b",
    "MAXIMUM": "nan_mode:u",
    "MINIMUM": "nan_mode:u",
    "REDUCE_ALL": _AXIS,
    "REDUCE_ANY": _AXIS,
    "REDUCE_MAX": _AXIS_NAN,
    "REDUCE_MIN": _AXIS_NAN,
    "REDUCE_SUM": _AXIS,
    "CONCAT": _AXIS,
    "REVERSE": _AXIS,
    "TRANSPOSE": "perms:[i]",
    "RESIZE": "mode:u",
    "RESCALE": "scale32:b rounding_mode:u per_channel:b input_unsigned:b output_unsigned:b",
}
"""Fields of each kind's attributes, in order: i, u, b are int32, uint32, bool, and [i], [b] lists of int32, bytes."""


def encoded(values: Array, dtype: str) -> bytes:
    """Elements as a file has them: int48 in six bytes."""
    if dtype == "INT48":
        return np.ascontiguousarray(values, np.int64).reshape(-1, 1).view(np.uint8).reshape(-1, 8)[:, :6].tobytes()
    return np.ascontiguousarray(values, NUMPY[dtype]).tobytes()


@dataclass
class TensorOf:
    """A tensor of the file; `data` is what it has if it is constant."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes = b""
    is_variable: bool = False
    is_unranked: bool = False


@dataclass
class OperatorOf:
    """An operator of the file: its kind in capitals, names, and attributes by the names of their fields.

    The attributes are of `table`, else of the kind.
    """

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""


@dataclass
class TosaFile:
    """A file in the making: one region with one block `main`, unless `blocks` says more."""

    tensors: dict[str, TensorOf] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    operators: list[OperatorOf] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    version: tuple[int, int, int, bool] = (1, 0, 0, False)
    blocks: int = 1

    def input(self, values: Array, dtype: str) -> str:
        """An input of the network; `values` are one to try it with."""
        name = self._tensor("input", values.shape, dtype)
        self.inputs.append(name)
        self.values.append(values.astype(NUMPY[dtype]))
        return name

    def constant(self, values: Array | Sequence[int], dtype: str) -> str:
        """A CONST."""
        array = np.asarray(values)
        name = self._tensor("constant", array.shape, dtype, encoded(array, dtype))
        self.operators.append(OperatorOf("CONST", [], [name]))
        return name

    def shape(self, values: Sequence[int]) -> str:
        """A CONST_SHAPE."""
        name = f"shape_{len(self.shapes)}"
        self.shapes[name] = list(values)
        self.operators.append(OperatorOf("CONST_SHAPE", [], [name]))
        return name

    def add(self, kind: str, inputs: Sequence[str], shape: Sequence[int], dtype: str, **attributes: Any) -> str:
        """An operator and its output."""
        name = self._tensor(kind.lower(), tuple(shape), dtype)
        self.operators.append(OperatorOf(kind, list(inputs), [name], attributes))
        return name

    def _tensor(self, stem: str, shape: tuple[int, ...], dtype: str, data: bytes = b"") -> str:
        name = f"{stem}_{len(self.tensors)}"
        self.tensors[name] = TensorOf(name, shape, dtype, data)
        return name

    def bytes(self) -> bytes:
        """The file."""
        builder = flatbuffers.Builder(1024)
        blocks = [self._block(builder, f"block_{i}" if i else "main") for i in range(self.blocks)]
        region = _table(builder, [builder.CreateString("main"), _tables(builder, blocks)])
        regions = _tables(builder, [region])
        version = _table(builder, [*((number, "i") for number in self.version[:3]), (self.version[3], "b")])
        builder.Finish(_table(builder, [version, regions]), file_identifier=b"TOSA")
        return bytes(builder.Output())

    def _block(self, builder: flatbuffers.Builder, name: str) -> int:
        operators = _tables(builder, [_operator(builder, one) for one in self.operators])
        tensors = _tables(builder, [_tensor(builder, one) for one in self.tensors.values()])
        shapes = _tables(builder, [_shape(builder, *one) for one in self.shapes.items()])
        ends = [_texts(builder, names) for names in (self.inputs, self.outputs)]
        return _table(builder, [builder.CreateString(name), operators, tensors, *ends, shapes])


def _table(builder: flatbuffers.Builder, fields: Sequence[Any]) -> int:
    """A table of references, of numbers as (value, kind), and of None for what is absent."""
    builder.StartObject(len(fields))
    for slot, one in enumerate(fields):
        if one is None:
            continue
        value, kind = one if isinstance(one, tuple) else (one, "reference")
        {
            "reference": builder.PrependUOffsetTRelative,
            "i": builder.PrependInt32,
            "u": builder.PrependUint32,
            "b": builder.PrependBool,
            "byte": builder.PrependUint8,
        }[kind](value)
        builder.Slot(slot)
    return int(builder.EndObject())


def _tables(builder: flatbuffers.Builder, places: Sequence[int]) -> int:
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return int(builder.EndVector())


def _texts(builder: flatbuffers.Builder, texts: Sequence[str]) -> int:
    return _tables(builder, [builder.CreateString(text) for text in texts])


def _bytes(builder: flatbuffers.Builder, content: bytes) -> int:
    """A list of bytes at a multiple of eight, as the schema asks for."""
    builder.StartVector(1, len(content), 8)
    builder.head -= len(content)
    builder.Bytes[builder.Head() : builder.Head() + len(content)] = content
    return int(builder.EndVector())


def _numbers(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(numbers, np.int32)))


def _tensor(builder: flatbuffers.Builder, one: TensorOf) -> int:
    parts = [builder.CreateString(one.name), _numbers(builder, one.shape)]
    data = _bytes(builder, one.data)
    flags = [(one.is_variable, "b"), (one.is_unranked, "b")]
    return _table(builder, [*parts, (TYPES.index(one.dtype), "u"), data, *flags])


def _shape(builder: flatbuffers.Builder, name: str, values: Sequence[int]) -> int:
    parts = builder.CreateString(name), _bytes(builder, np.array(values, "<i8").tobytes())
    return _table(builder, [parts[0], (len(values), "u"), parts[1]])


def _operator(builder: flatbuffers.Builder, one: OperatorOf) -> int:
    fields = [part.split(":") for part in ATTRIBUTES.get(one.table or one.kind, "").split()]
    unknown = set(one.attributes) - {name for name, _ in fields}
    assert not unknown, f"{one.kind} has no {unknown}"
    found: list[Any] = []
    for name, kind in fields:
        value = one.attributes.get(name)
        if value is None:
            found.append(None)
        elif kind.startswith("["):
            found.append((_numbers if kind == "[i]" else _bytes)(builder, value))
        else:
            found.append((value, kind))
    attributes = _table(builder, found)
    names = [_texts(builder, texts) for texts in (one.inputs, one.outputs)]
    codes = (OPS.index(one.kind), "u"), (OPS.index(one.table or one.kind), "byte")
    return _table(builder, [*codes, attributes if codes[1][0] else None, *names])
