"""Runs whole compiled networks: NPU programs on the simulator, CPU operators beside it, all in one arena.

Owns what artefacts and compiled files are as programs, and runs in a row. It neither knows how a program was made nor
what its commands do. Files of other compilers run as well, as long as they hold `ethos-u` operators and say in their
metadata where tensors lie.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy.typing as npt

from ..codegen import provenance, tflite
from ..codegen.artifact import Artifact, CpuCall, FeedCall, NpuCall, TakeCall
from ..codegen.layout import padded
from ..errors import ModelFormatError, SimulationError, UnsupportedOperatorError
from ..frontend import ETHOS_U, read_tflite
from ..ir import Graph
from ..util.arguments import Count, checked
from ..util.progress import Progress, Stopwatch, portion
from .compiled_file import (
    accelerator_of,
    arena_places,
    constant,
    has_fast_memory,
    is_for_cpu,
    labels,
    maker_of,
    npu_operators,
    operand,
)
from .cpu_operators import Player
from .inference import Device, NpuStep, Program, fed, rounded
from .inference import ExecutionResult as ExecutionResult
from .inputs import checked_inputs
from .resources import Resources

_ANY_MACHINE = "ethos-u55-256"
"""Whose memories hold the arena of a network that starts no NPU."""


def player_of(artifact: Artifact) -> Player:
    """Who plays the CPU operators of a compiled network; a context manager."""
    first = tflite.operators_ahead(artifact)
    run = [call for call in artifact.calls if not isinstance(call, FeedCall | TakeCall)]
    places = {call.operator: first + at for at, call in enumerate(run) if isinstance(call, CpuCall)}
    return Player(artifact.graph, places, lambda: tflite.write(artifact, to_play=True))


def program_of(artifact: Artifact) -> Program:
    """What runs of a compiled network."""
    labels = iter(provenance.short([call.operators for call in artifact.calls if isinstance(call, NpuCall)]))
    calls = tuple(
        NpuStep(call.name, call.payload, next(labels)) if isinstance(call, NpuCall) else call for call in artifact.calls
    )
    return Program(
        artifact.graph,
        _ANY_MACHINE if all(isinstance(call, CpuCall) for call in calls) else artifact.accelerator,
        calls,
        padded(artifact.constants),
        artifact.arena_bytes,
        artifact.offsets,
        artifact.fast_bytes,
        artifact.external,
    )


def run_artifact(
    artifact: Artifact, inputs: Mapping[str, npt.ArrayLike], player: Player | None = None
) -> ExecutionResult:
    """Run a compiled network once, as after a reset, on `inputs` by tensor name; see `run_artifact_steps`."""
    return run_artifact_steps(artifact, [inputs], player)[0]


def run_artifact_steps(
    artifact: Artifact,
    steps: Sequence[Mapping[str, npt.ArrayLike]],
    player: Player | None = None,
    progress: Progress | None = None,
) -> tuple[ExecutionResult, ...]:
    """Run a compiled network on each of `steps`, inputs by tensor name, one after the other; state lives on.

    `player` (from `player_of`) serves several runs. Raises `ConfigError` for wrong inputs, `SimulationError` for a
    program that a device would not survive, `UnsupportedOperatorError`, before anything runs, for CPU operators that
    neither the reference nor LiteRT plays, or which need LiteRT where it is not installed.
    """
    if player is None:
        with player_of(artifact) as own:
            return run_artifact_steps(artifact, steps, own, progress)
    return _run(program_of(artifact), steps, player, progress=progress)


def run_tflite(
    graph: Graph,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    work_limit: int | None = None,
    player: Player | None = None,
    progress: Progress | None = None,
) -> ExecutionResult:
    """Run a compiled file once, as after a reset, on `inputs` by tensor name; see `run_tflite_steps`."""
    return run_tflite_steps(graph, [inputs], work_limit=work_limit, player=player, progress=progress)[0]


def run_tflite_steps(
    graph: Graph,
    steps: Sequence[Mapping[str, npt.ArrayLike]],
    *,
    work_limit: int | None = None,
    player: Player | None = None,
    progress: Progress | None = None,
) -> tuple[ExecutionResult, ...]:
    """Run a compiled file, read by `frontend.read_tflite`, on each of `steps`, inputs by tensor name; state lives on.

    `work_limit` bounds each NPU call as `Machine.limit_work` does, for untrusted files: their CPU operators
    run on the reference alone, never in LiteRT. A tensor to which the file gives no place passes between CPU operators
    outside the arena and counts nowhere. Payloads name the accelerator. `player` (from `player_of_file`) serves several
    runs. Raises as `run_artifact_steps` does, and `ModelFormatError` for a file without `ethos-u` operators or places.
    """
    program = _program_of(graph)
    if player is None:
        with player_of_file(graph, trusted=work_limit is None) as own:
            return run_tflite_steps(graph, steps, work_limit=work_limit, player=own, progress=progress)
    try:
        return _run(program, steps, player, work_limit, progress)
    except SimulationError as error:
        error.args = (f"{error}; the file is at fault, {maker_of(graph)}",)
        raise
    except UnsupportedOperatorError as error:
        if graph.faults:
            error.args = (f"{error}; {maker_of(graph)} file is at fault: {'; '.join(graph.faults)}",)
        raise


def unplayable(graph: Graph) -> tuple[str, ...]:
    """The kinds of a compiled file's CPU operators that cannot be played here, sorted."""
    with player_of_file(graph) as player:
        return tuple(sorted({graph.operators[index].kind for index in player.missing()}))


def player_of_file(graph: Graph, *, trusted: bool = True) -> Player:
    """Who plays the CPU operators of a compiled file; a context manager. If not `trusted`, the reference alone."""
    numbered = enumerate(graph.operators)
    places = {
        i: i if op.source_index is None else op.source_index
        for i, op in numbered
        if op.kind != ETHOS_U and not Resources.runs(op)
    }
    return Player(graph, places, lambda: graph.source, trusted=trusted)


@checked()
def simulate(
    source: str | os.PathLike[str] | bytes,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    work_limit: Count | None = None,
    progress: Progress | None = None,
) -> ExecutionResult:
    """Run a compiled .tflite (path or bytes), ours or another compiler's, on `inputs` by tensor name.

    `work_limit` as for `run_tflite`; `progress` as for `compile`. Raises `ModelFormatError` for a file that is not one,
    else as `run_artifact` does.
    """
    return run_tflite(read_tflite(source), inputs, work_limit=work_limit, progress=progress)


def sram_touched(graph: Graph, result: ExecutionResult) -> int:
    """Bytes of SRAM that a run of a compiled file touched: with a dedicated SRAM the arena lies in DRAM."""
    dedicated = any(has_fast_memory(graph, operator) for operator in graph.operators if operator.kind == ETHOS_U)
    return result.fast_touched_bytes if dedicated else result.arena_touched_bytes


def _program_of(graph: Graph) -> Program:
    npu = [] if is_for_cpu(graph) else npu_operators(graph)
    offsets = arena_places(graph)
    ends = [offset + graph.tensors[index].size_bytes for index, offset in offsets.items()]
    if not npu:
        steps: tuple[NpuStep | CpuCall, ...] = tuple(CpuCall(position) for position in range(len(graph.operators)))
        return Program(graph, _ANY_MACHINE, steps, b"", rounded(max(ends, default=0)), offsets)
    payload, constants, scratch, fast = (operand(graph, npu[0], position) for position in range(4))
    for operator in npu:
        if tuple(operand(graph, operator, position) for position in (1, 2, 3)) != (constants, scratch, fast):
            raise ModelFormatError(
                f"operator '{operator.name}' has other memories than '{npu[0].name}'; files are run whose '{ETHOS_U}' "
                f"operators share constants, scratch and fast scratch",
                operator=operator.name,
            )
    names = iter(labels(graph, len(npu)))
    calls = tuple(
        NpuStep(operator.name, constant(graph, operator, operand(graph, operator, 0)), next(names))
        if operator.kind == ETHOS_U
        else CpuCall(position)
        for position, operator in enumerate(graph.operators)
    )
    return Program(
        graph,
        accelerator_of(constant(graph, npu[0], payload)),
        calls,
        padded(constant(graph, npu[0], constants)),
        rounded(max(graph.tensors[scratch].size_bytes, *ends)),
        offsets,
        None if fast == scratch else graph.tensors[fast].size_bytes,
    )


# --- the run ---------------------------------------------------------------------------------------------------------


def _run(
    program: Program,
    steps: Sequence[Mapping[str, npt.ArrayLike]],
    player: Player,
    work_limit: int | None = None,
    progress: Progress | None = None,
) -> tuple[ExecutionResult, ...]:
    watch = Stopwatch(progress, ("simulate",))
    watch.begin("simulate")
    given = [checked_inputs(program.graph, inputs) for inputs in steps]
    device = Device(program, player, work_limit)
    results = []
    for number, arrays in enumerate(given):
        tick = portion(watch.tick, number / len(given), (number + 1) / len(given))
        results.append(fed(device.run(arrays, tick), arrays))
    watch.note(f"'{program.graph.name}', {len(given)} runs of {len(program.calls)} calls")
    watch.end()
    return tuple(results)
