"""Sliding windows over NHWC arrays: padding, the view under one kernel position, and the correlation built on both.

Owns geometry only; quantisation is the caller's business.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...ir import Window
from ...util.records import dataclass

Element = TypeVar("Element", bound=np.generic)

_CHUNK_ELEMENTS = 1 << 21  # of the unfolded input at a time: 16 MiB as float64


@dataclass(frozen=True)
class Seen:
    """A window without the kernel positions that meet nothing but padding, and the part of an image that it meets.

    `rows` and `columns` are the positions that are left, possibly none; `crop` is what of the image's height and width
    they meet. The window makes as many outputs of the cropped image as the whole one of the whole image.
    """

    window: Window
    rows: slice
    columns: slice
    crop: tuple[slice, slice]

    @property
    def nothing(self) -> bool:
        """Whether every output lies in padding alone."""
        return bool(self.rows.stop <= self.rows.start or self.columns.stop <= self.columns.start)

    def of(self, image: npt.NDArray[Element]) -> npt.NDArray[Element]:
        """The part of an image (NHWC) that is met."""
        return image[:, self.crop[0], self.crop[1]]


def seen(window: Window, height: int, width: int) -> Seen:
    """What `window` meets of an image: padding may be as far as a file says, work and memory are not."""
    rows, vertical, (top, bottom) = _met(
        window.kernel_h, window.stride_h, window.dilation_h, (window.pad_top, window.pad_bottom), height
    )
    columns, horizontal, (left, right) = _met(
        window.kernel_w, window.stride_w, window.dilation_w, (window.pad_left, window.pad_right), width
    )
    kernel_h, kernel_w = rows.stop - rows.start, columns.stop - columns.start
    pads = {"pad_top": top, "pad_bottom": bottom, "pad_left": left, "pad_right": right}
    left_over = replace(window, kernel_h=kernel_h, kernel_w=kernel_w, **pads)
    return Seen(left_over, rows, columns, (vertical, horizontal))


def _met(
    kernel: int, stride: int, dilation: int, padding: tuple[int, int], extent: int
) -> tuple[slice, slice, tuple[int, int]]:
    """Kernel positions that meet the image, what they meet of it, and the padding that they still need."""
    before, after = padding
    last = (extent + before + after - (kernel - 1) * dilation - 1) // stride * stride
    first = max(0, -((last - before) // dilation))
    end = min(kernel, (extent - 1 + before) // dilation + 1)
    before -= first * dilation
    after = last + (end - first - 1) * dilation + 1 - extent - before
    return slice(first, end), slice(max(0, -before), extent - max(0, -after)), (max(0, before), max(0, after))


def pad_spatial(x: npt.NDArray[Element], window: Window, fill: float | int) -> npt.NDArray[Element]:
    """`x` (NHWC) with the window's explicit padding around height and width, filled with `fill`."""
    pads = ((0, 0), (window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right), (0, 0))
    return np.pad(x, pads, constant_values=fill) if any(map(any, pads)) else x


def output_size(padded: tuple[int, ...], window: Window) -> tuple[int, int]:
    """Rows and columns that `window` makes of an NHWC shape that already includes its padding."""
    rows = (padded[1] - window.dilated_h) // window.stride_h + 1
    columns = (padded[2] - window.dilated_w) // window.stride_w + 1
    return rows, columns


def tap(padded: npt.NDArray[Element], window: Window, y: int, x: int) -> npt.NDArray[Element]:
    """View of the elements under kernel position (y, x), one for every output position."""
    rows, columns = output_size(padded.shape, window)
    top, left = y * window.dilation_h, x * window.dilation_w
    return padded[
        :,
        top : top + (rows - 1) * window.stride_h + 1 : window.stride_h,
        left : left + (columns - 1) * window.stride_w + 1 : window.stride_w,
    ]


def correlate(padded: npt.NDArray[np.float64], w: npt.NDArray[np.float64], window: Window) -> npt.NDArray[np.float64]:
    """Cross-correlation of an already padded input with weights OHWI, in float64.

    Exact on integers: no sum of 8- or 16-bit products of a network comes near 2**53.
    """
    rows, columns = output_size(padded.shape, window)
    matrix = w.reshape(w.shape[0], -1).T
    out = np.empty((padded.shape[0], rows, columns, w.shape[0]))
    step = max(1, _CHUNK_ELEMENTS // max(1, columns * matrix.shape[0]))
    for first in range(0, rows, step):
        count = min(step, rows - first)
        top = first * window.stride_h
        part = padded[:, top : top + (count - 1) * window.stride_h + window.dilated_h]
        taps = [tap(part, window, y, x) for y in range(window.kernel_h) for x in range(window.kernel_w)]
        unfolded = taps[0] if len(taps) == 1 else np.concatenate(taps, axis=3)
        # One product of matrices: NumPy would start BLAS again for every row of an image.
        product = unfolded.reshape(-1, matrix.shape[0]) @ matrix
        out[:, first : first + count] = product.reshape(*unfolded.shape[:3], -1)
    return out
