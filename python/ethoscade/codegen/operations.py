"""NPU operations with addresses: what an emitter of register commands is told, free of any emitter's own types.

Owns the last neutral form of the program's steps: stripes and copies whose buffers have become bytes in memory regions.
`command_stream` builds these, `block_dependency` reads them, `vela` turns them into registers.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir import DType, Window
from ..lowering.npu import (
    BRICK_CHANNELS,
    Function,
    Layout,
    OperationKind,
    Rounding,
    Scalar,
    Scaling,
    Upscale,
)
from ..util.records import dataclass

CONSTANTS_REGION = 0
ARENA_REGION = 1
FAST_REGION = 2
TABLES_REGION = -1
"""The area of the NPU's own memory that holds tables; offsets count from its start. Not a region of the driver's."""

SLOT_BYTES = 256
"""Tables begin at multiples of so many bytes of their area, which holds eight of them."""


class RegionByte(NamedTuple):
    """Where something begins: a byte of a memory region."""

    region: int
    offset_bytes: int


class MemoryRange(NamedTuple):
    """`length_bytes` bytes from `offset_bytes` of a memory region."""

    region: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Surface:
    """A feature map of a memory region, most often the arena, in up to four tiles.

    Element (y, x) lies in tile 0 at `offsets[0]`; columns from `width_0` on lie in tile 1 (y below `height_1`) or 3,
    the others in tile 0 (y below `height_0`) or 2, each tile counted from its own corner. `height_1` is 0 where no
    column wraps. `stride_c` leads to the next channel in NHWC, to the next brick of channels in NHCWB16. Strides and
    offsets in bytes.
    """

    shape: tuple[int, int, int]
    dtype: DType
    zero_point: int
    layout: Layout
    height_0: int
    height_1: int
    width_0: int
    offsets: tuple[int, int, int, int]
    stride_y: int
    stride_x: int
    stride_c: int
    region: int = ARENA_REGION

    def ranges(self, ys: tuple[int, int], xs: tuple[int, int], channels: tuple[int, int]) -> list[tuple[int, int]]:
        """Byte ranges [start, end) that hold rows `ys`, columns `xs` and `channels` (half-open, clipped to the depth).

        Ascending and apart. Whole pixels in NHWC, whole bricks in NHCWB16 are the finest that is told apart.
        """
        runs = self._runs(channels)
        found = []
        for y in range(*ys):
            for start, columns in self._pieces(y, *xs):
                last = (columns - 1) * self.stride_x
                found += [(start + skip, start + skip + last + width) for skip, width in runs]
        return _merged(found)

    def span(self, ys: tuple[int, int], xs: tuple[int, int], channels: tuple[int, int]) -> tuple[int, int]:
        """From the first to the last byte of `ranges`, which are hardly ever wanted where these lie apart."""
        runs = self._runs(channels)
        if not runs or ys[0] >= ys[1] or xs[0] >= xs[1]:
            return 0, 0
        skip, width = runs[-1]
        if ys[1] <= self.height_0 and xs[1] <= self.width_0:
            first = self.offsets[0] + ys[0] * self.stride_y + xs[0] * self.stride_x
            last = self.offsets[0] + (ys[1] - 1) * self.stride_y + (xs[1] - 1) * self.stride_x
            return first + runs[0][0], last + skip + width
        # Rows ascend in each tile: the first and the last one of each are enough.
        turns = (ys[0], ys[1] - 1, self.height_0 - 1, self.height_0, self.height_1 - 1, self.height_1)
        pieces = [piece for y in turns if ys[0] <= y < ys[1] for piece in self._pieces(y, *xs)]
        last = max(start + (columns - 1) * self.stride_x for start, columns in pieces)
        return min(pieces)[0] + runs[0][0], last + skip + width

    def _pieces(self, y: int, x0: int, x1: int) -> list[tuple[int, int]]:
        """Columns [x0, x1) of a row as the tiles cut them: (byte of the first one's first channel, columns)."""
        wrap = self.width_0
        found = []
        if x0 < min(x1, wrap):
            tile, row = (0, y) if y < self.height_0 else (2, y - self.height_0)
            found.append((self.offsets[tile] + row * self.stride_y + x0 * self.stride_x, min(x1, wrap) - x0))
        if max(x0, wrap) < x1:
            tile, row = (1, y) if y < self.height_1 else (3, y - self.height_1)
            first = max(x0, wrap) - wrap
            found.append((self.offsets[tile] + row * self.stride_y + first * self.stride_x, x1 - wrap - first))
        return found

    def bounds(self) -> tuple[int, int]:
        """First byte and one past the last byte that the surface touches."""
        h, w, c = self.shape
        tall, wide = h > self.height_0, w > self.width_0
        row, column = min(h, self.height_0) - 1, min(w, self.width_0) - 1
        ends = [(0, row, column)]
        if wide:
            ends.append((1, min(h, self.height_1) - 1, w - self.width_0 - 1))
        if tall:
            ends.append((2, h - self.height_0 - 1, column))
        if wide and h > self.height_1:
            ends.append((3, h - self.height_1 - 1, w - self.width_0 - 1))
        skip, width = self._runs((0, c))[-1]
        last = max(self.offsets[t] + y * self.stride_y + x * self.stride_x for t, y, x in ends)
        return min(self.offsets[t] for t, _, _ in ends), last + skip + width

    def _runs(self, channels: tuple[int, int]) -> list[tuple[int, int]]:
        """Where a pixel's bytes lie: (bytes from its first one, length) of every run, all that hold `channels`."""
        depth, size = self.shape[2], self.dtype.size_bytes
        if self.layout is Layout.NHWC:
            return [(0, depth * size)]
        low, high = channels[0] // BRICK_CHANNELS, -(-min(channels[1], depth) // BRICK_CHANNELS)
        widths = [min(BRICK_CHANNELS, depth - brick * BRICK_CHANNELS) * size for brick in range(low, high)]
        return [(brick * self.stride_c, width) for brick, width in enumerate(widths, start=low)]


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes in ascending ranges that neither touch nor overlap."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@dataclass(frozen=True)
class TableSlot:
    """The result looked up in the table that begins in this slot, 0..7, of the LUT area."""

    slot: int


@dataclass(frozen=True)
class Kernel:
    """One kernel operation: an `NpuOperation` on boxes, with addresses.

    `inputs` are one or two surfaces that kernels may have written; with `constant`, or `scalar`, that is
    the second operand. `padding` is (top, left, bottom, right), `block` (height, width, depth). All else as in
    `NpuOperation`.
    """

    kind: OperationKind
    inputs: tuple[Surface, ...]
    output: Surface
    window: Window
    padding: tuple[int, int, int, int]
    block: tuple[int, int, int]
    clamp: tuple[int, int]
    rounding: Rounding = Rounding.TFL
    scaling: Scaling = None
    constant: Surface | None = None
    scalar: Scalar | None = None
    upscale: Upscale = Upscale.NONE
    function: Function | TableSlot = Function.CLAMP
    swap_operands: bool = False
    accumulator_bits: int = 32
    weights: MemoryRange | None = None
    scales: MemoryRange | None = None
    part_kernel: bool = False


@dataclass(frozen=True)
class Copy:
    """One DMA; both ranges are equally long."""

    source: MemoryRange
    destination: MemoryRange


Operation = Kernel | Copy
