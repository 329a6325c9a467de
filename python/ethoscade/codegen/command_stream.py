"""From stripes and copies over placed buffers to the driver payload of one NPU run.

Owns the addresses: where a slab's tiles lie, which strides its buffer has, where a stripe finds its constants. What
registers come of it is the emitter's business (`vela`), when kernels may overlap is `block_dependency`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import CodegenError
from ..lowering.feature_maps import (
    BRICK_CHANNELS,
    ConstantMap,
    FeatureMap,
    Layout,
    Scalar,
)
from ..lowering.npu import (
    Function,
    NpuOperation,
    OperationKind,
    Table,
)
from ..scheduling.program import CallOperator, CopyConstants, CopyTensor, Feed, LoadTable, Slab, Step, Stripe, Take
from ..scheduling.specs import Registers
from ..targets.target import Accelerator
from ..util.frozen import FrozenMap
from . import vela
from .block_dependency import block_dependencies
from .operations import (
    ARENA_REGION,
    CONSTANTS_REGION,
    SLOT_BYTES,
    TABLES_REGION,
    Copy,
    Kernel,
    MemoryRange,
    Operation,
    RegionByte,
    Surface,
    TableSlot,
)
from .weights import Constants, OperationConstants


def generate(
    npu_operations: Sequence[NpuOperation],
    steps: Sequence[Step],
    offsets: Mapping[int, int],
    constants: Constants,
    accelerator: Accelerator,
    regions: Mapping[int, int] = FrozenMap({}),
) -> bytes:
    """The driver payload of a run of NPU steps.

    `offsets` maps buffer indices to byte offsets in the arena, or, of those that lie elsewhere, in a region of
    `regions`; `constants` belongs to the same `npu_operations`.
    Raises `CodegenError` for a CPU step, a stripe whose constants are encoded for another block, or a stream that
    the emitter refuses.
    """
    operations = build_operations(npu_operations, steps, offsets, constants, regions)
    return vela.payload(operations, block_dependencies(operations, accelerator), accelerator)


def build_operations(
    npu_operations: Sequence[NpuOperation],
    steps: Sequence[Step],
    offsets: Mapping[int, int],
    constants: Constants,
    regions: Mapping[int, int] = FrozenMap({}),
) -> list[Operation]:
    """The steps with every buffer replaced by bytes of a region; arguments as for `generate`."""
    places = {buffer: RegionByte(regions.get(buffer, ARENA_REGION), at) for buffer, at in offsets.items()}
    operations: list[Operation] = []
    slots = _Slots()
    for step in steps:
        if isinstance(step, Stripe):
            place = constants.place(step.stage, step.portion)
            function = slots.function(npu_operations[step.stage])
            operations.append(_kernel(npu_operations[step.stage], step, places, place, function))
        elif isinstance(step, LoadTable):
            operations.append(slots.load(npu_operations[step.stage], step.slot, constants))
        elif isinstance(step, CopyConstants):
            place = constants.place(step.stage, step.portion)
            operations.append(_copy(npu_operations[step.stage], step, places, place))
        elif isinstance(step, CallOperator):
            raise CodegenError(f"operator {step.operator} runs on the CPU; it cannot be part of an NPU run")
        elif isinstance(step, Feed | Take):
            raise CodegenError(f"rows of tensor {step.tensor} are handed over; they cannot be part of an NPU run")
        elif isinstance(step, CopyTensor):
            raise CodegenError(f"buffer {step.source} is copied between memories, which no command does")
    return operations


def steady_registers(operation: NpuOperation, accelerator: Accelerator) -> tuple[Registers, Registers]:
    """The registers of an operation where its stripe touches no padding, and where it does, as (command, value) pairs.

    They are those of a whole operation in the smallest block at the start of the arena, with its table in the first
    slot: what stripes, places, slots and constants change is there as well, with values that mean nothing. Raises
    `CodegenError`.
    """
    maps = (*map(operation.extents, range(len(operation.inputs))), operation.ofm.shape)
    whole = [Slab(0, 0, height, 0, width, height, width) for height, width, _ in maps]
    window = operation.window
    padded = (window.pad_top, window.pad_left, window.pad_bottom, window.pad_right)
    function = TableSlot(0) if isinstance(operation.function, Table) else operation.function

    def found(padding: tuple[int, int, int, int]) -> Registers:
        stripe = Stripe(0, tuple(whole[:-1]), whole[-1], padding, accelerator.micro_block)
        return vela.registers(_kernel(operation, stripe, {0: RegionByte(ARENA_REGION, 0)}, None, function), accelerator)

    plain = found((0, 0, 0, 0))
    # Padding changes what a pool divides by; operations with weights divide by nothing.
    return plain, found(padded) if any(padded) and operation.weights is None else plain


def surface(fm: FeatureMap | ConstantMap, slab: Slab, offset: int, region: int = ARENA_REGION) -> Surface:
    """The slab of `fm` in a buffer at byte `offset` of a region, in as many tiles as it wraps into."""
    size = fm.dtype.size_bytes
    row_bytes = slab.columns * fm.pixel_channels * size
    # In bricks a column is one brick wide, and all columns of the buffer lie between a brick and the next.
    bricks = fm.layout is Layout.NHCWB16
    stride_x = (BRICK_CHANNELS if bricks else fm.pixel_channels) * size
    stride_c = slab.columns * stride_x if bricks else size
    if isinstance(fm, FeatureMap) and fm.byte_strides is not None:
        row_bytes, stride_x = fm.byte_strides
    offset += fm.first_channel // (BRICK_CHANNELS if bricks else 1) * stride_c
    height, width = slab.y1 - slab.y0, slab.x1 - slab.x0
    row, column = (slab.y0 - slab.origin_y) % slab.rows, (slab.x0 - slab.origin_x) % slab.columns
    height_0, width_0 = min(height, slab.rows - row), min(width, slab.columns - column)
    first_row, first_column = row * row_bytes, column * stride_x
    tall, wide = height_0 < height, width_0 < width
    return Surface(
        shape=(height, width, fm.shape[2]),
        dtype=fm.dtype,
        zero_point=fm.zero_point,
        layout=fm.layout,
        height_0=height_0,
        height_1=height_0 if wide else 0,
        width_0=width_0,
        offsets=(
            offset + first_row + first_column,
            offset + first_row if wide else 0,
            offset + first_column if tall else 0,
            offset if wide and tall else 0,
        ),
        stride_y=row_bytes,
        stride_x=stride_x,
        stride_c=stride_c,
        region=region,
    )


def _at(fm: FeatureMap | ConstantMap, slab: Slab, place: RegionByte) -> Surface:
    return surface(fm, slab, place.offset_bytes, place.region)


class _Slots:
    """Which tables lie in the NPU's area for them; at the start of a run none does."""

    def __init__(self) -> None:
        self._loaded: dict[Table, range] = {}

    def load(self, operation: NpuOperation, slot: int, constants: Constants) -> Copy:
        """The copy of an operation's table to a slot and those behind it, as far as it reaches."""
        table = operation.function
        assert isinstance(table, Table), "only operations that look up have a table to load"
        taken = range(slot * SLOT_BYTES, slot * SLOT_BYTES + table.size_bytes)
        self._loaded = {
            other: bytes_
            for other, bytes_ in self._loaded.items()
            if bytes_.stop <= taken.start or taken.stop <= bytes_.start
        }
        self._loaded[table] = taken
        return Copy(
            MemoryRange(CONSTANTS_REGION, constants.tables[table], table.size_bytes),
            MemoryRange(TABLES_REGION, taken.start, table.size_bytes),
        )

    def function(self, operation: NpuOperation) -> Function | TableSlot:
        """What an operation does with its results, with the slot of its table. Raises `CodegenError` if none has it."""
        if not isinstance(operation.function, Table):
            return operation.function
        found = self._loaded.get(operation.function)
        if found is None:
            raise CodegenError(f"operation '{operation.name}' looks its results up in a table that no step has loaded")
        return TableSlot(found.start // SLOT_BYTES)


def _kernel(
    operation: NpuOperation,
    stripe: Stripe,
    places: Mapping[int, RegionByte],
    place: OperationConstants | None,
    function: Function | TableSlot,
) -> Kernel:
    weights = scales = None
    region, base = CONSTANTS_REGION, 0
    if place is not None:
        _check_block(operation, stripe, place)
        base, scales_base = place.offset, place.scales_offset
        if stripe.weights is not None:
            region, base = places[stripe.weights]
            scales_base = base + place.weights_bytes
        if operation.weights is not None:
            weights = MemoryRange(region, base, place.weights_bytes)
            scales = MemoryRange(region, scales_base, place.scales_bytes)
    second = operation.ifm2
    return Kernel(
        kind=operation.kind,
        inputs=tuple(
            _at(fm, slab, places[slab.buffer]) for fm, slab in zip(operation.inputs, stripe.inputs, strict=True)
        ),
        output=_channels(_at(operation.ofm, stripe.output, places[stripe.output.buffer]), stripe, place),
        window=operation.window,
        padding=stripe.padding,
        block=stripe.block,
        clamp=operation.clamp,
        rounding=operation.rounding,
        scaling=operation.scaling,
        constant=None
        if not isinstance(second, ConstantMap)
        else _constant(second, stripe.output, RegionByte(region, base)),
        scalar=second if isinstance(second, Scalar) else None,
        upscale=operation.upscale,
        function=function,
        swap_operands=operation.swap_operands,
        accumulator_bits=operation.accumulator_bits,
        weights=weights,
        scales=scales,
        part_kernel=place is not None and place.choice.part_kernel and operation.kind is OperationKind.CONVOLUTION,
    )


def _constant(second: ConstantMap, output: Slab, place: RegionByte) -> Surface:
    """What a stripe reads of a constant operand that begins there: the output's rows and columns, or the only ones."""
    height, width, _ = second.shape
    y0, y1 = (output.y0, output.y1) if height > 1 else (0, 1)
    x0, x1 = (output.x0, output.x1) if width > 1 else (0, 1)
    return _at(second, Slab(0, y0, y1, x0, x1, height, width), place)


def _channels(output: Surface, stripe: Stripe, place: OperationConstants | None) -> Surface:
    """The output of a stripe that makes one slice of the channels: fewer of them, further on in each row or pixel."""
    if stripe.slice is None or place is None:
        return output
    groups = place.first_channel
    if output.layout is Layout.NHCWB16:
        groups, rest = divmod(groups, BRICK_CHANNELS)
        if rest:
            raise CodegenError(f"a slice of the output begins at channel {place.first_channel}, inside a brick of 16")
    skip = groups * output.stride_c
    first, *others = output.offsets
    used = (output.shape[1] > output.width_0, output.shape[0] > output.height_0)
    moved = [offset + skip if there else 0 for offset, there in zip(others, (*used, all(used)), strict=True)]
    return replace(
        output,
        shape=(*output.shape[:2], place.channels),
        offsets=(first + skip, moved[0], moved[1], moved[2]),
    )


def _check_block(operation: NpuOperation, stripe: Stripe, place: OperationConstants) -> None:
    """Weights are encoded for one block depth; beyond the output's depth all depths are the same."""
    depth = operation.ofm.shape[2] if stripe.slice is None else place.channels
    if min(stripe.block[2], depth) != min(place.choice.block_depth, depth):
        raise CodegenError(
            f"operation '{operation.name}': a stripe has block depth {stripe.block[2]}, its weights are encoded for "
            f"{place.choice.block_depth}"
        )


def _copy(
    operation: NpuOperation, step: CopyConstants, places: Mapping[int, RegionByte], place: OperationConstants | None
) -> Copy:
    if place is None:
        raise CodegenError(f"operation '{operation.name}' ({operation.kind.value}) has no constants to copy")
    length = place.length_bytes
    return Copy(MemoryRange(CONSTANTS_REGION, place.offset, length), MemoryRange(*places[step.buffer], length))
