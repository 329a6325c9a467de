"""BLOCKDEP: how much of a kernel may start while kernels before it are still finishing.

Owns the rule and its safety. A kernel works in jobs, one for each OFM block and block of IFM channels. With BLOCKDEP b
the first jobs of a kernel may run while the last b jobs before it are unfinished: job i together with the last b - i of
them. The value computed here is the largest for which no such pair reads what the other still writes.

Four choices keep it on the safe side of what is not documented. Of the kernels before, every OFM block counts as a
single job, so that the jobs looked back over span more output than they really do. They are counted across kernels:
three kernels of one block each are the last three jobs, though the hardware may only ever mean the kernel immediately
before. Blocks of IFM channels are taken as 32 deep, the most that there is, where every output needs all channels. All
other kernels are taken to read every channel for each OFM block, although they should need those of the block only;
Vela does the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from ..lowering.npu import Layout
from ..target import Accelerator
from .operations import Kernel, Operation, Surface, TableSlot

MAX_BLOCKDEP = 3
IFM_BLOCK_DEPTH = 32

BANKS_WITHOUT_TABLES = 16
"""NPUs of so many banks of SHRAM, the smallest ones, have none for tables alone."""


_Span = tuple[int, int]


class _Box:
    """Part of a surface: the byte ranges that hold it, ascending and apart, and its channels.

    In NHWC ranges are of whole pixels; `phase` is then (offset modulo pixel size, pixel size), and boxes of equal phase
    can be told apart by their channels. It is None where rows are not whole pixels apart, and in NHCWB16, where the
    ranges are those of the channels' bricks.
    """

    def __init__(self, surface: Surface, rows: _Span, columns: _Span, channels: _Span) -> None:
        self.surface, self.part, self.channels = surface, (rows, columns, channels), channels
        # Columns that all are one have no pixels of their own.
        pixels = surface.layout is Layout.NHWC and surface.stride_x > 0 and surface.stride_y % surface.stride_x == 0
        self.phase = (surface.offsets[0] % surface.stride_x, surface.stride_x) if pixels else None

    @cached_property
    def span(self) -> _Span:
        """From the first to the last of these bytes."""
        return self.surface.span(*self.part)

    @cached_property
    def ranges(self) -> list[_Span]:
        """Wanted of boxes that lie in the same bytes from first to last."""
        return self.surface.ranges(*self.part)


def block_dependencies(operations: Sequence[Operation], accelerator: Accelerator) -> list[int]:
    """BLOCKDEP of every kernel, in order; copies have none.

    The first kernel gets 0. Of memories only the arena is looked at, as it is all that kernels write; the buffers of a
    kernel may lie over the table of the one before where the NPU keeps no banks for tables.
    """
    shared = accelerator.shram_banks <= BANKS_WITHOUT_TABLES
    values: list[int] = []
    recent: deque[_Before] = deque(maxlen=MAX_BLOCKDEP)
    for operation in operations:
        if isinstance(operation, Kernel):
            overwrites = bool(recent) and _looks_up(recent[-1].kernel) and not _looks_up(operation) and shared
            values.append(_dependency(operation, recent) if recent and not overwrites else 0)
            recent.append(_Before(operation))
    return values


class _Before:
    """A kernel that others come after, and what it writes: in all, and in its last jobs, the latest first."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.region, self.bounds = kernel.output.region, kernel.output.bounds()

    @cached_property
    def last_blocks(self) -> list[_Box]:
        """Of so many jobs as are looked back over, or all."""
        kernel = self.kernel
        count = _block_count(kernel)
        found = []
        for index in range(count - 1, max(count - 1 - MAX_BLOCKDEP, -1), -1):
            y, x, z = _block(kernel, index)
            y1, x1 = (min(a + b, n) for a, b, n in zip((y, x), kernel.block, kernel.output.shape, strict=False))
            found.append(_Box(kernel.output, (y, y1), (x, x1), (z, z + kernel.block[2])))
        return found


def _looks_up(kernel: Kernel) -> bool:
    return isinstance(kernel.function, TableSlot)


def _dependency(kernel: Kernel, recent: deque[_Before]) -> int:
    made = [surface for surface in kernel.inputs if any(map(_meets(surface), recent))]
    if not made:
        return MAX_BLOCKDEP
    written = list(islice((block for before in reversed(recent) for block in before.last_blocks), MAX_BLOCKDEP))
    allowed = MAX_BLOCKDEP
    for job, boxes in enumerate(_first_reads(kernel, made)):
        # Job i may meet the last allowed - i jobs: find the nearest one that it depends on.
        for back, output in enumerate(written):
            if job + back >= allowed:
                break
            if any(_intersect(box, output) for box in boxes):
                allowed = job + back
                break
        if job + 1 >= allowed:
            break
    return allowed


def _block(kernel: Kernel, index: int) -> tuple[int, int, int]:
    """Origin (y, x, channel) of an OFM block; depth runs fastest, then width, then height."""
    _, w, c = kernel.output.shape
    bh, bw, bd = kernel.block
    across, deep = -(-w // bw), -(-c // bd)
    return index // (deep * across) * bh, index // deep % across * bw, index % deep * bd


def _block_count(kernel: Kernel) -> int:
    (h, w, c), (bh, bw, bd) = kernel.output.shape, kernel.block
    return -(-h // bh) * -(-w // bw) * -(-c // bd)


def _meets(surface: Surface) -> Callable[[_Before], bool]:
    """Whether a kernel before writes to where a surface lies, from its first to its last byte."""
    bounds = surface.bounds()
    return lambda before: surface.region == before.region and _overlap(bounds, before.bounds)


def _first_reads(kernel: Kernel, surfaces: Sequence[Surface]) -> Iterator[list[_Box]]:
    """What each of the first jobs reads of some of the kernel's inputs."""
    ifm_depth = kernel.inputs[0].shape[2]
    depth = IFM_BLOCK_DEPTH if kernel.kind.reads_whole_depth else ifm_depth
    parts = -(-ifm_depth // depth)
    for job in range(min(MAX_BLOCKDEP, _block_count(kernel) * parts)):
        y, x, _ = _block(kernel, job // parts)
        z = job % parts * depth
        y1, x1 = (min(a + b, n) for a, b, n in zip((y, x), kernel.block, kernel.output.shape, strict=False))
        yield [_window(kernel, surface, (y, y1), (x, x1), (z, z + depth)) for surface in surfaces]


def _window(kernel: Kernel, surface: Surface, ys: _Span, xs: _Span, channels: _Span) -> _Box:
    if kernel.kind.is_elementwise:
        # A second operand of one row or column is read again for each.
        height, width, _ = surface.shape
        return _Box(surface, ys if height > 1 else (0, 1), xs if width > 1 else (0, 1), channels)
    window, factor = kernel.window, kernel.upscale.factor
    top, left, _, _ = kernel.padding
    rows = _read(ys, window.stride_h, top, window.dilated_h, factor, surface.shape[0])
    columns = _read(xs, window.stride_w, left, window.dilated_w, factor, surface.shape[1])
    return _Box(surface, rows, columns, channels)


def _read(
    outputs: tuple[int, int], stride: int, before: int, dilated: int, factor: int, extent: int
) -> tuple[int, int]:
    """Stored rows or columns that windows over `outputs` read of an input that is upscaled by `factor`."""
    first = max(outputs[0] * stride - before, 0) // factor
    last = ((outputs[1] - 1) * stride - before + dilated - 1) // factor
    return first, max(first, min(last + 1, extent))


def _overlap(a: _Span, b: _Span) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _intersect(a: _Box, b: _Box) -> bool:
    if a.surface.region != b.surface.region or not _overlap(a.span, b.span):
        return False
    if a.phase is not None and a.phase == b.phase and not _overlap(a.channels, b.channels):
        return False
    i = j = 0
    while i < len(a.ranges) and j < len(b.ranges):
        if _overlap(a.ranges[i], b.ranges[j]):
            return True
        if a.ranges[i][1] <= b.ranges[j][0]:
            i += 1
        else:
            j += 1
    return False
