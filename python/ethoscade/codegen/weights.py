"""The constants blob: compressed weights and scale records, and constant operands, as NPU region 0 holds them.

Owns the blob's layout. How weights are compressed is `streams`'; the scale records are packed here.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..lowering.feature_maps import ConstantMap
from ..lowering.npu import (
    NpuOperation,
    Table,
    Weights,
    tables_of,
)
from ..scheduling.program import Portion, Whole
from ..targets.target import Accelerator
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .artifact import ConstantPlace
from .streams import WEIGHT_ENCODERS, EncodingChoice, Stream, Streams, WrittenStream

ALIGNMENT = 16
SCALE_RECORD_BYTES = 10

_WHOLE: tuple[Whole, ...] = ("in_place", "staged")


@dataclass(frozen=True)
class SliceChoice:
    """Constants once more, in slices of `depth` output channels, each encoded by `choice` for its own operation."""

    depth: int
    choice: EncodingChoice


@dataclass(frozen=True, eq=False)
class EncodedChannels:
    """The weight stream and scale records for output channels [first_channel, first_channel + channels).

    A constant second operand, filled up to 16 bytes, stands in the place of weights, without scale records.
    """

    weights: Stream = field(repr=False)
    scales: bytes = field(repr=False)
    choice: EncodingChoice
    first_channel: int
    channels: int

    @property
    def length_bytes(self) -> int:
        """Bytes of weights and scales together."""
        return self.weights.length_bytes + len(self.scales)

    @property
    def content(self) -> tuple[Hashable, Hashable]:
        """Of streams and scale records, each equal for equal ones."""
        return self.weights.content, self.scales


@dataclass(frozen=True, eq=False)
class EncodedOperation:
    """An operation's constants as a whole, None if it has none, once more for being copied, and in slices."""

    whole: EncodedChannels | None
    staged: EncodedChannels | None = None
    slices: tuple[EncodedChannels, ...] = ()

    def portion(self, portion: Portion) -> EncodedChannels | None:
        """The constants that a step uses; None if there are none."""
        if isinstance(portion, str):
            return self.staged if portion == "staged" and self.staged is not None else self.whole
        return self.slices[portion]


@dataclass(frozen=True)
class OperationConstants:
    """Where one operation's constants, or one slice of them, lie in the blob: weights at `offset`, and scales.

    Offsets and lengths are bytes and multiples of 16. Scales of constants that are copied lie right behind the weights,
    so that one DMA of `length_bytes` from `offset` moves both.
    """

    offset: int
    scales_offset: int
    weights_bytes: int
    scales_bytes: int
    choice: EncodingChoice
    first_channel: int = 0
    channels: int = 0

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


class Encoder:
    """Encodes operation after operation: those that share `Weights`, as the steps of an LSTM do, once."""

    def __init__(self, accelerator: Accelerator, weight_encoder: str = WEIGHT_ENCODERS[0]) -> None:
        self._streams = Streams(accelerator, weight_encoder)
        self._known: dict[tuple[object, ...], EncodedOperation] = {}

    def encode(
        self,
        operation: NpuOperation,
        choice: EncodingChoice,
        staged: EncodingChoice | None = None,
        slices: SliceChoice | None = None,
    ) -> EncodedOperation:
        """Compress an operation's constants as a whole, with `staged` once more so, with `slices` in slices too.

        Raises `CodegenError`.
        """
        if isinstance(operation.ifm2, ConstantMap):
            data, channels = WrittenStream(_filled_up(operation.ifm2.data)), operation.ofm.shape[2]
            copy = None if staged is None else EncodedChannels(data, b"", staged, 0, channels)
            return EncodedOperation(EncodedChannels(data, b"", choice, 0, channels), copy)
        if operation.weights is None:
            return EncodedOperation(None)
        window = operation.window
        how = (operation.kind, operation.ifm.dtype, window.dilation_h, window.dilation_w, choice, staged, slices)
        key = (operation.weights, *how)
        if key not in self._known:
            self._known[key] = self._weighted(operation, choice, staged, slices)
        return self._known[key]

    def length_bytes(self, operation: NpuOperation, choice: EncodingChoice) -> int:
        """Bytes of an operation's weights and scale records as a whole. Raises `CodegenError`."""
        assert operation.weights is not None, "callers ask of operations with weights"
        channels = len(operation.weights.bias)
        scales = -(-channels * SCALE_RECORD_BYTES // ALIGNMENT) * ALIGNMENT
        return self._streams.of(operation, choice, 0, channels).length_bytes + scales

    def _weighted(
        self, operation: NpuOperation, choice: EncodingChoice, staged: EncodingChoice | None, slices: SliceChoice | None
    ) -> EncodedOperation:
        assert operation.weights is not None, "callers ask of operations with weights"
        channels = len(operation.weights.bias)
        whole = self._encoded(operation, choice, 0, channels)
        copied = None if staged is None else self._encoded(operation, staged, 0, channels)
        if slices is None:
            return EncodedOperation(whole, copied)
        parts = tuple(
            self._encoded(operation, slices.choice, first, min(slices.depth, channels - first))
            for first in range(0, channels, slices.depth)
        )
        return EncodedOperation(whole, copied, parts)

    def _encoded(self, operation: NpuOperation, choice: EncodingChoice, first: int, channels: int) -> EncodedChannels:
        assert operation.weights is not None, "callers ask of operations with weights"
        stream = self._streams.of(operation, choice, first, channels)
        return EncodedChannels(stream, encode_scales(operation.weights, first, channels), choice, first, channels)


def lay_out(
    encoded: Sequence[EncodedOperation],
    used: Collection[tuple[int, Portion]] | None = None,
    tables: Sequence[Table] = (),
) -> Constants:
    """The blob of what is `used`, as (operation, portion); by default all as a whole, either way; then `tables`."""
    room = _laid_out(encoded, used)
    # Part after part, so that the parts of a large network are not there beside the whole.
    blob = io.BytesIO()
    for part in room.parts:
        blob.write(part if isinstance(part, bytes) else part.write())
    offsets: dict[Table, int] = {}
    for table in tables:
        offsets[table] = blob.tell()
        blob.write(table.data)
    return Constants(blob.getvalue(), FrozenMap(room.places), FrozenMap(offsets))


def places_of(
    constants: Constants, operations: Sequence[NpuOperation], names: Sequence[str]
) -> tuple[ConstantPlace, ...]:
    """Whose the bytes of the constants are; `names` are those of the operations' operators."""
    found: list[ConstantPlace] = []
    for (number, _), place in constants.places.items():
        kind = "operand" if isinstance(operations[number].ifm2, ConstantMap) else "weights"
        found.append(ConstantPlace(names[number], kind, place.offset, place.weights_bytes))
        if place.scales_bytes:
            found.append(ConstantPlace(names[number], "scales", place.scales_offset, place.scales_bytes))
    for operation, name in zip(operations, names, strict=True):
        table = operation.function
        if isinstance(table, Table) and table in constants.tables:
            found.append(ConstantPlace(name, "table", constants.tables[table], table.size_bytes))
    return tuple(dict.fromkeys(found))


def laid_out_bytes(encoded: Sequence[EncodedOperation], tables: Sequence[Table] = ()) -> int:
    """Bytes of the blob of all constants as a whole, each way in which they are encoded, and of `tables`."""
    ways = [_WHOLE if operation.staged is not None else _WHOLE[:1] for operation in encoded]
    used = [(operation, whole) for operation, either in enumerate(ways) for whole in either]
    return _laid_out(encoded, used).end + sum(table.size_bytes for table in tables)


class _Room:
    """A blob in the making: equal streams and equal scale records lie there once."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, Portion], OperationConstants] = {}
        self.parts: list[Stream | bytes] = []
        self.end = 0
        self._known: dict[Hashable, int] = {}
        self._together: dict[Hashable, tuple[int, int]] = {}

    def place(self, chunk: EncodedChannels, together: bool) -> tuple[int, int]:
        """Where the weights and the scales of a chunk lie, the scales right behind the weights if `together`."""
        if chunk.content in self._together:
            return self._together[chunk.content]
        weights, scales = chunk.content
        if not together and (weights in self._known or scales in self._known):
            return self._part(weights, chunk.weights), self._part(scales, chunk.scales)
        found = self._anew(weights, chunk.weights), self._anew(scales, chunk.scales)
        self._together[chunk.content] = found
        return found

    def _part(self, content: Hashable, part: Stream | bytes) -> int:
        return self._known[content] if content in self._known else self._anew(content, part)

    def _anew(self, content: Hashable, part: Stream | bytes) -> int:
        offset = self.end
        self._known.setdefault(content, offset)
        self.parts.append(part)
        self.end += len(part) if isinstance(part, bytes) else part.length_bytes
        return offset


def _laid_out(encoded: Sequence[EncodedOperation], used: Collection[tuple[int, Portion]] | None) -> _Room:
    """Where each portion lies that is used: operation by operation, what is whole first."""
    if used is None:
        used = [(operation, whole) for operation in range(len(encoded)) for whole in _WHOLE]
    room = _Room()
    for operation, portion in sorted(used, key=_order):
        chunk = encoded[operation].portion(portion)
        if chunk is None:
            continue
        offset, scales_offset = room.place(chunk, together=portion != "in_place")
        sizes = chunk.weights.length_bytes, len(chunk.scales)
        room.places[operation, portion] = OperationConstants(
            offset, scales_offset, *sizes, chunk.choice, chunk.first_channel, chunk.channels
        )
    return room


def contents(encoded: Sequence[EncodedOperation]) -> list[tuple[tuple[int, int], ...]]:
    """By operation, which bytes its constants are: in place, copied as a whole, slice by slice; none if it has none.

    Each is a number for the weights and one for the scales. Equal bytes, which `lay_out` keeps once, have equal
    numbers.
    """
    known: dict[Hashable, int] = {}

    def numbers(operation: EncodedOperation) -> Iterator[tuple[int, int]]:
        for portion in (*_WHOLE, *range(len(operation.slices))):
            chunk = operation.portion(portion)
            if chunk is not None:
                weights, scales = (known.setdefault(content, len(known)) for content in chunk.content)
                yield weights, scales

    return [tuple(numbers(operation)) for operation in encoded]


def _order(used: tuple[int, Portion]) -> tuple[int, int, int]:
    """Operation by operation, what is whole first."""
    operation, portion = used
    return (operation, 0, _WHOLE.index(portion)) if isinstance(portion, str) else (operation, 1, portion)


def encode_scales(weights: Weights, first: int = 0, channels: int | None = None) -> bytes:
    """One record of 10 bytes per output channel from `first` on, little-endian, the whole padded to 16 bytes.

    Bytes 0-4 the bias (40 bits, signed), 5-8 the multiplier, 9 the shift.
    """
    span = slice(first, None if channels is None else first + channels)
    records = np.empty((len(weights.bias[span]), SCALE_RECORD_BYTES), np.uint8)
    records[:, 0:5] = _bytes(weights.bias[span])[:, :5]
    records[:, 5:9] = _bytes(weights.multipliers[span])[:, :4]
    records[:, 9] = weights.shifts[span]
    return _filled_up(records.tobytes())


def _filled_up(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
