"""Reference semantics of the operators that move elements or look at shapes, and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ...ir import (
    Array,
    ConcatenationAttrs,
    Graph,
    Operator,
    PackAttrs,
    PadAttrs,
    ResizeNearestAttrs,
    SplitAttrs,
    StridedSliceAttrs,
)
from ...quantised import nearest_indices, zero_point_of


def pad(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """PAD with the output's zero point, which stands for the real value 0."""
    attrs = cast(PadAttrs, op.attrs)
    fill = zero_point_of(graph.tensors[op.outputs[0]])
    return np.pad(cast(Array, inputs[0]), attrs.paddings, constant_values=fill)


def resize_nearest_neighbor(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """RESIZE_NEAREST_NEIGHBOR: rows and columns repeated or left out, whatever the quantisations."""
    attrs = cast(ResizeNearestAttrs, op.attrs)
    value, size = cast(Array, inputs[0]), graph.tensors[op.outputs[0]].shape[1:3]
    rows, columns = (
        nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(value.shape[1:3], size, strict=True)
    )
    return value[:, rows][:, :, columns]


def reshape(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same elements; the caller gives them the output tensor's shape."""
    return cast(Array, inputs[0])


def shape_of(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """SHAPE: the dimensions of the input."""
    return np.array(cast(Array, inputs[0]).shape, dtype=graph.tensors[op.outputs[0]].dtype.numpy)


def strided_slice(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """STRIDED_SLICE; vanishing dimensions have extent 1, so the output tensor's shape takes care of them."""
    attrs = cast(StridedSliceAttrs, op.attrs)
    return cast(Array, inputs[0])[np.ix_(*(list(range(*r)) for r in attrs.ranges))]


def pack(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """PACK: the inputs stacked along a new axis; all share one quantisation."""
    attrs = cast(PackAttrs, op.attrs)
    return np.stack([cast(Array, value) for value in inputs], axis=attrs.axis)


def split(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """SPLIT, SPLIT_V: the pieces in order; all share one quantisation."""
    attrs = cast(SplitAttrs, op.attrs)
    return tuple(np.split(cast(Array, inputs[attrs.operand]), np.cumsum(attrs.sizes)[:-1], axis=attrs.axis))


def concatenate(graph: Graph, op: Operator, inputs: Sequence[Array | None]) -> Array:
    """CONCATENATION: the inputs one after the other; all share one quantisation."""
    attrs = cast(ConcatenationAttrs, op.attrs)
    return np.concatenate([cast(Array, value) for value in inputs], axis=attrs.axis)
