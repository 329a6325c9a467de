"""A network from its file to a simulated run under any schedule, held to the reference and to its promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from ethoscade import Compiled
from ethoscade.frontend import read_tflite
from ethoscade.judge import reference
from ethoscade.judge.verification import compare, random_inputs, steps_of
from ethoscade.pipeline import compiler
from ethoscade.pipeline.compiled import Curve
from ethoscade.pipeline.compiler import Network, emit, prepare, search
from ethoscade.run.execution import ExecutionResult, run_artifact_steps
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Program
from ethoscade.scheduling.schedule import Schedule
from ethoscade.targets.target import Streaming, load_target
from replay import check_placed, check_program

ACCELERATORS = ("ethos-u55-256", "ethos-u55-128", "ethos-u55-64", "ethos-u55-32", "ethos-u65-256")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A schedule carried out."""

    program: Program
    placed_bytes: int
    result: ExecutionResult


def arena_touched(compiled: Compiled) -> int:
    """Bytes of the arena that a run touches, rounded up to 16."""
    return compiled.simulate(random_inputs(compiled.source, 0)).arena_touched_bytes


def network_of(
    model: bytes,
    accelerator: str = "ethos-u55-256",
    streaming: Streaming | None = None,
    taken_rows: int | None = None,
) -> Network:
    """A model made ready for scheduling."""
    target = replace(load_target(accelerator), streaming=streaming, taken_rows=taken_rows)
    return prepare(read_tflite(model), target)


def carry_out(network: Network, schedule: Schedule, seed: int = 0) -> Outcome:
    """Prove, replay, place, emit and run a schedule; every output element must equal the reference's."""
    scheduling.prove(network.problem, schedule)
    placement = scheduling.arrange(network.problem, schedule)
    program = placement.program
    check_program(network.npu.operations, program)
    offsets = dict(enumerate(placement.offsets))
    check_placed(network, program, offsets)
    artifact = emit(network, placement)
    steps = [random_inputs(network.source, seed, step) for step in range(steps_of(network.source, None))]
    results = run_artifact_steps(artifact, steps)
    for result, expected in zip(results, _expected(network, steps), strict=True):
        _, mismatches, largest = compare(result.outputs, expected)
        assert mismatches == 0, f"{mismatches} elements differ by up to {largest} under {schedule}"
        assert result.warnings == ()
        assert result.hazards == 0, f"{result.reports} under {schedule}"
        assert result.arena_touched_bytes == placement.arena_bytes, f"under {schedule}"
    return Outcome(program, placement.arena_bytes, results[0])


def both_ends(network: Network, inputs: Mapping[str, np.ndarray] | None = None) -> Curve:
    """Search, emit and run the leanest and the fastest Proposal: all on the NPU, exact, in the bytes promised."""
    curve = search(network)
    inputs = random_inputs(network.source, 1) if inputs is None else inputs
    (expected,) = _expected(network, [inputs])
    for index in {0, len(curve.points) - 1}:
        compiled = compiler.carry_out(network, curve, curve.proposals[index])
        assert compiled.cpu_operators == ()
        result = compiled.simulate(inputs)
        _, mismatches, largest = compare(result.outputs, expected)
        assert mismatches == 0, f"{mismatches} elements differ by up to {largest}"
        assert result.hazards == 0 and result.warnings == ()
        assert result.arena_touched_bytes == compiled.sram_bytes == curve.points[index][0]
    return curve


def _expected(network: Network, steps: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """By the reference semantics of the file as it was read, so that the rewrites are judged too."""
    return [dict(run.outputs) for run in reference.run_steps(network.source, steps)]
