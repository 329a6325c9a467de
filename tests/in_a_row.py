"""Runs in a row of networks with state: inputs, what Micro makes of them, and every budget against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from end_to_end import network_of
from ethoscade.ir import DType
from ethoscade.judge import reference
from ethoscade.judge.verification import compare
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.run.execution import run_artifact_steps
from promised_cycles import broken_promises

RUNS = 3


def steps_of(shape: tuple[int, ...], dtype: DType, runs: int = RUNS) -> list[dict[str, np.ndarray]]:
    """Noise for the input 'x', of each run another."""
    rng = np.random.default_rng(5)
    low, high = dtype.limits
    noise = [rng.integers(low, high + 1, shape) for _ in range(runs)]
    return [{"x": value.astype(dtype.numpy)} for value in noise]


def in_micro(model: bytes, steps: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """What TensorFlow Lite Micro makes in runs in a row, keeping the state itself."""
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model)
    found = []
    for inputs in steps:
        interpreter.set_input(inputs["x"], 0)
        interpreter.invoke()
        found.append(np.array(interpreter.get_output(0)))
    return found


def check_at_every_budget(model: bytes, accelerator: str, runs: int = RUNS) -> None:
    """The least and the most SRAM: all on the NPU, as the reference has it in every run, in the cycles promised."""
    made = network_of(model, accelerator)
    assert made.partition.cpu_operators == ()
    curve = search(made)
    given = made.source.tensors[made.source.given[0]]
    steps = steps_of(given.shape, given.dtype, runs)
    expected = [run.outputs for run in reference.run_steps(made.source, steps)]
    assert not np.array_equal(*(reference.run(made.source, inputs).outputs["y"] for inputs in steps[:2]))
    for place in {0, len(curve.points) - 1}:
        assert not list(broken_promises(made, curve, place))
        results = run_artifact_steps(carry_out(made, curve, curve.proposals[place]).artifact, steps)
        for result, wanted in zip(results, expected, strict=True):
            assert compare(result.outputs, wanted)[1] == 0 and result.hazards == 0 and result.warnings == ()
