"""Every point of a small network's frontier takes the cycles that it promises, by the timing model's judgement."""

from __future__ import annotations

import pytest
from ethoscade import compiler, testing
from ethoscade.target import ACCELERATORS, load_target
from promised_cycles import TOLERANCE, promised_and_timed

NETWORKS = {
    "tiny_conv": testing.tiny_conv,
    "residual": testing.residual_network,
    "keyword_spotting": testing.keyword_spotting,
    "inverted_residuals": testing.inverted_residuals,
    **{f"random {seed}": lambda seed=seed: testing.random_network(seed) for seed in range(6)},
}


@pytest.mark.parametrize("mode", ["Shared_Sram", "Sram_Only"])
@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("name", NETWORKS)
def test_promised_cycles_are_the_referees(name: str, accelerator: str, mode: str) -> None:
    target = load_target(accelerator, memory_mode=mode)
    network = compiler.prepare(compiler.read_tflite(NETWORKS[name]()), target)
    curve = compiler.search(network)
    for index in range(len(curve.points)):
        promised, timed = promised_and_timed(network, curve, index)
        assert promised == pytest.approx(timed, rel=TOLERANCE), f"{curve.points[index][0]} bytes"
