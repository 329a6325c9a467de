"""Images of a batch, one above the other: an operation for each, of its own rows and with its own padding.

Owns the step from an operation on one image to those on all. What is done to an image is its family's business.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Window
from . import expressions, moves, strides, views
from .feature_maps import Area, FeatureMap
from .npu import NpuGraphBuilder, NpuOperation

MOST = moves.MAX_BOXES
"""Images of a batch, each of which an operation makes."""


def image(shape: tuple[int, ...], window: Window) -> tuple[int, views.Shape3, Window]:
    """How many images of which shape (height, width, depth) a window looks at in a tensor NHWC, and how it is moved.

    A window of one row that looks at every row looks at all of them as at one.
    """
    batch, height, width, depth = shape
    every_row = window.stride_h == 1 or height == 1
    if window.kernel_h == 1 and every_row and not window.pad_top + window.pad_bottom:
        return 1, (batch * height, width, depth), replace(window, stride_h=1)
    return batch, (height, width, depth), window


def all_rows(batch: int, shape: views.Shape3) -> views.Shape3:
    """What `batch` images are together."""
    height, width, depth = shape
    return batch * height, width, depth


def add(
    builder: NpuGraphBuilder, op_index: int, window: Window, batch: int, ofm: FeatureMap, make: strides.Make
) -> None:
    """What `make` makes of each of `batch` images with a window of any strides; `ofm` is that of all of them."""
    strides.add(builder, op_index, window, pieces(batch, ofm, make))


def pieces(batch: int, ofm: FeatureMap, make: strides.Make) -> list[tuple[FeatureMap, strides.Make]]:
    """An output's images, each with what makes it.

    `make` says what it reads of an image as if there were no other.
    """
    if batch == 1:
        return [(ofm, make)]
    height, width, depth = ofm.shape
    made = (height // batch, width, depth)
    return [
        (replace(ofm, shape=made, place=Area((number * made[0], 0), (height, width))), _of_image(make, number))
        for number in range(batch)
    ]


def _of_image(make: strides.Make, number: int) -> strides.Make:
    """What is made of an image behind `number` others."""

    def operation(window: Window, ofm: FeatureMap) -> NpuOperation:
        found = make(window, ofm)
        above = number * found.compute.reads[0].extents[1]
        compute = expressions.from_there(found.compute, (above, 0))
        (read,) = compute.reads
        return replace(found, compute=replace(compute, reads=(replace(read, origin=(above, 0)),)))

    return operation
