"""FULLY_CONNECTED: a 1x1 convolution over the input's rows, each a pixel of as many channels as a row has elements."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import FullyConnectedAttrs, Graph, Operator
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
    rows = count // depth
    return limits.first((limits.dimensions(ifm.name, (rows, 1, depth)), limits.elements(ofm, (rows, 1, outputs))))


def lower(graph: Graph, op_index: int) -> tuple[Stage, ...]:
    """One convolution stage over (rows, 1, elements). Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    stored = cast("npt.NDArray[np.generic]", graph.tensors[cast(int, op.inputs[1])].data)
    outputs, depth = stored.shape
    rows = int(np.prod(graph.tensors[cast(int, op.inputs[0])].shape, dtype=np.int64)) // depth
    ohwi = stored.reshape(outputs, 1, 1, depth)
    activation = cast(FullyConnectedAttrs, op.attrs).activation
    return (convolution.stage(graph, op_index, (rows, 1, depth), views.POINT, ohwi, activation, ROUNDING),)
