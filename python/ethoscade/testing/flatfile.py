"""Writes TFLite files from plain records of tensors and operators.

Owns the flatbuffer layout only: it checks nothing, quantises nothing, and can write files that no runtime accepts,
which tests of hostile input want.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import flatbuffers
import numpy as np
import tflite

from ..ir import Array, DType, Quantisation
from ..util.records import dataclass

_BUFFER_ALIGNMENT = 16  # runtimes map constants in place
_SCHEMA_VERSION = 3

TENSOR_TYPES = {
    DType.INT8: tflite.TensorType.INT8,
    DType.UINT8: tflite.TensorType.UINT8,
    DType.INT16: tflite.TensorType.INT16,
    DType.INT32: tflite.TensorType.INT32,
    DType.INT64: tflite.TensorType.INT64,
    DType.FLOAT32: tflite.TensorType.FLOAT32,
    DType.BOOL: tflite.TensorType.BOOL,
}


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """A tensor as the file holds it; `data` makes it a constant, `variable` a state that lives on between runs.

    Without `dtype` it is a handle of a resource.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType | None
    quantisation: Quantisation | None = None
    data: Array | None = None
    variable: bool = False


# An options table's entries in the schema's CamelCase; a tuple becomes a vector of int32.
Fields = Mapping[str, int | float | bool | str | tuple[int, ...]]


@dataclass(frozen=True)
class OperatorRecord:
    """An operator as the file holds it.

    `kind` and `version` are the builtin operator's; an absent optional input is -1. `options` names the options table
    of the schema and `fields` its entries. `intermediates` are the tensors that only lend an LSTM their quantisation.
    """

    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: str | None = None
    fields: Fields = field(default_factory=dict)
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class SubgraphRecord:
    """A subgraph that operators of the first one run."""

    name: str
    tensors: Sequence[TensorRecord]
    operators: Sequence[OperatorRecord]


def write_file(
    name: str,
    tensors: Sequence[TensorRecord],
    operators: Sequence[OperatorRecord],
    inputs: Sequence[int],
    outputs: Sequence[int],
    codes_in: str = "both",
    others: Sequence[SubgraphRecord] = (),
) -> bytes:
    """The bytes of a TFLite file; the same records give the same bytes. `others` are the subgraphs from number 1 on.

    `codes_in` says which field of an operator code tells the kind, as all three are found in real files: "old" (int8;
    for kinds below 127), "new" (int32) or "both".
    """
    if codes_in not in ("both", "old", "new"):
        raise ValueError(f"codes_in is '{codes_in}'; it is both, old or new")
    b = flatbuffers.Builder(1 << 16)
    kinds = [*operators, *(op for other in others for op in other.operators)]
    codes = list(dict.fromkeys((op.kind, op.version) for op in kinds))
    held = [tensors, *(other.tensors for other in others)]
    constants = [t.data for of in held for t in of if t.data is not None]
    buffers = _vector(b, tflite.ModelStartBuffersVector, [_buffer(b, None), *(_buffer(b, c) for c in constants)])
    parts = [_subgraph(b, name, tensors, operators, codes, inputs, outputs)]
    first_buffer = 1
    for before, other in zip(held, others, strict=False):
        first_buffer += sum(tensor.data is not None for tensor in before)
        parts.append(_subgraph(b, other.name, other.tensors, other.operators, codes, (), (), first_buffer))
    subgraphs = _vector(b, tflite.ModelStartSubgraphsVector, parts)
    opcodes = _vector(b, tflite.ModelStartOperatorCodesVector, [_operator_code(b, *code, codes_in) for code in codes])
    description = b.CreateString("made by ethoscade.testing")
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, _SCHEMA_VERSION)
    tflite.ModelAddOperatorCodes(b, opcodes)
    tflite.ModelAddSubgraphs(b, subgraphs)
    tflite.ModelAddDescription(b, description)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def _subgraph(
    b: Any,
    name: str,
    tensors: Sequence[TensorRecord],
    operators: Sequence[OperatorRecord],
    codes: Sequence[tuple[str, int]],
    inputs: Sequence[int],
    outputs: Sequence[int],
    next_buffer: int = 1,
) -> int:
    tensor_offsets = []
    for tensor in tensors:
        tensor_offsets.append(_tensor(b, tensor, next_buffer if tensor.data is not None else 0))
        next_buffer += tensor.data is not None
    operator_offsets = [_operator(b, op, codes.index((op.kind, op.version))) for op in operators]
    tensor_vector = _vector(b, tflite.SubGraphStartTensorsVector, tensor_offsets)
    operator_vector = _vector(b, tflite.SubGraphStartOperatorsVector, operator_offsets)
    input_vector = b.CreateNumpyVector(np.asarray(inputs, dtype=np.int32))
    output_vector = b.CreateNumpyVector(np.asarray(outputs, dtype=np.int32))
    label = b.CreateString(name)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, tensor_vector)
    tflite.SubGraphAddInputs(b, input_vector)
    tflite.SubGraphAddOutputs(b, output_vector)
    tflite.SubGraphAddOperators(b, operator_vector)
    tflite.SubGraphAddName(b, label)
    return int(tflite.SubGraphEnd(b))


def _vector(b: Any, start: Any, offsets: Sequence[int]) -> int:
    """A vector of tables, given their offsets."""
    start(b, len(offsets))
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _buffer(b: Any, data: Array | None) -> int:
    vector = None
    if data is not None:
        raw = np.ascontiguousarray(data).tobytes()
        b.StartVector(1, len(raw), _BUFFER_ALIGNMENT)
        # The builder fills its array from the end; one slice instead of one call per byte.
        b.head -= len(raw)
        b.Bytes[b.head : b.head + len(raw)] = raw
        vector = b.EndVector()
    tflite.BufferStart(b)
    if vector is not None:
        tflite.BufferAddData(b, vector)
    return int(tflite.BufferEnd(b))


def _tensor(b: Any, tensor: TensorRecord, buffer: int) -> int:
    quantisation = None if tensor.quantisation is None else _quantisation(b, tensor.quantisation)
    shape = b.CreateNumpyVector(np.asarray(tensor.shape, dtype=np.int32))
    name = b.CreateString(tensor.name)
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, tflite.TensorType.RESOURCE if tensor.dtype is None else TENSOR_TYPES[tensor.dtype])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if quantisation is not None:
        tflite.TensorAddQuantization(b, quantisation)
    if tensor.variable:
        tflite.TensorAddIsVariable(b, True)
    return int(tflite.TensorEnd(b))


def _quantisation(b: Any, quantisation: Quantisation) -> int:
    scales = b.CreateNumpyVector(np.asarray(quantisation.scales, dtype=np.float32))
    zero_points = b.CreateNumpyVector(np.asarray(quantisation.zero_points, dtype=np.int64))
    tflite.QuantizationParametersStart(b)
    tflite.QuantizationParametersAddScale(b, scales)
    tflite.QuantizationParametersAddZeroPoint(b, zero_points)
    tflite.QuantizationParametersAddQuantizedDimension(b, quantisation.axis or 0)
    return int(tflite.QuantizationParametersEnd(b))


def _operator_code(b: Any, kind: str, version: int, codes_in: str) -> int:
    code = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(b)
    if codes_in != "new":
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code, 127))
    tflite.OperatorCodeAddVersion(b, version)
    if codes_in != "old":
        tflite.OperatorCodeAddBuiltinCode(b, code)
    return int(tflite.OperatorCodeEnd(b))


def _options(b: Any, op: OperatorRecord) -> int:
    def placed(value: object) -> object:
        if isinstance(value, str):
            return b.CreateString(value)
        return b.CreateNumpyVector(np.asarray(value, dtype=np.int32)) if isinstance(value, tuple) else value

    values = {key: placed(value) for key, value in op.fields.items()}
    getattr(tflite, f"{op.options}Start")(b)
    for key, value in values.items():
        getattr(tflite, f"{op.options}Add{key}")(b, value)
    return int(getattr(tflite, f"{op.options}End")(b))


def _operator(b: Any, op: OperatorRecord, code_index: int) -> int:
    options = None if op.options is None else _options(b, op)
    inputs = b.CreateNumpyVector(np.asarray(op.inputs, dtype=np.int32))
    outputs = b.CreateNumpyVector(np.asarray(op.outputs, dtype=np.int32))
    between = b.CreateNumpyVector(np.asarray(op.intermediates, dtype=np.int32)) if op.intermediates else None
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code_index)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, op.options or ""))
        tflite.OperatorAddBuiltinOptions(b, options)
    if between is not None:
        tflite.OperatorAddIntermediates(b, between)
    return int(tflite.OperatorEnd(b))
