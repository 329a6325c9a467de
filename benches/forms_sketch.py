"""Forms of operators: models of one operator, written record by record, and the words for them.

Owns `Form` and `Sketch`. The builder of networks makes no form that the reader refuses; a sketch makes them all. For
`vela_forms`; prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from ethoscade.ir import Array, DType, Quantisation
from ethoscade.ir.operators import OPERATORS
from ethoscade.testing.flatfile import OperatorRecord, TensorRecord, write_file

Shape = tuple[int, ...]

TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)
ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3, "TANH": 4}
SAME, VALID = 0, 1
SHAPES: tuple[Shape, ...] = ((7,), (3, 7), (2, 3, 7), (1, 4, 5, 7), (2, 4, 5, 7), (1, 2, 3, 4, 5), (2, 2, 3, 4, 5))
IMAGE = SHAPES[3]


@dataclass(frozen=True)
class Form:
    """A model of one operator, or of one between others, and in words what is particular about it."""

    kind: str
    dtype: DType
    words: str
    model: bytes


def default(dtype: DType, coarser: float = 1.0) -> Quantisation:
    """A plain quantisation: scales of some hundredths, zero points inside the type, 0 of 16 and 32 bits."""
    scale = {DType.INT16: 1 / 8192, DType.INT32: 1 / 8192}.get(dtype, 1 / 32)
    return Quantisation((scale * coarser,), ({DType.UINT8: 121, DType.INT8: -7}.get(dtype, 0),))


class Sketch:
    """Collects tensors and operators as a file has them; nothing is checked."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self._rng = np.random.default_rng(7)
        self._tensors: list[TensorRecord] = []
        self._operators: list[OperatorRecord] = []
        self._inputs: list[int] = []

    def input(self, shape: Shape, quantisation: Quantisation | None = None, dtype: DType | None = None) -> int:
        """A network input."""
        self._inputs.append(self.tensor(shape, quantisation, dtype))
        return self._inputs[-1]

    def tensor(
        self,
        shape: Shape,
        quantisation: Quantisation | None = None,
        dtype: DType | None = None,
        data: Array | None = None,
        variable: bool = False,
    ) -> int:
        """A tensor of the default quantisation if none is given."""
        kind = dtype or self.dtype
        name = f"t{len(self._tensors)}"
        self._tensors.append(TensorRecord(name, shape, kind, quantisation or default(kind), data, variable))
        return len(self._tensors) - 1

    def values(self, shape: Shape, quantisation: Quantisation | None = None, dtype: DType | None = None) -> int:
        """A constant of drawn values, neither large nor zero point."""
        kind = dtype or self.dtype
        middle = 121 if kind is DType.UINT8 else 0
        drawn = self._rng.integers(-90, 90, shape, endpoint=True) + middle
        return self.tensor(shape, quantisation, kind, drawn.astype(kind.numpy))

    def numbers(self, numbers: object, dtype: DType = DType.INT32) -> int:
        """Parameters: a constant without quantisation."""
        data = np.array(numbers, dtype.numpy)
        self._tensors.append(TensorRecord(f"t{len(self._tensors)}", data.shape, dtype, None, data))
        return len(self._tensors) - 1

    def plain(self, shape: Shape, dtype: DType) -> int:
        """A tensor without quantisation."""
        self._tensors.append(TensorRecord(f"t{len(self._tensors)}", shape, dtype))
        return len(self._tensors) - 1

    def op(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], **fields: object) -> int:
        """An operator; its first output."""
        row = OPERATORS[kind]
        version = 1 if self.dtype is DType.UINT8 else row.int8_version
        given: Mapping[str, object] = fields
        record = OperatorRecord(kind, version, tuple(inputs), tuple(outputs), row.options, given)  # type: ignore[arg-type]
        self._operators.append(record)
        return outputs[0]

    def build(self) -> bytes:
        """The file; what the last operator makes is its output."""
        outputs = self._operators[-1].outputs
        return write_file("form", self._tensors, self._operators, self._inputs, outputs)


Draw = Callable[[Sketch], object]
Drawn = Iterator[tuple[str, Draw]]


def rank_of(shape: Shape) -> str:
    """A shape in words."""
    return "x".join(map(str, shape)) or "scalar"
