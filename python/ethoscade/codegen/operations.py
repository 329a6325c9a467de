"""NPU operations with addresses: what an emitter of register commands is told, free of any emitter's own types.

Owns the last neutral form of the program's steps: stripes and copies whose buffers have become bytes in memory regions.
`command_stream` builds these, `block_dependency` reads them, `vela` turns them into registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..ir import DType, Window
from ..lowering.stage import Primitive, Rounding

CONSTANTS_REGION = 0
ARENA_REGION = 1


class Range(NamedTuple):
    """`length_bytes` bytes from `offset_bytes` of a memory region."""

    region: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Surface:
    """An NHWC feature map of the arena in up to four tiles.

    Element (y, x) lies in tile 0 at `offsets[0]`; columns from `width_0` on lie in tile 1 (y below `height_1`) or 3,
    the others in tile 0 (y below `height_0`) or 2, each tile counted from its own corner. `height_1` is 0 where no
    column wraps. Strides and offsets in bytes. `scale` is None where nothing is rescaled.
    """

    shape: tuple[int, int, int]
    dtype: DType
    zero_point: int
    scale: float
    height_0: int
    height_1: int
    width_0: int
    offsets: tuple[int, int, int, int]
    stride_y: int
    stride_x: int

    def rows(self, y0: int, y1: int, x0: int, x1: int) -> list[tuple[int, int]]:
        """Byte ranges [start, end) of rows [y0, y1), columns [x0, x1), all channels."""
        pixel = self.shape[2] * self.dtype.size_bytes
        found = []
        for y in range(y0, y1):
            if x0 < self.width_0:
                tile, row = (0, y) if y < self.height_0 else (2, y - self.height_0)
                start = self.offsets[tile] + row * self.stride_y
                last = min(x1, self.width_0) - 1
                found.append((start + x0 * self.stride_x, start + last * self.stride_x + pixel))
            if x1 > self.width_0:
                tile, row = (1, y) if y < self.height_1 else (3, y - self.height_1)
                start = self.offsets[tile] + row * self.stride_y
                first = max(x0 - self.width_0, 0)
                last = x1 - self.width_0 - 1
                found.append((start + first * self.stride_x, start + last * self.stride_x + pixel))
        return found

    def bounds(self) -> tuple[int, int]:
        """First byte and one past the last byte that the surface touches."""
        h, w, c = self.shape
        pixel = c * self.dtype.size_bytes
        tall, wide = h > self.height_0, w > self.width_0
        row, column = min(h, self.height_0) - 1, min(w, self.width_0) - 1
        ends = [(0, row, column)]
        if wide:
            ends.append((1, min(h, self.height_1) - 1, w - self.width_0 - 1))
        if tall:
            ends.append((2, h - self.height_0 - 1, column))
        if wide and h > self.height_1:
            ends.append((3, h - self.height_1 - 1, w - self.width_0 - 1))
        last = max(self.offsets[t] + y * self.stride_y + x * self.stride_x + pixel for t, y, x in ends)
        return min(self.offsets[t] for t, _, _ in ends), last


@dataclass(frozen=True)
class Kernel:
    """One kernel operation. `padding` is (top, left, bottom, right), `block` (height, width, depth)."""

    primitive: Primitive
    inputs: tuple[Surface, ...]
    output: Surface
    window: Window
    padding: tuple[int, int, int, int]
    block: tuple[int, int, int]
    clamp: tuple[int, int]
    rounding: Rounding
    weights: Range | None = None
    scales: Range | None = None
    part_kernel: bool = False


@dataclass(frozen=True)
class Copy:
    """One DMA; both ranges are equally long."""

    source: Range
    destination: Range


Operation = Kernel | Copy
