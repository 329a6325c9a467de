"""Reductions over any axes: the plane that the NPU sees, and sums of it in one operation or in several.

An image keeps its height, width and depth, so that stripes pass along what is not reduced. A window that is too large
for one operation is summed row by row, and the rows' sums of 32 bits are added in halves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ..ir import DType, Tensor, Window
from . import constraints, limits, views
from .maker import AS_IS, Maker
from .npu import Channels, FeatureMap, OperationKind, Scale, Weights


@dataclass(frozen=True)
class Plane:
    """What is reduced: a view (height, width, depth), and along which of these three."""

    shape: views.Shape3
    over: tuple[bool, bool, bool]

    @property
    def made(self) -> views.Shape3:
        """The view of the result."""
        height, width, depth = (1 if gone else extent for extent, gone in zip(self.shape, self.over, strict=True))
        return height, width, depth

    @property
    def count(self) -> int:
        """How many elements become one."""
        return math.prod(self.shape) // math.prod(self.made)

    @property
    def window(self) -> Window:
        """The window that covers what is reduced of rows and columns."""
        height, width, _ = self.shape
        return Window(height if self.over[0] else 1, width if self.over[1] else 1)


def planes(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Plane]:
    """Ways to see a reduction, the one that keeps an image's rows and columns first; none for more than three runs.

    Neighbouring axes that are all reduced or all kept are one; others of extent 1 are none.
    """
    runs = [
        (math.prod(shape[axis] for axis in run), gone)
        for gone, run in _runs([axis for axis, extent in enumerate(shape) if extent > 1], axes)
    ]
    found = []
    if len(shape) <= limits.MAX_RANK and (len(shape) < limits.MAX_RANK or shape[0] == 1):
        height, width, depth = _places(len(shape))
        seen = (height in axes, width in axes, depth in axes)
        found.append(Plane(views.image_shape(shape), seen))
    if len(runs) <= 3:
        packed = [(1, False)] * (3 - len(runs)) + runs
        if (len(runs) == 2 and runs[0][1]) or len(runs) == 1:
            # What is summed along columns may be longer than what is along rows.
            found.append(_plane([(1, False), *([*runs, (1, False)][:2])]))
        found.append(_plane(packed))
    return found


def _runs(places: list[int], axes: tuple[int, ...]) -> list[tuple[bool, list[int]]]:
    return [(gone, list(run)) for gone, run in groupby(places, lambda axis: axis in axes)]


def _plane(runs: list[tuple[int, bool]]) -> Plane:
    (height, h), (width, w), (depth, c) = runs
    return Plane((height, width, depth), (h, w, c))


def _places(rank: int) -> tuple[int, int, int]:
    """Which axes of a tensor are the height, width and depth of `views.image_shape`; -1 for one that it has not."""
    return (rank - 3 if rank > 2 else rank - 2), rank - 2 if rank > 2 else -1, rank - 1


def at_once(plane: Plane) -> bool:
    """Whether one operation sums it."""
    window = plane.window
    rows, elements = window.kernel_h, window.kernel_h * window.kernel_w
    return (
        rows <= limits.MAX_KERNEL_ROWS
        and elements <= limits.MAX_KERNEL_ELEMENTS
        and max(plane.shape) <= limits.MAX_DIMENSION
        and plane.count <= limits.MAX_WEIGHT_SUM
    )


def row_by_row(plane: Plane) -> bool:
    """Whether rows are summed in one operation each, and their sums added in halves."""
    height, width, depth = plane.shape
    sums = height * plane.made[2]
    return (
        plane.over[0]
        and (plane.over[1] or width == 1)
        and width <= limits.MAX_KERNEL_ELEMENTS
        and sums <= limits.MAX_DIMENSION
        and depth <= limits.MAX_DIMENSION
        and width * depth <= limits.MAX_WEIGHT_SUM
    )


def chosen(shape: tuple[int, ...], axes: tuple[int, ...]) -> Plane | None:
    """The plane that is summed: the first that one operation takes, else the first that goes row by row."""
    found = planes(shape, axes)
    return next((plane for way in (at_once, row_by_row) for plane in found if way(plane)), None)


def summed(make: Maker, ifm: FeatureMap, plane: Plane, ofm: FeatureMap, scale: Scale) -> None:
    """The sums of what the input holds beyond its zero point, times `scale`, rounded as TFLite rounds."""
    if at_once(plane):
        _ones(make, ifm, plane, ofm, scale)
        return
    depth = plane.made[2]
    rows = Plane(plane.shape, (False, plane.over[1], plane.over[2]))
    sums = _ones(make, ifm, rows, make.temporary(rows.made, DType.INT32), AS_IS)
    total = _added(make, sums, plane.shape[0], depth)
    seen = (1, depth, 1)
    make.sum(FeatureMap(total.tensor, seen), FeatureMap(ofm.tensor, seen, ofm.zero_point), scale)


def _ones(make: Maker, ifm: FeatureMap, plane: Plane, ofm: FeatureMap, scale: Scale) -> FeatureMap:
    """One convolution with weights of one: of all channels together, or of each."""
    window, depth, together = plane.window, plane.shape[2], plane.over[2]
    channels = 1 if together else depth
    weights = Weights(
        values=np.ones((channels, window.kernel_h, window.kernel_w, depth if together else 1), np.int16),
        bias=np.zeros(channels, np.int64),
        multipliers=np.full(channels, scale.multiplier, np.int64),
        shifts=np.full(channels, scale.shift, np.int64),
    )
    return make.weigh(ifm, ofm, weights, window, together)


def _added(make: Maker, sums: FeatureMap, rows: int, depth: int) -> FeatureMap:
    """The sum of rows of `depth` sums each: halves are added until one is left, and odd rows at the end."""
    left = []
    while rows > 1:
        half = rows // 2
        if rows % 2:
            left.append(_some(sums, (rows - 1) * depth, depth, rows * depth))
        first, second = (_some(sums, start * depth, half * depth, rows * depth) for start in (0, half))
        sums, rows = make.wide(OperationKind.ADD, first, second, AS_IS), half
    for row in left:
        sums = make.wide(OperationKind.ADD, FeatureMap(sums.tensor, (1, 1, depth)), row, AS_IS)
    return sums


def _some(sums: FeatureMap, first: int, count: int, of: int) -> FeatureMap:
    """Some of the sums, all of them seen as the channels of one pixel."""
    return FeatureMap(sums.tensor, (1, 1, count), 0, None if count == of else Channels(first, of))


def refusal(tensor: Tensor, axes: tuple[int, ...]) -> str | None:
    """Why the NPU cannot sum over these axes, or None."""
    if not axes:
        return "it reduces over no axis"
    if chosen(tensor.shape, axes) is not None:
        return None
    if not planes(tensor.shape, axes):
        return f"it reduces axes {axes} of {tensor.shape}: more than three runs of reduced and kept ones take turns"
    return (
        f"it reduces axes {axes} of {tensor.shape}; windows of at most {limits.MAX_KERNEL_ROWS} rows and "
        f"{limits.MAX_KERNEL_ELEMENTS} elements are possible, or whole rows with at most {limits.MAX_DIMENSION} sums"
    )


def views_of(case: constraints.Case, axes: tuple[int, ...]) -> constraints.Views:
    """What `constraints.Sizes` asks for. Precondition: `refusal` gave none."""
    plane = chosen(case.ifm.shape, axes)
    return [] if plane is None else [(case.ifm, plane.shape), (case.ofm, plane.made)]
