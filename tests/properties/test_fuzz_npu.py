"""Damaged payloads, constants and compiled files: named errors only, soon, and nothing touched outside the arena.

`benches/fuzz_npu.py` runs the same with a million inputs.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter

import numpy as np
import pytest
from ethoscade import execution
from ethoscade.codegen import tflite
from ethoscade.compiler import compile as compile_model
from ethoscade.errors import EthoscadeError, SimulationError
from ethoscade.frontend import read_tflite
from ethoscade.testing import tiny_conv
from fuzzing import Target, pooled, targets
from npu_mutations import damage_bytes

PAYLOADS = 4000
FILES = 400
SLOWEST_SECONDS = 5.0


@pytest.fixture(scope="module")
def machines() -> list[Target]:
    return targets()


def test_damaged_payloads(machines: list[Target]) -> None:
    ends: Counter[str] = Counter()
    for number in range(PAYLOADS):
        start = time.perf_counter()
        ends[machines[number % len(machines)].run(random.Random(f"test {number}"))] += 1
        assert time.perf_counter() - start < SLOWEST_SECONDS, number
    # The damage must reach deep: some runs end well, some show hazards, and many kinds of errors appear.
    assert ends["ran"] > PAYLOADS // 50
    assert ends["hazards"] > 0
    assert len(ends) > 30


@pytest.mark.parametrize("model", [tiny_conv, pooled])
def test_damaged_files(model) -> None:
    artifact = compile_model(model()).artifact
    file = tflite.write(artifact)
    graph = read_tflite(file)
    inputs = {graph.tensors[i].name: np.zeros(graph.tensors[i].shape, np.int8) for i in graph.inputs}
    for number in range(FILES):
        data = damage_bytes(random.Random(f"file {number}"), file)
        start = time.perf_counter()
        with contextlib.suppress(EthoscadeError):
            execution.simulate(data, inputs)
        assert time.perf_counter() - start < SLOWEST_SECONDS, number


def test_work_is_bounded(machines: list[Target]) -> None:
    machine = machines[0].machine
    machine.limit_work(10)
    try:
        with pytest.raises(SimulationError, match="the simulator stops at 10"):
            machine.run(machines[0].payload)
    finally:
        machine.limit_work(1 << 22)
