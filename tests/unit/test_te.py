"""Propagators derived from compute definitions: against matrices written by hand and against exhaustive loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from ethoscade.ir import DType, Window
from ethoscade.lowering import expressions, views
from ethoscade.lowering.feature_maps import ConstantMap, FeatureMap, NpuTensor
from ethoscade.lowering.npu import Upscale
from ethoscade.lowering.te import Access, Affine, Axis, Compute, Propagator, index, propagator
from hypothesis import given
from hypothesis import strategies as st


def derive(compute: Compute, read: int = 0) -> Propagator:
    return propagator(compute, compute.reads[read])


def first(shape: tuple[int, int, int]) -> FeatureMap:
    """A first operand."""
    return FeatureMap(NpuTensor(0, "first", shape, DType.INT8), shape)


def input_shape(p: Propagator, stripe: tuple[int, int, int, int]) -> tuple[int, ...]:
    augmented = (*stripe, 1)
    return tuple(sum(a * b for a, b in zip(row, augmented, strict=True)) for row in p.transform)


def test_convolution_of_the_cascading_rfc() -> None:
    window = Window(3, 3, pad_top=1, pad_left=1, pad_bottom=1, pad_right=1)
    p = derive(expressions.whole_windows("conv", window, (16, 16, 8), (16, 16, 4)))
    assert p.transform == ((1, 0, 0, 0, 0), (0, 1, 0, 0, 2), (0, 0, 1, 0, 2), (0, 0, 0, 0, 8))
    assert p.strides == ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 0))
    assert p.offset == (0, -1, -1, 0)
    assert input_shape(p, (1, 3, 3, 4)) == (1, 5, 5, 8)


def test_strided_dilated_convolution() -> None:
    window = Window(3, 5, 2, 3, 2, 1, pad_top=2, pad_left=1)
    p = derive(expressions.whole_windows("conv", window, (32, 32, 16), (15, 10, 8)))
    assert p.transform == ((1, 0, 0, 0, 0), (0, 2, 0, 0, 3), (0, 0, 3, 0, 2), (0, 0, 0, 0, 16))
    assert p.strides == ((1, 0, 0, 0), (0, 2, 0, 0), (0, 0, 3, 0), (0, 0, 0, 0))
    assert p.offset == (0, -2, -1, 0)


def test_depthwise_and_pools_keep_the_channels() -> None:
    window = Window(3, 3, 2, 2, pad_bottom=1, pad_right=1)
    p = derive(expressions.windows("x", window, (16, 16, 24), (8, 8, 24)))
    assert p.transform == ((1, 0, 0, 0, 0), (0, 2, 0, 0, 1), (0, 0, 2, 0, 1), (0, 0, 0, 1, 0))
    assert p.strides == ((1, 0, 0, 0), (0, 2, 0, 0), (0, 0, 2, 0), (0, 0, 0, 1))
    assert p.offset == (0, 0, 0, 0)


def test_fully_connected_reads_every_channel_of_its_row() -> None:
    p = derive(expressions.whole_windows("fc", views.POINT, (4, 1, 64), (4, 1, 10)))
    assert input_shape(p, (1, 2, 1, 5)) == (1, 2, 1, 64)
    assert p.offset == (0, 0, 0, 0)


def test_mean_reads_the_whole_image() -> None:
    p = derive(expressions.windows("mean", Window(7, 5), (7, 5, 32), (1, 1, 32)))
    assert input_shape(p, (1, 1, 1, 8)) == (1, 7, 5, 8)


IDENTITY = ((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0))


def test_elementwise_and_identity_read_what_they_write() -> None:
    second = FeatureMap(NpuTensor(1, "second", (4, 5, 6), DType.INT8), (4, 5, 6))
    add = expressions.points("add", (4, 5, 6), first((4, 5, 6)), second)
    assert [derive(add, i).transform for i in range(2)] == [IDENTITY, IDENTITY]
    assert derive(expressions.points("quantize", (4, 5, 6), first((4, 5, 6)))).transform == IDENTITY


def test_a_repeated_operand_is_read_at_its_only_row_column_or_channel() -> None:
    """Each read, as the operation writes it down, is where NumPy's broadcasting finds the element."""
    whole = (4, 5, 6)
    for shape in itertools.product(*((1, extent) for extent in whole)):
        values = np.arange(np.prod(shape)).reshape(shape).astype(np.int8)
        read = expressions.points("mul", whole, first(whole), ConstantMap(values, DType.INT8)).reads[1]
        repeated = np.broadcast_to(values, whole)
        for place in itertools.product(*map(range, whole)):
            at = dict(zip("nhwc", (0, *place), strict=True))
            found = tuple(sum(at[a] * k for a, k in i.coefficients.items()) + i.constant for i in read.indices)
            assert values[found[1:]] == repeated[place]


windows = st.builds(
    Window,
    kernel_h=st.integers(1, 4),
    kernel_w=st.integers(1, 4),
    stride_h=st.integers(1, 3),
    stride_w=st.integers(1, 3),
    dilation_h=st.integers(1, 2),
    dilation_w=st.integers(1, 2),
    pad_top=st.integers(0, 3),
    pad_left=st.integers(0, 3),
)
stripes = st.tuples(
    *[st.tuples(st.integers(0, 5), st.integers(1, 3))] * 2, st.tuples(st.integers(0, 3), st.integers(1, 2))
)


def exhaustive(indices: Sequence[Affine], ranges: dict[str, range]) -> list[set[int]]:
    """What each index is over all points of the ranges of its axes."""
    touched: list[set[int]] = [set() for _ in indices]
    for point in itertools.product(*ranges.values()):
        values = dict(zip(ranges, point, strict=True))
        for seen, expression in zip(touched, indices, strict=True):
            total = expression.constant + sum(k * values[a] for a, k in expression.coefficients.items())
            seen.add(math.floor(Fraction(total, expression.divisor)))
    return touched


@given(window=windows, stripe=stripes, full=st.booleans())
def test_derived_range_equals_the_exhaustive_loop(
    window: Window, stripe: tuple[tuple[int, int], ...], full: bool
) -> None:
    """Every index that the loop nest of a random stripe touches, against start and length by the matrices."""
    make = expressions.whole_windows if full else expressions.windows
    compute = make("x", window, (40, 40, 6), (12, 12, 6))
    (h0, hs), (w0, ws), (c0, cs) = stripe
    ranges = {"n": range(1), "h": range(h0, h0 + hs), "w": range(w0, w0 + ws), "c": range(c0, c0 + cs)}
    ranges |= {axis.name: range(axis.extent) for axis in compute.reductions}
    touched = exhaustive(compute.reads[0].indices, ranges)
    p = derive(compute)
    shape = input_shape(p, (1, hs, ws, cs))
    start = (0, h0, w0, c0)
    for d in range(4):
        first = p.offset[d] + sum(a * b for a, b in zip(p.strides[d], start, strict=True))
        assert (min(touched[d]), max(touched[d]) + 1) == (first, first + shape[d])


def test_a_resize_reads_half_a_row_for_each() -> None:
    p = derive(expressions.points("x", (8, 9, 8), first((4, 5, 8)), upscale=Upscale.NEAREST))
    assert (p.transform, p.offset, p.denominators) == (IDENTITY, (0, 0, 0, 0), (1, 2, 2, 1))
    assert derive(expressions.points("x", (4, 5, 8), first((4, 5, 8)))).denominators == (1, 1, 1, 1)


affine = st.tuples(st.integers(-5, 5), st.integers(0, 3), st.integers(0, 2), st.lists(st.integers(1, 4), max_size=2))


@given(rows=affine, columns=affine, kernel=st.tuples(st.integers(1, 4), st.integers(1, 3)), stripe=stripes)
def test_derived_range_of_divided_indices_equals_the_exhaustive_loop(
    rows: tuple[int, int, int, list[int]],
    columns: tuple[int, int, int, list[int]],
    kernel: tuple[int, int],
    stripe: tuple[tuple[int, int], ...],
) -> None:
    """Its first and last index, wherever a stripe begins within a repeated row, dividing once or several times."""
    axes = (Axis("n", 1), Axis("h", 20), Axis("w", 20), Axis("c", 6))
    reductions = (Axis("kh", kernel[0], True), Axis("kw", kernel[1], True))
    row = index(rows[0], h=rows[1], kh=rows[2])
    column = index(columns[0], w=columns[1], kw=columns[2])
    for divisor in rows[3]:
        row //= divisor
    for divisor in columns[3]:
        column //= divisor
    compute = Compute("x", axes, reductions, (Access(0, (index(n=1), row, column, index(c=1)), (1, 40, 40, 6)),))
    p = derive(compute)
    (h0, hs), (w0, ws), (c0, cs) = stripe
    ranges = {"n": range(1), "h": range(h0, h0 + hs), "w": range(w0, w0 + ws), "c": range(c0, c0 + cs)}
    ranges |= {axis.name: range(axis.extent) for axis in reductions}
    touched = exhaustive(compute.reads[0].indices, ranges)
    lengths = input_shape(p, (1, hs, ws, cs))
    for d, start in enumerate((0, h0, w0, c0)):
        first = p.offset[d] + p.strides[d][d] * start
        last = first + lengths[d] - 1
        assert (min(touched[d]), max(touched[d])) == (first // p.denominators[d], last // p.denominators[d])
