"""The arena that TensorFlow Lite Micro wants for a `.tflite`: the planned bytes, and its own structures beside them.

Owns the formula. Sizes are those of the structures in the sources of `micro_kernels.COMMIT`, for an Arm Cortex-M, where
a pointer has 4 bytes (`POINTER_BYTES`); a host of 64 bits shows that they are right:

| bytes | structure, source |
| --- | --- |
| each tensor | `TfLiteEvalTensor`: two pointers and a type; `core/c/common.h` |
| each operator | `NodeAndRegistration`: seven pointers and a size; `micro/micro_allocator.h` |
| each input and output | a pointer, `TfLiteTensor`; if quantised `TfLiteAffineQuantization` with its zero points |
| each NPU call | `OpData`, three integers in 16 bytes, two handles; while it runs 12 bytes for each of its tensors |
| each variable | its bytes; five operators, and tensors for two handles and a constant |
| once | allocators, planner, interpreter's lists: `FIXED_BYTES`, measured |
| while planning | `AllocationInfo` and the greedy planner's tables for each buffer, where the plan's bytes are |

What kernels of operators on the CPU keep (their `OpData` and options, 16 to some 800 bytes each) comes on top.
"""

from __future__ import annotations

from ..frontend import ETHOS_U, tensor_counts
from ..ir import Graph, Tensor
from ..util.records import dataclass

POINTER_BYTES = 4
FIXED_BYTES = 584
"""Of a network with three operators, on a host of 64 bits, their options included: no less than a Cortex-M takes."""

_ALIGNMENT = 16
_INT = 4


@dataclass(frozen=True)
class MicroArena:
    """Bytes that TensorFlow Lite Micro takes of its arena, by what for.

    `planned` are those of the plan in the file. `tensors`, `nodes`, `interface`, `npu_calls`, `state` and `fixed` lie
    behind them for good. `scratch` is needed beside the plan while an NPU call runs, if that has no gap for it.
    `planning` lies where the plan does, before the first run.
    """

    planned: int
    tensors: int
    nodes: int
    interface: int
    npu_calls: int
    state: int
    fixed: int
    scratch: int
    planning: int

    @property
    def beyond_bytes(self) -> int:
        """What the arena must have more than the planned bytes."""
        own = self.tensors + self.nodes + self.interface + self.npu_calls + self.state + self.fixed
        return own + max(self.scratch, self.planning - self.planned)

    @property
    def arena_bytes(self) -> int:
        """What to give the interpreter at the least, in whole steps of the alignment."""
        return _aligned(self.planned + self.beyond_bytes)


def of_file(graph: Graph, planned_bytes: int, pointer_bytes: int = POINTER_BYTES) -> MicroArena:
    """What a compiled file, as it was read, takes beside its plan."""
    ends = [graph.tensors[t] for t in (*graph.given, *graph.handed_out)]
    calls = [len(op.inputs) + len(op.outputs) for op in graph.operators if op.kind == ETHOS_U]
    lists = sum(_aligned(len(of) * pointer_bytes) for of in (graph.given, graph.handed_out))
    variables = [graph.tensors[v.before] for v in graph.variables if not v.in_place]
    tensors = sum(tensor_counts(graph.source))
    nodes = len(graph.operators) + (1 + 5 * len(variables) if variables else 0)
    buffers = tensors + 2 * len(calls)
    return MicroArena(
        planned=planned_bytes,
        tensors=tensors * _struct(2 * pointer_bytes, _INT, pointer_bytes),
        nodes=nodes * (_struct(6 * pointer_bytes, _INT, pointer_bytes) + pointer_bytes),
        interface=lists + sum(_tensor(pointer_bytes) + _quantisation(tensor, pointer_bytes) for tensor in ends),
        npu_calls=len(calls) * (_aligned(3 * _INT) + 2 * pointer_bytes),
        state=sum(_aligned(tensor.size_bytes) for tensor in variables),
        fixed=FIXED_BYTES,
        scratch=max((_aligned(8 * count) + _aligned(pointer_bytes * count) for count in calls), default=0),
        planning=buffers * (_struct(2 * pointer_bytes, 4 * _INT, pointer_bytes) + 10 * _INT),
    )


def _tensor(pointer: int) -> int:
    """`TfLiteTensor` as it is with TF_LITE_STATIC_MEMORY."""
    quantisation = _struct(0, _INT, pointer) + pointer
    return _struct(quantisation + 2 * _INT + 3 * pointer + 2 * _INT, 1, pointer)


def _quantisation(tensor: Tensor, pointer: int) -> int:
    """`TfLiteAffineQuantization` and the zero points, an array with its length."""
    if tensor.quantisation is None:
        return 0
    return _struct(2 * pointer, _INT, pointer) + _INT * (1 + len(tensor.quantisation.scales))


def _struct(aligned: int, rest: int, pointer: int) -> int:
    """Bytes of a structure: what is a multiple of its alignment, and what is padded to one."""
    return aligned + -(-rest // pointer) * pointer


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
