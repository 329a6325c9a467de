"""Streams are what was promised of them, command by command: public models, accelerators and budgets."""

from __future__ import annotations

import pytest
from ethoscade.pipeline import compiler
from ethoscade.targets.target import ACCELERATORS, load_target
from promised_cycles import broken_promises
from test_real_models import MODELS, VELA_KIB, path_of, source_of

TARGETS = [*((name, "Shared_Sram") for name in ACCELERATORS), ("ethos-u55-256", "Sram_Only")]


WITH_STATE_OR_FLOATS = ("micro_speech_lstm", "alexa_resource", "mltk_vww_float_io")


@pytest.mark.parametrize(("accelerator", "mode"), TARGETS)
@pytest.mark.parametrize("name", [*MODELS, "keyword_scrambled_8bit", *WITH_STATE_OR_FLOATS])
def test_streams_are_what_was_promised(name: str, accelerator: str, mode: str) -> None:
    """At the floor, half-way up the frontier, within Vela's least SRAM, and without a budget."""
    path_of(name)
    network = compiler.prepare(source_of(name), load_target(accelerator, memory_mode=mode))
    curve = compiler.search(network)
    least = VELA_KIB.get(name, 0) * 1024
    within = max((i for i, (size, _) in enumerate(curve.points) if size <= least), default=0)
    for index in sorted({0, within, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(network, curve, index)), f"{curve.points[index][0]} bytes"
