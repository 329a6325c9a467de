"""Strides beyond the NPU's: an operation with a smaller stride, and copies that leave out rows and columns.

Owns the factors of a stride. What is left out was computed in vain; the result is exact whatever the operation. A copy
that leaves out more than the NPU's strides can reads a whole tensor, with its rows and columns further apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir import Window
from . import limits
from .feature_maps import FeatureMap
from .maker import Maker
from .npu import NpuGraphBuilder, NpuOperation

Make = Callable[[Window, FeatureMap], NpuOperation]
"""The operation that makes a feature map with a window."""


def factors(stride: int) -> list[int]:
    """A stride as factors: those that the NPU has, 1 if there is none, and what is left of the stride, if anything."""
    found = []
    for step in range(limits.MAX_STRIDE, 1, -1):
        while stride % step == 0:
            found.append(step)
            stride //= step
    return [*(found or [1]), *([stride] if stride > 1 else [])]


def add(builder: NpuGraphBuilder, op_index: int, window: Window, pieces: Sequence[tuple[FeatureMap, Make]]) -> None:
    """All pieces of an output, each of which its `Make` makes with a window, of any strides."""
    rows, columns = factors(window.stride_h), factors(window.stride_w)
    count = max(len(rows), len(columns))
    rows, columns = ([*steps, *[1] * (count - len(steps))] for steps in (rows, columns))
    if count == 1:
        for ofm, make in pieces:
            builder.add(make(window, ofm))
        return
    # What makes one output follows each other: what the last copies read is made beforehand.
    last = [_first_rows(builder, op_index, window, (rows, columns), piece) for piece in pieces]
    for (ofm, _), (copies, source) in zip(pieces, last, strict=True):
        _leave_out(copies, source, ofm, rows[-1], columns[-1])


def _first_rows(
    builder: NpuGraphBuilder,
    op_index: int,
    window: Window,
    steps: tuple[Sequence[int], Sequence[int]],
    piece: tuple[FeatureMap, Make],
) -> tuple[Maker, FeatureMap]:
    """What the last copy of a piece reads: its operation, with the first steps, and copies with those between."""
    (rows, columns), (ofm, make) = steps, piece
    shapes = [ofm.shape]
    for down, right in zip(reversed(rows[1:]), reversed(columns[1:]), strict=True):
        height, width, depth = shapes[0]
        shapes.insert(0, ((height - 1) * down + 1, (width - 1) * right + 1, depth))
    first, *others = [builder.temporary(op_index, shape, ofm.dtype, ofm.zero_point) for shape in shapes[:-1]]
    operation = make(replace(window, stride_h=rows[0], stride_w=columns[0]), first)
    builder.add(operation)
    copies = Maker(operation.name, op_index, builder)
    for down, right, target in zip(rows[1:-1], columns[1:-1], others, strict=True):
        first = _leave_out(copies, first, target, down, right)
    return copies, first


def _leave_out(make: Maker, ifm: FeatureMap, ofm: FeatureMap, down: int, right: int) -> FeatureMap:
    """A copy of rows that are `down` and of columns that are `right` apart."""
    if max(down, right) <= limits.MAX_STRIDE:
        return make.copy(ifm, ofm, steps=Window(1, 1, down, right))
    _, width, depth = ifm.shape
    return make.copy(ifm.apart(ofm.shape, (down * width * depth, right * depth)), ofm)
