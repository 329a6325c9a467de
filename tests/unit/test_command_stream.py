"""Addresses of stripes in their buffers, constants, block dependencies and the payload around them."""

from __future__ import annotations

import dataclasses
import struct
from itertools import pairwise

import numpy as np
import pytest
from ethoscade.codegen import vela
from ethoscade.codegen.block_dependency import MAX_BLOCKDEP, block_dependencies
from ethoscade.codegen.command_stream import build_operations, generate, surface
from ethoscade.codegen.operations import CONSTANTS_REGION, TABLES_REGION, Copy, Kernel, Surface, TableSlot
from ethoscade.codegen.weights import (
    Constants,
    EncodingChoice,
    SliceChoice,
    encode,
    encode_operation,
    encode_scales,
    encode_weights,
    lay_out,
)
from ethoscade.errors import CodegenError
from ethoscade.ir import DType, Window
from ethoscade.lowering import lower
from ethoscade.lowering.npu import (
    UNSCALED,
    FeatureMap,
    Function,
    Layout,
    NpuOperation,
    NpuTensor,
    OperandScales,
    OperationKind,
    Scaling,
    Table,
    Upscale,
    Weights,
    tables_of,
)
from ethoscade.lowering.views import POINT
from ethoscade.pipeline.partition import partition
from ethoscade.scheduling.program import CallOperator, CopyConstants, LoadTable, Slab, Step, Stripe
from ethoscade.target import ACCELERATORS
from graphs import GraphMaker, same
from hypothesis import given
from hypothesis import strategies as st
from whole_tensor import compile_whole, exact_padding

U55 = ACCELERATORS["ethos-u55-256"]


def feature_map(shape: tuple[int, int, int], layout: Layout) -> FeatureMap:
    return FeatureMap(NpuTensor(0, "x", shape, DType.INT8, layout), shape)


def address(s: Surface, y: int, x: int, c: int) -> int:
    """Byte of an element as the NPU finds it (tile first, then strides)."""
    tile = 0
    if x >= s.width_0:
        x, tile = x - s.width_0, 1
        if y >= s.height_1:
            y, tile = y - s.height_1, 3
    elif y >= s.height_0:
        y, tile = y - s.height_0, 2
    channel = c if s.layout is Layout.NHWC else c // 16 * s.stride_c + c % 16
    return s.offsets[tile] + y * s.stride_y + x * s.stride_x + channel


def element(slab: Slab, depth: int, layout: Layout, y: int, x: int, c: int) -> int:
    """Byte of an element, counted from the start of a buffer of packed rows."""
    row, column = (y - slab.origin_y) % slab.rows, (x - slab.origin_x) % slab.columns
    if layout is Layout.NHWC:
        return (row * slab.columns + column) * depth + c
    return ((row * (depth // 16) + c // 16) * slab.columns + column) * 16 + c % 16


@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    origin=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    start=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    form=st.one_of(
        st.tuples(st.just(Layout.NHWC), st.integers(1, 5)),
        st.tuples(st.just(Layout.NHCWB16), st.sampled_from([16, 32, 48])),
    ),
)
def test_surfaces_address_the_buffers_elements(
    rows: int,
    columns: int,
    origin: tuple[int, int],
    start: tuple[int, int],
    size: tuple[int, int],
    form: tuple[Layout, int],
) -> None:
    """Wrapped in height, in width, in both or not at all."""
    layout, depth = form
    height, width = min(size[0], rows), min(size[1], columns)
    slab = Slab(0, start[0], start[0] + height, start[1], start[1] + width, rows, columns, *origin)
    s = surface(feature_map((40, 40, depth), layout), slab, 1600)
    touched = set()
    for y in range(height):
        for x in range(width):
            for c in range(depth):
                expected = 1600 + element(slab, depth, layout, slab.y0 + y, slab.x0 + x, c)
                assert address(s, y, x, c) == expected
                touched.add(expected)
    assert s.bounds() == (min(touched), max(touched) + 1)
    assert set(spread(s.ranges((0, height), (0, width), (0, depth)))) == touched


def spread(ranges: list[tuple[int, int]]) -> list[int]:
    """Every byte of some ranges."""
    return [byte for first, last in ranges for byte in range(first, last)]


@given(
    wraps=st.tuples(st.booleans(), st.booleans()),
    layout=st.sampled_from(list(Layout)),
    boxes=st.tuples(*[st.tuples(st.integers(0, 4), st.integers(1, 5)) for _ in range(2)]),
    bricks=st.tuples(st.integers(0, 2), st.integers(1, 3)),
)
def test_ranges_hold_the_bytes_of_a_box_and_no_others(
    wraps: tuple[bool, bool],
    layout: Layout,
    boxes: tuple[tuple[int, int], tuple[int, int]],
    bricks: tuple[int, int],
) -> None:
    """Of a surface that starts two rows or columns before the buffer's end: whole pixels, or whole bricks of them."""
    depth = 48
    slab = Slab(0, 0, 5, 0, 5, 6, 7, *(2 if wrapped else 0 for wrapped in wraps))
    s = surface(feature_map((5, 5, depth), layout), slab, 3200)
    (y0, y1), (x0, x1) = ((first, max(first + 1, last)) for first, last in boxes)
    c0, c1 = bricks[0] * 16 + 5, max(bricks[0] + 1, bricks[1]) * 16 - 5
    channels = range(depth) if layout is Layout.NHWC else range(c0 // 16 * 16, -(-c1 // 16) * 16)
    expected = {
        3200 + element(slab, depth, layout, y, x, c) for y in range(y0, y1) for x in range(x0, x1) for c in channels
    }
    found = s.ranges((y0, y1), (x0, x1), (c0, c1))
    assert expected <= set(spread(found))
    assert set(spread(found)) == expected
    assert all(a[1] < b[0] for a, b in pairwise(found))


@pytest.mark.parametrize("origin", [(0, 0), (2, 0), (0, 3)], ids=["whole", "wraps in height", "wraps in width"])
@pytest.mark.parametrize("layout", list(Layout))
def test_slices_of_the_output_channels_lie_where_the_whole_output_has_them(
    layout: Layout, origin: tuple[int, int]
) -> None:
    """96 channels in slices of 32; a kernel's surface holds its own channels only, in every tile."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 4, 5, 16)), 96, Window(1, 1))
    graph = maker.graph()
    (operation,) = lower(graph, partition(graph, U55)).operations
    laid = dataclasses.replace(operation.ofm.tensor, layout=layout)
    operation = dataclasses.replace(operation, ofm=dataclasses.replace(operation.ofm, tensor=laid))
    encoded = encode_operation(operation, U55, EncodingChoice(96), slices=SliceChoice(32, EncodingChoice(32)))
    constants = lay_out((encoded,), {(0, slice_) for slice_ in range(3)})
    source, target = Slab(0, 0, 4, 0, 5, 4, 5), Slab(1, 0, 4, 0, 5, 4, 5, *origin)
    steps = [Stripe(0, (source,), target, (0, 0, 0, 0), (4, 4, 32), slice=slice_) for slice_ in range(3)]
    made = [
        op.output for op in build_operations((operation,), steps, {0: 0, 1: 1600}, constants) if isinstance(op, Kernel)
    ]
    for number, s in enumerate(made):
        assert s.shape == (4, 5, 32)
        touched = set()
        for y, x, c in np.ndindex(*s.shape):
            expected = 1600 + element(target, 96, layout, y, x, number * 32 + c)
            assert address(s, y, x, c) == expected
            touched.add(expected)
        assert s.bounds() == (min(touched), max(touched) + 1)
        assert (set(spread(s.ranges((0, 4), (0, 5), (0, 32)))) == touched) or layout is Layout.NHWC


def two_operations() -> tuple[NpuOperation, ...]:
    maker = GraphMaker()
    x = maker.conv(maker.input((1, 8, 8, 16)), 16, same(8, 8, (3, 3)))
    maker.depthwise(x, same(8, 8, (3, 3)))
    graph = maker.graph()
    return lower(graph, partition(graph, U55)).operations


def test_constants_lie_together_and_once() -> None:
    operations = (*two_operations(), *two_operations())
    constants = encode(operations, U55, [EncodingChoice(16)] * 4)
    assert [constants.place(i) for i in (0, 1)] == [constants.place(i) for i in (2, 3)]
    assert len(constants.blob) % 16 == 0
    for i, operation in enumerate(operations):
        place = constants.place(i)
        assert place is not None and operation.weights is not None
        assert place.offset % 16 == place.weights_bytes % 16 == place.scales_bytes % 16 == 0
        scales = constants.blob[place.scales_offset : place.offset + place.length_bytes]
        assert scales == encode_scales(operation.weights)
        weights = constants.blob[place.offset : place.scales_offset]
        assert weights == encode_weights(operation, U55, place.choice)


def test_scale_record_of_the_hardware_notes() -> None:
    one = np.ones(1, np.int64)
    record = encode_scales(Weights(np.ones((1, 1, 1, 1), np.int16), -1000 * one, 0x559EB852 * one, 39 * one))
    assert record.hex() == "18fcffffff52b89e5527" + "00" * 6


def test_operations_without_weights_have_no_place() -> None:
    maker = GraphMaker()
    maker.quantize(maker.input((1, 4)))
    graph = maker.graph()
    constants = encode(lower(graph, partition(graph, U55)).operations, U55, [EncodingChoice(8)])
    assert (constants.blob, constants.place(0)) == (b"", None)


def test_bad_encoding_choices_are_named() -> None:
    conv, depthwise = two_operations()
    with pytest.raises(CodegenError, match="block depth 12 is not a positive multiple of 8"):
        encode_weights(conv, U55, EncodingChoice(12))
    with pytest.raises(CodegenError, match="depthwise"):
        encode_weights(depthwise, U55, EncodingChoice(8, part_kernel=True))
    with pytest.raises(CodegenError, match="1 encoding choices for 2 operations"):
        encode((conv, depthwise), U55, [EncodingChoice(8)])


def whole_stripe(
    operation: NpuOperation, buffers: tuple[int, int], block: tuple[int, int, int], staged: int | None
) -> Stripe:
    (ih, iw, _), (oh, ow, _) = operation.inputs[0].shape, operation.ofm.shape
    output = Slab(buffers[1], 0, oh, 0, ow, oh, ow)
    source = Slab(buffers[0], 0, ih, 0, iw, ih, iw)
    return Stripe(0, (source,), output, exact_padding(operation, output), block, staged)


def test_staged_constants_are_copied_and_read_from_the_arena() -> None:
    operation = two_operations()[0]
    constants = encode((operation,), U55, [EncodingChoice(16)])
    place = constants.place(0)
    assert place is not None
    steps = (CopyConstants(0, 2), whole_stripe(operation, (0, 1), (8, 8, 16), 2))
    copy, kernel = build_operations((operation,), steps, {0: 0, 1: 1024, 2: 2048}, constants)
    assert isinstance(copy, Copy) and isinstance(kernel, Kernel)
    assert copy.source == (0, place.offset, place.length_bytes)
    assert copy.destination == (1, 2048, place.length_bytes)
    assert kernel.weights == (1, 2048, place.weights_bytes)
    assert kernel.scales == (1, 2048 + place.weights_bytes, place.scales_bytes)


def test_wrong_steps_are_refused() -> None:
    operation = two_operations()[0]
    constants = encode((operation,), U55, [EncodingChoice(8)])
    offsets = {0: 0, 1: 1024}
    with pytest.raises(CodegenError, match="block depth 16, its weights are encoded for 8"):
        generate((operation,), [whole_stripe(operation, (0, 1), (8, 8, 16), None)], offsets, constants, U55)
    with pytest.raises(CodegenError, match="runs on the CPU"):
        generate((operation,), [CallOperator(3)], offsets, constants, U55)
    with pytest.raises(CodegenError, match="does not fit"):
        generate((operation,), [whole_stripe(operation, (0, 1), (32, 64, 8), None)], offsets, constants, U55)


def commands(payload: bytes) -> list[tuple[int, int, int]]:
    """(code, parameter, payload word) of every command in a driver payload."""
    words = struct.unpack(f"<{len(payload) // 4}I", payload)[8:]
    found, i = [], 0
    while i < len(words):
        long = words[i] & 0x4000
        found.append((words[i] & 0x3FF, words[i] >> 16, words[i + 1] if long else 0, bool(long)))
        i += 2 if long else 1
    return [(code + (0x4000 if long else 0), parameter, word) for code, parameter, word, long in found]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_clamps_come_out_as_the_integers_that_went_in(dtype: DType) -> None:
    """ACTIVATION_MIN and MAX (294, 295) over many scales and zero points, for kernels with and without scales."""
    rng = np.random.default_rng(1)
    low, high = dtype.limits
    cases: list[tuple[OperationKind, Scaling]] = [
        (OperationKind.ADD, None),
        (OperationKind.AVERAGE_POOL, UNSCALED),
        (OperationKind.MAX_POOL, None),
        (OperationKind.AVERAGE_POOL, None),
    ]
    for kind, scaling in cases:
        operations, expected = [], []
        for _ in range(100):
            clamp = tuple(sorted(int(v) for v in rng.integers(low, high + 1, 2)))
            scale = float(np.float32(10 ** rng.uniform(-5, 2)))
            fm = Surface((4, 4, 8), dtype, int(rng.integers(low, high + 1)), Layout.NHWC, 4, 0, 4, (0,) * 4, 32, 8, 1)
            inputs = (fm, fm) if kind is OperationKind.ADD else (fm,)
            used = OperandScales(scale, scale, scale) if kind is OperationKind.ADD else scaling
            operations.append(
                Kernel(kind, inputs, fm, Window(1, 1), (0, 0, 0, 0), (4, 4, 8), clamp, scaling=used)  # type: ignore[arg-type]
            )
            expected.append(clamp)
        found, current = [], {}
        for code, parameter, _ in commands(vela.payload(operations, [0] * len(operations), U55)):
            current[code] = parameter
            if code in (5, 6):
                wrap = 65536 if dtype is DType.INT8 else 1 << 20
                found.append(tuple(v - wrap if v > 32767 else v for v in (current[294], current[295])))
        assert found == expected


def test_generation_prints_nothing_and_repeats_itself(capsys: pytest.CaptureFixture[str]) -> None:
    maker = GraphMaker()
    maker.fully_connected(maker.conv(maker.input((1, 6, 6, 3)), 8, same(6, 6, (3, 3), 2)), 5)
    graph = maker.graph()
    first, second = (compile_whole(graph, U55, staged=True) for _ in range(2))
    assert first.payload == second.payload and first.constants == second.constants
    assert capsys.readouterr() == ("", "")


def looked_up() -> tuple[tuple[NpuOperation, ...], Constants]:
    """Two operations of one table, one of a larger one and one without; constants with what tables they have."""
    maker = GraphMaker()
    x = maker.input((1, 4, 4, 8))
    for _ in range(4):
        x = maker.quantize(x)
    graph = maker.graph()
    small, large = Table(bytes(range(256))), Table(bytes(1024))
    functions = (small, large, small, Function.CLAMP)
    operations = lower(graph, partition(graph, U55)).operations
    operations = tuple(dataclasses.replace(o, function=f) for o, f in zip(operations, functions, strict=True))
    return operations, lay_out(
        [encode_operation(o, U55, EncodingChoice(8)) for o in operations], (), tables_of(operations)
    )


def plain_stripe(number: int) -> Stripe:
    source, target = (Slab(at, 0, 4, 0, 4, 4, 4) for at in (number, number + 1))
    return Stripe(number, (source,), target, (0, 0, 0, 0), (4, 4, 8))


def test_tables_are_loaded_from_the_constants_and_found_in_their_slots() -> None:
    operations, constants = looked_up()
    assert list(constants.tables.values()) == [0, 256] and len(constants.blob) == 1280
    steps = [LoadTable(0, 3), LoadTable(1, 4), *(plain_stripe(number) for number in range(4))]
    offsets = {number: 128 * number for number in range(5)}
    first, second, *kernels = build_operations(operations, steps, offsets, constants)
    assert first == Copy((CONSTANTS_REGION, 0, 256), (TABLES_REGION, 768, 256))  # type: ignore[arg-type]
    assert second == Copy((CONSTANTS_REGION, 256, 1024), (TABLES_REGION, 1024, 1024))  # type: ignore[arg-type]
    slots = [TableSlot(3), TableSlot(4), TableSlot(3), Function.CLAMP]
    assert [kernel.function for kernel in kernels if isinstance(kernel, Kernel)] == slots


@pytest.mark.parametrize("before", [[], [LoadTable(1, 0)], [LoadTable(0, 2), LoadTable(1, 0)]])
def test_a_table_that_is_not_there_is_named(before: list[Step]) -> None:
    """Never loaded, another one loaded, and overwritten by another one."""
    operations, constants = looked_up()
    offsets = {number: 128 * number for number in range(5)}
    with pytest.raises(CodegenError, match="looks its results up in a table that no step has loaded"):
        build_operations(operations, [*before, plain_stripe(0)], offsets, constants)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_tables_are_copied_to_the_end_of_the_npus_own_memory(name: str) -> None:
    """DMA0_DST_REGION (305) and DMA0_DST (49) of a load into slot 3."""
    operations, constants = looked_up()
    copies = build_operations(operations, [LoadTable(0, 3)], {}, constants)
    found = {
        code: (parameter, word) for code, parameter, word in commands(vela.payload(copies, [], ACCELERATORS[name]))
    }
    assert found[305][0] == 0x103
    assert found[0x4000 | 49][1] == ACCELERATORS[name].shram_banks * 1024 - 2048 + 3 * 256


# Block dependencies.


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
