"""Where a kernel's buffers lie in the NPU's own memory: operands from the start, accumulators up to the end.

Owns the arithmetic of its banks and the limits of OFM blocks. The simulator judges layouts with arithmetic of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import CodegenError
from ..lowering.npu import OperationKind, Upscale
from ..target import Accelerator
from .operations import Kernel, TableSlot

_BANK_BYTES = 1024
_OUTPUT_BANKS = 2
_TABLE_BANKS = 2
_ALWAYS_KEPT_ABOVE = 16
"""NPUs of more banks than these keep the last ones for tables, whether or not a kernel looks anything up."""

_LARGEST_BLOCK = (32, 64, 128)
_WINDOW_PIECE = 8
"""Windows are taken in pieces of so many rows and columns."""


class _Granules(NamedTuple):
    """Banks are taken in multiples, by use: operands of 8, 16 and 32 bits, accumulators of 32 and 40."""

    ifm8: int
    ifm16: int
    ifm32: int
    accumulators32: int
    accumulators40: int


_GRANULES = {
    32: _Granules(2, 2, 4, 4, 4),
    64: _Granules(2, 2, 4, 4, 8),
    128: _Granules(4, 4, 8, 8, 12),
    256: _Granules(8, 8, 16, 16, 20),
}
"""By multiply-accumulates per cycle."""


class SharedBuffer(NamedTuple):
    """Banks of a kernel: one past the last of its operands, the first of the second operand and of the accumulators."""

    ifm_end: int
    ifm2_start: int
    accumulators_start: int
    accumulator_bits: int


def layout(kernel: Kernel, accelerator: Accelerator) -> SharedBuffer:
    """The banks of a kernel's buffers. Raises `CodegenError` for a block that is none or does not fit."""
    block, micro = kernel.block, accelerator.micro_block
    if any(not 0 < n <= most or n % unit for n, most, unit in zip(block, _LARGEST_BLOCK, micro, strict=True)):
        raise _refused(kernel, f"it is not within {_LARGEST_BLOCK} and of multiples of {micro}", accelerator)
    granules, bits = _GRANULES[accelerator.macs], 8 * kernel.inputs[0].dtype.size_bytes
    kept = accelerator.shram_banks > _ALWAYS_KEPT_ABOVE or isinstance(kernel.function, TableSlot)
    end = accelerator.shram_banks - (_TABLE_BANKS if kept else 0)
    granule = {8: granules.ifm8, 16: granules.ifm16}.get(bits, granules.ifm32)
    operand = _banks(_operand_bytes(kernel, accelerator, bits), granule)
    first_end = _OUTPUT_BANKS + operand
    # 16 bits add up beyond 32 in everything but pools of a window.
    wide = bits == 16 and kernel.kind not in (OperationKind.AVERAGE_POOL, OperationKind.MAX_POOL)
    accumulator_bits = 40 if wide else 32
    if kernel.kind.is_elementwise:
        second = operand if len(kernel.inputs) > 1 or kernel.constant is not None else 0
        if first_end + second > end:
            raise _refused(kernel, f"it needs {first_end + second} banks of {end}", accelerator)
        return SharedBuffer(end, first_end, end, accumulator_bits)
    granule = granules.accumulators40 if wide else granules.accumulators32
    start = end - _banks(_accumulator_bytes(kernel, accelerator, accumulator_bits), granule)
    if first_end > start:
        raise _refused(kernel, f"it needs {first_end + end - start} banks of {end}", accelerator)
    return SharedBuffer(first_end, first_end, start, accumulator_bits)


def _operand_bytes(kernel: Kernel, accelerator: Accelerator, bits: int) -> int:
    """Bytes of the inputs of one block."""
    window, (height, width, depth) = kernel.window, kernel.block
    rows = _extent(height, window.stride_h, window.dilated_h, kernel.upscale, accelerator.micro_block[0])
    columns = _extent(width, window.stride_w, window.dilated_w, kernel.upscale, accelerator.micro_block[1])
    if kernel.kind.reads_whole_depth:
        deep = kernel.inputs[0].shape[2]
        depth = _up(min(deep, 16), 4) if bits == 16 else _up(min(deep, 16 if kernel.part_kernel else 32), 8)
    return rows * columns * _up(depth * bits // 8, 8)


def _extent(block: int, stride: int, dilated: int, upscale: Upscale, micro: int) -> int:
    reach = (block - 1) * stride + min(dilated, _WINDOW_PIECE) + (upscale is Upscale.NEAREST)
    return _up(-(-reach // upscale.factor), micro)


def _accumulator_bytes(kernel: Kernel, accelerator: Accelerator, bits: int) -> int:
    height, width, depth = kernel.block
    # A single row fills micro-blocks of two rows lying flat, and takes the accumulators of one.
    if kernel.output.shape[0] == 1 and kernel.window.kernel_h == 1 and accelerator.micro_block[0] == 2:
        height = 1
    return height * width * _up(depth, 8) * bits // 8


def _banks(size_bytes: int, granule: int) -> int:
    """Banks of a double buffer."""
    return _up(2 * -(-size_bytes // _BANK_BYTES), granule)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _refused(kernel: Kernel, why: str, accelerator: Accelerator) -> CodegenError:
    what = f"the OFM block {kernel.block} of a {kernel.kind.value} kernel does not fit {accelerator.name}"
    return CodegenError(f"{what}: {why}")
