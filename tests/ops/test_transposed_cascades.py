"""TRANSPOSE between convolutions: what it reads lies whole, what it makes is cut into stripes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from end_to_end import both_ends, network_of
from ethoscade.ir import DType
from ethoscade.testing import ModelBuilder, Value


def shuffled(b: ModelBuilder, x: Value) -> Value:
    """Four groups of channels, one channel of each after the other."""
    _, height, width, depth = x.shape
    wide = b.reshape(x, (1, height, width, 4, depth // 4))
    return b.reshape(b.transpose(wide, (0, 1, 2, 4, 3)), x.shape)


CASES: dict[str, tuple[tuple[int, int], Callable[[ModelBuilder, Value], Value]]] = {
    "columns_for_rows": ((24, 20), lambda b, x: b.transpose(x, (0, 2, 1, 3))),
    "columns_for_as_many_rows": ((24, 24), lambda b, x: b.transpose(x, (0, 2, 1, 3))),
    "channels_first": ((24, 20), lambda b, x: b.transpose(x, (0, 3, 1, 2))),
    "channels_for_columns": ((16, 12), lambda b, x: b.transpose(x, (0, 1, 3, 2))),
    "shuffled": ((24, 20), shuffled),
}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda d: d.value)
@pytest.mark.parametrize("case", CASES)
def test_both_ends_are_exact(case: str, dtype: DType) -> None:
    accelerator = ("ethos-u55-256", "ethos-u55-32", "ethos-u65-256")[len(case) % 3]
    plane, transpose = CASES[case]
    b = ModelBuilder(dtype=dtype, seed=len(case))
    x = transpose(b, b.conv2d(b.input((1, *plane, 3)), 16, 3))
    b.conv2d(x, 4, 3, stride=(2, 2))
    network = network_of(b.build(), accelerator)
    curve = both_ends(network)
    both = 2 * int(np.prod(x.shape)) * dtype.size_bytes
    if case.startswith("columns_for"):
        assert curve.points[0][0] < both, f"{curve.points[0][0]} bytes hold what it reads and makes, {both} bytes"
