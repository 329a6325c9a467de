"""DEPTHWISE_CONV_2D: the NPU's depthwise convolution, or convolutions where an input channel makes several.

The NPU's makes one channel of each. Several are made by a convolution whose other weights are zero: of some channels at
a time, as it multiplies by the zeros too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import ConvAttrs, Graph, Window
from ..ir.quantised import activation_range
from . import batches, constraints, convolution, expressions, views, weighted
from .family import Family
from .feature_maps import FeatureMap
from .npu import NpuGraphBuilder, NpuOperation, OperationKind


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise operation, or one convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    stored = graph.read(op, 1).constant()
    batch, shape, stated = batches.image(graph.read(op).shape, attrs.window)
    ohwi = np.transpose(stored, (3, 1, 2, 0))
    if shape[2] == 1 and ohwi.shape[0] > 1:
        convolution.convolve(graph, op_index, builder, shape, stated, ohwi, attrs.activation, batch=batch)
        return
    if ohwi.shape[0] > shape[2]:
        convolution.grouped(graph, op_index, builder, ohwi)
        return
    target, constants = graph.made(op), weighted.constants(graph, op, ohwi)
    ifm = builder.view(op.input(0), batches.all_rows(batch, shape))
    window = views.simplest(stated, *shape[:2])
    constants = weighted.spread(constants, window)

    def make(window: Window, ofm: FeatureMap) -> NpuOperation:
        return NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.DEPTHWISE,
            ifm=ifm,
            ofm=ofm,
            window=window,
            compute=expressions.windows(op.name, window, shape, ofm.shape),
            clamp=activation_range(target.quantisation, target.dtype, attrs.activation),
            weights=constants,
            rounding=weighted.rounding(graph, op),
        )

    size = views.output_size(stated, *shape[:2])
    made = builder.view(op.outputs[0], batches.all_rows(batch, (*size, shape[2])))
    batches.add(builder, op_index, views.densest(window), batch, made, make)


def _shape(case: constraints.Case) -> str | None:
    weights = case.graph.read(case.op, 1)
    _, kernel_h, kernel_w, _ = weights.shape
    window = case.op.attributes(ConvAttrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w) or weights.shape[0] != 1:
        return f"weights have shape {weights.shape}, the window is {window.kernel_h}x{window.kernel_w}"
    return None


DEPTHWISE_FAMILIES: Mapping[str, Family] = {
    "DEPTHWISE_CONV_2D": Family(
        "the NPU's depthwise convolution; with a depth multiplier, convolutions of some channels at a time",
        (
            *weighted.takes(rank=4, output_axis=3),
            constraints.Image(batches.MOST),
            constraints.Rule("weights are as high and as wide as the window", _shape),
            *convolution.windowed(depth_axis=3),
        ),
        lower,
    )
}
