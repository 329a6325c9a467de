"""RESIZE_NEAREST_NEIGHBOR to 1, 2, 4 or 8 times as many rows and columns: pools of single pixels that repeat them.

The NPU repeats each pixel of an input twice along both axes; more is several operations with temporaries between. A
single pixel is read again and again where it lies, to any size.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Graph, ResizeNearestAttrs, Tensor
from ..ir.quantised import nearest_indices
from ..util.records import dataclass
from . import constraints, strided, views
from .family import Family
from .feature_maps import FeatureMap
from .maker import Maker
from .npu import NpuGraphBuilder, Upscale

MOST_DOUBLINGS = 3


def _doublings(ifm: Tensor, attrs: ResizeNearestAttrs, most: int = MOST_DOUBLINGS) -> tuple[int, int] | None:
    """How often rows and columns are repeated, as a power of two, and how many are left out ahead of the first.

    With aligned corners the first comes half as often. None where that is not what the operator does.
    """
    found = [
        nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(ifm.shape[1:3], attrs.size, strict=True)
    ]
    for doublings in range(most + 1):
        for ahead in (0, (1 << doublings) // 2):
            if all(indices == tuple((i + ahead) >> doublings for i in range(len(indices))) for indices in found):
                return doublings, ahead
    return None


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool for each doubling, or one that copies. Precondition: its family takes it.

    An output may end within a repeated pixel: each temporary has only the rows and columns that are wanted of it.
    """
    op = graph.operators[op_index]
    source, attrs = graph.read(op), op.attributes(ResizeNearestAttrs)
    doublings, ahead = _doublings(source, attrs) or (0, 0)
    shape = (*attrs.size, source.shape[3])
    ifm, ofm = (
        builder.view(tensor, seen, zero_point=0)
        for tensor, seen in ((op.input(0), views.image_shape(source.shape)), (op.outputs[0], shape))
    )
    make = Maker(op.name, op_index, builder)
    if ifm.shape[:2] == (1, 1) != ofm.shape[:2]:
        spread(make, ifm, ofm)
    elif doublings:
        repeated(make, ifm, doublings, ofm, ahead)
    else:
        make.copy(ifm, ofm)


def spread(make: Maker, ifm: FeatureMap, ofm: FeatureMap) -> None:
    """A copy of a single pixel to each one of the output."""
    height, width, depth = ofm.shape
    rows, columns, channels = strided.Dimension(height, 0), strided.Dimension(width, 0), strided.Dimension(depth, 1)
    found = tuple(strided.Dimensions((), axis) for axis in (rows, columns, channels))
    strided.copies(make, ifm, (found[0], found[1], found[2]), ofm)


def repeated(make: Maker, ifm: FeatureMap, doublings: int, ofm: FeatureMap, ahead: int = 0) -> None:
    """Pools that repeat rows and columns 2^`doublings` times, of which the last makes `ofm`; at least one.

    The repeated rows and columns `ahead` of the first ones are left out.
    """
    height, width, depth = ofm.shape
    # The NPU begins with a whole doubled pixel: of one half the other is left out by a copy.
    for left in reversed(range(0 if ahead == 1 else 1, doublings)):
        shape = (-(-(height + ahead) >> left), -(-(width + ahead) >> left), depth)
        ifm = make.copy(ifm, make.temporary(shape, ifm.dtype, ifm.zero_point), upscale=Upscale.NEAREST)
    make.copy(ifm, ofm, upscale=Upscale.NONE if ahead == 1 else Upscale.NEAREST, first=(ahead, ahead))


@dataclass(frozen=True)
class Doublings(constraints.Constraint):
    """Rows and columns come one after the other, each repeated 2^n times, n up to `most`."""

    most: int = MOST_DOUBLINGS

    def __str__(self) -> str:
        return (
            f"rows and columns come one after the other, each of them {self._times()} times, but that with aligned "
            f"corners the first come half as often; a single pixel to any number of them"
        )

    def _against(self, case: constraints.Case) -> str | None:
        attrs = case.op.attributes(ResizeNearestAttrs)
        if case.ifm.shape[1:3] == (1, 1) or _doublings(case.ifm, attrs, self.most) is not None:
            return None
        return (
            f"it resizes {case.ifm.shape[1]}x{case.ifm.shape[2]} to {attrs.size[0]}x{attrs.size[1]}; of those "
            f"copies of rows and columns where each comes {self._times()} times, one after the other, are possible"
        )

    def _times(self) -> str:
        return f"{', '.join(str(1 << n) for n in range(self.most))} or {1 << self.most}"


def _seen(case: constraints.Case) -> constraints.Views:
    made = (*case.op.attributes(ResizeNearestAttrs).size, case.ifm.shape[3])
    return [(case.ifm, views.image_shape(case.ifm.shape)), (case.ofm, made)]


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
