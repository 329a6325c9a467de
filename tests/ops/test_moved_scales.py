"""Moves whose outputs have another scale, between NPU operators: whoever reads or writes in place keeps its own scale.

Kernels copy stored values as they are; of uint8 alone CONCATENATION rescales. Compiled, run, equal to the reference.
"""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, Value

Make = Callable[[ModelBuilder, Value, Quantisation], Value]


def other(x: Value) -> Quantisation:
    """Another scale, and another zero point where there is one."""
    return Quantisation((x.quantisation.scale * 1.75,), (0 if x.dtype is DType.INT16 else 17,))


def padded(b: ModelBuilder, x: Value, q: Quantisation) -> Value:
    """A convolution behind it may not read the pad's border for its own."""
    return b.conv2d(b.pad(x, [(0, 0), (1, 1), (2, 0), (0, 0)], output=q), 5, 3, padding="VALID")


def sliced(b: ModelBuilder, x: Value, q: Quantisation) -> Value:
    return b.conv2d(b.taken_as(b.strided_slice(x, (0, 2, 1, 0), (1, 9, 7, 8), (1, 1, 1, 1)), q), 5, 3)


def in_two(b: ModelBuilder, x: Value, q: Quantisation) -> Value:
    first, second = b.split(x, 2)
    return b.add(b.taken_as(first, q), second)


def in_order(b: ModelBuilder, x: Value, q: Quantisation) -> Value:
    return b.max_pool(b.taken_as(b.transpose(x, (0, 2, 1, 3)), q), 2)


def whole(b: ModelBuilder, x: Value, q: Quantisation) -> Value:
    """Its output is its input's bytes."""
    return b.conv2d(b.taken_as(b.slice(x, (0, 0, 0, 0), (-1, -1, -1, -1)), q), 5, 3)


def joined(b: ModelBuilder, x: Value, axis: int) -> Value:
    """Of uint8 each part has a scale of its own, of others the one of all."""
    y = b.conv2d(x, 8, 3, output=None if x.dtype is DType.UINT8 else x.quantisation)
    output = Quantisation((x.quantisation.scale * 0.6,), (200,)) if x.dtype is DType.UINT8 else None
    return b.conv2d(b.concatenate([x, y], axis=axis, output=output), 4, 3)


CASES: dict[str, Make] = {
    "padded": padded,
    "sliced": sliced,
    "in_two": in_two,
    "in_order": in_order,
    "whole": whole,
    "joined_rows": lambda b, x, q: joined(b, x, 1),
    "joined_columns": lambda b, x, q: joined(b, x, 2),
    "joined_channels": lambda b, x, q: joined(b, x, 3),
}


@pytest.mark.parametrize("optimise", ["size", "performance"])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda d: d.value)
@pytest.mark.parametrize("case", CASES)
def test_in_place(case: str, dtype: DType, optimise: str) -> None:
    builder = ModelBuilder(dtype=dtype, seed=len(case))
    x = builder.conv2d(builder.input((1, 10, 9, 3)), 8, 3)
    CASES[case](builder, x, other(x))
    model = builder.build()
    compiled = ethoscade.compile(model, optimise=optimise)
    assert not compiled.kinds_on_cpu
    graph = read_tflite(model)
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        expected = reference.run(graph, inputs).outputs
        run = compiled.simulate(inputs)
        assert not run.hazards
        for name, value in expected.items():
            np.testing.assert_array_equal(run.outputs[name].reshape(value.shape), value)
