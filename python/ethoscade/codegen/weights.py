"""The constants blob: every stage's compressed weights and scale records, as NPU region 0 holds them.

Owns the blob's layout. The weight compression itself is behind `vela`; the scale records are packed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
class StageConstants:
    """Where one stage's constants lie in the blob: weights at `offset`, scales right behind them.

    Offsets and lengths are bytes and multiples of 16, so that one DMA of `length_bytes` from `offset` stages both.
    """

    offset: int
    weights_bytes: int
    scales_bytes: int
    choice: EncodingChoice

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
    """Region 0: the blob (a multiple of 16 bytes) and, per stage, its place there; None for stages without weights."""

    blob: bytes = field(repr=False)
    stages: tuple[StageConstants | None, ...]


def encode(stages: Sequence[Stage], accelerator: Accelerator, choices: Sequence[EncodingChoice]) -> Constants:
    """Compress and lay out the constants of all stages; `choices` has one entry per stage.

    Stages with identical constants share them. Equal arguments give equal bytes. Raises `CodegenError` for a choice
    that the NPU does not have or weights that cannot be encoded.
    """
    if len(choices) != len(stages):
        raise CodegenError(f"{len(choices)} encoding choices for {len(stages)} stages; one per stage is needed")
    blob = bytearray()
    places: list[StageConstants | None] = []
    known: dict[bytes, int] = {}
    for stage, choice in zip(stages, choices, strict=True):
        if stage.weights is None:
            places.append(None)
            continue
        weights = encode_weights(stage, accelerator, choice)
        scales = encode_scales(stage.weights)
        chunk = weights + scales
        offset = known.setdefault(chunk, len(blob))
        if offset == len(blob):
            blob += chunk
        places.append(StageConstants(offset, len(weights), len(scales), choice))
    return Constants(bytes(blob), tuple(places))


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
