"""RESIZE_BILINEAR: averages of pixels that are repeated, where they weigh neighbours exactly as the kernels do.

Pixels repeated f times and averaged f by f are interpolated in steps of 1/f, and an average that leaves padding out
repeats the edges. Where none is met, halves of steps are summed up one after the other. Half a step to the side, as
pixels are taken at their centres, lie the averages of two such averages. Both are made in 16 bits, where nothing is
rounded.
Values that have 16 bits themselves leave none for sums: one operation weighs all that an output is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from ..ir import DType, Graph, ResizeBilinearAttrs, Window
from ..ir.quantised import bilinear_taps
from ..util.records import dataclass
from . import constraints, limits, resize, views
from .family import Family
from .feature_maps import Area, FeatureMap
from .maker import Maker
from .npu import (
    UNSCALED,
    NpuGraphBuilder,
    OperationKind,
    Scale,
    Upscale,
    Weights,
    two_to,
)

MOST_REPEATS = 1 << 6
_SPARE_BITS = 7
"""Of 16, beside values of 8 bits: sums of both signs are twice as large and more."""
_DYADIC = 1 << 12
"""Shares in units of 1/4096 are exact in float32, and so are their products with 8-bit values."""

Shares = tuple[tuple[tuple[int, Fraction], ...], ...]
"""Of each output along an axis: which inputs it is made of, and their shares."""


@dataclass(frozen=True)
class _Steps:
    """An average along one axis: of `box` repeated pixels, every `stride`, from `before` ahead of the first on."""

    box: int
    stride: int = 1
    before: int = 0


@dataclass(frozen=True)
class _Averaging:
    """Pixels repeated `repeats` times along both axes, and averages of them; `centred`: of two neighbours of these."""

    repeats: int
    rows: _Steps
    columns: _Steps
    centred: bool = False

    def is_between_corners(self, extents: tuple[int, int], size: tuple[int, int]) -> bool:
        """Whether averages along both axes are of as many as pixels are repeated, none beyond the last pixel."""
        steps = _Steps(self.repeats)
        inside = all(made <= (extent - 1) * self.repeats + 1 for extent, made in zip(extents, size, strict=True))
        return self.repeats > 2 and self.rows == self.columns == steps and inside


# --- which averages are the kernel's ---------------------------------------------------------------------------------


def _way(extents: tuple[int, int], attrs: ResizeBilinearAttrs, dtype: DType) -> _Averaging | None:
    """How the NPU resizes exactly; None where no average weighs as the kernel does."""
    wanted = [
        _wanted(extent, outputs, attrs.align_corners, attrs.half_pixel_centers, dtype)
        for extent, outputs in zip(extents, attrs.size, strict=True)
    ]
    if dtype is DType.UINT8 and not all(map(_is_exact, wanted)):
        return None
    repeats = 1
    while repeats <= MOST_REPEATS:
        for centred in (False, True) if 1 < repeats <= limits.MAX_PADDED_AVERAGE else (False,):
            rows, columns = (_steps_of(extent, w, repeats, centred) for extent, w in zip(extents, wanted, strict=True))
            if (
                rows is not None
                and columns is not None
                and _possible(extents, attrs, repeats, (rows, columns), centred)
            ):
                return _Averaging(repeats, rows, columns, centred)
        repeats *= 2
    return None


def _steps_of(extent: int, wanted: Shares, repeats: int, centred: bool) -> _Steps | None:
    """The average along an axis that weighs as is wanted."""
    tried = _candidates(repeats, centred)
    return next((one for one in tried if _weights(extent, len(wanted), repeats, one, centred) == wanted), None)


def _centres(repeats: int) -> _Steps:
    """Averages of which two neighbours' average lies half a step to the side."""
    return _Steps(repeats, 1, repeats // 2)


def _candidates(repeats: int, centred: bool) -> Iterator[_Steps]:
    if centred:
        yield _centres(repeats)
        return
    yield _Steps(1)
    yield _Steps(1, 2)
    if repeats == 1:
        yield _Steps(2, 2)
    else:
        yield _Steps(repeats)


@lru_cache(maxsize=256)
def _wanted(extent: int, outputs: int, aligned: bool, centred: bool, dtype: DType) -> Shares:
    taps = bilinear_taps(extent, outputs, aligned, centred, dtype)
    return tuple(
        ((first, Fraction(1)),) if first == second or not share else ((first, 1 - share), (second, share))
        for first, second, share in taps
    )


def _is_exact(weights: Shares) -> bool:
    return all((share * _DYADIC).denominator == 1 for shares in weights for _, share in shares)


@lru_cache(maxsize=256)
def _weights(extent: int, outputs: int, repeats: int, along: _Steps, centred: bool) -> Shares | None:
    """What averages along an axis are made of; None where one of them meets no pixel."""
    found = []
    for output in range(outputs):
        shares: dict[int, Fraction] = {}
        for half in (0, 1) if centred else (0,):
            start = (output + half) * along.stride - along.before
            inside = range(max(start, 0), min(start + along.box, extent * repeats))
            if not inside:
                return None
            for place in inside:
                share = Fraction(1, len(inside) * (2 if centred else 1))
                shares[place // repeats] = shares.get(place // repeats, Fraction(0)) + share
        found.append(tuple(shares.items()))
    return tuple(found)


def _possible(
    extents: tuple[int, int], attrs: ResizeBilinearAttrs, repeats: int, along: tuple[_Steps, _Steps], centred: bool
) -> bool:
    """Whether the NPU has such averages: with padding they are small."""
    window = _window(extents, attrs.size, repeats, along, 1 if centred else 0)
    return not any(views.pads(window)) or max(window.kernel_h, window.kernel_w) <= limits.MAX_PADDED_AVERAGE


def _window(
    extents: tuple[int, int], size: tuple[int, int], repeats: int, along: tuple[_Steps, _Steps], more: int
) -> Window:
    """The window of averages over repeated pixels that make `more` than `size` rows and columns."""
    rows, columns = along
    bottom, right = (
        max(0, (outputs + more - 1) * a.stride - a.before + a.box - extent * repeats)
        for extent, outputs, a in zip(extents, size, along, strict=True)
    )
    return Window(rows.box, columns.box, rows.stride, columns.stride, 1, 1, rows.before, columns.before, bottom, right)


# --- operations ------------------------------------------------------------------------------------------------------


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Copies that repeat pixels and one to two averages. Precondition: its family takes it.

    Stored values are averaged, without their zero points, as pools do: halves fall away from the stored zero.
    """
    op = graph.operators[op_index]
    source, attrs = graph.read(op), op.attributes(ResizeBilinearAttrs)
    shape = views.image_shape(source.shape)
    make = Maker(op.name, op_index, builder)
    ifm = builder.view(op.input(0), shape, zero_point=0)
    ofm = builder.view(op.outputs[0], (*attrs.size, shape[2]), zero_point=0)
    if shape[:2] == (1, 1) != ofm.shape[:2]:
        resize.spread(make, ifm, ofm)
        return
    way = _way(shape[:2], attrs, source.dtype)
    assert way is not None, "the family takes only what there is a way for"
    short = source.dtype is DType.INT16
    if way.centred:
        (_weighed if short else _centred)(make, ifm, way.repeats, ofm)
    elif way.is_between_corners(ifm.shape[:2], attrs.size) and not short:
        _doubled(make, ifm, way.repeats, ofm)
    else:
        _at_once(make, ifm, way, ofm)


def _at_once(make: Maker, ifm: FeatureMap, way: _Averaging, ofm: FeatureMap) -> None:
    """One average of rows and columns, or one that only copies."""
    window = _window(ifm.shape[:2], ofm.shape[:2], way.repeats, (way.rows, way.columns), 0)
    copies = way.rows.box * way.columns.box == 1
    ifm, upscale = _enlarged(make, ifm, way.repeats)
    make.pool(OperationKind.AVERAGE_POOL, ifm, ofm, window, UNSCALED if copies else None, upscale)


def _doubled(make: Maker, ifm: FeatureMap, repeats: int, ofm: FeatureMap) -> None:
    """Sums of two by two doubled pixels, again and again: each step interpolates half way between what it is given.

    Sums of values of 8 bits have 16 after three steps, twice as large as they need to be. What is left is one average.
    """
    left, scale = repeats, two_to(1)
    while left > 2 and 2 * repeats**2 // left**2 < 1 << _SPARE_BITS:
        height, width, depth = ifm.shape
        sums = make.temporary((2 * height - 1, 2 * width - 1, depth), DType.INT16)
        ifm = make.pool(OperationKind.AVERAGE_POOL, ifm, sums, Window(2, 2), scale, Upscale.NEAREST)
        left, scale = left // 2, UNSCALED
    ifm, upscale = _enlarged(make, ifm, left)
    make.pool(OperationKind.AVERAGE_POOL, ifm, ofm, Window(left, left), _half_divided(repeats**2), upscale)


def _centred(make: Maker, ifm: FeatureMap, repeats: int, ofm: FeatureMap) -> None:
    """Repeated pixels in 16 bits, so large that averages of them are whole and even; averages of two of these."""
    (height, width), (high, wide), depth = ifm.shape[:2], ofm.shape[:2], ofm.shape[2]
    area = repeats**2
    ifm, upscale = _enlarged(make, ifm, repeats)
    large = make.temporary((height * repeats, width * repeats, depth), DType.INT16)
    make.copy(ifm, large, two_to(_exponent(2 * area)), upscale=upscale)
    between = make.temporary((high + 1, wide + 1, depth), DType.INT16)
    along = _centres(repeats)
    window = _window((height, width), (high, wide), repeats, (along, along), 1)
    make.pool(OperationKind.AVERAGE_POOL, large, between, window)
    make.pool(OperationKind.AVERAGE_POOL, between, ofm, Window(2, 2), _half_divided(4 * area))


def _weighed(make: Maker, ifm: FeatureMap, repeats: int, ofm: FeatureMap) -> None:
    """Repeated pixels, the edges among them once more, weighed as the average of two averages weighs them.

    A window begins half a pixel after the edge's: taps that weigh nothing lead to where the others begin. Weights are
    twice as large as they need to be, so that halves of sums are whole.
    """
    taps = np.array([0] * (repeats // 2) + [1] + [2] * (repeats - 1) + [1])
    depth = ifm.shape[2]
    weights = Weights(
        values=np.repeat(2 * np.outer(taps, taps)[None, ..., None], depth, axis=0).astype(np.int16),
        bias=np.zeros(depth, np.int64),
        multipliers=np.full(depth, UNSCALED.multiplier, np.int64),
        shifts=np.full(depth, two_to(-_exponent(2 * (2 * repeats) ** 2)).shift, np.int64),
    )
    large, upscale = _enlarged(make, _edged(make, ifm), repeats)
    make.weigh(large, ofm, weights, Window(len(taps), len(taps)), upscale=upscale)


def _edged(make: Maker, ifm: FeatureMap) -> FeatureMap:
    """The input with its first and last rows and columns twice."""
    plane, depth = ifm.shape[:2], ifm.shape[2]
    whole = make.temporary((plane[0] + 2, plane[1] + 2, depth), ifm.dtype)
    runs = [((0, 0, 1), (0, 1, extent), (extent - 1, extent + 1, 1)) for extent in plane]
    for (row, to_row, rows), (column, to_column, columns) in product(*runs):
        place = Area((to_row, to_column), whole.shape[:2])
        make.copy(ifm, replace(whole, shape=(rows, columns, depth), place=place), first=(row, column))
    return whole


def _enlarged(make: Maker, ifm: FeatureMap, repeats: int) -> tuple[FeatureMap, Upscale]:
    """The input with all but the last doubling, and how the last doubling reads it."""
    if repeats == 1:
        return ifm, Upscale.NONE
    if repeats > 2:
        height, width, depth = ifm.shape
        half = repeats // 2
        large = make.temporary((height * half, width * half, depth), ifm.dtype)
        resize.repeated(make, ifm, _exponent(half), large)
        ifm = large
    return ifm, Upscale.NEAREST


def _exponent(power: int) -> int:
    """Of a power of two."""
    return power.bit_length() - 1


def _half_divided(count: int) -> Scale:
    """The half of sums, which are even, divided by a power of two, halves away from zero.

    What is shifted beyond 31 bits is rounded like that; the factor of 2^30 leaves one bit before it, which is zero.
    """
    return two_to(-1 - _exponent(count))


# --- what it takes ---------------------------------------------------------------------------------------------------


def _steps(case: constraints.Case) -> str | None:
    attrs, (_, height, width, _) = case.op.attributes(ResizeBilinearAttrs), case.ifm.shape
    if (height, width) == (1, 1):
        return _spread(attrs, case.ifm.dtype)
    if _way((height, width), attrs, case.ifm.dtype) is not None:
        return None
    how = "with aligned corners" if attrs.align_corners else "by centres" if attrs.half_pixel_centers else "by corners"
    return (
        f"it resizes {height}x{width} to {attrs.size[0]}x{attrs.size[1]} {how}, between pixels that no average of "
        f"pixels repeated 1, 2, 4 ... times weighs as it does"
    )


def _spread(attrs: ResizeBilinearAttrs, dtype: DType) -> str | None:
    """Why a single pixel is not that of all outputs, whatever its shares: kernels may take it for several."""
    for outputs in attrs.size:
        taps = bilinear_taps(1, outputs, attrs.align_corners, attrs.half_pixel_centers, dtype)
        if any(first for first, _, _ in taps):
            size = f"1x1 to {attrs.size[0]}x{attrs.size[1]}"
            return (
                f"it resizes {size}; rounded steps of 1/{outputs} lead kernels beyond the only pixel, to other memory"
            )
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    made = (*case.op.attributes(ResizeBilinearAttrs).size, case.ifm.shape[3])
    return [(case.ifm, views.image_shape(case.ifm.shape)), (case.ofm, made)]


BILINEAR_FAMILIES: Mapping[str, Family] = {
    "RESIZE_BILINEAR": Family(
        "averages of repeated pixels",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Image(),
            constraints.Sizes(_seen),
            constraints.Rule(
                "from a single pixel to any number of them, but where rounded steps lead kernels beyond it; from one "
                "row or column to any number up to 64; else to as many, half as many, or 2, 4 or 8 times as many: with "
                "aligned corners 16, 32 or 64 times too (of f times less one: all between the first and the last), by "
                "centres 2, 4 or 8 times",
                _steps,
            ),
        ),
        lower,
    )
}
