"""TRANSPOSE_CONV: zeros between the input's pixels, and a convolution with the weights turned about.

The NPU doubles an input with zeros as it reads it. A stride of 4 or 8 takes copies that double it before; a stride of 1
beside one of 2 is taken by leaving the zeros out again: that axis has stride and dilation 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import Graph, Operator, TransposeConvAttrs, Window
from ..ir.quantised import activation_range
from ..util.records import dataclass
from . import batches, constraints, expressions, resize, views, weighted
from .family import Family
from .feature_maps import Area, FeatureMap
from .maker import Maker
from .npu import (
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Upscale,
)

_INPUT = 2


def _strides(graph: Graph, op: Operator) -> tuple[int, int]:
    """Rows and columns from one input pixel to the next in the output; of a single one any stride is 1."""
    window = op.attributes(TransposeConvAttrs).window
    _, height, width, _ = graph.read(op, _INPUT).shape
    return window.stride_h if height > 1 else 1, window.stride_w if width > 1 else 1


def _doublings(graph: Graph, op: Operator) -> int:
    """How often the input is doubled: so often that the larger stride is reached."""
    return (max(_strides(graph, op)) - 1).bit_length()


def _rows_made(graph: Graph, op: Operator) -> int:
    """Rows that are made of an image: an even number where others begin behind it, as the input is doubled."""
    (rows, _), images = op.attributes(TransposeConvAttrs).size, graph.read(op, _INPUT).shape[0]
    return rows + rows % 2 if images > 1 and _doublings(graph, op) else rows


def _window(graph: Graph, op: Operator) -> Window:
    """The window of the convolution that reads the input as it is doubled."""
    attrs, factor = op.attributes(TransposeConvAttrs), 1 << _doublings(graph, op)
    forward, (_, height, width, _), (_, columns) = attrs.window, graph.read(op, _INPUT).shape, attrs.size
    rows = _rows_made(graph, op)
    down, right = (
        factor // stride if extent > 1 else 1
        for stride, extent in zip(_strides(graph, op), (height, width), strict=True)
    )
    vertical = _along(forward.kernel_h, forward.pad_top, height * factor, rows, down)
    horizontal = _along(forward.kernel_w, forward.pad_left, width * factor, columns, right)
    return Window(
        forward.kernel_h,
        forward.kernel_w,
        stride_h=vertical[0],
        stride_w=horizontal[0],
        dilation_h=vertical[0] if forward.kernel_h > 1 else 1,
        dilation_w=horizontal[0] if forward.kernel_w > 1 else 1,
        pad_top=vertical[1],
        pad_left=horizontal[1],
        pad_bottom=vertical[2],
        pad_right=horizontal[2],
    )


def _along(taps: int, pad: int, extent: int, outputs: int, step: int) -> tuple[int, int, int]:
    """Stride, padding before and padding behind along one axis of an input of `extent` pixels, zeros among them."""
    before = (taps - 1 - pad) * step
    return step, before, max(0, (outputs - 1 + taps - 1) * step + 1 - before - extent)


def _made(graph: Graph, op: Operator) -> views.Shape3:
    return (*op.attributes(TransposeConvAttrs).size, graph.read(op, 1).shape[0])


def _leave_out_last_rows(make: Maker, batch: int, ifm: FeatureMap, ofm: FeatureMap) -> None:
    """Copies of all rows of images but those beyond the output's."""
    made, (height, width, depth) = ifm.shape[0] // batch, ofm.shape
    rows = height // batch
    for number in range(batch):
        box = replace(ofm, shape=(rows, width, depth), place=Area((number * rows, 0), (height, width)))
        make.copy(ifm, box, first=(number * made, 0))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """A convolution for each image, behind copies for strides beyond 2. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source, target = graph.read(op, _INPUT), graph.made(op)
    doublings, forward = _doublings(graph, op), _window(graph, op)
    batch, height, width, depth = source.shape
    image = (height << max(doublings - 1, 0), width << max(doublings - 1, 0), depth)
    make = Maker(op.name, op_index, builder)
    ifm = builder.view(op.input(_INPUT), views.image_shape(source.shape))
    for _ in range(doublings - 1):
        shape = (2 * ifm.shape[0], 2 * ifm.shape[1], ifm.shape[2])
        enlarged = make.temporary(shape, source.dtype, ifm.zero_point)
        ifm = make.copy(ifm, enlarged, upscale=Upscale.ZEROS)
    upscale = Upscale.ZEROS if doublings else Upscale.NONE
    constants = weighted.constants(graph, op, np.ascontiguousarray(graph.read(op, 1).constant()[:, ::-1, ::-1]))

    def convolved(window: Window, ofm: FeatureMap) -> NpuOperation:
        return NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.CONVOLUTION,
            ifm=ifm,
            ofm=ofm,
            window=window,
            upscale=upscale,
            compute=expressions.whole_windows(op.name, window, image, ofm.shape, upscale),
            clamp=activation_range(target.quantisation, target.dtype, op.attributes(TransposeConvAttrs).activation),
            weights=constants,
            rounding=weighted.rounding(graph, op),
        )

    made = whole = builder.view(op.outputs[0], batches.all_rows(batch, _made(graph, op)))
    if (rows := batch * _rows_made(graph, op)) != whole.shape[0]:
        made = make.temporary((rows, *whole.shape[1:]), whole.dtype, whole.zero_point)
    for ofm, of_image in batches.pieces(batch, made, convolved):
        builder.add(of_image(forward, ofm))
    if made is not whole:
        _leave_out_last_rows(make, batch, made, whole)


@dataclass(frozen=True)
class SpreadStrides(constraints.Constraint):
    """Strides are powers of two up to 2^`most`, and one axis' at most twice the other's."""

    most: int = resize.MOST_DOUBLINGS

    def __str__(self) -> str:
        return (
            f"strides are {', '.join(str(1 << n) for n in range(self.most))} or {1 << self.most}, and one at most "
            f"twice the other, where there is more than one row or column"
        )

    def _against(self, case: constraints.Case) -> str | None:
        found, (_, *extents, _) = _strides(case.graph, case.op), case.ifm.shape
        taken = [stride for stride, extent in zip(found, extents, strict=True) if extent > 1]
        possible = [1 << n for n in range(self.most + 1)]
        if not set(taken) <= set(possible) or (taken and max(taken) > 2 * min(taken)):
            return f"strides are {found[0]}x{found[1]}; {possible} are possible, one at most twice the other"
        return None


def _stated(case: constraints.Case) -> str | None:
    shape = case.graph.read(case.op)
    if shape.data is None:
        return f"output shape '{shape.name}' is known only at run time"
    wanted = (case.ifm.shape[0], *case.op.attributes(TransposeConvAttrs).size, case.graph.read(case.op, 1).shape[0])
    found = tuple(int(extent) for extent in shape.data.reshape(-1))
    return None if found == wanted else f"output shape '{shape.name}' is {found}; its tensor has {wanted}"


def _ends(case: constraints.Case) -> str | None:
    """Stripes begin at even rows and columns, as the input is doubled; one that reads zeros alone has no address."""
    doublings, window = _doublings(case.graph, case.op), _window(case.graph, case.op)
    if not doublings:
        return None
    size, (height, width) = case.op.attributes(TransposeConvAttrs).size, case.ifm.shape[1:3]
    for what, extent, outputs, step, before in (
        ("rows", height, size[0], window.stride_h, window.pad_top),
        ("columns", width, size[1], window.stride_w, window.pad_left),
    ):
        last_pixel = (extent << doublings) - 2
        most = ((last_pixel + before) // step // 2 + 1) * 2
        if outputs > most:
            return f"the last of {outputs} {what} sees none of the input's {extent}; at most {most} {what} are possible"
    return None


def _lowered(case: constraints.Case) -> Window:
    return _window(case.graph, case.op)


def _seen(case: constraints.Case) -> constraints.Views:
    made = batches.all_rows(case.ifm.shape[0], _made(case.graph, case.op))
    return [(case.ifm, views.image_shape(case.ifm.shape)), (case.ofm, made)]


TRANSPOSE_CONV_FAMILIES: Mapping[str, Family] = {
    "TRANSPOSE_CONV": Family(
        "a convolution of each image, with the weights turned about, with zeros between the pixels",
        (
            *weighted.takes(rank=4, output_axis=0),
            constraints.Image(batches.MOST),
            constraints.Rule("the output shape is constant, or becomes so", _stated),
            constraints.Sizes(_seen),
            SpreadStrides(),
            constraints.Rule("an odd last row or column sees some of the input", _ends),
            constraints.WindowSize(windows=_lowered),
            constraints.Padding(windows=_lowered),
        ),
        lower,
    )
}
