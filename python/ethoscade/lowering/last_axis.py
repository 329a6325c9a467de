"""Tensors as operators see them that work along the last axis: pixels with its elements as channels.

Owns how many channels of a single pixel become rows of fewer, which stripes can cut, how such a pixel is summed, where
the sums of pixels lie, and what such operators demand of their channels.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..ir import DType, Window
from ..util.records import dataclass
from . import constraints, extremes, limits, views
from .feature_maps import FeatureMap
from .maker import Maker
from .npu import OperationKind

MOST_IN_ONE_PIXEL = 128
"""A single pixel of more channels is seen as rows of at most this number."""

_GRANULE = 8  # Channels of an elementwise operation count by eights.


@dataclass(frozen=True)
class Depth(constraints.Constraint):
    """The last axis has at most `most` elements, of int16 `of_short` where there are any; `why` there are no more."""

    most: int
    of_short: int | None = None
    why: str = ""

    def __str__(self) -> str:
        of_short = "" if self.of_short is None else f", of int16 {self.of_short}"
        return f"the last axis has at most {self.most} elements{of_short}"

    def _against(self, case: constraints.Case) -> str | None:
        channels = (case.ifm.shape or (1,))[-1]
        most = self.of_short if self.of_short is not None and case.ifm.dtype is DType.INT16 else self.most
        return f"it has {channels} channels; at most {most} are possible{self.why}" if channels > most else None


def pixels(case: constraints.Case) -> constraints.Views:
    """What the NPU sees of such an operator's input and output."""
    shape, _ = seen(case.ifm.shape)
    return [(case.ifm, shape), (case.ofm, shape)]


def seen(shape: tuple[int, ...]) -> tuple[views.Shape3, views.Shape3]:
    """How a tensor is seen, and what has one number for each of its pixels; of a single pixel there is one number."""
    *leading, channels = shape or (1,)
    rows = math.prod(leading)
    if rows == 1:
        return cut(channels), (1, 1, 1)
    plane = views.image_shape(shape)[:2] if len(shape) <= 4 else (rows, 1)
    return (*plane, channels), (*plane, 1)


def cut(channels: int) -> views.Shape3:
    """The channels of one pixel as rows of equally many.

    Where that would make the NPU work on an eighth more of them, as it would on those of a prime number, they stay.
    """

    def cost(depth: int) -> int:
        return channels // depth * -(-depth // _GRANULE)

    if channels <= MOST_IN_ONE_PIXEL:
        return 1, 1, channels
    best = min((depth for depth in range(MOST_IN_ONE_PIXEL, 0, -1) if channels % depth == 0), key=cost)
    return (1, 1, channels) if 8 * cost(best) > 9 * cost(channels) else (channels // best, 1, best)


def largest(make: Maker, source: int, shape: tuple[int, ...]) -> FeatureMap:
    """The largest stored value of each pixel of a tensor (graph index) of that shape, one number for each."""
    *leading, channels = shape or (1,)
    pixels, (plane, once) = math.prod(leading), seen(shape)
    if pixels > limits.MAX_DIMENSION:
        return extremes.by_halves(make, OperationKind.MAXIMUM, make.builder.view(source, plane, zero_point=0))
    ifm = make.builder.view(source, (pixels, channels, 1), zero_point=0)
    made = make.temporary((pixels, 1, 1), ifm.dtype)
    return replace(make.pool(OperationKind.MAX_POOL, ifm, made, Window(1, channels)), shape=once)


def total(make: Maker, ifm: FeatureMap, pixels: int) -> FeatureMap:
    """The sum of each of the `pixels` of a tensor that is `seen` so.

    The sums of a row are channels of one pixel, so that stripes of the tensor's rows pass. Of few rows, or where the
    NPU would work on an eighth more channels, the sums are cut as the channels of a single pixel are, if there are not
    too many.
    """
    found = make.sum(ifm)
    rows, columns, _ = found.shape
    if rows * columns > pixels:
        found = make.sum(replace(found, shape=(1, 1, rows)))
    by_rows, shape = (rows, 1, columns), cut(pixels)
    is_even = rows >= _GRANULE and 8 * rows * -(-columns // _GRANULE) <= 9 * -(-pixels // _GRANULE)
    is_wide = pixels > MOST_IN_ONE_PIXEL and is_even
    return replace(found, shape=by_rows if is_wide or max(shape) > limits.MAX_DIMENSION else shape)
