"""Reads `.tflite` files that Vela made: payloads, constants, arena offsets. For tests only; no part of the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tflite

DTYPES = {0: np.float32, 2: np.int32, 3: np.uint8, 4: np.int64, 7: np.int16, 9: np.int8}


@dataclass(frozen=True)
class Tensor:
    """A network input or output: where it lies in the arena and what it looks like."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    scale: float
    zero_point: int

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize


@dataclass(frozen=True)
class NpuOp:
    """One `ethos-u` operator. Sizes in bytes, offsets in the arena."""

    payload: bytes
    constants: bytes
    scratch: tuple[int, int]
    fast_scratch: tuple[int, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class VelaFile:
    """A compiled network. `operators` holds an NpuOp, or the name of an operator that stays on the CPU."""

    operators: tuple[NpuOp | str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    variables: tuple[Tensor, ...] = ()


def read(path: Path) -> VelaFile:
    """Reads the file; offsets come from its OfflineMemoryAllocation metadata."""
    model = tflite.Model.GetRootAs(path.read_bytes(), 0)
    graph = model.Subgraphs(0)
    offsets = _offsets(model)

    def tensor(index: int) -> Tensor:
        t = graph.Tensors(index)
        q = t.Quantization()
        scaled = q is not None and q.ScaleLength() > 0
        return Tensor(
            name=t.Name().decode(),
            shape=tuple(int(n) for n in t.ShapeAsNumpy()) if t.ShapeLength() else (),
            dtype=np.dtype(DTYPES[t.Type()]),
            offset=offsets[index],
            scale=float(q.Scale(0)) if scaled else 1.0,
            zero_point=int(q.ZeroPoint(0)) if scaled and q.ZeroPointLength() else 0,
        )

    def constant(index: int) -> bytes:
        buffer = model.Buffers(graph.Tensors(index).Buffer())
        return buffer.DataAsNumpy().tobytes() if buffer.DataLength() else b""

    def place(index: int) -> tuple[int, int]:
        t = tensor(index)
        return t.offset, t.size_bytes

    def operator(op: tflite.Operator) -> NpuOp | str:
        code = model.OperatorCodes(op.OpcodeIndex())
        if code.CustomCode() != b"ethos-u":
            return str(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()))
        inputs = [int(i) for i in op.InputsAsNumpy()]
        return NpuOp(
            payload=constant(inputs[0]),
            constants=constant(inputs[1]),
            scratch=place(inputs[2]),
            fast_scratch=place(inputs[3]),
            inputs=tuple(tensor(i) for i in inputs[4:]),
            outputs=tuple(tensor(int(i)) for i in op.OutputsAsNumpy()),
        )

    return VelaFile(
        operators=tuple(operator(graph.Operators(i)) for i in range(graph.OperatorsLength())),
        inputs=tuple(tensor(int(i)) for i in graph.InputsAsNumpy()),
        outputs=tuple(tensor(int(i)) for i in graph.OutputsAsNumpy()),
        variables=tuple(tensor(i) for i in range(graph.TensorsLength()) if graph.Tensors(i).IsVariable()),
    )


def _offsets(model: tflite.Model) -> list[int]:
    for i in range(model.MetadataLength()):
        metadata = model.Metadata(i)
        if metadata.Name() == b"OfflineMemoryAllocation":
            words = model.Buffers(metadata.Buffer()).DataAsNumpy().view(np.int32)
            return [int(word) for word in words[3 : 3 + int(words[2])]]
    raise ValueError("no OfflineMemoryAllocation metadata")


def without_last_operator(model: bytes) -> bytes:
    """A model whose output is the first input of its last operator, which is gone. Patched in place."""
    data = bytearray(model)
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    last = graph.Operators(graph.OperatorsLength() - 1)
    outputs = graph._tab.Vector(graph._tab.Offset(8))
    operators = graph._tab.Vector(graph._tab.Offset(10)) - 4
    data[outputs : outputs + 4] = int(last.Inputs(0)).to_bytes(4, "little")
    data[operators : operators + 4] = (graph.OperatorsLength() - 1).to_bytes(4, "little")
    return bytes(data)
