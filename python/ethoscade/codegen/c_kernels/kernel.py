"""What a CPU kernel is to the C writer, and what every kernel needs to say about tensors.

Owns the `CKernel` type, its check of types and the shared questions about scales; holds no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, Protocol

from ...errors import UnsupportedOperatorError
from ...ir import DType, Graph, Operator, Quantisation, Tensor
from ...ir.operators import OPERATORS
from ...ir.quantised import MAX_LEFT_SHIFT, multiplier_and_shift
from ...util.records import dataclass
from .texts import Source, source, with_used

MOST_BOX = 2**31 - 1
"""Elements that loops over boxes count in 32 bits."""


class Operands(Protocol):
    """C expressions of a call's operands."""

    def source(self, tensor: int) -> str:
        """A `const uint8_t*` to a tensor in the arena or to a constant."""

    def target(self, tensor: int) -> str:
        """A `uint8_t*` to a tensor in the arena."""


@dataclass(frozen=True)
class Call:
    """The C statements of one operator, the function that they call (none if empty), and what defines it, in order.

    Of a function that works in `workspace_bytes` of the arena the last argument is the word WORKSPACE. Where functions
    can fail, `status` is what tells that the last one did not, and TOO_SMALL in the text the status for lack of memory.
    """

    function: str
    text: str
    sources: tuple[Source, ...] = ()
    workspace_bytes: int = 0
    status: str = ""


def call(file: str, function: str, text: str, **words: str | DType) -> Call:
    """The call of a function of one file, whose placeholders `words` fill."""
    return Call(function, text, with_used(source(file, **words)))


Write = Callable[[Graph, Operator, Operands], Call]
"""Writes one operator's call; refuses what it does not cover by `UnsupportedOperatorError`."""


@dataclass(frozen=True)
class CKernel:
    """The C of some kinds: from which types to which, and how one operator's call is written.

    The types are those of the operator's first input with values and of its first output; `types` None: any type that
    is kept, as elements are moved and not computed with.
    """

    kinds: tuple[str, ...]
    write: Write
    types: tuple[tuple[DType, DType], ...] | None

    def takes(self, source: DType, target: DType) -> bool:
        """Whether the kernel is for such types."""
        return source is target if self.types is None else (source, target) in self.types


def kept(*types: DType) -> tuple[tuple[DType, DType], ...]:
    """Each of the types, from itself to itself."""
    return tuple((dtype, dtype) for dtype in types)


def refuse(operator: Operator, constraint: str) -> NoReturn:
    """Raise `UnsupportedOperatorError` for a case that no kernel covers."""
    raise UnsupportedOperatorError(
        f"operator '{operator.name}' ({operator.kind}) stays on the CPU and cannot be written as C: {constraint}",
        operator=operator.name,
        constraint=constraint,
    )


def data_input(operator: Operator) -> int:
    """The tensor index of the first input with values, which every kernel has."""
    row = OPERATORS.get(operator.kind)
    place = 0 if row is None else row.data_input
    index = operator.inputs[place] if place < len(operator.inputs) else None
    if index is None:
        refuse(operator, "its first input is missing")
    return index


def quantisation_of(operator: Operator, tensor: Tensor) -> Quantisation:
    """The tensor's per-tensor quantisation; anything else is refused."""
    if tensor.quantisation is None or tensor.quantisation.axis is not None or len(tensor.quantisation.scales) != 1:
        refuse(operator, f"its C kernel needs one scale and one zero point for tensor '{tensor.name}'")
    return tensor.quantisation


def same_quantisation(operator: Operator, tensors: Iterable[Tensor]) -> None:
    """Refuse an operator that would have to rescale."""
    first, *others = tensors
    for tensor in others:
        if tensor.quantisation != first.quantisation:
            refuse(
                operator,
                f"its C kernel does not rescale; '{first.name}' and '{tensor.name}' differ in scale or zero point",
            )


def factor(operator: Operator, real: float) -> tuple[int, int]:
    """Multiplier and shift of a factor >= 0; one that 32-bit kernels do not define is refused."""
    found = multiplier_and_shift(real) if math.isfinite(real) else (0, MAX_LEFT_SHIFT + 1)
    if found[1] > MAX_LEFT_SHIFT:
        refuse(operator, f"it multiplies by {real:g}; kernels are defined below 2^{MAX_LEFT_SHIFT}")
    return found


def elements(tensor: Tensor) -> int:
    """Number of elements."""
    return math.prod(tensor.shape)


def float_literal(value: float) -> str:
    """A C99 hexadecimal float literal: the exact float32 value, whatever the compiler's decimal rounding."""
    return f"{double_literal(value)}f"


def double_literal(value: float) -> str:
    """The same of a double."""
    return float(value).hex()


_PER_LINE = 16


def array(name: str, values: Sequence[int | str], element: str = "int32_t") -> str:
    """The declaration of a constant array inside a function; one without elements has a 0, as C wants."""
    texts = [_number(value) for value in values] or ["0"]
    rows = [", ".join(texts[i : i + _PER_LINE]) for i in range(0, len(texts), _PER_LINE)]
    body = rows[0] if len(rows) == 1 else "\n    " + ",\n    ".join(rows) + "\n"
    return f"static const {element} {name}[] = {{{body}}};\n"


def _number(value: int | str) -> str:
    # C has no negative literals: 2147483648 would be taken for a long first.
    return "INT32_MIN" if value == -(2**31) else str(value)


def arrays(named: Mapping[str, Sequence[int]]) -> str:
    """Several such declarations of `int32_t`."""
    return "".join(array(name, values) for name, values in named.items())


def rows_of(tensor: Tensor) -> tuple[int, int]:
    """How many rows of how many elements a tensor has, along its last axis."""
    depth = tensor.shape[-1] if tensor.shape else 1
    return elements(tensor) // depth, depth
