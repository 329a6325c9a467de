"""MEAN over height and width: a depthwise convolution whose weights are all one and whose scale divides."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, MeanAttrs, Tensor
from ..quantised import mean_multiplier, scale_of
from . import constraints, depthwise, limits, views, weighted
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Weights


def _scale(ifm: Tensor, ofm: Tensor, count: int) -> tuple[int, int]:
    """NPU scale and shift of sum -> output, after LiteRT's reference kernel."""
    significand, shift = mean_multiplier(scale_of(ifm) / scale_of(ofm), count)
    return significand, 31 - shift


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One depthwise convolution. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape = views.image_shape(ifm.shape)
    window = views.reduction(op.attributes(MeanAttrs).axes, *shape[:2])
    ofm_shape = (*views.output_size(window, *shape[:2]), shape[2])
    scale, shift = _scale(ifm, ofm, window.kernel_h * window.kernel_w)
    channels = shape[2]
    weights = Weights(
        values=np.ones((channels, window.kernel_h, window.kernel_w, 1), np.int16),
        bias=np.zeros(channels, np.int64),
        multipliers=np.full(channels, scale, np.int64),
        shifts=np.full(channels, shift, np.int64),
    )
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.DEPTHWISE,
            ifm=builder.view(op.input(0), shape),
            ofm=builder.view(op.outputs[0], ofm_shape),
            window=window,
            compute=depthwise.compute(op.name, window, shape, ofm_shape),
            clamp=ofm.dtype.limits,
            weights=weights,
            accumulator_bits=weighted.accumulator_bits(ifm),
        )
    )


_LARGEST_SHIFT = 63


def _seen(case: constraints.Case) -> constraints.Views:
    _, height, width, depth = case.ifm.shape
    made = views.output_size(constraints.window_of(case), height, width)
    return [(case.ifm, (height, width, depth)), (case.ofm, (*made, depth))]


def _factor(case: constraints.Case) -> str | None:
    window = constraints.window_of(case)
    count, ratio = window.kernel_h * window.kernel_w, scale_of(case.ifm) / scale_of(case.ofm)
    shift = _scale(case.ifm, case.ofm, count)[1]
    if not 0 <= shift <= _LARGEST_SHIFT:
        return (
            f"scales {scale_of(case.ifm):g} and {scale_of(case.ofm):g} need a shift of {shift}; 0 to {_LARGEST_SHIFT} "
            f"are possible"
        )
    return limits.left_shift(31 - shift, limits.largest_value(case.ifm.dtype) * count, ratio / count)


MEAN_FAMILIES: Mapping[str, Family] = {
    "MEAN": Family(
        "a depthwise convolution whose weights are all one and whose scale divides",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Image(),
            constraints.Axes("averages over", (1, 2)),
            constraints.Sizes(_seen),
            constraints.WindowSize(),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
    )
}
