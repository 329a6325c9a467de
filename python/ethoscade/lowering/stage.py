"""Stages: the NPU's primitive operations on whole feature maps, as lowering leaves them and scheduling cuts them up.

Owns the type between the operator families and everything after them. A stage is complete: whoever emits it needs
neither the TFLite operator nor the graph.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..ir import DType, Window
from .te import Compute, Propagator, propagator


class Primitive(enum.Enum):
    """What the NPU is asked to do. IDENTITY is a 1x1 average pool that only rescales."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    AVERAGE_POOL = "average_pool"
    MAX_POOL = "max_pool"
    ADD = "add"
    IDENTITY = "identity"


class Rounding(enum.Enum):
    """Output rounding: TFLite's double rounding or round-half-up (ETHOS-U "natural")."""

    TFL = "tfl"
    NATURAL = "natural"


class Layout(enum.Enum):
    """How a feature map's elements follow each other in memory; rows follow each other in both.

    NHWC: within a row pixel by pixel, all channels of each. NHCWB16: within a row in bricks, each of them
    `BRICK_CHANNELS` channels of all the row's pixels.
    """

    NHWC = "NHWC"
    NHCWB16 = "NHCWB16"


BRICK_CHANNELS = 16


class Channels(NamedTuple):
    """Some channels of a pixel: the `first` one of them, and how many the pixel has in memory."""

    first: int
    of: int


@dataclass(frozen=True)
class FeatureMap:
    """A stage's view of a tensor: `tensor` is an index of the graph, `shape` the (height, width, depth) it is seen as.

    The view's bytes are the tensor's bytes, packed. A view of an NHWC tensor whose rows or columns are not the tensor's
    own (a flattened one, say) is simply another shape with the same number of elements. In NHCWB16 the depth is a
    multiple of `BRICK_CHANNELS`, and all views of a tensor have the same shape.

    `channels` says which ones are seen where they are not all of a pixel's; in NHCWB16 they begin and end with a brick.
    """

    tensor: int
    shape: tuple[int, int, int]
    dtype: DType
    scale: float
    zero_point: int
    layout: Layout = Layout.NHWC
    channels: Channels | None = None

    @property
    def first_channel(self) -> int:
        """The channel in memory that is the view's first."""
        return 0 if self.channels is None else self.channels.first

    @property
    def pixel_channels(self) -> int:
        """Channels of a pixel in memory."""
        return self.shape[2] if self.channels is None else self.channels.of

    @property
    def size_bytes(self) -> int:
        """Bytes of the feature map in memory, channels that the view leaves out included."""
        h, w, _ = self.shape
        return h * w * self.pixel_channels * self.dtype.size_bytes


@dataclass(frozen=True, eq=False)
class Weights:
    """Constants of a convolution or depthwise stage.

    `values` less `zero_point` are the weights (-255..255), OHWI; depthwise has I = 1 and O = channels. They are the
    file's own bytes, in whatever order in memory, so that a large model is not held several times. `bias` int64,
    `multipliers` (0..2^32-1) and `shifts` (0..63) have one entry per output channel:
    result = round(accumulator * multiplier * 2^-shift).
    """

    values: npt.NDArray[np.integer] = field(repr=False)
    bias: npt.NDArray[np.int64] = field(repr=False)
    multipliers: npt.NDArray[np.int64] = field(repr=False)
    shifts: npt.NDArray[np.int64] = field(repr=False)
    zero_point: int = 0


@dataclass(frozen=True, eq=False)
class Stage:
    """One NPU operation on whole feature maps.

    `operator` is the index of the graph operator that it serves. `clamp` is the inclusive range of stored output
    values. Elementwise and identity stages have a 1x1 window without padding. Stages of one operator that follow each
    other may make different channels of one output.
    """

    name: str
    operator: int
    primitive: Primitive
    inputs: tuple[FeatureMap, ...]
    output: FeatureMap
    window: Window
    compute: Compute
    clamp: tuple[int, int]
    weights: Weights | None = None
    rounding: Rounding = Rounding.TFL

    def propagators(self) -> tuple[Propagator, ...]:
        """One propagator per input feature map, derived from the compute definition."""
        reads = {access.operand: access for access in self.compute.reads}
        return tuple(propagator(self.compute, reads[i]) for i in range(len(self.inputs)))
