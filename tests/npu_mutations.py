"""Damages payloads and compiled files in ways that reach deep into the simulator. Deterministic for a generator."""

from __future__ import annotations

import random
import struct

from hazard_judge import Command, commands_of, payload_with

# Values at which sizes, strides and shifts go wrong.
EDGES = (0, 1, 2, 7, 15, 16, 31, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0)


def damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to eight bytes or bits changed, or a piece cut off, doubled or moved."""
    found = bytearray(data)
    if not found:
        return data
    kind = rng.randrange(8)
    if kind == 0:
        return bytes(found[: rng.randrange(len(found))])
    if kind == 1:
        start = rng.randrange(len(found))
        piece = found[start : start + rng.randrange(1, 64)]
        place = rng.randrange(len(found))
        return bytes(found[:place] + piece + found[place:])
    for _ in range(rng.randrange(1, 9)):
        place = rng.randrange(len(found))
        found[place] = rng.randrange(256) if kind < 5 else found[place] ^ 1 << rng.randrange(8)
    return bytes(found)


def damage_stream(rng: random.Random, payload: bytes, commands: list[Command]) -> bytes:
    """One to four commands changed, left out, doubled or swapped; the payload around them stays right."""
    found = list(commands)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(found) - 1)
        kind = rng.randrange(10)
        if kind < 6:
            found[place] = _changed(rng, found[place])
        elif kind == 6:
            del found[place]
        elif kind == 7:
            found.insert(place, found[rng.randrange(len(found) - 1)])
        else:
            other = rng.randrange(len(found) - 1)
            found[place], found[other] = found[other], found[place]
        if len(found) < 2:
            break
    return payload_with(payload, found)


def _changed(rng: random.Random, command: Command) -> Command:
    words = list(command.words)
    if len(words) == 2:
        words[1] = _value(rng, words[1], 32)
        if rng.randrange(8) == 0:
            words[0] = words[0] & 0xFFFF | rng.randrange(1 << 16) << 16
    else:
        words[0] = words[0] & 0xFFFF | _value(rng, words[0] >> 16, 16) << 16
        if rng.randrange(16) == 0:
            words[0] ^= 1 << rng.randrange(16)
    return Command(tuple(words))


def _value(rng: random.Random, value: int, bits: int) -> int:
    kind = rng.randrange(5)
    if kind == 0:
        value = rng.choice(EDGES)
    elif kind == 1:
        value ^= 1 << rng.randrange(bits)
    elif kind == 2:
        value += rng.choice((-16, -2, -1, 1, 2, 16))
    elif kind == 3:
        value = rng.getrandbits(rng.randrange(1, bits + 1))
    return value & ((1 << bits) - 1)


def damaged(rng: random.Random, payload: bytes) -> bytes:
    """A payload damaged in one of the ways above; mostly inside the stream."""
    if rng.randrange(5) == 0:
        return damage_bytes(rng, payload)
    try:
        return damage_stream(rng, payload, commands_of(payload))
    except (struct.error, ValueError):
        return damage_bytes(rng, payload)
