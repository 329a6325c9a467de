"""RESIZE_NEAREST_NEIGHBOR to 1, 2, 4 or 8 times as many rows and columns: pools of single pixels that repeat them.

The NPU repeats each pixel of an input twice along both axes; more is several operations with temporaries between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..ir import Graph, ResizeNearestAttrs, Tensor
from ..quantised import nearest_indices
from . import constraints, views
from .family import Family
from .npu import UNSCALED, NpuGraphBuilder, NpuOperation, OperationKind, Upscale
from .te import Access, Compute, index

MOST_DOUBLINGS = 3


def _doublings(ifm: Tensor, ofm: Tensor, attrs: ResizeNearestAttrs, most: int = MOST_DOUBLINGS) -> int | None:
    """How often rows and columns are repeated, as a power of two; None where that is not what the operator does."""
    found = [
        nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(ifm.shape[1:3], ofm.shape[1:3], strict=True)
    ]
    for doublings in range(most + 1):
        if all(indices == tuple(i >> doublings for i in range(len(indices))) for indices in found):
            return doublings
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool for each doubling, or one that copies. Precondition: its family takes it.

    An output may end within a repeated pixel: each temporary has only the rows and columns that are wanted of it.
    """
    op = graph.operators[op_index]
    source, target = graph.read(op), graph.made(op)
    doublings = _doublings(source, target, op.attributes(ResizeNearestAttrs)) or 0
    height, width, depth = views.image_shape(target.shape)
    ifm = builder.view(op.input(0), views.image_shape(source.shape), zero_point=0)
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


@dataclass(frozen=True)
class Doublings(constraints.Constraint):
    """Rows and columns come one after the other, each repeated 2^n times, n up to `most`."""

    most: int = MOST_DOUBLINGS

    def __str__(self) -> str:
        return f"rows and columns come one after the other, each of them {self._times()} times"

    def _against(self, case: constraints.Case) -> str | None:
        if _doublings(case.ifm, case.ofm, case.op.attributes(ResizeNearestAttrs), self.most) is not None:
            return None
        return (
            f"it resizes {case.ifm.shape[1]}x{case.ifm.shape[2]} to {case.ofm.shape[1]}x{case.ofm.shape[2]}; of those "
            f"copies of rows and columns where each comes {self._times()} times, one after the other, are possible"
        )

    def _times(self) -> str:
        return f"{', '.join(str(1 << n) for n in range(self.most))} or {1 << self.most}"


def _seen(case: constraints.Case) -> constraints.Views:
    return [(tensor, views.image_shape(tensor.shape)) for tensor in (case.ifm, case.ofm)]


RESIZE_FAMILIES: Mapping[str, Family] = {
    "RESIZE_NEAREST_NEIGHBOR": Family(
        "pools of single pixels that repeat them, one for each doubling",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Image(),
            constraints.Sizes(_seen),
            Doublings(),
        ),
        lower,
    )
}
