"""Buffers as networks have them, and perfect packings, of any size and always the same for the same seed.

Sizes are bytes of feature maps: height x width x channels, halved and doubled along the network as real ones are.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from ethoscade.memory import Buffer, Gap

ALIGNMENT = 16


def _tensor(rng: random.Random, level: int) -> int:
    side = max(2, 96 >> level)
    return side * side * rng.choice((8, 16, 24, 32, 48, 64)) << min(level, 3)


def chain(count: int, rng: random.Random) -> list[Buffer]:
    """Each tensor is written in one step and read in the next."""
    return [Buffer(f"t{i}", i, i + 2, _tensor(rng, i * 5 // max(1, count)), ALIGNMENT) for i in range(count)]


def residual(count: int, rng: random.Random) -> list[Buffer]:
    """Chains in which each third tensor is read again a few steps later."""
    return [
        Buffer(f"t{i}", i, i + (rng.randint(3, 5) if i % 3 == 0 else 2), _tensor(rng, i * 5 // count), ALIGNMENT)
        for i in range(count)
    ]


def unet(count: int, rng: random.Random) -> list[Buffer]:
    """Down and up again; what is produced on the way down is read on the way up."""
    half = count // 2
    levels = [min(i, count - 1 - i) * 6 // max(1, half) for i in range(count)]
    return [
        Buffer(f"t{i}", i, count - i if i < half and i % 2 else i + 2, _tensor(rng, levels[i]), ALIGNMENT)
        for i in range(count)
    ]


def cells(count: int, rng: random.Random) -> list[Buffer]:
    """Cells as architecture search builds them: branches that are concatenated, and the two last cells' outputs."""
    buffers = []
    for i in range(count):
        steps = rng.choice((2, 2, 3, 4, 6, 8)) if i % 7 else 15
        buffers.append(Buffer(f"t{i}", i, i + steps, _tensor(rng, i * 5 // count), ALIGNMENT))
    return buffers


def cascade(count: int, rng: random.Random) -> list[Buffer]:
    """Cascades on stripes: rolling buffers live through a cascade, inputs die and outputs grow row by row."""
    buffers: list[Buffer] = []
    step = 0
    while len(buffers) < count:
        stripes, size = rng.randint(4, 8), _tensor(rng, rng.randint(0, 2))
        row = max(ALIGNMENT, size // stripes // ALIGNMENT * ALIGNMENT)
        size = row * stripes
        dying = tuple(Gap(step + i, step + i + 1, (i * row, size)) for i in range(1, stripes))
        growing = tuple(Gap(step + i, step + i + 1, (0, (i + 1) * row)) for i in range(stripes - 1))
        name = f"c{len(buffers)}"
        buffers.append(Buffer(f"{name}.in", step - 1, step + stripes, size, ALIGNMENT, gaps=dying))
        buffers.append(Buffer(f"{name}.out", step, step + stripes + 1, size, ALIGNMENT, gaps=growing))
        rolling = [
            Buffer(f"{name}.roll{i}", step, step + stripes, row * rng.randint(1, 3), ALIGNMENT) for i in range(3)
        ]
        buffers += rolling
        step += stripes
    return buffers[:count]


def mixture(count: int, rng: random.Random) -> list[Buffer]:
    """All of these side by side in time, as parallel branches of one network."""
    buffers: list[Buffer] = []
    kinds = (chain, residual, unet, cells)
    for part, kind in enumerate(kinds):
        share = count * (part + 1) // len(kinds) - count * part // len(kinds)
        buffers += [
            Buffer(f"{kind.__name__}.{b.name}", b.lower, b.upper, b.size_bytes, ALIGNMENT) for b in kind(share, rng)
        ]
    return buffers


def perfect(count: int, rng: random.Random) -> list[Buffer]:
    """A rectangle of 1 MiB times 10 * count steps, cut up at random: the best peak is 1 MiB."""
    parts = [(0, 10 * count, 0, 1 << 20)]
    while len(parts) < count:
        index = max(rng.sample(range(len(parts)), min(4, len(parts))), key=lambda i: _area(parts[i]))
        lower, upper, low, high = parts.pop(index)
        if (rng.random() < 0.5 and upper - lower > 1) or high - low <= 2048:
            cut = rng.randint(lower + 1, upper - 1) if upper - lower > 1 else upper
            halves = [(lower, cut, low, high), (cut, upper, low, high)]
        else:
            cut = low + 1024 * rng.randint(1, (high - low) // 1024 - 1)
            halves = [(lower, upper, low, cut), (lower, upper, cut, high)]
        parts += [half for half in halves if half[0] < half[1]]
    rng.shuffle(parts)
    return [Buffer(f"p{i}", part[0], part[1], part[3] - part[2]) for i, part in enumerate(parts)]


def _area(part: tuple[int, int, int, int]) -> int:
    return (part[1] - part[0]) * (part[3] - part[2])


KINDS: dict[str, Callable[[int, random.Random], list[Buffer]]] = {
    kind.__name__: kind for kind in (chain, residual, unet, cells, cascade, mixture, perfect)
}


def generate(kind: str, count: int, seed: int = 0) -> list[Buffer]:
    """`count` buffers of a kind of network; the same arguments give the same buffers."""
    return KINDS[kind](count, random.Random(f"{kind} {count} {seed}"))
