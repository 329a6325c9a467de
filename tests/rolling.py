"""A chain of operations run stripe by stripe through rolling buffers, in the simplest way: one axis, on demand.

Interior tensors keep only as many rows (or columns) as their reader still needs, so slabs wrap around their buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethoscade.ir import Window
from ethoscade.lowering.npu import NpuOperation
from ethoscade.scheduling.program import Slab, Stripe
from whole_tensor import exact_padding


def along(window: Window, axis: int) -> tuple[int, int, int]:
    """(stride, padding before, dilated kernel) of a window along rows (0) or columns (1)."""
    if axis == 0:
        return window.stride_h, window.pad_top, window.dilated_h
    return window.stride_w, window.pad_left, window.dilated_w


class Roller:
    """Stripes of a chain: `steps`, and the shape (rows, columns) of each one's output buffer, which is its index + 1.

    Buffer 0 holds the whole input. Every operation makes `step` rows (columns, if `axis` is 1) at a time.
    """

    def __init__(self, operations: Sequence[NpuOperation], axis: int, step: int) -> None:
        self.operations, self.axis, self.step = operations, axis, step
        self.made = [operations[0].inputs[0].shape[axis], *(0 for _ in operations)]
        self.buffers = [operations[0].inputs[0].shape[:2]]
        for k, operation in enumerate(operations):
            shape = list(operation.ofm.shape[:2])
            if k + 1 < len(operations):
                stride, _, kernel = along(operations[k + 1].window, axis)
                live = (step - 1) * stride + kernel + step - 1
                shape[axis] = min(-(-live // step) * step, -(-shape[axis] // step) * step)
            self.buffers.append((shape[0], shape[1]))
        self.steps: list[Stripe] = []
        total = operations[-1].ofm.shape[axis]
        while self.made[-1] < total:
            self._make(len(operations) - 1)

    def _make(self, k: int) -> None:
        """The next stripe of operation `k`, after the stripes that it reads."""
        operation = self.operations[k]
        stride, pad, kernel = along(operation.window, self.axis)
        start = self.made[k + 1]
        end = min(start + self.step, operation.ofm.shape[self.axis])
        first = max(0, start * stride - pad)
        last = min((end - 1) * stride - pad + kernel, operation.inputs[0].shape[self.axis])
        while self.made[k] < last:
            self._make(k - 1)
        output = self._slab(k + 1, operation.ofm.shape, start, end)
        source = self._slab(k, operation.inputs[0].shape, first, last)
        inputs = (source,) * len(operation.inputs)
        self.steps.append(Stripe(k, inputs, output, exact_padding(operation, output), (1, 1, 8)))
        self.made[k + 1] = end

    def _slab(self, buffer: int, shape: tuple[int, int, int], start: int, end: int) -> Slab:
        rows, columns = self.buffers[buffer]
        if self.axis == 0:
            return Slab(buffer, start, end, 0, shape[1], rows, columns)
        return Slab(buffer, 0, shape[0], start, end, rows, columns)
