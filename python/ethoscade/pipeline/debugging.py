"""A compiled network as Vela's debug database: which operator each command of its streams came from.

Owns reading the tables off a compilation; the format is `trace.debug_database`'s.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..codegen import tflite
from ..codegen.artifact import Artifact, NpuCall
from ..ir import Graph, Operator, Tensor, Window
from ..lowering.npu import NpuGraph, NpuOperation
from ..scheduling.program import CopyTensor, Program, Stripe
from ..trace.debug_database import DebugDatabase, OperationShape, OptimisedOperation, QueuedCommand, SourceOperator
from ..trace.record import command_offsets

_NONE = -1


def debug_database(artifact: Artifact, source: Graph, npu: NpuGraph, program: Program) -> DebugDatabase:
    """The tables of a compilation and of the `.tflite` that it is saved as. Raises `CodegenError` if there is none."""
    rows = {op.source_index: row for row, op in enumerate(source.operators) if op.source_index is not None}
    optimised, stages = _optimised(artifact.graph, npu, rows)
    steps = iter(program.steps)
    queue: list[QueuedCommand] = []
    offsets: list[int] = []
    file = tflite.write(artifact)
    for call in artifact.calls:
        if not isinstance(call, NpuCall):
            next(steps)
            continue
        for offset, step in zip(command_offsets(call.payload), steps, strict=False):
            assert not isinstance(step, CopyTensor), "no command copies tensors"
            stage = getattr(step, "stage", _NONE)
            queue.append(QueuedCommand(offset, len(offsets), stages[stage], not isinstance(step, Stripe)))
        offsets.append(file.index(call.payload))
    return DebugDatabase(
        f"{source.name}.tflite",
        f"{source.name}_ethosu.tflite",
        tuple(
            SourceOperator(op.name, _shape(source, op), row if op.source_index is None else op.source_index)
            for row, op in enumerate(source.operators)
        ),
        tuple(optimised),
        tuple(queue),
        tuple(offsets),
    )


def _optimised(graph: Graph, npu: NpuGraph, rows: Mapping[int, int]) -> tuple[list[OptimisedOperation], list[int]]:
    """The rows of NPU operations, behind each those of operators whose work it does too; the row of each operation."""
    found: list[OptimisedOperation] = []
    stages: list[int] = []
    for operation in npu.operations:
        stages.append(len(found))
        for number, index in enumerate(operation.serves):
            op = graph.operators[index]
            shape = _npu_shape(operation) if number == 0 else _shape(graph, op)
            group = None if number == 0 else stages[-1]
            name = operation.name if number == 0 else op.name
            source = _NONE if op.source_index is None else rows.get(op.source_index, _NONE)
            found.append(OptimisedOperation(name, shape, source, group))
    return found, stages


def _npu_shape(operation: NpuOperation) -> OperationShape:
    height, width, depth = operation.ofm.shape
    window = operation.window
    return OperationShape(operation.kind.value, (window.kernel_w, window.kernel_h), (width, height, depth))


def _shape(graph: Graph, op: Operator) -> OperationShape:
    window = next((w for w in (getattr(op.attrs, "window", None),) if isinstance(w, Window)), None)
    kernel = (window.kernel_w, window.kernel_h) if window is not None else (1, 1)
    return OperationShape(op.kind, kernel, _sizes(graph.made(op)) if op.outputs else (0, 0, 0))


def _sizes(tensor: Tensor) -> tuple[int, int, int]:
    """Width, height and depth, with 1 for what a tensor of fewer dimensions has not."""
    height, width, depth = (1, 1, 1, *tensor.shape)[-3:]
    return width, height, depth
