"""The streams of small networks are what their Proposals promise: words, waits, BLOCKDEP, and the referee's cycles."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from ethoscade import testing
from ethoscade.frontend import read_tflite
from ethoscade.ir import Quantisation
from ethoscade.pipeline import compiler
from ethoscade.targets.target import ACCELERATORS, load_target
from promised_cycles import broken_promises


def probabilities_by_pixel() -> bytes:
    """Two SOFTMAXes of different tables, whose temporaries have 8, 16 and 32 bits, and one after the other again."""
    builder = testing.ModelBuilder("probabilities_by_pixel", seed=5)
    x = builder.input((1, 12, 9, 8))
    x = builder.conv2d(x, 24, 3)
    x = builder.conv2d(builder.softmax(x), 20, 3)
    x = builder.softmax(x, beta=0.5)
    builder.softmax(builder.softmax(x, beta=0.5), beta=2.0)
    return builder.build()


def doubled_rows() -> bytes:
    """A decoder: convolutions between images of two and four times as many rows and columns."""
    builder = testing.ModelBuilder("doubled_rows", seed=6)
    x = builder.input((1, 13, 10, 8))
    x = builder.conv2d(x, 32, 3)
    x = builder.resize_nearest(x, (26, 20))
    x = builder.conv2d(x, 16, 3)
    x = builder.resize_nearest(x, (104, 80))
    builder.conv2d(x, 8, 3, stride=2)
    return builder.build()


def twins() -> bytes:
    """Two convolutions of the same constants, which lie in the file once, and two of others behind them."""
    builder = testing.ModelBuilder("twins", seed=7)
    x = builder.input((1, 9, 11, 16))
    weights = np.random.default_rng(7).normal(size=(16, 3, 3, 16))
    same = {"weights": weights, "bias": np.zeros(16), "output": Quantisation((0.1,), (0,))}
    y = builder.add(builder.conv2d(x, 16, 3, **same), builder.conv2d(x, 16, 3, **same))
    builder.conv2d(builder.conv2d(y, 24, 1), 8, 3)
    return builder.build()


def moved() -> bytes:
    """Rows and columns that are joined, taken out with strides, filled around and turned round."""
    builder = testing.ModelBuilder("moved", seed=3)
    x = builder.conv2d(builder.input((1, 13, 10, 8)), 16, 3)
    y = builder.concatenate([x, builder.max_pool(x, 3, stride=1, padding="SAME")], axis=1)
    y = builder.conv2d(builder.concatenate([y, y], axis=2), 16, 3)
    y = builder.strided_slice(y, (0, 3, 1, 0), (1, 26, 19, 16), (1, 2, 3, 1))
    y = builder.mirror_pad(builder.pad(y, ((0, 0), (1, 0), (0, 2), (0, 5)), value=3), ((0, 0), (1, 2), (0, 0), (0, 0)))
    builder.conv2d(builder.reverse(y, (2,)), 8, 3)
    return builder.build()


def transposed() -> bytes:
    """Axes in another order, by one copy and by several, and groups of channels shuffled."""
    builder = testing.ModelBuilder("transposed", seed=4)
    x = builder.conv2d(builder.input((1, 13, 10, 8)), 24, 3)
    y = builder.conv2d(builder.transpose(x, (0, 2, 1, 3)), 16, 3)
    y = builder.conv2d(builder.transpose(y, (0, 3, 1, 2)), 18, 3)
    y = builder.transpose(builder.transpose(y, (0, 1, 3, 2)), (0, 3, 2, 1))
    wide = builder.reshape(builder.conv2d(y, 24, 1), (1, 10, 18, 3, 8))
    builder.conv2d(builder.reshape(builder.transpose(wide, (0, 1, 2, 4, 3)), (1, 10, 18, 24)), 8, 3)
    return builder.build()


def batches() -> bytes:
    """Images of a batch, with padding and constants of their own."""
    builder = testing.ModelBuilder("batches", seed=5)
    x = builder.depthwise(builder.conv2d(builder.input((3, 9, 10, 8)), 32, 3), 3, stride=2)
    builder.conv2d(builder.average_pool(x, 3, stride=1, padding="SAME"), 16, 3)
    return builder.build()


NETWORKS = {
    "batches": batches,
    "moved": moved,
    "transposed": transposed,
    "tiny_conv": testing.tiny_conv,
    "residual": testing.residual_network,
    "keyword_spotting": testing.keyword_spotting,
    "inverted_residuals": testing.inverted_residuals,
    "shuffle_units": testing.shuffle_units,
    "inception_modules": testing.inception_modules,
    "probabilities_by_pixel": probabilities_by_pixel,
    "doubled_rows": doubled_rows,
    "twins": twins,
    **{f"random {seed}": functools.partial(testing.random_network, seed) for seed in range(3)},
}
TARGETS = [*((name, "Shared_Sram") for name in ACCELERATORS), ("ethos-u55-256", "Sram_Only")]


@pytest.mark.parametrize(("accelerator", "mode"), TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_streams_are_what_was_promised(name: str, accelerator: str, mode: str) -> None:
    """At both ends of the frontier and half-way."""
    target = load_target(accelerator, memory_mode=mode)
    network = compiler.prepare(read_tflite(NETWORKS[name]()), target)
    curve = compiler.search(network)
    for index in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(network, curve, index)), f"{curve.points[index][0]} bytes"
