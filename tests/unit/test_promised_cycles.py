"""The streams of small networks are what their Proposals promise: words, waits, BLOCKDEP, and the referee's cycles."""

from __future__ import annotations

import functools

import pytest
from ethoscade import testing
from ethoscade.pipeline import compiler
from ethoscade.target import ACCELERATORS, load_target
from promised_cycles import broken_promises

NETWORKS = {
    "tiny_conv": testing.tiny_conv,
    "residual": testing.residual_network,
    "keyword_spotting": testing.keyword_spotting,
    "inverted_residuals": testing.inverted_residuals,
    "shuffle_units": testing.shuffle_units,
    "inception_modules": testing.inception_modules,
    **{f"random {seed}": functools.partial(testing.random_network, seed) for seed in range(3)},
}
TARGETS = [*((name, "Shared_Sram") for name in ACCELERATORS), ("ethos-u55-256", "Sram_Only")]


@pytest.mark.parametrize(("accelerator", "mode"), TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_streams_are_what_was_promised(name: str, accelerator: str, mode: str) -> None:
    """At both ends of the frontier and half-way."""
    target = load_target(accelerator, memory_mode=mode)
    network = compiler.prepare(compiler.read_tflite(NETWORKS[name]()), target)
    curve = compiler.search(network)
    for index in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(network, curve, index)), f"{curve.points[index][0]} bytes"
