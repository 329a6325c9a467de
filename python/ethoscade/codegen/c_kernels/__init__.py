"""The CPU operators that can be written as C. A new kernel: one Python file, one C file, one entry in `_ALL`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...errors import UnsupportedOperatorError
from ...ir import Graph, Operator
from ...ir.operators import OPERATORS
from ..kernel_table import OURS, KernelTable
from . import chosen, cmsis_nn
from .batch_matmul import BATCH_MATMUL
from .binary import ARITHMETIC, DIVISION, EXTREMES, WORDS
from .copy import COPY
from .detection import DETECTION
from .functions16 import CURVE, SAMPLES
from .gather import GATHER
from .kernel import Call, CKernel, Operands, data_input, refuse
from .l2_normalization import L2_NORMALIZATION
from .lstm import LSTM
from .moves import JOINED, PIECES, REVERSE, SLICE, TILE, TRANSPOSE
from .pad import MIRROR_PAD, PAD
from .pool import POOL
from .quantise import DEQUANTISE, QUANTISE
from .reals import REAL_FUNCTIONS, REAL_PAIRS
from .reduce import ADDED, ARG_MAX, REDUCED
from .rescale import ACTIVATIONS, REQUANTISE, UNIT_RELU
from .resize import BILINEAR, RESIZE
from .softmax import LOG_SOFTMAX, SOFTMAX, SOFTMAX_INT16
from .square_root import SQUARE_ROOT
from .svdf import SVDF
from .table import TABLE, TABLE_OF_INT8
from .texts import Source
from .texts import text_of as kernel_text
from .weighted import DENSE, WINDOWED

__all__ = [
    "KERNELS", "CKernel", "Call", "Operands", "Source", "constant_bytes", "kernel_for", "kernel_text", "read",
    "workspaces", "written",
]  # fmt: skip

_ALL: tuple[CKernel, ...] = (
    ACTIVATIONS, ADDED, ARG_MAX, ARITHMETIC, BATCH_MATMUL, BILINEAR, COPY, CURVE, DENSE, DEQUANTISE, DIVISION,
    EXTREMES, GATHER, JOINED, L2_NORMALIZATION, LOG_SOFTMAX, LSTM, MIRROR_PAD, PAD, PIECES, POOL, QUANTISE,
    REAL_FUNCTIONS, REAL_PAIRS, REDUCED, REQUANTISE, RESIZE, REVERSE, SAMPLES, SLICE, SOFTMAX, SOFTMAX_INT16,
    SQUARE_ROOT, SVDF, TABLE, TABLE_OF_INT8, TILE, TRANSPOSE, UNIT_RELU, WINDOWED, WORDS,
)  # fmt: skip

KERNELS = {kind: tuple(k for k in _ALL if kind in k.kinds) for kind in OPERATORS if any(kind in k.kinds for k in _ALL)}
"""The kernels of each kind that has some, each for types of its own."""

CUSTOM = {kind: (kernel,) for kernel in (DETECTION,) for kind in kernel.kinds}
"""The same of custom operators."""


class _Noted:
    """Operands that note which tensors are read."""

    def __init__(self) -> None:
        self.tensors: dict[int, None] = {}

    def source(self, tensor: int) -> str:
        self.tensors[tensor] = None
        return "NULL"

    def target(self, tensor: int) -> str:
        return "NULL"


def constant_bytes(graph: Graph) -> int:
    """Bytes of the constants that kernels of all operators read; of those without a kernel, all constant inputs."""
    read = _Noted()
    for operator in graph.operators:
        try:
            kernel_for(graph, operator).write(graph, operator, read)
        except UnsupportedOperatorError:
            read.tensors.update(dict.fromkeys(t for t in operator.inputs if t is not None))
    return sum(graph.tensors[t].size_bytes for t in read.tensors if graph.tensors[t].is_constant)


def written(graph: Graph, operator: Operator, operands: Operands, table: KernelTable) -> Call:
    """An operator's call: of the table's library where that takes it, else of our kernel.

    Raises `UnsupportedOperatorError` for one that no kernel takes.
    """
    found = None if table.library is None else cmsis_nn.write(graph, operator, operands, table.library)
    return kernel_for(graph, operator).write(graph, operator, operands) if found is None else found


def workspaces(graph: Graph, operators: Iterable[int], table: KernelTable) -> dict[int, int]:
    """Bytes that kernels and a table's functions work in, by operator; where it is none, or no kernel, left out."""
    found: dict[int, int] = {}
    for index in operators:
        operator = graph.operators[index]
        if table == OURS and operator.kind not in CUSTOM:
            continue
        try:
            call = written(graph, operator, _Noted(), table)
        except UnsupportedOperatorError:
            continue
        if size := chosen.workspace_bytes(table, call):
            found[index] = size
    return found


def read(kernels: str | os.PathLike[str], cmsis_nn_folder: str | os.PathLike[str] | None = None) -> KernelTable:
    """The table of a file, or of CMSIS-NN. Raises `ConfigError` for what makes no sense."""
    if isinstance(kernels, str) and cmsis_nn.is_meant(kernels):
        return KernelTable(library=cmsis_nn.read(kernels, cmsis_nn_folder))
    return chosen.read(kernels)


def kernel_for(graph: Graph, operator: Operator) -> CKernel:
    """The kernel of an operator, by its kind and types.

    Raises `UnsupportedOperatorError` naming the operator and the kernels there are.
    """
    kernels = KERNELS.get(operator.kind) or CUSTOM.get(operator.kind)
    if kernels is None:
        constraint = f"C kernels exist for {', '.join((*KERNELS, *CUSTOM))}"
        raise UnsupportedOperatorError(
            f"operator '{operator.name}' ({operator.kind}) stays on the CPU and cannot be written as C: {constraint}",
            operator=operator.name,
            constraint=constraint,
        )
    source, target = graph.tensors[data_input(operator)].dtype, graph.made(operator).dtype
    found = next((kernel for kernel in kernels if kernel.takes(source, target)), None)
    if found is None:
        pairs = dict.fromkeys(pair for kernel in kernels for pair in kernel.types or ())
        known = ", ".join(a.value if a is b else f"{a.value} to {b.value}" for a, b in pairs) or "one type"
        refuse(operator, f"it goes from {source.value} to {target.value}; C kernels of {operator.kind} take {known}")
    return found
