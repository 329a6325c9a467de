"""State in the arena: what a variable holds before a run and after it in one place, wherever that is possible.

Owns the decision which variables are written over where they lie, and the placement that follows. The search knows
what a variable holds before a run as an input, and what it holds afterwards as an output that updates it: it places
both alike if the one is read for the last time before the other is begun. Here, in the program that came of it, the two
buffers become one. Then nothing is to be done between two runs; else the bytes are copied once a run has ended, from
the one place to the other, and the first must be nobody's by then: all is placed anew. Between the last read and the
first write other buffers may have the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir import Graph
from ..scheduling.program import (
    Arrangement,
    CallOperator,
    CopyConstants,
    LiveWindow,
    Program,
    ProgramBuffer,
    Slab,
    Step,
    Stripe,
    in_fast,
)
from ..util.progress import ProgressCallback
from .placing import placed, planner_buffers, settled


def kept_in_place(graph: Graph, inner: Arrangement, tick: ProgressCallback | None = None) -> Arrangement:
    """The arrangement with the graph's variables in one place each, as far as can be, and all placed anew."""
    if not graph.variables:
        return inner
    before = settled(inner)
    program, number = _kept(graph, before)
    unchanged = (old for old in in_fast(inner) if before.buffers[old] == program.buffers[number[old]])
    places = {number[old]: inner.offsets[old] for old in unchanged}
    return placed(program, planner_buffers(program, places), len(inner.pool_bytes), tick)


def _kept(graph: Graph, program: Program) -> tuple[Program, Mapping[int, int]]:
    """The program with its variables in one place each, as far as can be, and the new numbers of its buffers."""
    end = max(len(program.steps), 1)
    buffers: list[ProgramBuffer | None] = list(program.buffers)
    place = list(range(len(buffers)))
    for variable in graph.variables:
        first, last = (program.tensor_buffers.get(t) for t in (variable.before, variable.after))
        if first is None or first == last:
            continue
        before, after = buffers[first], None if last is None else buffers[last]
        if before is None:
            continue
        if last is not None and after is not None and _follows(before, after):
            buffers[first], buffers[last] = _united(before, after), None
            place[last] = first
        elif before.last_step < end:
            buffers[first] = _kept_free(before, end)
    order = [index for index, buffer in enumerate(buffers) if buffer is not None]
    number = {old: new for new, old in enumerate(order)}
    named = [number[place[index]] for index in range(len(buffers))]
    kept = Program(
        [_renamed(step, named) for step in program.steps],
        [buffer for buffer in buffers if buffer is not None],
        {tensor: named[buffer] for tensor, buffer in program.tensor_buffers.items()},
    )
    return kept, dict(enumerate(named))


def _follows(before: ProgramBuffer, after: ProgramBuffer) -> bool:
    return before.size_bytes == after.size_bytes and before.last_step <= after.first_step


def _united(before: ProgramBuffer, after: ProgramBuffer) -> ProgramBuffer:
    """One buffer that holds first the one's bytes and then the other's, and none meanwhile."""
    between = [(before.last_step, after.first_step, 0, 0)]
    return _windowed(before, after.last_step, [*_windows(before), *between, *_windows(after)])


def _kept_free(before: ProgramBuffer, end: int) -> ProgramBuffer:
    """The buffer with the program's last step, after which its bytes are written."""
    between = [(before.last_step, end - 1, 0, 0)]
    return _windowed(before, end, [*_windows(before), *between, (end - 1, end, 0, before.size_bytes)])


def _windows(buffer: ProgramBuffer) -> list[tuple[int, int, int, int]]:
    shown = [(w.first_step, w.last_step, w.low, w.high) for w in buffer.windows]
    return shown or [(buffer.first_step, buffer.last_step, 0, buffer.size_bytes)]


def _windowed(buffer: ProgramBuffer, end: int, windows: Sequence[tuple[int, int, int, int]]) -> ProgramBuffer:
    shown = [LiveWindow(*window) for window in windows if window[0] < window[1]]
    return ProgramBuffer(
        buffer.name, buffer.kind, buffer.size_bytes, buffer.first_step, end, buffer.tensor, shown, buffer.pools
    )


def _renamed(step: Step, named: Sequence[int]) -> Step:
    """The step with other numbers for its buffers."""
    if isinstance(step, Stripe):
        weights = None if step.weights is None else named[step.weights]
        inputs, output = [_moved(slab, named) for slab in step.inputs], _moved(step.output, named)
        return Stripe(step.stage, inputs, output, step.padding, step.block, weights, step.slice, step.cycles)
    if isinstance(step, CopyConstants):
        return CopyConstants(step.stage, named[step.buffer], step.slice, step.cycles)
    if isinstance(step, CallOperator) and step.workspace is not None:
        return CallOperator(step.operator, named[step.workspace])
    return step


def _moved(slab: Slab, named: Sequence[int]) -> Slab:
    s = slab
    return Slab(named[s.buffer], s.y0, s.y1, s.x0, s.x1, s.rows, s.columns, s.origin_y, s.origin_x)
