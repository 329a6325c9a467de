"""Parts of a model's file as models that LiteRT takes: some operators with inputs and outputs of their own.

Owns the surgery on the file's bytes. Nothing is written again that an operator is made of: a new head, in front of the
untouched file, names the operators, inputs and outputs, and refers to all else where it lies. So options, variables,
intermediates and custom operators are the file's own, whatever kinds the future brings.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import tflite

# Numbers of the fields that are read or written, in the schema's tables.
_MODEL_VERSION, _MODEL_CODES, _MODEL_SUBGRAPHS, _MODEL_BUFFERS = 0, 1, 2, 4
_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS = 0, 1, 2, 3
_QUANTIZED_DIMENSION = 6
_ALIGNMENT = 16  # of constants in the file; a head keeps it
_SCHEMA_VERSION = 3


def acceptable(source: bytes) -> bytes:
    """The file with what LiteRT refuses for no good reason put right.

    Old converters left a `quantized_dimension` on tensors with one scale, or one beyond the tensor's rank; both mean 0.
    """
    data = bytearray(source)
    subgraph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    for i in range(subgraph.TensorsLength()):
        tensor = subgraph.Tensors(i)
        quantisation = tensor.Quantization()
        if quantisation is None or not quantisation.QuantizedDimension():
            continue
        if quantisation.ScaleLength() <= 1 or quantisation.QuantizedDimension() >= tensor.ShapeLength():
            tab = quantisation._tab
            place = tab.Pos + tab.Offset(_entry(_QUANTIZED_DIMENSION))
            data[place : place + 4] = bytes(4)
    return bytes(data)


def head(source: bytes, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """Bytes that, put in front of `source`, make a model of some of its first subgraph's operators, in this order.

    `operators`, and the tensors `inputs` and `outputs`, are indices of the file. The model names no kind that none
    of the operators has: LiteRT refuses kinds that it does not know, used or not.
    """
    model = tflite.Model.GetRootAs(source, 0)
    subgraph = model.Subgraphs(0)
    calls = subgraph._tab.Vector(subgraph._tab.Offset(_entry(_OPERATORS)))
    words = _Words()
    root = words.table((_MODEL_VERSION, _MODEL_CODES, _MODEL_SUBGRAPHS, _MODEL_BUFFERS))
    words.point(0, root[-1])
    words.values[root[_MODEL_VERSION]] = _SCHEMA_VERSION
    codes = [subgraph.Operators(index).OpcodeIndex() for index in operators]
    words.point(root[_MODEL_CODES], _codes(words, model, codes))
    words.point_behind(root[_MODEL_BUFFERS], _vector(model, _MODEL_BUFFERS))
    subgraphs = words.vector([0])
    words.point(root[_MODEL_SUBGRAPHS], subgraphs)
    part = words.table((_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS))
    words.point(subgraphs + 1, part[-1])
    words.point_behind(part[_TENSORS], _vector(subgraph, _TENSORS))
    words.point(part[_INPUTS], words.vector(inputs))
    words.point(part[_OUTPUTS], words.vector(outputs))
    kept = words.vector([0] * len(operators))
    words.point(part[_OPERATORS], kept)
    for position, index in enumerate(operators):
        words.point_behind(kept + 1 + position, subgraph._tab.Indirect(calls + 4 * index))
    return words.finish()


def _codes(words: _Words, model: Any, used: Sequence[int]) -> int:
    """The word of a vector of operator codes: the file's `used` ones in their places, one of them in all others."""
    first = _vector(model, _MODEL_CODES) + 4
    vector = words.vector([0] * model.OperatorCodesLength())
    for place in range(model.OperatorCodesLength()):
        code = place if place in used else used[0]
        words.point_behind(vector + 1 + place, model._tab.Indirect(first + 4 * code))
    return vector


def inputs_of(source: bytes, operators: Sequence[int]) -> list[list[int]]:
    """The inputs of operators by the file's indices, -1 for one that is left out."""
    subgraph = tflite.Model.GetRootAs(source, 0).Subgraphs(0)
    tables = (subgraph.Operators(index) for index in operators)
    return [[int(table.Inputs(i)) for i in range(table.InputsLength())] for table in tables]


def custom_outputs(source: bytes, operators: Sequence[int]) -> list[int]:
    """The tensors that custom operators make: detections, say, whose kernel leaves what it did not find as it was."""
    model = tflite.Model.GetRootAs(source, 0)
    subgraph = model.Subgraphs(0)
    tables = (subgraph.Operators(index) for index in operators)
    custom = (table for table in tables if model.OperatorCodes(table.OpcodeIndex()).CustomCode())
    return [int(table.Outputs(i)) for table in custom for i in range(table.OutputsLength())]


def _entry(field: int) -> int:
    """A field's entry in its table's vtable."""
    return 4 + 2 * field


def _vector(table: Any, field: int) -> int:
    """Where the vector in a table's field lies in the file."""
    tab = table._tab
    return int(tab.Indirect(tab.Pos + tab.Offset(_entry(field))))


class _Words:
    """A flatbuffer's beginning, in 32-bit words: objects are appended, then pointed at. Word 0 is the root."""

    def __init__(self) -> None:
        self.values = [0, int.from_bytes(b"TFL3", "little")]
        self._behind: list[tuple[int, int]] = []

    def table(self, fields: Sequence[int]) -> dict[int, int]:
        """A table with these fields, a word each: the word of every field, and of the table as -1."""
        count = max(fields) + 1
        entries = [4 + 4 * fields.index(field) if field in fields else 0 for field in range(count)]
        vtable = [4 + 2 * count, 4 + 4 * len(fields), *entries, *([0] if count % 2 else [])]
        self.values += struct.unpack(f"<{len(vtable) // 2}I", struct.pack(f"<{len(vtable)}H", *vtable))
        start = len(self.values)
        self.values += [2 * len(vtable), *([0] * len(fields))]
        return {-1: start} | {field: start + 1 + position for position, field in enumerate(fields)}

    def vector(self, values: Sequence[int]) -> int:
        """A vector of 32-bit numbers; its first word is the number of them."""
        self.values += [len(values), *values]
        return len(self.values) - len(values) - 1

    def point(self, word: int, target: int) -> None:
        """Make `word` the offset of the object that begins at word `target`."""
        self.values[word] = 4 * (target - word)

    def point_behind(self, word: int, place: int) -> None:
        """Make `word` the offset of the object at byte `place` of the file that follows."""
        self._behind.append((word, place))

    def finish(self) -> bytes:
        self.values += [0] * (-len(self.values) % (_ALIGNMENT // 4))
        size = 4 * len(self.values)
        for word, place in self._behind:
            self.values[word] = size + place - 4 * word
        return struct.pack(f"<{len(self.values)}I", *self.values)
