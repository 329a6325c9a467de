"""Writes a compiled network as a .tflite file: NPU calls as `ethos-u` custom operators, CPU operators as they were.

Owns the file's layout: which tensors, buffers and metadata there are and in which order. Option tables are copied by
`tflite_options`. Runs nothing and plans no memory; it writes down the places that the planner chose.

Formats: TFLite schema version 3; operator inputs 0..3 (payload, constants, scratch, fast scratch) and the metadata
`OfflineMemoryAllocation` (int32: version 0, subgraph count 1, N, then one arena offset per tensor of all subgraphs, -1
for those that have none) as TensorFlow Lite Micro reads them and Arm's Vela writes them. State that the NPU touches is
kept as resources: operators ahead of all others read them, those behind store them, and a second subgraph, which
CALL_ONCE runs, sets them up. Variable tensors that CPU operators write over have no offset: a planned one ends with its
last reader for Micro, which puts scratch buffers of later operators there; others get bytes for all runs. The names of
the operators behind each NPU operation are a metadata entry more, `provenance`'s.
"""

from __future__ import annotations

import struct
from typing import Any

import flatbuffers
import numpy as np

from ..errors import CodegenError
from ..ir import TFLITE_TYPES, DType, Operator, Quantisation, Tensor, Variable, schema
from ..ir.opcodes import FIRST_NEW
from ..ir.operators import own_outputs
from . import provenance
from .artifact import Artifact, CpuCall, FeedCall, NpuCall, TakeCall
from .layout import cpu_operators, distinct_payloads, npu_calls, padded, resources, touched_tensors, verify
from .origins import Origins
from .tflite_options import copy_options

DESCRIPTION = "ethoscade"
CUSTOM_CODE = "ethos-u"
OFFLINE_PLAN = "OfflineMemoryAllocation"
NOT_PLANNED = -1

# A flexbuffer whose root is the int8 1: TensorFlow Lite Micro's kernel refuses anything else.
_CUSTOM_OPTIONS = bytes((1, 4, 1))
_SCHEMA_VERSION = 3
_BUFFER_ALIGNMENT = 16
# Offsets in a flatbuffer are signed 32-bit numbers.
_LARGEST_FILE_BYTES = 2**31 - 2**20

# The schema's names are ours in capitals.
_TENSOR_TYPES: dict[DType, int] = {dtype: getattr(schema.TensorType, dtype.name) for dtype in TFLITE_TYPES}


def operators_ahead(artifact: Artifact) -> int:
    """How many operators of the file come before the artefact's calls: they set variables up, and read them."""
    count = len(resources(artifact))
    return 1 + 2 * count if count else 0


def write(artifact: Artifact, *, to_play: bool = False) -> bytes:
    """The bytes of the .tflite file for `artifact`; `to_play` operators on the CPU from alone, wherever tensors lie.

    Raises `CodegenError` for a CPU operator that cannot be carried over, external inputs, rows handed over, or a file
    beyond the format's 2 GiB, `ModelFormatError` for one whose options are damaged.
    """
    if artifact.external and not to_play:
        raise CodegenError(
            f"'{artifact.name}' reads its inputs in a memory of their own, and TensorFlow Lite Micro keeps all inputs "
            f"in its arena: write C or raw instead, or leave input_memory out"
        )
    if artifact.feeds and not to_play:
        raise CodegenError(
            f"'{artifact.name}' takes its input row by row while it runs, and TensorFlow Lite Micro takes inputs as a "
            f"whole: write C or raw instead, or leave stream_input out"
        )
    if artifact.takes and not to_play:
        raise CodegenError(
            f"'{artifact.name}' has its output taken row by row while it runs, and TensorFlow Lite Micro gives outputs "
            f"as a whole: write C or raw instead, or leave stream_output out"
        )
    return _Writer(verify(artifact)).finish()


class _Writer:
    """One file being built. Buffers, tensors and operator codes collect in lists; `finish` ties them together."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.graph = artifact.graph
        self.origins = Origins(self.graph)
        self.resources = resources(artifact)
        # A variable tensor that is written over has one name for what it holds before and afterwards.
        self.written_over = {v.after: v.before for v in self.graph.variables if v not in self.resources}
        self.variable_tensors = {t for t, tensor in enumerate(self.graph.tensors) if tensor.is_variable}
        self.variable_tensors.update(self.written_over.values())
        names = [call.operators for call in npu_calls(artifact)]
        self.provenance = provenance.encode(names) if any(names) else None
        size = self._data_bytes()
        if size > _LARGEST_FILE_BYTES:
            raise CodegenError(f"'{artifact.name}' has {size} bytes of constants; a .tflite file ends at 2 GiB")
        self.builder = flatbuffers.Builder(size + 4096)
        self.buffers: list[int] = [self._buffer(None)]
        self.tensors: list[int] = []
        self.offsets: list[int] = []
        self.codes: dict[tuple[int, bytes, int], int] = {}

    def finish(self) -> bytes:
        # First, where nothing is planned: Micro takes the plan's first offsets for those of other subgraphs as well.
        handles = [self._handle(variable) for variable in self.resources]
        fixed = self._npu_tensors()
        places = {index: self._graph_tensor(index) for index in self._written_tensors()}
        places |= {after: places[before] for after, before in self.written_over.items()}
        ahead = [self._call_once()] if self.resources else []
        ahead += self._variable_handles(handles)
        pairs = list(zip(handles, self.resources, strict=True))
        ahead += [self._state_operator("READ_VARIABLE", [handle], [places[v.before]]) for handle, v in pairs]
        operators = [
            self._npu_operator(call, fixed, places) if isinstance(call, NpuCall) else self._cpu_operator(call, places)
            for call in self.artifact.calls
            if not isinstance(call, FeedCall | TakeCall)
        ]
        stores = [self._state_operator("ASSIGN_VARIABLE", [handle, places[v.after]], []) for handle, v in pairs]
        ends = [[places[t] for t in of] for of in (self.graph.given, self.graph.handed_out)]
        subgraphs = [self._subgraph("main", self.tensors, [*ahead, *operators, *stores], *ends)]
        if self.resources:
            subgraphs.append(self._initial_values())
        metadata = self._metadata()
        return self._model(subgraphs, metadata)

    def _written_tensors(self) -> list[int]:
        """The graph's tensors in the file: those with a value, and those that lend operators their quantisation."""
        operators = (operator for _, operator in cpu_operators(self.artifact))
        found = {*touched_tensors(self.artifact), *(t for op in operators for t in op.intermediates)}
        return sorted(found.difference(self.written_over))

    # --- state ---------------------------------------------------------------------------------------------------

    def _handle(self, variable: Variable) -> int:
        return self._add_tensor(f"{variable.name}/handle", (), schema.TensorType.RESOURCE, None, NOT_PLANNED)

    def _state_operator(self, kind: str, inputs: list[int], outputs: list[int], options: int | None = None) -> int:
        """An operator of variables; its options are those of its kind, without any fields unless they are given."""
        table = {
            "CALL_ONCE": "CallOnceOptions",
            "VAR_HANDLE": "VarHandleOptions",
            "READ_VARIABLE": "ReadVariableOptions",
            "ASSIGN_VARIABLE": "AssignVariableOptions",
        }[kind]
        code = self._code(getattr(schema.BuiltinOperator, kind), b"", 1)
        if options is None:
            getattr(schema, f"{table}Start")(self.builder)
            options = int(getattr(schema, f"{table}End")(self.builder))
        given, made = self._indices(inputs), self._indices(outputs)
        schema.OperatorStart(self.builder)
        schema.OperatorAddOpcodeIndex(self.builder, code)
        schema.OperatorAddInputs(self.builder, given)
        schema.OperatorAddOutputs(self.builder, made)
        schema.OperatorAddBuiltinOptionsType(self.builder, getattr(schema.BuiltinOptions, table))
        schema.OperatorAddBuiltinOptions(self.builder, options)
        return int(schema.OperatorEnd(self.builder))

    def _call_once(self) -> int:
        schema.CallOnceOptionsStart(self.builder)
        schema.CallOnceOptionsAddInitSubgraphIndex(self.builder, 1)
        return self._state_operator("CALL_ONCE", [], [], int(schema.CallOnceOptionsEnd(self.builder)))

    def _variable_handles(self, handles: list[int]) -> list[int]:
        found = []
        for handle, variable in zip(handles, self.resources, strict=True):
            name, container = self.builder.CreateString(variable.name), self.builder.CreateString("")
            schema.VarHandleOptionsStart(self.builder)
            schema.VarHandleOptionsAddContainer(self.builder, container)
            schema.VarHandleOptionsAddSharedName(self.builder, name)
            options = int(schema.VarHandleOptionsEnd(self.builder))
            found.append(self._state_operator("VAR_HANDLE", [], [handle], options))
        return found

    def _initial_values(self) -> int:
        """The subgraph that CALL_ONCE runs, with tensors of its own: constants that are assigned to variables."""
        self.tensors = []
        handles = [self._handle(variable) for variable in self.resources]
        values = []
        for variable in self.resources:
            tensor = self.graph.tensors[variable.before]
            data = np.ascontiguousarray(variable.initial).tobytes()
            name, kind = f"{variable.name}/initial", _TENSOR_TYPES[tensor.dtype]
            values.append(self._add_tensor(name, tensor.shape, kind, data, NOT_PLANNED, tensor.quantisation))
        operators = self._variable_handles(handles)
        pairs = zip(handles, values, strict=True)
        operators += [self._state_operator("ASSIGN_VARIABLE", [handle, value], []) for handle, value in pairs]
        return self._subgraph("initial_values", self.tensors, operators, [], [])

    # --- tensors and buffers -------------------------------------------------------------------------------------

    def _data_bytes(self) -> int:
        tensors = (self.graph.tensors[i] for i in self._written_tensors())
        return (
            sum(len(payload) + 64 for payload in distinct_payloads(self.artifact))
            + len(self.artifact.constants)
            + sum(len(data) + 64 for data in self.graph.metadata.values())
            + len(self.provenance or b"")
            + sum(256 + (tensor.size_bytes if tensor.is_constant else 0) for tensor in tensors)
            + sum(256 + variable.initial.nbytes for variable in self.resources)
        )

    def _buffer(self, data: bytes | None) -> int:
        """Write a Buffer table. Its data starts on a 16-byte boundary of the file, where the NPU reads it in place."""
        vector = None
        if data is not None:
            self.builder.StartVector(1, len(data), _BUFFER_ALIGNMENT)
            self.builder.head -= len(data)
            self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
            vector = self.builder.EndVector()
        schema.BufferStart(self.builder)
        if vector is not None:
            schema.BufferAddData(self.builder, vector)
        return int(schema.BufferEnd(self.builder))

    def _add_buffer(self, data: bytes) -> int:
        self.buffers.append(self._buffer(data))
        return len(self.buffers) - 1

    def _add_tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        element_type: int,
        data: bytes | None,
        offset: int,
        quantisation: Quantisation | None = None,
        is_variable: bool = False,
    ) -> int:
        buffer = 0 if data is None else self._add_buffer(data)
        text = self.builder.CreateString(name)
        dimensions = self.builder.CreateNumpyVector(np.array(shape, np.int32))
        parameters = None if quantisation is None else self._quantisation(quantisation)
        schema.TensorStart(self.builder)
        schema.TensorAddShape(self.builder, dimensions)
        schema.TensorAddType(self.builder, element_type)
        schema.TensorAddBuffer(self.builder, buffer)
        schema.TensorAddName(self.builder, text)
        if parameters is not None:
            schema.TensorAddQuantization(self.builder, parameters)
        # Without this flag a scalar's empty shape reads as "rank unknown".
        schema.TensorAddHasRank(self.builder, True)
        schema.TensorAddIsVariable(self.builder, is_variable)
        self.tensors.append(int(schema.TensorEnd(self.builder)))
        self.offsets.append(offset)
        return len(self.tensors) - 1

    def _quantisation(self, quantisation: Quantisation) -> int:
        scales = self.builder.CreateNumpyVector(np.array(quantisation.scales, np.float32))
        zero_points = self.builder.CreateNumpyVector(np.array(quantisation.zero_points, np.int64))
        schema.QuantizationParametersStart(self.builder)
        schema.QuantizationParametersAddScale(self.builder, scales)
        schema.QuantizationParametersAddZeroPoint(self.builder, zero_points)
        if quantisation.axis is not None:
            schema.QuantizationParametersAddQuantizedDimension(self.builder, quantisation.axis)
        return int(schema.QuantizationParametersEnd(self.builder))

    def _npu_tensors(self) -> dict[bytes | str, int]:
        """The tensors that only the NPU has: one per distinct payload, the constants, the scratch."""
        if not npu_calls(self.artifact):
            return {}
        found: dict[bytes | str, int] = {}
        for number, payload in enumerate(distinct_payloads(self.artifact)):
            name = f"ethos_u_command_stream_{number}" if number else "ethos_u_command_stream"
            found[payload] = self._add_tensor(name, (len(payload),), schema.TensorType.UINT8, payload, NOT_PLANNED)
        blob = padded(self.artifact.constants)
        found["constants"] = self._add_tensor("read_only", (len(blob),), schema.TensorType.UINT8, blob, NOT_PLANNED)
        size = (self.artifact.arena_bytes,)
        found["scratch"] = self._add_tensor("scratch", size, schema.TensorType.UINT8, None, 0)
        found["fast"] = found["scratch"]
        if self.artifact.fast_bytes is not None:
            # Readers tell a memory of its own by its size, and runtimes without one give it a place in theirs.
            more = _BUFFER_ALIGNMENT if self.artifact.fast_bytes in (0, self.artifact.arena_bytes) else 0
            own = (self.artifact.fast_bytes + more,)
            found["fast"] = self._add_tensor("scratch_fast", own, schema.TensorType.UINT8, None, NOT_PLANNED)
        return found

    def _graph_tensor(self, index: int) -> int:
        tensor: Tensor = self.graph.tensors[index]
        # Buffer 0 for what has no bytes: a buffer of its own would make a constant of it.
        data = None if tensor.data is None or not tensor.size_bytes else np.ascontiguousarray(tensor.data).tobytes()
        is_variable = index in self.variable_tensors
        is_planned = not tensor.is_constant and not is_variable
        offset = self.artifact.offsets.get(index, NOT_PLANNED) if is_planned else NOT_PLANNED
        kind = _TENSOR_TYPES[tensor.dtype]
        return self._add_tensor(tensor.name, tensor.shape, kind, data, offset, tensor.quantisation, is_variable)

    # --- operators -----------------------------------------------------------------------------------------------

    def _code(self, builtin: int, custom: bytes, version: int) -> int:
        return self.codes.setdefault((builtin, custom, version), len(self.codes))

    def _npu_operator(self, call: NpuCall, fixed: dict[bytes | str, int], places: dict[int, int]) -> int:
        code = self._code(schema.BuiltinOperator.CUSTOM, CUSTOM_CODE.encode(), 1)
        memories = [fixed[call.payload], fixed["constants"], fixed["scratch"], fixed["fast"]]
        touched = (self.written_over.get(t, t) for t in (*call.inputs, *call.outputs))
        state = next((t for t in touched if t in self.variable_tensors), None)
        if state is not None:
            raise CodegenError(
                f"NPU call '{call.name}' reads or writes variable tensor '{self.graph.tensors[state].name}', which an "
                f"operator on the CPU writes over: a .tflite file has no place for it that both know"
            )
        inputs = self._indices([*memories, *(places[t] for t in call.inputs)])
        outputs = self._indices([places[t] for t in call.outputs])
        options = self.builder.CreateByteVector(_CUSTOM_OPTIONS)
        schema.OperatorStart(self.builder)
        schema.OperatorAddOpcodeIndex(self.builder, code)
        schema.OperatorAddInputs(self.builder, inputs)
        schema.OperatorAddOutputs(self.builder, outputs)
        schema.OperatorAddCustomOptions(self.builder, options)
        return int(schema.OperatorEnd(self.builder))

    def _cpu_operator(self, call: CpuCall, places: dict[int, int]) -> int:
        operator = self.graph.operators[call.operator]
        origin = self._origin(operator)
        code = self._code(*self.origins.code(operator, origin))
        first, second = (
            copy_options(self.builder, union, option_type, table, operator.name, self.origins.ledger)
            for union, option_type, table in (
                ("BuiltinOptions", origin.BuiltinOptionsType(), origin.BuiltinOptions()),
                ("BuiltinOptions2", origin.BuiltinOptions2Type(), origin.BuiltinOptions2()),
            )
        )
        inputs = self._indices([NOT_PLANNED if t is None else places[t] for t in operator.inputs])
        outputs = self._indices([places[t] for t in own_outputs(operator)])
        between = self._indices([places[t] for t in operator.intermediates]) if operator.intermediates else None
        mutable = origin.MutatingVariableInputsAsNumpy() if origin.MutatingVariableInputsLength() else None
        mutating = None if mutable is None else self.builder.CreateNumpyVector(mutable)
        custom = origin.CustomOptionsAsNumpy().tobytes() if origin.CustomOptionsLength() else None
        options = None if custom is None else self.builder.CreateByteVector(custom)
        schema.OperatorStart(self.builder)
        schema.OperatorAddOpcodeIndex(self.builder, code)
        schema.OperatorAddInputs(self.builder, inputs)
        schema.OperatorAddOutputs(self.builder, outputs)
        if between is not None:
            schema.OperatorAddIntermediates(self.builder, between)
        if mutating is not None:
            schema.OperatorAddMutatingVariableInputs(self.builder, mutating)
        if first is not None:
            schema.OperatorAddBuiltinOptionsType(self.builder, origin.BuiltinOptionsType())
            schema.OperatorAddBuiltinOptions(self.builder, first)
        if second is not None:
            schema.OperatorAddBuiltinOptions2Type(self.builder, origin.BuiltinOptions2Type())
            schema.OperatorAddBuiltinOptions2(self.builder, second)
        if options is not None:
            schema.OperatorAddCustomOptions(self.builder, options)
            schema.OperatorAddCustomOptionsFormat(self.builder, origin.CustomOptionsFormat())
        return int(schema.OperatorEnd(self.builder))

    def _origin(self, operator: Operator) -> Any:
        """The operator's table in the file it came from."""
        if operator.source_index is None:
            raise CodegenError(
                f"operator '{operator.name}' ({operator.kind}) was made during compilation and stays on the CPU: a "
                f".tflite file takes only CPU operators of the original model"
            )
        return self.origins.table(operator)

    # --- the file ------------------------------------------------------------------------------------------------

    def _indices(self, values: list[int]) -> int:
        return int(self.builder.CreateNumpyVector(np.array(values, np.int32)))

    def _table_vector(self, offsets: list[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _subgraph(
        self, name: str, tensors: list[int], operators: list[int], inputs: list[int], outputs: list[int]
    ) -> int:
        held = self._table_vector(tensors)
        given, made = self._indices(inputs), self._indices(outputs)
        calls = self._table_vector(operators)
        text = self.builder.CreateString(name)
        schema.SubGraphStart(self.builder)
        schema.SubGraphAddTensors(self.builder, held)
        schema.SubGraphAddInputs(self.builder, given)
        schema.SubGraphAddOutputs(self.builder, made)
        schema.SubGraphAddOperators(self.builder, calls)
        schema.SubGraphAddName(self.builder, text)
        return int(schema.SubGraphEnd(self.builder))

    def _metadata(self) -> list[int]:
        """The model's own metadata, then ours, in place of what the model may have brought under these names."""
        plan = struct.pack(f"<{3 + len(self.offsets)}i", 0, 1, len(self.offsets), *self.offsets)
        ours = (OFFLINE_PLAN, provenance.ENTRY)
        entries = {name: data for name, data in self.graph.metadata.items() if name not in ours}
        entries[OFFLINE_PLAN] = plan
        if self.provenance is not None:
            entries[provenance.ENTRY] = self.provenance
        written = []
        for name, data in entries.items():
            buffer = self._add_buffer(data)
            text = self.builder.CreateString(name)
            schema.MetadataStart(self.builder)
            schema.MetadataAddName(self.builder, text)
            schema.MetadataAddBuffer(self.builder, buffer)
            written.append(int(schema.MetadataEnd(self.builder)))
        return written

    def _operator_code(self, builtin: int, custom: bytes, version: int) -> int:
        text = self.builder.CreateString(custom) if custom else None
        schema.OperatorCodeStart(self.builder)
        # Both fields, whatever the model filled: there are runtimes that look at one alone.
        schema.OperatorCodeAddDeprecatedBuiltinCode(self.builder, min(builtin, FIRST_NEW))
        if text is not None:
            schema.OperatorCodeAddCustomCode(self.builder, text)
        schema.OperatorCodeAddVersion(self.builder, version)
        schema.OperatorCodeAddBuiltinCode(self.builder, builtin)
        return int(schema.OperatorCodeEnd(self.builder))

    def _model(self, subgraphs: list[int], metadata: list[int]) -> bytes:
        codes = self._table_vector([self._operator_code(*code) for code in self.codes])
        parts = self._table_vector(subgraphs)
        description = self.builder.CreateString(DESCRIPTION)
        buffers = self._table_vector(self.buffers)
        entries = self._table_vector(metadata)
        schema.ModelStart(self.builder)
        schema.ModelAddVersion(self.builder, _SCHEMA_VERSION)
        schema.ModelAddOperatorCodes(self.builder, codes)
        schema.ModelAddSubgraphs(self.builder, parts)
        schema.ModelAddDescription(self.builder, description)
        schema.ModelAddBuffers(self.builder, buffers)
        schema.ModelAddMetadata(self.builder, entries)
        model = schema.ModelEnd(self.builder)
        self.builder.Finish(model, b"TFL3")
        # Its Output() is a copy.
        return bytes(memoryview(self.builder.Bytes)[self.builder.Head() :])
