"""From operations with addresses to the driver payload of one NPU run, in time linear in them.

Owns the words of the command stream: registers are sent where their values change, waits stand where copies and kernels
that are in flight touch the same bytes, the driver's header stands in front. `registers` knows what is set. Tests
hold every word to Vela's emitter.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import CodegenError
from ..lowering.npu import OperationKind
from ..target import Accelerator
from .block_dependency import BANKS_WITHOUT_TABLES
from .operations import Copy, Kernel, MemoryRange, Operation, Surface, TableSlot
from .registers import OWN_MEMORY, TABLES_BYTES, WIDE, of_operation, range_of

_STOP, _CONVOLUTION, _DEPTHWISE, _POOL, _ELEMENTWISE = 0, 2, 3, 5, 6
_COPY_START, _COPY_WAIT, _KERNEL_WAIT = 16, 17, 18
_PARALLEL_MODE, _BLOCKDEP = 291, 303
_STOP_MASK = 0xFFFF
_COMMANDS = {
    OperationKind.CONVOLUTION: (_CONVOLUTION, 0),
    OperationKind.DEPTHWISE: (_DEPTHWISE, 0),
    OperationKind.MAX_POOL: (_POOL, 0),
    OperationKind.AVERAGE_POOL: (_POOL, 1),
    OperationKind.SUM_OVER_DEPTH: (_POOL, 2),
    OperationKind.MUL: (_ELEMENTWISE, 0),
    OperationKind.ADD: (_ELEMENTWISE, 1),
    OperationKind.SUB: (_ELEMENTWISE, 2),
    OperationKind.MINIMUM: (_ELEMENTWISE, 3),
    OperationKind.MAXIMUM: (_ELEMENTWISE, 4),
    OperationKind.LEAKY_RELU: (_ELEMENTWISE, 5),
    OperationKind.ABS: (_ELEMENTWISE, 6),
    OperationKind.CLZ: (_ELEMENTWISE, 7),
    OperationKind.SHR: (_ELEMENTWISE, 8),
    OperationKind.SHL: (_ELEMENTWISE, 9),
}
"""The command that starts a kernel of each kind, and its parameter."""

_KERNELS_IN_FLIGHT = 2
_COPIES_IN_FLIGHT = {"u55": 1, "u65": 2}
_ADDRESS_BITS = {"u55": 32, "u65": 40}
_MOST_BYTES = 1 << 24
_BANK_BYTES = 1024

# The driver's header: a mark, the configuration and the identity that the stream is for, words that do nothing up to a
# multiple of 16 bytes, the stream's length in words.
_MARK, _CONFIGURATION, _NOTHING, _STREAM = 0x31504F43, 0x00100001, 5, 2
_U65_PRODUCT = 1 << 28
_IDENTITY = 0x10060000


def payload(operations: Sequence[Operation], blockdeps: Sequence[int], accelerator: Accelerator) -> bytes:
    """The driver payload of these operations, with waits between copies and kernels where they depend.

    `blockdeps` holds the BLOCKDEP of each kernel in order (see `block_dependency`). Raises `CodegenError` for what the
    NPU cannot do: an alignment, a block that does not fit, a byte beyond its addresses, a stream of 16 MiB.
    """
    stream = _Stream(accelerator)
    left = iter(blockdeps)
    for operation in operations:
        stream.add(operation, next(left) if isinstance(operation, Kernel) else 0)
    words = stream.ended()
    if 4 * len(words) >= _MOST_BYTES:
        raise CodegenError(f"the command stream has {4 * len(words):,} bytes; the NPU takes less than {_MOST_BYTES:,}")
    header = [_MARK, _CONFIGURATION, _configuration(accelerator), _IDENTITY, _NOTHING, _NOTHING, _NOTHING]
    header.append(_STREAM | len(words) >> 16 << 8 | (len(words) & 0xFFFF) << 16)
    return struct.pack(f"<{len(header) + len(words)}I", *header, *words)


def _configuration(accelerator: Accelerator) -> int:
    """Multiply-accumulates as a power of two, KiB of the NPU's own memory, and the product."""
    product = _U65_PRODUCT if accelerator.product == "u65" else 0
    return accelerator.macs.bit_length() - 1 | accelerator.shram_banks << 8 | product


class _Access(NamedTuple):
    """The bytes that an operation reads and writes."""

    reads: tuple[MemoryRange, ...]
    writes: tuple[MemoryRange, ...]

    def conflicts(self, other: _Access) -> bool:
        """Whether one of them writes what the other one touches."""
        return _meet(self.writes, other.writes) or _meet(self.writes, other.reads) or _meet(self.reads, other.writes)


def _meet(some: Sequence[MemoryRange], others: Sequence[MemoryRange]) -> bool:
    return any(
        a.region == b.region
        and a.offset_bytes < b.offset_bytes + b.length_bytes
        and b.offset_bytes < a.offset_bytes + a.length_bytes
        for a in some
        for b in others
    )


class _Stream:
    """A command stream as it grows: its words, what registers hold, and what is in flight."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._words: list[int] = []
        self._held: dict[int, int] = {}
        self._kernels: deque[_Access] = deque(maxlen=_KERNELS_IN_FLIGHT)
        self._copies: deque[_Access] = deque(maxlen=_COPIES_IN_FLIGHT[accelerator.product])
        if accelerator.product == "u65":
            self._set(_PARALLEL_MODE, accelerator.cores - 1)

    def add(self, operation: Operation, blockdep: int) -> None:
        """Emit an operation; the BLOCKDEP is a kernel's."""
        access = self._access(operation)
        for command, value in of_operation(operation, self._accelerator):
            self._set(command, value)
        if isinstance(operation, Copy):
            self._wait(_KERNEL_WAIT, self._kernels, access)
            self._copies.append(access)
            self._words.append(_COPY_START)
            return
        self._wait(_COPY_WAIT, self._copies, access)
        self._kernels.append(access)
        self._set(_BLOCKDEP, blockdep)
        command, parameter = _COMMANDS[operation.kind]
        self._words.append(command | parameter << 16)

    def ended(self) -> list[int]:
        """All words, with the end of the stream."""
        return [*self._words, _STOP | _STOP_MASK << 16]

    def _set(self, command: int, value: int) -> None:
        """Send a register where its value changes."""
        if self._held.get(command) == value:
            return
        self._held[command] = value
        if command & WIDE:
            self._words += command | (value >> 32 & 0xFFFF) << 16, value & 0xFFFFFFFF
        else:
            self._words.append(command | (value & 0xFFFF) << 16)

    def _wait(self, command: int, in_flight: deque[_Access], access: _Access) -> None:
        """Wait until the last one in flight that touches the same bytes, and with it all before, has ended."""
        for after, other in enumerate(reversed(in_flight)):
            if other.conflicts(access):
                self._words.append(command | after << 16)
                for _ in range(len(in_flight) - after):
                    in_flight.popleft()
                return

    def _access(self, operation: Operation) -> _Access:
        """What an operation touches, tables and the buffers that may lie over them included. Raises `CodegenError`."""
        if isinstance(operation, Copy):
            source, target = (range_of(end, self._accelerator) for end in (operation.source, operation.destination))
            access = _Access((source,), (target,))
        else:
            access = self._of_kernel(operation)
        own, others = self._accelerator.shram_banks * _BANK_BYTES, 1 << _ADDRESS_BITS[self._accelerator.product]
        for region, offset, length in (*access.reads, *access.writes):
            most = own if region == OWN_MEMORY else others
            if not 0 <= offset <= offset + length <= most:
                raise CodegenError(
                    f"bytes {offset} to {offset + length} of region {region} are beyond what {self._accelerator.name} "
                    f"addresses, {most}"
                )
        return access

    def _of_kernel(self, kernel: Kernel) -> _Access:
        own = self._accelerator.shram_banks * _BANK_BYTES
        looks_up = isinstance(kernel.function, TableSlot)
        # Small NPUs have no banks for tables alone: buffers of kernels that look nothing up may lie over them.
        covers = self._accelerator.shram_banks <= BANKS_WITHOUT_TABLES and not looks_up
        buffers = MemoryRange(OWN_MEMORY, 0, own if covers else own - TABLES_BYTES)
        reads = [tile for surface in kernel.inputs for tile in _tiles(surface)]
        if kernel.constant is not None:
            reads += _tiles(kernel.constant)
        reads += [constants for constants in (kernel.weights, kernel.scales) if constants is not None]
        if looks_up:
            reads.append(MemoryRange(OWN_MEMORY, own - TABLES_BYTES, TABLES_BYTES))
        return _Access(tuple(reads), (*_tiles(kernel.output), buffers))


def _tiles(surface: Surface) -> Iterator[MemoryRange]:
    """From the first to the last byte of each tile in use."""
    height, width, _ = surface.shape
    rows = min(height, surface.height_0), min(height, surface.height_1), height - surface.height_0
    columns = min(width, surface.width_0), width - surface.width_0
    reach = surface.channel_reach
    tiles = ((0, rows[0], columns[0]), (1, rows[1], columns[1]), (2, rows[2], columns[0]))
    for tile, high, wide in (*tiles, (3, height - surface.height_1 if rows[2] > 0 else 0, columns[1])):
        if high > 0 and wide > 0:
            length = (high - 1) * surface.stride_y + (wide - 1) * surface.stride_x + reach
            yield MemoryRange(surface.region, surface.offsets[tile], length)
