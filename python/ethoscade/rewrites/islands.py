"""fold_island: DEQUANTIZE, functions of floats that look at one element, and QUANTIZE become a QUANTIZE with a table.

A stored value of 8 bits has 256 results at most, computed here in float32 as kernels compute them. Where C libraries
may differ in a function's last bit, or devices in what a number beyond 32 bits becomes, a result counts only if it is
the same either way; else the floats stay. What only moves the floats comes behind the table, and moves 8 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..ir import EIGHT_BIT, Activation, AddAttrs, ArithmeticAttrs, DType, Graph, Operator, TableAttrs, Tensor
from ..ir.operators import ACTIVATION_OPERATORS
from ..ir.quantised import real_bounds, scale_of, zero_point_of
from ..util.records import dataclass
from .draft import OnNpu

Floats = npt.NDArray[np.float32]

_MOVES = ("MIRROR_PAD", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2", "SLICE", "STRIDED_SLICE", "TILE")
"""Kinds that move elements as they are, so that it is all the same whether they are quantised before or after."""
_ONE = np.float32(1.0)
_INT32_LOWEST, _INT32_HIGHEST = -(1 << 31), (1 << 31) - 1


def fold_island(graph: Graph, on_npu: OnNpu) -> Graph:
    """Give every QUANTIZE behind functions of one 8-bit element a table, where it will then run on the NPU."""
    for index, operator in enumerate(graph.operators):
        if operator.kind == "QUANTIZE" and operator.opaque is None and graph.read(operator).dtype is DType.FLOAT32:
            graph = _folded(graph, index, on_npu)
    return graph


def _folded(graph: Graph, index: int, on_npu: OnNpu) -> Graph:
    """The graph with a table for one QUANTIZE, ahead of what moves its floats; the same graph where it has none."""
    changed, moves, makers = graph, list[int](), graph.producer()
    while (mover := makers.get(changed.operators[index].input(0))) is not None and _moves(changed, mover):
        changed = _swapped(changed, mover, index)
        moves.append(index)
        index, makers = mover, changed.producer()
    table = _looked_up(changed, makers, changed.operators[index], on_npu)
    if table is None:
        return graph
    changed = _with(changed, {index: table}).verify()
    return changed if all(on_npu(changed, changed.operators[move]) for move in moves) else graph


def _moves(graph: Graph, index: int) -> bool:
    """Whether an operator moves floats that one other alone reads."""
    op = graph.operators[index]
    if op.kind not in _MOVES or op.opaque is not None or graph.read(op).dtype is not DType.FLOAT32:
        return False
    (made,) = op.outputs
    return made not in graph.outputs and len(graph.consumers().get(made, ())) == 1


def _swapped(graph: Graph, mover: int, quantize: int) -> Graph:
    """Floats quantised before they are moved, not after: each operator stands at the other's place."""
    first, second = graph.operators[mover], graph.operators[quantize]
    (between,), before, after = first.outputs, graph.read(first), graph.made(second)
    tensors = list(graph.tensors)
    tensors[between] = replace(after, name=tensors[between].name, shape=before.shape)
    earlier = replace(second, inputs=first.inputs[:1], outputs=first.outputs)
    later = replace(first, inputs=(between, *first.inputs[1:]), outputs=second.outputs)
    return _with(replace(graph, tensors=tuple(tensors)), {mover: earlier, quantize: later})


def _with(graph: Graph, operators: Mapping[int, Operator]) -> Graph:
    return replace(graph, operators=tuple(operators.get(i, op) for i, op in enumerate(graph.operators)))


@dataclass(frozen=True)
class _FloatFunction:
    """An operator on floats; a `constant` is its operand at the place `at`."""

    operator: Operator
    constant: np.float32 | None = None
    at: int = 0

    def apply(self, x: Floats, ulps: int) -> Floats:
        """Its results, of functions that C libraries round differently the ones `ulps` above."""
        kind = self.operator.kind
        operands = (x,) if self.constant is None else (self.constant, x) if self.at == 0 else (x, self.constant)
        if kind in _ROUNDED:
            wide = (np.asarray(operand, np.float64) for operand in operands)
            found: Floats = np.asarray(_ROUNDED[kind](*wide), np.float32)
            if ulps:
                found = np.nextafter(found, np.float32(ulps * np.inf))
        else:
            found = np.asarray(_EXACT[kind](*operands), np.float32)
        lower, upper = real_bounds(_activation(self.operator))
        found = found if lower is None else np.maximum(found, np.float32(lower))
        return found if upper is None else np.minimum(found, np.float32(upper))


def _activation(op: Operator) -> Activation:
    if op.kind in ACTIVATION_OPERATORS:
        return ACTIVATION_OPERATORS[op.kind]
    return op.attrs.activation if isinstance(op.attrs, AddAttrs | ArithmeticAttrs) else Activation.NONE


_Real = npt.NDArray[np.float64]
_BINARY = frozenset({"ADD", "DIV", "FLOOR_DIV", "MAXIMUM", "MINIMUM", "MUL", "POW", "SQUARED_DIFFERENCE", "SUB"})
"""Functions of two operands; of all others there is one."""
_WITHOUT_READER = frozenset({"COS", "FLOOR", "FLOOR_DIV", "POW", "SIN", "SQUARE"})
"""Kinds that have no options at which a reader would look."""
_EXACT: Mapping[str, Callable[..., Floats]] = {
    **dict.fromkeys(ACTIVATION_OPERATORS, lambda x: x),
    "ABS": np.abs,
    "ADD": np.add,
    "DIV": np.divide,
    "FLOOR": np.floor,
    "FLOOR_DIV": lambda a, b: np.floor(np.divide(a, b)),
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "MUL": np.multiply,
    "NEG": np.negative,
    "RSQRT": lambda x: _ONE / np.sqrt(x),
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "SQUARED_DIFFERENCE": lambda a, b: np.square(np.subtract(a, b)),
    "SUB": np.subtract,
}
"""Functions that IEEE 754 rounds alike everywhere."""
_ROUNDED: Mapping[str, Callable[..., _Real]] = {
    "COS": np.cos,
    "EXP": np.exp,
    "LOG": np.log,
    "LOGISTIC": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "POW": np.power,
    "SIN": np.sin,
    "TANH": np.tanh,
}
"""Functions of which C libraries may differ by a last bit."""


def _looked_up(graph: Graph, makers: Mapping[int, int], quantize: Operator, on_npu: OnNpu) -> Operator | None:
    """The QUANTIZE with a table, reading what the first DEQUANTIZE of its floats reads; None where it has none."""
    steps: list[_FloatFunction] = []
    maker, ofm = _maker(graph, makers, quantize.input(0)), graph.made(quantize)
    while maker is not None and maker.kind != "DEQUANTIZE":
        found = _step(graph, maker)
        if found is None:
            return None
        steps.insert(0, found[0])
        maker = _maker(graph, makers, found[1])
    if maker is None or maker.opaque is not None:
        return None
    ifm = graph.read(maker)
    if ifm.dtype not in EIGHT_BIT or ofm.dtype is not ifm.dtype or ifm.shape != ofm.shape or ifm.is_constant:
        return None
    if any(t.quantisation is None or t.quantisation.axis is not None for t in (ifm, ofm)):
        return None
    results = _results(steps, ifm, ofm)
    if results is None:
        return None
    table = replace(quantize, inputs=maker.inputs, attrs=TableAttrs(results))
    return table if on_npu(graph, table) else None


def _maker(graph: Graph, makers: Mapping[int, int], tensor: int) -> Operator | None:
    return graph.operators[makers[tensor]] if tensor in makers else None


def _step(graph: Graph, op: Operator) -> tuple[_FloatFunction, int] | None:
    """An operator as a function of one element, and the tensor of these elements; None if it is none."""
    if op.opaque is not None and op.kind not in _WITHOUT_READER:
        return None
    tensors = [None if t is None else graph.tensors[t] for t in (*op.inputs, *op.outputs)]
    if any(t is None or t.dtype is not DType.FLOAT32 for t in tensors):
        return None
    if op.kind not in _EXACT and op.kind not in _ROUNDED:
        return None
    if op.kind not in _BINARY:
        return (_FloatFunction(op), op.input(0)) if len(op.inputs) == 1 else None
    if len(op.inputs) != 2:
        return None
    for at in (0, 1):
        data = graph.read(op, at).data
        # One number, of no more dimensions than the elements have: the shape stays.
        if data is not None and data.size == 1 and graph.read(op, 1 - at).shape == graph.made(op).shape:
            return _FloatFunction(op, np.float32(data.flat[0]), at), op.input(1 - at)
    return None


def _results(steps: Sequence[_FloatFunction], ifm: Tensor, ofm: Tensor) -> tuple[int, ...] | None:
    """The stored results of all stored values, the lowest first; None where it matters who computes them."""
    lowest, highest = ifm.dtype.limits
    centred = np.arange(lowest, highest + 1, dtype=np.float64) - zero_point_of(ifm)
    found: set[tuple[int, ...]] = set()
    with np.errstate(all="ignore"):
        for ulps in (-1, 0, 1):
            x = (scale_of(ifm) * centred).astype(np.float32)
            for step in steps:
                x = step.apply(x, ulps)
            units = (x / np.float32(scale_of(ofm))).astype(np.float64)
            rounded = np.copysign(np.floor(np.abs(units) + 0.5), units)
            found |= {_stored(rounded, ofm, saturates) for saturates in (False, True)}
    return found.pop() if len(found) == 1 else None


def _stored(rounded: _Real, ofm: Tensor, saturates: bool) -> tuple[int, ...]:
    """Results with their zero point, clamped; numbers beyond 32 bits are as on devices that saturate, or do not.

    The others make the lowest integer of them. Sums with the zero point wrap.
    """
    beyond = ~(np.abs(rounded) <= _INT32_HIGHEST)
    ends = np.clip(np.nan_to_num(rounded, nan=0.0), _INT32_LOWEST, _INT32_HIGHEST)
    whole = np.where(beyond & (not saturates), _INT32_LOWEST, ends).astype(np.int64) + zero_point_of(ofm)
    wrapped = whole.astype(np.int32)
    return tuple(int(value) for value in np.clip(wrapped, *ofm.dtype.limits))
