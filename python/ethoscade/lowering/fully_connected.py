"""FULLY_CONNECTED: a 1x1 convolution over the input's rows, each a pixel of as many channels as a row has elements.

Where rows are the pixels of an image they keep its height and width, so that whoever makes or reads them as an image
sees the same rows and columns, and stripes can pass.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import FullyConnectedAttrs, Graph, Operator, Tensor
from ..target import Accelerator
from . import convolution, limits, views, weighted
from .stage import Rounding, Stage

ROUNDING = Rounding.TFL
"""How outputs are rounded: twice, as TensorFlow Lite Micro and `reference` do.

LiteRT's int8 reference kernel rounds once, half up, which is exactly `Rounding.NATURAL`: the two differ by one in a
fifth of a network's outputs at worst. Whoever changes this changes `reference` with it.
"""


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := weighted.support(graph, op, rank=2, output_axis=0)) is not None:
        return reason
    ifm, weights, _, ofm = weighted.operands(graph, op)
    outputs, depth = weights.shape
    count = int(np.prod(ifm.shape, dtype=np.int64))
    if count % depth:
        return f"input '{ifm.name}' has {count} elements, not a multiple of the {depth} that an output weighs"
    plane = _plane(ifm, ofm, depth, outputs)
    return limits.first((limits.dimensions(ifm.name, (*plane, depth)), limits.elements(ofm, (*plane, outputs))))


def _plane(ifm: Tensor, ofm: Tensor, depth: int, outputs: int) -> tuple[int, int]:
    """Height and width that the rows are seen as: the input's own, else the output's, else one below the other."""
    for tensor, channels in ((ifm, depth), (ofm, outputs)):
        height, width, pixel = views.image_shape(tensor.shape)
        if pixel == channels:
            return height, width
    return int(np.prod(ifm.shape, dtype=np.int64)) // depth, 1


def lower(graph: Graph, op_index: int) -> tuple[Stage, ...]:
    """One convolution stage over (height, width, elements). Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    stored = cast("npt.NDArray[np.generic]", graph.tensors[cast(int, op.inputs[1])].data)
    outputs, depth = stored.shape
    plane = _plane(graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]], depth, outputs)
    ohwi = stored.reshape(outputs, 1, 1, depth)
    activation = cast(FullyConnectedAttrs, op.attrs).activation
    return (convolution.stage(graph, op_index, (*plane, depth), views.POINT, ohwi, activation, ROUNDING),)
