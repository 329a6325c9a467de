"""Why a compiled network needs the SRAM that it needs: groups, stripes, buffers, and what is alive at the peak.

Owns the types of an explanation, reading them off a program, and their words. Decides nothing and runs nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ..errors import AliveBuffer
from ..ir import Graph, Operator
from ..lowering.npu import NpuGraph, NpuOperation
from ..scheduling.decisions import Backwards, Bands, Group, Schedule, Split
from ..scheduling.problem import Problem
from ..scheduling.program import (
    Arrangement,
    BufferKind,
    CallOperator,
    CopyConstants,
    CopyTensor,
    Feed,
    LoadTable,
    Program,
    Slab,
    Stripe,
    Take,
    in_scarce,
)
from ..util.records import dataclass

_PLURAL: Mapping[BufferKind, str] = {
    "tensor": "activations",
    "rolling": "rolling buffers",
    "weights": "staged weights",
    "workspace": "workspace",
}


@dataclass(frozen=True)
class Peak:
    """A step of the program and the buffers alive at it, largest first; `operator` is the one that runs there.

    Live bytes are a sum, each buffer's as they are in use at the step; where all buffers must lie is the placement's.
    `kind` is the operator's, "" without one, and `on_cpu` where it runs: there it needs its tensors whole.
    """

    step: int
    operator: str
    live_bytes: int
    alive: tuple[AliveBuffer, ...]
    kind: str = ""
    on_cpu: bool = False

    @property
    def where(self) -> str:
        """The operator, and where it runs if that is on the CPU, in words."""
        on_cpu = f", {self.kind} on the CPU, which needs its tensors whole" if self.on_cpu else ""
        return f"'{short(self.operator)}'{on_cpu}"

    def by_kind(self) -> str:
        """Bytes by kind of buffer, in words."""
        sums = {kind: sum(b.live_bytes for b in self.alive if b.kind == kind) for kind in _PLURAL}
        return ", ".join(f"{size} bytes of {_PLURAL[kind]}" for kind, size in sums.items() if size)


@dataclass(frozen=True)
class ExplainedOperator:
    """How one operation of a group is cut. `kind` has several kinds with " + " between where it does others' look-ups.

    `stripe` is the largest output box of its NPU operations (height, width, depth), `operations` their number, `block`
    the OFM block of the first. `recomputed` counts output pixels made more than once. `output` says where it writes:
    "whole" or "rolling", a buffer of `held` rows and columns. `weights` is "none", "in place", "staged" or "sliced".
    An operator on the CPU has no stripes: all of these are zero, "whole" and "none".
    """

    name: str
    kind: str
    stripe: tuple[int, int, int]
    operations: int
    block: tuple[int, int, int]
    recomputed: int
    output: str
    held: tuple[int, int]
    weights: str


@dataclass(frozen=True)
class ExplainedGroup:
    """Operations that run together. `cascade` is its number from 1, None if it is a single operation.

    `axis` is the one along which stripes follow each other (None where nothing is cut), `backwards` from the far end
    on; the group runs through once for each of `bands` across it. `buffers` are those that its steps touch; `peak` is
    its own largest step.
    """

    cascade: int | None
    operators: tuple[ExplainedOperator, ...]
    axis: str | None
    backwards: bool
    bands: int
    buffers: tuple[AliveBuffer, ...]
    peak: Peak


@dataclass(frozen=True)
class Explanation:
    """A compiled network's memory. `peak` is its largest step, `elsewhere` the largest of any other group.

    `arena_bytes` less `peak.live_bytes` is what the placement adds, rounding to 16 bytes included. `run_later` are, in
    the order of the file, operators on the NPU that begin behind some which the file has after them. `sliced` are
    those made by slices of channels, each of which is pooled before the next one.
    """

    arena_bytes: int
    steps: int
    groups: tuple[ExplainedGroup, ...]
    peak: Peak
    elsewhere: Peak | None
    run_later: tuple[str, ...] = ()
    sliced: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def explain(graph: Graph, npu: NpuGraph, problem: Problem, schedule: Schedule, arranged: Arrangement) -> Explanation:
    """Explain a placed program that `schedule` became; sizes in bytes."""
    reader, steps = _ProgramReader(graph, npu, problem, schedule, arranged), len(arranged.program.steps)
    groups = tuple(reader.groups())
    peak = reader.peak_among(range(steps))
    running = reader.group_of_step[peak.step]
    others = [group.peak for group in groups if reader.group_of_step[group.peak.step] != running]
    elsewhere = max(others, key=lambda other: other.live_bytes, default=None)
    later, sliced = (
        tuple(graph.operators[i].name for i in operators)
        for operators in (_later_than_in_file(npu.operations), npu.sliced)
    )
    return Explanation(arranged.arena_bytes, steps, groups, peak, elsewhere, later, sliced)


def _later_than_in_file(operations: Sequence[NpuOperation]) -> list[int]:
    found, latest = set(), -1
    for operator in dict.fromkeys(operation.operator for operation in operations):
        if operator < latest:
            found.add(operator)
        latest = max(latest, operator)
    return sorted(found)


def peak_of(graph: Graph, npu: NpuGraph, arranged: Arrangement) -> Peak:
    """The first step at which most bytes of the scarce memory are alive."""
    live, names = live_bytes_by_step(arranged), buffer_names(graph, npu, arranged.program)
    return _peak_at(graph, npu, arranged, names, live, max(range(len(live)), key=live.__getitem__))


# --- reading a program ------------------------------------------------------------------------------------------------


class _ProgramReader:
    """A program with what several explanations of it need, worked out once."""

    def __init__(
        self, graph: Graph, npu: NpuGraph, problem: Problem, schedule: Schedule, arranged: Arrangement
    ) -> None:
        self.graph, self.npu, self.problem, self.schedule = graph, npu, problem, schedule
        self.arranged, program = arranged, arranged.program
        self.program = program
        self.live = live_bytes_by_step(arranged)
        self.names = buffer_names(graph, npu, program)
        self.stripes: dict[int, list[Stripe]] = {}
        for step in program.steps:
            if isinstance(step, Stripe):
                self.stripes.setdefault(step.stage, []).append(step)
        self.group_of_step = self._group_of_steps()

    def groups(self) -> Iterator[ExplainedGroup]:
        """Every group of the schedule, in order."""
        steps: dict[int, list[int]] = {}
        for step, number in enumerate(self.group_of_step):
            steps.setdefault(number, []).append(step)
        cascades = itertools.count(1)
        for number, group in enumerate(self.schedule.groups):
            axis = next((d.axis for d in group.decisions if isinstance(d, Split)), None)
            bands = next((d.count for d in group.decisions if isinstance(d, Bands)), 1)
            yield ExplainedGroup(
                cascade=next(cascades) if group.is_cascade else None,
                operators=tuple(self._operator(part) for part in _parts(group) if self._runs(part)),
                axis=axis,
                backwards=any(isinstance(d, Backwards) for d in group.decisions),
                bands=bands,
                buffers=tuple(self._touched(group)),
                peak=self.peak_among(steps[number]),
            )

    def peak_among(self, steps: Sequence[int]) -> Peak:
        """The first of these steps at which most bytes are alive."""
        at = max(steps, key=self.live.__getitem__, default=0)
        return _peak_at(self.graph, self.npu, self.arranged, self.names, self.live, at)

    def _group_of_steps(self) -> list[int]:
        """The group that runs at each step; copies belong to whatever runs when they are issued."""
        of_part = {
            (self.problem.parts[part][0], index): number
            for number, group in enumerate(self.schedule.groups)
            for part in _parts(group)
            for index in self.problem.operations(part)
        }
        running = 0
        found: list[int] = []
        for step in self.program.steps:
            if isinstance(step, Stripe):
                running = of_part["npu", step.stage]
            elif isinstance(step, CallOperator):
                running = of_part["operator", step.operator]
            elif isinstance(step, Feed | Take):
                running = of_part["feed" if isinstance(step, Feed) else "take", step.tensor]
            found.append(running)
        return found

    def _operator(self, part: int) -> ExplainedOperator:
        where, number = self.problem.parts[part]
        if where == "operator":
            return _on_cpu(self.graph.operators[number])
        if where in ("feed", "take"):
            return self._handover(number, where)
        operation, stripes = self.npu.operations[number], self._stripes(part)
        boxes = [step.output for step in stripes]
        largest = max(boxes, key=lambda box: (box.y1 - box.y0) * (box.x1 - box.x0))
        depth = operation.ofm.pixel_channels
        slices = len({(step.stage, step.slice) for step in stripes})
        kind = self.program.buffers[largest.buffer].kind
        if operation.weights is None:
            weights = "none"
        elif slices > 1:
            weights = "sliced"
        else:
            weights = "in place" if stripes[0].weights is None else "staged"
        return ExplainedOperator(
            name=operation.name,
            kind=" + ".join(self.graph.operators[operator].kind for operator in operation.serves),
            stripe=(largest.y1 - largest.y0, largest.x1 - largest.x0, -(-depth // slices)),
            operations=len(stripes),
            block=stripes[0].block,
            recomputed=_recomputed(stripes, operation.ofm.plane),
            output="rolling" if kind == "rolling" else "whole",
            held=(largest.rows, largest.columns),
            weights=weights,
        )

    def _handed_over(self, where: str, tensor: int) -> list[Slab]:
        """The boxes of a streamed input's feeds, or of a streamed output's takes."""
        if where == "feed":
            return [step.output for step in self.program.steps if isinstance(step, Feed) and step.tensor == tensor]
        return [step.input for step in self.program.steps if isinstance(step, Take) and step.tensor == tensor]

    def _handover(self, tensor: int, where: str) -> ExplainedOperator:
        boxes = self._handed_over(where, tensor)
        first = boxes[0]
        stripe = (first.y1 - first.y0, first.x1 - first.x0, self.graph.tensors[tensor].shape[-1])
        output = "rolling" if self.program.buffers[first.buffer].kind == "rolling" else "whole"
        return ExplainedOperator(
            self.graph.tensors[tensor].name,
            "rows that arrive" if where == "feed" else "rows taken",
            stripe,
            len(boxes),
            (0, 0, 0),
            0,
            output,
            (first.rows, first.columns),
            "none",
        )

    def _runs(self, part: int) -> bool:
        """Whether anything is made of a Part: a group leaves out what it joins and then never reads."""
        return self.problem.parts[part][0] != "npu" or bool(self._stripes(part))

    def _stripes(self, part: int) -> list[Stripe]:
        return [step for number in self.problem.operations(part) for step in self.stripes.get(number, ())]

    def _touched(self, group: Group) -> Iterator[AliveBuffer]:
        """Buffers of a group's steps in order of first use, with the most bytes of each that are in use at once."""
        used: dict[int, None] = {}
        for part in _parts(group):
            where, number = self.problem.parts[part]
            if where == "npu":
                for step in self._stripes(part):
                    used |= dict.fromkeys([*(slab.buffer for slab in step.inputs), step.output.buffer])
                    used |= {} if step.weights is None else {step.weights: None}
            elif where == "operator":
                used |= dict.fromkeys(_called_buffers(self.graph, self.program, number))
            else:
                used |= dict.fromkeys(box.buffer for box in self._handed_over(where, number))
        yield from map(self._most, used)

    def _most(self, index: int) -> AliveBuffer:
        buffer = self.program.buffers[index]
        most = max((window.high - window.low for window in buffer.windows), default=buffer.size_bytes)
        return AliveBuffer(self.names[index], buffer.kind, most, buffer.size_bytes)


def _recomputed(stripes: Sequence[Stripe], plane: tuple[int, int]) -> int:
    """Pixels of a plane that the stripes make more than once, each operation and each slice of channels by itself."""
    made: dict[tuple[int, int | None], npt.NDArray[np.int64]] = {}
    for step in stripes:
        times = made.setdefault((step.stage, step.slice), np.zeros(plane, np.int64))
        times[step.output.y0 : step.output.y1, step.output.x0 : step.output.x1] += 1
    return sum(int(np.maximum(times - 1, 0).sum()) for times in made.values())


def _on_cpu(op: Operator) -> ExplainedOperator:
    return ExplainedOperator(op.name, op.kind, (0, 0, 0), 0, (0, 0, 0), 0, "whole", (0, 0), "none")


def _parts(group: Group) -> range:
    return range(group.first, group.last + 1)


def _called_buffers(graph: Graph, program: Program, operator: int) -> Iterator[int]:
    op = graph.operators[operator]
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and tensor in program.tensor_buffers:
            yield program.tensor_buffers[tensor]
    for step in program.steps:
        if isinstance(step, CallOperator) and step.operator == operator and step.workspace is not None:
            yield step.workspace


def live_bytes_by_step(arranged: Arrangement) -> list[int]:
    """Sum of bytes of the scarce memory that are alive at each step; without steps what lies there all the same."""
    program = arranged.program
    # A buffer is alive for a step at least, also where there is none.
    changes = [0] * (max(len(program.steps), 1) + 1)
    for index in in_scarce(arranged):
        for first, last, size in program.buffers[index].periods():
            changes[first] += size
            changes[last] -= size
    return list(itertools.accumulate(changes))[: max(len(program.steps), 1)]


def operation_at(
    npu: NpuGraph, program: Program, step: Stripe | CopyConstants | CopyTensor | LoadTable | Feed | Take
) -> NpuOperation:
    """The operation that a step works for: of a copied tensor the one that makes it, or the first reader.

    Rows that arrive do so for the first reader as well, and taken rows are their maker's.
    """
    if isinstance(step, Feed):
        reads = (s.stage for s in program.steps if isinstance(s, Stripe) and _reads(s, step.output.buffer))
        return npu.operations[next(reads)]
    if isinstance(step, Take):
        made = (s.stage for s in program.steps if isinstance(s, Stripe) and s.output.buffer == step.input.buffer)
        return npu.operations[next(made)]
    if not isinstance(step, CopyTensor):
        return npu.operations[step.stage]
    of = (
        stripe.stage
        for stripe in program.steps
        if isinstance(stripe, Stripe) and (stripe.output.buffer == step.source or _reads(stripe, step.buffer))
    )
    return npu.operations[next(of)]


def _reads(stripe: Stripe, buffer: int) -> bool:
    return any(view.buffer == buffer for view in stripe.inputs)


def buffer_names(graph: Graph, npu: NpuGraph, program: Program) -> Mapping[int, str]:
    """What each buffer holds: a tensor's name, else that of the operation whose constants or workspace it is."""
    names = {i: graph.tensors[b.tensor].name for i, b in enumerate(program.buffers) if b.tensor is not None}
    for step in program.steps:
        if isinstance(step, CopyConstants):
            names[step.buffer] = npu.operations[step.stage].name
        elif isinstance(step, Stripe):
            # A temporary is made by the NPU, and no tensor of the graph says its name.
            names.setdefault(step.output.buffer, npu.operations[step.stage].ofm.tensor.name)
        elif isinstance(step, CallOperator) and step.workspace is not None:
            names[step.workspace] = graph.operators[step.operator].name
        elif isinstance(step, Feed):
            names[step.output.buffer] = graph.tensors[step.tensor].name
    return names


def _peak_at(
    graph: Graph,
    npu: NpuGraph,
    arranged: Arrangement,
    names: Mapping[int, str],
    live: Sequence[int],
    step: int,
) -> Peak:
    program, counted = arranged.program, in_scarce(arranged)
    if not program.steps:
        return Peak(0, "", live[0], ())
    alive = [
        AliveBuffer(names[index], buffer.kind, size, buffer.size_bytes)
        for index, buffer in enumerate(program.buffers)
        if index in counted and (size := buffer.live_bytes(step))
    ]
    at = program.steps[step]
    operator = at.operator if isinstance(at, CallOperator) else operation_at(npu, program, at).operator
    ordered = sorted(alive, key=lambda buffer: -buffer.live_bytes)
    found = graph.operators[operator]
    return Peak(step, found.name, live[step], tuple(ordered), found.kind, isinstance(at, CallOperator))


# --- words ------------------------------------------------------------------------------------------------------------


def _lines(explanation: Explanation) -> Iterator[str]:
    if later := explanation.run_later:
        others = f" and {len(later) - 1} more" if len(later) > 1 else ""
        yield f"run later than in the order of the file: operator '{short(later[0])}'{others}"
    for name in explanation.sliced:
        yield f"by slices of channels, each pooled before the next one is made: operator '{short(name)}'"
    for group in explanation.groups:
        yield from _group_lines(group)
    peak, elsewhere = explanation.peak, explanation.elsewhere
    added = explanation.arena_bytes - peak.live_bytes
    yield (
        f"the peak of {_size(explanation.arena_bytes)} is step {peak.step} of {explanation.steps}, in operator "
        f"{peak.where}: {peak.live_bytes:,} bytes alive, {added:,} more by placement and rounding"
    )
    yield from alive_lines(peak.alive)
    if elsewhere is not None:
        yield (
            f"to need less, one of these must shrink; then operator '{short(elsewhere.operator)}' is next, with "
            f"{_size(elsewhere.live_bytes)} alive"
        )


def _group_lines(group: ExplainedGroup) -> Iterator[str]:
    order = ", from the far end on" if group.backwards else ""
    if group.cascade is None:
        (operator,) = group.operators
        yield f"{_operator_line(operator)}{order}; peak {_size(group.peak.live_bytes)}"
        return
    bands = f", in {group.bands} bands" if group.bands > 1 else ""
    yield f"cascade {group.cascade}: {len(group.operators)} operations, stripes along the {group.axis}{order}{bands}"
    for operator in group.operators:
        yield f"  {_operator_line(operator)}"
    yield "  buffers, most bytes in use:"
    for buffer in group.buffers:
        yield f"  {_buffer_line(buffer)}"
    yield (
        f"  peak {_size(group.peak.live_bytes)} at step {group.peak.step}, in operator '{short(group.peak.operator)}':"
    )
    for line in alive_lines(group.peak.alive):
        yield f"  {line}"


def _operator_line(operator: ExplainedOperator) -> str:
    head = f"{operator.kind} '{short(operator.name)}'"
    if not operator.operations:
        return f"{head} on the CPU"
    height, width, depth = operator.stripe
    words = f"{head}: {operator.operations} x {height}x{width}x{depth}"
    if any(operator.block):
        words += f", block {'x'.join(map(str, operator.block))}"
    if operator.output == "rolling":
        words += f", {operator.held[0]}x{operator.held[1]} kept"
    if operator.recomputed:
        words += f", {operator.recomputed:,} pixels made again"
    return words if operator.weights == "none" else f"{words}, weights {operator.weights}"


def alive_lines(alive: Sequence[AliveBuffer]) -> Iterator[str]:
    """One line for each buffer: bytes in use, kind, and what it holds."""
    return (_buffer_line(buffer) for buffer in alive)


def _buffer_line(buffer: AliveBuffer) -> str:
    of = f" of {buffer.size_bytes:,}" if buffer.live_bytes != buffer.size_bytes else ""
    return f"  {buffer.live_bytes:>11,} bytes{of}  {buffer.kind} '{short(buffer.name)}'"


def short(name: str) -> str:
    """TFLite joins the names of fused operators by semicolons; the first one is enough for a line of text."""
    first, *rest = name.split(";")
    return f"{first};..." if rest else name


def _size(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes = {size_bytes / 1024:.1f} KiB"
