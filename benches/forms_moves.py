"""Forms of operators that move elements: joins, pieces, slices, pads, permutations, reshapes, resizes.

Owns which of them are worth asking about. Prints nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from ethoscade.ir import DType
from forms_sketch import ACTIVATIONS, VALID, Draw, Drawn, Shape, Sketch, default, rank_of

# Moves.

_WIDE = (1, 4, 6, 8)
_MOVED: tuple[Shape, ...] = ((6,), (4, 6), (2, 4, 6), _WIDE, (2, 4, 6, 8), (1, 2, 4, 6, 8), (2, 2, 4, 6, 8))


def concatenation(dtype: DType) -> Drawn:
    """CONCATENATION along each axis, of two and four, requantised, with constants and activations."""

    def join(
        shape: Shape, axis: int, count: int = 2, coarser: float = 1.0, code: int = 0, constant: bool = False
    ) -> Draw:
        def draw(s: Sketch) -> None:
            parts = [s.input(shape) for _ in range(count - constant)]
            parts += [s.values(shape)] if constant else []
            made = tuple(n * count if i == axis % len(shape) else n for i, n in enumerate(shape))
            outputs = [s.tensor(made, default(s.dtype, coarser))]
            s.op("CONCATENATION", parts, outputs, Axis=axis, FusedActivationFunction=code)

        return draw

    for shape in _MOVED:
        for axis in range(len(shape)):
            yield f"{rank_of(shape)}, axis {axis}", join(shape, axis)
    yield "axis -1", join(_WIDE, -1)
    for axis in (0, 1, 2, 3):
        yield f"four along axis {axis}", join(_WIDE, axis, 4)
        yield f"output twice as coarse, axis {axis}", join(_WIDE, axis, coarser=2.0)
        yield f"with a constant, axis {axis}", join(_WIDE, axis, constant=True)
    yield "of one", join(_WIDE, 3, 1)
    for name, code in ACTIVATIONS.items():
        yield f"fused {name}", join(_WIDE, 3, code=code)


def splits(kind: str, dtype: DType) -> Drawn:
    """SPLIT, SPLIT_V or UNPACK along each axis."""

    def cut(shape: Shape, axis: int, sizes: Sequence[int], coarser: float = 1.0) -> Draw:
        def draw(s: Sketch) -> None:
            x, place, q = s.input(shape), axis % len(shape), default(s.dtype, coarser)
            if kind == "UNPACK":
                made = [s.tensor((*shape[:place], *shape[place + 1 :]), q) for _ in sizes]
                s.op(kind, [x], made, Num=len(made), Axis=axis)
                return
            made = [s.tensor((*shape[:place], n, *shape[place + 1 :]), q) for n in sizes]
            if kind == "SPLIT":
                s.op(kind, [s.numbers(axis), x], made, NumSplits=len(made))
            else:
                s.op(kind, [x, s.numbers(list(sizes)), s.numbers(axis)], made, NumSplits=len(made))

        return draw

    for shape in _MOVED:
        for axis, extent_ in enumerate(shape):
            if kind == "UNPACK":
                yield f"{rank_of(shape)}, axis {axis}", cut(shape, axis, [1] * extent_)
                continue
            if extent_ > 1:
                yield f"{rank_of(shape)}, axis {axis} in two", cut(shape, axis, [extent_ // 2] * 2)
            if extent_ > 2:
                yield f"{rank_of(shape)}, axis {axis} in all", cut(shape, axis, [1] * extent_)
            if kind == "SPLIT_V" and extent_ > 2:
                yield f"{rank_of(shape)}, axis {axis} in unequal", cut(shape, axis, [1, extent_ - 1])
    yield "axis -1", cut(_WIDE, -1, [1] * 8 if kind == "UNPACK" else [4, 4])
    yield "output twice as coarse", cut(_WIDE, 3, [1] * 8 if kind == "UNPACK" else [4, 4], 2.0)


def pack(dtype: DType) -> Drawn:
    """PACK along each new axis."""

    def packed(shape: Shape, axis: int, coarser: float = 1.0, constant: bool = False) -> Draw:
        def draw(s: Sketch) -> None:
            place = axis % (len(shape) + 1)
            parts = [s.input(shape), s.values(shape) if constant else s.input(shape)]
            made = s.tensor((*shape[:place], 2, *shape[place:]), default(s.dtype, coarser))
            s.op("PACK", parts, [made], ValuesCount=2, Axis=axis)

        return draw

    for shape in ((), *_MOVED[:5]):
        for axis in range(len(shape) + 1):
            yield f"{rank_of(shape)}, axis {axis}", packed(shape, axis)
    yield "axis -1", packed((4, 6), -1)
    yield "output twice as coarse", packed((4, 6), 0, 2.0)
    yield "with a constant", packed((4, 6), 0, constant=True)


def slices(dtype: DType) -> Drawn:
    """SLICE along each axis and along all."""

    def cut(shape: Shape, begin: Sequence[int], size: Sequence[int], coarser: float = 1.0, wide: bool = False) -> Draw:
        def draw(s: Sketch) -> None:
            made = tuple(n - b if c == -1 else c for n, b, c in zip(shape, begin, size, strict=True))
            kind = DType.INT64 if wide else DType.INT32
            given = [s.numbers(list(begin), kind), s.numbers(list(size), kind)]
            s.op("SLICE", [s.input(shape), *given], [s.tensor(made, default(s.dtype, coarser))])

        return draw

    for shape in _MOVED:
        for axis, extent_ in enumerate(shape):
            if extent_ > 1:
                begin = [int(i == axis) for i in range(len(shape))]
                yield f"{rank_of(shape)}, axis {axis}", cut(shape, begin, [-1] * len(shape))
        begin = [int(n > 1) for n in shape]
        yield f"{rank_of(shape)}, all axes", cut(shape, begin, [max(n - 2, 1) for n in shape])
        yield f"{rank_of(shape)}, the whole", cut(shape, [0] * len(shape), [-1] * len(shape))
    yield "numbers of int64", cut(_WIDE, (0, 1, 1, 1), (1, 2, 2, 2), wide=True)
    yield "output twice as coarse", cut(_WIDE, (0, 1, 1, 1), (1, 2, 2, 2), 2.0)


def strided_slices(dtype: DType) -> Drawn:
    """STRIDED_SLICE with strides either way along each axis, and with each mask."""

    def cut(shape: Shape, spans: Sequence[slice], coarser: float = 1.0, **masks: int) -> Draw:
        def draw(s: Sketch) -> None:
            bounds = [span.indices(n) for span, n in zip(spans, shape, strict=False)]
            shrunk, new, dots = (masks.get(f"{m}Mask", 0) for m in ("ShrinkAxis", "NewAxis", "Ellipsis"))
            index: list[Any] = []
            for i, (a, b, c) in enumerate(bounds):
                ends = slice(
                    None if masks.get("BeginMask", 0) >> i & 1 else a,
                    None if masks.get("EndMask", 0) >> i & 1 or b < 0 else b,
                    c,
                )
                index.append(a if shrunk >> i & 1 else None if new >> i & 1 else Ellipsis if dots >> i & 1 else ends)
            made = np.empty(shape)[tuple(index)].shape
            stated = [
                [a for a, _, _ in bounds],
                [b if b >= 0 else -1000 for _, b, _ in bounds],
                [c for _, _, c in bounds],
            ]
            inputs = [s.input(shape), *map(s.numbers, stated)]
            s.op("STRIDED_SLICE", inputs, [s.tensor(made, default(s.dtype, coarser))], **masks)

        return draw

    for shape in _MOVED:
        whole = [slice(None)] * len(shape)
        for axis, extent_ in enumerate(shape):
            for step in (1, 2, 3, -1, -2):
                if extent_ > 1:
                    spans = [slice(1, None, step) if i == axis and step > 0 else s for i, s in enumerate(whole)]
                    if step < 0:
                        spans[axis] = slice(None, None, step)
                    yield f"{rank_of(shape)}, axis {axis} by {step}", cut(shape, spans)
            yield f"{rank_of(shape)}, axis {axis} shrunk", cut(shape, whole, ShrinkAxisMask=1 << axis)
            if len(shape) < 5:
                yield f"{rank_of(shape)}, axis {axis} new", cut(shape, whole[: len(shape)], NewAxisMask=1 << axis)
    yield (
        "open at both ends",
        cut(_WIDE, [slice(None), slice(1, 3), slice(1, 3), slice(1, 3)], BeginMask=15, EndMask=15),
    )
    yield "an ellipsis", cut(_WIDE, [slice(None), slice(1, 3)], EllipsisMask=1)
    yield "fewer spans than axes", cut(_WIDE, [slice(None), slice(1, 3)])
    yield "rows and columns by 2", cut(_WIDE, [slice(None), slice(None, None, 2), slice(None, None, 2), slice(None)])
    yield "rows, columns and channels by 2", cut(_WIDE, [slice(None), *[slice(None, None, 2)] * 3])
    yield "output twice as coarse", cut(_WIDE, [slice(None), slice(1, 3)], 2.0)


def pads(kind: str, dtype: DType) -> Drawn:
    """PAD, PADV2 or MIRROR_PAD of each axis, before and after."""

    def pad(
        shape: Shape, around: Sequence[tuple[int, int]], coarser: float = 1.0, mode: int = 0, wide: bool = False
    ) -> Draw:
        def draw(s: Sketch) -> None:
            made = tuple(n + a + b for n, (a, b) in zip(shape, around, strict=True))
            inputs = [s.input(shape), s.numbers(list(around), DType.INT64 if wide else DType.INT32)]
            fields: dict[str, object] = {"Mode": mode} if kind == "MIRROR_PAD" else {}
            if kind == "PADV2":
                inputs.append(s.tensor((1,), None, None, np.array([11], s.dtype.numpy)))
            s.op(kind, inputs, [s.tensor(made, default(s.dtype, coarser))], **fields)

        return draw

    for shape in _MOVED:
        for axis, extent_ in enumerate(shape):
            if kind == "MIRROR_PAD" and extent_ < 2:
                continue
            for mode in (0, 1) if kind == "MIRROR_PAD" else (0,):
                around = [(1, 1) if i == axis else (0, 0) for i in range(len(shape))]
                words = (" REFLECT", " SYMMETRIC")[mode] if kind == "MIRROR_PAD" else ""
                yield f"{rank_of(shape)}, axis {axis}{words}", pad(shape, around, mode=mode)
    for words, around in (
        ("rows and columns", [(0, 0), (1, 2), (2, 1), (0, 0)]),
        ("rows, columns and channels", [(0, 0), (1, 0), (0, 1), (1, 1)]),
        ("nothing", [(0, 0)] * 4),
        ("a row before", [(0, 0), (1, 0), (0, 0), (0, 0)]),
    ):
        yield words, pad(_WIDE, around)
        yield f"{words}, numbers of int64", pad(_WIDE, around, wide=True)
    if kind != "MIRROR_PAD":
        yield "far around", pad(_WIDE, [(0, 0), (40, 40), (70, 70), (0, 0)])
        yield "many channels", pad(_WIDE, [(0, 0), (0, 0), (0, 0), (0, 56)])
    yield "output twice as coarse", pad(_WIDE, [(0, 0), (1, 1), (1, 1), (0, 0)], 2.0)


def transposes(dtype: DType) -> Drawn:
    """TRANSPOSE in every order of two to four axes, of five in some."""

    def turned(shape: Shape, order: Sequence[int], wide: bool = False) -> Draw:
        def draw(s: Sketch) -> None:
            made = tuple(shape[i] for i in order)
            numbers = s.numbers(list(order), DType.INT64 if wide else DType.INT32)
            s.op("TRANSPOSE", [s.input(shape), numbers], [s.tensor(made)])

        return draw

    for shape in ((6,), (4, 6), (2, 4, 6), (1, 4, 6), _WIDE, (2, 4, 6, 8)):
        for order in itertools.permutations(range(len(shape))):
            yield f"{rank_of(shape)} to {order}", turned(shape, order)
    fives = [
        (0, 1, 2, 4, 3),
        (0, 1, 3, 2, 4),
        (0, 2, 1, 3, 4),
        (0, 1, 4, 2, 3),
        (1, 0, 2, 3, 4),
        (4, 3, 2, 1, 0),
        (0, 4, 2, 3, 1),
    ]
    for of_five in ((1, 2, 4, 6, 8), (2, 2, 4, 6, 8)):
        for order in fives:
            yield f"{rank_of(of_five)} to {order}", turned(of_five, order)
    yield "6 axes, the last two", turned((1, 1, 2, 3, 4, 5), (0, 1, 2, 3, 5, 4))
    yield "6 axes, turned about", turned((2, 2, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0))
    yield "8 axes", turned((1, 1, 1, 1, 2, 3, 4, 5), (0, 1, 2, 3, 5, 4, 7, 6))
    yield "many rows, the last two", turned((1, 300, 4, 5), (0, 1, 3, 2))


def reversals(dtype: DType) -> Drawn:
    """REVERSE_V2 along each axis."""

    def turned(shape: Shape, axes: Sequence[int]) -> Draw:
        def draw(s: Sketch) -> None:
            s.op("REVERSE_V2", [s.input(shape), s.numbers(list(axes))], [s.tensor(shape)])

        return draw

    for shape in _MOVED:
        for axis in range(len(shape)):
            yield f"{rank_of(shape)}, axis {axis}", turned(shape, [axis])
    yield "axis -1", turned(_WIDE, [-1])
    yield "two axes", turned(_WIDE, [1, 2])
    yield "300 rows", turned((1, 300, 3, 4), [1])


def tiles(dtype: DType) -> Drawn:
    """TILE along each axis and along all."""

    def tiled(shape: Shape, counts: Sequence[int], wide: bool = False) -> Draw:
        def draw(s: Sketch) -> None:
            made = tuple(n * c for n, c in zip(shape, counts, strict=True))
            numbers = s.numbers(list(counts), DType.INT64 if wide else DType.INT32)
            s.op("TILE", [s.input(shape), numbers], [s.tensor(made)])

        return draw

    for shape in _MOVED:
        for axis in range(len(shape)):
            yield f"{rank_of(shape)}, axis {axis}", tiled(shape, [3 if i == axis else 1 for i in range(len(shape))])
        yield f"{rank_of(shape)}, all axes", tiled(shape, [2] * len(shape))
    yield "numbers of int64", tiled(_WIDE, [1, 2, 2, 2], True)
    yield "300 times", tiled((1, 1, 1, 4), [1, 300, 1, 1])


def reshapes(kind: str, dtype: DType) -> Drawn:
    """RESHAPE, SQUEEZE and EXPAND_DIMS, alone and between operators that the NPU has."""

    def other(shape: Shape, target: Shape, between: bool) -> Draw:
        def draw(s: Sketch) -> None:
            def copied(x: int, of: Shape) -> int:
                fields = {"Padding": VALID, "StrideH": 1, "StrideW": 1, "FilterHeight": 1, "FilterWidth": 1}
                image = of if len(of) == 4 else ()
                if not between or not image or s.dtype is DType.INT32:
                    return x
                return s.op("MAX_POOL_2D", [x], [s.tensor(of)], **fields)

            x = copied(s.input(shape), shape)
            fields: dict[str, object] = {}
            inputs = [x]
            if kind == "RESHAPE":
                inputs.append(s.numbers(list(target)))
            elif kind == "EXPAND_DIMS":
                place = next(i for i in range(len(target)) if (*target[:i], *target[i + 1 :]) == shape)
                inputs.append(s.numbers(place))
            copied(s.op(kind, inputs, [s.tensor(target)], **fields), target)

        return draw

    pairs: list[tuple[Shape, Shape]]
    if kind == "RESHAPE":
        pairs = [(_WIDE, (192,)), (_WIDE, (24, 8)), (_WIDE, (1, 24, 1, 8)), ((192,), _WIDE), (_WIDE, (1, 2, 2, 6, 8))]
        pairs += [((2, 4, 6, 8), (1, 8, 6, 8)), ((1, 2, 4, 6, 8), (1, 8, 6, 8)), (_WIDE, (1, 8, 6, 4))]
    elif kind == "SQUEEZE":
        pairs = [((1, 1, 6, 8), (6, 8)), ((1, 4, 1, 8), (4, 8)), ((2, 1, 1, 8), (2, 8)), ((1, 1, 1, 8), (8,))]
    else:
        pairs = [((6, 8), (1, 6, 8)), ((4, 6, 8), (1, 4, 6, 8)), ((4, 6, 8), (4, 6, 8, 1)), (_WIDE, (1, *_WIDE))]
    for between in (False, True):
        for shape, target in pairs:
            yield (
                f"{rank_of(shape)} to {rank_of(target)}{', between' if between else ''}",
                other(shape, target, between),
            )


def resizes(kind: str, dtype: DType) -> Drawn:
    """Both resizes: powers of two, one pixel, equal sizes, each convention."""

    def resized(size: tuple[int, int], target: tuple[int, int], corners: bool, centres: bool, batch: int = 1) -> Draw:
        def draw(s: Sketch) -> None:
            inputs = [s.input((batch, *size, 5)), s.numbers(list(target))]
            fields = {"AlignCorners": corners, "HalfPixelCenters": centres}
            s.op(kind, inputs, [s.tensor((batch, *target, 5))], **fields)

        return draw

    for corners, centres in ((False, False), (True, False), (False, True)):
        words = " corners" if corners else " centres" if centres else ""
        sizes = {((4, 6), tuple((n - corners) * f + corners for n in (4, 6))) for f in (1, 2, 4, 8, 16, 3)}
        sizes |= {((1, 1), target) for target in ((1, 1), (2, 2), (7, 5), (33, 33), (70, 65), (300, 2))}
        sizes |= {((1, 6), (1, (6 - corners) * f + corners)) for f in (2, 4, 8)}
        sizes |= {((6, 1), ((6 - corners) * f + corners, 1)) for f in (2, 4, 8)}
        sizes |= {((4, 6), (8, 6)), ((4, 6), (4, 12)), ((4, 6), (2, 3)), ((4, 6), (8, 24)), ((1, 6), (2, 12))}
        for size, target in sorted(sizes):
            whole = f"{size[0]}x{size[1]} to {target[0]}x{target[1]}{words}"
            yield whole, resized(size, (target[0], target[1]), corners, centres)
        made = ((4 - corners) * 2 + corners, (6 - corners) * 2 + corners)
        yield f"batch 2{words}", resized((4, 6), made, corners, centres, 2)
    yield "corners and centres", resized((4, 6), (8, 12), True, True)
