"""The producers of what a command stream's operations read, and the memory they keep, for any compiler.

Owns the Python types around the dataflow of `_core`; imports nothing of code generation. Bytes of SHRAM count nowhere,
but are seen through: a kernel's look-up table was brought by a transfer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import _core
from ..util.records import dataclass


@dataclass(frozen=True)
class Piece:
    """Bytes [start, end) of a memory, by its number."""

    memory: int
    start: int
    end: int


@dataclass(frozen=True)
class OperationFlow:
    """A kernel or transfer, by the index of its command.

    `makers` are the operations, by their number in the stream, that made what it reads, and -1 - i for the piece `i`
    that was given. `live` says for each memory how many bytes are in use: those that it touches, and those that
    read later on; and one past the highest of them, 0 if there is none.
    """

    command: int
    makers: tuple[int, ...]
    live: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Dataflow:
    """A payload's bytes.

    `wanted` has the makers of each piece that was asked for, `before` what must be there before the payload runs, for
    it and for what is wanted behind it.
    """

    operations: tuple[OperationFlow, ...]
    wanted: tuple[tuple[int, ...], ...]
    before: tuple[Piece, ...]


def follow(
    payload: bytes, accelerator: str, regions: Sequence[int | None], given: Sequence[Piece], wanted: Sequence[Piece]
) -> Dataflow:
    """Follow the bytes of a payload. Nothing is computed, so neither weights nor inputs are needed.

    `regions` are the memories of the eight regions, None for unwritten ones. What is `given` later lies over what
    is given before. Raises `SimulationError` for a payload that is not one or was made for another accelerator.
    """
    rows, makers, before = _core.follow_payload(
        payload,
        accelerator,
        list(regions),
        [(piece.memory, piece.start, piece.end) for piece in given],
        [(piece.memory, piece.start, piece.end) for piece in wanted],
    )
    operations = tuple(OperationFlow(command, tuple(of), tuple(live)) for command, of, live in rows)
    return Dataflow(operations, tuple(map(tuple, makers)), tuple(Piece(*piece) for piece in before))


def without(pieces: Iterable[Piece], cut: Sequence[Piece]) -> tuple[Piece, ...]:
    """What is left of `pieces` where `cut` is taken away; pieces may overlap."""
    left = list(pieces)
    for hole in cut:
        rest = []
        for piece in left:
            if piece.memory != hole.memory or piece.end <= hole.start or hole.end <= piece.start:
                rest.append(piece)
                continue
            if piece.start < hole.start:
                rest.append(Piece(piece.memory, piece.start, hole.start))
            if hole.end < piece.end:
                rest.append(Piece(piece.memory, hole.end, piece.end))
        left = rest
    return tuple(left)


def extent(pieces: Iterable[Piece], memory: int) -> tuple[int, int]:
    """Bytes of a memory that pieces cover, each counted once, and one past the highest; 0 for none."""
    covered = reached = 0
    for piece in sorted((p for p in pieces if p.memory == memory), key=lambda p: p.start):
        start = max(piece.start, reached)
        covered += max(0, piece.end - start)
        reached = max(reached, piece.end)
    return covered, reached
