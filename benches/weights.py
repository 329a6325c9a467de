"""Streams of weights: bytes of ours, of Vela's and by order-0 entropy, and how fast both encoders are on one core.

    python benches/weights.py [MODEL ...] [--layers]

Each different volume of a model counts once, in the order and block depth that its operation has, dead channels kept.
Entropy is that of the stream's weights, those that fill it up included; scale records are left out. CPU seconds are the
better of two runs of each encoder, in turn. With --layers a line for each volume of more than 100,000 weights follows.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ethoscade import _core
from ethoscade.codegen import vela
from ethoscade.frontend import read_tflite
from ethoscade.lowering.npu import NpuOperation, OperationKind
from ethoscade.pipeline.compiler import prepare
from ethoscade.targets.target import Target
from ethosu import mlw_codec
from harness import cpu_seconds, default_target, named_models

LARGE = 100_000
RUNS = 2


@dataclass(frozen=True)
class Volume:
    """What both encoders made of one volume of weights: bytes, and CPU seconds of each."""

    weights: int
    ours: int
    velas: int
    entropy: float
    our_seconds: float
    vela_seconds: float


def fastest(work: Callable[[], bytes]) -> tuple[bytes, float]:
    """The result, and the CPU seconds of the fastest run."""
    runs = [cpu_seconds(work) for _ in range(RUNS)]
    return runs[0][0], min(seconds for _, seconds in runs)


def entropy_bytes(weights: list[int]) -> float:
    """Bytes of weights if each took as many bits as its frequency says."""
    counts = Counter(weights)
    return sum(count * math.log2(len(weights) / count) for count in counts.values()) / 8


def measured(operation: NpuOperation, block_depth: int, part_kernel: bool, target: Target) -> Volume:
    """Encode an operation's weights with both."""
    weights, window = operation.weights, operation.window
    assert weights is not None
    depthwise, bits = operation.kind is OperationKind.DEPTHWISE, 8 * operation.ifm.dtype.size_bytes
    dilation, micro = (window.dilation_h, window.dilation_w), target.accelerator.micro_block[2]
    volume = (weights.values.astype("<i2") - np.int16(weights.zero_point), "int16", 0)
    order = (volume[0].shape, block_depth, micro, depthwise, part_kernel, bits > 8, dilation)

    def ours() -> bytes:
        given = (volume[0].tobytes(), *volume[1:])
        return _core.plan_weights(given, order).write(given)

    def velas() -> bytes:
        return vela.encode_weights(
            target.accelerator, volume[0], 0, dilation, block_depth, depthwise, part_kernel, bits
        )

    (mine, my_seconds), (other, seconds) = fastest(ours), fastest(velas)
    decoded = list(mlw_codec.decode(bytearray(mine)))
    assert decoded == list(mlw_codec.decode(bytearray(other)))
    return Volume(weights.values.size, len(mine), len(other), entropy_bytes(decoded), my_seconds, seconds)


def volumes(model: Path, target: Target) -> Iterator[Volume]:
    """The different volumes of a model."""
    network = prepare(read_tflite(model), target, dead_channels=False)
    known = set()
    for operation, encoded in zip(network.npu.operations, network.encoded, strict=True):
        if operation.weights is not None and encoded.whole is not None and encoded.whole.weights.content not in known:
            known.add(encoded.whole.weights.content)
            choice = encoded.whole.choice
            yield measured(operation, choice.block_depth, choice.part_kernel, target)


def line(name: str, found: list[Volume]) -> str:
    """A row of the table."""
    weights, ours, velas = (sum(getattr(v, key) for v in found) for key in ("weights", "ours", "velas"))
    mine, others = sum(v.our_seconds for v in found), sum(v.vela_seconds for v in found)
    more = max(v.ours - v.velas for v in found)
    return (
        f"| {name} | {weights:,} | {velas:,} | {ours:,} | {ours / velas - 1:+.2%} | {more:+d} "
        f"| {sum(v.entropy for v in found):,.0f} | {weights / others / 1e6:.1f} | {weights / mine / 1e6:.1f} "
        f"| {others / mine:.1f} |"
    )


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--layers", action="store_true", help="large volumes one by one")
    args = parser.parse_args()
    # Vela is imported when it is used first.
    vela.encode_weights(default_target().accelerator, np.ones((8, 1, 1, 8), np.int16), 0, (1, 1), 8, False, False)
    print("| model | weights | Vela's bytes | ours | | most more | entropy | Vela MW/s | ours MW/s | times |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model in named_models(args.models):
        found = list(volumes(model, default_target()))
        print(line(model.stem, found), flush=True)
        large = [volume for volume in found if volume.weights > LARGE] if args.layers else []
        for volume in large:
            print(line(f"... {volume.weights:,}", [volume]), flush=True)


if __name__ == "__main__":
    main()
