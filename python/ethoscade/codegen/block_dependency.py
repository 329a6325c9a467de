"""BLOCKDEP: how much of a kernel may start while kernels before it are still finishing.

Owns the rule and its safety. A kernel works in jobs; one OFM block takes one or more. With BLOCKDEP b the first jobs of
a kernel may run while the last b jobs before it are unfinished: job i together with the last b - i of them. The value
computed here is the largest for which no such pair reads what the other still writes.

Two choices keep it on the safe side of what is not documented. Every OFM block counts as a single job, so that the jobs
looked back over span more output than they really do. And the jobs before are counted across kernels: three kernels of
one block each are the last three jobs, though the hardware may only ever mean the kernel immediately before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from .operations import Kernel, Operation, Surface

MAX_BLOCKDEP = 3

_Rows = list[tuple[int, int]]


def block_dependencies(operations: Sequence[Operation]) -> list[int]:
    """BLOCKDEP of every kernel, in order; copies have none.

    The first kernel gets 0. Only the arena is looked at, as it is all that kernels write.
    """
    values: list[int] = []
    recent: deque[Kernel] = deque(maxlen=MAX_BLOCKDEP)
    for operation in operations:
        if isinstance(operation, Kernel):
            values.append(_dependency(operation, recent) if recent else 0)
            recent.append(operation)
    return values


def _dependency(kernel: Kernel, recent: deque[Kernel]) -> int:
    reads = [surface.bounds() for surface in kernel.inputs]
    if not any(_overlap(r, k.output.bounds()) for r in reads for k in recent):
        return MAX_BLOCKDEP
    written = list(_last_blocks(recent))
    allowed = MAX_BLOCKDEP
    for job, rows in enumerate(_first_reads(kernel)):
        # Job i may meet the last allowed - i jobs: find the nearest one that it depends on.
        for back, output in enumerate(written):
            if job + back >= allowed:
                break
            if _intersect(rows, output):
                allowed = job + back
                break
    return allowed


def _last_blocks(recent: deque[Kernel]) -> Iterator[_Rows]:
    """Bytes written by each of the last jobs, latest first."""
    left = MAX_BLOCKDEP
    for kernel in reversed(recent):
        h, w, c = kernel.output.shape
        bh, bw, bd = kernel.block
        down, across, deep = -(-h // bh), -(-w // bw), -(-c // bd)
        count = down * across * deep
        for index in range(count - 1, max(count - 1 - left, -1), -1):
            y, x = index // (deep * across) * bh, index // deep % across * bw
            yield kernel.output.rows(y, min(y + bh, h), x, min(x + bw, w))
        left -= min(count, left)
        if left == 0:
            return


def _first_reads(kernel: Kernel) -> Iterator[_Rows]:
    """Bytes read by each of the first OFM blocks (all channels of them)."""
    h, w, c = kernel.output.shape
    bh, bw, bd = kernel.block
    across, deep = -(-w // bw), -(-c // bd)
    for index in range(min(MAX_BLOCKDEP, -(-h // bh) * across * deep)):
        y, x = index // (deep * across) * bh, index // deep % across * bw
        rows: _Rows = []
        for surface in kernel.inputs:
            rows += _window_rows(kernel, surface, (y, min(y + bh, h)), (x, min(x + bw, w)))
        yield rows


def _window_rows(kernel: Kernel, surface: Surface, ys: tuple[int, int], xs: tuple[int, int]) -> _Rows:
    window = kernel.window
    top, left, _, _ = kernel.padding
    y0 = max(ys[0] * window.stride_h - top, 0)
    y1 = min((ys[1] - 1) * window.stride_h - top + window.dilated_h, surface.shape[0])
    x0 = max(xs[0] * window.stride_w - left, 0)
    x1 = min((xs[1] - 1) * window.stride_w - left + window.dilated_w, surface.shape[1])
    return surface.rows(y0, y1, x0, x1) if y0 < y1 and x0 < x1 else []


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _intersect(a: _Rows, b: _Rows) -> bool:
    return any(_overlap(x, y) for x in a for y in b)
