"""Random networks at several budgets on every accelerator, held to two judges: a small sample of the bench's sweep."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from end_to_end import ACCELERATORS
from ethoscade.judge import reference, verification

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

import random_networks
import seeds
from random_networks import Tally, sweep

pytest.importorskip("ai_edge_litert", reason='LiteRT is not installed: pip install "ethoscade[verify]"')


@pytest.mark.parametrize("start", range(0, 20, 5))
def test_points_of_random_networks_are_as_promised(start: int) -> None:
    tally = Tally()
    for seed in range(start, start + 5):
        sweep(seed, ACCELERATORS, tally)
    assert tally.faults == []
    assert tally.networks == 5 and tally.points >= 20 and tally.elements > 1000


def faults(seed: int = 1) -> str:
    tally = Tally()
    sweep(seed, ["ethos-u55-64"], tally)
    assert tally.points
    return "\n".join(tally.faults)


def test_a_sweep_notices_outputs_that_either_judge_would_have_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults() == ""

    def off_by_one(found: Any) -> Any:
        return dataclasses.replace(found, outputs={name: value + 1 for name, value in found.outputs.items()})

    with monkeypatch.context() as patch:
        steps = verification.reference_steps
        patch.setattr(random_networks, "reference_steps", lambda *a: [[*map(off_by_one, of)] for of in steps(*a)])
        assert "differ from litert" in faults() and random_networks.OWN not in faults()
    run_steps = reference.run_steps
    with monkeypatch.context() as patch:
        patch.setattr(random_networks.reference, "run_steps", lambda *a: [*map(off_by_one, run_steps(*a))])
        assert f"differ from {random_networks.OWN}" in faults()


def test_a_sweep_notices_bytes_that_were_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out = random_networks.carry_out

    def wasteful(*arguments: Any) -> Any:
        compiled = carry_out(*arguments)
        artifact = dataclasses.replace(compiled.artifact, arena_bytes=compiled.artifact.arena_bytes + 16)
        return dataclasses.replace(compiled, artifact=artifact)

    monkeypatch.setattr(random_networks, "carry_out", wasteful)
    assert "bytes promised, placed and touched are" in faults()


def test_a_sweep_notices_what_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no frontier")

    monkeypatch.setattr(random_networks, "explore", broken)
    tally = Tally()
    sweep(0, ["ethos-u55-64"], tally)
    assert tally.faults == ["seed 0, ethos-u55-64: ValueError: no frontier"]


def test_a_sweep_that_was_stopped_goes_on_to_the_same_counts(tmp_path: Path) -> None:
    state, all_seeds = tmp_path / "state.json", range(3, 6)

    def found(some: range, tally: Tally, seconds: float | None, file: Path | None) -> list[str]:
        return list(seeds.sweep_all(some, lambda seed: sweep(seed, ["ethos-u55-128"], tally), tally, seconds, file))

    whole = Tally()
    assert found(all_seeds, whole, None, None) == [] and whole.networks == 3
    assert found(all_seeds[:2], Tally(), None, state) == []
    resumed = seeds.tally_of(state, Tally, Tally.from_json)
    assert (resumed.networks, resumed.next_seed) == (2, 5)
    assert found(all_seeds, resumed, 0, state) == [] and resumed.networks == 2
    assert found(all_seeds, resumed, 600, state) == []
    assert resumed == whole == Tally.from_json(state.read_text())
    assert whole.on_npu and "never drawn" in whole.report() and "3 networks" in whole.report()
