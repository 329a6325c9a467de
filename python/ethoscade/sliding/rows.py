"""Which rows of each tensor are new when a window slides, and how many of the runs before are kept.

A tensor along time has one row for each step. When the window slides by some of them, all of its rows move on by
as many places, and only the last ones are new, as long as no row depends on where in the window it lies. An operator
that needs more than the new rows reads them behind those that are kept.

Owns these rows. An operator of which nothing is known reads the whole window, so that every network can slide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from ..errors import ConfigError
from ..ir import Graph, Operator, Window
from ..ir.attributes import ConcatenationAttrs, ConvAttrs, FullyConnectedAttrs, PoolAttrs
from ..ir.operators import RESHAPES
from ..util.frozen import FrozenMap
from ..util.records import dataclass


@dataclass(frozen=True)
class TimeAxis:
    """Rows along a dimension: `rows` in the whole window, of which the last `new` are made in a run.

    The dimension has `unit` elements for each row: more than 1 where a row is flattened.
    """

    axis: int
    rows: int
    new: int
    unit: int = 1


@dataclass(frozen=True)
class SlidingRows:
    """What a sliding network makes and reads.

    `time_axes` has the tensors of which only new rows are made, by index. `reads` says how many rows before the new
    ones an operator (by index) reads of such a tensor. `window_operators` read all of the window.
    """

    time_axes: Mapping[int, TimeAxis]
    reads: Mapping[tuple[int, int], int]
    window_operators: tuple[int, ...]

    def kept_rows(self, tensor: int) -> int:
        """Rows of the runs before, as many as are kept of a tensor."""
        return max((rows for (_, read), rows in self.reads.items() if read == tensor), default=0)


RowFlow = tuple[int, TimeAxis]
"""Rows an operator reads before the new ones of its inputs along time, and what it makes."""


def sliding_rows(graph: Graph, rows: int) -> SlidingRows:
    """The rows of a network whose window slides by `rows` rows of its input in each run.

    Raises `ConfigError` for a network with state or with several inputs, for an input without rows, and for more rows
    than its window has.
    """
    given = tuple(dict.fromkeys(graph.given))
    if graph.variables or any(tensor.is_variable for tensor in graph.tensors):
        raise ConfigError(f"'{graph.name}' keeps state from run to run already; only a network without state can slide")
    if len(given) != 1:
        raise ConfigError(f"'{graph.name}' has {len(given)} inputs; a network of one can slide")
    time = _of_input(graph, given[0], rows)
    time_axes, reads, window_operators = {given[0]: time}, dict[tuple[int, int], int](), list[int]()
    made = {given[0]}
    for index, op in enumerate(graph.operators):
        changing = dict.fromkeys(t for t in op.inputs if t is not None and t in made)
        if changing:
            made.update(op.outputs)
        along = [t for t in changing if t in time_axes]
        if not along:
            continue
        # What is made of all rows, such as a gate, differs in the next run, for the rows before as well.
        flow = _row_flow(graph, op, time_axes) if len(along) == len(changing) else None
        if flow is None:
            window_operators.append(index)
            reads.update(((index, t), time_axes[t].rows - time_axes[t].new) for t in along)
            continue
        reads.update(((index, t), flow[0]) for t in along)
        if flow[1].new < flow[1].rows:
            time_axes.update(dict.fromkeys(op.outputs, flow[1]))
    return SlidingRows(FrozenMap(time_axes), FrozenMap(reads), tuple(window_operators))


def _of_input(graph: Graph, index: int, new: int) -> TimeAxis:
    """Time in the input: its first dimension of several elements, or, flattened, of the RESHAPEs reading it."""
    tensor = graph.tensors[index]
    shape = tensor.shape
    readers = [graph.operators[i] for i in graph.consumers().get(index, ())]
    shapes = {graph.made(reader).shape if reader.kind in RESHAPES else () for reader in readers}
    if len(shape) < 3 and prod(shape[:-1]) == 1 and len(shapes) == 1:
        shape = shapes.pop() or shape
    axis, rows = next(((axis, extent) for axis, extent in enumerate(shape) if extent > 1), (0, 1))
    if axis == 0 or len(shape) < 3 or axis == len(shape) - 1:
        raise ConfigError(
            f"input '{tensor.name}' of '{graph.name}' is {tensor.shape}; a network slides along the first dimension "
            f"behind the batch, which is 1, and at least one more dimension must follow"
        )
    if not 1 <= new < rows:
        raise ConfigError(f"rows is {new}; the window of '{graph.name}' has {rows} rows, and slides by 1 to {rows - 1}")
    if shape is tensor.shape:
        return TimeAxis(axis, rows, new)
    return TimeAxis(len(tensor.shape) - 1, rows, new, tensor.shape[-1] // rows)


def _row_flow(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """What an operator reads and makes if it makes rows alike wherever they lie; None of any other."""
    rule = _RULES.get(op.kind) if op.opaque is None else None
    return None if rule is None else rule(graph, op, time_axes)


def _windowed(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """A window reads what it needs beyond its stride, and rows at the end taken by no window."""
    time, window = time_axes.get(op.input(0)), op.attrs.window if isinstance(op.attrs, ConvAttrs | PoolAttrs) else None
    if time is None or window is None or time.unit > 1 or any(t in time_axes for t in op.inputs[1:] if t is not None):
        return None
    along = _along(window, time.axis)
    if along is None:
        return None
    taken, stride = along
    left = (time.rows - taken) % stride
    before, made = taken - stride + left, graph.made(op).shape[time.axis]
    if time.new % stride or before < 0 or time.new // stride > made:
        return None
    return before, TimeAxis(time.axis, made, time.new // stride)


def _along(window: Window, axis: int) -> tuple[int, int] | None:
    """Rows taken by a window along an axis, and its stride; None where it pads the axis."""
    if axis == 1 and not (window.pad_top or window.pad_bottom):
        return window.dilated_h, window.stride_h
    if axis == 2 and not (window.pad_left or window.pad_right):
        return window.dilated_w, window.stride_w
    return None


def _element_wise(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """Operands along time are alike, and all others are the same for every row."""
    shape = graph.made(op).shape
    found = {time_axes[t] for t in op.inputs if t is not None and t in time_axes}
    others = [graph.tensors[t] for t in op.inputs if t is not None and t not in time_axes]
    (time,) = found if len(found) == 1 else (None,)
    if time is None:
        return None
    behind = len(shape) - time.axis
    if any(len(tensor.shape) >= behind and tensor.shape[-behind] != 1 for tensor in others):
        return None
    alike = all(graph.tensors[t].shape == shape for t in op.inputs if t is not None and t in time_axes)
    return (0, time) if alike else None


def _by_last_axis(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """Each row for itself, along the last axis."""
    time = time_axes.get(op.input(0))
    if time is None or time.axis >= len(graph.read(op).shape) - 1:
        return None
    return 0, time


def _fully_connected(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    keeps = op.attributes(FullyConnectedAttrs).keep_num_dims
    return _by_last_axis(graph, op, time_axes) if keeps and not any(t in time_axes for t in op.inputs[1:]) else None


def _joined(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """Along another axis than time, of inputs all along it."""
    found = {time_axes.get(t) for t in op.inputs if t is not None}
    (time,) = found if len(found) == 1 else (None,)
    return None if time is None or op.attributes(ConcatenationAttrs).axis == time.axis else (0, time)


def _reshaped(graph: Graph, op: Operator, time_axes: Mapping[int, TimeAxis]) -> RowFlow | None:
    """Rows stay rows where they are what the first dimension of several elements counts."""
    time, shape = time_axes.get(op.input(0)), graph.made(op).shape
    if time is None or prod(graph.read(op).shape[: time.axis]) > 1:
        return None
    axis, extent = next(((axis, extent) for axis, extent in enumerate(shape) if extent > 1), (0, 1))
    if extent % time.rows or prod(graph.read(op).shape) != prod(shape):
        return None
    return 0, TimeAxis(axis, time.rows, time.new, extent // time.rows)


_RowRule = Callable[[Graph, Operator, Mapping[int, TimeAxis]], RowFlow | None]
_RULES: Mapping[str, _RowRule] = MappingProxyType(
    dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _windowed)
    | dict.fromkeys(
        (
            "ABS", "ADD", "DEQUANTIZE", "DIV", "ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC",
            "MAXIMUM", "MINIMUM", "MUL", "NEG", "PRELU", "QUANTIZE", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1",
            "RSQRT", "SQRT", "SQUARED_DIFFERENCE", "SUB", "TANH",
        ),
        _element_wise,
    )
    | dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), _by_last_axis)
    | dict.fromkeys(RESHAPES, _reshaped)
    | {"FULLY_CONNECTED": _fully_connected, "CONCATENATION": _joined}
)  # fmt: skip
