"""One random TOSA network in the making: shapes, values, and tensors for an operator to read.

Owns the choice of values, mostly of few bits, so that sums fit their types.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from tosa_files import NUMPY, Array, TosaFile

BITS = {"BOOL": 1, "INT8": 8, "INT16": 16, "INT32": 32, "INT48": 48}
ANY, INTEGERS, SHORT = ("BOOL", "INT8", "INT16", "INT32"), ("INT8", "INT16", "INT32"), ("INT8", "INT16")
WIDER = {"INT8": "INT32", "INT16": "INT48"}
SUMS = {"INT8": 5, "INT16": 6}  # the numbers of these in enum DType
Shape = tuple[int, ...]


class Draw:
    """One network in the making; `value` finds or makes what an operator reads."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(self.rng.getrandbits(32))
        self.file = TosaFile()

    def shape(self, rank: int | None = None, most: int = 5) -> Shape:
        """Extents of a rank, or of any."""
        rank = self.rng.randint(1, 5) if rank is None else rank  # the model takes 6
        return tuple(self.rng.choice((1, self.rng.randint(1, most))) for _ in range(rank))

    def array(self, shape: Shape, dtype: str) -> Array:
        """Values of a type: mostly of few bits, so that sums fit, else of all, with the limits among them."""
        if dtype == "BOOL":
            return self.numbers.integers(0, 2, shape).astype(np.bool_)
        bits = BITS[dtype] - 1
        if dtype in ("INT32", "INT48") and self.rng.random() < 0.85:
            bits = self.rng.randint(2, 28)
        found = self.numbers.integers(-(1 << bits), 1 << bits, shape, np.int64)
        if self.rng.random() < 0.2 and found.size:
            found.reshape(-1)[:2] = (-(1 << bits), (1 << bits) - 1)[: min(2, found.size)]
        return found.astype(NUMPY[dtype])

    def given(self, values: Array, dtype: str) -> str:
        """Values as an input or as a constant."""
        if dtype != "INT48" and self.rng.random() < 0.7:
            return self.file.input(values, dtype)
        return self.file.constant(values, dtype)

    def value(self, dtype: str, rank: int | None = None, shape: Shape | None = None) -> str:
        """A tensor of the type, one that is there or another."""
        made = [one for op in self.file.operators for one in op.outputs if one in self.file.tensors]
        fitting = [
            name
            for name in made
            if self.file.tensors[name].dtype == dtype
            and (rank is None or len(self.file.tensors[name].shape) == rank)
            and (shape is None or self.file.tensors[name].shape == shape)
            and self.file.tensors[name].shape
        ]
        if fitting and self.rng.random() < 0.8:
            return self.rng.choice(fitting)
        shape = shape or self.shape(rank)
        return self.given(self.array(shape, dtype), dtype)

    def of(self, name: str) -> Shape:
        """A tensor's shape."""
        return self.file.tensors[name].shape

    def type(self, types: Sequence[str]) -> str:
        """One of the types, that of a tensor which an operator made if there is one."""
        made = {self.file.tensors[op.outputs[0]].dtype for op in self.file.operators if op.inputs}
        return self.rng.choice([one for one in types if one in made] or list(types))

    def axis(self, name: str) -> int:
        """An axis of a tensor."""
        return self.rng.randrange(len(self.of(name)))

    def zero_point(self, dtype: str) -> tuple[str, int]:
        """A zero point as a constant, and its value: 0 but for int8."""
        point = self.rng.choice((0, -128, 127, self.rng.randint(-128, 127))) if dtype == "INT8" else 0
        return self.file.constant([point], dtype), point

    def nan(self) -> int:
        """A mode that concerns no integer."""
        return self.rng.randint(1, 2)
