"""What a CPU kernel is to the C writer, and what every kernel needs to say about tensors.

Owns the `CKernel` type, its check of types and the shared questions about scales; holds no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ...errors import UnsupportedOperatorError
from ...ir import EIGHT_BIT, DType, Graph, Operator, Quantisation, Tensor


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
    """The C of some kinds: the types of first input and output that it takes, and how one operator's call is written.

    `types` None: any, as elements are moved and not computed with. `keeps_type` says that input and output have one.
    `write` refuses what else it does not cover by `UnsupportedOperatorError`.
    """

    kinds: tuple[str, ...]
    write: Callable[[Graph, Operator, Operands], Call]
    types: tuple[DType, ...] | None = EIGHT_BIT
    makes: tuple[DType, ...] | None = EIGHT_BIT
    keeps_type: bool = True

    def emit(self, graph: Graph, operator: Operator, operands: Operands) -> Call:
        """The call of one operator. Raises `UnsupportedOperatorError` that names what the kernel does not take."""
        source, target = graph.tensors[first_input(operator)], graph.made(operator)
        for tensor, types in ((source, self.types), (target, self.makes)):
            if types is not None and tensor.dtype not in types:
                named = " and ".join(dtype.value for dtype in types)
                refuse(operator, f"its C kernel takes {named}; tensor '{tensor.name}' is {tensor.dtype.value}")
        if self.keeps_type and source.dtype is not target.dtype:
            refuse(operator, f"its C kernel keeps the type; it goes from {source.dtype.value} to {target.dtype.value}")
        return self.write(graph, operator, operands)


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


def sign_of(tensor: Tensor) -> int:
    """128 for int8, 0 for uint8: what to flip and subtract to read a byte."""
    return 128 if tensor.dtype is DType.INT8 else 0


def quantisation_of(operator: Operator, tensor: Tensor) -> Quantisation:
    """The tensor's per-tensor quantisation; anything else is refused."""
    if tensor.quantisation is None or tensor.quantisation.axis is not None or len(tensor.quantisation.scales) != 1:
        refuse(operator, f"its C kernel needs one scale and one zero point for tensor '{tensor.name}'")
    return tensor.quantisation


def elements(tensor: Tensor) -> int:
    """Number of elements."""
    return math.prod(tensor.shape)


def float_literal(value: float) -> str:
    """A C99 hexadecimal float literal: the exact float32 value, whatever the compiler's decimal rounding."""
    return f"{float(value).hex()}f"
