"""Addresses of stripes in their buffers, constants and the payload around them."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np
import pytest
from ethoscade.codegen import vela
from ethoscade.codegen.command_stream import build_operations, generate, surface
from ethoscade.codegen.operations import (
    CONSTANTS_REGION,
    TABLES_REGION,
    Copy,
    Kernel,
    MemoryRange,
    Surface,
    TableSlot,
)
from ethoscade.codegen.streams import WEIGHT_ENCODERS, EncodingChoice, Streams
from ethoscade.codegen.weights import (
    Constants,
    Encoder,
    SliceChoice,
    encode,
    encode_scales,
    laid_out_bytes,
    lay_out,
)
from ethoscade.errors import CodegenError
from ethoscade.ir import DType, Window
from ethoscade.lowering import lower
from ethoscade.lowering.feature_maps import FeatureMap, Layout, NpuTensor
from ethoscade.lowering.npu import (
    UNSCALED,
    Function,
    NpuOperation,
    OperandScales,
    OperationKind,
    Scaling,
    Table,
    Weights,
    tables_of,
)
from ethoscade.pipeline.partition import partition
from ethoscade.pipeline.prepared import compile as compile_network
from ethoscade.scheduling.program import CallOperator, CopyConstants, LoadTable, Slab, Step, Stripe
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import random_network
from graphs import GraphMaker, same
from hypothesis import given
from hypothesis import strategies as st
from whole_tensor import compile_whole, exact_padding

U55 = ACCELERATORS["ethos-u55-256"]
DMA_WAIT, KERNEL_WAIT = 17, 18


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
    for y, x, c in np.ndindex(height, width, depth):
        assert address(s, y, x, c) == 1600 + element(slab, depth, layout, slab.y0 + y, slab.x0 + x, c)


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
    encoded = Encoder(U55).encode(operation, EncodingChoice(96), slices=SliceChoice(32, EncodingChoice(32)))
    constants = lay_out((encoded,), {(0, slice_) for slice_ in range(3)})
    source, target = Slab(0, 0, 4, 0, 5, 4, 5), Slab(1, 0, 4, 0, 5, 4, 5, *origin)
    steps = [Stripe(0, (source,), target, (0, 0, 0, 0), (4, 4, 32), slice=slice_) for slice_ in range(3)]
    made = [
        op.output for op in build_operations((operation,), steps, {0: 0, 1: 1600}, constants) if isinstance(op, Kernel)
    ]
    for number, s in enumerate(made):
        assert s.shape == (4, 5, 32)
        for y, x, c in np.ndindex(*s.shape):
            assert address(s, y, x, c) == 1600 + element(target, 96, layout, y, x, number * 32 + c)


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
        scales = constants.blob[place.scales_offset : place.scales_offset + place.scales_bytes]
        assert scales == encode_scales(operation.weights)
        weights = constants.blob[place.offset : place.offset + place.weights_bytes]
        channels = operation.ofm.shape[2]
        assert weights == Streams(U55).of(operation, place.choice, 0, channels).write()


def test_weights_and_scales_are_shared_alone_but_copied_together() -> None:
    conv, _ = two_operations()
    weights = conv.weights
    assert weights is not None
    biased, mirrored = (
        dataclasses.replace(conv, weights=other)
        for other in (
            dataclasses.replace(weights, bias=weights.bias + 1),
            dataclasses.replace(weights, values=weights.values[:, ::-1].copy()),
        )
    )
    encoder = Encoder(U55)
    encoded = [encoder.encode(operation, EncodingChoice(16)) for operation in (conv, biased, mirrored)]
    apart = lay_out(encoded, [(number, "in_place") for number in range(3)])
    one, other, third = (apart.place(number) for number in range(3))
    assert one is not None and other is not None and third is not None
    assert (one.offset, one.scales_offset) == (other.offset, third.scales_offset)
    assert len({one.scales_offset, other.scales_offset, one.offset, third.offset}) == 4
    assert len(apart.blob) == one.length_bytes + other.scales_bytes + third.weights_bytes == laid_out_bytes(encoded)
    together = lay_out(encoded, [(0, "in_place"), (1, "staged"), (2, "staged")])
    for number, portion in enumerate(("in_place", "staged", "staged")):
        place = together.place(number, portion)
        assert place is not None and place.scales_offset == place.offset + place.weights_bytes
    assert len(together.blob) == sum(part.whole.length_bytes for part in encoded if part.whole is not None)
    for blob, number, place in ((apart.blob, 0, one), (apart.blob, 1, other), (apart.blob, 2, third)):
        whole = encoded[number].whole
        assert whole is not None
        assert blob[place.offset :][: place.weights_bytes] == whole.weights.write()
        assert blob[place.scales_offset :][: place.scales_bytes] == whole.scales


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
        Streams(U55).of(conv, EncodingChoice(12), 0, 16)
    with pytest.raises(CodegenError, match="depthwise"):
        Streams(U55).of(depthwise, EncodingChoice(8, part_kernel=True), 0, 16)
    with pytest.raises(CodegenError, match="1 encoding choices for 2 operations"):
        encode((conv, depthwise), U55, [EncodingChoice(8)])


def test_equal_weights_in_equal_orders_are_encoded_once() -> None:
    """A block that is deeper than the output is as deep as that; other weights or another order are another stream."""
    conv, depthwise = two_operations()
    assert conv.weights is not None
    again = dataclasses.replace(conv, weights=dataclasses.replace(conv.weights, values=conv.weights.values.copy()))
    for encoder in WEIGHT_ENCODERS:
        streams = Streams(U55, encoder)
        first = streams.of(conv, EncodingChoice(16), 0, 16)
        assert streams.of(conv, EncodingChoice(128), 0, 16) is streams.of(again, EncodingChoice(16), 0, 16) is first
        # All inputs of a micro-block of outputs come at once: blocks do not matter.
        assert streams.of(conv, EncodingChoice(8), 0, 16) is first
        others = (
            streams.of(conv, EncodingChoice(16, part_kernel=True), 0, 16),
            streams.of(conv, EncodingChoice(8, part_kernel=True), 0, 16),
            streams.of(conv, EncodingChoice(16), 0, 8),
            streams.of(depthwise, EncodingChoice(16), 0, 16),
        )
        assert len({first.content, *(other.content for other in others)}) == 5
        assert len({first.write(), *(other.write() for other in others)}) == 5


@pytest.mark.parametrize("part_kernel", [False, True])
@pytest.mark.parametrize("inputs", [8, 9, 16, 32, 33])
@pytest.mark.parametrize("kernel", [(1, 1), (8, 3), (9, 1)])
def test_streams_of_other_block_depths_are_one_where_their_bytes_are(
    inputs: int, kernel: tuple[int, int], part_kernel: bool
) -> None:
    maker = GraphMaker()
    maker.conv(maker.input((1, 12, 12, inputs)), 32, same(12, 12, kernel))
    graph = maker.graph()
    (conv,) = lower(graph, partition(graph, U55)).operations
    streams = Streams(U55)
    found = [streams.of(conv, EncodingChoice(depth, part_kernel), 0, 32) for depth in (8, 16, 24, 32)]
    for one in found:
        for other in found:
            assert (one is other) == (one.content == other.content) == (one.write() == other.write())


def test_streams_are_told_apart_by_whatever_changes_their_bytes() -> None:
    """One who has made others makes the same of each as one who has made none."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 12, 12, 24)), 32, same(12, 12, (5, 5)))
    graph = maker.graph()
    (conv,) = lower(graph, partition(graph, U55)).operations
    assert conv.weights is not None
    further = dataclasses.replace(conv.window, dilation_h=2)
    variants = (
        conv,
        dataclasses.replace(conv, window=further),
        dataclasses.replace(conv, window=dataclasses.replace(further, dilation_w=2)),
        dataclasses.replace(
            conv, ifm=dataclasses.replace(conv.ifm, tensor=dataclasses.replace(conv.ifm.tensor, dtype=DType.INT16))
        ),
        dataclasses.replace(conv, weights=dataclasses.replace(conv.weights, zero_point=3)),
    )
    orders = [EncodingChoice(depth, part_kernel) for depth in (8, 16) for part_kernel in (False, True)]
    for encoder in WEIGHT_ENCODERS:
        streams = Streams(U55, encoder)
        found = [tuple(streams.of(variant, order, 0, 32).write() for order in orders) for variant in variants]
        alone = [tuple(Streams(U55, encoder).of(v, order, 0, 32).write() for order in orders) for v in variants]
        assert found == alone and len(set(found)) == len(variants)


def test_bytes_are_known_before_constants_are_written() -> None:
    encoded = [Encoder(U55).encode(o, EncodingChoice(8), EncodingChoice(16)) for o in two_operations()]
    portions = [portion for one in encoded for portion in (one.whole, one.staged) if portion is not None]
    assert len(portions) == 4
    different = {portion.content: portion.length_bytes for portion in portions}
    assert laid_out_bytes(encoded) == len(lay_out(encoded).blob) == sum(different.values())


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


def own_streams(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], bytes]]:
    """What the emitter was asked for and made, of whole networks with copies, tables and registers of 48 bits."""
    asked: list[tuple[Any, ...]] = []

    def remembered(*arguments: Any) -> bytes:
        asked.append((arguments, emit(*arguments)))
        return asked[-1][1]

    emit = vela.payload
    with monkeypatch.context() as patched:
        patched.setattr(vela, "payload", remembered)
        for seed in range(6):
            compile_network(random_network(seed), accelerator=name, optimise=("size", "performance")[seed % 2])
    assert asked
    return asked


@pytest.mark.parametrize("name", ["ethos-u55-64", "ethos-u65-256"])
def test_streams_are_but_for_waits_those_of_velas_own_generator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word by word, waits too, where it is told which table an operation touches; BLOCKDEP is replaced there, too."""
    streams = own_streams(name, monkeypatch)
    from ethosu.vela import api
    from ethosu.vela import register_command_stream_generator as generator

    def without_waits(payload: bytes) -> list[tuple[int, ...]]:
        return [command for command in commands(payload) if command[0] not in (KERNEL_WAIT, DMA_WAIT)]

    monkeypatch.setattr(vela, "_generate", lambda: api.npu_generate_register_command_stream)
    for arguments, made in streams:
        assert without_waits(vela.payload(*arguments)) == without_waits(made)
    theirs = generator.get_op_memory_accesses
    monkeypatch.setattr(generator, "get_op_memory_accesses", vela._of_own_table(theirs))
    assert [vela.payload(*arguments) for arguments, _ in streams] == [made for _, made in streams]


@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-256"])
@pytest.mark.parametrize(
    ("dtype", "slot", "last"), [(DType.INT8, 3, 3), (DType.UINT8, 7, 7), (DType.INT32, 4, 7), (DType.INT16, 0, 7)]
)
def test_a_kernel_keeps_waiting_only_what_loads_its_own_table(name: str, dtype: DType, slot: int, last: int) -> None:
    is_wide = dtype is DType.INT16
    ifm = Surface((4, 4, 16), DType.INT16 if is_wide else DType.INT8, 0, Layout.NHWC, 4, 0, 4, (0, 0, 0, 0), 128, 32, 2)
    ofm = dataclasses.replace(ifm, dtype=dtype, offsets=(4096, 0, 0, 0), stride_y=256, stride_x=64, stride_c=4)
    (window, padding, block), clamp = (Window(1, 1), (0, 0, 0, 0), (4, 4, 16)), dtype.limits
    kernel = Kernel(OperationKind.AVERAGE_POOL, (ifm,), ofm, window, padding, block, clamp, function=TableSlot(slot))
    for other in range(8):
        load = Copy(MemoryRange(CONSTANTS_REGION, 0, 256), MemoryRange(TABLES_REGION, other * 256, 256))
        for order, wait in (([kernel, load], KERNEL_WAIT), ([load, kernel], DMA_WAIT)):
            found = [code for code, *_ in commands(vela.payload(order, [0], ACCELERATORS[name]))]
            assert [code for code in found if code in (KERNEL_WAIT, DMA_WAIT)] == [wait] * (slot <= other <= last)


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
        [Encoder(U55).encode(o, EncodingChoice(8)) for o in operations], (), tables_of(operations)
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
