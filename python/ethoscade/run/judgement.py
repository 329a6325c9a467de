"""Verification of an artefact: the judge of `verification` put to work on the simulator or on the emitted C.

Owns how each target executes the network for the judge, and how unverified operators are left out.
The reference is `evaluation`'s, the comparison `verification`'s.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..codegen.artifact import Artifact
from ..errors import VerificationError
from ..ir import Array, Graph
from ..judge.evaluation import Cut, read_name, reference_steps
from ..judge.verification import Observation, Verification, compare, cuts_of, verify
from ..util.progress import Progress, ProgressCallback, no_progress
from ..util.records import dataclass
from .cpu_operators import Player
from .execution import ExecutionResult, player_of, player_of_file, run_artifact_steps, run_tflite_steps, sram_touched
from .pairing import pairing_of

Arrays = Mapping[str, Array]


class _Cutting:
    """A player of CPU operators that can leave some out; operators go by their first output's name."""

    def __init__(self, graph: Graph, player: Player) -> None:
        self._player = player
        self._graph = graph
        self._names = {graph.tensors[op.outputs[0]].name: i for i, op in enumerate(graph.operators) if op.outputs}
        self._cut: dict[str, int] = {}

    @property
    def removable(self) -> Collection[str]:
        return [name for name, index in self._names.items() if index in self._player.operators]

    @property
    def unplayed(self) -> Mapping[str, str]:
        names = {index: name for name, index in self._names.items()}
        return {names[index]: reason for index, reason in self._player.missing().items() if index in names}

    def leave_out(self, cuts: Sequence[Mapping[str, Cut]]) -> None:
        self._cut = {name: self._names[name] for name in cuts[0] if name in self._names}
        # A file at fault may have an operator whose state is nothing to it, beside its own outputs.
        made = {name: len(self._graph.operators[index].outputs) for name, index in self._cut.items()}
        self._player.leave_out(
            [{self._names[name]: of[name].made[:count] for name, count in made.items()} for of in cuts]
        )

    def outputs(self, result: ExecutionResult, run: int) -> Arrays:
        """The network's outputs and what operators read that were left out, in that run after a reset."""
        read = {
            read_name(name, place): value
            for name, index in self._cut.items()
            for place, value in self._player.read[run].get(index, {}).items()
        }
        return {**result.outputs, **read}


def _sram_of(artifact: Artifact, result: ExecutionResult) -> int:
    """What a run touched of the fast memory, or, without one, of the arena."""
    return result.arena_touched_bytes if artifact.fast_bytes is None else result.fast_touched_bytes


def on_simulator(
    artifact: Artifact,
    source: Graph,
    seeds: int,
    constant_bytes: int,
    runs: int | None = None,
    tick: ProgressCallback = no_progress,
) -> Verification:
    """Verify the artefact's own bytes on the simulated NPU against the network as it was read.

    `runs` in a row on each seed, or else as `verification.steps_of` says. `constant_bytes` of constants lie in SRAM
    beside the arena. `tick` as for `verify`.
    """
    with player_of(artifact) as player:
        return _verify(
            source,
            artifact.graph,
            player,
            lambda steps: run_artifact_steps(artifact, steps, player),
            lambda result: _sram_of(artifact, result) + constant_bytes,
            seeds,
            runs,
            tick,
        )


def on_file(
    compiled: Graph, source: Graph, seeds: int, runs: int | None = None, tick: ProgressCallback = no_progress
) -> Verification:
    """Verify a compiled file, ours or another compiler's, on the simulated NPU against the network it was made from.

    Raises as `run_tflite` and `verify` do.
    """
    pairing = pairing_of(compiled, source)

    def run(steps: Sequence[Arrays]) -> Sequence[ExecutionResult]:
        given = [pairing.inputs_of_file(compiled, inputs) for inputs in steps]
        results = run_tflite_steps(compiled, given, player=player)
        return [replace(result, outputs=pairing.outputs_of_source(result.outputs)) for result in results]

    with player_of_file(compiled) as player:
        return _verify(source, compiled, player, run, lambda result: sram_touched(compiled, result), seeds, runs, tick)


@dataclass(frozen=True, eq=False)
class Comparison:
    """A compiled file's runs beside the reference; counts are sums over the runs.

    `faults` has a sentence for each thing in which its inputs and outputs are not the model's, `not_judged` one for
    each unverified operator, and for those that depend on it.
    """

    results: tuple[ExecutionResult, ...]
    elements: int
    mismatches: int
    max_abs_diff: float
    not_judged: tuple[str, ...]
    faults: tuple[str, ...]


def compare_file(
    compiled: Graph, source: Graph, steps: Sequence[Arrays], seed: int = 0, progress: Progress | None = None
) -> Comparison:
    """Run a compiled file on each of `steps`, inputs by its names, and compare with the network it was made from.

    Inputs that the file does not take are random, by `seed`. Raises as `run_tflite_steps` and `reference_steps` do, and
    `VerificationError` where nothing of it can be judged.
    """
    pairing = pairing_of(compiled, source)
    given = [pairing.inputs_of_source(source, inputs, seed, step) for step, inputs in enumerate(steps)]
    with player_of_file(compiled) as player:
        cutting = _Cutting(compiled, player)
        (judged,) = reference_steps(source, [given], *cuts_of(source, cutting))
        cutting.leave_out([expected.cuts for expected in judged])
        results = run_tflite_steps(compiled, steps, player=player, progress=progress)
        elements = mismatches = 0
        largest: float = 0
        for number, (result, expected) in enumerate(zip(results, judged, strict=True)):
            outputs = pairing.outputs_of_source(cutting.outputs(result, number))
            counted, wrong, difference = compare(outputs, expected.outputs)
            elements, mismatches, largest = elements + counted, mismatches + wrong, max(largest, difference)
    not_judged = judged[-1].not_judged
    if not elements:
        raise VerificationError(f"nothing of '{source.name}' can be judged: {'; '.join(not_judged)}")
    return Comparison(results, elements, mismatches, largest, not_judged, pairing.faults)


def _verify(
    source: Graph,
    graph: Graph,
    player: Player,
    run: Callable[[Sequence[Arrays]], Sequence[ExecutionResult]],
    touched: Callable[[ExecutionResult], int],
    seeds: int,
    runs: int | None,
    tick: ProgressCallback,
) -> Verification:
    cutting = _Cutting(graph, player)

    def execute(steps: Sequence[Arrays]) -> Sequence[Observation]:
        observations = []
        for number, result in enumerate(run(steps)):
            faults = result.faults
            observations.append(Observation(cutting.outputs(result, number), len(faults), touched(result), faults))
        return observations

    return verify(source, execute, seeds, cutting, runs, tick)


def in_c(
    artifact: Artifact,
    source: Graph,
    seeds: int,
    constant_bytes: int,
    runs: int | None = None,
    tick: ProgressCallback = no_progress,
) -> Verification:
    """Verify the emitted C, built with the system's compiler, its NPU calls served by the simulator's driver."""
    from . import host_c

    if chosen := artifact.kernels.chosen:
        names = ", ".join(f"'{one.function}'" for one in chosen.values())
        raise VerificationError(
            f"the C calls {names}, which are not here to be built with it; verify it without kernels"
        )
    with host_c.HostLibrary(artifact) as library:

        def execute(steps: Sequence[Arrays]) -> Sequence[Observation]:
            results = library.run_steps(steps)
            counted = [0, *(result.hazards or 0 for result in results)]
            return [
                Observation(result.outputs, after - before, result.arena_bytes + constant_bytes)
                for result, (before, after) in zip(results, itertools.pairwise(counted), strict=True)
            ]

        return verify(source, execute, seeds, runs=runs, tick=tick)
