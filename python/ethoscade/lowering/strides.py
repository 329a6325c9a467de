"""Strides beyond the NPU's: an operation with a smaller stride, and copies that leave out rows and columns.

Owns the factors of a stride. What is left out was computed in vain; the result is exact whatever the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir import Window
from . import limits
from .maker import Maker
from .npu import FeatureMap, NpuGraphBuilder, NpuOperation

Make = Callable[[Window, FeatureMap], NpuOperation]
"""The operation that makes a feature map with a window."""


def factors(stride: int) -> list[int] | None:
    """A stride as factors that the NPU has, in any order; None where it has larger prime ones."""
    found = []
    while stride > limits.MAX_STRIDE:
        step = next((n for n in range(limits.MAX_STRIDE, 1, -1) if stride % n == 0), None)
        if step is None:
            return None
        found.append(step)
        stride //= step
    return [*found, stride]


def add(builder: NpuGraphBuilder, op_index: int, window: Window, ofm: FeatureMap, make: Make) -> None:
    """What `make` makes of `ofm` with a window of any strides that have `factors`."""
    rows, columns = factors(window.stride_h) or [], factors(window.stride_w) or []
    count = max(len(rows), len(columns))
    rows, columns = ([*steps, *[1] * (count - len(steps))] for steps in (rows, columns))
    shapes = [ofm.shape]
    for down, right in zip(reversed(rows[1:]), reversed(columns[1:]), strict=True):
        height, width, depth = shapes[0]
        shapes.insert(0, ((height - 1) * down + 1, (width - 1) * right + 1, depth))
    between = [builder.temporary(op_index, shape, ofm.dtype, ofm.zero_point) for shape in shapes[:-1]]
    first, *others = [*between, ofm]
    operation = make(replace(window, stride_h=rows[0], stride_w=columns[0]), first)
    builder.add(operation)
    copies = Maker(operation.name, op_index, builder)
    for down, right, target in zip(rows[1:], columns[1:], others, strict=True):
        first = copies.copy(first, target, steps=Window(1, 1, down, right))
