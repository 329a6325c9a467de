"""Weight streams: how long each is, which are the same, and their bytes when they are wanted.

Owns the choice between the core's encoder, which tells a stream's length before it writes it, and Vela's. The order and
the coding of weights are theirs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CodegenError
from ..lowering.npu import NpuOperation, OperationKind, Weights
from ..targets.target import Accelerator
from ..util.records import dataclass
from . import vela

WEIGHT_ENCODERS = ("ethoscade", "vela")
"""Who may compress weights: this project's encoder, or Vela's."""

_MICRO_INPUTS, _WIDE_INPUTS, _INPUTS = 8, 16, 32
"""Input channels of a micro-block, and of a block of inputs of 16 and of 8 bits."""
_SUB_KERNEL = 8

_STORED = (np.dtype(np.int8), np.dtype(np.uint8))
_WIDEST = np.iinfo(np.int16)


@dataclass(frozen=True)
class EncodingChoice:
    """How an operation's weights are laid out: depth of the OFM block they serve, and part-kernel-first order.

    Part-kernel-first exists for convolutions only. Operations without weights ignore their choice.
    """

    block_depth: int
    part_kernel: bool = False


class Stream(Protocol):
    """Constants that will be bytes."""

    @property
    def length_bytes(self) -> int:
        """Bytes of it, a multiple of 16."""

    @property
    def content(self) -> Hashable:
        """Equal for equal weights in equal orders, and only where bytes are equal."""

    def write(self) -> bytes:
        """The bytes."""


@dataclass(frozen=True)
class WrittenStream:
    """Constants that are bytes already."""

    content: bytes = field(repr=False)

    @property
    def length_bytes(self) -> int:
        """As `Stream`."""
        return len(self.content)

    def write(self) -> bytes:
        """As `Stream`."""
        return self.content


@dataclass(frozen=True, eq=False)
class PlannedStream:
    """A stream of the core's: what was found for the weights `values` less `zero_point`."""

    values: npt.NDArray[np.integer] = field(repr=False)
    zero_point: int
    content: Hashable = field(repr=False)
    plan: _core._WeightStream = field(repr=False)

    @property
    def length_bytes(self) -> int:
        """As `Stream`."""
        return self.plan.length_bytes

    def write(self) -> bytes:
        """As `Stream`."""
        return self.plan.write(_volume(self.values, self.zero_point))


class _Elements:
    """Weights as a part of keys: equal where the core is given the same. Keeps the array, which is there anyway."""

    __slots__ = ("_hash", "_values", "_zero_point")

    def __init__(self, values: npt.NDArray[np.integer], zero_point: int) -> None:
        self._values, self._zero_point = values, zero_point
        self._hash = hash(_volume(values, zero_point))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Elements) or self._hash != other._hash:
            return False
        return _volume(self._values, self._zero_point) == _volume(other._values, other._zero_point)


class Streams:
    """The streams of weights on an accelerator; equal weights in equal orders are encoded once."""

    def __init__(self, accelerator: Accelerator, encoder: str = WEIGHT_ENCODERS[0]) -> None:
        self._accelerator = accelerator
        self._encoder = encoder
        self._known: dict[Hashable, Stream] = {}
        self._parts: dict[tuple[int, int, int], tuple[Weights, _Elements]] = {}

    def of(self, operation: NpuOperation, choice: EncodingChoice, first: int, channels: int) -> Stream:
        """The stream of an operation's output channels from `first` on.

        Raises `CodegenError` for a choice that the NPU does not have or weights that cannot be encoded.
        """
        _check(operation, self._accelerator, choice)
        assert operation.weights is not None, "callers ask of operations with weights"
        window, weights = operation.window, operation.weights
        values, micro = weights.values[first : first + channels], self._accelerator.micro_block[2]
        depthwise, wide = operation.kind is OperationKind.DEPTHWISE, operation.ifm.dtype.size_bytes > 1
        dilation = (window.dilation_h, window.dilation_w)
        # A block that is deeper than the output is as deep as that; where all of a micro-block comes at once, blocks
        # follow each other as micro-blocks do.
        depth = min(choice.block_depth, -(-channels // micro) * micro)
        at_once = 1 if depthwise else _MICRO_INPUTS if choice.part_kernel else _WIDE_INPUTS if wide else _INPUTS
        height, width, inputs = values.shape[1:]
        if inputs <= at_once and max(height * dilation[0], width * dilation[1]) <= _SUB_KERNEL:
            depth = micro
        order = (_four(values.shape), depth, micro, depthwise, choice.part_kernel, wide, dilation)
        content = (self._part(weights, first, channels), *order)
        if content not in self._known:
            self._known[content] = (
                PlannedStream(
                    values,
                    weights.zero_point,
                    content,
                    _core.plan_weights(_volume(values, weights.zero_point), order),
                )
                if self._encoder == "ethoscade"
                else WrittenStream(
                    vela.encode_weights(
                        self._accelerator,
                        values,
                        weights.zero_point,
                        dilation,
                        choice.block_depth,
                        depthwise,
                        choice.part_kernel,
                        8 * operation.ifm.dtype.size_bytes,
                    )
                )
            )
        return self._known[content]

    def _part(self, weights: Weights, first: int, channels: int) -> _Elements:
        """Equal for equal weights of equal types; told once for each part of an operation's, whatever the order."""
        part = (id(weights), first, channels)
        if part not in self._parts:
            values = weights.values[first : first + channels]
            # The weights stay, so that no others get their number.
            self._parts[part] = weights, _Elements(values, weights.zero_point)
        return self._parts[part][1]


def _check(operation: NpuOperation, accelerator: Accelerator, choice: EncodingChoice) -> None:
    if operation.weights is None:
        raise CodegenError(f"operation '{operation.name}' ({operation.kind.value}) has no weights to encode")
    if operation.kind is OperationKind.DEPTHWISE and choice.part_kernel:
        raise CodegenError(
            f"operation '{operation.name}' is depthwise; part-kernel-first order exists for convolutions only"
        )
    depth = accelerator.micro_block[2]
    if choice.block_depth < 1 or choice.block_depth % depth:
        raise CodegenError(
            f"operation '{operation.name}': block depth {choice.block_depth} is not a positive multiple of {depth}, "
            f"the micro-block of {accelerator.name}"
        )


def _volume(values: npt.NDArray[np.integer], zero_point: int) -> tuple[bytes, str, int]:
    """Elements in C order, their type, and what stands for 0, as the core takes them."""
    if values.dtype in _STORED:
        return values.tobytes(), values.dtype.name, zero_point
    weights = np.clip(values.astype(np.int64) - zero_point, _WIDEST.min, _WIDEST.max)
    return weights.astype("<i2").tobytes(), "int16", 0


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    outputs, height, width, inputs = shape
    return outputs, height, width, inputs
