"""Which memory regions a program of the NPU uses, read off its command stream.

Owns this one question. A region that no command names is passed to the driver with size 0: caches are not maintained
for it, and a driver with fast memory does not compare its size.
"""

from __future__ import annotations

from collections.abc import Iterator

_CONFIG, _STREAM, _NOP = 1, 2, 5
_WORD = 4
# Registers that hold a region's number: IFM, OFM, weights, scales, DMA source and destination, IFM2.
_REGION_REGISTERS = frozenset((271, 287, 296, 297, 304, 305, 399))
_INTERNAL = 0x100
"""The bit of a DMA's region that means the NPU's own memory."""


def used(payload: bytes) -> frozenset[int] | None:
    """The regions that the stream's commands name, or None for a payload that is none of ours."""
    words = [int.from_bytes(payload[at : at + _WORD], "little") for at in range(0, len(payload), _WORD)]
    if not words or payload[:4] != b"COP1":
        return None
    at = 1
    found: set[int] = set()
    while at < len(words):
        action, length = words[at] & 0xFF, 0
        if action == _STREAM:
            length = (words[at] >> 16) | (words[at] >> 8 & 0xFF) << 16
            found.update(_named(words[at + 1 : at + 1 + length]))
        elif action == _CONFIG:
            length = 2
        elif action != _NOP:
            return None
        at += 1 + length
    return frozenset(found)


def _named(stream: list[int]) -> Iterator[int]:
    words = iter(stream)
    for word in words:
        if word >> 14 & 3 == 1:
            next(words, None)
        elif word & 0x3FF in _REGION_REGISTERS and not word >> 16 & _INTERNAL:
            yield word >> 16 & 7
