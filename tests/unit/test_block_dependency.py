"""Block dependencies: which jobs of two kernels may overlap, held against the bytes that they share."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from ethoscade.codegen.block_dependency import block_dependencies
from ethoscade.codegen.command_stream import surface
from ethoscade.codegen.operations import Kernel, Surface, TableSlot
from ethoscade.ir import DType, Window
from ethoscade.lowering.feature_maps import FeatureMap, Layout, NpuTensor
from ethoscade.lowering.npu import OperationKind, Upscale
from ethoscade.lowering.views import POINT
from ethoscade.scheduling.program import Slab
from ethoscade.targets.target import ACCELERATORS
from hypothesis import given
from hypothesis import strategies as st

U55 = ACCELERATORS["ethos-u55-256"]
MAX_BLOCKDEP = 3


def feature_map(shape: tuple[int, int, int], layout: Layout) -> FeatureMap:
    return FeatureMap(NpuTensor(0, "x", shape, DType.INT8, layout), shape)


def strip(buffer_offset: int, rows: int, row0: int, width: int, depth: int, layout: Layout = Layout.NHWC) -> Surface:
    fm = feature_map((64, width, depth), layout)
    return surface(fm, Slab(0, row0, row0 + rows, 0, width, 64, width), buffer_offset)


def kernel(source: Surface, target: Surface, block: tuple[int, int, int], window: Window = POINT) -> Kernel:
    return Kernel(OperationKind.MAX_POOL, (source,), target, window, (0, 0, 0, 0), block, (-128, 127))


def test_unrelated_kernels_overlap_fully() -> None:
    a = kernel(strip(0, 8, 0, 8, 8), strip(10000, 8, 0, 8, 8), (2, 8, 8))
    b = kernel(strip(20000, 8, 0, 8, 8), strip(30000, 8, 0, 8, 8), (2, 8, 8))
    assert block_dependencies([a, b], U55) == [0, MAX_BLOCKDEP]


def test_a_reader_may_start_while_blocks_that_it_does_not_need_are_unfinished() -> None:
    """The producer makes four blocks of two rows; block i of the reader needs block i of the producer."""
    a = kernel(strip(0, 8, 0, 8, 8), strip(10000, 8, 0, 8, 8), (2, 8, 8))
    b = kernel(strip(10000, 8, 0, 8, 8), strip(30000, 8, 0, 8, 8), (2, 8, 8))
    assert block_dependencies([a, b], U55) == [0, 3]
    c = kernel(strip(10000, 8, 0, 8, 8), strip(30000, 6, 0, 8, 8), (2, 8, 8), Window(3, 1))
    assert block_dependencies([a, c], U55) == [0, 2]


@pytest.mark.parametrize(("name", "waits"), [("ethos-u55-64", True), ("ethos-u55-128", False)])
def test_buffers_wait_for_a_table_that_they_may_lie_over(name: str, waits: bool) -> None:
    """The smallest NPUs have no banks for tables alone: a kernel without one waits for the whole one that looks up."""
    a = dataclasses.replace(kernel(strip(0, 8, 0, 8, 8), strip(10000, 8, 0, 8, 8), (2, 8, 8)), function=TableSlot(0))
    b = kernel(strip(20000, 8, 0, 8, 8), strip(30000, 8, 0, 8, 8), (2, 8, 8))
    assert block_dependencies([a, a, b, b], ACCELERATORS[name]) == [0, 3, 0 if waits else 3, 3]


def test_a_reader_of_the_last_block_waits() -> None:
    a = kernel(strip(0, 8, 0, 8, 8), strip(10000, 8, 0, 8, 8), (2, 8, 8))
    b = kernel(strip(10000, 1, 7, 8, 8), strip(30000, 1, 0, 8, 8), (2, 8, 8))
    assert block_dependencies([a, b], U55) == [0, 0]


def test_kernels_of_one_block_count_together() -> None:
    """The reader of the kernel before last may not start while both could still be at work."""
    a = kernel(strip(0, 2, 0, 8, 8), strip(10000, 2, 0, 8, 8), (2, 8, 8))
    b = kernel(strip(0, 2, 2, 8, 8), strip(10000, 2, 2, 8, 8), (2, 8, 8))
    c = kernel(strip(10000, 2, 0, 8, 8), strip(30000, 2, 0, 8, 8), (2, 8, 8))
    assert block_dependencies([a, b, c], U55) == [0, 3, 1]


small = st.integers(1, 3)


@given(
    producer=st.tuples(small, small, st.integers(1, 9), st.integers(1, 9)),
    reader=st.tuples(small, small, st.integers(0, 4), st.integers(1, 3), st.integers(1, 2)),
    form=st.sampled_from([(Layout.NHWC, 8), (Layout.NHCWB16, 32)]),
)
def test_no_pair_of_overlapping_jobs_shares_bytes(
    producer: tuple[int, int, int, int], reader: tuple[int, int, int, int, int], form: tuple[Layout, int]
) -> None:
    """Against the definition: job i together with the last b - i jobs before it, pixel by pixel; b + 1 would not do."""
    bh, bw, height, width = producer
    layout, depth = form
    made = strip(10000, height, 0, width, depth, layout)
    a = kernel(strip(0, height, 0, width, depth), made, (bh, bw, depth))
    ch, cw, y0, k, stride = reader
    rows = max(1, (height - y0 - k) // stride + 1)
    b = kernel(
        strip(10000, (rows - 1) * stride + k, y0, width, depth, layout),
        strip(30000, rows, 0, width, depth),
        (ch, cw, depth),
        Window(k, 1, stride, 1),
    )

    read = [{(y0 + y * stride + i, x) for y, x in job for i in range(k)} for job in jobs(b)]
    check_largest(a, b, read)


def jobs(op: Kernel) -> list[set[tuple[int, int]]]:
    """Pixels of the output that each job of a kernel makes."""
    h, w, _ = op.output.shape
    return [
        {(y, x) for y in range(top, min(top + op.block[0], h)) for x in range(left, min(left + op.block[1], w))}
        for top in range(0, h, op.block[0])
        for left in range(0, w, op.block[1])
    ]


def check_largest(a: Kernel, b: Kernel, read: list[set[tuple[int, int]]]) -> None:
    """The BLOCKDEP of `b`, whose jobs `read` these pixels of what `a` makes, is the largest that is safe."""
    written = list(reversed(jobs(a)))

    def safe(value: int) -> bool:
        return not any(read[i] & w for i in range(min(value, len(read))) for w in written[: value - i])

    value = block_dependencies([a, b], U55)[1]
    assert safe(value)
    assert value == MAX_BLOCKDEP or not safe(value + 1)


@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    blocks=st.tuples(small, small, small, small),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_readers_of_padding_wait_for_what_is_really_there(
    size: tuple[int, int],
    blocks: tuple[int, int, int, int],
    window: tuple[int, int, int],
    padding: tuple[int, int],
) -> None:
    """Rows and columns that windows begin with are not there: what they read ends earlier by so many."""
    (height, width), (kh, kw, stride) = size, window
    top, left = min(padding[0], kh - 1), min(padding[1], kw - 1)
    a = kernel(strip(0, height, 0, width, 8), strip(10000, height, 0, width, 8), (*blocks[:2], 8))
    rows, columns = (max(0, n + p - k) // stride + 1 for n, p, k in ((height, top, kh), (width, left, kw)))
    target = strip(30000, rows, 0, columns, 8)
    b = kernel(strip(10000, height, 0, width, 8), target, (*blocks[2:], 8), Window(kh, kw, stride, stride))
    b = dataclasses.replace(b, padding=(top, left, 0, 0))
    read = [
        {
            (y * stride - top + i, x * stride - left + j)
            for y, x in job
            for i, j in itertools.product(range(kh), range(kw))
        }
        for job in jobs(b)
    ]
    check_largest(a, b, read)


@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    blocks=st.tuples(small, small, st.integers(1, 4), st.integers(1, 4)),
    start=st.tuples(st.integers(0, 2), st.booleans(), st.booleans()),
)
def test_readers_of_repeated_pixels_wait_for_the_pixels_that_they_repeat(
    size: tuple[int, int], blocks: tuple[int, int, int, int], start: tuple[int, bool, bool]
) -> None:
    height, width = size
    made = strip(10000, height, 0, width, 8)
    a = kernel(strip(0, height, 0, width, 8), made, (*blocks[:2], 8))
    first, odd_height, odd_width = min(start[0], height - 1), *start[1:]
    rows, columns = 2 * (height - first) - odd_height, 2 * width - odd_width
    source = strip(10000, height - first, first, width, 8)
    target = surface(feature_map((64, 64, 8), Layout.NHWC), Slab(0, 0, rows, 0, columns, 64, 64), 30000)
    b = dataclasses.replace(kernel(source, target, (*blocks[2:], 8)), upscale=Upscale.NEAREST)
    check_largest(a, b, [{(first + y // 2, x // 2) for y, x in job} for job in jobs(b)])


@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    blocks=st.tuples(small, small, small, small),
    repeated=st.tuples(st.booleans(), st.booleans()),
)
def test_readers_of_a_repeated_operand_wait_for_it(
    size: tuple[int, int], blocks: tuple[int, int, int, int], repeated: tuple[bool, bool]
) -> None:
    """The second operand is what the kernel before makes, in full or one row or column of it."""
    height, width = (1 if once else extent for once, extent in zip(repeated, size, strict=True))
    a = kernel(strip(0, height, 0, width, 8), strip(10000, height, 0, width, 8), (*blocks[:2], 8))
    sides = strip(20000, size[0], 0, size[1], 8), strip(30000, size[0], 0, size[1], 8)
    b = dataclasses.replace(
        kernel(*sides, (*blocks[2:], 8)), kind=OperationKind.ADD, inputs=(sides[0], strip(10000, height, 0, width, 8))
    )
    check_largest(a, b, [{(min(y, height - 1), min(x, width - 1)) for y, x in job} for job in jobs(b)])


def test_jobs_that_touch_other_channels_may_overlap() -> None:
    """The last block writes channels 96..128; the first job of a convolution reads 0..32, of a pool all."""
    fm = strip(10000, 2, 0, 8, 128)
    a = kernel(strip(0, 2, 0, 8, 8), fm, (2, 8, 32))
    convolution = dataclasses.replace(kernel(fm, strip(30000, 2, 0, 8, 8), (2, 8, 8)), kind=OperationKind.CONVOLUTION)
    assert block_dependencies([a, convolution], U55) == [0, 3]
    pool = kernel(fm, strip(30000, 2, 0, 8, 128), (2, 8, 64))
    assert block_dependencies([a, pool], U55) == [0, 0]
    shallow = kernel(strip(0, 2, 0, 8, 8), fm, (2, 8, 128))
    assert block_dependencies([shallow, convolution], U55) == [0, 0]


def test_views_of_other_depth_are_not_told_apart_by_channels() -> None:
    a = kernel(strip(0, 1, 0, 4, 8), strip(10000, 1, 0, 4, 64), (1, 4, 32))
    flat = dataclasses.replace(
        kernel(strip(10000, 1, 0, 1, 256), strip(30000, 1, 0, 1, 8), (1, 1, 8)), kind=OperationKind.CONVOLUTION
    )
    assert block_dependencies([a, flat], U55) == [0, 0]


BRICKS = Layout.NHCWB16


def convolution(source: Surface, target: Surface, block: tuple[int, int, int]) -> Kernel:
    return dataclasses.replace(kernel(source, target, block), kind=OperationKind.CONVOLUTION)


def test_bricks_are_told_apart_by_their_bytes() -> None:
    """As above, in bricks: the last block writes channels 96..128; jobs read 0..32 and on, or all."""
    fm = strip(10000, 2, 0, 8, 128, BRICKS)
    a = kernel(strip(0, 2, 0, 8, 8), fm, (2, 8, 32))
    assert block_dependencies([a, convolution(fm, strip(30000, 2, 0, 8, 8), (2, 8, 8))], U55) == [0, 3]
    assert block_dependencies([a, kernel(fm, strip(30000, 2, 0, 8, 128), (2, 8, 64))], U55) == [0, 0]
    deep = kernel(strip(0, 2, 0, 8, 8), fm, (2, 8, 128))
    assert block_dependencies([deep, convolution(fm, strip(30000, 2, 0, 8, 8), (2, 8, 8))], U55) == [0, 0]


def test_blocks_of_half_a_brick_count_as_the_whole_brick() -> None:
    """The last block writes channels 24..32, and the first job of a pool of 16 channels at 16 reads that brick."""
    a = kernel(strip(0, 2, 0, 8, 8), strip(10000, 2, 0, 8, 32, BRICKS), (2, 8, 8))
    upper = dataclasses.replace(strip(10000, 2, 0, 8, 32, BRICKS), shape=(2, 8, 16), offsets=(10128, 0, 0, 0))
    lower = dataclasses.replace(upper, offsets=(10000, 0, 0, 0))
    assert block_dependencies([a, kernel(upper, strip(30000, 2, 0, 8, 16), (2, 8, 16))], U55) == [0, 0]
    assert block_dependencies([a, kernel(lower, strip(30000, 2, 0, 8, 16), (2, 8, 16))], U55) == [0, 2]


def test_columns_of_bricks_are_told_apart_though_their_rows_interleave() -> None:
    """The producer's last blocks are the right half of each row; a reader of the left half need not wait for them."""
    a = kernel(strip(0, 2, 0, 8, 32), strip(10000, 2, 0, 8, 32, BRICKS), (2, 2, 32))
    left, right = (
        dataclasses.replace(strip(10000, 2, 0, 8, 32, BRICKS), shape=(2, 4, 32), width_0=4, offsets=(at, 0, 0, 0))
        for at in (10000, 10064)
    )
    assert block_dependencies([a, kernel(left, strip(30000, 2, 0, 4, 32), (2, 4, 32))], U55) == [0, 2]
    assert block_dependencies([a, kernel(right, strip(30000, 2, 0, 4, 32), (2, 4, 32))], U55) == [0, 0]


def test_bytes_of_another_layout_are_not_told_apart_by_channels() -> None:
    """Dead bytes of one tensor may be those of another: channels 96..128 of pixels lie over bricks of 0..32."""
    a = kernel(strip(0, 1, 0, 8, 8), strip(10000, 1, 0, 8, 128), (1, 8, 32))
    reader = convolution(strip(10000, 1, 0, 8, 128, BRICKS), strip(30000, 1, 0, 8, 8), (1, 8, 8))
    assert block_dependencies([a, reader], U55) == [0, 0]


def test_a_wrapped_reader_of_bricks_waits_for_what_it_reads() -> None:
    """A buffer of four rows, read from row 3 on: first the old last row, then the rows just written at its start."""
    fm = feature_map((64, 8, 32), BRICKS)
    written = surface(fm, Slab(0, 4, 6, 0, 8, 4, 8), 10000)
    read = surface(fm, Slab(0, 3, 6, 0, 8, 4, 8), 10000)
    a = kernel(strip(0, 2, 0, 8, 32), written, (1, 8, 32))
    assert block_dependencies([a, kernel(read, strip(30000, 3, 0, 8, 32), (1, 8, 32))], U55) == [0, 2]
    assert block_dependencies([a, kernel(read, strip(30000, 3, 0, 8, 32), (2, 8, 32))], U55) == [0, 1]
