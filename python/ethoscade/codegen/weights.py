"""The constants blob: every stage's compressed weights and scale records, as NPU region 0 holds them.

Owns the blob's layout. The weight compression itself is behind `vela`; the scale records are packed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..errors import CodegenError
from ..lowering.stage import Primitive, Stage, Weights
from ..target import Accelerator
from . import vela

ALIGNMENT = 16
SCALE_RECORD_BYTES = 10


@dataclass(frozen=True)
class EncodingChoice:
    """How a stage's weights are laid out: depth of the OFM block they serve, and part-kernel-first order.

    Part-kernel-first exists for convolutions only. Stages without weights ignore their choice.
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
    """The weight stream and scale records for output channels [first_channel, first_channel + channels)."""

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
class EncodedStage:
    """A stage's constants as a whole, None without weights, and in slices, if a slice choice was made."""

    whole: Encoded | None
    slices: tuple[Encoded, ...] = ()


@dataclass(frozen=True)
class StageConstants:
    """Where one stage's constants, or one slice of them, lie in the blob: weights at `offset`, scales right behind.

    Offsets and lengths are bytes and multiples of 16, so that one DMA of `length_bytes` from `offset` stages both.
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
    """Region 0: the blob (a multiple of 16 bytes) and where each stage's constants lie there.

    `stages` has one entry per stage, None for what is not there; `slices` is by stage and slice.
    """

    blob: bytes = field(repr=False)
    stages: tuple[StageConstants | None, ...]
    slices: Mapping[tuple[int, int], StageConstants] = field(default_factory=lambda: MappingProxyType({}))

    def place(self, stage: int, slice_: int | None) -> StageConstants | None:
        """Where a stage's constants, or one slice of them, lie; None if they are not there."""
        return self.stages[stage] if slice_ is None else self.slices.get((stage, slice_))


def encode(stages: Sequence[Stage], accelerator: Accelerator, choices: Sequence[EncodingChoice]) -> Constants:
    """Compress and lay out the constants of all stages; `choices` has one entry per stage.

    Stages with identical constants share them. Equal arguments give equal bytes. Raises `CodegenError` for a choice
    that the NPU does not have or weights that cannot be encoded.
    """
    if len(choices) != len(stages):
        raise CodegenError(f"{len(choices)} encoding choices for {len(stages)} stages; one per stage is needed")
    return lay_out([encode_stage(s, accelerator, c) for s, c in zip(stages, choices, strict=True)])


def encode_stage(
    stage: Stage, accelerator: Accelerator, choice: EncodingChoice, slices: SliceChoice | None = None
) -> EncodedStage:
    """Compress a stage's constants, once as a whole and, with `slices`, once in slices. Raises `CodegenError`."""
    if stage.weights is None:
        return EncodedStage(None)
    channels = len(stage.weights.bias)
    whole = _encode(stage, accelerator, choice, 0, channels)
    if slices is None:
        return EncodedStage(whole)
    parts = tuple(
        _encode(stage, accelerator, slices.choice, first, min(slices.depth, channels - first))
        for first in range(0, channels, slices.depth)
    )
    return EncodedStage(whole, parts)


def lay_out(encoded: Sequence[EncodedStage], used: Collection[tuple[int, int | None]] | None = None) -> Constants:
    """The blob of what is `used`, as (stage, slice or None for the whole); by default every stage as a whole."""
    if used is None:
        used = [(stage, None) for stage in range(len(encoded))]
    blob = bytearray()
    known: dict[bytes, int] = {}
    stages: list[StageConstants | None] = [None] * len(encoded)
    slices: dict[tuple[int, int], StageConstants] = {}
    for stage, slice_ in sorted(used, key=lambda entry: (entry[0], -1 if entry[1] is None else entry[1])):
        chunk = encoded[stage].whole if slice_ is None else encoded[stage].slices[slice_]
        if chunk is None:
            continue
        data = chunk.weights + chunk.scales
        offset = known.setdefault(data, len(blob))
        if offset == len(blob):
            blob += data
        place = StageConstants(
            offset, len(chunk.weights), len(chunk.scales), chunk.choice, chunk.first_channel, chunk.channels
        )
        if slice_ is None:
            stages[stage] = place
        else:
            slices[stage, slice_] = place
    return Constants(bytes(blob), tuple(stages), MappingProxyType(slices))


def _encode(stage: Stage, accelerator: Accelerator, choice: EncodingChoice, first: int, channels: int) -> Encoded:
    if stage.weights is None:
        raise CodegenError(f"stage '{stage.name}' ({stage.primitive.value}) has no weights to encode")
    span = slice(first, first + channels)
    weights = stage.weights
    part = Weights(weights.values[span], weights.bias[span], weights.multipliers[span], weights.shifts[span])
    stream = encode_weights(replace(stage, weights=part), accelerator, choice)
    return Encoded(stream, encode_scales(part), choice, first, channels)


def encode_weights(stage: Stage, accelerator: Accelerator, choice: EncodingChoice) -> bytes:
    """The compressed weight stream of one stage, padded to 16 bytes. Precondition: the stage has weights."""
    if stage.weights is None:
        raise CodegenError(f"stage '{stage.name}' ({stage.primitive.value}) has no weights to encode")
    depthwise = stage.primitive is Primitive.DEPTHWISE
    if depthwise and choice.part_kernel:
        raise CodegenError(f"stage '{stage.name}' is depthwise; part-kernel-first order exists for convolutions only")
    depth = accelerator.micro_block[2]
    if choice.block_depth < 1 or choice.block_depth % depth:
        raise CodegenError(
            f"stage '{stage.name}': block depth {choice.block_depth} is not a positive multiple of {depth}, "
            f"the micro-block of {accelerator.name}"
        )
    dilation = (stage.window.dilation_h, stage.window.dilation_w)
    return vela.encode_weights(
        accelerator, stage.weights.values, dilation, choice.block_depth, depthwise, choice.part_kernel
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
    data = records.tobytes()
    return data + bytes(-len(data) % ALIGNMENT)


def _bytes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
