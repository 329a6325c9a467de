"""Multiply-accumulates of operators, as they are counted for devices: what share of a network's work runs where.

Owns the counts by kind, from shapes alone; a kernel may do more or fewer. Decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..ir import Graph, Operator

_Count = Callable[[Graph, Operator], int]


def macs_of(graph: Graph, operator: Operator) -> int:
    """Multiply-accumulates of one inference in one operator; 0 for kinds that have none, or leave out their weights."""
    count = _COUNTS.get(operator.kind)
    known = count is not None and len(operator.inputs) > 1 and None not in operator.inputs[:2] and operator.outputs
    return count(graph, operator) if count is not None and known else 0


def _convolution(graph: Graph, operator: Operator) -> int:
    """Every output element sums over a window of all input channels, which are the weights of its channel."""
    weights = graph.read(operator, 1)
    return _elements(graph.made(operator).shape) * _elements(weights.shape[1:])


def _depthwise(graph: Graph, operator: Operator) -> int:
    """Every output element sums over a window of one channel; weights are 1HWC."""
    return _elements(graph.made(operator).shape) * _elements(graph.read(operator, 1).shape[1:-1])


def _dense(graph: Graph, operator: Operator) -> int:
    """Every output element sums over a row of weights."""
    return _elements(graph.made(operator).shape) * graph.read(operator, 1).shape[-1]


def _transposed(graph: Graph, operator: Operator) -> int:
    """Every input pixel is multiplied with all weights; inputs are the output's shape, weights and values."""
    if len(operator.inputs) < 3 or operator.inputs[2] is None:
        return 0
    return _elements(graph.read(operator, 2).shape[:-1]) * _elements(graph.read(operator, 1).shape)


def _product(graph: Graph, operator: Operator) -> int:
    """Every output element sums over what the left operand has beside the product's rows, transposed or not."""
    left, made = graph.read(operator), graph.made(operator)
    rows = made.shape[-2] if len(made.shape) > 1 else 1
    return _elements(made.shape) * (_elements(left.shape[-2:]) // rows)


def _unrolled(graph: Graph, operator: Operator) -> int:
    """Every step of every sequence multiplies with all matrices."""
    values = graph.read(operator)
    matrices = (graph.tensors[t] for t in operator.inputs[1:] if t is not None)
    weights = sum(_elements(t.shape) for t in matrices if t.is_constant and len(t.shape) == 2)
    return weights * _elements(values.shape[:-1])


def _elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


_COUNTS: Mapping[str, _Count] = MappingProxyType(
    {
        "BATCH_MATMUL": _product,
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _depthwise,
        "FULLY_CONNECTED": _dense,
        "SVDF": _unrolled,
        "TRANSPOSE_CONV": _transposed,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": _unrolled,
    }
)
