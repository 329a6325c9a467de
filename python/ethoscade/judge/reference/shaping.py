"""Reference semantics of the operators that move elements or look at shapes, and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import (
    EIGHT_BIT,
    Array,
    ConcatenationAttrs,
    DType,
    GatherAttrs,
    Graph,
    MirrorPadAttrs,
    Operator,
    PackAttrs,
    PadAttrs,
    ResizeNearestAttrs,
    ReverseAttrs,
    SplitAttrs,
    StridedSliceAttrs,
    TileAttrs,
    TransposeAttrs,
    UnpackAttrs,
)
from .formulas import nearest_places, scale_of, zero_point_of
from .meaning import (
    INT8,
    SIGNED,
    Inputs,
    ReferenceKernel,
    anything,
    given,
    joined,
    quantised,
    quantised_or_words,
    understood,
)


def pad(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """PAD with the output's zero point, which stands for the real value 0; PADV2 with the stored value given."""
    attrs = op.attributes(PadAttrs)
    fill = zero_point_of(graph.made(op)) if attrs.fill is None else attrs.fill
    return np.pad(given(inputs), attrs.paddings, constant_values=fill)


def resize_nearest_neighbor(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESIZE_NEAREST_NEIGHBOR: rows and columns repeated or left out, whatever the quantisations."""
    attrs, value = op.attributes(ResizeNearestAttrs), given(inputs)
    rows, columns = (
        nearest_places(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip(value.shape[1:3], attrs.size, strict=True)
    )
    return value[:, rows][:, :, columns]


def reshape(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same bytes; the caller gives them the output tensor's shape."""
    made: Array = np.ascontiguousarray(given(inputs)).view(graph.made(op).dtype.numpy)
    return made


def shape_of(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SHAPE: the dimensions of the input."""
    return np.array(given(inputs).shape, dtype=graph.made(op).dtype.numpy)


def strided_slice(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """STRIDED_SLICE and SLICE; vanishing dimensions have extent 1, so the output tensor's shape takes care of them."""
    attrs = op.attributes(StridedSliceAttrs)
    return given(inputs)[np.ix_(*(list(range(*r)) for r in attrs.ranges))]


def pack(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """PACK: the inputs stacked along a new axis, stored values as they are."""
    attrs = op.attributes(PackAttrs)
    return np.stack([given(inputs, place) for place in range(len(inputs))], axis=attrs.axis)


def unpack(graph: Graph, op: Operator, inputs: Inputs) -> tuple[Array, ...]:
    """UNPACK: what lies at each place of the axis, without it."""
    return tuple(np.moveaxis(given(inputs), op.attributes(UnpackAttrs).axis, 0))


def mirror_pad(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """MIRROR_PAD: the elements next to an edge once more beyond it, the outermost ones too where it is symmetric."""
    attrs = op.attributes(MirrorPadAttrs)
    return np.pad(given(inputs), attrs.paddings, mode="symmetric" if attrs.symmetric else "reflect")


def tile(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TILE: the tensor again and again along its axes."""
    return np.tile(given(inputs), op.attributes(TileAttrs).multiples)


def reverse(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """REVERSE_V2: the last element first."""
    return np.flip(given(inputs), op.attributes(ReverseAttrs).axes)


def gather(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """GATHER: the elements with these numbers along an axis; the output tensor's shape has the indices' dimensions."""
    attrs = op.attributes(GatherAttrs)
    return np.take(given(inputs), attrs.indices, axis=attrs.axis)


def transpose(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """TRANSPOSE: the axes in another order."""
    attrs = op.attributes(TransposeAttrs)
    return np.transpose(given(inputs).reshape(attrs.extents), attrs.permutation)


def split(graph: Graph, op: Operator, inputs: Inputs) -> tuple[Array, ...]:
    """SPLIT, SPLIT_V: the pieces in order, stored values as they are."""
    attrs = op.attributes(SplitAttrs)
    return tuple(np.split(given(inputs, attrs.operand), np.cumsum(attrs.sizes)[:-1], axis=attrs.axis))


def concatenate(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """CONCATENATION: the inputs one after the other, stored values as they are but of uint8 with another quantisation.

    These are rescaled in float32, by the reciprocal of the output's scale, and rounded half away from zero.
    """
    ofm, parts = graph.made(op), []
    for place in range(len(inputs)):
        stored, ifm = given(inputs, place), graph.read(op, place)
        if ifm.dtype is DType.UINT8 and ifm.quantisation != ofm.quantisation:
            scale = np.float32(scale_of(ifm)) * (np.float32(1) / np.float32(scale_of(ofm)))
            real = stored.astype(np.float32) * scale + np.float32(-zero_point_of(ifm)) * scale
            units = np.trunc(real + np.copysign(0.5, real).astype(np.float64)) + zero_point_of(ofm)
            stored = np.clip(units, 0, 255).astype(np.uint8)
        parts.append(stored)
    return np.concatenate(parts, axis=op.attributes(ConcatenationAttrs).axis)


SHAPING_MEANINGS: Mapping[str, ReferenceKernel] = {
    "CONCATENATION": ReferenceKernel(concatenate, joined, SIGNED),
    "EXPAND_DIMS": ReferenceKernel(reshape, anything),
    "GATHER": ReferenceKernel(gather, understood, INT8),
    "MIRROR_PAD": ReferenceKernel(mirror_pad, understood, INT8),
    "PACK": ReferenceKernel(pack, understood, SIGNED),
    "PAD": ReferenceKernel(pad, quantised, SIGNED),
    "PADV2": ReferenceKernel(pad, quantised, SIGNED),
    "RESHAPE": ReferenceKernel(reshape, anything),
    "RESIZE_NEAREST_NEIGHBOR": ReferenceKernel(resize_nearest_neighbor, quantised, SIGNED),
    "REVERSE_V2": ReferenceKernel(reverse, understood, frozenset(EIGHT_BIT)),
    "SHAPE": ReferenceKernel(shape_of, understood),
    "SLICE": ReferenceKernel(strided_slice, understood, INT8),
    "SPLIT": ReferenceKernel(split, quantised_or_words, SIGNED),
    "SPLIT_V": ReferenceKernel(split, quantised_or_words, SIGNED),
    "SQUEEZE": ReferenceKernel(reshape, anything),
    "STRIDED_SLICE": ReferenceKernel(strided_slice, understood),
    "TILE": ReferenceKernel(tile, understood),
    "TRANSPOSE": ReferenceKernel(transpose, understood, INT8),
    "UNPACK": ReferenceKernel(unpack, understood, SIGNED),
}
