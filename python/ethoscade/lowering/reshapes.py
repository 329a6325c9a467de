"""RESHAPE, SQUEEZE and EXPAND_DIMS as copies: from what a network is given to what it hands out no other name does.

Owns how such a copy sees the bytes. Which of them the NPU copies is `partition`'s decision; all others are `aliases`.
"""

from __future__ import annotations

import math

from ..ir import QUANTISED, DType, Graph, Tensor
from . import limits, views
from .maker import Maker
from .npu import NpuGraphBuilder


def can_be_copied(tensor: Tensor) -> bool:
    """Whether the NPU has rows, columns and channels enough for a tensor."""
    return max(_seen(tensor)[0]) <= limits.MAX_DIMENSION


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy. Precondition: its input can be copied, and its output is bytes of its own."""
    op = graph.operators[op_index]
    shape, dtype = _seen(graph.read(op))
    ifm, ofm = (builder.view(tensor, shape, 0, dtype=dtype) for tensor in (op.input(0), op.outputs[0]))
    Maker(op.name, op_index, builder).copy(ifm, ofm)


def _seen(tensor: Tensor) -> tuple[views.Shape3, DType]:
    """A tensor's elements, or its bytes where the NPU has no such elements."""
    if tensor.dtype in (*QUANTISED, DType.INT32):
        return views.image_shape(tensor.shape), tensor.dtype
    *leading, last = tensor.shape or (1,)
    return views.image_shape((*leading, last * tensor.size_bytes // math.prod(tensor.shape))), DType.INT8
