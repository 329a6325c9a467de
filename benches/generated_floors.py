"""Floors of networks that fork and of recurrent ones, drawn by seed, beside the SRAM that Vela takes.

    python benches/generated_floors.py [FAMILY ...] [--count N]

Families: `irregular`, graphs of separable convolutions and additions as RandWire draws them (Xie et al., 2019, section
3, Erdos-Renyi); `nasnet`, three cells of five blocks as NASNet's (Zoph et al., 2018, figure 4), drawn; `recurrent`,
unrolled recurrent cells, plain ones and gated ones (Cho et al., 2014). For an Ethos-U55 with 256 MACs, Vela with
`--optimise Size`. A line for each network whose floor is above Vela's, then for each family: networks, those above, and
the mean of the floors over Vela's SRAM. Exit status 3 if a floor is above.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import ethoscade
import numpy as np
from ethoscade.ir import Activation
from ethoscade.testing import ModelBuilder, Value
from harness import run_vela

RELU = Activation.RELU


def irregular(seed: int) -> bytes:
    """Up to 14 nodes: each adds up what it reads of earlier ones, then a separable convolution."""
    draw, b = np.random.default_rng(seed), ModelBuilder(f"irregular_{seed}", seed=seed)
    size, channels = int(draw.choice([16, 24, 32])), int(draw.choice([16, 24, 32]))
    nodes = [b.conv2d(b.input((1, size, size, 3), name="input"), channels, 3, activation=RELU)]
    read: set[int] = set()
    for number in range(1, int(draw.integers(6, 15))):
        sources = [at for at in range(number) if draw.random() < 0.3] or [int(draw.integers(number))]
        read.update(sources)
        x = nodes[sources[0]]
        for at in sources[1:]:
            x = b.add(x, nodes[at])
        nodes.append(b.conv2d(b.depthwise(x, 3, activation=RELU), channels, 1))
    ends = [node for at, node in enumerate(nodes) if at not in read]
    x = ends[0]
    for end in ends[1:]:
        x = b.add(x, end)
    b.fully_connected(b.mean(x), 10)
    return b.build()


def nasnet(seed: int) -> bytes:
    """Cells of five blocks: each adds two drawn operations on earlier ones; what nobody reads is joined."""
    draw, b = np.random.default_rng(seed), ModelBuilder(f"nasnet_{seed}", seed=seed)
    x = before = b.conv2d(b.input((1, 32, 32, 3), name="input"), 16, 3, activation=RELU)
    for channels in (16, 24, 32):
        inputs = [b.conv2d(one, channels, 1, activation=RELU) for one in (before, x)]
        states, read = list(inputs), set[int]()
        for _ in range(5):
            pair = [int(at) for at in draw.integers(0, len(states), 2)]
            read.update(pair)
            states.append(b.add(*(_operation(b, states[at], channels, int(draw.integers(4))) for at in pair)))
        ends = [state for at, state in enumerate(states) if at not in read]
        joined = ends[0]
        if len(ends) > 1:
            joined = b.concatenate([ends[0], *(b.quantize(end, ends[0].quantisation) for end in ends[1:])], axis=3)
        before, x = x, joined
    b.fully_connected(b.mean(x), 10)
    return b.build()


def _operation(b: ModelBuilder, x: Value, channels: int, which: int) -> Value:
    if which == 0:
        return x
    if which == 1:
        return b.average_pool(x, 3, stride=1, padding="SAME")
    return b.conv2d(b.depthwise(x, 3 if which == 2 else 5, activation=RELU), channels, 1)


def recurrent(seed: int) -> bytes:
    """4 to 12 steps over the rows of a small input; every second network is gated."""
    draw, b = np.random.default_rng(seed), ModelBuilder(f"recurrent_{seed}", seed=seed)
    steps, seen, units = (int(draw.integers(*limits)) for limits in ((4, 13), (4, 33), (4, 33)))
    rows = b.unpack(b.reshape(b.input((1, steps, seen), name="input"), (steps, 1, seen)))
    state: Value | None = None
    for row in rows:
        kept = None if state is None else b.fully_connected(state, units)
        fresh = b.fully_connected(row, units)
        mixed = fresh if kept is None else b.add(fresh, kept)
        if seed % 2 and state is not None:
            gate = b.unary("LOGISTIC", b.add(b.fully_connected(row, units), b.fully_connected(state, units)))
            change = b.binary("SUB", b.unary("TANH", mixed), state)
            state = b.add(state, b.binary("MUL", gate, change))
        else:
            state = b.unary("TANH", mixed)
    assert state is not None, "there are steps"
    b.fully_connected(state, 4)
    return b.build()


FAMILIES: Mapping[str, tuple[Callable[[int], bytes], int]] = {
    "irregular": (irregular, 200),
    "nasnet": (nasnet, 20),
    "recurrent": (recurrent, 100),
}
"""How each is made, and how many of them are by default."""


def main() -> int:
    """Prints the lines; 3 if a floor is above Vela's SRAM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", default=list(FAMILIES))
    parser.add_argument("--count", type=int, help="networks of each family")
    args = parser.parse_args()
    is_above = False
    for family in args.families:
        make, count = FAMILIES[family]
        ratios, above, refused = [], 0, 0
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(args.count or count):
                model = Path(folder) / f"{family}_{seed}.tflite"
                model.write_bytes(make(seed))
                theirs = run_vela(model, "regor", "Size", Path(folder))
                if theirs is None:
                    refused += 1
                    continue
                floor = ethoscade.frontier(model).floor_bytes
                ratios.append(floor / theirs.sram_bytes)
                if ratios[-1] > 1:
                    above += 1
                    print(f"{family} {seed}: {floor:,} bytes, Vela {theirs.sram_bytes:,}", flush=True)
        told = f"{len(ratios)} networks, {above} above Vela, mean of floor / Vela {fmean(ratios):.3f}"
        print(f"{family}: {told}; Vela ended by an error on {refused}", flush=True)
        is_above = is_above or above > 0
    return 3 if is_above else 0


if __name__ == "__main__":
    sys.exit(main())
