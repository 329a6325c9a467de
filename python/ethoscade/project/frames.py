"""Frames of the link: how requests and answers lie in a stream of bytes that may lose, double or change some.

Owns the bytes of a frame, the commands' numbers and finding frames in a stream again after damage. Knows no network.
A frame is sequence number (4 bytes), command, status, length (2), payload, CRC-32 of these (4), little endian, coded by
COBS (S. Cheshire and M. Baker, "Consistent Overhead Byte Stuffing", 1999) so that it has no zero, between two zeros.
`files/common/ethoscade_link.c` is the other side.
"""

from __future__ import annotations

import enum
import struct
import zlib

from ..util.records import dataclass

_HEAD = struct.Struct("<IBBH")
_CRC = struct.Struct("<I")
OVERHEAD_BYTES = _HEAD.size + _CRC.size
MOST_PAYLOAD_BYTES = 0xFFFF

REPLY = 0x80
"""Set in the command of an answer."""

_MOST_PIECE = 254


class Command(enum.IntEnum):
    """What is asked; `DAMAGED` is only ever an answer."""

    HELLO = 1
    WRITE = 2
    READ = 3
    RUN = 4
    TIMES = 5
    RESET = 6
    DAMAGED = 0x7F


class Outcome(enum.IntEnum):
    """How a request ended."""

    DONE = 0
    UNKNOWN_COMMAND = 1
    WRONG_ARGUMENT = 2
    OUT_OF_ORDER = 3
    BUSY = 4


@dataclass(frozen=True)
class Frame:
    """A request, whose status is 0, or an answer, whose command has `REPLY`."""

    sequence: int
    command: int
    status: int
    payload: bytes


def encoded(frame: Frame) -> bytes:
    """The frame as it goes into the stream. Its payload has at most 65,535 bytes."""
    raw = _HEAD.pack(frame.sequence, frame.command, frame.status, len(frame.payload)) + frame.payload
    return b"\0" + _stuffed(raw + _CRC.pack(zlib.crc32(raw))) + b"\0"


class Reader:
    """Finds frames in a stream, whatever pieces it comes in; counts what was damaged."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._longest = 2 * (MOST_PAYLOAD_BYTES + OVERHEAD_BYTES)
        self.damaged = 0

    def feed(self, data: bytes) -> list[Frame | None]:
        """The frames that `data` completes, in order; None stands for one that came damaged or cut."""
        found: list[Frame | None] = []
        *whole, rest = data.split(b"\0")
        for piece in whole:
            self._rest += piece
            if self._rest:
                found.append(self._decoded(bytes(self._rest)))
            self._rest.clear()
        # What is longer than any frame is none, and is not kept.
        self._rest += rest
        if len(self._rest) > self._longest:
            del self._rest[1:]
        return found

    def _decoded(self, coded: bytes) -> Frame | None:
        raw = _unstuffed(coded)
        if raw is not None and len(raw) >= OVERHEAD_BYTES:
            sequence, command, status, length = _HEAD.unpack_from(raw)
            (crc,) = _CRC.unpack_from(raw, len(raw) - _CRC.size)
            if length == len(raw) - OVERHEAD_BYTES and crc == zlib.crc32(raw[: -_CRC.size]):
                return Frame(sequence, command, status, raw[_HEAD.size : -_CRC.size])
        self.damaged += 1
        return None


def _stuffed(raw: bytes) -> bytes:
    """COBS: pieces without zeros, each behind its length and one; a piece of 254 stands for itself alone."""
    coded = bytearray()
    for number, piece in enumerate(pieces := raw.split(b"\0")):
        while len(piece) >= _MOST_PIECE:
            coded += bytes([_MOST_PIECE + 1]) + piece[:_MOST_PIECE]
            piece = piece[_MOST_PIECE:]
            if not piece and number == len(pieces) - 1:
                return bytes(coded)
        coded += bytes([len(piece) + 1]) + piece
    return bytes(coded)


def _unstuffed(coded: bytes) -> bytes | None:
    """The raw bytes; None where the counts do not come out even."""
    raw = bytearray()
    at = 0
    while at < len(coded):
        end = at + coded[at]
        if end > len(coded):
            return None
        raw += coded[at + 1 : end]
        if coded[at] != _MOST_PIECE + 1 and end < len(coded):
            raw.append(0)
        at = end
    return bytes(raw)
