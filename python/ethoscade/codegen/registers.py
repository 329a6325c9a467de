"""The registers that an operation sets, with their values, in the order of the command stream.

Owns the registers' numbers and encodings. Which of them are sent, and what stands between operations, is `emitter`'s
matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import CodegenError
from ..lowering.npu import (
    UNSCALED,
    Function,
    Layout,
    OperandScales,
    OperationKind,
    Rounding,
    Scale,
    Upscale,
)
from ..target import Accelerator
from .operations import TABLES_REGION, Copy, Kernel, MemoryRange, Operation, Surface, TableSlot
from .scaling import Factor, factor_of, mean_of, of_curve, of_sum
from .shared_buffer import layout

Setting = tuple[int, int]
"""A command and the value that it sets: 16 bits, or with `WIDE` 48, the parameter above the second word."""

WIDE = 0x4000
"""The bit of commands that take two words."""

OWN_MEMORY = 0x103
"""The region of a copy that is the NPU's own memory, in all of its cores."""
TABLES_BYTES = 2048
"""Bytes of the area of tables, the last ones of that memory."""

_LOW, _SHORT = (1 << 32) - 1, (1 << 16) - 1
_ALIGNMENT = 16


class _Map(NamedTuple):
    """The commands of a feature map: bases of its tiles, their rows and columns, strides of channel, row and column."""

    region: int
    bases: range
    tiles: tuple[int, int, int]
    strides: tuple[int, int, int]
    zero_point: int
    precision: int


_IFM = _Map(271, range(WIDE, WIDE + 4), (267, 268, 266), (WIDE + 6, WIDE + 5, WIDE + 4), 265, 261)
_OFM = _Map(287, range(WIDE + 16, WIDE + 20), (283, 284, 282), (WIDE + 22, WIDE + 21, WIDE + 20), 280, 276)
_IFM2 = _Map(399, range(WIDE + 128, WIDE + 132), (395, 396, 394), (WIDE + 134, WIDE + 133, WIDE + 132), 393, 389)
_IFM_DEPTH, _IFM_UPSCALE, _PADDING = 260, 263, (256, 257, 259, 258)
_OFM_SHAPE, _OFM_BLOCK = (274, 273, 275), (278, 277, 279)
_KERNEL_HEIGHT, _KERNEL_WIDTH, _KERNEL_STRIDE = 289, 288, 290
_WEIGHTS, _SCALES = (296, WIDE + 32, WIDE + 33), (297, WIDE + 34, WIDE + 35)
_ACTIVATION, _ACTIVATION_MIN, _ACTIVATION_MAX = 293, 294, 295
_IFM_END, _ACCUMULATORS_START, _IFM2_START, _ACCUMULATOR_FORMAT = 269, 301, 397, 292
_IFM2_BROADCAST, _IFM2_SCALAR = 384, 385
_OFM_SCALE, _FIRST_SCALE, _SECOND_SCALE = WIDE + 36, WIDE + 37, WIDE + 38
_COPY = (304, WIDE + 48, 305, WIDE + 49, WIDE + 50)

_PRECISION = {1: 0, 2: 1, 4: 2}
_ROUNDING = {Rounding.TFL: 0, Rounding.TRUNCATE: 1, Rounding.NATURAL: 2}
_UPSCALE = {Upscale.NONE: 0, Upscale.NEAREST: 1, Upscale.ZEROS: 2}
_FUNCTION = {Function.CLAMP: 0, Function.TANH: 3, Function.SIGMOID: 4}
_FIRST_TABLE, _TABLE_SLOTS, _OF_INT8 = 16, 8, 3 << 12
_SUMS = (OperationKind.ADD, OperationKind.SUB)
_SCALED_BY_RESULT = (OperationKind.LEAKY_RELU, OperationKind.ABS)
_UNARY = (*_SCALED_BY_RESULT, OperationKind.CLZ)
_NORMAL = 1 << 30
_SWAPPED, _SCALAR = 1 << 6, 1 << 7


def of_operation(operation: Operation, accelerator: Accelerator) -> list[Setting]:
    """All registers of an operation. Raises `CodegenError` for what the NPU cannot do: alignments, blocks, layouts."""
    if isinstance(operation, Copy):
        return _of_copy(operation, accelerator)
    if not operation.kind.is_elementwise:
        scale = _pool_scale(operation)
        found = list(_common(operation, accelerator, scale is not None, 0))
        return found if scale is None else [*found, (_OFM_SCALE, _packed(scale))]
    scales, rescaled = _elementwise_scales(operation)
    common = _common(operation, accelerator, _is_scaled(operation.kind), rescaled)
    return [*scales, *common, *_second_operand(operation)]


def range_of(where: MemoryRange, accelerator: Accelerator) -> MemoryRange:
    """A range as the NPU counts its own memory."""
    if where.region != TABLES_REGION:
        return where
    first = accelerator.shram_banks * 1024 - TABLES_BYTES
    return MemoryRange(OWN_MEMORY, first + where.offset_bytes, where.length_bytes)


def _of_copy(copy: Copy, accelerator: Accelerator) -> list[Setting]:
    source, target = range_of(copy.source, accelerator), range_of(copy.destination, accelerator)
    # An Ethos-U65 copies any bytes, but for those of its own memory.
    strict = [end for end in (source, target) if accelerator.product != "u65" or end.region == OWN_MEMORY]
    for end in strict:
        _require(end.offset_bytes % _ALIGNMENT == 0, f"a copy begins at byte {end.offset_bytes}, no multiple of 16")
    if strict and (accelerator.product != "u65" or target.region == OWN_MEMORY):
        _require(source.length_bytes % _ALIGNMENT == 0, f"a copy is of {source.length_bytes} bytes, no multiple of 16")
    values = (source.region, source.offset_bytes, target.region, target.offset_bytes, source.length_bytes)
    return list(zip(_COPY, values, strict=True))


def _common(kernel: Kernel, accelerator: Accelerator, has_scale: bool, rescaled: int) -> Iterator[Setting]:
    """What all kernels set: `has_scale` if results have one factor, `rescaled` which operand alone has one."""
    ifm, ofm, window = kernel.inputs[0], kernel.output, kernel.window
    yield from _addresses(_IFM, ifm)
    yield _IFM_DEPTH, ifm.shape[2] - 1
    yield from _strides(_IFM, ifm)
    yield _IFM.precision, _precision(ifm, 2) | rescaled << 8
    yield _IFM_UPSCALE, _UPSCALE[kernel.upscale]
    yield from zip(_PADDING, kernel.padding, strict=True)
    yield from _addresses(_OFM, ofm)
    for command, extent in zip(_OFM_SHAPE, ofm.shape, strict=True):
        yield command, extent - 1
    yield from _strides(_OFM, ofm)
    yield _OFM.precision, _precision(ofm, 1) | has_scale << 8 | _ROUNDING[kernel.rounding] << 14
    if not kernel.kind.is_elementwise:
        yield _KERNEL_HEIGHT, window.dilated_h - 1
        yield _KERNEL_WIDTH, window.dilated_w - 1
        yield _KERNEL_STRIDE, _stride(kernel)
    if kernel.weights is not None and kernel.scales is not None:
        yield from _constants(_WEIGHTS, kernel.weights)
        yield from _constants(_SCALES, kernel.scales)
    yield from _activation(kernel)
    for command, extent in zip(_OFM_BLOCK, kernel.block, strict=True):
        yield command, extent - 1
    banks = layout(kernel, accelerator)
    yield _IFM_END, banks.ifm_end
    yield _ACCUMULATORS_START, banks.accumulators_start
    if len(kernel.inputs) > 1 or kernel.constant is not None:
        yield _IFM2_START, banks.ifm2_start
    yield _ACCUMULATOR_FORMAT, int(max(banks.accumulator_bits, kernel.accumulator_bits) == 40)


# --- feature maps -----------------------------------------------------------------------------------------------------


def _addresses(commands: _Map, surface: Surface) -> Iterator[Setting]:
    unit = _ALIGNMENT if surface.layout is Layout.NHCWB16 else surface.dtype.size_bytes
    yield commands.region, surface.region
    for command, offset in zip(commands.bases, surface.offsets, strict=True):
        _require(offset % unit == 0, f"a feature map begins at byte {offset}, no multiple of {unit}")
        yield command, offset
    for command, extent in zip(commands.tiles, (surface.height_0, surface.height_1, surface.width_0), strict=True):
        yield command, extent - 1 & _SHORT


def _strides(commands: _Map, surface: Surface) -> Iterator[Setting]:
    bricks = surface.layout is Layout.NHCWB16
    unit = _ALIGNMENT if bricks else surface.dtype.size_bytes
    for stride in (surface.stride_y, surface.stride_c if bricks else surface.stride_x):
        _require(stride % unit == 0, f"a feature map has a stride of {stride} bytes, no multiple of {unit}")
    yield from zip(commands.strides, (surface.stride_c, surface.stride_y, surface.stride_x), strict=True)
    yield commands.zero_point, surface.zero_point & _SHORT


def _precision(surface: Surface, at: int) -> int:
    """Sign, bits (their field begins at bit `at`) and layout of a feature map."""
    signed, size = surface.dtype.limits[0] < 0, _PRECISION[surface.dtype.size_bytes]
    return int(signed) | size << at | (surface.layout is Layout.NHCWB16) << 6


def _second_operand(kernel: Kernel) -> Iterator[Setting]:
    if kernel.kind in _UNARY:
        return
    swapped = _SWAPPED if kernel.swap_operands else 0
    if kernel.scalar is not None:
        scalar, (low, high) = kernel.scalar, kernel.scalar.dtype.limits
        _require(low <= scalar.value <= high, f"the operand {scalar.value} is no {scalar.dtype.value}")
        yield _IFM2.zero_point, scalar.zero_point & _SHORT
        yield _IFM2.precision, int(low < 0) | _PRECISION[scalar.dtype.size_bytes] << 2
        yield _IFM2_BROADCAST, swapped | _SCALAR
        yield _IFM2_SCALAR, scalar.value & _SHORT
        return
    second = kernel.constant if kernel.constant is not None else kernel.inputs[1]
    yield from _addresses(_IFM2, second)
    yield from _strides(_IFM2, second)
    yield _IFM2.precision, _precision(second, 2)
    axes = [axis for axis in range(3) if second.shape[axis] != kernel.inputs[0].shape[axis]]
    for axis in axes:
        _require(second.shape[axis] == 1, f"operands of {kernel.inputs[0].shape} and {second.shape} do not go together")
    yield _IFM2_BROADCAST, swapped | sum(1 << axis for axis in axes)


# --- what is done -----------------------------------------------------------------------------------------------------


def _stride(kernel: Kernel) -> int:
    """Strides of one bit here and the rest there, dilations, the order of the weights."""
    window = kernel.window
    x, y = window.stride_w - 1, window.stride_h - 1
    order = int(kernel.part_kernel and kernel.kind is OperationKind.CONVOLUTION)
    dilations = (window.dilation_w - 1) << 3 | (window.dilation_h - 1) << 4
    return x & 1 | (y & 1) << 1 | order << 2 | dilations | x >> 1 << 6 | y >> 1 << 9


def _constants(commands: tuple[int, int, int], where: MemoryRange) -> Iterator[Setting]:
    for what, value in (("begin at byte", where.offset_bytes), ("are of bytes", where.length_bytes)):
        _require(value % _ALIGNMENT == 0, f"constants {what} {value}, no multiple of 16")
    return zip(commands, where, strict=True)


def _activation(kernel: Kernel) -> Iterator[Setting]:
    lowest, highest = kernel.output.dtype.limits
    low, high = max(kernel.clamp[0], lowest, -(1 << 15)), min(kernel.clamp[1], highest, (1 << 15) - 1)
    if isinstance(kernel.function, TableSlot):
        slot = kernel.function.slot
        _require(0 <= slot < _TABLE_SLOTS, f"there is no slot {slot} of tables")
        value = _FIRST_TABLE + slot
        if kernel.output.dtype.size_bytes == 4:
            # Looked up by 8 bits, whatever comes out.
            value, low, high = value | _OF_INT8, max(low, -128), min(high, 127)
    else:
        value = _FUNCTION[kernel.function]
    yield _ACTIVATION, value
    yield _ACTIVATION_MIN, low & _SHORT
    yield _ACTIVATION_MAX, high & _SHORT


def _is_curve(kernel: Kernel) -> bool:
    return kernel.function in (Function.TANH, Function.SIGMOID)


def _pool_scale(kernel: Kernel) -> Factor | None:
    """The one factor of a pool's results; None where there is none, and where padding leaves fewer elements to some."""
    kind, scaling = kernel.kind, kernel.scaling
    scale = scaling if isinstance(scaling, Scale) else None
    is_explicit = scale is not None and not _NORMAL <= scale.multiplier < 2 * _NORMAL
    if not kind.is_pool:
        return None
    if not is_explicit and (kind is OperationKind.MAX_POOL or any(kernel.padding)):
        return None
    if kind is OperationKind.SUM_OVER_DEPTH and kernel.inputs[0].dtype.size_bytes == 4:
        _require(kernel.inputs[0].layout is Layout.NHWC, "sums over the depth of 32 bits are of NHWC")
    elements = kernel.window.kernel_h * kernel.window.kernel_w
    if _is_curve(kernel):
        real = 1.0 if scale is None else math.ldexp(scale.multiplier, -scale.shift)
        is_short = kernel.inputs[0].dtype.size_bytes == 2
        return of_curve(real, elements, kernel.function is Function.TANH, is_short)
    return mean_of(elements) if scale is None else (scale.multiplier, scale.shift)


def _is_scaled(kind: OperationKind) -> bool:
    return kind in (OperationKind.MUL, *_SUMS, *_SCALED_BY_RESULT)


def _elementwise_scales(kernel: Kernel) -> tuple[list[Setting], int]:
    """The factors of an elementwise kernel, the result's last, and which of the operands alone is rescaled."""
    scaling = kernel.scaling
    if isinstance(scaling, OperandScales):
        _require(kernel.kind in _SUMS, f"{kernel.kind.value} takes one factor, not scales of its operands")
        bits = 8 * kernel.inputs[0].dtype.size_bytes
        factors = of_sum(scaling, bits, _is_curve(kernel), kernel.swap_operands)
        first, second, result = factors.first, factors.second, factors.result
        settings = [(_FIRST_SCALE, _packed(first)), (_SECOND_SCALE, second & _LOW), (_OFM_SCALE, _packed(result))]
        return settings, factors.rescaled
    if kernel.kind in _SCALED_BY_RESULT:
        scale = UNSCALED if scaling is None else scaling
        return [(_OFM_SCALE, _packed(factor_of(math.ldexp(scale.multiplier, -scale.shift))))], 0
    result = (1, 0) if scaling is None or not _is_scaled(kernel.kind) else (scaling.multiplier, scaling.shift)
    alone = [(_FIRST_SCALE, 1), (_SECOND_SCALE, 1)] if kernel.kind in _SUMS else []
    return [*alone, (_OFM_SCALE, _packed(result))], 0


def _packed(factor: Factor) -> int:
    multiplier, shift = factor
    return (shift & _SHORT) << 32 | multiplier & _LOW


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CodegenError(f"the command stream cannot be written: {otherwise}")
