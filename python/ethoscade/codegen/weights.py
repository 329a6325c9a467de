"""The constants blob: compressed weights and scale records, and constant operands, as NPU region 0 holds them.

Owns the blob's layout. The weight compression itself is behind `vela`; the scale records are packed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..lowering.npu import ConstantMap, NpuOperation, OperationKind, Table, Weights, tables_of
from ..scheduling.program import Portion, Whole
from ..target import Accelerator
from ..util.frozen import FrozenMap
from . import vela

ALIGNMENT = 16
SCALE_RECORD_BYTES = 10

_WHOLE: tuple[Whole, ...] = ("in_place", "staged")


@dataclass(frozen=True)
class EncodingChoice:
    """How an operation's weights are laid out: depth of the OFM block they serve, and part-kernel-first order.

    Part-kernel-first exists for convolutions only. Operations without weights ignore their choice.
    """

    block_depth: int
    part_kernel: bool = False


@dataclass(frozen=True)
class SliceChoice:
    """Constants once more, in slices of `depth` output channels, each encoded by `choice` for its own operation."""

    depth: int
    choice: EncodingChoice


@dataclass(frozen=True, eq=False)
class Encoded:
    """The weight stream and scale records for output channels [first_channel, first_channel + channels).

    A constant second operand, filled up to 16 bytes, stands in the place of weights, without scale records.
    """

    weights: bytes = field(repr=False)
    scales: bytes = field(repr=False)
    choice: EncodingChoice
    first_channel: int
    channels: int

    @property
    def length_bytes(self) -> int:
        """Bytes of weights and scales together."""
        return len(self.weights) + len(self.scales)


@dataclass(frozen=True, eq=False)
class EncodedOperation:
    """An operation's constants as a whole, None if it has none, once more for being copied, and in slices."""

    whole: Encoded | None
    staged: Encoded | None = None
    slices: tuple[Encoded, ...] = ()

    def portion(self, portion: Portion) -> Encoded | None:
        """The constants that a step uses; None if there are none."""
        if isinstance(portion, str):
            return self.staged if portion == "staged" and self.staged is not None else self.whole
        return self.slices[portion]


@dataclass(frozen=True)
class OperationConstants:
    """Where one operation's constants, or one slice of them, lie in the blob: weights at `offset`, scales right behind.

    Offsets and lengths are bytes and multiples of 16, so that one DMA of `length_bytes` from `offset` operations both.
    """

    offset: int
    weights_bytes: int
    scales_bytes: int
    choice: EncodingChoice
    first_channel: int = 0
    channels: int = 0

    @property
    def scales_offset(self) -> int:
        """Offset of the scale records in the blob."""
        return self.offset + self.weights_bytes

    @property
    def length_bytes(self) -> int:
        """Bytes of weights and scales together."""
        return self.weights_bytes + self.scales_bytes


@dataclass(frozen=True, eq=False)
class Constants:
    """Region 0: the blob (a multiple of 16 bytes) and where each operation's constants lie there.

    `places` is by operation and portion, `tables` the offset of each table.
    """

    blob: bytes = field(repr=False)
    places: Mapping[tuple[int, Portion], OperationConstants]
    tables: Mapping[Table, int] = field(default_factory=lambda: FrozenMap[Table, int]({}))

    def place(self, operation: int, portion: Portion = "in_place") -> OperationConstants | None:
        """Where an operation's constants, or one slice of them, lie; None if they are not there."""
        return self.places.get((operation, portion))


def encode(
    operations: Sequence[NpuOperation], accelerator: Accelerator, choices: Sequence[EncodingChoice]
) -> Constants:
    """Compress and lay out the constants of all operations; `choices` has one entry per operation.

    Operations with identical constants share them. Equal arguments give equal bytes. Raises `CodegenError` for a choice
    that the NPU does not have or weights that cannot be encoded.
    """
    if len(choices) != len(operations):
        raise CodegenError(
            f"{len(choices)} encoding choices for {len(operations)} operations; one per operation is needed"
        )
    encoder = Encoder(accelerator)
    encoded = [encoder.encode(o, c) for o, c in zip(operations, choices, strict=True)]
    return lay_out(encoded, tables=tables_of(operations))


def encode_operation(
    operation: NpuOperation,
    accelerator: Accelerator,
    choice: EncodingChoice,
    staged: EncodingChoice | None = None,
    slices: SliceChoice | None = None,
) -> EncodedOperation:
    """Compress an operation's constants as a whole, with `staged` once more so, with `slices` in slices too.

    Raises `CodegenError`.
    """
    if isinstance(operation.ifm2, ConstantMap):
        data = _filled_up(operation.ifm2.data)
        channels = operation.ofm.shape[2]
        copy = None if staged is None else Encoded(data, b"", staged, 0, channels)
        return EncodedOperation(Encoded(data, b"", choice, 0, channels), copy)
    if operation.weights is None:
        return EncodedOperation(None)
    channels = len(operation.weights.bias)
    whole = _encode(operation, accelerator, choice, 0, channels)
    copied = None if staged is None else _encode(operation, accelerator, staged, 0, channels)
    if slices is None:
        return EncodedOperation(whole, copied)
    parts = tuple(
        _encode(operation, accelerator, slices.choice, first, min(slices.depth, channels - first))
        for first in range(0, channels, slices.depth)
    )
    return EncodedOperation(whole, copied, parts)


class Encoder:
    """Encodes operation after operation: those that share `Weights`, as the steps of an LSTM do, once."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._known: dict[tuple[object, ...], EncodedOperation] = {}

    def encode(
        self,
        operation: NpuOperation,
        choice: EncodingChoice,
        staged: EncodingChoice | None = None,
        slices: SliceChoice | None = None,
    ) -> EncodedOperation:
        """As `encode_operation`."""
        if operation.weights is None:
            return encode_operation(operation, self._accelerator, choice, staged, slices)
        window = operation.window
        how = (operation.kind, operation.ifm.dtype, window.dilation_h, window.dilation_w, choice, staged, slices)
        key = (operation.weights, *how)
        if key not in self._known:
            self._known[key] = encode_operation(operation, self._accelerator, choice, staged, slices)
        return self._known[key]


def lay_out(
    encoded: Sequence[EncodedOperation],
    used: Collection[tuple[int, Portion]] | None = None,
    tables: Sequence[Table] = (),
) -> Constants:
    """The blob of what is `used`, as (operation, portion); by default all as a whole, either way; then `tables`."""
    if used is None:
        used = [(operation, whole) for operation in range(len(encoded)) for whole in _WHOLE]
    chunks: list[bytes] = []
    end = 0
    known: dict[tuple[bytes, bytes], int] = {}
    places: dict[tuple[int, Portion], OperationConstants] = {}
    for operation, portion in sorted(used, key=_order):
        chunk = encoded[operation].portion(portion)
        if chunk is None:
            continue
        offset = known.setdefault((chunk.weights, chunk.scales), end)
        if offset == end:
            chunks += chunk.weights, chunk.scales
            end += chunk.length_bytes
        places[operation, portion] = OperationConstants(
            offset, len(chunk.weights), len(chunk.scales), chunk.choice, chunk.first_channel, chunk.channels
        )
    offsets: dict[Table, int] = {}
    for table in tables:
        offsets[table] = end
        chunks.append(table.data)
        end += table.size_bytes
    return Constants(b"".join(chunks), FrozenMap(places), FrozenMap(offsets))


def contents(encoded: Sequence[EncodedOperation]) -> list[tuple[int, ...]]:
    """By operation, which bytes its constants are: in place, copied as a whole, slice by slice; none if it has none.

    Equal bytes, which `lay_out` keeps once, have equal numbers.
    """
    known: dict[tuple[bytes, bytes], int] = {}

    def numbers(operation: EncodedOperation) -> Iterator[int]:
        for portion in (*_WHOLE, *range(len(operation.slices))):
            chunk = operation.portion(portion)
            if chunk is not None:
                yield known.setdefault((chunk.weights, chunk.scales), len(known))

    return [tuple(numbers(operation)) for operation in encoded]


def _order(used: tuple[int, Portion]) -> tuple[int, int, int]:
    """Operation by operation, what is whole first."""
    operation, portion = used
    return (operation, 0, _WHOLE.index(portion)) if isinstance(portion, str) else (operation, 1, portion)


def _encode(
    operation: NpuOperation, accelerator: Accelerator, choice: EncodingChoice, first: int, channels: int
) -> Encoded:
    if operation.weights is None:
        raise CodegenError(f"operation '{operation.name}' ({operation.kind.value}) has no weights to encode")
    span = slice(first, first + channels)
    weights = operation.weights
    part = replace(
        weights,
        values=weights.values[span],
        bias=weights.bias[span],
        multipliers=weights.multipliers[span],
        shifts=weights.shifts[span],
    )
    stream = encode_weights(replace(operation, weights=part), accelerator, choice)
    return Encoded(stream, encode_scales(part), choice, first, channels)


def encode_weights(operation: NpuOperation, accelerator: Accelerator, choice: EncodingChoice) -> bytes:
    """The compressed weight stream of one operation, padded to 16 bytes. Precondition: the operation has weights."""
    if operation.weights is None:
        raise CodegenError(f"operation '{operation.name}' ({operation.kind.value}) has no weights to encode")
    depthwise = operation.kind is OperationKind.DEPTHWISE
    if depthwise and choice.part_kernel:
        raise CodegenError(
            f"operation '{operation.name}' is depthwise; part-kernel-first order exists for convolutions only"
        )
    depth = accelerator.micro_block[2]
    if choice.block_depth < 1 or choice.block_depth % depth:
        raise CodegenError(
            f"operation '{operation.name}': block depth {choice.block_depth} is not a positive multiple of {depth}, "
            f"the micro-block of {accelerator.name}"
        )
    dilation = (operation.window.dilation_h, operation.window.dilation_w)
    weights = operation.weights
    return vela.encode_weights(
        accelerator,
        weights.values,
        weights.zero_point,
        dilation,
        choice.block_depth,
        depthwise,
        choice.part_kernel,
        8 * operation.ifm.dtype.size_bytes,
    )


def encode_scales(weights: Weights) -> bytes:
    """One record of 10 bytes per output channel, little-endian, the whole padded to 16 bytes.

    Bytes 0-4 the bias (40 bits, signed), 5-8 the multiplier, 9 the shift.
    """
    channels = len(weights.bias)
    records = np.empty((channels, SCALE_RECORD_BYTES), np.uint8)
    records[:, 0:5] = _bytes(weights.bias)[:, :5]
    records[:, 5:9] = _bytes(weights.multipliers)[:, :4]
    records[:, 9] = weights.shifts
    return _filled_up(records.tobytes())


def _filled_up(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
