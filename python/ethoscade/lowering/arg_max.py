"""ARG_MAX over the last axis: the largest of numbers that hold a value and, below it, its channel.

Such a number has 15 bits: 128 times the value, from the type's lowest on, plus 127 less the channel, so that of equal
values the first is largest. Convolutions of single pixels halve how many there are: the larger of two is the first plus
what the second has more, and the next convolution adds these up. A table of 16 bits finds the channel in the largest,
as it interpolates between values by what is below them. An index of 64 bits is four numbers of 16, of which three are
zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..ir import DType, Graph
from ..util.records import dataclass
from . import constraints, extremes, views
from .family import Family
from .feature_maps import FeatureMap
from .maker import Maker
from .npu import (
    NpuGraphBuilder,
    OperationKind,
    Rounding,
    Table,
    Weights,
)

_BITS = 7
MOST_INDICES = 1 << _BITS
_FIRST = MOST_INDICES - 1
"""What a number holds below its value for the first channel."""

_CHANNEL = Table(np.array([(_FIRST, -MOST_INDICES)] * 512, "<i2").tobytes())
"""From a number to its channel: from one value to the next, in 128 steps, it falls from 127 to -1."""

_MOST_SUMMED = 32
"""Halves of more channels are compared element by element: weights grow with the square of the channels."""


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers that are sums of a pixel's channels: `factors` of these, a row for each number, and `bias`."""

    source: FeatureMap
    factors: npt.NDArray[np.int16]
    bias: npt.NDArray[np.int64]


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Numbers, their maximum by halves, and the channel that is in it. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source, target = graph.read(op), graph.made(op)
    height, width, depth = views.image_shape(source.shape)
    make = Maker(op.name, op_index, builder, Rounding.NATURAL)
    ifm = builder.view(op.input(0), (height, width, depth), zero_point=source.dtype.limits[0])
    numbers = _Numbers(ifm, MOST_INDICES * np.eye(depth, dtype=np.int16), _FIRST - np.arange(depth))
    if depth > _MOST_SUMMED:
        numbers = _compared(make, numbers)
    while len(numbers.factors) > 1:
        numbers = _larger(make, numbers)
    single = make.temporary((height, width, 1), DType.INT16)
    found = make.weigh(
        numbers.source, single, _weights(numbers.factors, numbers.bias), together=True, function=_CHANNEL
    )
    if target.dtype is DType.INT64:
        words = DType.INT64.size_bytes // DType.INT16.size_bytes
        ofm = builder.view(op.outputs[0], (height, width, words), zero_point=0, dtype=DType.INT16)
        make.weigh(found, ofm, _weights(np.eye(words, 1, dtype=np.int16), np.zeros(words, np.int64)), together=True)
    else:
        make.copy(found, builder.view(op.outputs[0], single.shape, zero_point=0))


def _compared(make: Maker, numbers: _Numbers) -> _Numbers:
    """The numbers made, one of each channel, and the larger ones of halves until one is left."""
    made = make.temporary(numbers.source.shape, DType.INT16)
    made = make.weigh(numbers.source, made, _weights(np.diag(numbers.factors)[:, None], numbers.bias))
    largest = extremes.by_halves(make, OperationKind.MAXIMUM, made)
    return _Numbers(largest, np.eye(1, dtype=np.int16), np.zeros(1, np.int64))


def _larger(make: Maker, numbers: _Numbers) -> _Numbers:
    """Of two halves the larger numbers: the first half, and what each of the second has more than one of the first."""
    count = len(numbers.factors)
    half, pairs = (count + 1) // 2, count // 2
    factors, bias = numbers.factors.copy(), numbers.bias.copy()
    factors[half:] -= factors[:pairs]
    bias[half:] -= bias[:pairs]
    made = make.temporary((*numbers.source.shape[:2], count), DType.INT16)
    source = make.weigh(numbers.source, made, _weights(factors, bias), together=True, clamp=(0, DType.INT16.limits[1]))
    return _Numbers(source, np.eye(half, count, dtype=np.int16) + np.eye(half, count, half, np.int16), bias[:half] * 0)


def _weights(values: npt.NDArray[np.int16], bias: npt.NDArray[np.integer]) -> Weights:
    """Of single pixels, a row for each output channel; sums are taken as they are."""
    ones, none = np.ones(len(values), np.int64), np.zeros(len(values), np.int64)
    return Weights(values[:, None, None, :], bias.astype(np.int64), ones, none)


def _depth(case: constraints.Case) -> str | None:
    depth = case.ifm.shape[-1]
    return f"it has {depth} channels; at most {MOST_INDICES} are possible" if depth > MOST_INDICES else None


def _seen(case: constraints.Case) -> constraints.Views:
    shape = views.image_shape(case.ifm.shape)
    return [(case.ifm, shape), (case.ofm, (*shape[:2], 1))]


ARG_MAX_FAMILIES: Mapping[str, Family] = {
    "ARG_MAX": Family(
        "the largest of numbers of 16 bits that hold a value and its channel",
        (
            constraints.FeatureMaps(made=(DType.INT32, DType.INT64)),
            constraints.LastAxis("looks along"),
            constraints.Rule(f"the last axis has at most {MOST_INDICES} elements", _depth),
            constraints.Sizes(_seen),
        ),
        lower,
    )
}
