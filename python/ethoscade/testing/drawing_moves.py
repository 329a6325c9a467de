"""Draws of operators that move elements onto a `Drawing`: splits, joins, slices, copies and permutations.

Owns the odds of their attributes, like `drawing` those of operators that compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import DType, Quantisation
from .drawing import Drawing
from .recorder import Value


def branches(draw: Drawing, x: Value) -> Value:
    """SPLIT or SPLIT_V, mostly of the channels, an operator for each piece, and their ADD or CONCATENATION."""
    parts = pieces(draw, draw.image(x) if len(x.shape) == 4 or not draw.heads else x)
    if len(parts) == 1 or draw.chance(0.4):
        return joined(draw, parts)
    channels = draw.channels()
    left = _branch(draw, parts[0], channels, None)
    if draw.chance(0.5) and parts[0].shape[:-1] == parts[1].shape[:-1]:
        return draw.builder.add(left, _branch(draw, parts[1], channels, None))
    if parts[0].shape[:-1] != parts[1].shape[:-1]:
        return left
    right = _branch(draw, parts[1], draw.channels(), left.quantisation)
    return draw.builder.concatenate([left, right, left] if draw.chance(0.2) else [left, right])


def _branch(draw: Drawing, x: Value, channels: int, output: Quantisation | None) -> Value:
    if not draw.heads or (len(x.shape) == 4 and draw.chance(0.7)):
        kernel = 1 if output else 2 * draw.integer(0, 1) + 1
        return draw.builder.conv2d(x, channels, kernel, activation=draw.activation(), output=output)
    return draw.builder.fully_connected(x, channels, keep_num_dims=True, output=output)


def pieces(draw: Drawing, x: Value) -> tuple[Value, ...]:
    """SPLIT or SPLIT_V along any axis that can be; the value itself if none can."""
    axis = draw.axis(len(x.shape), last=0.8)
    extent = x.shape[axis]
    if extent == 1:
        axis = next((i for i, d in enumerate(x.shape) if d > 1), -1)
        extent = x.shape[axis]
    if extent == 1:
        return (x,)
    if extent % 2 == 0 and draw.chance(0.5):
        made = draw.builder.split(x, 4 if extent % 4 == 0 and draw.chance(0.3) else 2, axis=axis)
    else:
        first = draw.integer(1, extent - 1)
        sizes = (first, -1) if draw.chance(0.5) else (first, extent - first)
        made = draw.builder.split(x, sizes, axis=axis)
    return tuple(_taken(draw, piece) for piece in made)


def _taken(draw: Drawing, x: Value) -> Value:
    """What was moved; now and then its stored values are those of another quantisation, at which no kernel looks."""
    quantisation = draw.quantisation(x)
    return x if quantisation is None else draw.builder.taken_as(x, quantisation)


def joined(draw: Drawing, values: Sequence[Value]) -> Value:
    """CONCATENATION of values that differ along one axis at most, in any order; PACK where they are all alike."""
    first = values[0]
    apart = [axis for axis in range(len(first.shape)) if len({value.shape[axis] for value in values}) > 1]
    if not apart and len(first.shape) < 4 and len(values) > 1 and draw.chance(0.3):
        return draw.builder.pack(values, draw.axis(len(first.shape) + 1, last=0.3))
    axis = apart[0] if apart else draw.axis(len(first.shape), last=0.8)
    order = [int(i) for i in draw.rng.permutation(len(values))]
    parts = [values[i] for i in order]
    scaled = first.dtype is DType.UINT8 and draw.chance(0.3)
    apart_in_scale = len({value.quantisation for value in values}) > 1
    if draw.chance(0.4) or (apart_in_scale and first.dtype is not DType.UINT8):
        # Each by way of a QUANTIZE, as converters give inputs of unequal quantisation the output's.
        given = draw.builder.quantize(first).quantisation
        parts = [draw.builder.quantize(value, given) for value in parts]
    if draw.chance(0.15):
        shape = tuple(draw.integer(1, 4) if i == axis % len(first.shape) else d for i, d in enumerate(first.shape))
        numbers = np.full(shape, 0.1) if draw.chance(0.5) else draw.rng.standard_normal(shape)
        part = draw.builder.constant(numbers, dtype=first.dtype, quantisation=parts[0].quantisation)
        parts.insert(draw.integer(0, len(parts)), part)
    return draw.builder.concatenate(parts, axis=axis, output=draw.quantisation(first) if scaled else None)


def sliced(draw: Drawing, x: Value) -> Value:
    """STRIDED_SLICE: some elements of some axes, either way round, or one of an axis."""
    rank = len(x.shape)
    begin, end, strides, masks = [0] * rank, list(x.shape), [1] * rank, [0, 0, 0]
    for axis in range(rank):
        if draw.chance(0.5):
            continue
        begin[axis] = draw.integer(0, x.shape[axis] - 1)
        end[axis] = draw.integer(begin[axis] + 1, x.shape[axis])
        strides[axis] = draw.integer(1, 2)
        masks[0] |= draw.chance(0.2) << axis
        masks[1] |= draw.chance(0.2) << axis
        if draw.chance(0.2):
            begin[axis], end[axis], strides[axis] = end[axis] - 1, begin[axis] - 1 - x.shape[axis], -1
        elif rank > 1 and masks[2].bit_count() < rank - 1 and draw.chance(0.15):
            strides[axis], masks[2] = 1, masks[2] | 1 << axis
            end[axis] = begin[axis] + 1
            masks[0], masks[1] = masks[0] & ~(1 << axis), masks[1] & ~(1 << axis)
    whole = [(begin[axis], end[axis], strides[axis]) == (0, x.shape[axis], 1) for axis in range(rank)]
    kept, new, dots = masks[2] ^ ((1 << rank) - 1), 0, 0
    if whole[-1] and kept >> (rank - 1) & 1 and draw.chance(0.2):
        # The last axes that are whole, as an ellipsis.
        first = rank - next((n for n in range(rank) if not (whole[-1 - n] and kept >> (rank - 1 - n) & 1)), rank)
        begin[first:], end[first:], strides[first:], dots = [0], [0], [1], 1 << first
        masks = [mask & ((1 << first) - 1) for mask in masks]
    if kept.bit_count() < 4 and draw.chance(0.2):
        # A new axis ahead of all others.
        begin, end, strides, new, dots = [0, *begin], [0, *end], [1, *strides], 1, dots << 1
        masks = [mask << 1 for mask in masks]
    made = draw.builder.strided_slice(
        x,
        begin,
        end,
        strides,
        begin_mask=masks[0],
        end_mask=masks[1],
        shrink_mask=masks[2],
        ellipsis_mask=dots,
        new_mask=new,
    )
    return _taken(draw, made)


def moved(draw: Drawing, x: Value) -> Value:
    """An operator that moves elements: SLICE, UNPACK, PADV2, MIRROR_PAD, TILE, REVERSE_V2, GATHER or TRANSPOSE."""
    b, kind, rank = draw.builder, draw.integer(0, 8), len(x.shape)
    amounts = [(0, 0) if d > 24 else (draw.integer(0, 2), draw.integer(0, 2)) for d in x.shape]
    if kind == 0:
        begin = [draw.integer(0, d - 1) for d in x.shape]
        sizes = [
            -1 if draw.chance(0.2) else draw.integer(1, d - first) for d, first in zip(x.shape, begin, strict=True)
        ]
        return _taken(draw, b.slice(x, begin, sizes))
    if kind == 1:
        axis = next((a for a in range(rank) if 1 < x.shape[a] <= 4), 0)
        if rank == 1 or x.shape[axis] > 4:
            return b.slice(x, (0,) * rank, (-1,) * rank)
        # Who takes other scales has no kernel of uint8.
        pieces = b.unpack(x, axis - rank if draw.chance(0.5) else axis)
        pieces = pieces if x.dtype is DType.UINT8 else tuple(_taken(draw, piece) for piece in pieces)
        alike = len({piece.quantisation for piece in pieces}) == 1
        if not alike or draw.chance(0.3):
            return pieces[draw.integer(0, len(pieces) - 1)]
        packed = b.pack(pieces[::-1], axis)
        return packed if x.dtype is DType.UINT8 else _taken(draw, packed)
    if kind == 2:
        return b.pad(x, amounts, value=draw.integer(*x.dtype.limits), output=draw.quantisation(x))
    if kind == 3:
        symmetric = draw.chance(0.5)
        most = [d if symmetric else d - 1 for d in x.shape]
        fitting = [(min(a, d), min(e, d)) for (a, e), d in zip(amounts, most, strict=True)]
        mirrored = b.mirror_pad(x, fitting, symmetric=symmetric)
        return _taken(draw, mirrored) if x.dtype is DType.INT8 else mirrored
    if kind == 4:
        multiples = [draw.integer(1, 2) if d < 8 else 1 for d in x.shape]
        # Converters of today write version 3, which is the same operator.
        return _taken(draw, b.tile(x, multiples, version=3 if draw.chance(0.5) else 1))
    if kind == 5:
        first = draw.integer(0, rank - 1)
        return _taken(draw, b.reverse(x, range(first, draw.integer(first, min(first + 1, rank - 1)) + 1)))
    return gathered(draw, x) if kind == 8 else transposed(draw, x)


def gathered(draw: Drawing, x: Value) -> Value:
    """GATHER: any indices, consecutive ones, every second one, or groups shuffled; now and then in two axes."""
    axis = draw.axis(len(x.shape), last=0.5)
    extent, how = x.shape[axis], draw.integer(0, 3)
    groups = draw.divisor(extent)
    first = draw.integer(0, extent - 1)
    indices = (
        draw.rng.integers(0, extent, draw.integer(1, 12)),
        np.arange(first, extent),
        np.arange(first % 2, extent, 2) if extent > 1 else np.zeros(1, np.int64),
        np.arange(extent).reshape(groups, -1).T.ravel(),
    )[how].astype(np.int64 if draw.chance(0.3) else np.int32)
    if draw.chance(0.2) and len(x.shape) < 4:
        indices = indices.reshape(draw.divisor(indices.size), -1)
    return _taken(draw, draw.builder.gather(x, indices, axis))


def transposed(draw: Drawing, x: Value) -> Value:
    """TRANSPOSE: any permutation, now and then of up to eight axes; or a channel shuffle, with RESHAPEs around it."""
    b, rank = draw.builder, len(x.shape)
    groups = draw.divisor(x.shape[-1])
    if draw.chance(0.3) and 1 < groups < x.shape[-1]:
        wide = b.reshape(x, (*x.shape[:-1], groups, x.shape[-1] // groups))
        return b.reshape(b.transpose(wide, (*range(rank - 1), rank, rank - 1)), x.shape)
    if draw.chance(0.1):
        many = _many_axes(draw, x.shape)
        made = b.transpose(b.reshape(x, many), [int(axis) for axis in draw.rng.permutation(len(many))])
        return b.reshape(made, x.shape)
    order = [int(axis) for axis in draw.rng.permutation(rank)]
    return _taken(draw, b.transpose(x, [axis - rank for axis in order] if draw.chance(0.2) else order))


def _many_axes(draw: Drawing, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The same elements along six to eight axes, some of extent 1."""
    axes = list(shape)
    for _ in range(draw.integer(6, 8) - len(shape)):
        place = draw.integer(0, len(axes) - 1)
        inner = draw.divisor(axes[place])
        axes[place : place + 1] = [axes[place] // inner, inner]
    return tuple(axes)
