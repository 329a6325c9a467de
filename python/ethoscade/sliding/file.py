"""The file of a sliding network: the original with fewer rows, and variables for those of the runs before.

Owns what is written into the file. The schema's classes, through which it is read and written, come with LiteRT.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any

import flatbuffers
import numpy as np

from ..errors import ConfigError, ModelFormatError, VerificationError
from ..frontend import read_tflite
from ..ir import Array, Graph, Operator
from ..judge import reference
from ..rewrites import drop_dead
from ..util.arguments import Range, checked
from ..util.records import dataclass
from .rows import SlidingRows, TimeAxis, sliding_rows

_RESOURCE = 13
"""TensorType.RESOURCE of TensorFlow Lite's schema."""

_IDENTIFIER = b"TFL3"
_FIRST_NEW_CODE = 127

_DAMAGE = (struct.error, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError)
"""What the schema's classes raise at fields not looked at by `read_tflite`."""


NewRows = Annotated[int, Range(1, (1 << 31) - 1)]


@dataclass(frozen=True, eq=False)
class Sliding:
    """A network taking `new_rows` rows in each run in place of a window of `window_rows`.

    `model` is its .tflite. `kept_bytes` are those of the variables, `window_operators` the names of the
    operators that still read the whole window.
    """

    model: bytes = field(repr=False)
    new_rows: int
    window_rows: int
    kept_bytes: int
    window_operators: tuple[str, ...]


@checked()
def slide(model: str | os.PathLike[str] | bytes, rows: NewRows = 1) -> Sliding:
    """The quantised .tflite (path or bytes) of a sliding window, taking only `rows` new rows in each run.

    A run of it computes what the original does on a window of which these are the last rows; before the first run the
    window holds zeros. Outputs along time have new rows alone. Raises `ConfigError` for a network that cannot slide,
    `ModelFormatError` for a file that is none or damaged, `UnsupportedOperatorError` where the rows of zeros cannot be
    computed, `VerificationError` if LiteRT (extra `verify`), whose schema is needed, is missing.
    """
    return slide_graph(read_tflite(model), rows)


def slide_graph(graph: Graph, rows: int) -> Sliding:
    """As `slide`, of a graph with its file's bytes."""
    plan = sliding_rows(graph, rows)
    kept = {tensor: plan.kept_rows(tensor) for tensor in plan.time_axes if plan.kept_rows(tensor)}
    silent = _silence(graph, tuple(kept))
    data = _Editor(graph, plan, kept, silent).finish()
    time = plan.time_axes[graph.given[0]]
    names = tuple(graph.operators[index].name for index in plan.window_operators)
    size = sum(silent[tensor].nbytes // plan.time_axes[tensor].rows * count for tensor, count in kept.items())
    read_tflite(data)
    return Sliding(data, rows, time.rows, size, names)


def _silence(graph: Graph, tensors: tuple[int, ...]) -> Mapping[int, Array]:
    """What tensors hold where the input is zero all the time."""
    asked = replace(graph, outputs=tensors)
    (given,) = graph.given
    tensor = graph.tensors[given]
    zero = 0 if tensor.quantisation is None or tensor.dtype.is_float else tensor.quantisation.zero_point
    if not tensor.dtype.is_float and not tensor.dtype.limits[0] <= zero <= tensor.dtype.limits[1]:
        raise ModelFormatError(
            f"the zero point of input '{tensor.name}' is {zero}, which is no {tensor.dtype.value}", value=zero
        )
    inputs = {tensor.name: np.full(tensor.shape, zero, tensor.dtype.numpy)}
    found: dict[int, Array] = {given: inputs[tensor.name]}
    others = [index for index in tensors if index != given]
    if others:
        renamed = [replace(t, name=f"{number}") if number in others else t for number, t in enumerate(graph.tensors)]
        asked = drop_dead(replace(graph, tensors=tuple(renamed), outputs=tuple(others)))
        outputs = reference.run_steps(asked, [inputs])[0].outputs
        found.update({index: outputs[str(index)] for index in others})
    return found


def _with_rows(shape: Sequence[int], time: TimeAxis, rows: int) -> list[int]:
    """A shape with another number of rows."""
    return [rows * time.unit if axis == time.axis else extent for axis, extent in enumerate(shape)]


class _Editor:
    """The file's tables, which are changed in place and packed in the end."""

    def __init__(self, graph: Graph, plan: SlidingRows, kept: Mapping[int, int], silent: Mapping[int, Array]) -> None:
        try:
            from ai_edge_litert import schema_py_generated
        except ImportError as error:
            raise VerificationError(
                "LiteRT, with whose schema files are changed, is missing; install ethoscade[verify]"
            ) from error
        self._schema: Any = schema_py_generated
        self._graph, self._plan, self._kept, self._silent = graph, plan, kept, silent
        self._model = self._unpacked(graph.source)
        self._main = self._model.subgraphs[0]
        self._shapes = [tuple(tensor.shape) for tensor in graph.tensors]
        self._handles: list[Any] = []

    def finish(self) -> bytes:
        """The bytes of the changed file."""
        for index, time in self._plan.time_axes.items():
            self._shapes[index] = tuple(_with_rows(self._shapes[index], time, time.new))
            self._set_shape(self._main.tensors[index], self._shapes[index])
        behind: dict[int | None, list[Any]] = {}
        joined: dict[int, int] = {}
        maker = self._graph.producer()
        for tensor in self._kept:
            operators, joined[tensor] = self._keep(tensor)
            behind.setdefault(maker.get(tensor), []).extend(operators)
        operators = list(behind.get(None, ()))
        for index, operator in enumerate(self._graph.operators):
            table = self._main.operators[self._place(operator)]
            operators += self._redirect(index, table, joined)
            self._reshape(operator, table)
            operators += [table, *behind.get(index, ())]
        self._main.operators = [*self._set_up(), *self._handles, *operators]
        builder = flatbuffers.Builder(len(self._graph.source) + 4096)
        try:
            builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        except _DAMAGE as error:
            raise ModelFormatError(f"'{self._graph.name}' has a field that cannot be written again: {error}") from error
        return bytes(builder.Output())

    def _unpacked(self, source: bytes) -> Any:
        """All of the file, with buffers from behind its FlatBuffer in it."""
        try:
            model = self._schema.ModelT.InitFromPackedBuf(bytearray(source), 0)
        except _DAMAGE as error:
            raise ModelFormatError(f"'{self._graph.name}' has a field that cannot be read: {error}") from error
        for buffer in model.buffers:
            if buffer.offset > 1:
                buffer.data = np.frombuffer(source, np.uint8, buffer.size, buffer.offset)
                buffer.offset = buffer.size = 0
        for operator in (operator for subgraph in model.subgraphs for operator in subgraph.operators or ()):
            if operator.largeCustomOptionsOffset > 1:
                raise ConfigError(
                    f"'{self._graph.name}' has options of a custom operator behind its FlatBuffer, which sliding files "
                    f"have no place for"
                )
        return model

    def _place(self, operator: Operator) -> int:
        if operator.source_index is None:
            raise ConfigError(f"operator '{operator.name}' of '{self._graph.name}' is none of its file")
        return operator.source_index

    # --- rows that are kept ------------------------------------------------------------------------------------------

    def _keep(self, tensor: int) -> tuple[list[Any], int]:
        """Operators to put kept rows before the new ones and keep the last of both, and the tensor of both."""
        time, rows = self._plan.time_axes[tensor], self._kept[tensor]
        name, shape = self._graph.tensors[tensor].name, self._shapes[tensor]
        before = self._add_tensor(f"{name}/before", tensor, _with_rows(shape, time, rows))
        both = self._add_tensor(f"{name}/both", tensor, _with_rows(shape, time, rows + time.new))
        after = self._add_tensor(f"{name}/after", tensor, _with_rows(shape, time, rows))
        handle = self._add_handle(self._main, f"{name}/rows")
        options = self._schema.VarHandleOptionsT()
        options.container, options.sharedName = "", f"{name}/rows"
        self._handles.append(self._operator("VAR_HANDLE", 1, [], [handle], options))
        join = self._schema.ConcatenationOptionsT()
        join.axis, join.fusedActivationFunction = time.axis, 0
        return [
            self._operator("READ_VARIABLE", 1, [handle], [before], self._schema.ReadVariableOptionsT()),
            self._operator("CONCATENATION", 2, [before, tensor], [both], join),
            self._cut(both, after, time, time.new),
            self._operator("ASSIGN_VARIABLE", 1, [handle, after], [], self._schema.AssignVariableOptionsT()),
        ], both

    def _cut(self, tensor: int, into: int, time: TimeAxis, row: int) -> Any:
        """SLICE: the rows of a tensor from `row` on, as many as another one has."""
        shape = self._main.tensors[into].shape
        begin = [row * time.unit if axis == time.axis else 0 for axis in range(len(shape))]
        name = self._main.tensors[into].name
        operands = [self._add_integers(f"{name}/{what}", value) for what, value in (("begin", begin), ("size", shape))]
        return self._operator("SLICE", 2, [tensor, *operands], [into], self._schema.SliceOptionsT())

    def _redirect(self, index: int, table: Any, joined: Mapping[int, int]) -> list[Any]:
        """Let an operator read the rows it needs; returns the operators to cut them off ahead of it."""
        ahead, inputs = [], [int(t) for t in table.inputs]
        for place, tensor in enumerate(inputs):
            rows = self._plan.reads.get((index, tensor), 0)
            if not rows:
                continue
            time, most = self._plan.time_axes[tensor], self._kept[tensor]
            inputs[place] = joined[tensor]
            if rows < most:
                name = f"{self._graph.tensors[tensor].name}/for_{index}_{place}"
                inputs[place] = self._add_tensor(name, tensor, _with_rows(self._shapes[tensor], time, rows + time.new))
                ahead.append(self._cut(joined[tensor], inputs[place], time, most - rows))
        table.inputs = inputs
        return ahead

    def _reshape(self, operator: Operator, table: Any) -> None:
        """Tell a RESHAPE of rows its new shape, and a SQUEEZE what it drops: not the only new row."""
        if operator.outputs[0] not in self._plan.time_axes:
            return
        if operator.kind == "SQUEEZE":
            options = self._schema.SqueezeOptionsT()
            named = getattr(table.builtinOptions, "squeezeDims", None)
            every = [axis for axis, extent in enumerate(self._graph.read(operator).shape) if extent == 1]
            options.squeezeDims = every if named is None or not len(named) else named
            table.builtinOptionsType, table.builtinOptions = self._schema.BuiltinOptions.SqueezeOptions, options
        if operator.kind != "RESHAPE":
            return
        shape = list(self._shapes[operator.outputs[0]])
        name = f"{self._graph.tensors[operator.outputs[0]].name}/shape"
        table.inputs = [table.inputs[0], self._add_integers(name, shape)]
        if table.builtinOptions is not None:
            table.builtinOptions.newShape = shape

    def _set_up(self) -> list[Any]:
        """CALL_ONCE of a subgraph giving variables the rows of zeros."""
        if not self._kept:
            return []
        start = self._schema.SubGraphT()
        start.tensors, start.inputs, start.outputs, start.operators, start.name = [], [], [], [], "rows_of_zeros"
        for tensor, rows in self._kept.items():
            name, time = f"{self._graph.tensors[tensor].name}/rows", self._plan.time_axes[tensor]
            first = np.take(self._silent[tensor], range(rows * time.unit), axis=time.axis)
            handle = self._add_handle(start, name)
            options = self._schema.VarHandleOptionsT()
            options.container, options.sharedName = "", name
            value = self._copy_of(tensor, f"{name}/first", list(first.shape), first.tobytes())
            start.tensors.append(value)
            start.operators += [
                self._operator("VAR_HANDLE", 1, [], [handle], options),
                self._operator("ASSIGN_VARIABLE", 1, [handle, handle + 1], [], self._schema.AssignVariableOptionsT()),
            ]
        self._model.subgraphs.append(start)
        options = self._schema.CallOnceOptionsT()
        options.initSubgraphIndex = len(self._model.subgraphs) - 1
        return [self._operator("CALL_ONCE", 1, [], [], options)]

    # --- tables ------------------------------------------------------------------------------------------------------

    def _operator(self, kind: str, version: int, inputs: list[int], outputs: list[int], options: Any) -> Any:
        found = self._schema.OperatorT()
        found.opcodeIndex, found.inputs, found.outputs = self._code(kind, version), inputs, outputs
        found.builtinOptionsType = getattr(self._schema.BuiltinOptions, type(options).__name__[:-1])
        found.builtinOptions = options
        return found

    def _code(self, kind: str, version: int) -> int:
        code = getattr(self._schema.BuiltinOperator, kind)
        for index, known in enumerate(self._model.operatorCodes):
            if max(known.builtinCode, known.deprecatedBuiltinCode) == code and known.version >= version:
                return index
        made = self._schema.OperatorCodeT()
        made.builtinCode, made.deprecatedBuiltinCode, made.version = code, min(code, _FIRST_NEW_CODE), version
        self._model.operatorCodes.append(made)
        return len(self._model.operatorCodes) - 1

    def _add_tensor(self, name: str, like: int, shape: list[int]) -> int:
        """A tensor of another one's type and scale; its number."""
        self._main.tensors.append(self._copy_of(like, name, shape))
        return len(self._main.tensors) - 1

    def _copy_of(self, like: int, name: str, shape: list[int], data: bytes = b"") -> Any:
        model, made = self._main.tensors[like], self._schema.TensorT()
        made.type, made.quantization, made.name = model.type, model.quantization, name
        made.buffer = self._add_buffer(data) if data else 0
        self._set_shape(made, shape)
        return made

    def _add_handle(self, subgraph: Any, name: str) -> int:
        made = self._schema.TensorT()
        made.type, made.name, made.buffer = _RESOURCE, f"{name}/handle", 0
        self._set_shape(made, [])
        subgraph.tensors.append(made)
        return len(subgraph.tensors) - 1

    def _add_integers(self, name: str, values: Sequence[int]) -> int:
        made = self._schema.TensorT()
        made.type, made.name = self._schema.TensorType.INT32, name
        made.buffer = self._add_buffer(np.asarray(values, "<i4").tobytes())
        self._set_shape(made, [len(values)])
        self._main.tensors.append(made)
        return len(self._main.tensors) - 1

    def _add_buffer(self, data: bytes) -> int:
        made = self._schema.BufferT()
        made.data = np.frombuffer(data, np.uint8)
        self._model.buffers.append(made)
        return len(self._model.buffers) - 1

    @staticmethod
    def _set_shape(table: Any, shape: Sequence[int]) -> None:
        table.shape, table.shapeSignature = list(shape), None
