"""FULLY_CONNECTED: a 1x1 convolution over the input's rows, each a pixel of as many channels as a row has elements.

Where rows are the pixels of an image they keep its height and width, so that operations that make or read them as an
image sees the same rows and columns, and stripes can pass.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import DType, FullyConnectedAttrs, Graph, Operator, Tensor
from ..ir.quantised import activation_range, effective_scales, zero_point_of
from . import constraints, convolution, single_rounding, views, weighted
from .family import Family
from .npu import NpuGraphBuilder, Rounding


def _plane(ifm: Tensor, ofm: Tensor, depth: int, outputs: int) -> tuple[int, int]:
    """Height and width that the rows are seen as: the input's own, else the output's, else one below the other."""
    for tensor, channels in ((ifm, depth), (ofm, outputs)):
        height, width, pixel = views.image_shape(tensor.shape)
        if pixel == channels:
            return height, width
    return int(np.prod(ifm.shape, dtype=np.int64)) // depth, 1


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution over (height, width, elements). Precondition: its family takes it."""
    op = graph.operators[op_index]
    stored = graph.read(op, 1).constant()
    outputs, depth = stored.shape
    plane = _plane(graph.read(op), graph.made(op), depth, outputs)
    ohwi = stored.reshape(outputs, 1, 1, depth)
    activation = op.attributes(FullyConnectedAttrs).activation
    once = _rounds_once(graph, op)
    rounding, scale = (Rounding.NATURAL, _once_scale(graph, op)) if once else (None, None)
    shape = (*plane, depth)
    convolution.convolve(graph, op_index, builder, shape, views.POINT, ohwi, activation, rounding, scale)


# --- the scale -------------------------------------------------------------------------------------------------------


def _rounds_once(graph: Graph, op: Operator) -> bool:
    """Whether the outputs are rounded once, as LiteRT does, or twice, as TensorFlow Lite Micro does.

    Micro's kernel is the device's own, so it decides where there is one; for uint8 there is none. A change of this
    changes `reference` and the table of `judges` with it.
    """
    return graph.read(op).dtype is DType.UINT8


def _single_rounding(case: constraints.Case) -> str | None:
    """Why no scale of the NPU rounds as LiteRT does where that is needed, or None."""
    graph, op = case.graph, case.op
    if not _rounds_once(graph, op):
        return None
    _, weights, _, _ = weighted.operands(graph, op)
    if weights.quantisation is not None and len(weights.quantisation.scales) > 1:
        return f"weights '{weights.name}' are uint8 with a scale per channel, which no reference has; one is possible"
    real, low, high, _, _ = _factor(graph, op)
    if (reason := single_rounding.undefined(real, low, high)) is not None:
        return reason
    if _once_scale(graph, op) is None:
        return f"LiteRT rounds sums of {low} to {high} times {real:g} once, which no scale of the NPU does exactly"
    return None


def _once_scale(graph: Graph, op: Operator) -> tuple[int, int] | None:
    return single_rounding.scale(*_factor(graph, op))


def _factor(graph: Graph, op: Operator) -> tuple[float, int, int, int, int]:
    """Real factor, smallest and largest sum, and smallest and largest output before the zero point is added."""
    ifm, weights, _, ofm = weighted.operands(graph, op)
    low, high = weighted.sums(graph, op, output_axis=0)
    (real,) = effective_scales(op.kind, ifm, weights, ofm)
    zero_point = zero_point_of(ofm)
    smallest, largest = activation_range(ofm.quantisation, ofm.dtype, op.attributes(FullyConnectedAttrs).activation)
    return real, int(low.min()), int(high.max()), smallest - zero_point, largest - zero_point


def _rows(case: constraints.Case) -> str | None:
    count, depth = int(np.prod(case.ifm.shape, dtype=np.int64)), case.graph.read(case.op, 1).shape[1]
    if count % depth:
        return f"input '{case.ifm.name}' has {count} elements, not a multiple of the {depth} that an output weighs"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    outputs, depth = case.graph.read(case.op, 1).shape
    plane = _plane(case.ifm, case.ofm, depth, outputs)
    return [(case.ifm, (*plane, depth)), (case.ofm, (*plane, outputs))]


DENSE_FAMILIES: Mapping[str, Family] = {
    "FULLY_CONNECTED": Family(
        "a 1x1 convolution over the input's rows, each a pixel of as many channels as a row has elements; with weights "
        "that are made while the network runs a BATCH_MATMUL",
        (
            *weighted.takes(rank=2, output_axis=0),
            constraints.Rule("the input is a whole number of rows", _rows),
            constraints.Sizes(_seen),
            constraints.Rule(
                "weights of uint8 have one scale, and the NPU rounds with it as LiteRT does", _single_rounding
            ),
        ),
        lower,
    )
}
