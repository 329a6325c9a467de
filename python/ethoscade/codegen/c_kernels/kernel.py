"""What a CPU kernel is to the C writer, and what every kernel needs to say about tensors.

Owns the `CKernel` type and the shared questions (8-bit types, scales, fixed-point multipliers); holds no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ...errors import UnsupportedOperatorError
from ...ir import DType, Graph, Operator, Quantisation, Tensor


class Operands(Protocol):
    """C expressions of a call's operands."""

    def source(self, tensor: int) -> str:
        """A `const uint8_t*` to a tensor in the arena or to a constant."""

    def target(self, tensor: int) -> str:
        """A `uint8_t*` to a tensor in the arena."""


@dataclass(frozen=True)
class Call:
    """The C statements of one operator and the C files (package data, in order) that define what they call."""

    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class CKernel:
    """Operator kinds and the function that writes one's call, or refuses it by `UnsupportedOperatorError`."""

    kinds: tuple[str, ...]
    emit: Callable[[Graph, Operator, Operands], Call]


def refuse(operator: Operator, constraint: str) -> NoReturn:
    """Raise `UnsupportedOperatorError` for a case that a kernel does not cover."""
    raise UnsupportedOperatorError(
        f"operator '{operator.name}' ({operator.kind}) stays on the CPU and cannot be written as C: {constraint}",
        operator=operator.name,
        constraint=constraint,
    )


def first_input(operator: Operator) -> int:
    """The tensor index of input 0, which every kernel here has."""
    index = operator.inputs[0] if operator.inputs else None
    if index is None:
        refuse(operator, "its first input is missing")
    return index


def sign_of(operator: Operator, tensor: Tensor) -> int:
    """128 for int8, 0 for uint8: what to flip and subtract to read a byte. Other types are refused."""
    if tensor.dtype is DType.INT8:
        return 128
    if tensor.dtype is DType.UINT8:
        return 0
    refuse(operator, f"its C kernel takes int8 and uint8; tensor '{tensor.name}' is {tensor.dtype.value}")


def quantisation_of(operator: Operator, tensor: Tensor) -> Quantisation:
    """The tensor's per-tensor quantisation; anything else is refused."""
    if tensor.quantisation is None or tensor.quantisation.axis is not None or len(tensor.quantisation.scales) != 1:
        refuse(operator, f"its C kernel needs one scale and one zero point for tensor '{tensor.name}'")
    return tensor.quantisation


def same_type(operator: Operator, source: Tensor, target: Tensor) -> None:
    """Refuse an operator whose output has another type than its input."""
    if source.dtype is not target.dtype:
        refuse(operator, f"its C kernel keeps the type; it goes from {source.dtype.value} to {target.dtype.value}")


def elements(tensor: Tensor) -> int:
    """Number of elements."""
    return math.prod(tensor.shape)


def fixed_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) with real = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31), as TFLite rounds it."""
    fraction, shift = math.frexp(real)
    # frexp's fraction has 53 bits, so its product with 2^31 is exact; halves round away from zero.
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return (0, 0) if shift < -31 else (multiplier, shift)


def float_literal(value: float) -> str:
    """A C99 hexadecimal float literal: the exact float32 value, whatever the compiler's decimal rounding."""
    return f"{float(value).hex()}f"
