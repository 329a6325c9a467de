"""Operators of `ModelBuilder` that move elements or look at shapes, and compute nothing.

Owns their methods and output shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from ..ir import DType, Quantisation
from ..ir.quantised import bilinear_taps, nearest_indices
from .calibration import Real
from .flatfile import TENSOR_TYPES
from .recorder import UNQUANTISED, Recorder, Value


class ShapeRecorder(Recorder):
    """RESHAPE and its kin, RESIZE_*, SPLIT, CONCATENATION, PACK, STRIDED_SLICE and SHAPE."""

    def reshape(
        self,
        x: Value,
        shape: Sequence[int],
        *,
        target: Value | None = None,
        as_option: bool = False,
        name: str | None = None,
    ) -> Value:
        """RESHAPE to `shape`, in which one -1 stands for the rest.

        The file says so by a constant; by `target`, integers made at run time; or, `as_option`, in the options alone.
        """
        stated = tuple(shape)
        full = np.empty(x.shape, dtype=np.int8).reshape(stated).shape
        inputs = [] if as_option else [self._integers("shape", stated) if target is None else target.index]
        return self._operator(
            "RESHAPE",
            [x.index, *inputs],
            full,
            lambda: self._real(x).reshape(full),
            x.quantisation,
            {"NewShape": stated},
            name,
            x.dtype,
        )

    def resize_nearest(
        self,
        x: Value,
        size: tuple[int, int],
        *,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
        name: str | None = None,
    ) -> Value:
        """RESIZE_NEAREST_NEIGHBOR of an image to a size in rows and columns."""
        rows, columns = (
            nearest_indices(extent, outputs, align_corners, half_pixel_centers)
            for extent, outputs in zip(x.shape[1:3], size, strict=True)
        )
        return self._operator(
            "RESIZE_NEAREST_NEIGHBOR",
            [x.index, self._integers("size", size)],
            (x.shape[0], *size, x.shape[3]),
            lambda: self._real(x)[:, rows][:, :, columns],
            x.quantisation,
            {"AlignCorners": align_corners, "HalfPixelCenters": half_pixel_centers},
            name,
            x.dtype,
        )

    def resize_bilinear(
        self,
        x: Value,
        size: tuple[int, int],
        *,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
        name: str | None = None,
    ) -> Value:
        """RESIZE_BILINEAR of an image to a size in rows and columns."""

        def compute() -> Real:
            found = self._real(x)
            for axis, outputs in enumerate(size, 1):
                taps = bilinear_taps(x.shape[axis], outputs, align_corners, half_pixel_centers, DType.INT8)
                first, second = (
                    np.take(found, places, axis) for places in ([t[0] for t in taps], [t[1] for t in taps])
                )
                share = np.array([float(t[2]) for t in taps]).reshape([-1 if i == axis else 1 for i in range(4)])
                found = first * (1 - share) + second * share
            return found

        return self._operator(
            "RESIZE_BILINEAR",
            [x.index, self._integers("size", size)],
            (x.shape[0], *size, x.shape[3]),
            compute,
            x.quantisation,
            {"AlignCorners": align_corners, "HalfPixelCenters": half_pixel_centers},
            name,
            x.dtype,
        )

    def squeeze(self, x: Value, axes: Sequence[int] = (), *, name: str | None = None) -> Value:
        """SQUEEZE of the named axes, all of size 1; of every one of size 1 if none is named."""
        dropped = [axis % len(x.shape) for axis in axes] or [i for i, d in enumerate(x.shape) if d == 1]
        shape = tuple(d for i, d in enumerate(x.shape) if i not in dropped)
        return self._operator(
            "SQUEEZE",
            [x.index],
            shape,
            lambda: self._real(x).reshape(shape),
            x.quantisation,
            {"SqueezeDims": tuple(axes)},
            name,
            x.dtype,
        )

    def expand_dims(self, x: Value, axis: int, *, name: str | None = None) -> Value:
        """EXPAND_DIMS: a new dimension of size 1 before `axis`."""
        place = axis % (len(x.shape) + 1)
        shape = (*x.shape[:place], 1, *x.shape[place:])
        index = self._constant("axis", np.array(axis, dtype=np.int32), DType.INT32).index
        return self._operator(
            "EXPAND_DIMS",
            [x.index, index],
            shape,
            lambda: self._real(x).reshape(shape),
            x.quantisation,
            {},
            name,
            x.dtype,
        )

    def shape_of(self, x: Value, dtype: DType = DType.INT32) -> Value:
        """SHAPE: the dimensions of `x` as INT32 or INT64."""
        shape = np.array(x.shape, dtype=np.float64)
        kind = {"OutType": TENSOR_TYPES[dtype]}
        return self._plain("SHAPE", [x.index], shape.shape, dtype, lambda: shape, kind)

    def strided_slice(
        self,
        x: Value,
        begin: Sequence[int],
        end: Sequence[int],
        strides: Sequence[int],
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        shrink_mask: int = 0,
        ellipsis_mask: int = 0,
        new_mask: int = 0,
    ) -> Value:
        """STRIDED_SLICE; bit i of a mask leaves the begin or end of span i open, or drops its axis.

        Or it makes the span an ellipsis, or a new axis.
        """
        cut: list[Any] = []
        for place, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
            span = slice(None if begin_mask >> place & 1 else first, None if end_mask >> place & 1 else last, step)
            taken = first if shrink_mask >> place & 1 else span
            cut.append(... if ellipsis_mask >> place & 1 else None if new_mask >> place & 1 else taken)
        shape: tuple[int, ...] = np.empty(x.shape)[tuple(cut)].shape
        inputs = [x.index, *(self._integers("slice", numbers) for numbers in (begin, end, strides))]
        fields = {"BeginMask": begin_mask, "EndMask": end_mask, "ShrinkAxisMask": shrink_mask}
        fields |= {"EllipsisMask": ellipsis_mask, "NewAxisMask": new_mask} if ellipsis_mask or new_mask else {}

        def compute() -> Real:
            piece: Real = np.asarray(self._real(x)[tuple(cut)])
            return piece.reshape(shape)

        if x.quantisation is UNQUANTISED:
            return self._plain("STRIDED_SLICE", inputs, shape, x.dtype, compute, fields)
        return self._operator("STRIDED_SLICE", inputs, shape, compute, x.quantisation, fields, None, x.dtype)

    def pack(self, values: Sequence[Value | int], axis: int = 0) -> Value:
        """PACK of values of one shape and quantisation along a new axis; plain integers are constants."""
        parts = [
            self._constant("integer", np.array(value, dtype=np.int32), DType.INT32) if isinstance(value, int) else value
            for value in values
        ]
        first = next(value for value in values if not isinstance(value, int))
        place = axis % (len(first.shape) + 1)
        shape = (*first.shape[:place], len(parts), *first.shape[place:])
        inputs, fields = [part.index for part in parts], {"ValuesCount": len(parts), "Axis": axis}
        if first.quantisation is UNQUANTISED:
            return self._plain("PACK", inputs, shape, first.dtype, lambda: np.zeros(shape), fields)

        def compute() -> Real:
            return np.stack([self._real(part) for part in parts], axis=place)

        return self._operator("PACK", inputs, shape, compute, first.quantisation, fields, None, first.dtype)

    def split(
        self, x: Value, sizes: int | Sequence[int], *, axis: int = -1, name: str | None = None
    ) -> tuple[Value, ...]:
        """SPLIT into `sizes` equal pieces along `axis`, or SPLIT_V into pieces of the given sizes (-1 is the rest)."""
        extent, along = x.shape[axis], axis % len(x.shape)
        axis_index = self._constant("axis", np.array(axis, dtype=np.int32), DType.INT32).index
        if isinstance(sizes, int):
            kind, lengths = "SPLIT", [extent // sizes] * sizes
            inputs = [axis_index, x.index]
        else:
            kind, lengths = "SPLIT_V", [extent - sum(sizes) - 1 if n == -1 else n for n in sizes]
            inputs = [x.index, self._integers("sizes", sizes), axis_index]
        if sum(lengths) != extent:
            raise ValueError(f"{extent} elements along axis {axis} do not split into {sizes}")
        label = name or f"{kind.lower()}{len(self._operators)}"
        made = []
        for index, (end, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
            shape = (*x.shape[:along], length, *x.shape[along + 1 :])
            piece = self._tensor(f"{label}_{index}", shape, x.dtype, x.quantisation)
            self._thunks[piece.index] = partial(self._piece, x, range(end - length, end), along)
            made.append(piece)
        self._record(kind, inputs, made, {"NumSplits": len(made)})
        return tuple(made)

    def concatenate(
        self,
        values: Sequence[Value],
        *,
        axis: int = -1,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """CONCATENATION along `axis` of values of one quantisation, which the output keeps; of uint8 of any."""
        first, along = values[0], axis % len(values[0].shape)
        quantisations = {value.quantisation for value in values} | ({output} if output else set())
        if len(quantisations) > 1 and first.dtype is not DType.UINT8:
            raise ValueError("values of different quantisations; give them one by `quantize`")
        extent = sum(value.shape[along] for value in values)
        return self._operator(
            "CONCATENATION",
            [value.index for value in values],
            (*first.shape[:along], extent, *first.shape[along + 1 :]),
            lambda: np.concatenate([self._real(value) for value in values], axis=along),
            first.quantisation if output is None else output,
            {"Axis": axis},
            name,
            first.dtype,
        )

    def _piece(self, x: Value, places: range, axis: int) -> Real:
        return np.take(self._real(x), places, axis=axis)
