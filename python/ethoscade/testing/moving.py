"""Operators of `ModelBuilder` that move elements and have attributes of their own: SLICE, UNPACK, pads and the like.

Owns their methods and output shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from ..ir import DType, Quantisation
from .calibration import Real
from .flatfile import TensorRecord
from .recorder import Value
from .shapes import ShapeRecorder

_FILL_VERSION = 3
"""The first version of FILL with 8 and 16 bits, in LiteRT's `tools/versioning/op_version.cc`."""


class MoveRecorder(ShapeRecorder):
    """SLICE, UNPACK, PAD, PADV2, MIRROR_PAD, TILE, FILL, REVERSE_V2, GATHER and TRANSPOSE."""

    def slice(self, x: Value, begin: Sequence[int], size: Sequence[int]) -> Value:
        """SLICE; a size of -1 stands for the rest."""
        cut = tuple(
            slice(first, None if count == -1 else first + count) for first, count in zip(begin, size, strict=True)
        )
        inputs = [self._integers("begin", begin), self._integers("size", size)]
        return self._moved("SLICE", x, inputs, lambda real: real[cut])

    def unpack(self, x: Value, axis: int = 0) -> tuple[Value, ...]:
        """UNPACK: one value for each element of the axis."""
        along, label = axis % len(x.shape), f"unpack{len(self._operators)}"
        shape = (*x.shape[:along], *x.shape[along + 1 :])
        made = []
        for place in range(x.shape[along]):
            piece = self._tensor(f"{label}_{place}", shape, x.dtype, x.quantisation)
            self._thunks[piece.index] = partial(self._at, x, place, along)
            made.append(piece)
        self._record("UNPACK", [x.index], made, {"Num": len(made), "Axis": axis})
        return tuple(made)

    def pad(
        self,
        x: Value,
        paddings: Sequence[tuple[int, int]],
        *,
        value: int | None = None,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """PAD with (before, after) for every dimension, or PADV2 with a stored `value`.

        Stored values are as they were, whatever quantisation the `output` has.
        """
        made = x.quantisation if output is None else output
        inputs = [self._table(paddings)]
        if value is None:
            found = self._moved("PAD", x, inputs, lambda real: np.pad(real, paddings), name=name)
            return found if output is None else self.taken_as(found, output)
        stored = np.array([value], dtype=x.dtype.numpy)
        self._tensors.append(TensorRecord(f"value{len(self._tensors)}", stored.shape, x.dtype, made, stored))
        inputs.append(len(self._tensors) - 1)
        real_value = (value - x.quantisation.zero_point) * x.quantisation.scale
        found = self._moved("PADV2", x, inputs, lambda real: np.pad(real, paddings, constant_values=real_value))
        return found if output is None else self.taken_as(found, output)

    def mirror_pad(self, x: Value, paddings: Sequence[tuple[int, int]], *, symmetric: bool = False) -> Value:
        """MIRROR_PAD with (before, after) for every dimension."""
        mode = tflite.MirrorPadMode.SYMMETRIC if symmetric else tflite.MirrorPadMode.REFLECT
        how: Any = "symmetric" if symmetric else "reflect"
        return self._moved(
            "MIRROR_PAD", x, [self._table(paddings)], lambda real: np.pad(real, paddings, mode=how), {"Mode": mode}
        )

    def tile(self, x: Value, multiples: Sequence[int], *, version: int = 1) -> Value:
        """TILE; converters of today write version 3."""
        found = self._moved("TILE", x, [self._integers("multiples", multiples)], lambda real: np.tile(real, multiples))
        return self._as_version(version, found)

    def fill(self, shape: Sequence[int], value: Value) -> Value:
        """FILL of a constant shape with a value that has no dimensions."""
        inputs = [self._integers("dims", shape), value.index]

        def compute() -> Real:
            return np.full(shape, self._real(value))

        found = self._operator("FILL", inputs, tuple(shape), compute, value.quantisation, {}, None, value.dtype)
        return self._as_version(_FILL_VERSION, found)

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        """REVERSE_V2."""
        inputs = [self._integers("axes", axes)]
        return self._moved("REVERSE_V2", x, inputs, lambda real: np.flip(real, tuple(axes)))

    def gather(self, x: Value, indices: npt.NDArray[np.integer], axis: int = 0, *, name: str | None = None) -> Value:
        """GATHER of the elements with these numbers along an axis, whose place the dimensions of `indices` take."""
        given = self._constant("indices", indices, DType(indices.dtype.name)).index
        fields = {"Axis": axis, "BatchDims": 0}
        return self._moved("GATHER", x, [given], lambda real: np.take(real, indices, axis), fields, name)

    def transpose(self, x: Value, permutation: Sequence[int], *, name: str | None = None) -> Value:
        """TRANSPOSE: the axes in the order of `permutation`; negative ones count from the end."""
        inputs = [self._integers("permutation", permutation)]
        return self._moved("TRANSPOSE", x, inputs, lambda real: np.transpose(real, permutation), name=name)

    def taken_as(self, x: Value, quantisation: Quantisation) -> Value:
        """What an operator that moves elements made, its stored values taken for those of another quantisation.

        No kernel of SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, GATHER, TRANSPOSE, TILE, REVERSE_V2 or PAD looks at scales,
        and Micro's of PACK, UNPACK and MIRROR_PAD do not.
        """
        before, real = x.quantisation, self._thunks[x.index]

        def stored_anew() -> Real:
            return (real() / before.scale + (before.zero_point - quantisation.zero_point)) * quantisation.scale

        self._tensors[x.index] = replace(self._tensors[x.index], quantisation=quantisation)
        self._thunks[x.index] = stored_anew
        self._reals.pop(x.index, None)
        return replace(x, quantisation=quantisation)

    def _as_version(self, version: int, made: Value) -> Value:
        """What the last operator made, which the file says to be of that version."""
        self._operators[-1] = replace(self._operators[-1], version=version)
        return made

    def _moved(
        self,
        kind: str,
        x: Value,
        inputs: Sequence[int],
        move: Any,
        fields: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Value:
        shape = move(np.empty(x.shape)).shape
        return self._operator(
            kind, [x.index, *inputs], shape, lambda: move(self._real(x)), x.quantisation, fields or {}, name, x.dtype
        )

    def _table(self, paddings: Sequence[tuple[int, int]]) -> int:
        return self._constant("paddings", np.array(paddings, dtype=np.int32), DType.INT32).index

    def _at(self, x: Value, place: int, axis: int) -> Real:
        real: Real = np.take(self._real(x), place, axis=axis)
        return real
