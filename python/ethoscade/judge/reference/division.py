"""Reference semantics of DIV of 8 bits: products with a reciprocal in 32-bit fixed point."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import ArithmeticAttrs, Array, Graph, Operator
from .fixed_point import Int64, NoKernelResult, divide_by_power, high_mul
from .formulas import clamp_range, scale_of, significand_and_shift, zero_point_of
from .meaning import INT8, Inputs, ReferenceKernel, eight_bit, given
from .softmax import reciprocal_of_one_plus

_MOST_SHIFT = 31


def divide(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """DIV; the factor of quotients is taken in float32.

    Raises `NoKernelResult` for a divisor of 0, and for quotients that kernels would shift further than 32 bits allow.
    """
    tensors, ofm = [graph.read(op, place) for place in range(2)], graph.made(op)
    values = (given(inputs, place).astype(np.int64) - zero_point_of(tensor) for place, tensor in enumerate(tensors))
    dividend, divisor = np.broadcast_arrays(*values)
    if not divisor.all():
        raise NoKernelResult("a divisor of 0")
    factor = np.float32(scale_of(tensors[1])) * np.float32(scale_of(ofm))
    significand, shift = significand_and_shift(float(np.float32(scale_of(tensors[0])) / factor))
    dividend, divisor = dividend * np.sign(divisor), np.abs(divisor)
    over_one = _bits(divisor) - 1
    inverse = reciprocal_of_one_plus((divisor << (31 - over_one)) - (1 << 31))
    headroom = 31 - _bits(np.where(dividend < 0, -dividend - 1, dividend))
    right = headroom + over_one - shift
    if right.size and not 0 <= right.min() <= right.max() <= _MOST_SHIFT:
        raise NoKernelResult(
            f"shifts of quotients by {right.min()} to {right.max()}, of 0 to {_MOST_SHIFT} that there are"
        )
    scaled = divide_by_power(high_mul(high_mul(dividend << headroom, inverse), significand), right)
    lowest, highest = clamp_range(ofm.quantisation, ofm.dtype, op.attributes(ArithmeticAttrs).activation)
    return np.clip(scaled + zero_point_of(ofm), lowest, highest).astype(ofm.dtype.numpy)


def _bits(x: Int64) -> Int64:
    """Bits of numbers that are not negative."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


DIVISION_MEANINGS: Mapping[str, ReferenceKernel] = {"DIV": ReferenceKernel(divide, eight_bit, INT8)}
