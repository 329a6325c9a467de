"""Draws operators of int32 onto a `Drawing`: ARG_MAX, QUANTIZE to 32 bits, arithmetic and moves of what they make.

Owns the odds of their attributes, like `drawing` those of operators of 8 and 16 bits, none of which reads int32.
"""

from __future__ import annotations

import numpy as np

from ..ir import DType, Quantisation
from .calibration import coarse_scale
from .drawing import Drawing
from .recorder import Value

_MOST_INDICES = 6


def arg_max(draw: Drawing, x: Value) -> Value:
    """ARG_MAX of 8 bits, mostly over the channels."""
    x = draw.builder.quantize(x, dtype=DType.INT8) if x.dtype is DType.INT16 else x
    dtype = DType.INT32 if draw.chance(0.5) else DType.INT64
    found = draw.builder.arg_max(x, draw.axis(len(x.shape), last=0.8), dtype=dtype)
    return _counted(draw, found) if dtype is DType.INT32 and draw.chance(0.5) else found


def words(draw: Drawing, x: Value) -> Value:
    """QUANTIZE of int16 to int32."""
    b = draw.builder
    x = b.quantize(x, dtype=DType.INT8) if x.dtype is DType.UINT8 else x
    x = b.quantize(x, dtype=DType.INT16) if x.dtype is DType.INT8 else x
    scale = coarse_scale(x.quantisation.scale * 2.0 ** draw.rng.uniform(-8, 2))
    return _counted(draw, b.quantize(x, Quantisation((scale,), (0,)), dtype=DType.INT32))


def _counted(draw: Drawing, x: Value) -> Value:
    """Arithmetic of int32 with constants, sums, or other orders of elements; now and then of more than 32 bits."""
    for _ in range(draw.integer(0, 2)):
        if draw.chance(0.2):
            x = draw.builder.transpose(x, [int(axis) for axis in draw.rng.permutation(len(x.shape))])
            continue
        if draw.chance(0.2) and x.shape:
            axis = draw.axis(len(x.shape), last=0.3)
            indices = draw.rng.integers(0, x.shape[axis], draw.integer(1, _MOST_INDICES)).astype(np.int32)
            x = draw.builder.gather(x, indices, axis)
            continue
        if draw.chance(0.2) and len(x.shape) > 1:
            axes = sorted({draw.axis(len(x.shape)) % len(x.shape) for _ in range(draw.integer(1, 2))})
            x = draw.builder.sum_of_words(x, axes, keep_dims=draw.chance(0.5) or len(axes) == len(x.shape))
            continue
        kind = ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SUB")[draw.integer(0, 4)]
        most = 9 if kind == "MUL" else 1 << 20
        numbers = draw.rng.integers(-most, most, x.shape[-1:] if draw.chance(0.5) else (), endpoint=True)
        x = draw.builder.of_words(kind, x, np.asarray(numbers))
    return x
