"""Float at a network's borders: the QUANTIZE of an input, the DEQUANTIZE of an output, and what becomes of them.

Owns which of these operators stand at a border, cutting them off so that the caller hands over the quantised tensors,
and which run before and behind all others where the caller keeps to floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..codegen.layout import may_overlay
from ..errors import ConfigError
from ..ir import Graph
from ..lowering.aliases import root
from ..util.arguments import shown
from ..util.frozen import FrozenMap
from ..util.records import dataclass


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
        return f"{len(readers)} QUANTIZE operators read it" if readers else "no operator reads it"
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
    """The borders whose operators may write over their inputs, unless another output is there."""
    able = [border for border in find(graph).found if may_overlay(graph, graph.operators[border.operator])]
    inner = inside_of(graph, able).outputs
    roots = [root(graph, tensor) for tensor in dict.fromkeys(inner)]
    return tuple(border for border in able if border.is_input or roots.count(root(graph, border.inside)) == 1)
