"""Sums that 32 bits cannot hold: a fault where the output shows them, and named; else nothing."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen import tflite
from ethoscade.frontend import read_tflite
from ethoscade.ir import Quantisation
from ethoscade.lowering import weighted
from ethoscade.testing import ModelBuilder
from reference_support import needs_litert

LARGEST = 2**31 - 1


def network(scale: float, bias: int = LARGEST) -> bytes:
    """A convolution whose sums pass 32 bits, with a factor of `scale` to the output."""
    b = ModelBuilder(per_channel=False)
    x = b.input((1, 3, 3, 4), quantisation=Quantisation((1.0,), (-128,)))
    b.conv2d(
        x,
        2,
        1,
        weights=np.full((2, 1, 1, 4), 3, np.int8),
        weight_quantisation=Quantisation((float(np.float32(scale)),), (0,)),
        bias=np.array([bias, 7], np.int32),
        output=Quantisation((1.0,), (-5,)),
        name="conv",
    )
    return b.build()


@pytest.mark.parametrize("scale", [1e-22, 1e-10])
def test_a_scale_that_hides_the_sum_is_no_fault(scale: float) -> None:
    """Channels that training left dead have such biases, and scales."""
    needs_litert()
    compiled = ethoscade.compile(network(scale))
    assert compiled.cpu_operators == ()
    check = compiled.verify()
    assert check.ok and check.hazards == 0


def test_bounds_of_sums_are_reached() -> None:
    graph = read_tflite(network(1.0, 100))
    low, high = weighted.sums(graph, graph.operators[0], output_axis=0)
    assert (low.tolist(), high.tolist()) == ([100, 7], [100 + 255 * 12, 7 + 255 * 12])


def test_the_simulator_names_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowered all the same, a sum that shows is told of, with the operator whose it is."""
    needs_litert()
    monkeypatch.setattr(weighted, "_scales", lambda *_: None)
    compiled = ethoscade.compile(network(2.0**-24))
    assert compiled.cpu_operators == ()
    x = np.full((1, 3, 3, 4), 127, np.int8)
    (warning,) = compiled.simulate({"input0": x}).warnings
    assert "operator 'conv'" in warning and "32-bit accumulator, and the output depends" in warning
    check = compiled.verify(seeds=1)
    assert not check.ok and check.hazards == 1 and check.findings == (warning,)
    saved = ethoscade.simulate(tflite.write(compiled.artifact), {"input0": x})
    assert [text.split(": ", 1)[1] for text in saved.warnings] == [warning.split(": ", 1)[1]]
