"""Who can say what an operator ought to compute: which judges exist for its kind and type, and which one decides.

Owns the operators on which LiteRT is not the rule; which kernels Micro has is in `reference`'s table. Runs neither.

LiteRT's reference kernels decide wherever they can. Micro's kernels are the device's own, and their arithmetic, which
`reference` has bit by bit, decides where LiteRT rounds otherwise or ends its process. Both need a kernel for the type:
where Micro has none, LiteRT alone is the rule, or nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..ir import QUANTISED, DType, Graph, Operator, SoftmaxAttrs
from ..operators import OPERATORS, updated
from . import reference

_LITERT_ROUNDS_ONCE = frozenset({"FULLY_CONNECTED", "UNIDIRECTIONAL_SEQUENCE_LSTM"})
"""Kinds that LiteRT rounds once, Micro twice; everything else both round twice."""

_LITERT_MISREADS_BIASES = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})
"""Kinds of which LiteRT takes an int32 bias of int16 feature maps for an int64 one, where options do not name its type.

DEPTHWISE_CONV_2D, whose options cannot name it, is refused; its sums are those of a CONV_2D with zeros beside its
weights.
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
    return input_type(graph, op) in _LITERT_LACKS.get(op.kind, ()) or (
        (op.kind in _LITERT_KEEPS_SCALES and _changes_scale(graph, op))
        or (op.kind in _LITERT_KEEPS_SHAPES and graph.read(op).shape != graph.made(op).shape)
    )


def _changes_scale(graph: Graph, op: Operator) -> bool:
    """Whether values of 8 or 16 bits that an operator reads and makes have several quantisations."""
    tensors = (graph.tensors[t] for t in (*op.inputs, *op.outputs) if t is not None)
    return len({tensor.quantisation for tensor in tensors if tensor.dtype in QUANTISED}) > 1


def litert_misses(graph: Graph, op: Operator) -> str | None:
    """Why LiteRT cannot be asked about an operator although it would answer, or end its process, or None."""
    tensors = (graph.tensors[t] for t in _state(graph, op))
    state = next((t for t in tensors if t.dtype is not DType.INT16), None)
    if op.kind != "SVDF" or input_type(graph, op) is not DType.INT8 or state is None:
        return None
    return f"LiteRT takes state '{state.name}' for int16, and it is {state.dtype.value}"


def micro_misses(graph: Graph, op: Operator) -> str | None:
    """Why Micro itself cannot be asked about an operator, or None. A state that several operators share escapes it."""
    state = {*_state(graph, op), *(after for _, after in updated(op))}
    others = [other.inputs for other in graph.operators if other is not op]
    shared = any(not state.isdisjoint(seen) for seen in (*others, graph.handed_out))
    return "TensorFlow Lite Micro alone would not see what others do to its state" if shared else None


def _state(graph: Graph, op: Operator) -> list[int]:
    """The inputs that an operator writes over, or may write over if nobody looked into it."""
    written_over = dict(updated(op))
    return [t for t in op.inputs if t is not None and (graph.tensors[t].is_variable or t in written_over)]


def described(graph: Graph, op: Operator) -> str:
    """An operator with its type, for messages."""
    dtype = input_type(graph, op)
    return f"operator '{op.name}' ({op.kind}{'' if dtype is None else f' of {dtype.value}'})"


def _has_narrow_bias(graph: Graph, op: Operator) -> bool:
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    narrow = bias is not None and graph.tensors[bias].dtype is DType.INT32
    return narrow and input_type(graph, op) is DType.INT16


def _too_fine(graph: Graph, op: Operator) -> bool:
    """A SOFTMAX whose input scale is so small that the fixed-point factor falls below 1: LiteRT ends its process."""
    if not isinstance(op.attrs, SoftmaxAttrs) or op.inputs[0] is None:
        return False
    quantisation = graph.tensors[op.inputs[0]].quantisation
    return quantisation is not None and quantisation.scale * op.attrs.beta * (1 << 26) <= 1.0
