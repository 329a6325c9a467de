"""NPU operations with addresses: the input of an emitter of register commands, free of any emitter's own types.

Owns the last neutral form of the program's steps: stripes and copies whose buffers have become bytes in memory regions.
`command_stream` builds these, `block_dependency` reads them, `vela` turns them into registers.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir import DType, Window
from ..lowering.feature_maps import Layout, Scalar
from ..lowering.npu import (
    Function,
    OperationKind,
    Rounding,
    Scaling,
    Upscale,
)
from ..util.records import dataclass

CONSTANTS_REGION = 0
ARENA_REGION = 1
FAST_REGION = 2
INPUT_REGION = 3
"""Of the first external input; others follow."""
TABLES_REGION = -1
"""The area of the NPU's own memory that holds tables; offsets count from its start. Not a region of the driver's."""

SLOT_BYTES = 256
"""Tables begin at multiples of this number of bytes of their area, which holds eight of them."""


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
