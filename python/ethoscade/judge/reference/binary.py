"""Reference semantics of the operators of two operands, element by element: the smaller one is repeated as NumPy does.

Owns SUB, MUL, MAXIMUM, MINIMUM, PRELU and SQUARED_DIFFERENCE of 8 and of 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import QUANTISED, Activation, ArithmeticAttrs, Array, DType, Graph, Operator, Tensor
from .fixed_point import Int64, NoKernelResult, multiply
from .formulas import HEADROOM_BITS, HEADROOM_BITS_16, clamp_range, scale_of, significand_and_shift, zero_point_of
from .meaning import SIGNED, Inputs, ReferenceKernel, given, quantised, quantised_or_words, sloped

_DIFFERENCE_BITS = 7
"""Bits by which SQUARED_DIFFERENCE raises operands of 8 bits before it scales them; of 16 bits by none."""


def _operands(graph: Graph, op: Operator) -> tuple[Tensor, Tensor]:
    return graph.read(op, 0), graph.read(op, 1)


def _centred(inputs: Inputs, place: int, tensor: Tensor) -> Int64:
    return given(inputs, place).astype(np.int64) - zero_point_of(tensor)


def _stored(ofm: Tensor, scaled: Int64, activation: Activation = Activation.NONE) -> Array:
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, activation)
    return np.clip(scaled + zero_point_of(ofm), lowest, highest).astype(ofm.dtype.numpy)


def _aligned(tensors: tuple[Tensor, Tensor], inputs: Inputs, bits: int) -> tuple[Int64, Int64]:
    """Both operands, raised by `bits` and brought to twice the larger of their scales."""
    twice_max = 2.0 * max(scale_of(t) for t in tensors)
    first, second = (
        multiply(_centred(inputs, place, tensor) << bits, *significand_and_shift(scale_of(tensor) / twice_max))
        for place, tensor in enumerate(tensors)
    )
    return first, second


_CLAMPED_WORDS: Mapping[Activation, tuple[int, int]] = {
    Activation.NONE: DType.INT32.limits,
    Activation.RELU: (0, DType.INT32.limits[1]),
    Activation.RELU_N1_TO_1: (-1, 1),
    Activation.RELU6: (0, 6),
}
"""What activations leave of numbers of int32, which have no scales."""


def words(result: Array, activation: Activation) -> Array:
    """Sums and products of int32, as they wrap, and their activation."""
    found: Array = np.clip(result, *_CLAMPED_WORDS[activation])
    return found


def sub(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SUB: both inputs are brought to the scale 2 * max(input scales) / 2**20, and the difference scaled.

    It is 2 * max(input scales) / 2**15 for int16.
    Raises `NoKernelResult` for a factor of 1 or more, for which kernels have no arithmetic. Int32 is subtracted
    unscaled.
    """
    tensors, ofm = _operands(graph, op), graph.made(op)
    if ofm.dtype is DType.INT32:
        return words(np.subtract(given(inputs), given(inputs, 1)), op.attributes(ArithmeticAttrs).activation)
    headroom = HEADROOM_BITS_16 if ofm.dtype is DType.INT16 else HEADROOM_BITS
    first, second = _aligned(tensors, inputs, headroom)
    twice_max = 2.0 * max(scale_of(t) for t in tensors)
    factor = _below_one(sum_factor(twice_max, ofm))
    return _stored(ofm, multiply(first - second, *factor), op.attributes(ArithmeticAttrs).activation)


def mul(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MUL; the factor of the products is taken in float32. Int32 is multiplied unscaled."""
    if graph.made(op).dtype is DType.INT32:
        return words(np.multiply(given(inputs), given(inputs, 1)), op.attributes(ArithmeticAttrs).activation)
    (a, b), ofm = _operands(graph, op), graph.made(op)
    product = _centred(inputs, 0, a) * _centred(inputs, 1, b)
    factor = _ratio(a, b, ofm)
    return _stored(ofm, multiply(product, *factor), op.attributes(ArithmeticAttrs).activation)


def _ratio(a: Tensor, b: Tensor | None, ofm: Tensor) -> tuple[int, int]:
    """The product of the inputs' scales over the output's, in float32."""
    factor = np.float32(scale_of(a)) * np.float32(1.0 if b is None else scale_of(b))
    return significand_and_shift(float(factor / np.float32(scale_of(ofm))))


def maximum(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MAXIMUM of the stored values, whatever their scales."""
    return np.maximum(given(inputs, 0), given(inputs, 1))


def minimum(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MINIMUM of the stored values, whatever their scales."""
    return np.minimum(given(inputs, 0), given(inputs, 1))


def squared_difference(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SQUARED_DIFFERENCE: both inputs are brought to the scale 2 * max(input scales) / 2**7 first.

    It is 2 * max(input scales) for int16.
    Raises `NoKernelResult` for a factor of 1 or more, for which kernels of 8 bits have no arithmetic.
    """
    tensors, ofm = _operands(graph, op), graph.made(op)
    short = ofm.dtype is DType.INT16
    bits = 0 if short else _DIFFERENCE_BITS
    first, second = _aligned(tensors, inputs, bits)
    real = square_factor(2.0 * max(scale_of(t) for t in tensors), ofm)
    return _stored(ofm, multiply((first - second) ** 2, *(significand_and_shift if short else _below_one)(real)))


def sum_factor(twice_max: float, ofm: Tensor) -> float:
    """The factor of an ADD's sum or a SUB's difference, of operands with the scale `twice_max` over its headroom."""
    headroom = HEADROOM_BITS_16 if ofm.dtype is DType.INT16 else HEADROOM_BITS
    return twice_max / ((1 << headroom) * scale_of(ofm))


def square_factor(twice_max: float, ofm: Tensor) -> float:
    """The factor of a squared difference of such operands."""
    bits = 0 if ofm.dtype is DType.INT16 else _DIFFERENCE_BITS
    return twice_max * twice_max / ((1 << 2 * bits) * scale_of(ofm))


def undefined_factor(graph: Graph, op: Operator) -> str | None:
    """Why kernels have no result for the scales of an ADD, SUB or SQUARED_DIFFERENCE, or None."""
    if len(op.inputs) < 2 or None in op.inputs[:2]:
        # A compiled file may lack an operand. Runtimes say so.
        return None
    (a, b), ofm = _operands(graph, op), graph.made(op)
    if any(t.quantisation is None or t.quantisation.axis is not None for t in (a, b, ofm)):
        return None
    if ofm.dtype not in QUANTISED or (op.kind == "SQUARED_DIFFERENCE" and ofm.dtype is DType.INT16):
        return None
    twice_max = 2.0 * max(scale_of(a), scale_of(b))
    try:
        _below_one((square_factor if op.kind == "SQUARED_DIFFERENCE" else sum_factor)(twice_max, ofm))
    except NoKernelResult as error:
        return f"{error}; devices differ"
    return None


def _below_one(real: float) -> tuple[int, int]:
    if real >= 1.0:
        raise NoKernelResult(f"a factor of {real:g} from the scales of its tensors; its kernels are defined below 1")
    return significand_and_shift(real)


def prelu(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """PRELU: values below zero times the slopes, others as they are; both factors are taken in float32."""
    (ifm, slopes), ofm = _operands(graph, op), graph.made(op)
    x, slope = np.broadcast_arrays(_centred(inputs, 0, ifm), _centred(inputs, 1, slopes))
    above = multiply(x, *_ratio(ifm, None, ofm))
    return _stored(ofm, np.where(x >= 0, above, multiply(x * slope, *_ratio(ifm, slopes, ofm))))


BINARY_MEANINGS: Mapping[str, ReferenceKernel] = {
    "MAXIMUM": ReferenceKernel(maximum, quantised_or_words, SIGNED),
    "MINIMUM": ReferenceKernel(minimum, quantised_or_words, SIGNED),
    "MUL": ReferenceKernel(mul, quantised_or_words),
    "PRELU": ReferenceKernel(prelu, sloped, SIGNED),
    "SQUARED_DIFFERENCE": ReferenceKernel(squared_difference, quantised, SIGNED),
    "SUB": ReferenceKernel(sub, quantised_or_words, SIGNED),
}
