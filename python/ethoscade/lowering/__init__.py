"""Lowering: from operators of the graph to NPU operations, one operator family per module.

Owns the table of families; the kinds that a module lowers, with their limits, stand at its end. Which operators are
lowered is `partition`'s decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..ir import Graph, Integers, Operator, schema
from ..ir.operators import RESHAPES, KindTable
from ..targets.target import Accelerator
from . import reshapes
from .constraints import Case, first_refusal
from .family import Family
from .npu import NpuGraph, NpuGraphBuilder
from .one_row import in_one_row

__all__ = ["FAMILIES", "Family", "Selection", "Support", "elements", "lower", "support"]

FAMILIES: Mapping[str, Family] = KindTable(
    __name__,
    {
        "arg_max.ARG_MAX_FAMILIES": ["ARG_MAX"],
        "batch_matmul.MATRIX_FAMILIES": ["BATCH_MATMUL"],
        "bilinear.BILINEAR_FAMILIES": ["RESIZE_BILINEAR"],
        "binary.BINARY_FAMILIES": ["ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB"],
        "concatenation.JOIN_FAMILIES": ["CONCATENATION", "PACK"],
        "convolution.CONVOLUTION_FAMILIES": ["CONV_2D"],
        "depthwise.DEPTHWISE_FAMILIES": ["DEPTHWISE_CONV_2D"],
        "division.DIVISION_FAMILIES": ["DIV"],
        "elementwise.ELEMENTWISE_FAMILIES": ["ABS"],
        "extremes.EXTREME_FAMILIES": ["REDUCE_MAX", "REDUCE_MIN"],
        "fully_connected.DENSE_FAMILIES": ["FULLY_CONNECTED"],
        "gather.GATHER_FAMILIES": ["GATHER"],
        "identity.QUANTISE_FAMILIES": ["QUANTIZE"],
        "l2_normalization.L2_FAMILIES": ["L2_NORMALIZATION"],
        "log_softmax.LOG_SOFTMAX_FAMILIES": ["LOG_SOFTMAX"],
        "lookup.LOOKUP_FAMILIES": [
            "ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_0_TO_1",
            "RELU_N1_TO_1", "RSQRT", "SQRT", "TANH",
        ],
        "mean.MEAN_FAMILIES": ["MEAN", "SUM"],
        "padding.PAD_FAMILIES": ["MIRROR_PAD", "PAD", "PADV2", "REVERSE_V2", "TILE"],
        "pooling.POOL_FAMILIES": ["AVERAGE_POOL_2D", "MAX_POOL_2D"],
        "prelu.PRELU_FAMILIES": ["PRELU"],
        "recurrent.RECURRENT_FAMILIES": ["UNIDIRECTIONAL_SEQUENCE_LSTM"],
        "resize.RESIZE_FAMILIES": ["RESIZE_NEAREST_NEIGHBOR"],
        "softmax.SOFTMAX_FAMILIES": ["SOFTMAX"],
        "split.SPLIT_FAMILIES": ["SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE", "UNPACK"],
        "squared_difference.SQUARED_DIFFERENCE_FAMILIES": ["SQUARED_DIFFERENCE"],
        "svdf.SVDF_FAMILIES": ["SVDF"],
        "transpose.TRANSPOSE_FAMILIES": ["TRANSPOSE"],
        "transpose_conv.TRANSPOSE_CONV_FAMILIES": ["TRANSPOSE_CONV"],
    },
)  # fmt: skip
"""How each kind that the NPU computes runs on it."""


class Selection(Protocol):
    """Operators to lower, by index, in execution order (`partition.Partition` is one)."""

    @property
    def npu_operators(self) -> tuple[int, ...]:
        """Indices of the graph's operators that the NPU runs."""

    @property
    def aliases(self) -> Mapping[int, int]:
        """Outputs of operators among them that are other tensors' bytes, which some other operator makes or none."""


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run `op`, else the reason in one sentence without a full stop."""
    if op.opaque is not None:
        return op.opaque
    family = FAMILIES.get(op.kind)
    if family is None:
        return _no_family(graph, op)
    return first_refusal(family.takes, Case(graph, op, accelerator))


class Support:
    """`support` on one accelerator, remembered: rewrites ask about every operator again and again.

    An operator and its own tensors are all that the answer depends on, unless a constraint looks back from it: that
    is remembered for one graph.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._known: dict[tuple[object, ...], str | None] = {}

    def __call__(self, graph: Graph, op: Operator) -> str | None:
        """As `support`."""
        family = None if op.opaque is not None else FAMILIES.get(op.kind)
        case = Case(graph, op, self._accelerator)
        is_wide = family is not None and any(constraint.looks_back(case) for constraint in family.takes)
        # Not by tensors' indices, which are others whenever a rewrite has dropped a tensor.
        own = (tuple(None if t is None else graph.tensors[t] for t in ts) for ts in (op.inputs, op.outputs))
        between = tuple(graph.tensors[t] for t in op.intermediates)
        key = (op.kind, op.name, op.attrs, op.opaque, graph if is_wide else None, *own, between)
        if key not in self._known:
            self._known[key] = support(graph, op, self._accelerator)
        return self._known[key]


def elements(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers | None:
    """The stored results of an operator for stored values of its operands; None for kinds that see several elements.

    Precondition: the NPU runs it, of 8 bits.
    """
    results = FAMILIES[op.kind].results
    return None if results is None else results(graph, op, operands)


def _no_family(graph: Graph, op: Operator) -> str:
    """Why the NPU has nothing for an operator, of whatever kind: what it cannot be, first."""
    tensors = (("input", op.inputs), ("output", op.outputs))
    for role, index in ((role, t) for role, indices in tensors for t in indices if t is not None):
        tensor = graph.tensors[index]
        if tensor.dtype.is_float:
            return f"{role} '{tensor.name}' is {tensor.dtype.value}; the NPU computes with integers"
    if not hasattr(schema.BuiltinOperator, op.kind):
        return f"{op.kind} is a custom operator; the NPU has operations for some of TensorFlow Lite's own"
    return f"{op.kind} has no NPU implementation"


def lower(graph: Graph, partition: Selection) -> NpuGraph:
    """Operations of the operators that the partition gave to the NPU, in its execution order.

    `NpuOperation.operator` tells which operator an operation serves.
    """
    builder = NpuGraphBuilder(graph, partition.aliases)
    for op in partition.npu_operators:
        kind = graph.operators[op].kind
        if graph.operators[op].outputs[0] not in partition.aliases:
            (reshapes.lower if kind in RESHAPES else FAMILIES[kind].lower)(graph, op, builder)
    return in_one_row(builder.graph())
