"""Irregular planning problems of 80 to 5,000 buffers, always the same for the same seed.

Networks keep every tensor as a buffer of its own, with an irregular size, and run in an order that is partly random.
`tiling` and `pinwheel` cut a rectangle of 1 MiB into buffers, so that 1 MiB is the least peak.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ethoscade.memory import Buffer

ALIGNMENT = 64
KNOWN_OPTIMUM = {"tiling": 1 << 20, "pinwheel": 1 << 20}
"""The least peak in bytes, by family."""

_SMALLEST = 256
_RANDOM_STEP_RATE = 0.3


@dataclass
class _Graph:
    """Tensors in bytes with the tensors that each is computed from."""

    rng: random.Random
    sizes: list[int] = field(default_factory=list)
    inputs: list[frozenset[int]] = field(default_factory=list)

    def op(self, size: float, *inputs: int) -> int:
        """Adds a tensor of about `size` bytes and returns its index."""
        self.sizes.append(max(1, int(size * self.rng.uniform(0.6, 1.5)) // ALIGNMENT) * ALIGNMENT)
        self.inputs.append(frozenset(inputs))
        return len(self.sizes) - 1

    def buffers(self, random_rate: float) -> list[Buffer]:
        """One buffer per tensor; at `random_rate` the next step is any that could come next, else the newest."""
        users: list[list[int]] = [[] for _ in self.sizes]
        for tensor, inputs in enumerate(self.inputs):
            for other in sorted(inputs):
                users[other].append(tensor)
        missing = [len(inputs) for inputs in self.inputs]
        ready = [tensor for tensor, count in enumerate(missing) if count == 0]
        step: dict[int, int] = {}
        while ready:
            at = self.rng.randrange(len(ready)) if self.rng.random() < random_rate else len(ready) - 1
            tensor = ready.pop(at)
            step[tensor] = len(step)
            for user in users[tensor]:
                missing[user] -= 1
                if missing[user] == 0:
                    ready.append(user)
        return [
            Buffer(f"t{t}", step[t], max((step[u] for u in users[t]), default=step[t]) + 1, size, ALIGNMENT)
            for t, size in enumerate(self.sizes)
        ]


def _unet(graph: _Graph, count: int, source: int) -> int:
    """Down and up again over several levels, with tensors kept from the way down to the way up."""
    rng = graph.rng
    levels = rng.randint(4, 6)
    blocks = max(2, count // (4 * levels))
    last, kept = graph.op(2e5, source), []
    for level in range(levels):
        size = 4e5 / 2**level
        for block in range(blocks):
            wide = graph.op(size, last)
            narrow = graph.op(size * rng.choice((0.25, 0.5, 1)), wide)
            last = graph.op(size, narrow, last) if rng.random() < 0.5 else narrow
            if block % 3 == 0:
                kept.append((level, last))
        last = graph.op(size / 2, last)
    for level in reversed(range(levels)):
        size = 4e5 / 2**level
        last = graph.op(size, last)
        mine = [tensor for its_level, tensor in kept if its_level == level]
        for _ in range(blocks):
            joined = graph.op(1.5 * size, last, mine.pop()) if mine else graph.op(1.5 * size, last)
            last = graph.op(size, joined)
    return last


def _transformer(graph: _Graph, count: int, source: int) -> int:
    """Attention by heads, with some keys read again in later layers."""
    rng = graph.rng
    heads, width, scores = rng.choice((2, 3, 4)), 6e4, rng.uniform(3e4, 2e5)
    last, keys = graph.op(width, source), []
    for _ in range(max(1, count // (7 + 6 * heads))):
        normed, outputs = graph.op(width, last), []
        for _ in range(heads):
            query, key = graph.op(width / heads, normed), graph.op(width / heads, normed)
            weights = graph.op(scores, graph.op(scores, query, key))
            outputs.append(graph.op(width / heads, weights, graph.op(width / heads, normed)))
            if rng.random() < 0.15:
                keys.append(key)
        residual = graph.op(width, graph.op(width, *outputs), last)
        mixed = graph.op(width, graph.op(4 * width, graph.op(4 * width, residual)))
        read = [keys.pop(rng.randrange(len(keys)))] if keys and rng.random() < 0.3 else []
        last = graph.op(width, mixed, residual, *read)
    return last


def _nasnet(graph: _Graph, count: int, source: int) -> int:
    """Searched cells: five blocks on any two earlier tensors; each cell reads the outputs of the two before."""
    rng = graph.rng
    before = graph.op(2e5, source)
    last = graph.op(2e5, before)
    cells = max(1, count // 18)
    for cell in range(cells):
        size = 2.5e5 / 2 ** (3 * cell // cells)
        tensors = [graph.op(size, before), graph.op(size, last)]
        read: set[int] = set()
        for _ in range(5):
            pair = rng.randrange(len(tensors)), rng.randrange(len(tensors))
            read.update(pair)
            one, other = graph.op(size * rng.choice((1, 1, 2)), tensors[pair[0]]), graph.op(size, tensors[pair[1]])
            tensors.append(graph.op(size, one, other))
        open_ends = [tensor for at, tensor in enumerate(tensors[2:], 2) if at not in read]
        before, last = last, graph.op(2 * size, *open_ends)
    return last


def _unrolled(graph: _Graph, count: int, source: int) -> int:
    """Recurrent layers step by step with every gate and state; some outputs are kept and read together later."""
    rng = graph.rng
    layers = rng.randint(1, 3)
    outputs, states = [graph.op(2e4, source) for _ in range(layers)], [graph.op(2e4) for _ in range(layers)]
    kept: list[int] = []
    for _ in range(max(1, count // (8 * layers + 1))):
        last = graph.op(3e4)
        for layer in range(layers):
            joined = graph.op(8e4, last, outputs[layer])
            gates = [graph.op(2e4, joined) for _ in range(4)]
            states[layer] = graph.op(2e4, *gates[:3], states[layer])
            last = outputs[layer] = graph.op(2e4, gates[3], graph.op(2e4, states[layer]))
        if rng.random() < 0.2:
            kept.append(last)
        if len(kept) > 12:
            outputs[-1] = graph.op(2e4, graph.op(1e5, *kept), outputs[-1])
            kept = kept[6:]
    return outputs[-1]


_NETWORKS: dict[str, Callable[[_Graph, int, int], int]] = {
    "unrolled": _unrolled,
    "unet": _unet,
    "transformer": _transformer,
    "nasnet": _nasnet,
}


def _mixed(graph: _Graph, count: int, source: int) -> int:
    """All four networks side by side."""
    return graph.op(1e5, *(build(graph, count // len(_NETWORKS), source) for build in _NETWORKS.values()))


def _cut(count: int, rng: random.Random, is_pinwheel: bool) -> list[Buffer]:
    """A square of 2^20 bytes and steps cut up; `offset` is left open. Large parts are cut more often."""
    parts = [(0, 1 << 20, 0, 1 << 20)]
    while len(parts) < count:
        least = (3, 3 * _SMALLEST) if is_pinwheel else (2, 2 * _SMALLEST)
        can = [at for at, (lower, upper, low, high) in enumerate(parts) if upper - lower >= least[0] <= high - low]
        can = [at for at in can if parts[at][3] - parts[at][2] >= least[1]]
        areas = [(parts[at][1] - parts[at][0]) * (parts[at][3] - parts[at][2]) for at in can]
        part = parts.pop(rng.choices(can, areas)[0])
        parts += _pinwheel(part, rng) if is_pinwheel else _halves(part, rng)
    rng.shuffle(parts)
    return [Buffer(f"p{at}", lower, upper, high - low) for at, (lower, upper, low, high) in enumerate(parts)]


_Part = tuple[int, int, int, int]


def _halves(part: _Part, rng: random.Random) -> list[_Part]:
    lower, upper, low, high = part
    if rng.random() < 0.5:
        cut = rng.randint(low + _SMALLEST, high - _SMALLEST)
        return [(lower, upper, low, cut), (lower, upper, cut, high)]
    cut = rng.randint(lower + 1, upper - 1)
    return [(lower, cut, low, high), (cut, upper, low, high)]


def _pinwheel(part: _Part, rng: random.Random) -> list[_Part]:
    """Four blades round a centre, which no straight cut divides."""
    lower, upper, low, high = part
    steps, size = rng.randint(1, (upper - lower - 1) // 2), rng.randint(_SMALLEST, (high - low - _SMALLEST) // 2)
    return [
        (lower, upper - steps, low, low + size),
        (upper - steps, upper, low, high - size),
        (lower + steps, upper, high - size, high),
        (lower, lower + steps, low + size, high),
        (lower + steps, upper - steps, low + size, high - size),
    ]


FAMILIES: tuple[str, ...] = (*_NETWORKS, "mixed", "tiling", "pinwheel")


def generate(family: str, count: int, seed: int = 0) -> list[Buffer]:
    """About `count` buffers of a family; the same arguments give the same buffers.

    Networks of an odd seed take three of ten steps in random order.
    """
    rng = random.Random(f"{family} {count} {seed}")
    if family in KNOWN_OPTIMUM:
        return _cut(count, rng, is_pinwheel=family == "pinwheel")
    graph = _Graph(rng)
    (_NETWORKS | {"mixed": _mixed})[family](graph, count, graph.op(1e5))
    return graph.buffers(_RANDOM_STEP_RATE if seed % 2 else 0.0)
