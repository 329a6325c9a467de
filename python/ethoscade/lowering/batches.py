"""Images of a batch, one above the other: an operation for each, of its own rows and with its own padding.

Owns the step from an operation on one image to those on all. What is done to an image is its family's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ir import Window
from . import moves, views
from .npu import Area, NpuOperation

MOST = moves.MAX_BOXES
"""Images of a batch, each of which an operation makes."""


def image(shape: tuple[int, ...], window: Window) -> tuple[int, views.Shape3]:
    """How many images of which shape (height, width, depth) a window looks at in a tensor NHWC.

    A window of one row that is moved row by row looks at all of them as at one.
    """
    batch, height, width, depth = shape
    if window.kernel_h == window.stride_h == 1 and not window.pad_top + window.pad_bottom:
        return 1, (batch * height, width, depth)
    return batch, (height, width, depth)


def all_rows(batch: int, shape: views.Shape3) -> views.Shape3:
    """What `batch` images are together."""
    height, width, depth = shape
    return batch * height, width, depth


def of(operation: NpuOperation, batch: int, made: views.Shape3) -> Iterator[NpuOperation]:
    """The operation for each of `batch` images, of which it makes `made`. Its maps are those of all images."""
    if batch == 1:
        yield operation
        return
    (read,), plane = operation.compute.reads, operation.ofm.shape[:2]
    n, rows, columns, channels = read.indices
    for number in range(batch):
        above = number * read.extents[1]
        own = replace(read, indices=(n, replace(rows, constant=rows.constant + above), columns, channels))
        yield replace(
            operation,
            ofm=replace(operation.ofm, shape=made, place=Area((number * made[0], 0), plane)),
            compute=replace(operation.compute, reads=(replace(own, origin=(above, 0)),)),
        )
