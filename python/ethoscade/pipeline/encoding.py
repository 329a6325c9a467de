"""Constants of all operations: how each is encoded best, and the streams.

Owns the order of these two steps. What an encoding costs is for the core to say, what streams look like for `codegen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..codegen import command_stream
from ..codegen.streams import EncodingChoice
from ..codegen.weights import EncodedOperation, Encoder, SliceChoice, contents
from ..lowering.npu import NpuOperation
from ..scheduling.problem import choose_encoding
from ..scheduling.specs import Encoding, EncodingSpec, SlicedSpec, StreamSpec
from ..targets.target import Accelerator, Target
from ..util.progress import ProgressCallback, no_progress

# The part of encoding that goes into choosing how.
_TRIED = 0.75


def choose_encodings(
    encoder: Encoder, operations: Sequence[NpuOperation], target: Target, tick: ProgressCallback = no_progress
) -> list[Encoding]:
    """How to encode each operation's constants, by what they come to; a block depth of 0 where no block fits."""
    found = []
    for number, operation in enumerate(operations):
        # Which streams are short is tried; it takes most of the time.
        tick(_TRIED * number / len(operations))
        found.append(_chosen(encoder, operation, target, tick))
    return found


def encode(
    encoder: Encoder,
    operations: Sequence[NpuOperation],
    encodings: Sequence[Encoding],
    accelerator: Accelerator,
    tick: ProgressCallback = no_progress,
) -> tuple[tuple[EncodedOperation, ...], tuple[Encoding, ...]]:
    """Each operation's constants, and its encoding with the bytes that they take and what is emitted of it."""
    encoded = []
    for number, (operation, encoding) in enumerate(zip(operations, encodings, strict=True)):
        tick(_TRIED + (1 - _TRIED) * number / len(operations))
        encoded.append(_encode(encoder, operation, encoding))
    registers = (command_stream.steady_registers(operation, accelerator) for operation in operations)
    streams = map(StreamSpec, registers, contents(encoded))
    sized = tuple(_sized(*of_operation) for of_operation in zip(encodings, encoded, streams, strict=True))
    return tuple(encoded), sized


def _chosen(encoder: Encoder, operation: NpuOperation, target: Target, tick: ProgressCallback) -> Encoding:
    """How to encode an operation's constants, by what they come to."""

    def bytes_of(block_depth: int, part_kernel: bool) -> int:
        tick()
        return encoder.length_bytes(operation, EncodingChoice(block_depth, part_kernel))

    weighted = operation.weights is not None
    return choose_encoding(operation, target, bytes_of if weighted else None)


def _encode(encoder: Encoder, operation: NpuOperation, encoding: Encoding) -> EncodedOperation:
    def choice(of: Encoding | EncodingSpec | SlicedSpec) -> EncodingChoice:
        return EncodingChoice(of.block_depth, of.part_kernel)

    staged, sliced = encoding.staged, encoding.sliced
    return encoder.encode(
        operation,
        choice(encoding),
        None if staged is None else choice(staged),
        None if sliced is None else SliceChoice(sliced.depth, choice(sliced)),
    )


def _sized(encoding: Encoding, encoded: EncodedOperation, stream: StreamSpec) -> Encoding:
    """The encoding with the bytes that it came to, and what is emitted of its operation."""
    whole = encoded.whole.length_bytes if encoded.whole else 0
    staged = encoded.staged.length_bytes if encoded.staged else 0
    sizes = tuple(part.length_bytes for part in encoded.slices)
    return replace(
        encoding,
        constant_bytes=whole,
        staged=encoding.staged and replace(encoding.staged, bytes=staged),
        sliced=encoding.sliced and replace(encoding.sliced, bytes=sizes),
        stream=stream,
    )
