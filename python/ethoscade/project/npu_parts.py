"""NPU programs that end early, so that one may look at what is between operations; for emulated NPUs alone.

Owns where a driver payload's command stream can be cut. What the operations are is in `NpuCall.operators`.
"""

from __future__ import annotations

import struct

from ..errors import ProjectError

# Words of a payload: driver actions, and commands of the stream. docs/simulator.md names the sources.
_STREAM, _CONFIG, _NOP = 2, 1, 5
_STOP = 0xFFFF0000
_CONVOLUTION, _DEPTHWISE, _POOL, _ELEMENTWISE, _TRANSFER = 0x002, 0x003, 0x005, 0x006, 0x010
_OPERATIONS = frozenset((_CONVOLUTION, _DEPTHWISE, _POOL, _ELEMENTWISE, _TRANSFER))
_LONGEST = 1 << 24


def first_part(payload: bytes, operations: int) -> bytes:
    """`payload` up to and with a number of its first kernels and transfers.

    Raises `ProjectError` for what is no driver payload, or has fewer of them.
    """
    words = [word for (word,) in struct.iter_unpack("<I", payload[: len(payload) // 4 * 4])]
    at = 1
    while at < len(words) and words[at] & 0xFF != _STREAM:
        at += 3 if words[at] & 0xFF == _CONFIG else 1
    stream = words[at + 1 :]
    end = 0
    while operations and end < len(stream):
        command = stream[end]
        # Bits 15:14 of a command tell whether another word belongs to it.
        is_long = command >> 14 & 3 == 1
        operations -= not is_long and command & 0x3FF in _OPERATIONS
        end += 2 if is_long else 1
    if operations or payload[:4] != b"COP1":
        raise ProjectError("an NPU program has fewer operations than the project's description says: build it again")
    part = [*stream[:end], _STOP]
    if len(part) >= _LONGEST:
        raise ProjectError(f"an NPU program has {len(part)} words; drivers run less than {_LONGEST}")
    head = (len(part) & 0xFFFF) << 16 | (len(part) >> 16) << 8 | _STREAM
    return struct.pack(f"<{at + 1 + len(part)}I", *words[:at], head, *part)
