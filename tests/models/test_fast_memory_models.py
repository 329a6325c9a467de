"""Public models with their arena in DRAM: exact in little fast memory, within the budget, word for word as promised."""

from __future__ import annotations

import ethoscade
import pytest
from ethoscade.pipeline import compiler
from ethoscade.pipeline.network import with_cache
from ethoscade.targets.target import load_target
from promised_cycles import broken_promises
from test_real_models import path_of, source_of

IN_DRAM = ("ethos-u65-256", "Ethos_U65_High_End", "Dedicated_Sram")


@pytest.mark.parametrize(
    ("name", "sram_kb"),
    [("vww_96_int8", 24), ("mobilenet_v1_0.25_128_uint8", 40), ("micro_speech_lstm", 12), ("mltk_vww_float_io", 16)],
)
def test_models_run_in_less_than_their_floor(name: str, sram_kb: int) -> None:
    floor = ethoscade.frontier(path_of(name)).floor_bytes
    accelerator, system_config, memory_mode = IN_DRAM
    compiled = ethoscade.compile(
        path_of(name), sram_kb=sram_kb, accelerator=accelerator, system_config=system_config, memory_mode=memory_mode
    )
    check = compiled.verify(seeds=1)
    assert check.ok and check.hazards == 0
    assert check.sram_touched_bytes == compiled.sram_bytes <= 1024 * sram_kb < floor


@pytest.mark.parametrize("name", ["resnet8_int8", "person_detect", "keyword_scrambled_8bit"])
def test_streams_between_two_memories_are_what_was_promised(name: str) -> None:
    path_of(name)
    whole = compiler.prepare(source_of(name), load_target(*IN_DRAM))
    most = compiler.search(whole).points[-1][0]
    for fitted in (whole, with_cache(whole, most // 2)):
        curve = compiler.search(fitted)
        for index in {0, len(curve.points) // 2, len(curve.points) - 1}:
            assert not list(broken_promises(fitted, curve, index)), f"{curve.points[index][0]} bytes"
