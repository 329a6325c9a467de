"""Draws of operators that multiply matrices onto a `Drawing`: BATCH_MATMUL, SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

import math

from ..ir import DType, Quantisation
from .drawing import Drawing
from .recorder import Value

_MOST_COLUMNS, _MOST_PIXELS = 12, 64
_LARGEST_FACTOR = 0.0625
_MOST_FEATURES, _MOST_CELLS, _MOST_STEPS = 32, 16, 3
_MOST_UNITS, _MOST_RANK, _MOST_MEMORY = 16, 3, 6


def batch_matmul(draw: Drawing, x: Value) -> Value:
    """BATCH_MATMUL of int8 or int16 by a constant, another network input or the value itself, on either side.

    Matrices are transposed or not, and those of either side may be there for all of the other's. By an input it may be
    a FULLY_CONNECTED, and so it may where the value weighs a constant.
    """
    b = draw.builder
    x = b.quantize(x, dtype=DType.INT8) if x.dtype is DType.UINT8 else x
    if x.quantisation.scale > _LARGEST_FACTOR:
        # Products of large values would leave every type.
        x = b.quantize(x, Quantisation((_LARGEST_FACTOR / 256 if x.dtype is DType.INT16 else _LARGEST_FACTOR,), (0,)))
    if draw.chance(0.5):
        *_, depth = x.shape
        pixels = math.prod(x.shape) // depth
        rows = draw.divisor(pixels)
        outer = draw.divisor(pixels // rows)
        shapes = ((pixels, depth), (pixels // rows, rows, depth), (outer, pixels // rows // outer, 1, rows, depth))
        x = draw.reshaped(x, shapes[draw.integer(0, 2)])
    elif len(x.shape) == 1:
        x = draw.reshaped(x, (1, *x.shape))
    adj_x, adj_y, left = draw.chance(0.3), draw.chance(0.5), draw.chance(0.7)
    adjoint = adj_x if left else adj_y
    height, width = x.shape[-2:]
    # A left operand shares its columns with the other's rows, a right one its rows with the other's columns.
    terms = height if adjoint == left else width
    if draw.chance(0.15):
        other, same = x, draw.chance(0.5)
        return b.batch_matmul(x, other, adj_x=same, adj_y=not same)
    columns = draw.integer(1, _MOST_COLUMNS)
    other_adjoint = adj_y if left else adj_x
    tail = (columns, terms) if other_adjoint == left else (terms, columns)
    shape = (*_repeated(draw, x.shape[:-2]), *tail)
    if draw.chance(0.5):
        other = b.constant(draw.rng.standard_normal(shape), dtype=x.dtype)
    elif x.dtype is DType.INT8 and draw.chance(0.5):
        return _weighed(draw, x, (columns, x.shape[-1]))
    else:
        other = b.input(shape, dtype=x.dtype)
    return b.batch_matmul(*((x, other) if left else (other, x)), adj_x=adj_x, adj_y=adj_y)


def _weighed(draw: Drawing, x: Value, shape: tuple[int, int]) -> Value:
    """FULLY_CONNECTED of the value by an input of that shape, or of a constant of that shape by the value."""
    b, pixels = draw.builder, math.prod(x.shape[:-1])
    if pixels <= _MOST_PIXELS and draw.chance(0.4):
        rows = b.constant(draw.rng.standard_normal(shape), dtype=x.dtype)
        operands = (rows, b.reshape(x, (pixels, x.shape[-1])))
    else:
        operands = (x, b.input(shape, dtype=x.dtype))
    return b.weighed_by(*operands, use_bias=draw.chance(0.5), activation=draw.activation())


def lstm(draw: Drawing, x: Value) -> Value:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 over a few steps, mostly of one sequence."""
    b = draw.builder
    x = b.quantize(x, dtype=DType.INT8) if x.dtype is DType.UINT8 else x
    features = max(n for n in range(1, _MOST_FEATURES + 1) if x.shape[-1] % n == 0)
    rows = math.prod(x.shape) // features
    times, batch = min(rows, draw.integer(1, _MOST_STEPS)), 2 if rows > 1 and draw.chance(0.2) else 1
    times = max(times // batch, 1)
    x = b.slice(draw.reshaped(x, (rows, features)), (0, 0), (times * batch, features))
    time_major = draw.chance(0.4)
    x = b.reshape(x, (times, batch, features) if time_major else (batch, times, features))
    clip = (0.0, 10.0, 0.2)[draw.integer(0, 2)]
    return b.lstm(x, draw.integer(1, _MOST_CELLS), time_major=time_major, cell_clip=clip, output=draw.quantisation(x))


def svdf(draw: Drawing, x: Value) -> Value:
    """SVDF with a state of int8, of any zero point, or of int16, mostly of one sequence and with a bias."""
    b = draw.builder
    x = x if x.dtype is DType.INT8 else b.quantize(x, dtype=DType.INT8)
    features = max(n for n in range(1, _MOST_FEATURES + 1) if x.shape[-1] % n == 0)
    rows = math.prod(x.shape) // features
    batch = min(rows, draw.integer(2, 3)) if draw.chance(0.2) else 1
    x = b.slice(draw.reshaped(x, (rows, features)), (0, 0), (batch, features))
    return b.svdf(
        x,
        draw.integer(1, _MOST_UNITS),
        draw.integer(1, _MOST_MEMORY),
        rank=draw.integer(1, _MOST_RANK),
        state_dtype=DType.INT16 if draw.chance(0.4) else DType.INT8,
        use_bias=draw.chance(0.8),
        output=draw.quantisation(x),
    )


def _repeated(draw: Drawing, leading: tuple[int, ...]) -> tuple[int, ...]:
    """Leading dimensions that go together with others: fewer of them, or extents of 1."""
    first = draw.integer(0, len(leading))
    return tuple(1 if draw.chance(0.3) else extent for extent in leading[first:])
