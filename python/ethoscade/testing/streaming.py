"""Draws state: what a network keeps of one run for the next, as streaming models and recurrent ones do.

Owns the odds of how variables are read and set. What else there is in a network is `random_networks`' matter.
"""

from __future__ import annotations

from ..ir import Quantisation
from .drawing import Drawing
from .recorder import Value


def stateful(draw: Drawing, x: Value) -> Value:
    """What a network makes of the value and of a variable or two, which it sets for the next run."""
    return (_shifted, _shifted, _summed, _delayed, _exchanged)[draw.integer(0, 4)](draw, x)


def _shifted(draw: Drawing, x: Value) -> Value:
    """The last rows, or whatever lies along an axis, of a longer input: the value behind what was kept."""
    b, axis, kept = draw.builder, draw.integer(0, len(x.shape) - 1), draw.integer(1, 4)
    shape = tuple(kept if i == axis else extent for i, extent in enumerate(x.shape))
    variable = b.variable(shape, x.quantisation, dtype=x.dtype)
    joined = b.concatenate([variable, x], axis=axis)
    first = [joined.shape[i] - kept if i == axis else 0 for i in range(len(x.shape))]
    if draw.chance(0.5):
        rest = b.slice(joined, first, shape)
    else:
        rest = b.strided_slice(joined, first, joined.shape, [1] * len(shape))
    b.assign(variable, rest)
    return joined


def _summed(draw: Drawing, x: Value) -> Value:
    """What is there already and the value, together again; of values of two quantisations a third."""
    b = draw.builder
    quantisation = x.quantisation if draw.chance(0.5) else _coarser(x)
    variable = b.variable(x.shape, quantisation, dtype=x.dtype)
    total = b.binary("ADD" if draw.chance(0.7) else "SUB", variable, x, output=quantisation)
    b.assign(variable, total)
    return b.read(variable) if draw.chance(0.5) else total


def _delayed(draw: Drawing, x: Value) -> Value:
    """The value of an earlier run beside this one's."""
    b = draw.builder
    first = b.variable(x.shape, x.quantisation, dtype=x.dtype)
    last = first
    if draw.chance(0.5):
        last = b.variable(x.shape, x.quantisation, dtype=x.dtype)
        b.assign(last, first)
    b.assign(first, x)
    return b.concatenate([last, x], axis=draw.axis(len(x.shape)))


def _exchanged(draw: Drawing, x: Value) -> Value:
    """Two variables that change places, or one that is as it was; the first one is set last of all, to the result."""
    b = draw.builder
    pair = [b.variable(x.shape, x.quantisation, dtype=x.dtype) for _ in range(2)]
    both = b.add(*pair, output=x.quantisation)
    if draw.chance(0.7):
        b.assign(pair[0], pair[1])
        b.assign(pair[1], pair[0])
    result = b.add(both, x, output=x.quantisation)
    if draw.chance(0.5):
        b.assign(pair[0], result)
    return result


def _coarser(x: Value) -> Quantisation:
    return Quantisation((2 * x.quantisation.scale,), x.quantisation.zero_points)
