"""How operations see tensors and windows: height, width and depth, and windows in their simplest form.

Owns the step from a graph's shapes and windows to those of operations. Checks nothing.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..ir import Window
from . import limits

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
