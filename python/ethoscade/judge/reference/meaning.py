"""What the reference is to its callers: a kind's arithmetic, and for which operators it is defined here.

Owns these domains and the types of which TensorFlow Lite Micro has kernels with the same arithmetic. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...errors import ModelFormatError
from ...ir import EIGHT_BIT, QUANTISED, Array, DType, Graph, Operator, ReductionAttrs, Tensor
from ...ir.operators import OPERATORS
from ...util.records import dataclass

Inputs = Sequence["Array | None"]
"""Values of an operator's inputs; None for an absent one."""
Evaluate = Callable[[Graph, Operator, Inputs], "Array | tuple[Array, ...]"]
Domain = Callable[[Graph, Operator], "str | None"]

INT8 = frozenset({DType.INT8})
SIGNED = frozenset({DType.INT8, DType.INT16})


@dataclass(frozen=True)
class ReferenceKernel:
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


def constant_at(places: Sequence[int]) -> Domain:
    """Operators that were read, the inputs at these places constant or absent."""

    def outside(graph: Graph, op: Operator) -> str | None:
        if op.opaque is not None:
            return op.opaque
        parameters = (graph.read(op, place) for place in places if op.inputs[place] is not None)
        variable = next((tensor for tensor in parameters if not tensor.is_constant), None)
        return None if variable is None else f"weights or bias '{variable.name}' are not constant"

    return outside


def eight_bit(graph: Graph, op: Operator) -> str | None:
    """Values of one 8-bit type with one scale each."""
    return _of_types(graph, op, EIGHT_BIT)


def quantised(graph: Graph, op: Operator) -> str | None:
    """Values of one 8-bit type or of int16, with one scale each; zero points of int16 are 0."""
    return _of_types(graph, op, QUANTISED)


def quantised_or_words(graph: Graph, op: Operator) -> str | None:
    """As `quantised`, or all of int32: numbers without scales."""
    return op.opaque if _are_words(graph, op) else quantised(graph, op)


def _are_words(graph: Graph, op: Operator) -> bool:
    return op.opaque is None and all(tensor.dtype is DType.INT32 for tensor in _values(graph, op))


def sixteen_bit(graph: Graph, op: Operator) -> str | None:
    """Values of int16 with one scale each and the zero point 0."""
    if op.opaque is not None:
        return op.opaque
    for tensor in _values(graph, op):
        if tensor.dtype is not DType.INT16:
            return f"'{tensor.name}' is {tensor.dtype.value}; all values are int16 or none"
        if tensor.quantisation is None or tensor.quantisation.axis is not None or tensor.quantisation.zero_point:
            return f"'{tensor.name}' has no single scale with the zero point 0"
    return None


def eight_or_sixteen_bit(graph: Graph, op: Operator) -> str | None:
    """As either of the two."""
    return None if sixteen_bit(graph, op) is None else eight_bit(graph, op)


def unscaled(graph: Graph, op: Operator) -> str | None:
    """As `quantised`, and all values share one quantisation."""
    if (why := quantised(graph, op)) is not None:
        return why
    first, *others = _values(graph, op)
    changed = next((t for t in others if t.quantisation != first.quantisation), None)
    return None if changed is None else f"it changes the quantisation from '{first.name}' to '{changed.name}'"


def joined(graph: Graph, op: Operator) -> str | None:
    """As `quantised_or_words`, but that values of int8 share one quantisation."""
    return unscaled(graph, op) if graph.made(op).dtype is DType.INT8 else quantised_or_words(graph, op)


def ordered(graph: Graph, op: Operator) -> str | None:
    """8-bit values that are compared, whatever their scale."""
    if op.opaque is not None:
        return op.opaque
    first = graph.read(op)
    return None if first.dtype in EIGHT_BIT else f"'{first.name}' is {first.dtype.value}; int8 and uint8 are compared"


def summed(graph: Graph, op: Operator) -> str | None:
    """As `quantised`, over some axis."""
    return quantised(graph, op) or (None if op.attributes(ReductionAttrs).axes else "it sums over no axis")


def summed_or_words(graph: Graph, op: Operator) -> str | None:
    """As `summed`, or all of int32."""
    if not _are_words(graph, op):
        return summed(graph, op)
    return op.opaque or (None if op.attributes(ReductionAttrs).axes else "it sums over no axis")


def reduced(graph: Graph, op: Operator) -> str | None:
    """As `unscaled`, over some axis."""
    return unscaled(graph, op) or (None if op.attributes(ReductionAttrs).axes else "it reduces over no axis")


def sloped(graph: Graph, op: Operator) -> str | None:
    """As `quantised`, but that the second input of operators of int16 is int8."""
    if op.opaque is not None:
        return op.opaque
    ifm, slopes, ofm = graph.read(op), graph.read(op, 1), graph.made(op)
    if ifm.dtype is not DType.INT16:
        return eight_bit(graph, op)
    return _odd(slopes, (DType.INT8,)) or _odd(ifm, QUANTISED) or _odd(ofm, QUANTISED) or _mixed((ifm, ofm))


def weighed(graph: Graph, op: Operator) -> str | None:
    """As `quantised`, with weights of the same type, one scale for all or for each output.

    Weights for int16 are int8. Those of a FULLY_CONNECTED alone may be made while the network runs.
    """
    if (why := quantised(graph, op)) is not None:
        return why
    weights, place = graph.read(op, 1), bias_place(op)
    ifm = graph.read(op, OPERATORS[op.kind].data_input)
    if weights.dtype is not (DType.UINT8 if ifm.dtype is DType.UINT8 else DType.INT8):
        return f"weights '{weights.name}' are {weights.dtype.value}"
    if (weights.data is None and op.kind != "FULLY_CONNECTED") or weights.quantisation is None:
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


def _of_types(graph: Graph, op: Operator, types: Collection[DType]) -> str | None:
    if op.opaque is not None:
        return op.opaque
    if OPERATORS[op.kind].attributes is not None and op.attrs is None:
        return "its attributes are unknown"
    values = _values(graph, op)
    return next((why for tensor in values if (why := _odd(tensor, types))), None) or _mixed(values)


def _odd(tensor: Tensor, types: Collection[DType]) -> str | None:
    if tensor.dtype not in types:
        known = " and ".join(dtype.value for dtype in types)
        return f"'{tensor.name}' is {tensor.dtype.value}; the reference computes with {known}"
    if tensor.quantisation is None or tensor.quantisation.axis is not None:
        return f"'{tensor.name}' has no single scale and zero point"
    if tensor.dtype is DType.INT16 and tensor.quantisation.zero_point:
        return f"'{tensor.name}' is int16 with zero point {tensor.quantisation.zero_point}; kernels take 0"
    return None


def _mixed(values: Sequence[Tensor]) -> str | None:
    kinds = sorted({t.dtype.value for t in values})
    return f"its values mix {' and '.join(kinds)}" if len(kinds) > 1 else None
