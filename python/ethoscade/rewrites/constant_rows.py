"""fold_constant_rows: a FULLY_CONNECTED of a constant, such as a first state of zeros, is a constant."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..ir import Activation, Array, DType, FullyConnectedAttrs, Graph, Operator, Tensor
from ..ir.quantised import (
    MAX_WIDE_SHIFT,
    activation_range,
    effective_scales,
    reduced_multiplier_and_shift,
    zero_point_of,
)
from .channel_values import rescaled, rescaled_once
from .draft import Draft

_MAX_ELEMENTS = 256
"""A longer result is data, and computing it here would only make the artefact larger."""


def fold_constant_rows(graph: Graph) -> Graph:
    """Replace every FULLY_CONNECTED of constants by its result, unless it is a network output."""
    draft = Draft(graph)
    for operator in graph.operators:
        if operator.kind != "FULLY_CONNECTED" or draft.is_output(operator.outputs[0]):
            continue
        attrs, made = operator.attrs, graph.made(operator)
        if not isinstance(attrs, FullyConnectedAttrs) or math.prod(made.shape) > _MAX_ELEMENTS:
            continue
        data = _rows(graph, operator, made, attrs.activation)
        if data is not None:
            data = np.asarray(data)
            data.flags.writeable = False
            draft.set_constant(operator.outputs[0], replace(made, data=data))
    return draft.finish()


def _rows(graph: Graph, operator: Operator, ofm: Tensor, activation: Activation) -> Array | None:
    """The stored results; None where an operand is no constant or kernels define none."""
    tensors = [None if t is None else graph.tensors[t] for t in operator.inputs]
    ifm, weights, bias = (*tensors, None)[:3]
    if ifm is None or weights is None or ifm.data is None or weights.data is None or ofm.dtype is not ifm.dtype:
        return None
    if bias is not None and bias.data is None:
        return None
    rescale = _rescaling(ifm, weights, bias)
    if rescale is None:
        return None
    # Of a scale per channel kernels take each for its own outputs.
    reals = np.broadcast_to(effective_scales(operator.kind, ifm, weights, ofm), (weights.shape[0],))
    rows = ifm.data.reshape(-1, weights.shape[1]).astype(np.int64) - zero_point_of(ifm)
    sums = rows @ (weights.constant().astype(np.int64) - zero_point_of(weights)).T
    sums += 0 if bias is None else bias.constant().astype(np.int64).reshape(-1)
    scaled = [rescale(int(total), float(real)) for row in sums for total, real in zip(row, reals, strict=True)]
    if None in scaled:
        return None
    stored = np.array(scaled, np.int64).reshape(ofm.shape) + zero_point_of(ofm)
    found: Array = np.clip(stored, *activation_range(ofm.quantisation, ofm.dtype, activation)).astype(ofm.dtype.numpy)
    return found


def _rescaling(ifm: Tensor, weights: Tensor, bias: Tensor | None) -> Callable[[int, float], int | None] | None:
    """How kernels scale the sums: TensorFlow Lite Micro's, for uint8 LiteRT's; None for other types."""
    if ifm.dtype is DType.UINT8 and weights.dtype is DType.UINT8:
        has_one_scale = weights.quantisation is None or len(weights.quantisation.scales) == 1
        return rescaled_once if has_one_scale else None
    if weights.dtype is not DType.INT8 or ifm.dtype not in (DType.INT8, DType.INT16):
        return None
    is_wide = ifm.dtype is DType.INT16 and (bias is None or bias.dtype is not DType.INT32)
    return _rescaled_wide if is_wide else rescaled


def _rescaled_wide(total: int, real: float) -> int | None:
    """A sum of 64 bits times 16 bits of a factor, rounded once, halves up."""
    significand, shift = reduced_multiplier_and_shift(real)
    right = 15 - shift
    if shift > MAX_WIDE_SHIFT or right < 1:
        return None
    scaled = (total * significand + (1 << (right - 1))) >> right
    return scaled if -(1 << 31) <= scaled < 1 << 31 else None
