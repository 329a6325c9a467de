"""Operators of two operands, element by element, the smaller one repeated: of quantised integers and of int32."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir import QUANTISED, Activation, AddAttrs, ArithmeticAttrs, DType, Graph, Operator, Tensor
from ...ir.quantised import activation_range, add_headroom_bits, scale_of
from ...util.records import dataclass
from .kernel import Call, CKernel, Operands, array, arrays, call, factor, kept, quantisation_of, refuse

_DIFFERENCE_BITS = 7
_WORD_LIMITS = {
    Activation.NONE: DType.INT32.limits,
    Activation.RELU: (0, DType.INT32.limits[1]),
    Activation.RELU_N1_TO_1: (-1, 1),
    Activation.RELU6: (0, 6),
}


@dataclass(frozen=True)
class _Pair:
    """Both operands, the output, and where the smaller operand repeats: dimensions and strides as the loop has them."""

    first: Tensor
    second: Tensor
    ofm: Tensor
    sizes: Sequence[int]
    strides: Sequence[int]


def loop_call(
    graph: Graph,
    operator: Operator,
    operands: Operands,
    work: str,
    stage: Sequence[int | str],
    element: str = "int32_t",
) -> Call:
    """The call of the loop over two operands around the function of the file `work`."""
    pair = _pair(graph, operator)
    type_, other = pair.first.dtype, pair.second.dtype
    function = f"{work}_{type_.value}_{other.value}"
    pointers = ", ".join(operands.source(operator.input(place)) for place in range(2))
    text = (
        f"{arrays({'sizes': pair.sizes, 'strides': pair.strides})}{array('stage', stage, element)}"
        f"{function}({pointers}, {operands.target(operator.outputs[0])}, {len(pair.sizes)}, sizes, strides, stage);"
    )
    return call("binary.c", function, text, TYPE=type_, OTHER=other, WORK=work)


def _pair(graph: Graph, operator: Operator) -> _Pair:
    first, second, ofm = graph.read(operator), graph.read(operator, 1), graph.made(operator)
    shape = tuple(np.broadcast_shapes(first.shape, second.shape))
    if math.prod(shape) != math.prod(ofm.shape):
        refuse(operator, f"it makes shape {shape}, its output '{ofm.name}' has shape {ofm.shape}")
    strides = [_strides(tensor.shape, len(shape)) for tensor in (first, second)]
    # Dimensions along which both go on as the next one does are one with it.
    joined: list[tuple[int, int, int]] = []
    for size, a, b in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if joined and (joined[-1][1], joined[-1][2]) == (size * a, size * b):
            joined[-1] = (joined[-1][0] * size, a, b)
        else:
            joined.append((size, a, b))
    joined = joined or [(1, 0, 0)]
    return _Pair(first, second, ofm, [size for size, _, _ in joined], [s for _, a, b in joined for s in (a, b)])


def _strides(shape: Sequence[int], rank: int) -> list[int]:
    """Elements from one to the next along each of `rank` dimensions, 0 where the operand repeats."""
    own = (*(1,) * (rank - len(shape)), *shape)
    return [math.prod(own[d + 1 :]) if own[d] > 1 else 0 for d in range(rank)]


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    if operator.opaque is not None:
        refuse(operator, operator.opaque)
    tensors = graph.read(operator), graph.read(operator, 1), graph.made(operator)
    zeros = [quantisation_of(operator, tensor).zero_point for tensor in tensors]
    limits = activation_range(tensors[2].quantisation, tensors[2].dtype, _activation(operator))
    work, factors = _STAGES[operator.kind](operator, *tensors)
    return loop_call(graph, operator, operands, work, (*zeros, *limits, *factors))


def _activation(operator: Operator) -> Activation:
    attrs = operator.attrs
    return attrs.activation if isinstance(attrs, (AddAttrs, ArithmeticAttrs)) else Activation.NONE


_Stage = tuple[str, tuple[int, ...]]


def _sum(operator: Operator, a: Tensor, b: Tensor, ofm: Tensor) -> _Stage:
    """Both operands are brought to twice the larger scale, with headroom, and their sum to the output's."""
    twice_max, bits = 2.0 * max(scale_of(a), scale_of(b)), add_headroom_bits(ofm.dtype)
    real = twice_max / ((1 << bits) * scale_of(ofm))
    first, second = (factor(operator, scale_of(t) / twice_max) for t in (a, b))
    # Runtimes define both below a factor of 1 alone. C computes on.
    return operator.kind.lower(), (bits, *first, *second, *factor(operator, real))


def _product(operator: Operator, a: Tensor, b: Tensor, ofm: Tensor) -> _Stage:
    return "mul", factor(operator, _ratio(a, b, ofm))


def _slopes(operator: Operator, a: Tensor, b: Tensor, ofm: Tensor) -> _Stage:
    return "prelu", (*factor(operator, _ratio(a, None, ofm)), *factor(operator, _ratio(a, b, ofm)))


def _ratio(a: Tensor, b: Tensor | None, ofm: Tensor) -> float:
    """The inputs' scales over the output's, in float32."""
    return float(np.float32(scale_of(a)) * np.float32(1.0 if b is None else scale_of(b)) / np.float32(scale_of(ofm)))


def _difference(operator: Operator, a: Tensor, b: Tensor, ofm: Tensor) -> _Stage:
    short = ofm.dtype is DType.INT16
    bits, twice_max = 0 if short else _DIFFERENCE_BITS, 2.0 * max(scale_of(a), scale_of(b))
    real = twice_max * twice_max / ((1 << 2 * bits) * scale_of(ofm))
    first, second = (factor(operator, scale_of(t) / twice_max) for t in (a, b))
    return "squared_difference", (bits, *first, *second, *factor(operator, real))


def _quotient(operator: Operator, a: Tensor, b: Tensor, ofm: Tensor) -> _Stage:
    """The divisors' scale times the output's is a float32."""
    together = np.float32(scale_of(b)) * np.float32(scale_of(ofm))
    return "divide", factor(operator, float(np.float32(scale_of(a)) / together))


_STAGES = {
    "ADD": _sum,
    "DIV": _quotient,
    "MUL": _product,
    "PRELU": _slopes,
    "SQUARED_DIFFERENCE": _difference,
    "SUB": _sum,
}


def _write_words(graph: Graph, operator: Operator, operands: Operands) -> Call:
    if operator.opaque is not None:
        refuse(operator, operator.opaque)
    return loop_call(graph, operator, operands, f"words_{operator.kind.lower()}", _WORD_LIMITS[_activation(operator)])


def _write_extreme(graph: Graph, operator: Operator, operands: Operands) -> Call:
    """Of stored values, whatever their scales."""
    first, ofm = graph.read(operator), graph.made(operator)
    element = "float" if first.dtype is DType.FLOAT32 else "int32_t"
    if not first.dtype is graph.read(operator, 1).dtype is ofm.dtype:
        refuse(operator, "its C kernel compares values of one type")
    return loop_call(graph, operator, operands, operator.kind.lower(), (), element)


_INTEGERS = (*QUANTISED, DType.INT32)
ARITHMETIC = CKernel(("ADD", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB"), _write, kept(*QUANTISED))
DIVISION = CKernel(("DIV",), _write, kept(DType.INT8, DType.UINT8))
WORDS = CKernel(("ADD", "MUL", "SUB"), _write_words, kept(DType.INT32))
EXTREMES = CKernel(("MAXIMUM", "MINIMUM"), _write_extreme, kept(*_INTEGERS, DType.FLOAT32))
