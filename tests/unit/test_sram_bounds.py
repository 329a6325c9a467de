"""Bounds of SRAM that no schedule beats: counted by hand on small networks, and held against floors."""

from __future__ import annotations

import functools
from collections.abc import Callable

import ethoscade
import pytest
from ethoscade import ConfigError
from ethoscade.testing import (
    ModelBuilder,
    inception_modules,
    inverted_residuals,
    random_network,
    residual_network,
    shuffle_units,
)

from lower_bounds.line_needs import Cut, LineNeeds
from lower_bounds.sram import sram_bound

INPUTS: dict[str, dict[str, object]] = {
    "whole": {},
    "external": {"input_memory": "OffChipFlash"},
    "row by row": {"stream_input": 1},
}


def prepared(model: bytes, inputs: str) -> ethoscade.Prepared:
    return ethoscade.prepare(model, io="int8", **INPUTS[inputs])  # type: ignore[arg-type]


def chain(*strides: int) -> bytes:
    """3x3 convolutions of 4 channels on 8x8 pixels."""
    builder = ModelBuilder("chain")
    x = builder.input((1, 8, 8, 4), name="input")
    for stride in strides:
        x = builder.conv2d(x, 4, 3, stride=stride)
    return builder.build()


def padded_above() -> bytes:
    """A 2x2 window on 8x8x4, padded above and on the left: row k needs rows k - 1 and k."""
    builder = ModelBuilder("padded")
    x = builder.pad(builder.input((1, 8, 8, 4), name="input"), [(0, 0), (1, 0), (1, 0), (0, 0)])
    builder.conv2d(x, 4, 2, padding="VALID")
    return builder.build()


def pooled() -> bytes:
    """A 3x3 convolution of 8x8x4, and its mean."""
    builder = ModelBuilder("pooled")
    builder.average_pool(builder.conv2d(builder.input((1, 8, 8, 4), name="input"), 4, 3), 8)
    return builder.build()


def added() -> bytes:
    """Two inputs of 8x8x4, added."""
    builder = ModelBuilder("added")
    a, b = (builder.input((1, 8, 8, 4), name=name) for name in "ab")
    builder.add(a, b)
    return builder.build()


def hourglass(middles: int = 1) -> bytes:
    """8 rows of 32 bytes become 8 of 128, once or more, and these 4 of 16, by 3x3 windows."""
    builder = ModelBuilder("hourglass")
    x = builder.input((1, 8, 8, 4), name="input")
    for _ in range(middles):
        x = builder.conv2d(x, 16, 3)
    builder.conv2d(x, 4, 3, stride=2)
    return builder.build()


@pytest.mark.parametrize(
    ("model", "inputs", "size_bytes"),
    [
        # Row k is made beside rows k - 1 to 7 of the input: ten rows of 32 bytes, in one band.
        (chain(1), "whole", 10 * 32),
        # From the far end row k is made beside rows 0 to k of the input; from the near one, beside k - 1 to 7.
        (padded_above(), "whole", 9 * 32),
        # The output alone.
        (chain(1), "external", 8 * 32),
        # The mean of 4 bytes, beside all of what it is of: 260 bytes.
        (pooled(), "external", 272),
        # The sum lies over an operand. By rows it would be made beside a row more.
        (added(), "whole", 2 * 256),
        # All rows, then as before: three rows of a rolling input and eight of the output are more.
        (chain(1), "row by row", 10 * 32),
        # Four bands of two columns: all rows of the output are there, and three of the middle, two columns and one on
        # either side of 4 bytes. In one band three rows of 32 bytes; one after the other, ten.
        (chain(1, 1), "external", 8 * 32 + 3 * 4 * 4),
        # Two bands of two columns, of which the first needs five of the middle, of 16 bytes, three rows at once. In the
        # second band all rows of input and output are there.
        (hourglass(), "whole", 8 * 32 + 3 * 5 * 16 + 4 * 16),
        (hourglass(), "external", 3 * 5 * 16 + 4 * 16),
        # Two bands, and three rows of both middles, of at most six and five columns. The first band keeps all of the
        # input up to its last row, before which three rows of the output are made.
        (hourglass(2), "whole", 8 * 32 + 3 * (6 + 5) * 16 + 3 * 16),
        # In the second one all rows of the output are there.
        (hourglass(2), "external", 3 * (6 + 5) * 16 + 4 * 16),
        # One band: three rows of the input and of the middle, and the output but for the row that the last are for.
        (hourglass(), "row by row", 3 * 32 + 3 * 128 + 3 * 16),
    ],
)
def test_bounds_counted_by_hand(model: bytes, inputs: str, size_bytes: int) -> None:
    network = prepared(model, inputs)
    assert sram_bound(network.network) == size_bytes
    assert network.frontier().floor_bytes >= size_bytes


def test_an_operator_on_the_cpu_works_on_whole_tensors() -> None:
    """Exponents of 8x8x4 elements: 256 bytes read, 256 made."""
    builder = ModelBuilder("alone")
    builder.unary("EXP", builder.input((1, 8, 8, 4), name="input"))
    assert sram_bound(ethoscade.prepare(builder.build(), accelerator="none").network) == 2 * 256


def test_lines_needed_of_a_window_of_stride_2() -> None:
    """Eight rows, a row of padding behind them: row k needs 2k to 2k + 2. From the far end, 8 - 2k - 3 to 7 - 2k."""
    needs = LineNeeds(prepared(chain(2), "whole").network.problem)
    (read,) = needs.parts[0].inputs
    near = needs.need(0, read.tensor, Cut(axis=0, is_backwards=False), (0, 4))
    assert (near.until.tolist(), near.since.tolist()[:4], near.end) == ([0, 3, 5, 7, 8], [0, 2, 4, 6], 8)
    far = needs.need(0, read.tensor, Cut(axis=0, is_backwards=True), (0, 4))
    assert (far.until.tolist(), far.since.tolist()[:4], far.end) == ([0, 2, 4, 6, 8], [0, 1, 3, 5], 8)


NETWORKS: dict[str, Callable[[], bytes]] = {
    "residual": lambda: residual_network(blocks=2, channels=16, resolution=24),
    "inverted": lambda: inverted_residuals(blocks=3, resolution=32),
    "shuffle": lambda: shuffle_units(units=1, channels=16, resolution=12),
    "inception": lambda: inception_modules(modules=1, channels=16, resolution=12),
    **{f"random_{seed}": functools.partial(random_network, seed, max_resolution=12) for seed in (0, 1, 2, 3, 4, 6, 7)},
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_floor_beats_its_bound(name: str, inputs: str) -> None:
    try:
        network = prepared(NETWORKS[name](), inputs)
    except ConfigError:
        pytest.skip("its inputs cannot lie so")
    assert 0 < sram_bound(network.network) <= network.frontier().floor_bytes
