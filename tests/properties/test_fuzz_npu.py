"""Damaged payloads, constants and compiled files: named errors, bounded work, and nothing touched outside the arena.

`benches/fuzz_npu.py` runs the same with a million inputs, `--files` with a million files.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from ethoscade.errors import SimulationError
from fuzzing import Target, compiled_files, targets

PAYLOADS = 4000
FILES = 1500


@pytest.fixture(scope="module")
def machines() -> list[Target]:
    return targets()


def test_damaged_payloads(machines: list[Target]) -> None:
    ends: Counter[str] = Counter()
    for number in range(PAYLOADS):
        ends[machines[number % len(machines)].run(random.Random(f"test {number}"))] += 1
    # The damage must reach deep: some runs end well, some show hazards, and many kinds of errors appear.
    assert ends["ran"] > PAYLOADS // 50
    assert ends["hazards"] > 0
    assert len(ends) > 30


@pytest.mark.parametrize("number", range(3))
def test_damaged_files(number: int) -> None:
    victim = compiled_files()[number]
    ends: Counter[str] = Counter()
    for seed in range(FILES):
        ends[victim.run(random.Random(f"file {seed}"))] += 1
    # Some files still run, some show hazards, and many kinds of errors appear.
    assert ends["ran"] > FILES // 50
    assert ends["hazards"] > 0
    assert len(ends) > 30


def test_work_is_bounded(machines: list[Target]) -> None:
    machine = machines[0].machine
    machine.limit_work(10)
    try:
        with pytest.raises(SimulationError, match="the simulator stops at 10"):
            machine.run(machines[0].payload)
    finally:
        machine.limit_work(1 << 22)
