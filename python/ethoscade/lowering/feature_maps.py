"""Feature maps: tensors in the NPU's memory, operations' views of them, and second operands that are constant.

Owns how elements lie in memory and which of them a view sees. What is done with them is `npu`'s.
"""

from __future__ import annotations

import enum
import math
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..ir import DType
from ..util.records import dataclass

ARENA = "arena"
"""The pool of feature maps that the memory planner places."""

BRICK_CHANNELS = 16


class Layout(enum.Enum):
    """How a feature map's elements follow each other in memory; rows follow each other in both.

    NHWC: within a row pixel by pixel, all channels of each. NHCWB16: within a row in bricks, each of them
    `BRICK_CHANNELS` channels of all the row's pixels.
    """

    NHWC = "NHWC"
    NHCWB16 = "NHCWB16"


class Channels(NamedTuple):
    """Some channels of a pixel: the `first` one of them, and how many the pixel has in memory."""

    first: int
    of: int


class Area(NamedTuple):
    """Some rows and columns of an output that several operations make: the `first` row and column, and those of all."""

    first: tuple[int, int]
    of: tuple[int, int]


@dataclass(frozen=True)
class NpuTensor:
    """A feature map in memory: (height, width, depth) as its maker sees it, or its first reader if no NPU operation is.

    `id` counts the tensors of its `NpuGraph`. `graph_tensor` is the index of the TFLite tensor, None for a temporary
    of one operator. `pool` says which memory it lives in.
    """

    id: int
    name: str
    shape: tuple[int, int, int]
    dtype: DType
    layout: Layout = Layout.NHWC
    pool: str = ARENA
    graph_tensor: int | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements, packed."""
        height, width, depth = self.shape
        return height * width * depth * self.dtype.size_bytes

    @property
    def placed_bytes(self) -> int:
        """Bytes that it takes as a whole in a memory, where every buffer begins at a multiple of 16."""
        return -(-self.size_bytes // 16) * 16


@dataclass(frozen=True)
class FeatureMap:
    """An operation's view of a tensor, seen as `shape` (height, width, depth).

    The view's bytes are the tensor's bytes, packed. A view of an NHWC tensor whose rows or columns are not the tensor's
    own (a flattened one, say) is simply another shape with the same number of elements. In NHCWB16 the depth is a
    multiple of `BRICK_CHANNELS`, and all views of a tensor have the same shape.

    `channels` says which ones are seen where they are not all of a pixel's; in NHCWB16 they begin and end with a brick.
    `place` says where an output lies that has not all rows and columns; an input has all of them, and which of these
    are read is the index expression's. `zero_point` is what is taken off the stored values of an input, or added to
    those of an output.

    `strides` are elements from row to row and from column to column of an input that is seen in another order than it
    lies in, 0 where all are one: pixel by pixel and whole. `channels` then counts from the tensor's first element, of
    as many as there are from the last pixel's first one on.
    """

    tensor: NpuTensor
    shape: tuple[int, int, int]
    zero_point: int = 0
    channels: Channels | None = None
    place: Area | None = None
    strides: tuple[int, int] | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.tensor.dtype

    @property
    def layout(self) -> Layout:
        """The layout in memory."""
        return self.tensor.layout

    @property
    def first_channel(self) -> int:
        """The channel in memory that is the view's first."""
        return 0 if self.channels is None else self.channels.first

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns in memory."""
        return self.shape[:2] if self.place is None else self.place.of

    @property
    def corner(self) -> tuple[int, int]:
        """The row and column in memory that are the view's first."""
        return (0, 0) if self.place is None else self.place.first

    @property
    def pixel_channels(self) -> int:
        """Channels of a pixel in memory."""
        return self.shape[2] if self.channels is None else self.channels.of

    def apart(self, shape: tuple[int, int, int], strides: tuple[int, int], first: int = 0) -> FeatureMap:
        """The tensor, seen as it lies, with pixels as far apart as `strides` say, from the element `first` on."""
        (height, width, _), (row, column) = shape, strides
        left = math.prod(self.shape) - (height - 1) * row - (width - 1) * column
        return replace(self, shape=shape, strides=strides, channels=Channels(first, left))

    @property
    def byte_strides(self) -> tuple[int, int] | None:
        """`strides` in bytes."""
        if self.strides is None:
            return None
        row, column = self.strides
        return row * self.dtype.size_bytes, column * self.dtype.size_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the feature map in memory, channels that the view leaves out included."""
        h, w = self.plane
        if self.strides is not None:
            row, column = self.strides
            return ((h - 1) * row + (w - 1) * column + self.pixel_channels) * self.dtype.size_bytes
        return h * w * self.pixel_channels * self.dtype.size_bytes


@dataclass(frozen=True)
class Scalar:
    """A second operand that is one number: the stored `value`, less `zero_point`. It fits 16 bits."""

    value: int
    dtype: DType
    zero_point: int = 0


@dataclass(frozen=True, eq=False)
class ConstantMap:
    """A second operand that is a constant feature map: the stored `values`, (height, width, depth), less `zero_point`.

    It lies with the other constants, in the order of `layout`, and is read from there.
    """

    values: npt.NDArray[np.integer] = field(repr=False)
    dtype: DType
    zero_point: int = 0
    layout: Layout = Layout.NHWC

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and depth."""
        height, width, depth = self.values.shape
        return height, width, depth

    @property
    def plane(self) -> tuple[int, int]:
        """Rows and columns in memory: all."""
        return self.shape[:2]

    @property
    def corner(self) -> tuple[int, int]:
        """It is read from its first row and column on."""
        return 0, 0

    @property
    def first_channel(self) -> int:
        """It is read from its first channel on."""
        return 0

    @property
    def pixel_channels(self) -> int:
        """Channels of a pixel in memory: all."""
        return self.shape[2]

    @property
    def data(self) -> bytes:
        """Its bytes, little-endian, in the order in which they lie in memory."""
        values: npt.NDArray[np.integer] = np.asarray(self.values, self.dtype.numpy.newbyteorder("<"))
        if self.layout is Layout.NHCWB16:
            height, width, depth = self.shape
            bricks = values.reshape(height, width, depth // BRICK_CHANNELS, BRICK_CHANNELS)
            values = bricks.transpose(0, 2, 1, 3)
        return values.tobytes()
