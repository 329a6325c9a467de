"""The arena that TensorFlow Lite Micro wants for a `.tflite`: the planned bytes, and its own structures beside them.

Owns the formula. Sizes are those of the structures in the sources of `micro_kernels.COMMIT`, for an Arm Cortex-M, where
a pointer has 4 bytes (`POINTER_BYTES`); a host of 64 bits shows that they are right:

| bytes | structure, source |
| --- | --- |
| each tensor | `TfLiteEvalTensor`: two pointers and a type; `core/c/common.h` |
| each operator | `NodeAndRegistration`: seven pointers and a size; `micro/micro_allocator.h` |
| each input and output | a pointer, `TfLiteTensor`; if quantised `TfLiteAffineQuantization` with its zero points |
| each kernel | options, `OpData`, factors, tables: `micro_buffers`; a handle for each scratch buffer |
| each resource | its bytes; five operators and what they keep; tensors for two handles and a constant |
| each variable tensor that the file does not plan | its bytes |
| once | allocators, planner, interpreter's lists: `FIXED_BYTES`, measured |
| while a kernel runs | its scratch buffers, placed by `micro_plan` around the file's plan |
| while kernels prepare | `ScratchBufferRequest`, the tensors of one operator, where the plan's bytes are |
| while planning | `AllocationInfo` and the greedy planner's tables for each buffer, where the plan's bytes are |

The kernels are the portable ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..frontend import tensor_counts
from ..ir import Graph, Operator, Tensor
from ..util.records import dataclass
from .micro_buffers import KernelBuffers, kernel_buffers
from .micro_plan import plan, unplanned_state

POINTER_BYTES = 4
FIXED_BYTES = 560
"""Measured on a host of 64 bits: enough for all of forty networks. A Cortex-M, with shorter pointers, takes no more."""

_ALIGNMENT = 16
_INT = 4
_MOST_REQUESTS = 12
"""`kMaxScratchBuffersPerOp`: room for this number of requests is kept behind the existing ones."""


@dataclass(frozen=True)
class MicroArena:
    """Bytes that TensorFlow Lite Micro takes of its arena, by what for.

    `planned` are those of tensors, by the plan in the file. `tensors`, `nodes`, `interface`, `kernels`, `state` and
    `fixed` lie behind them for good. `scratch` is needed beside the plan while kernels run, as far as that has no gap
    for it. `planning` lies where the plan does, before the first run.
    """

    planned: int
    tensors: int
    nodes: int
    interface: int
    kernels: int
    state: int
    fixed: int
    scratch: int
    planning: int

    @property
    def beyond_bytes(self) -> int:
        """What the arena must have more than the planned bytes."""
        own = self.tensors + self.nodes + self.interface + self.kernels + self.state + self.fixed
        return own + max(self.scratch, self.planning - self.planned)

    @property
    def arena_bytes(self) -> int:
        """What to give the interpreter at the least, in whole steps of the alignment."""
        return _aligned(self.planned + self.beyond_bytes)


def of_file(graph: Graph, pointer_bytes: int = POINTER_BYTES) -> MicroArena:
    """What a compiled file, as it was read, takes."""
    ends = [graph.tensors[t] for t in (*graph.given, *graph.handed_out)]
    kernels = [kernel_buffers(graph, op, pointer_bytes) for op in graph.operators]
    lists = sum(_aligned(len(of) * pointer_bytes) for of in (graph.given, graph.handed_out))
    resources = [graph.tensors[v.before] for v in graph.variables if not v.in_place]
    tensors = sum(tensor_counts(graph.source))
    nodes = len(graph.operators) + (1 + 5 * len(resources) if resources else 0)
    requests = sum(len(kernel.scratch) for kernel in kernels)
    planned = plan(graph, [()] * len(kernels)).end
    placed = plan(graph, [kernel.scratch for kernel in kernels])
    apart = sum(_aligned(graph.tensors[t].size_bytes) for t in unplanned_state(graph))
    return MicroArena(
        planned=planned,
        tensors=tensors * _struct(2 * pointer_bytes, _INT, pointer_bytes),
        nodes=nodes * (_struct(6 * pointer_bytes, _INT, pointer_bytes) + pointer_bytes),
        interface=lists + sum(_tensor(pointer_bytes) + _quantisation(tensor, pointer_bytes) for tensor in ends),
        kernels=_kept(kernels) + requests * pointer_bytes,
        state=apart + _resources(resources, pointer_bytes),
        fixed=FIXED_BYTES,
        scratch=max(placed.end - planned, 0),
        planning=_planning(graph, (tensors, requests, placed.buffers), pointer_bytes),
    )


def _resources(variables: Sequence[Tensor], pointer: int) -> int:
    """Resources' bytes, `MicroResourceVariable`, what two VAR_HANDLE and two ASSIGN_VARIABLE keep; one CALL_ONCE."""
    each = 5 * pointer + 2 * (2 * pointer + _ALIGNMENT) + 2 * _ALIGNMENT
    once = 2 * pointer + 2 * _ALIGNMENT
    return sum(_aligned(tensor.size_bytes) + _aligned(each) for tensor in variables) + (once if variables else 0)


def _kept(kernels: Sequence[KernelBuffers]) -> int:
    """What kernels keep: options one behind the other, then buffers of whole steps of the alignment."""
    options = sum(-(-kernel.options // _INT) * _INT for kernel in kernels)
    return _aligned(options) + sum(_aligned(size) for kernel in kernels for size in kernel.kept)


def _planning(graph: Graph, counts: tuple[int, int, int], pointer: int) -> int:
    """What lies where the plan does before it is made: requests, and an operator's tensors or all buffers' tables."""
    tensors, requests, placed = counts
    asked = (_MOST_REQUESTS + requests) * (pointer + 2 * _INT)
    prepared = max((_prepared(graph, op, pointer) for op in graph.operators), default=0)
    tables = (tensors + requests) * _struct(2 * pointer, 4 * _INT, pointer) + placed * 10 * _INT
    return _aligned(asked) + max(prepared, _ALIGNMENT + tables)


def _prepared(graph: Graph, operator: Operator, pointer: int) -> int:
    """An operator's tensors as a kernel prepares itself, which asks twice for each, an LSTM once."""
    times = 1 if operator.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" else 2
    touched = [graph.tensors[t] for t in (*operator.inputs, *operator.outputs) if t is not None]
    return times * sum(_tensor(pointer) + _quantisation(tensor, pointer) for tensor in touched)


def _tensor(pointer: int) -> int:
    """`TfLiteTensor` with TF_LITE_STATIC_MEMORY."""
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
