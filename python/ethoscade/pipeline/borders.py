"""Float at a network's borders: the QUANTIZE of an input, the DEQUANTIZE of an output, and what becomes of them.

Owns which of these operators stand at a border, cutting them off so that the caller hands over the quantised tensors,
and, where the caller keeps to floats, the memory in which they write over their inputs. They run on the CPU before the
first and after the last step of the search's program, so that the search never sees them.

A QUANTIZE from float32 to 8 bits reads four bytes for each that it writes. It goes from front to back, in our C and in
TensorFlow Lite Micro's kernel, so its output may begin at any byte up to its input's first: no value is overwritten
before it is read. A DEQUANTIZE goes from front to back as well, and grows: its input may lie in the last quarter of its
output. `codegen.layout` says the same of places, and refuses others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..codegen.layout import ALIGNMENT_BYTES, distance, may_overlay
from ..errors import ConfigError
from ..ir import Graph
from ..lowering.aliases import root
from ..scheduling.program import Arrangement, CallOperator, LiveWindow, Program, ProgramBuffer, in_fast
from ..util.arguments import shown
from ..util.frozen import FrozenMap
from ..util.progress import ProgressCallback
from ..util.records import dataclass
from .placing import PlannerBuffer, placed, planner_buffers, settled

_FAR = 1 << 59
"""Beyond any distance in an arena."""


@dataclass(frozen=True)
class Border:
    """A QUANTIZE or DEQUANTIZE at the border, by index: its float tensor is `outside`, the quantised one `inside`."""

    operator: int
    outside: int
    inside: int
    is_input: bool


@dataclass(frozen=True)
class Borders:
    """The borders of a graph, and why a float input or output has none (by tensor index, without a full stop)."""

    found: tuple[Border, ...]
    kept: Mapping[int, str]


INTERFACES = ("float", "int8")
"""What `io` may be: the file's own inputs and outputs, or quantised ones where it has float."""


def applied(graph: Graph, io: str) -> tuple[Graph, Borders]:
    """The graph whose interface `io` says, and the borders that are its caller's business. Raises `ConfigError`."""
    if io not in INTERFACES:
        raise ConfigError(
            f"io is {shown(io)}; choose float for inputs and outputs as the file has them, or int8 for quantised ones"
        )
    if io == "float":
        return graph, Borders((), FrozenMap({}))
    borders = find(graph)
    return cut(graph, borders), borders


def find(graph: Graph) -> Borders:
    """Every float input that a QUANTIZE alone reads and every float output that a DEQUANTIZE makes."""
    found: list[Border] = []
    kept: dict[int, str] = {}
    for what in (_of_input, _of_output):
        for tensor in dict.fromkeys(graph.given if what is _of_input else graph.handed_out):
            if graph.tensors[tensor].dtype.is_float and not graph.tensors[tensor].is_constant:
                border = what(graph, tensor)
                if isinstance(border, Border) and any(border.inside == other.inside for other in found):
                    border = f"its quantised tensor '{graph.tensors[border.inside].name}' is at another border"
                if isinstance(border, Border):
                    found.append(border)
                else:
                    kept.setdefault(tensor, border)
    return Borders(tuple(found), FrozenMap(kept))


def _of_input(graph: Graph, tensor: int) -> Border | str:
    readers = [(i, graph.operators[i]) for i in graph.consumers().get(tensor, ())]
    other = next((op for _, op in readers if op.kind != "QUANTIZE" or op.opaque is not None), None)
    if tensor in graph.outputs:
        return "it is an output as well"
    if other is not None:
        return f"operator '{other.name}' ({other.kind}) reads it"
    if len(readers) != 1:
        return f"{len(readers)} QUANTIZE operators read it" if readers else "nobody reads it"
    ((index, quantise),) = readers
    inside = quantise.outputs[0]
    return _not_a_border_reason(graph, inside) or Border(index, tensor, inside, True)


def _of_output(graph: Graph, tensor: int) -> Border | str:
    maker = graph.producer().get(tensor)
    if maker is None:
        return "no operator makes it"
    op = graph.operators[maker]
    if op.kind != "DEQUANTIZE" or op.opaque is not None:
        return f"operator '{op.name}' ({op.kind}) makes it"
    reader = next((graph.operators[i] for i in graph.consumers().get(tensor, ())), None)
    if reader is not None:
        return f"operator '{reader.name}' ({reader.kind}) reads it as well"
    inside = op.input(0)
    return _not_a_border_reason(graph, inside) or Border(maker, tensor, inside, False)


def _not_a_border_reason(graph: Graph, inside: int) -> str | None:
    """Why a tensor cannot stand at the border, or None."""
    tensor, name = graph.tensors[inside], f"'{graph.tensors[inside].name}'"
    if tensor.quantisation is None or tensor.dtype.is_float:
        return f"its counterpart {name} is {tensor.dtype.value} without a scale"
    if tensor.quantisation.axis is not None:
        return f"its counterpart {name} has a scale for each channel"
    if tensor.is_constant or tensor.is_variable:
        return f"its counterpart {name} is a {'constant' if tensor.is_constant else 'variable'}"
    if inside in graph.inputs or inside in graph.outputs:
        return f"its counterpart {name} is an input or output itself"
    return None


def cut(graph: Graph, borders: Borders) -> Graph:
    """The graph without these operators: its caller brings and gets quantised tensors, by the names of the float ones.

    Tensors keep their indices.
    """
    if not borders.found:
        return graph
    inner = inside_of(graph, borders.found)
    tensors = list(graph.tensors)
    for border in borders.found:
        tensors[border.inside] = replace(tensors[border.inside], name=tensors[border.outside].name)
    gone = {border.operator for border in borders.found}
    operators = tuple(op for index, op in enumerate(graph.operators) if index not in gone)
    return replace(inner, tensors=tuple(tensors), operators=operators).verify()


def inside_of(graph: Graph, borders: Sequence[Border]) -> Graph:
    """The graph with the quantised tensors for inputs and outputs. The borders' operators are in it still."""
    into = {border.outside: border.inside for border in borders}
    return replace(
        graph,
        inputs=tuple(into.get(t, t) for t in graph.inputs),
        outputs=tuple(into.get(t, t) for t in graph.outputs),
    )


def overlaid(graph: Graph) -> tuple[Border, ...]:
    """The borders whose operators write over their inputs: between float32 and 8 bits, no other output being there."""
    able = [border for border in find(graph).found if may_overlay(graph, graph.operators[border.operator])]
    inner = inside_of(graph, able).outputs
    roots = [root(graph, tensor) for tensor in dict.fromkeys(inner)]
    return tuple(border for border in able if border.is_input or roots.count(root(graph, border.inside)) == 1)


# --- memory -----------------------------------------------------------------------------------------------------------


def surround(
    graph: Graph, borders: Sequence[Border], inner: Arrangement, tick: ProgressCallback | None = None
) -> Arrangement:
    """The program with the borders' calls before and after it, placed so that these write over their inputs.

    `inner` is the arrangement of the graph between `borders`. It stays as it lies where that takes no more bytes, else
    all is placed anew.
    """
    if not borders:
        return inner
    program, count = _surrounded(graph, borders, settled(inner)), len(inner.pool_bytes)
    best = placed(program, _memory(graph, borders, program, dict(enumerate(inner.offsets))), count, tick)
    least = max(inner.pool_bytes[-1], least_bytes(graph, borders))
    if best.pool_bytes[-1] > least:
        kept = {buffer: inner.offsets[buffer] for buffer in in_fast(inner)}
        again = placed(program, _memory(graph, borders, program, kept), count, tick)
        best = min(best, again, key=lambda arranged: arranged.pool_bytes[-1])
    return best


def least_bytes(graph: Graph, borders: Sequence[Border]) -> int:
    """Bytes of the arena below which no placement goes: what lies in it before the first call, or after the last."""
    sizes = [t.size_bytes for t in graph.tensors]
    state = sum(_rounded(sizes[i]) for i, t in enumerate(graph.tensors) if t.is_variable)
    ends = [[t for t in dict.fromkeys(of) if not graph.tensors[t].is_constant] for of in (graph.inputs, graph.outputs)]
    return max(sum(_rounded(sizes[t]) for t in end) + state for end in ends)


def _surrounded(graph: Graph, borders: Sequence[Border], inner: Program) -> Program:
    """The inner program between the calls. Of a call's two tensors the larger tensor counts at its step."""
    before = [border for border in borders if border.is_input]
    after = [border for border in borders if not border.is_input]
    start, end = len(before), len(before) + len(inner.steps)
    last = end + len(after)
    held = {t: inner.tensor_buffers[t] for t in inner.tensor_buffers}
    begins = {held[t]: 0 for t in _given(graph, graph.inputs) if t in held}
    begins |= {held[border.inside]: number + 1 for number, border in enumerate(before)}
    ends = {held[t]: last for t in _given(graph, graph.outputs) if t in held}
    ends |= {held[border.inside]: end + number for number, border in enumerate(after)}
    buffers = [_moved(buffer, start, begins.get(index), ends.get(index)) for index, buffer in enumerate(inner.buffers)]
    for number, border in enumerate(before):
        held[border.outside] = len(buffers)
        buffers.append(_whole(graph, border.outside, 0, number + 1, buffers[held[border.inside]].pools))
    for number, border in enumerate(after):
        held[border.outside] = len(buffers)
        buffers.append(_whole(graph, border.outside, end + number, last, buffers[held[border.inside]].pools))
    calls = [[CallOperator(border.operator) for border in side] for side in (before, after)]
    return Program([*calls[0], *inner.steps, *calls[1]], buffers, held)


def _given(graph: Graph, ends: Sequence[int]) -> list[int]:
    """What is in the arena from the start or to the end: inputs or outputs, and state."""
    return [*ends, *graph.kept]


def _whole(graph: Graph, tensor: int, first_step: int, last_step: int, pools: Sequence[int]) -> ProgramBuffer:
    of = graph.tensors[tensor]
    return ProgramBuffer(f"tensor of '{of.name}'", "tensor", of.size_bytes, first_step, last_step, tensor, (), pools)


def _moved(buffer: ProgramBuffer, steps: int, begin: int | None, end: int | None) -> ProgramBuffer:
    """The buffer that many steps later; what it holds first is there from `begin`, what it holds last until `end`."""
    first = buffer.first_step + steps if begin is None else begin
    last = buffer.last_step + steps if end is None else end
    windows = [[w.first_step + steps, w.last_step + steps, w.low, w.high] for w in buffer.windows]
    if windows:
        windows[0][0], windows[-1][1] = first, last
    shown = [LiveWindow(*window) for window in windows if window[0] < window[1]]
    return ProgramBuffer(buffer.name, buffer.kind, buffer.size_bytes, first, last, buffer.tensor, shown, buffer.pools)


def _memory(
    graph: Graph, borders: Sequence[Border], program: Program, offsets: Mapping[int, int]
) -> list[PlannerBuffer]:
    """The planner's buffers, those of `offsets` where they lie already.

    At a border's own step both of its tensors are in use, and share bytes as they may.
    """
    buffers = planner_buffers(program, offsets)
    for border in borders:
        outer, inner = program.tensor_buffers[border.outside], program.tensor_buffers[border.inside]
        least = distance(graph, graph.operators[border.operator])
        if border.is_input:
            buffers[inner] = _also_at(buffers[inner], buffers[inner].lower - 1, (outer, -_FAR, -least))
        else:
            buffers[inner] = _also_at(buffers[inner], buffers[inner].upper, (outer, least, _FAR))
    return buffers


def _also_at(buffer: PlannerBuffer, step: int, share: tuple[int, int, int]) -> PlannerBuffer:
    """The buffer in use at one more step, before or behind all others."""
    first, last = min(buffer.lower, step), max(buffer.upper, step + 1)
    return buffer._replace(lower=first, upper=last, shares=[*buffer.shares, share])


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
