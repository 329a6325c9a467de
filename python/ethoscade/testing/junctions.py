"""Draws operators in a row that the compiler's rules put together: islands of floats, FILL, new names, clamps, pads.

Owns the odds within each of these rows; like `drawing`'s, each draw takes a value and returns another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ..ir import DType
from ..ir.operators import ACTIVATION_OPERATORS
from .calibration import Real
from .drawing import Drawing
from .recorder import Value

_FLOAT_FUNCTIONS: Mapping[str, Callable[[Real], Real]] = {
    "ABS": np.abs,
    "EXP": lambda x: np.exp(np.clip(x, -8, 8)),
    "LOGISTIC": lambda x: (1 + np.tanh(x / 2)) / 2,
    "NEG": np.negative,
    "FLOOR": np.floor,
    "RELU": lambda x: np.maximum(x, 0),
    "TANH": np.tanh,
}
_WITH_A_NUMBER: Mapping[str, Callable[[float, Real], Real]] = {
    "ADD": np.add,
    "DIV": lambda number, x: x / number,
    "MAXIMUM": np.maximum,
    "MUL": np.multiply,
}
_NUMBERS = (-0.37, 0.25, 0.7)


def island(draw: Drawing, x: Value) -> Value:
    """DEQUANTIZE, up to three functions of one float each, now and then a move of the floats, and QUANTIZE."""
    b = draw.builder
    x = x if x.dtype is not DType.INT16 else b.quantize(x, dtype=DType.INT8)
    floats = b.dequantize(x)
    for _ in range(draw.integer(0, 3)):
        if draw.chance(0.6):
            kind = list(_FLOAT_FUNCTIONS)[draw.integer(0, len(_FLOAT_FUNCTIONS) - 1)]
            floats = b.float_function(kind, floats, _FLOAT_FUNCTIONS[kind])
        else:
            kind = list(_WITH_A_NUMBER)[draw.integer(0, len(_WITH_A_NUMBER) - 1)]
            number = _NUMBERS[draw.integer(0, len(_NUMBERS) - 1)]
            # What a number is divided by may be 0.
            first = kind != "DIV" and draw.chance(0.5)
            function = partial(_WITH_A_NUMBER[kind], number)
            floats = b.float_function(kind, floats, function, number, first)
    if draw.chance(0.3):
        floats = _floats_moved(draw, floats)
    return b.quantize(floats, dtype=x.dtype)


def _floats_moved(draw: Drawing, x: Value) -> Value:
    b, rank, how = draw.builder, len(x.shape), draw.integer(0, 2)
    if how == 0:
        return b.reverse(x, [draw.integer(0, rank - 1)])
    if how == 1:
        return b.tile(x, [draw.integer(1, 2) if extent < 8 else 1 for extent in x.shape])
    return b.slice(x, [0] * rank, [draw.integer(1, extent) for extent in x.shape])


def filled_operand(draw: Drawing, x: Value) -> Value:
    """The sum or difference of a value and of what FILL makes of a number; kernels of FILL have signed types.

    The number is a constant, or the largest one of the value.
    """
    b = draw.builder
    x = b.quantize(x, dtype=DType.INT8) if x.dtype is DType.UINT8 else x
    shape = x.shape[draw.integer(0, len(x.shape)) :]
    if draw.chance(0.6):
        number = b.constant(np.array(draw.rng.normal()), dtype=x.dtype)
    else:
        number = b.reduce("REDUCE_MAX", x, range(len(x.shape)))
    filled = b.fill(shape, number)
    operands = (x, filled) if draw.chance(0.5) else (filled, x)
    return b.binary("ADD" if draw.chance(0.5) else "SUB", *operands, activation=draw.activation())


def renames(draw: Drawing, x: Value) -> Value:
    """Up to three operators in a row that leave all bytes where they are: reshapes, and moves that move nothing."""
    b = draw.builder
    for _ in range(draw.integer(1, 3)):
        rank, how = len(x.shape), draw.integer(0, 6)
        if how <= 1:
            x = draw.renamed(x) if how == 0 else draw.reshape(x)
        elif how == 2:
            x = b.slice(x, (0,) * rank, (-1,) * rank)
        elif how == 3:
            x = b.tile(x, [1] * rank)
        elif how == 4:
            ones = [axis for axis in range(rank) if x.shape[axis] == 1]
            others = [axis for axis in range(rank) if x.shape[axis] > 1]
            x = b.transpose(x, others + ones if draw.chance(0.5) else ones + others)
        elif how == 5:
            x = b.concatenate([x], axis=draw.axis(rank))
        else:
            x = draw.squeezed(x)
    return x


def clamped(draw: Drawing, x: Value) -> Value:
    """An operator, and a clamp of its own behind it that keeps the quantisation; QUANTIZEs that change nothing."""
    x = draw.binary(x) if draw.chance(0.5) else draw.conv(x)
    x = draw.reshape(x) if draw.chance(0.3) else x
    kinds = [kind for kind in ACTIVATION_OPERATORS if kind != "RELU_N1_TO_1" or x.dtype is not DType.INT16]
    x = draw.builder.unary(kinds[draw.integer(0, len(kinds) - 1)], x, output=x.quantisation)
    return draw.builder.quantize(x, x.quantisation) if draw.chance(0.3) else x


def padded(draw: Drawing, x: Value) -> Value:
    """PAD of an image, now and then another one or a RESHAPE of its rows, and a convolution; or `_causal`."""
    if draw.chance(0.4):
        return _causal(draw, x)
    b, x = draw.builder, draw.image(x)
    for _ in range(draw.integer(1, 2)):
        x = b.pad(x, [(0, 0), *((draw.integer(0, 2), draw.integer(0, 2)) for _ in range(2)), (0, 0)])
    return draw.conv(draw.reshape(x) if draw.chance(0.3) else x)


def _causal(draw: Drawing, x: Value) -> Value:
    """PAD of three dimensions, mostly ahead of the pixels alone, one dimension more, and a convolution along them.

    Now and then a window along them as one column or one row behind it.
    """
    b, x = draw.builder, draw.image(x)
    batch, *plane, depth = x.shape
    x = draw.reshaped(x, (batch, math.prod(plane), depth))
    taps, dilation = draw.integer(1, 4), draw.integer(1, 3)
    behind = draw.integer(0, 2) if draw.chance(0.3) else 0
    x = b.pad(x, [(0, 0), ((taps - 1) * dilation, behind), (0, 0)])
    wide = draw.chance(0.7)
    shape = (batch, 1, *x.shape[1:]) if wide else (batch, x.shape[1], 1, depth)
    x = draw.reshaped(x, shape) if draw.chance(0.7) else b.reshape(x, shape)
    kernel, steps = ((1, taps), (1, dilation)) if wide else ((taps, 1), (dilation, 1))
    padding = "VALID" if draw.chance(0.8) else "SAME"
    if draw.chance(0.4):
        made = b.depthwise(x, kernel, dilation=steps, padding=padding)
    else:
        made = b.conv2d(x, draw.channels(), kernel, dilation=steps, padding=padding, activation=draw.activation())
    return _along(draw, made) if draw.chance(0.5) else made


def _along(draw: Drawing, x: Value) -> Value:
    """A window along the pixels, which are one column or one row, and perhaps a function of each result."""
    b, pixels, depth = draw.builder, x.shape[1] * x.shape[2], x.shape[3]
    is_column = draw.chance(0.7)
    x = draw.reshaped(x, (x.shape[0], pixels, 1, depth) if is_column else (x.shape[0], 1, pixels, depth))
    taps, stride = min(draw.integer(1, 4), pixels), draw.integer(1, 3)
    padding, how = ("SAME" if draw.chance(0.5) else "VALID"), draw.integer(0, 3)
    beside = draw.integer(1, 3) if padding == "SAME" else 1
    kernel, strides = ((taps, beside), (stride, 1)) if is_column else ((beside, taps), (1, stride))
    if how == 0:
        x = b.conv2d(x, draw.channels(), kernel, stride=strides, padding=padding)
    elif how == 1:
        x = b.depthwise(x, kernel, stride=strides, padding=padding)
    else:
        pool = b.max_pool if how == 2 else b.average_pool
        x = pool(x, kernel, stride=strides, padding=padding, activation=draw.activation())
    return draw.function(x) if draw.chance(0.3) else x


def pooled(draw: Drawing, x: Value) -> Value:
    """A convolution to several times the channels, and a pool, mean or maximum of all its pixels."""
    b = draw.builder
    x = draw.smaller(draw.image(x))
    channels = x.shape[3] * draw.integer(2, 6) + draw.integer(0, 17)
    kernel = draw.integer(1, 3) if min(x.shape[1:3]) > 2 else 1
    made = b.conv2d(x, channels, kernel, stride=draw.integer(1, 2), padding="SAME", activation=draw.activation())
    whole = (made.shape[1], made.shape[2])
    how = draw.integer(0, 4)
    if how < 2 and max(whole) <= 16:
        pool = b.average_pool if how else b.max_pool
        return pool(made, whole, stride=1, padding="VALID", activation=draw.activation())
    if how == 2:
        return b.reduce("REDUCE_MAX", made, (1, 2), keep_dims=draw.chance(0.5))
    return b.reduce("MEAN", made, (1, 2), keep_dims=draw.chance(0.5), output=draw.quantisation(made))
