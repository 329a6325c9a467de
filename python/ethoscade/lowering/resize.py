"""RESIZE_NEAREST_NEIGHBOR to 1, 2, 4 or 8 times as many rows and columns: pools of single pixels that repeat them.

The NPU repeats each pixel of an input twice along both axes; more is several operations with temporaries between.
"""

from __future__ import annotations

from typing import cast

from ..ir import Graph, Operator, ResizeNearestAttrs, Tensor
from ..quantised import nearest_indices
from ..target import Accelerator
from . import limits, views
from .npu import UNSCALED, NpuGraphBuilder, NpuOperation, OperationKind, Upscale
from .te import Access, Compute, index

MOST_DOUBLINGS = 3


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    reasons = (limits.feature_map(ifm, "input"), limits.feature_map(ofm, "output"))
    if (reason := limits.first(reasons)) is not None:
        return reason
    if (reason := limits.first((limits.same_dtype(ifm, ofm), limits.image(ifm), limits.image(ofm)))) is not None:
        return reason
    if _doublings(ifm, ofm, cast(ResizeNearestAttrs, op.attrs)) is None:
        return (
            f"it resizes {ifm.shape[1]}x{ifm.shape[2]} to {ofm.shape[1]}x{ofm.shape[2]}; of those copies of rows and "
            f"columns where each comes 1, 2, 4 or 8 times, one after the other, are possible"
        )
    return None


def _doublings(ifm: Tensor, ofm: Tensor, attrs: ResizeNearestAttrs) -> int | None:
    """How often rows and columns are repeated, as a power of two; None where that is not what the operator does."""
    found = [
        nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(ifm.shape[1:3], ofm.shape[1:3], strict=True)
    ]
    for doublings in range(MOST_DOUBLINGS + 1):
        if all(indices == tuple(i >> doublings for i in range(len(indices))) for indices in found):
            return doublings
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool for each doubling, or one that copies. Precondition: `support` found no reason.

    An output may end within a repeated pixel: each temporary has only the rows and columns that are wanted of it.
    """
    op = graph.operators[op_index]
    source, target = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    doublings = cast(int, _doublings(source, target, cast(ResizeNearestAttrs, op.attrs)))
    height, width, depth = views.image_shape(target.shape)
    ifm = builder.view(cast(int, op.inputs[0]), views.image_shape(source.shape), zero_point=0)
    for left in reversed(range(max(doublings, 1))):
        shape = (-(-height >> left), -(-width >> left), depth)
        ofm = (
            builder.temporary(op_index, shape, target.dtype)
            if left
            else builder.view(op.outputs[0], shape, zero_point=0)
        )
        upscale = Upscale.NEAREST if doublings else Upscale.NONE
        builder.add(
            NpuOperation(
                name=op.name,
                operator=op_index,
                kind=OperationKind.AVERAGE_POOL,
                ifm=ifm,
                ofm=ofm,
                window=views.POINT,
                upscale=upscale,
                compute=compute(op.name, ifm.shape, shape, upscale),
                clamp=target.dtype.limits,
                scaling=UNSCALED,
            )
        )
        ifm = ofm


def compute(name: str, ifm_shape: views.Shape3, ofm_shape: views.Shape3, upscale: Upscale) -> Compute:
    """out[n, h, w, c] = in[n, h // 2, w // 2, c], without upscaling in[n, h, w, c]."""
    row, column = (index(**{axis: 1}) // upscale.factor for axis in "hw")
    read = Access(0, (index(n=1), row, column, index(c=1)), (1, *ifm_shape))
    return Compute(name, views.axes(ofm_shape), (), (read,))
