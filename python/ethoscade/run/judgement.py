"""Verification of an artefact: the judge of `verification` put to work on the simulator or on the emitted C.

Owns how each target executes the network for the judge, how operators are left out that nobody judges or plays, and
which source a compiled file belongs to. The reference and the comparison are `verification`'s.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ..codegen.artifact import Artifact
from ..errors import ConfigError, VerificationError
from ..ir import Array, Graph, Tensor
from ..judge.verification import Cut, Observation, Verification, read_name, verify
from ..util.progress import Tick, nobody_asks
from .cpu_operators import Player
from .execution import ExecutionResult, player_of, player_of_file, run_artifact_steps, run_tflite_steps, sram_touched

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
        self._player.leave_out([{self._names[name]: of[name].made for name in self._cut} for of in cuts])

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
    tick: Tick = nobody_asks,
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
    compiled: Graph, source: Graph, seeds: int, runs: int | None = None, tick: Tick = nobody_asks
) -> Verification:
    """Verify a compiled file, ours or another compiler's, on the simulated NPU against the network it was made from.

    Raises as `run_tflite` and `verify` do.
    """
    renamed = _paired(_names(compiled, compiled.handed_out), _names(source, source.handed_out))
    taken = _paired(_names(source, source.given), _names(compiled, compiled.given))

    def run(steps: Sequence[Arrays]) -> Sequence[ExecutionResult]:
        given = [{taken[name]: value for name, value in inputs.items()} for inputs in steps]
        results = run_tflite_steps(compiled, given, player=player)
        outputs = [{renamed.get(name, name): value for name, value in result.outputs.items()} for result in results]
        return [replace(result, outputs=made) for result, made in zip(results, outputs, strict=True)]

    with player_of_file(compiled) as player:
        return _verify(source, compiled, player, run, lambda result: sram_touched(compiled, result), seeds, runs, tick)


def _verify(
    source: Graph,
    graph: Graph,
    player: Player,
    run: Callable[[Sequence[Arrays]], Sequence[ExecutionResult]],
    touched: Callable[[ExecutionResult], int],
    seeds: int,
    runs: int | None,
    tick: Tick,
) -> Verification:
    cutting = _Cutting(graph, player)

    def execute(steps: Sequence[Arrays]) -> Sequence[Observation]:
        observations = []
        for number, result in enumerate(run(steps)):
            found = [*result.warnings, *(hazard.message for report in result.reports for hazard in report.hazards)]
            observations.append(Observation(cutting.outputs(result, number), len(found), touched(result), found))
        return observations

    return verify(source, execute, seeds, cutting, runs, tick)


def source_of(compiled: Graph, candidates: Sequence[Graph]) -> Graph:
    """The candidate that a compiled file was made from: that with its inputs and outputs, in types and shapes.

    Names count where they are the same ones; another compiler may give its own, in the file's order. Raises
    `ConfigError` if none fits.
    """
    for graph in candidates:
        if _alike(compiled, compiled.given, graph, graph.given) and _alike(
            compiled, compiled.handed_out, graph, graph.handed_out
        ):
            return graph
    source = candidates[0]
    if _alike(compiled, compiled.given, source, source.given):
        what = f"it makes {_listed(compiled, compiled.handed_out)}, not {_listed(source, source.handed_out)}"
    else:
        what = f"it takes {_listed(compiled, compiled.given)}, not {_listed(source, source.given)}"
    raise ConfigError(f"'{compiled.name}' was not compiled from '{source.name}': {what}")


def _paired(ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    return {name: name for name in ours} if set(ours) == set(theirs) else dict(zip(ours, theirs, strict=True))


def _alike(compiled: Graph, ours: Sequence[int], source: Graph, theirs: Sequence[int]) -> bool:
    """Whether inputs or outputs of both have the same types and shapes, paired by name or else in order."""
    if len(ours) != len(theirs):
        return False
    pairs = _paired(_names(compiled, ours), _names(source, theirs))
    known = {tensor.name: (tensor.dtype, tensor.shape) for tensor in _tensors(source, theirs)}
    return all(known[pairs[t.name]] == (t.dtype, t.shape) for t in _tensors(compiled, ours))


def _listed(graph: Graph, indices: Sequence[int]) -> str:
    return ", ".join(f"'{t.name}' {t.dtype.value}{t.shape}" for t in _tensors(graph, indices))


def _names(graph: Graph, indices: Sequence[int]) -> list[str]:
    return [tensor.name for tensor in _tensors(graph, indices)]


def _tensors(graph: Graph, indices: Sequence[int]) -> list[Tensor]:
    return [graph.tensors[index] for index in indices]


def in_c(
    artifact: Artifact,
    source: Graph,
    seeds: int,
    constant_bytes: int,
    runs: int | None = None,
    tick: Tick = nobody_asks,
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
