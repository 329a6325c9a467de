"""One inference: a program's calls in order, in memories of which nothing is known but the state and the inputs.

Owns where values lie in these memories, what the caller, the CPU and the NPU do to them, and what is said of it. Does
not know how a program was made.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field

import numpy as np

from ..codegen.artifact import CpuCall, FeedCall, TakeCall
from ..codegen.layout import overwritten
from ..codegen.operations import ARENA_REGION, CONSTANTS_REGION, FAST_REGION, INPUT_REGION, RegionByte
from ..errors import ModelFormatError, SimulationError
from ..ir import Array, Graph
from ..util.progress import ProgressCallback
from ..util.records import dataclass
from .cpu_operators import Player
from .resources import Resources
from .simulator import Machine, NpuReport, NpuWarning

_GRID_BYTES = 16
_HARMLESS = frozenset({"saturation"})
"""Kinds of the simulator's warnings that tell of a defined result: a value that a 32-bit OFM cannot hold saturates."""


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
        return rounded(self.touched_bytes[FAST_REGION])

    @property
    def hazards(self) -> int:
        """Number of hazards in all NPU calls; the reports name them."""
        return sum(len(report.hazards) for report in self.reports)


@dataclass(frozen=True, eq=False)
class NpuStep:
    """One NPU program; `operators` names the operator of each of its kernels and transfers, if anybody knows."""

    name: str
    payload: bytes
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """What runs: the graph's tensors, their places, and the calls in order.

    `fast_bytes` is the size of region 2 when that is a memory of its own, None when it is the arena. `external`
    are inputs in regions of their own, from 3 on.
    """

    graph: Graph
    accelerator: str
    calls: tuple[NpuStep | CpuCall | FeedCall | TakeCall, ...]
    constants: bytes
    arena_bytes: int
    offsets: Mapping[int, int]
    fast_bytes: int | None = None
    external: tuple[int, ...] = ()


@dataclass(frozen=True)
class TakenRows:
    """Rows of a streamed output as the caller finds them, row by row."""

    call: TakeCall
    rows: bytes


DeviceRun = Generator[FeedCall | TakenRows, bytes | None, "ExecutionResult"]
"""A run with a stop at each feed, to be sent its rows, and at each take."""


@dataclass(frozen=True, eq=False)
class State:
    """What lives on from run to run: in tensors, and in what a runtime keeps outside of all."""

    tensors: Mapping[int, Array]
    resources: Resources


class Device:
    """A program on a device, from its reset on: state lives on from run to run."""

    def __init__(self, program: Program, player: Player, work_limit: int | None = None) -> None:
        player.prepare()
        player.reset()
        self._program, self._player, self._work_limit = program, player, work_limit
        self._state = State(_initial_state(program.graph), Resources(program.graph))

    def run(self, given: Mapping[int, Array], tick: ProgressCallback) -> DeviceRun:
        """One run on inputs by tensor index, where it must stop, step by step. One left early was none."""
        program, arena = self._program, Arena(self._program)
        if self._work_limit is not None:
            arena.machine.limit_work(self._work_limit)
        self._player.begin()
        result = yield from _inference(program, arena, self._state, given, self._player, tick)
        self._state = State(_kept_state(program.graph, arena, self._state.tensors), self._state.resources)
        return result


def fed(run: DeviceRun, given: Mapping[int, Array]) -> ExecutionResult:
    """The end of a run whose rows are those of whole inputs."""
    whole = {index: np.ascontiguousarray(array).tobytes() for index, array in given.items()}
    rows: bytes | None = None
    while True:
        try:
            stop = run.send(rows)
        except StopIteration as end:
            result: ExecutionResult = end.value
            return result
        rows = None
        if isinstance(stop, FeedCall):
            start = stop.row * stop.row_bytes
            rows = whole[stop.tensor][start : start + stop.rows * stop.row_bytes]


def _inference(
    program: Program,
    arena: Arena,
    state: State,
    given: Mapping[int, Array],
    player: Player,
    tick: ProgressCallback,
) -> DeviceRun:
    graph = program.graph
    for index, array in state.tensors.items():
        arena.store_input(index, array)
    arriving = {step.tensor for step in program.calls if isinstance(step, FeedCall)}
    for index, array in given.items():
        if index not in arriving:
            arena.store_input(index, array)
    reports = []
    warnings: list[str] = []
    harmless: list[str] = []
    for number, step in enumerate(program.calls):
        tick(number / len(program.calls))
        if isinstance(step, FeedCall):
            arena.hand_over(step, (yield step) or b"")
        elif isinstance(step, TakeCall):
            yield TakenRows(step, arena.take(step, warnings))
        elif isinstance(step, NpuStep):
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
    return ExecutionResult(outputs, touched, rounded(touched[ARENA_REGION]), tuple(warnings), tuple(reports), faults)


def _run_on_npu(arena: Arena, step: NpuStep) -> NpuReport:
    try:
        return arena.machine.run(step.payload)
    except SimulationError as error:
        raise SimulationError(f"NPU call '{step.name}': {error}", command=error.command) from error


def _sentence(step: NpuStep, warning: NpuWarning) -> str:
    """A finding of the simulator with its place, and the operator whose kernel or transfer it is about."""
    known = warning.operation < len(step.operators)
    whose = f" (operator '{step.operators[warning.operation]}')" if known else ""
    return f"{step.name}: command {warning.command}{whose}: {warning.message}"


def _run_on_cpu(program: Program, arena: Arena, call: CpuCall, player: Player) -> list[str]:
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


def _initial_state(graph: Graph) -> dict[int, Array]:
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


def _kept_state(graph: Graph, arena: Arena, state: Mapping[int, Array]) -> dict[int, Array]:
    """The state after a run of which `state` was that before it."""
    after = {variable.before: variable.after for variable in graph.variables}
    ignored: list[str] = []  # bytes that nobody wrote were read by nobody in this run; the next one will tell
    return {t: arena.load(after.get(t, t), "the next run", ignored) for t in state}


class Arena:
    """The memories of one inference and the values in them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        size = program.arena_bytes
        fast = program.fast_bytes if program.fast_bytes is not None else (ARENA_REGION, 0, size)
        external = [program.graph.tensors[index].size_bytes for index in program.external]
        self.machine = Machine(program.accelerator, [program.constants, size, fast, *external])
        self._elsewhere: dict[int, Array] = {}
        self._arriving: tuple[FeedCall, bytes] | None = None
        self._taken: dict[int, bytes] = {}

    def _place(self, index: int) -> RegionByte | None:
        """Where a tensor lies; None of one without a place."""
        if index in self.program.external:
            return RegionByte(INPUT_REGION + self.program.external.index(index), 0)
        offset = self.program.offsets.get(index)
        return None if offset is None else RegionByte(ARENA_REGION, offset)

    def store(self, index: int, value: Array) -> None:
        """Write a tensor to its place, or keep it elsewhere where it has none."""
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

    def hand_over(self, feed: FeedCall, rows: bytes) -> None:
        """The caller brings the next rows of a streamed input; what was there is lost at once.

        Those that may arrive until the next feed do so at the last moment.
        """
        if self._arriving is not None:
            self._arrive(*self._arriving)
        self._arriving = (feed, rows) if feed.is_ahead else None
        if not feed.is_ahead:
            self._arrive(feed, rows)
        elif rows:
            self.machine.write(ARENA_REGION, feed.offset, bytes(byte ^ 0xFF for byte in rows))
            self.machine.mark_initialised(ARENA_REGION, feed.offset, feed.offset + len(rows), False)

    def _arrive(self, feed: FeedCall, rows: bytes) -> None:
        if not rows:
            return
        self.machine.write(ARENA_REGION, feed.offset, rows)
        # Row by row: later rows may take the places of some of these.
        for start in range(feed.offset, feed.offset + len(rows), feed.row_bytes):
            self.machine.watch_input(ARENA_REGION, start, start + feed.row_bytes)

    def take(self, call: TakeCall, warnings: list[str]) -> bytes:
        """The next rows of a streamed output, as they lie there; bytes never written give a warning."""
        rows = self._read("the caller", call.tensor, (call.offset, call.offset + call.rows * call.row_bytes), warnings)
        self._taken[call.tensor] = self._taken.get(call.tensor, b"") + rows
        return rows

    def _read(self, reader: str, index: int, places: tuple[int, int], warnings: list[str]) -> bytes:
        hole = self.machine.find_uninitialised(ARENA_REGION, *places)
        if hole is not None:
            of = f"byte {hole} of the arena (tensor '{self.program.graph.tensors[index].name}')"
            warnings.append(f"{reader} reads {of}, which was never written")
        return bytes(self.machine.read(ARENA_REGION, places[0], places[1] - places[0]))

    def load(self, index: int, reader: str, warnings: list[str]) -> Array:
        """A tensor's value, of a streamed output all taken rows; bytes never written give a warning."""
        tensor = self.program.graph.tensors[index]
        if tensor.data is not None:
            return tensor.data
        if index in self._taken:
            return np.frombuffer(self._taken[index], tensor.dtype.numpy).reshape(tensor.shape)
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
        data = self._read(reader, index, (offset, offset + tensor.size_bytes), warnings)
        return np.frombuffer(data, tensor.dtype.numpy).reshape(tensor.shape)

    def touched(self) -> dict[int, int]:
        """One past the highest byte touched so far, by region."""
        return {region: self.machine.touched_end(region) for region in (CONSTANTS_REGION, ARENA_REGION, FAST_REGION)}


def rounded(size: int) -> int:
    """Bytes in whole steps of the memory planner's grid."""
    return -(-size // _GRID_BYTES) * _GRID_BYTES
