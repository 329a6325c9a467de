"""Who can say what an operator ought to compute: which judges exist for its kind and type, and which one decides.

Owns the operators on which LiteRT is not the rule; which kernels Micro has is in `reference`'s table. Runs neither.

LiteRT's reference kernels decide wherever they can. Micro's kernels are the device's own, and their arithmetic, which
`reference` has bit by bit, decides where LiteRT rounds otherwise or ends its process. Both need a kernel for the type:
where Micro has none, LiteRT alone is the rule, or none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from ..ir import QUANTISED, DType, Graph, Operator, SoftmaxAttrs
from ..ir.operators import OPERATORS, updated
from . import reference

_LITERT_ROUNDS_ONCE = frozenset({"FULLY_CONNECTED", "UNIDIRECTIONAL_SEQUENCE_LSTM"})
"""Kinds that LiteRT rounds once, Micro twice; everything else both round twice."""

_LITERT_MISREADS_BIASES = frozenset({"CONV_2D", "FULLY_CONNECTED"})
"""Kinds of which LiteRT takes an int32 bias of int16 feature maps for an int64 one, where options do not name its type.
"""

_LITERT_MISREADS_SIGNED = frozenset({"SUM"})
"""Kinds of which LiteRT's reference kernel takes stored values of signed types for unsigned ones of 8 bits."""

_LITERT_REMEMBERS_OTHERWISE = frozenset({"SVDF"})
"""Kinds that leave another state behind in LiteRT than in Micro, or of which it takes every state for int16."""

_LITERT_ABORTS = frozenset({"SOFTMAX"})
"""Kinds on which LiteRT may end its process by an assertion over a result that is clear; on devices there is none."""

_LITERT_LACKS: Mapping[str, Collection[DType]] = {
    "ELU": frozenset(DType),
    "SQUARED_DIFFERENCE": {DType.INT16},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {DType.INT16},
}
"""Kinds of which LiteRT has no reference kernel for some types."""

_LITERT_KEEPS_SHAPES = frozenset({"PRELU"})
"""Kinds of which LiteRT does not repeat the first input, though others do."""

_LITERT_KEEPS_SCALES = frozenset({"MIRROR_PAD", "PACK", "UNPACK"})
"""Kinds that LiteRT refuses where scales or zero points differ, though others copy stored values whatever these are."""


_ONE_LITERT_KERNEL = frozenset({
    "ABS", "ARG_MAX", "ARG_MIN", "BROADCAST_TO", "CAST", "CUMSUM", "EQUAL", "EXPAND_DIMS", "FILL", "GATHER",
    "GATHER_ND", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR",
    "MIRROR_PAD", "NEG", "NOT_EQUAL", "ONE_HOT", "PACK", "RANK", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1",
    "RESHAPE", "REVERSE_V2", "RSQRT", "SCATTER_ND", "SELECT", "SELECT_V2", "SHAPE", "SPLIT", "SPLIT_V", "SQRT",
    "SQUARE", "SQUARED_DIFFERENCE", "SQUEEZE", "TILE", "TOPK_V2", "UNPACK", "WHERE",
})  # fmt: skip
"""Kinds of which LiteRT's default and reference resolvers have the same kernel, of perhaps other versions.

From LiteRT's tflite/kernels/register_ref.cc: those registered without a reference variant. TILE is one, of version 3 in
the default resolver and 2 in the other.
"""

_FACTORED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MUL", "TRANSPOSE_CONV"})
"""Kinds whose results are multiplied by both operands' scales over the output's."""

_RESCALED = frozenset({"QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1"})
"""Kinds whose results are multiplied by the input's scale over the output's."""

NOBODY_JUDGES: Mapping[str, tuple[DType, ...]] = {"ABS": (DType.UINT8,), "SQUARED_DIFFERENCE": (DType.UINT8,)}
"""Types of kinds that the NPU or emitted C computes, and of which neither LiteRT nor Micro has a kernel."""

_BELOW_ONE = frozenset({"ADD", "SUB", "SQUARED_DIFFERENCE"})
"""Kinds of which kernels, LiteRT's or Micro's, end the process where a factor of their results is 1 or more."""

_UNDEFINED = _FACTORED | _RESCALED | _BELOW_ONE

_MOST_FACTOR = 2.0**31
"""Kernels shift 32-bit integers by 31 at most: what a larger factor gives differs by machine."""


def input_type(graph: Graph, op: Operator) -> DType | None:
    """The type that an operator's kernel is chosen by: that of its first input with values."""
    row = OPERATORS.get(op.kind)
    for index in op.inputs[row.data_input if row else 0 :]:
        if index is not None:
            return graph.tensors[index].dtype
    return None


def has_micro_kernel(graph: Graph, op: Operator) -> bool:
    """Whether TensorFlow Lite Micro has a kernel for the operator's kind and type whose arithmetic is known here."""
    meaning = reference.MEANINGS.get(op.kind)
    return meaning is not None and input_type(graph, op) in meaning.micro


def micro_decides(graph: Graph, op: Operator) -> bool:
    """Whether Micro's arithmetic is the rule although LiteRT has its own: LiteRT rounds otherwise, or cannot run it."""
    misread = op.kind in _LITERT_MISREADS_BIASES and _has_narrow_bias(graph, op)
    # Micro has kernels of signed types alone.
    otherwise = op.kind in _LITERT_ROUNDS_ONCE | _LITERT_MISREADS_SIGNED | _LITERT_REMEMBERS_OTHERWISE
    return has_micro_kernel(graph, op) and (otherwise or misread or _too_fine(graph, op))


def micro_stands_in(graph: Graph, op: Operator) -> bool:
    """Whether Micro's arithmetic is the rule where LiteRT did not take the operator."""
    return (op.kind in _LITERT_ABORTS or litert_lacks(graph, op)) and has_micro_kernel(graph, op)


def litert_lacks(graph: Graph, op: Operator) -> bool:
    """Whether LiteRT has no reference kernel for the operator's kind and type, or its scales, though others have."""
    dtype = input_type(graph, op)
    return dtype in (*_LITERT_LACKS.get(op.kind, ()), *NOBODY_JUDGES.get(op.kind, ())) or (
        (op.kind in _LITERT_KEEPS_SCALES and _changes_scale(graph, op))
        or (op.kind in _LITERT_KEEPS_SHAPES and graph.read(op).shape != graph.made(op).shape)
    )


def _changes_scale(graph: Graph, op: Operator) -> bool:
    """Whether values of 8 or 16 bits that an operator reads and makes have several quantisations."""
    tensors = (graph.tensors[t] for t in (*op.inputs, *op.outputs) if t is not None)
    return len({tensor.quantisation for tensor in tensors if tensor.dtype in QUANTISED}) > 1


def default_kernel_decides(op: Operator) -> bool:
    """Whether LiteRT's default kernel says the same as its reference kernel, where this one lacks a version."""
    return op.kind in _ONE_LITERT_KERNEL


def undefined(graph: Graph, op: Operator) -> str | None:
    """Why the result of an operator is undefined although runtimes have a kernel for it, or None."""
    if op.kind not in _UNDEFINED or any(t is None for t in (*op.inputs[:2], op.inputs[OPERATORS[op.kind].data_input])):
        return None
    made = graph.made(op)
    if made.quantisation is not None and (scale := min(made.quantisation.scales)) <= 0:
        return f"its output has scale {scale:g}, by which kernels divide"
    if op.kind == "TRANSPOSE_CONV" and _has_narrow_bias(graph, op):
        return "kernels take its bias of int32 for one of int64, and read on behind it"
    if op.kind == "DEPTHWISE_CONV_2D" and _has_narrow_bias(graph, op):
        return "LiteRT refuses its bias of int32, and TensorFlow Lite Micro takes it for one of int64"
    if op.kind in _BELOW_ONE:
        return reference.undefined_factor(graph, op)
    if op.kind in _FACTORED | _RESCALED and (factor := _largest_factor(graph, op)) >= _MOST_FACTOR:
        return f"its results are multiplied by {factor:g}; kernels are defined below 2^31"
    return None


def _largest_factor(graph: Graph, op: Operator) -> float:
    """The largest factor of an operator's results, by its scales; 0.0 where some tensor has none."""
    if graph.made(op).dtype not in QUANTISED:
        return 0.0
    places = (OPERATORS[op.kind].data_input, *(() if op.kind in _RESCALED else (1,)))
    tensors = [*(graph.read(op, place) for place in places), graph.made(op)]
    scales = [None if tensor.quantisation is None else tensor.quantisation.scales for tensor in tensors]
    *factors, out = (0.0 if one is None else max(one) for one in scales)
    return math.prod(factors) / out if out else 0.0


def litert_misses(graph: Graph, op: Operator) -> str | None:
    """Why LiteRT cannot be asked about an operator although it would answer, or end its process, or None."""
    if (why := undefined(graph, op)) is not None:
        return why
    tensors = (graph.tensors[t] for t in _state(graph, op))
    state = next((t for t in tensors if t.dtype is not DType.INT16), None)
    if op.kind != "SVDF" or input_type(graph, op) is not DType.INT8 or state is None:
        return None
    return f"LiteRT takes state '{state.name}' for int16, and it is {state.dtype.value}"


def micro_misses(graph: Graph, op: Operator) -> str | None:
    """Why Micro itself cannot be asked about an operator, or None. A state that several operators share escapes it."""
    if (why := undefined(graph, op)) is not None:
        return why
    state = {*_state(graph, op), *(after for _, after in updated(op))}
    others = [other.inputs for other in graph.operators if other is not op]
    shared = any(not state.isdisjoint(seen) for seen in (*others, graph.handed_out))
    return "TensorFlow Lite Micro alone would not see what others do to its state" if shared else None


def _state(graph: Graph, op: Operator) -> list[int]:
    """The inputs that an operator writes over, or may write over if it is unchecked."""
    written_over = dict(updated(op))
    return [t for t in op.inputs if t is not None and (graph.tensors[t].is_variable or t in written_over)]


def described(graph: Graph, op: Operator) -> str:
    """An operator with its type, for messages."""
    dtype = input_type(graph, op)
    return f"operator '{op.name}' ({op.kind}{'' if dtype is None else f' of {dtype.value}'})"


def _has_narrow_bias(graph: Graph, op: Operator) -> bool:
    place = reference.bias_place(op)
    bias = op.inputs[place] if len(op.inputs) > place else None
    narrow = bias is not None and graph.tensors[bias].dtype is DType.INT32
    return narrow and input_type(graph, op) is DType.INT16


def _too_fine(graph: Graph, op: Operator) -> bool:
    """A SOFTMAX whose input scale is so small that the fixed-point factor falls below 1: LiteRT ends its process."""
    if not isinstance(op.attrs, SoftmaxAttrs) or op.inputs[0] is None:
        return False
    quantisation = graph.tensors[op.inputs[0]].quantisation
    return quantisation is not None and quantisation.scale * op.attrs.beta * (1 << 26) <= 1.0
