"""TOSA's operators on places of elements, and its reductions: what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ....ir import Array, DType, Graph, Operator
from ....ir.tosa import OneAxis, Pad, Slice, TileCounts, Transpose
from ..meaning import Evaluate, Inputs, given
from .arithmetic import narrow, require, wide


def _reduction(compute: Callable[..., Array]) -> Evaluate:
    """What NumPy makes of one axis, which stays."""

    def evaluate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
        found: Array = compute(given(inputs), axis=op.attributes(OneAxis).axis, keepdims=True)
        return found

    return evaluate


def reduce_sum(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """REDUCE_SUM: on the way, too, sums fit."""
    axis = op.attributes(OneAxis).axis
    sums = narrow(np.cumsum(wide(inputs), axis=axis), DType.INT32, "a sum")
    found: Array = np.take(sums, [-1], axis=axis)
    return found


def argmax(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """ARGMAX: the first of equal ones."""
    found: Array = np.asarray(np.argmax(given(inputs), axis=op.attributes(OneAxis).axis), np.int32)
    return found


def concat(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CONCAT."""
    return np.concatenate([given(inputs, place) for place in range(len(inputs))], axis=op.attributes(OneAxis).axis)


def reverse(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """REVERSE."""
    return np.flip(given(inputs), op.attributes(OneAxis).axis)


def pad(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """PAD."""
    attrs, x = op.attributes(Pad), given(inputs)
    return np.pad(x, list(zip(attrs.before, attrs.after, strict=True)), constant_values=x.dtype.type(attrs.value))


def reshape(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESHAPE: to the output's shape."""
    return given(inputs).reshape(graph.made(op).shape)


def slice_(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SLICE."""
    attrs = op.attributes(Slice)
    return given(inputs)[tuple(slice(at, at + count) for at, count in zip(attrs.start, attrs.size, strict=True))]


def tile(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TILE."""
    return np.tile(given(inputs), op.attributes(TileCounts).multiples)


def transpose(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TRANSPOSE."""
    return np.transpose(given(inputs), op.attributes(Transpose).permutation)


def gather(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """GATHER: of each batch the rows with the indices given."""
    values, indices = given(inputs), wide(inputs, 1)
    require((indices >= 0) & (indices < values.shape[1]), f"that indices are 0 to {values.shape[1] - 1}")
    found: Array = values[np.arange(values.shape[0])[:, None], indices]
    return found


def scatter(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SCATTER: other rows at the indices given, each index once in a batch."""
    values, indices, rows = given(inputs), wide(inputs, 1), given(inputs, 2)
    require((indices >= 0) & (indices < values.shape[1]), f"that indices are 0 to {values.shape[1] - 1}")
    require([len(set(one)) == len(one) for one in indices.tolist()], "that each row is written once")
    found: Array = values.copy()
    found[np.arange(values.shape[0])[:, None], indices] = rows
    return found


TOSA_MOVES: Mapping[str, Evaluate] = {
    "tosa.argmax": argmax,
    "tosa.concat": concat,
    "tosa.gather": gather,
    "tosa.pad": pad,
    "tosa.reduce_all": _reduction(np.all),
    "tosa.reduce_any": _reduction(np.any),
    "tosa.reduce_max": _reduction(np.max),
    "tosa.reduce_min": _reduction(np.min),
    "tosa.reduce_sum": reduce_sum,
    "tosa.reshape": reshape,
    "tosa.reverse": reverse,
    "tosa.scatter": scatter,
    "tosa.slice": slice_,
    "tosa.tile": tile,
    "tosa.transpose": transpose,
}
"""The operators of this file."""
