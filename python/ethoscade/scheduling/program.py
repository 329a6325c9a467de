"""The program: NPU operations on stripes, constant copies and CPU calls, in order, over abstract buffers.

Owns the type between scheduling and memory / code generation. Buffers have sizes and lifetimes but no addresses.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass


class BufferKind(enum.Enum):
    """Why a buffer exists."""

    TENSOR = "tensor"
    ROLLING = "rolling"
    WEIGHTS = "weights"
    WORKSPACE = "workspace"


@dataclass(frozen=True)
class LiveWindow:
    """Bytes [low, high) of a buffer, possibly none, are in use in steps [first_step, last_step), and no others."""

    first_step: int
    last_step: int
    low: int
    high: int


@dataclass(frozen=True)
class ProgramBuffer:
    """Bytes in the arena, live in steps [first_step, last_step) of the program. `tensor` is a graph index or None.

    Where rows of a tensor appear or die one after the other, or nothing in a rolling buffer is wanted for a while,
    `windows` says which bytes are live when, in order of time and without a break; without windows all of them are.
    """

    name: str
    kind: BufferKind
    size_bytes: int
    first_step: int
    last_step: int
    tensor: int | None = None
    windows: tuple[LiveWindow, ...] = ()
    alignment: int = 16

    def periods(self) -> Iterator[tuple[int, int, int]]:
        """First step, one past the last, and bytes in use meanwhile, in order of time."""
        if not self.windows:
            yield self.first_step, self.last_step, self.size_bytes
        for window in self.windows:
            yield window.first_step, window.last_step, window.high - window.low

    def live_bytes(self, step: int) -> int:
        """Bytes in use at a step."""
        if not self.first_step <= step < self.last_step:
            return 0
        found = next((w for w in self.windows if w.first_step <= step < w.last_step), None)
        return self.size_bytes if found is None else found.high - found.low


class Whole(enum.Enum):
    """All constants of a stage, as encoded for being read in place, or for being copied."""

    IN_PLACE = "in place"
    STAGED = "staged"


Portion = Whole | int
"""Constants of a stage: all, or one slice of the output channels."""


@dataclass(frozen=True)
class Slab:
    """A box of a feature map inside a buffer.

    Rows [y0, y1) and columns [x0, x1) in the feature map's own coordinates. The buffer holds `rows` x `columns`
    pixels of full depth, packed; pixel (y, x) is at row (y - origin_y) mod rows and column (x - origin_x) mod columns.
    An output box never wraps; an input box wraps at most once, along one axis.
    """

    buffer: int
    y0: int
    y1: int
    x0: int
    x1: int
    rows: int
    columns: int
    origin_y: int = 0
    origin_x: int = 0


@dataclass(frozen=True)
class Stripe:
    """One NPU operation: the part of stage `stage` (index) that makes the box `output`.

    `padding` is (top, left, bottom, right): the rows and columns of padding that this stripe's windows touch.
    `block` is the OFM block (height, width, depth). `weights` is the buffer into which the stage's constants were
    staged, or None to read them in place; `slice` is the slice of output channels that is made, None for all of them.
    """

    stage: int
    inputs: tuple[Slab, ...]
    output: Slab
    padding: tuple[int, int, int, int]
    block: tuple[int, int, int]
    weights: int | None = None
    slice: int | None = None

    @property
    def portion(self) -> Portion:
        """Which of the stage's constants it uses."""
        return _portion(self.slice, Whole.IN_PLACE if self.weights is None else Whole.STAGED)


@dataclass(frozen=True)
class CopyConstants:
    """DMA of the encoded weights and scales of stage `stage`, or of one slice of them, into `buffer`."""

    stage: int
    buffer: int
    slice: int | None = None

    @property
    def portion(self) -> Portion:
        """Which of the stage's constants it brings."""
        return _portion(self.slice, Whole.STAGED)


def _portion(slice_: int | None, whole: Whole) -> Portion:
    return whole if slice_ is None else slice_


@dataclass(frozen=True)
class LoadTable:
    """DMA of the table of stage `stage` into the NPU's area for tables, from slot `slot` (0..7, 256 bytes each) on."""

    stage: int
    slot: int


@dataclass(frozen=True)
class CallOperator:
    """Graph operator `operator` on the CPU; `workspace` is a buffer or None."""

    operator: int
    workspace: int | None = None


Step = Stripe | CopyConstants | LoadTable | CallOperator


@dataclass(frozen=True)
class Program:
    """Steps in order over buffers by dense index.

    `tensor_buffers` maps every whole tensor (graph index) that lives in the arena to its buffer.
    """

    steps: tuple[Step, ...]
    buffers: tuple[ProgramBuffer, ...]
    tensor_buffers: dict[int, int]
