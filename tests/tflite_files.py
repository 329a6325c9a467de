"""Writes TFLite files for tests of the reader, right ones and wrong ones alike.

Checks nothing on purpose: a contradiction that a test asks for is written as asked. Shares no code with the reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

INT8, UINT8, INT16, INT32, INT64, FLOAT32 = (
    tflite.TensorType.INT8,
    tflite.TensorType.UINT8,
    tflite.TensorType.INT16,
    tflite.TensorType.INT32,
    tflite.TensorType.INT64,
    tflite.TensorType.FLOAT32,
)
_STORAGE = {INT8: "<i1", UINT8: "<u1", INT16: "<i2", INT32: "<i4", INT64: "<i8", FLOAT32: "<f4"}


@dataclass(frozen=True)
class T:
    """A tensor. `data` is bytes or a list of numbers; `buffer` overrides the buffer index."""

    name: str
    shape: Sequence[int]
    type: int = INT8
    scales: Sequence[float] = (0.5,)
    zero_points: Sequence[int] = (0,)
    axis: int = 0
    data: bytes | Sequence[int] | None = None
    buffer: int | None = None
    variable: bool = False


@dataclass(frozen=True)
class Op:
    """An operator by builtin name, or by custom code. `options` maps schema fields to numbers or lists of them."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options_name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    code_index: int | None = None
    custom: bytes = b""
    """Options of a custom operator."""


@dataclass(frozen=True)
class File:
    """A whole model."""

    tensors: Sequence[T]
    operators: Sequence[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    version: int = 3
    subgraphs: int = 1
    versions: Mapping[str, int] = field(default_factory=dict)
    """Versions of operators by kind; 1 where left out."""
    codes: str = "both"
    """Which field of an operator code says the kind: "both", "new" or "old"."""

    def tensor(self, index: int, **changes: Any) -> File:
        """The same file with one tensor changed."""
        tensors = list(self.tensors)
        tensors[index] = replace(tensors[index], **changes)
        return replace(self, tensors=tensors)

    def operator(self, index: int, **changes: Any) -> File:
        """The same file with one operator changed; `options` are merged."""
        operators = list(self.operators)
        if "options" in changes:
            changes["options"] = {**operators[index].options, **changes["options"]}
        operators[index] = replace(operators[index], **changes)
        return replace(self, operators=operators)

    def bytes(self) -> bytes:
        """The file."""
        return _Writer(self).write()


class _Writer:
    def __init__(self, file: File) -> None:
        self.file = file
        self.b = flatbuffers.Builder(4096)
        self.buffers: list[bytes] = [b""]
        self.codes: list[str] = []

    def write(self) -> bytes:
        b, file = self.b, self.file
        tensors = [self.tensor(t) for t in file.tensors]
        operators = [self.operator(op) for op in file.operators]
        subgraphs = [self.subgraph(tensors, operators)] * file.subgraphs
        metadata = []
        for name, content in file.metadata.items():
            text = b.CreateString(name)
            self.buffers.append(content)
            tflite.MetadataStart(b)
            tflite.MetadataAddName(b, text)
            tflite.MetadataAddBuffer(b, len(self.buffers) - 1)
            metadata.append(tflite.MetadataEnd(b))
        codes = [self.code(kind) for kind in self.codes]
        buffers = [self.buffer(content) for content in self.buffers]
        vectors = [self.offsets(v) for v in (codes, subgraphs, buffers, metadata)]
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, file.version)
        tflite.ModelAddOperatorCodes(b, vectors[0])
        tflite.ModelAddSubgraphs(b, vectors[1])
        tflite.ModelAddBuffers(b, vectors[2])
        tflite.ModelAddMetadata(b, vectors[3])
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def offsets(self, items: Sequence[int]) -> int:
        self.b.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.b.PrependUOffsetTRelative(item)
        return int(self.b.EndVector())

    def numbers(self, values: Sequence[Any], dtype: str) -> int:
        return int(self.b.CreateNumpyVector(np.array(values, dtype)))

    def buffer(self, content: bytes) -> int:
        data = self.b.CreateByteVector(content) if content else None
        tflite.BufferStart(self.b)
        if data is not None:
            tflite.BufferAddData(self.b, data)
        return int(tflite.BufferEnd(self.b))

    def tensor(self, t: T) -> int:
        b = self.b
        index = 0
        if t.data is not None:
            content = t.data if isinstance(t.data, bytes) else np.array(t.data, _STORAGE[t.type]).tobytes()
            self.buffers.append(content)
            index = len(self.buffers) - 1
        name, shape = b.CreateString(t.name), self.numbers(t.shape, "<i4")
        scales, zero_points = self.numbers(t.scales, "<f4"), self.numbers(t.zero_points, "<i8")
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, scales)
        tflite.QuantizationParametersAddZeroPoint(b, zero_points)
        tflite.QuantizationParametersAddQuantizedDimension(b, t.axis)
        quantisation = tflite.QuantizationParametersEnd(b)
        tflite.TensorStart(b)
        tflite.TensorAddName(b, name)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, t.type)
        tflite.TensorAddBuffer(b, index if t.buffer is None else t.buffer)
        tflite.TensorAddQuantization(b, quantisation)
        tflite.TensorAddIsVariable(b, t.variable)
        return int(tflite.TensorEnd(b))

    def options(self, op: Op) -> int | None:
        if op.options_name is None:
            return None
        vectors = {k: self.numbers(v, "<i4") for k, v in op.options.items() if isinstance(v, (list, tuple))}
        getattr(tflite, f"{op.options_name}Start")(self.b)
        for name, value in op.options.items():
            getattr(tflite, f"{op.options_name}Add{name}")(self.b, vectors.get(name, value))
        return int(getattr(tflite, f"{op.options_name}End")(self.b))

    def operator(self, op: Op) -> int:
        if op.kind not in self.codes:
            self.codes.append(op.kind)
        code = self.codes.index(op.kind) if op.code_index is None else op.code_index
        options = self.options(op)
        inputs, outputs = self.numbers(op.inputs, "<i4"), self.numbers(op.outputs, "<i4")
        custom = self.b.CreateByteVector(op.custom) if op.custom else None
        tflite.OperatorStart(self.b)
        if custom is not None:
            tflite.OperatorAddCustomOptions(self.b, custom)
        tflite.OperatorAddOpcodeIndex(self.b, code)
        tflite.OperatorAddInputs(self.b, inputs)
        tflite.OperatorAddOutputs(self.b, outputs)
        if op.options_name is not None:
            tflite.OperatorAddBuiltinOptionsType(self.b, getattr(tflite.BuiltinOptions, op.options_name))
            tflite.OperatorAddBuiltinOptions(self.b, options)
        return int(tflite.OperatorEnd(self.b))

    def code(self, kind: str) -> int:
        number = getattr(tflite.BuiltinOperator, kind, tflite.BuiltinOperator.CUSTOM)
        custom = self.b.CreateString(kind) if number == tflite.BuiltinOperator.CUSTOM else None
        tflite.OperatorCodeStart(self.b)
        if self.file.codes != "new":
            tflite.OperatorCodeAddDeprecatedBuiltinCode(self.b, min(number, 127))
        if self.file.codes != "old":
            tflite.OperatorCodeAddBuiltinCode(self.b, number)
        if custom is not None:
            tflite.OperatorCodeAddCustomCode(self.b, custom)
        tflite.OperatorCodeAddVersion(self.b, self.file.versions.get(kind, 1))
        return int(tflite.OperatorCodeEnd(self.b))

    def subgraph(self, tensors: Sequence[int], operators: Sequence[int]) -> int:
        b, file = self.b, self.file
        vectors = [self.offsets(tensors), self.numbers(file.inputs, "<i4"), self.numbers(file.outputs, "<i4")]
        vectors.append(self.offsets(operators))
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, vectors[0])
        tflite.SubGraphAddInputs(b, vectors[1])
        tflite.SubGraphAddOutputs(b, vectors[2])
        tflite.SubGraphAddOperators(b, vectors[3])
        return int(tflite.SubGraphEnd(b))


def conv_file(
    shape: Sequence[int] = (1, 8, 8, 4), outputs: int = 6, kernel: tuple[int, int] = (3, 3), stride: int = 1
) -> File:
    """One CONV_2D, SAME, int8 per channel. Tensors: 0 input, 1 weights, 2 bias, 3 output."""
    n, h, w, c = shape
    kh, kw = kernel
    weights = [(i % 15) - 7 for i in range(outputs * kh * kw * c)]
    return File(
        tensors=(
            T("input", shape, zero_points=(3,)),
            T("weights", (outputs, kh, kw, c), scales=(0.25,) * outputs, zero_points=(0,) * outputs, data=weights),
            T("bias", (outputs,), INT32, (0.125,) * outputs, (0,) * outputs, data=list(range(outputs))),
            T("output", (n, -(-h // stride), -(-w // stride), outputs), zero_points=(-5,)),
        ),
        operators=(
            Op(
                "CONV_2D",
                (0, 1, 2),
                (3,),
                "Conv2DOptions",
                {"Padding": 0, "StrideH": stride, "StrideW": stride, "DilationHFactor": 1, "DilationWFactor": 1},
            ),
        ),
        inputs=(0,),
        outputs=(3,),
    )


def constant(name: str, values: Sequence[int], shape: Sequence[int] | None = None, type: int = INT32) -> T:
    """A constant of integers without quantisation."""
    return T(name, (len(values),) if shape is None else shape, type, (), (), data=list(values))
