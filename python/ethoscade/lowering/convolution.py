"""CONV_2D: the NPU's convolution. Also builds that stage for other families whose arithmetic it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import Activation, Array, ConvAttrs, Graph, Window
from ..quantised import activation_range
from . import batches, constraints, expressions, limits, views, weighted
from .family import Family
from .npu import Channels, FeatureMap, NpuGraphBuilder, NpuOperation, OperationKind, Rounding


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One convolution, or several of some channels each. Precondition: its family takes it."""
    op = graph.operators[op_index]
    attrs = op.attributes(ConvAttrs)
    weights = graph.read(op, 1).constant()
    batch, shape, window = batches.image(graph.read(op).shape, attrs.window)
    if weights.shape[3] < shape[2]:
        grouped(graph, op_index, builder, weights)
        return
    convolve(graph, op_index, builder, shape, window, weights, attrs.activation, batch=batch)


def convolve(
    graph: Graph,
    op_index: int,
    builder: NpuGraphBuilder,
    ifm_shape: views.Shape3,
    window: Window,
    ohwi: Array,
    activation: Activation,
    rounding: Rounding | None = None,
    scale: tuple[int, int] | None = None,
    batch: int = 1,
) -> None:
    """A convolution of the operator's first input, seen as `ifm_shape`, with its stored weights given as OHWI.

    `scale` as for `weighted.constants`; `rounding` by default as the operator's type demands. `ifm_shape` is that of
    each of `batch` images.
    """
    op = graph.operators[op_index]
    height, width, _ = ifm_shape
    target = graph.made(op)
    ifm = builder.view(op.input(0), batches.all_rows(batch, ifm_shape))
    size = views.output_size(window, height, width)
    window = views.simplest(window, height, width)
    constants = weighted.spread(weighted.constants(graph, op, ohwi, scale), window)

    def make(window: Window, ofm: FeatureMap) -> NpuOperation:
        return NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.CONVOLUTION,
            ifm=ifm,
            ofm=ofm,
            window=window,
            compute=expressions.whole_windows(op.name, window, ifm_shape, ofm.shape),
            clamp=activation_range(target.quantisation, target.dtype, activation),
            weights=constants,
            rounding=rounding or weighted.rounding(graph, op),
        )

    made = builder.view(op.outputs[0], batches.all_rows(batch, (*size, ohwi.shape[0])))
    batches.add(builder, op_index, views.densest(window), batch, made, make)


GROUP = 16
"""Input channels that are convolved together where others are not: those of a brick, or more where pieces are many."""

MOST_PIECES = 64
"""The scheduler's checker remembers for each pixel which of so many parts of its channels are there."""


def grouped(graph: Graph, op_index: int, builder: NpuGraphBuilder, ohwi: Array) -> None:
    """Convolutions of some channels each, all of one output; weights OHWI of the I channels that an output reads.

    Groups are taken together as far as the NPU multiplies that many channels at a time: weights between them are zero.
    """
    op = graph.operators[op_index]
    attrs, ofm = op.attributes(ConvAttrs), graph.made(op)
    _, (height, width, depth), window = batches.image(graph.read(op).shape, attrs.window)
    outputs, rows, columns, each = ohwi.shape
    made = views.output_size(window, height, width)
    window = views.simplest(window, height, width)
    groups = depth // each
    times, unit = outputs // groups, max(GROUP // each, 1)
    together = unit * -(-groups // (unit * MOST_PIECES))
    constants, dense_window = weighted.constants(graph, op, ohwi), views.densest(window)
    for first in range(0, groups, together):
        count = min(together, groups - first)
        source, target = count * each, slice(first * times, (first + count) * times)
        values = np.full((count * times, rows, columns, source), constants.zero_point, ohwi.dtype)
        for group in range(count):
            own, read = slice(group * times, (group + 1) * times), slice(group * each, (group + 1) * each)
            values[own, :, :, read] = ohwi[target][own]
        part = replace(
            constants,
            values=values,
            bias=constants.bias[target],
            multipliers=constants.multipliers[target],
            shifts=constants.shifts[target],
        )
        ifm_shape, ofm_shape = (height, width, source), (*made, count * times)
        # Whoever reads or makes all channels says nothing of some.
        some = count < groups
        builder.add(
            NpuOperation(
                name=op.name,
                operator=op_index,
                kind=OperationKind.CONVOLUTION,
                ifm=builder.view(op.input(0), ifm_shape, channels=Channels(first * each, depth) if some else None),
                ofm=builder.view(op.outputs[0], ofm_shape, channels=Channels(first * times, outputs) if some else None),
                window=dense_window,
                compute=expressions.whole_windows(
                    op.name, dense_window, ifm_shape, ofm_shape, first=first * each, depth=depth
                ),
                clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
                weights=weighted.spread(part, window),
                rounding=weighted.rounding(graph, op),
            )
        )


def windowed(depth_axis: int) -> tuple[constraints.Constraint, ...]:
    """What (depthwise) convolutions demand of a window, for weights of which `depth_axis` is the outputs'."""

    def seen(case: constraints.Case) -> constraints.Views:
        window, (batch, height, width, depth) = case.op.attributes(ConvAttrs).window, case.ifm.shape
        made = (*views.output_size(window, height, width), case.graph.read(case.op, 1).shape[depth_axis])
        return [
            (case.ifm, batches.all_rows(batch, (height, width, depth))), (case.ofm, batches.all_rows(batch, made))
        ]  # fmt: skip

    def dense(case: constraints.Case) -> Window:
        return views.densest(constraints.window_of(case))

    return (
        constraints.Sizes(seen),
        constraints.WindowSize(windows=dense),
        constraints.Padding(),
    )


def grouped_images(case: constraints.Case) -> str | None:
    """Why convolutions of some channels each do not take a stride or a batch, or None."""
    batch, (height, width, _), window = batches.image(case.ifm.shape, constraints.stated_window(case))
    window = views.simplest(window, height, width)
    if batch > 1:
        return f"'{case.ifm.name}' has batch {batch}; with groups of channels only batch 1 is possible"
    if max(window.stride_h, window.stride_w) <= limits.MAX_STRIDE:
        return None
    found = f"{window.stride_h}x{window.stride_w}"
    return f"stride is {found}; with groups of channels at most {limits.MAX_STRIDE} is possible"


def _shape(case: constraints.Case) -> str | None:
    _, kernel_h, kernel_w, depth = case.graph.read(case.op, 1).shape
    window = case.op.attributes(ConvAttrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w):
        return f"weights are {kernel_h}x{kernel_w}, the window is {window.kernel_h}x{window.kernel_w}"
    return grouped_images(case) if depth < case.ifm.shape[3] else None


CONVOLUTION_FAMILIES: Mapping[str, Family] = {
    "CONV_2D": Family(
        "the NPU's convolution; with groups of channels, one for some of them at a time",
        (
            *weighted.takes(rank=4, output_axis=0),
            constraints.Image(batches.MOST),
            *windowed(depth_axis=0),
            constraints.Rule(
                f"with groups of channels, strides are at most {limits.MAX_STRIDE} and the batch is 1", _shape
            ),
        ),
        lower,
    )
}
