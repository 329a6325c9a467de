"""CONV_2D: the NPU's convolution. Also builds that stage for other families whose arithmetic it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ..ir import Activation, Array, ConvAttrs, Graph, Window
from ..ir.quantised import activation_range
from . import batches, constraints, expressions, strides, views, weighted
from .family import Family
from .feature_maps import Channels, FeatureMap
from .npu import (
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Rounding,
)


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
"""The scheduler's checker remembers for each pixel which of this number of parts of its channels are there."""


def grouped(graph: Graph, op_index: int, builder: NpuGraphBuilder, ohwi: Array) -> None:
    """Convolutions of some channels each, all of one output; weights OHWI of the I channels that an output reads.

    Groups are taken together as far as the NPU multiplies that many channels at a time: weights between them are zero.
    """
    op = graph.operators[op_index]
    attrs, ofm = op.attributes(ConvAttrs), graph.made(op)
    batch, (height, width, depth), window = batches.image(graph.read(op).shape, attrs.window)
    outputs, rows, columns, each = ohwi.shape
    made = views.output_size(window, height, width)
    window = views.simplest(window, height, width)
    groups = depth // each
    times, unit = outputs // groups, max(GROUP // each, 1)
    together = unit * -(-groups // (unit * MOST_PIECES))
    constants, dense_window = weighted.constants(graph, op, ohwi), views.densest(window)
    pieces: list[tuple[FeatureMap, strides.Make]] = []
    for first in range(0, groups, together):
        count = min(together, groups - first)
        source, target = count * each, slice(first * times, (first + count) * times)
        values = np.full((count * times, rows, columns, source), constants.zero_point, ohwi.dtype)
        for group in range(count):
            own, read = slice(group * times, (group + 1) * times), slice(group * each, (group + 1) * each)
            values[own, :, :, read] = ohwi[target][own]
        part = replace(constants.of_channels(target), values=values)
        # Whoever reads or makes all channels says nothing of some.
        some = count < groups
        seen = Channels(first * each, depth) if some else None
        ifm = builder.view(op.input(0), batches.all_rows(batch, (height, width, source)), channels=seen)
        all_of = batches.all_rows(batch, (*made, count * times))
        target_map = builder.view(op.outputs[0], all_of, channels=Channels(first * times, outputs) if some else None)
        plain = NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.CONVOLUTION,
            ifm=ifm,
            ofm=target_map,
            window=dense_window,
            compute=expressions.whole_windows(
                op.name, dense_window, (height, width, source), all_of, first=first * each, depth=depth
            ),
            clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
            weights=weighted.spread(part, window),
            rounding=weighted.rounding(graph, op),
        )
        pieces += batches.pieces(batch, target_map, partial(_part, plain, (height, width, source)))
    strides.add(builder, op_index, dense_window, pieces)


def _part(plain: NpuOperation, image: views.Shape3, window: Window, ofm: FeatureMap) -> NpuOperation:
    """A convolution of some channels with another window, of an image, that makes another output."""
    (read,) = plain.compute.reads
    first, depth = plain.ifm.first_channel, read.extents[3]
    compute = expressions.whole_windows(plain.name, window, image, ofm.shape, first=first, depth=depth)
    return replace(plain, window=window, ofm=ofm, compute=compute)


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


def _shape(case: constraints.Case) -> str | None:
    _, kernel_h, kernel_w, _ = case.graph.read(case.op, 1).shape
    window = case.op.attributes(ConvAttrs).window
    if (window.kernel_h, window.kernel_w) != (kernel_h, kernel_w):
        return f"weights are {kernel_h}x{kernel_w}, the window is {window.kernel_h}x{window.kernel_w}"
    return None


CONVOLUTION_FAMILIES: Mapping[str, Family] = {
    "CONV_2D": Family(
        "the NPU's convolution; with groups of channels, one for some of them at a time",
        (
            *weighted.takes(rank=4, output_axis=0),
            constraints.Image(batches.MOST),
            *windowed(depth_axis=0),
            constraints.Rule("weights are as high and as wide as the window", _shape),
        ),
        lower,
    )
}
