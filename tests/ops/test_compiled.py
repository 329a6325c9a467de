"""One small network for each kind that needs no NPU operation of its own: compiled, run, bit-exact with the reference.

Each stands between NPU operators, so that rules that make it vanish have something to make it part of.
"""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import numpy as np
import pytest
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, DType
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, Value

CASES: dict[str, Callable[[ModelBuilder, Value], Value]] = {
    "DEQUANTIZE": lambda b, x: b.dequantize(x),
    "EXPAND_DIMS": lambda b, x: b.expand_dims(b.softmax(x), 0),
    "PACK": lambda b, x: b.pack([x, b.max_pool(x, 1)], axis=1),
    "PAD": lambda b, x: b.conv2d(b.pad(x, [(0, 0), (1, 1), (2, 0), (0, 0)]), 5, 3, padding="VALID"),
    "RELU": lambda b, x: b.relu(x, output=x.quantisation),
    "RELU6": lambda b, x: b.relu(x, activation=Activation.RELU6),
    "RELU_N1_TO_1": lambda b, x: b.relu(x, activation=Activation.RELU_N1_TO_1),
    "RESHAPE": lambda b, x: b.fully_connected(b.reshape(x, (2, -1)), 5),
    "SHAPE": lambda b, x: b.reshape(x, (1, -1), target=b.pack([b.strided_slice(b.shape_of(x), (0,), (1,), (1,),
                                                                               shrink_mask=1), 42 * 8])),
    "SOFTMAX": lambda b, x: b.softmax(x),
    "SPLIT": lambda b, x: b.concatenate(b.split(x, 2)[::-1]),
    "SQUEEZE": lambda b, x: b.fully_connected(b.squeeze(x, (0,)), 6, keep_num_dims=True),
    "STRIDED_SLICE": lambda b, x: b.strided_slice(x, (0, 5, 0, 1), (1, 0, 7, 8), (1, -2, 1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8], ids=lambda d: d.value)
@pytest.mark.parametrize("kind", CASES)
def test_operator(kind: str, dtype: DType) -> None:
    builder = ModelBuilder(dtype=dtype, seed=len(kind))
    CASES[kind](builder, builder.conv2d(builder.input((1, 6, 7, 3)), 8, 1))
    model = builder.build()
    graph = read_tflite(model)
    assert kind in {op.kind for op in graph.operators}
    inputs = random_inputs(graph, 0)
    expected = reference.run(graph, inputs).outputs
    found = ethoscade.compile(model).simulate(inputs).outputs
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name].reshape(value.shape), value)
