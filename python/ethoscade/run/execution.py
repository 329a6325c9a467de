"""Runs whole compiled networks: NPU programs on the simulator, CPU operators beside it, all in one arena.

Owns the order of calls, the places of values in the arena and what the run reports about them. It neither knows how a
program was made nor what its commands do. Files of other compilers run as well, as long as they hold `ethos-u`
operators and say in their metadata where tensors lie.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from ..codegen import provenance, tflite
from ..codegen.artifact import Artifact, CpuCall
from ..codegen.layout import overwritten, padded
from ..codegen.operations import ARENA_REGION, CONSTANTS_REGION, FAST_REGION, INPUT_REGION, RegionByte
from ..errors import ModelFormatError, SimulationError, UnsupportedOperatorError
from ..frontend import ETHOS_U, read_tflite
from ..ir import Array, Graph
from ..util.arguments import Count, checked
from ..util.progress import Progress, ProgressCallback, Stopwatch, portion
from ..util.records import dataclass
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
from .inputs import checked_inputs
from .resources import Resources
from .simulator import Machine, NpuReport, NpuWarning

_GRID_BYTES = 16
_HARMLESS = frozenset({"saturation"})
"""Kinds of the simulator's warnings that tell of a defined result: a value that a 32-bit OFM cannot hold saturates."""
_ANY_MACHINE = "ethos-u55-256"
"""Whose memories hold the arena of a network that starts no NPU."""


@dataclass(frozen=True, eq=False)
class ExecutionResult:
    """One inference.

    `outputs` by tensor name. `touched_bytes` maps a region to one past the highest byte that anything touched, CPU
    operators and the network's inputs and outputs among them; `arena_touched_bytes` is the arena's, rounded up to 16.
    `reports` are the simulator's, one per NPU call; `warnings` are theirs and the CPU operators' as sentences. `faults`
    are those of them after which outputs are not to be trusted, and the hazards: all but values that saturate.
    """

    outputs: Mapping[str, Array]
    touched_bytes: Mapping[int, int]
    arena_touched_bytes: int
    warnings: tuple[str, ...]
    reports: tuple[NpuReport, ...] = field(repr=False)
    faults: tuple[str, ...] = ()

    @property
    def fast_touched_bytes(self) -> int:
        """As `arena_touched_bytes`, of the fast memory; where there is none, what is touched of the arena as such."""
        return _rounded(self.touched_bytes[FAST_REGION])

    @property
    def hazards(self) -> int:
        """Number of hazards in all NPU calls; the reports name them."""
        return sum(len(report.hazards) for report in self.reports)


@dataclass(frozen=True, eq=False)
class _NpuStep:
    """One NPU program; `operators` names the operator of each of its kernels and transfers, if anybody knows."""

    name: str
    payload: bytes
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Program:
    """What runs: the graph's tensors, their places, and the calls in order.

    `fast_bytes` is the size of region 2 when that is a memory of its own, None when it is the arena. `external`
    are inputs in regions of their own, from 3 on.
    """

    graph: Graph
    accelerator: str
    calls: tuple[_NpuStep | CpuCall, ...]
    constants: bytes
    arena_bytes: int
    offsets: Mapping[int, int]
    fast_bytes: int | None = None
    external: tuple[int, ...] = ()


def player_of(artifact: Artifact) -> Player:
    """Who plays the CPU operators of a compiled network; a context manager."""
    first = tflite.operators_ahead(artifact)
    places = {call.operator: first + at for at, call in enumerate(artifact.calls) if isinstance(call, CpuCall)}
    return Player(artifact.graph, places, lambda: tflite.write(artifact, to_play=True))


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
    labels = iter(provenance.short([call.operators for call in artifact.calls if not isinstance(call, CpuCall)]))
    calls = tuple(
        call if isinstance(call, CpuCall) else _NpuStep(call.name, call.payload, next(labels))
        for call in artifact.calls
    )
    program = _Program(
        artifact.graph,
        _ANY_MACHINE if all(isinstance(call, CpuCall) for call in calls) else artifact.accelerator,
        calls,
        padded(artifact.constants),
        artifact.arena_bytes,
        artifact.offsets,
        artifact.fast_bytes,
        artifact.external,
    )
    return _run(program, steps, player, progress=progress)


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


def _program_of(graph: Graph) -> _Program:
    npu = [] if is_for_cpu(graph) else npu_operators(graph)
    offsets = arena_places(graph)
    ends = [offset + graph.tensors[index].size_bytes for index, offset in offsets.items()]
    if not npu:
        steps: tuple[_NpuStep | CpuCall, ...] = tuple(CpuCall(position) for position in range(len(graph.operators)))
        return _Program(graph, _ANY_MACHINE, steps, b"", _rounded(max(ends, default=0)), offsets)
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
        _NpuStep(operator.name, constant(graph, operator, operand(graph, operator, 0)), next(names))
        if operator.kind == ETHOS_U
        else CpuCall(position)
        for position, operator in enumerate(graph.operators)
    )
    return _Program(
        graph,
        accelerator_of(constant(graph, npu[0], payload)),
        calls,
        padded(constant(graph, npu[0], constants)),
        _rounded(max(graph.tensors[scratch].size_bytes, *ends)),
        offsets,
        None if fast == scratch else graph.tensors[fast].size_bytes,
    )


# --- the run ---------------------------------------------------------------------------------------------------------


def _run(
    program: _Program,
    steps: Sequence[Mapping[str, npt.ArrayLike]],
    player: Player,
    work_limit: int | None = None,
    progress: Progress | None = None,
) -> tuple[ExecutionResult, ...]:
    watch = Stopwatch(progress, ("simulate",))
    watch.begin("simulate")
    given = [checked_inputs(program.graph, inputs) for inputs in steps]
    player.prepare()
    player.reset()
    results = []
    state = _State(_initial(program.graph), Resources(program.graph))
    for number, arrays in enumerate(given):
        arena = _Arena(program)
        if work_limit is not None:
            arena.machine.limit_work(work_limit)
        player.begin()
        tick = portion(watch.tick, number / len(given), (number + 1) / len(given))
        results.append(_step(program, arena, state, arrays, player, tick))
        state = _State(_kept(program.graph, arena, state.tensors), state.resources)
    watch.note(f"'{program.graph.name}', {len(given)} runs of {len(program.calls)} calls")
    watch.end()
    return tuple(results)


@dataclass(frozen=True, eq=False)
class _State:
    """What lives on from run to run: in tensors, and in what a runtime keeps outside of all."""

    tensors: Mapping[int, Array]
    resources: Resources


def _step(
    program: _Program,
    arena: _Arena,
    state: _State,
    given: Mapping[int, Array],
    player: Player,
    tick: ProgressCallback,
) -> ExecutionResult:
    """One run, in memories of which nothing is known but the state and the inputs."""
    graph = program.graph
    for index, array in state.tensors.items():
        arena.store_input(index, array)
    for index, array in given.items():
        arena.store_input(index, array)
    reports = []
    warnings: list[str] = []
    harmless: list[str] = []
    for number, step in enumerate(program.calls):
        tick(number / len(program.calls))
        if isinstance(step, _NpuStep):
            report = _run_on_npu(arena, step)
            reports.append(report)
            warnings += [_sentence(step, warning) for warning in report.warnings]
            harmless += [_sentence(step, warning) for warning in report.warnings if warning.kind in _HARMLESS]
        elif Resources.runs(operator := graph.operators[step.operator]):
            read = operator.inputs[1:]  # not the handle
            values = {t: arena.load(t, f"operator '{operator.name}'", warnings) for t in read if t is not None}
            for index, value in state.resources.run(operator, values).items():
                arena.store(index, value)
        else:
            warnings += _run_on_cpu(program, arena, step, player)
    outputs: dict[str, Array] = {}
    for index in graph.handed_out:
        outputs[graph.tensors[index].name] = arena.load(index, "the caller", warnings)
    touched = arena.touched()
    hazards = [hazard.message for report in reports for hazard in report.hazards]
    faults = (*(warning for warning in warnings if warning not in harmless), *hazards)
    return ExecutionResult(outputs, touched, _rounded(touched[ARENA_REGION]), tuple(warnings), tuple(reports), faults)


def _run_on_npu(arena: _Arena, step: _NpuStep) -> NpuReport:
    try:
        return arena.machine.run(step.payload)
    except SimulationError as error:
        raise SimulationError(f"NPU call '{step.name}': {error}", command=error.command) from error


def _sentence(step: _NpuStep, warning: NpuWarning) -> str:
    """A finding of the simulator with its place, and the operator whose kernel or transfer it is about."""
    known = warning.operation < len(step.operators)
    whose = f" (operator '{step.operators[warning.operation]}')" if known else ""
    return f"{step.name}: command {warning.command}{whose}: {warning.message}"


def _run_on_cpu(program: _Program, arena: _Arena, call: CpuCall, player: Player) -> list[str]:
    operator = program.graph.operators[call.operator]
    fault = overwritten(program.graph, operator, program.offsets)
    warnings: list[str] = [] if fault is None else [fault]
    reader = f"operator '{operator.name}' ({operator.kind})"
    # An input that is named twice is one value, read once.
    indices = dict.fromkeys(index for index in operator.inputs if index is not None)
    values = {index: arena.load(index, reader, warnings) for index in indices}
    if call.workspace_bytes:
        arena.machine.touch(ARENA_REGION, call.workspace_offset, call.workspace_offset + call.workspace_bytes)
    for index, value in player.run(call.operator, values).items():
        arena.store(index, value)
    return warnings


def _initial(graph: Graph) -> dict[int, Array]:
    """The state before the first run: of variables, and of the variable tensors that operators read.

    The NPU's own memories are none.
    """
    found: dict[int, Array] = {}
    made: set[int] = set()
    for operator in graph.operators:
        read = operator.inputs[len(operator.memories) :]
        state = (t for t in read if t is not None and graph.tensors[t].is_variable and t not in made)
        found.update({t: graph.tensors[t].reset_value() for t in state})
        made.update(operator.outputs)
    return found | {variable.before: variable.initial for variable in graph.variables}


def _kept(graph: Graph, arena: _Arena, state: Mapping[int, Array]) -> dict[int, Array]:
    """The state after a run of which `state` was that before it."""
    after = {variable.before: variable.after for variable in graph.variables}
    ignored: list[str] = []  # bytes that nobody wrote were read by nobody in this run; the next one will tell
    return {t: arena.load(after.get(t, t), "the next run", ignored) for t in state}


class _Arena:
    """The memories of one inference and the values in them."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        size = program.arena_bytes
        fast = program.fast_bytes if program.fast_bytes is not None else (ARENA_REGION, 0, size)
        external = [program.graph.tensors[index].size_bytes for index in program.external]
        self.machine = Machine(program.accelerator, [program.constants, size, fast, *external])
        self._elsewhere: dict[int, Array] = {}

    def _place(self, index: int) -> RegionByte | None:
        """Where a tensor lies; None of one without a place."""
        if index in self.program.external:
            return RegionByte(INPUT_REGION + self.program.external.index(index), 0)
        offset = self.program.offsets.get(index)
        return None if offset is None else RegionByte(ARENA_REGION, offset)

    def store(self, index: int, value: Array) -> None:
        place = self._place(index)
        # A file that leaves a shape out has kept no room for it.
        if place is None or value.nbytes != self.program.graph.tensors[index].size_bytes:
            self._elsewhere[index] = value
        else:
            self.machine.write(*place, np.ascontiguousarray(value).tobytes())

    def store_input(self, index: int, value: Array) -> None:
        """As `store`; the NPU's programs are watched for overwriting the value too early."""
        self.store(index, value)
        if (place := self._place(index)) is not None:
            size = self.program.graph.tensors[index].size_bytes
            self.machine.watch_input(place.region, place.offset_bytes, place.offset_bytes + size)

    def load(self, index: int, reader: str, warnings: list[str]) -> Array:
        """A tensor's value; bytes never written give a warning."""
        tensor = self.program.graph.tensors[index]
        if tensor.data is not None:
            return tensor.data
        if index in self._elsewhere:
            return self._elsewhere[index]
        offset = self.program.offsets.get(index)
        if offset is None and tensor.is_variable:
            return tensor.reset_value()
        if offset is None:
            raise ModelFormatError(
                f"{reader} reads tensor '{tensor.name}', which has no place in the arena and no maker",
                tensor=tensor.name,
            )
        hole = self.machine.find_uninitialised(ARENA_REGION, offset, offset + tensor.size_bytes)
        if hole is not None:
            of = f"byte {hole} of the arena (tensor '{tensor.name}')"
            warnings.append(f"{reader} reads {of}, which was never written")
        data = self.machine.read(ARENA_REGION, offset, tensor.size_bytes)
        return np.frombuffer(data, tensor.dtype.numpy).reshape(tensor.shape)

    def touched(self) -> dict[int, int]:
        """One past the highest byte touched so far, by region."""
        return {region: self.machine.touched_end(region) for region in (CONSTANTS_REGION, ARENA_REGION, FAST_REGION)}


def _rounded(size: int) -> int:
    return -(-size // _GRID_BYTES) * _GRID_BYTES
