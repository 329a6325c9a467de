"""BLOCKDEP: how much of a kernel may start while kernels before it are still finishing.

Owns how kernels with addresses are passed to the rule, which is the planner's, as that predicts the stream that comes
of them (`cost/ethosu/block_dependency.rs`, which says what is safe and why).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from ..lowering.feature_maps import Layout
from ..targets.target import Accelerator
from .operations import Kernel, Operation, Surface, TableSlot


def block_dependencies(operations: Sequence[Operation], accelerator: Accelerator) -> list[int]:
    """BLOCKDEP of every kernel, in order, 0 to 3; copies have none.

    The first kernel gets 0. Of memories only those of tensors are looked at, as they are all that kernels write; the
    buffers of a kernel may lie over the table of the one before where the NPU keeps no banks for tables.
    """
    kernels = [_row(operation) for operation in operations if isinstance(operation, Kernel)]
    return _core.block_dependencies(kernels, accelerator.name)


def _row(kernel: Kernel) -> _core.KernelRow:
    kind, window = kernel.kind, kernel.window
    reading = (
        kind.is_elementwise,
        kind.reads_whole_depth,
        kernel.upscale.factor,
        (window.stride_h, window.stride_w),
        (window.dilated_h, window.dilated_w),
        kernel.padding[:2],
    )
    inputs = [_surface(surface) for surface in kernel.inputs]
    return inputs, reading, _surface(kernel.output), kernel.block, isinstance(kernel.function, TableSlot)


def _surface(of: Surface) -> _core.SurfaceRow:
    tiles, strides = (of.height_0, of.height_1, of.width_0), (of.stride_y, of.stride_x, of.stride_c)
    return of.shape, tiles, of.offsets, strides, of.layout is Layout.NHCWB16, of.dtype.size_bytes, of.region
