"""Reductions over any axes: the plane that the NPU sees, and sums of it in one operation or in several.

An image keeps its height, width and depth, so that stripes pass along what is not reduced. What one operation cannot
sum is summed as far as one can, and these sums of 32 bits are added in halves: rows of a window that is too large, and
runs of axes that others lie between, one after the other. Nothing is rounded before the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from ..ir import DType, Tensor, Window
from ..util.records import dataclass
from . import constraints, limits, views
from .feature_maps import Channels, FeatureMap
from .maker import AS_IS, Maker
from .npu import OperationKind, Scale, Weights


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


@dataclass(frozen=True)
class AxisRun:
    """Neighbouring axes that are all reduced, and so `gone`, or all kept; those of extent 1 belong to none."""

    axes: tuple[int, ...]
    extent: int
    gone: bool


@dataclass(frozen=True)
class Rows:
    """Sums that are added: in each of `outer` places `count` rows of `inner` sums become one."""

    outer: int
    count: int
    inner: int


@dataclass(frozen=True)
class Sum:
    """The plane that one operation sums, and what is added of its sums, in turn."""

    plane: Plane
    added: tuple[Rows, ...] = ()

    @property
    def made(self) -> views.Shape3:
        """The view of the result."""
        return (self.added[-1].outer, self.added[-1].inner, 1) if self.added else self.plane.made


def planes(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Plane]:
    """Ways to see a reduction, the one that keeps an image's rows and columns first; none for more than three runs."""
    runs = [(run.extent, run.gone) for run in _runs(shape, axes)]
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


def one_by_one(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> Iterator[tuple[AxisRun, tuple[int, ...], tuple[int, ...]]]:
    """Each run that may be reduced first, the longest first, with the shape that it leaves and the axes then to reduce.

    Of runs that are equally long the last is reduced first: pixels stay where they are.
    """
    for run in sorted((run for run in reversed(_runs(shape, axes)) if run.gone), key=lambda run: -run.extent):
        left = tuple(1 if axis in run.axes else extent for axis, extent in enumerate(shape))
        yield run, left, tuple(axis for axis in axes if axis not in run.axes)


def _runs(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[AxisRun]:
    found = []
    for gone, group in groupby((a for a, extent in enumerate(shape) if extent > 1), lambda axis: axis in axes):
        run = tuple(group)
        found.append(AxisRun(run, math.prod(shape[axis] for axis in run), gone))
    return found


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


def chosen(shape: tuple[int, ...], axes: tuple[int, ...]) -> Sum | None:
    """How axes are summed: by one operation if one can, else row by row, else one run after the other."""
    found = planes(shape, axes)
    by_one = (Sum(plane) for plane in found if at_once(plane))
    by_rows = (rows for plane in found if (rows := _row_by_row(plane)) is not None)
    return next(by_one, None) or next(by_rows, None) or _run_by_run(shape, axes)


def _row_by_row(plane: Plane) -> Sum | None:
    """One operation sums rows, and their sums are added."""
    height, width, _ = plane.shape
    rows = Plane(plane.shape, (False, *plane.over[1:]))
    added = Rows(1, height, rows.made[2])
    is_row = plane.over[0] and (plane.over[1] or width == 1)
    return Sum(rows, (added,)) if is_row and at_once(rows) and _can_be_added(added) else None


def _run_by_run(shape: tuple[int, ...], axes: tuple[int, ...]) -> Sum | None:
    """One operation sums a run, or pieces of it, and what it leaves is added."""
    for run, left, others in one_by_one(shape, axes):
        for plane, pieces in (*((plane, ()) for plane in planes(shape, run.axes)), _in_pieces(shape, run)):
            added = (*pieces, *rows_of(left, others))
            if at_once(plane) and added and all(map(_can_be_added, added)):
                return Sum(plane, added)
    return None


def _in_pieces(shape: tuple[int, ...], run: AxisRun) -> tuple[Plane, tuple[Rows, ...]]:
    """The largest equal pieces of a run that a window covers as columns, and how their sums are added."""
    outer, inner = _around(shape, run)
    piece = next(n for n in range(limits.MAX_KERNEL_ELEMENTS, 0, -1) if run.extent % n == 0)
    count = run.extent // piece
    return Plane((outer * count, piece, inner), (False, True, False)), (Rows(outer, count, inner),)


def rows_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Rows, ...]:
    """The additions that reduce one run after the other."""
    first = next(one_by_one(shape, axes), None)
    if first is None:
        return ()
    run, left, others = first
    outer, inner = _around(shape, run)
    return (Rows(outer, run.extent, inner), *rows_of(left, others))


def _around(shape: tuple[int, ...], run: AxisRun) -> tuple[int, int]:
    """How many elements there are of the axes ahead of a run, and of those behind it."""
    return math.prod(shape[: run.axes[0]]), math.prod(shape[run.axes[-1] + 1 :])


def _can_be_added(rows: Rows) -> bool:
    """Rows are seen as the channels of one pixel for each place."""
    return rows.outer <= limits.MAX_DIMENSION and rows.count * rows.inner <= limits.MAX_DIMENSION


def summed(make: Maker, ifm: FeatureMap, way: Sum, ofm: FeatureMap, scale: Scale) -> None:
    """The sums of what the input holds beyond its zero point, times `scale`, rounded as TFLite rounds."""
    if not way.added:
        _ones(make, ifm, way.plane, ofm, scale)
        return
    sums = _ones(make, ifm, way.plane, make.temporary(way.plane.made, DType.INT32), AS_IS)
    total(make, sums, way.added, ofm, scale)


def total(make: Maker, sums: FeatureMap, added: Sequence[Rows], ofm: FeatureMap, scale: Scale) -> None:
    """What is left of sums of 32 bits, times `scale`, in the view that `Sum.made` gives."""
    for rows in added:
        sums = _added(make, sums, rows)
    make.sum(FeatureMap(sums.tensor, ofm.shape), ofm, scale)


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


def _added(make: Maker, sums: FeatureMap, rows: Rows) -> FeatureMap:
    """The sum of rows in each place: halves are added until one is left, and odd rows at the end."""
    left, count = [], rows.count
    while count > 1:
        half = count // 2
        if count % 2:
            left.append(_some(sums, rows, count - 1, 1, count))
        first, second = (_some(sums, rows, start, half, count) for start in (0, half))
        sums, count = make.wide(OperationKind.ADD, first, second, AS_IS), half
    for row in left:
        sums = make.wide(OperationKind.ADD, FeatureMap(sums.tensor, row.shape), row, AS_IS)
    return sums


def _some(sums: FeatureMap, rows: Rows, first: int, count: int, of: int) -> FeatureMap:
    """`count` rows of each place, all of them seen as the channels of one pixel."""
    depth, inner = count * rows.inner, rows.inner
    some = None if count == of else Channels(first * inner, of * inner)
    return FeatureMap(sums.tensor, (rows.outer, 1, depth), 0, some)


def refusal(tensor: Tensor, axes: tuple[int, ...]) -> str | None:
    """Why the NPU cannot sum over these axes, or None."""
    if not axes:
        return "it reduces over no axis"
    if chosen(tensor.shape, axes) is not None:
        return None
    return (
        f"it reduces axes {axes} of {tensor.shape}; windows of at most {limits.MAX_KERNEL_ROWS} rows and "
        f"{limits.MAX_KERNEL_ELEMENTS} elements are possible, or sums of these with at most {limits.MAX_DIMENSION} to "
        f"be added in each place"
    )


def views_of(case: constraints.Case, axes: tuple[int, ...]) -> constraints.Views:
    """What `constraints.Sizes` asks for. Precondition: `refusal` gave none."""
    way = chosen(case.ifm.shape, axes)
    return [] if way is None else [(case.ifm, way.plane.shape), (case.ofm, way.made)]
