"""Reference semantics of int16 SOFTMAX: an exponential and a reciprocal looked up in tables and interpolated.

Owns these tables, which LiteRT computes in double (TensorFlow Lite Micro in float32, so that four entries differ), and
the look-up. Q0.15 below: 15 fraction bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...ir import Array, Graph, Operator, SoftmaxAttrs
from .fixed_point import Int64, multiply
from .formulas import scale_of, significand_and_shift
from .meaning import Inputs, given

Doubles = npt.NDArray[np.float64]

_STEPS = 512
_LOWEST, _HIGHEST = -(1 << 15), (1 << 15) - 1
_RANGE = float(_HIGHEST - _LOWEST)
_REACH = 10.0
"""Further below the maximum exponentials count as nothing."""


def _rounded(x: Doubles) -> Doubles:
    """Halves away from zero."""
    rounded: Doubles = np.trunc(x + np.copysign(0.5, x))
    return rounded


def table(function: Callable[[Doubles], Doubles], scale: float, zero_point: int) -> Int64:
    """513 values of `function` in Q0.15, at int16 inputs of a quantisation, each moved to halve the error between."""
    least, most = (scale * (end - zero_point) for end in (_LOWEST, _HIGHEST))
    step = (most - least) / _STEPS
    unit = 2.0 / _RANGE
    steps = (_RANGE + 1) / (unit * _HIGHEST - unit * _LOWEST)
    places: Doubles = least + np.arange(_STEPS + 1, dtype=np.float64) * step
    here, between = function(places) * steps, function(places[:-1] + step / 2) * steps
    sample, last = _rounded(here[:-1]), _rounded(function(np.array([most])) * steps)
    error = _rounded((here[1:] + sample) / 2) - _rounded(between)
    found = np.concatenate([sample - _rounded(error / 2), last])
    entries: Int64 = np.clip(found, _LOWEST, _HIGHEST).astype(np.int64)
    return entries


def looked_up(values: Int64, entries: Int64) -> Int64:
    """Between two entries of a table, linearly."""
    place = 256 + (values >> 7)
    base = entries[place]
    found: Int64 = base + (((entries[place + 1] - base) * (values & 127) + 64) >> 7)
    return found


def _reciprocal_of_one_plus(x: Doubles) -> Doubles:
    return 1.0 / (1.0 + x)


def softmax_of_int16(graph: Graph, op: Operator, inputs: Inputs) -> Array:
    """SOFTMAX of int16 over the last axis; the output's scale is 1/32768 by TFLite's specification."""
    attrs = op.attributes(SoftmaxAttrs)
    x = given(inputs).astype(np.int64)
    # The product is one of float32, the quotient one of double.
    real = float(np.float32(scale_of(graph.read(op))) * np.float32(attrs.beta)) / (_REACH / _RANGE)
    distance = multiply(x - x.max(axis=-1, keepdims=True), *significand_and_shift(real))
    exps = looked_up(
        np.clip(distance + _HIGHEST, _LOWEST, _HIGHEST),
        table(np.exp, _REACH / _RANGE, _HIGHEST),
    )
    total = exps.sum(axis=-1, keepdims=True)
    zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    # The sum between 1 and 2, less 1, as an int16 from the lowest on.
    shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
    place = np.clip(shifted - (1 << 15) - (1 << 16), _LOWEST, _HIGHEST)
    inverse = looked_up(place, table(_reciprocal_of_one_plus, 1.0 / _RANGE, _LOWEST))
    drop = 31 - zeros
    result = (exps * inverse + np.left_shift(np.int64(1), drop - 1)) >> drop
    stored: Array = np.clip(result, 0, _HIGHEST).astype(np.int16)
    return stored
