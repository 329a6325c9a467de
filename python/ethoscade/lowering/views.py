"""How operations see tensors: their height, width and depth, windows in their simplest form, and common indices.

Owns the step from a graph's shapes and windows to `te` types that operator families share. Checks nothing.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir import Window
from . import limits
from .te import Access, Affine, Axis, index

Shape3 = tuple[int, int, int]

POINT = Window(1, 1)
"""The window of operators that look at one pixel."""


def image_shape(shape: tuple[int, ...]) -> Shape3:
    """(height, width, depth) of a tensor of up to four dimensions; leading dimensions are folded into the height.

    The rows of a matrix are rows of one pixel each: a FULLY_CONNECTED makes and reads them one by one.
    """
    *leading, depth = shape or (1,)
    width = leading.pop() if len(leading) > 1 else 1
    return int(np.prod(leading, dtype=np.int64)), width, depth


def output_size(window: Window, height: int, width: int) -> tuple[int, int]:
    """Rows and columns that `window` makes of an input of `height` x `width` (0 or less: it does not fit)."""
    rows = (height + window.pad_top + window.pad_bottom - window.dilated_h) // window.stride_h + 1
    columns = (width + window.pad_left + window.pad_right - window.dilated_w) // window.stride_w + 1
    return rows, columns


def pads(window: Window) -> tuple[int, int, int, int]:
    """Padding above, to the left, below and to the right."""
    return window.pad_top, window.pad_left, window.pad_bottom, window.pad_right


def simplest(window: Window, height: int, width: int) -> Window:
    """The same window with strides that are never taken and dilations without effect set to 1.

    A global pool with stride 7, say, makes one output whatever its stride, and so stays inside the NPU's limits.
    """
    rows, columns = output_size(window, height, width)
    return dataclasses.replace(
        window,
        stride_h=1 if rows == 1 else window.stride_h,
        stride_w=1 if columns == 1 else window.stride_w,
        dilation_h=1 if window.kernel_h == 1 else window.dilation_h,
        dilation_w=1 if window.kernel_w == 1 else window.dilation_w,
        # With the stride gone, rows and columns past the only window would count as further positions.
        pad_bottom=window.pad_bottom if rows != 1 else max(0, window.dilated_h - window.pad_top - height),
        pad_right=window.pad_right if columns != 1 else max(0, window.dilated_w - window.pad_left - width),
    )


def axes(shape: Shape3) -> tuple[Axis, Axis, Axis, Axis]:
    """The spatial axes n, h, w, c of an output of `shape`."""
    h, w, c = shape
    return Axis("n", 1), Axis("h", h), Axis("w", w), Axis("c", c)


def densest(window: Window) -> Window:
    """The same window with dilations that the NPU has, and taps between its own that are to weigh nothing."""

    def along(taps: int, dilation: int) -> tuple[int, int]:
        if dilation <= limits.MAX_DILATION:
            return taps, dilation
        left = 2 if dilation % 2 == 0 else 1
        return (taps - 1) * (dilation // left) + 1, left

    (rows, down), (columns, right) = (
        along(window.kernel_h, window.dilation_h),
        along(window.kernel_w, window.dilation_w),
    )
    return dataclasses.replace(window, kernel_h=rows, kernel_w=columns, dilation_h=down, dilation_w=right)


def kernel_axes(window: Window) -> tuple[Axis, Axis]:
    """Reduction axes kh and kw of a window."""
    return Axis("kh", window.kernel_h, True), Axis("kw", window.kernel_w, True)


def point_access(operand: int, shape: Shape3) -> Access:
    """A read of the element at the output's own place."""
    return Access(operand, (index(n=1), index(h=1), index(w=1), index(c=1)), (1, *shape))


def window_access(window: Window, shape: Shape3, channel: Affine, factor: int = 1) -> Access:
    """A read of operand 0 (of `shape`, enlarged `factor` times) under a window, at the given channel index."""
    row = index(-window.pad_top, h=window.stride_h, kh=window.dilation_h) // factor
    column = index(-window.pad_left, w=window.stride_w, kw=window.dilation_w) // factor
    return Access(0, (index(n=1), row, column, channel), (1, *shape))
