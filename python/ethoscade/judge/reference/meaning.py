"""What the reference is to its callers: a kind's arithmetic, and for which operators it is defined here.

Owns these domains and the types of which TensorFlow Lite Micro has kernels with the same arithmetic. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...errors import ModelFormatError
from ...ir import EIGHT_BIT, Array, DType, Graph, Operator, ReductionAttrs, Tensor
from ...operators import OPERATORS

Inputs = Sequence["Array | None"]
"""Values of an operator's inputs; None for an absent one."""
Evaluate = Callable[[Graph, Operator, Inputs], "Array | tuple[Array, ...]"]
Domain = Callable[[Graph, Operator], "str | None"]

INT8 = frozenset({DType.INT8})


@dataclass(frozen=True)
class Meaning:
    """A kind's arithmetic: what it makes of its inputs' values, or of several outputs a tuple.

    `outside` tells why an operator of the kind is none that is defined here, or None. `micro` are the types of the
    first input for which TensorFlow Lite Micro has a kernel of this arithmetic. Of 8-bit types it is int8 alone; uint8
    lost its kernels when Micro left TensorFlow.
    """

    evaluate: Evaluate
    outside: Domain
    micro: frozenset[DType] = frozenset()


def given(inputs: Inputs, place: int = 0) -> Array:
    """The value of a mandatory input. Raises `ModelFormatError` if it is absent."""
    found = inputs[place] if place < len(inputs) else None
    if found is None:
        raise ModelFormatError(f"input {place} of an operator has no value", value=place)
    return found


def anything(graph: Graph, op: Operator) -> str | None:
    """Whatever the operator is: the kind has no attributes, and its arithmetic names the types that it knows."""
    return None


def understood(graph: Graph, op: Operator) -> str | None:
    """Operators that were read; elements are moved and not looked at."""
    return op.opaque


def eight_bit(graph: Graph, op: Operator) -> str | None:
    """Values of one 8-bit type with one scale each."""
    if op.opaque is not None:
        return op.opaque
    if OPERATORS[op.kind].attributes is not None and op.attrs is None:
        return "its attributes are unknown"
    values = _values(graph, op)
    return next((why for why in map(_odd, values) if why), None) or _mixed(values)


def unscaled(graph: Graph, op: Operator) -> str | None:
    """As `eight_bit`, and all values share one quantisation."""
    if (why := eight_bit(graph, op)) is not None:
        return why
    first, *others = _values(graph, op)
    changed = next((t for t in others if t.quantisation != first.quantisation), None)
    return None if changed is None else f"it changes the quantisation from '{first.name}' to '{changed.name}'"


def ordered(graph: Graph, op: Operator) -> str | None:
    """8-bit values that are compared, whatever their scale."""
    if op.opaque is not None:
        return op.opaque
    first = graph.read(op)
    return None if first.dtype in EIGHT_BIT else f"'{first.name}' is {first.dtype.value}; int8 and uint8 are compared"


def averaged(graph: Graph, op: Operator) -> str | None:
    """As `eight_bit`, over some axis."""
    return eight_bit(graph, op) or (None if op.attributes(ReductionAttrs).axes else "it averages over no axis")


def reduced(graph: Graph, op: Operator) -> str | None:
    """As `unscaled`, over some axis."""
    return unscaled(graph, op) or (None if op.attributes(ReductionAttrs).axes else "it reduces over no axis")


def weighed(graph: Graph, op: Operator) -> str | None:
    """As `eight_bit`, with constant weights of the same type, one scale for all or for each output."""
    if (why := eight_bit(graph, op)) is not None:
        return why
    weights, place = graph.read(op, 1), bias_place(op)
    if weights.dtype is not graph.read(op, OPERATORS[op.kind].data_input).dtype:
        return f"weights '{weights.name}' are {weights.dtype.value}"
    if weights.data is None or weights.quantisation is None:
        return f"weights '{weights.name}' are not constant, or have no quantisation"
    if weights.quantisation.axis not in (None, 3 if op.kind == "DEPTHWISE_CONV_2D" else 0):
        return f"weights '{weights.name}' are quantised along axis {weights.quantisation.axis}"
    if len(op.inputs) > place and op.inputs[place] is not None and graph.read(op, place).data is None:
        return f"bias '{graph.read(op, place).name}' is not constant"
    return None


def bias_place(op: Operator) -> int:
    """The place of a weighted operator's bias among its inputs: behind values and weights."""
    return max(OPERATORS[op.kind].data_input, 1) + 1


def _values(graph: Graph, op: Operator) -> list[Tensor]:
    """The tensors that hold values rather than parameters."""
    row = OPERATORS[op.kind]
    count = len(op.inputs) if row.data_inputs is None else row.data_inputs
    inputs = (graph.read(op, place) for place in range(row.data_input, row.data_input + count))
    return [*inputs, *(graph.tensors[t] for t in op.outputs)]


def _odd(tensor: Tensor) -> str | None:
    if tensor.dtype not in EIGHT_BIT:
        return f"'{tensor.name}' is {tensor.dtype.value}; the reference computes with int8 and uint8"
    if tensor.quantisation is None or tensor.quantisation.axis is not None:
        return f"'{tensor.name}' has no single scale and zero point"
    return None


def _mixed(values: Sequence[Tensor]) -> str | None:
    kinds = sorted({t.dtype.value for t in values})
    return f"its values mix {' and '.join(kinds)}" if len(kinds) > 1 else None
