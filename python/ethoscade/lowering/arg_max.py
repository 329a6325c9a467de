"""ARG_MAX over the last axis: the largest of numbers that hold a value and, below it, its channel.

Such a number has 16 bits: 128 times the value, plus 63, less the channel, so that of equal values the first is largest.
The largest of a pixel is found by halves of its channels. Divided by 128 it is the value again, and what is left of it
says the channel. An index of 64 bits is a pair of 32 bits, of which the second is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import DType, Graph
from . import constraints, extremes, views
from .family import Family
from .maker import AS_IS, Maker
from .npu import (
    UNSCALED,
    Channels,
    FeatureMap,
    NpuGraphBuilder,
    OperationKind,
    Rounding,
    Weights,
    two_to,
)

_BITS = 7
MOST_INDICES = 1 << _BITS
_ABOVE = MOST_INDICES // 2 - 1
"""What is added to the first channel's number: half of what lies between two values, so that they are rounded to."""


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Numbers, their maximum by halves, and the channel that is in it. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source, target = graph.read(op), graph.made(op)
    height, width, depth = views.image_shape(source.shape)
    make = Maker(op.name, op_index, builder, Rounding.NATURAL)
    middle = sum(source.dtype.limits) // 2 + 1
    ifm = builder.view(op.input(0), (height, width, depth), zero_point=middle)
    words = target.dtype.size_bytes // DType.INT32.size_bytes
    ofm = builder.view(op.outputs[0], (height, width, words), zero_point=0, dtype=DType.INT32)
    largest = extremes.by_halves(Maker(op.name, op_index, builder), OperationKind.MAXIMUM, _numbers(make, ifm))
    _channel(make, largest, ofm)


def _numbers(make: Maker, ifm: FeatureMap) -> FeatureMap:
    """Of each value 128 times itself, plus 63, less its channel."""
    depth = ifm.shape[2]
    weights = Weights(
        values=np.full((depth, 1, 1, 1), MOST_INDICES, np.int16),
        bias=(_ABOVE - np.arange(depth)).astype(np.int64),
        multipliers=np.ones(depth, np.int64),
        shifts=np.zeros(depth, np.int64),
    )
    return make.weigh(ifm, make.temporary(ifm.shape, DType.INT16), weights)


def _channel(make: Maker, largest: FeatureMap, ofm: FeatureMap) -> None:
    """The channel in a number: 128 times the value, plus 63, less the number."""
    shape, words = largest.shape, ofm.shape[2]
    value, rounded = make.temporary(shape, DType.INT16), make.temporary(shape, DType.INT16, _ABOVE)
    make.copy(make.copy(largest, value, two_to(-_BITS)), rounded, two_to(_BITS))
    found = ofm if words == 1 else make.temporary(shape, DType.INT16)
    make.point(OperationKind.SUB, replace(rounded, zero_point=0), largest, found, AS_IS)
    if words > 1:
        # A channel is so small that the second word is nothing of it.
        for place, scale in enumerate((UNSCALED, two_to(-2 * _BITS))):
            make.copy(found, FeatureMap(ofm.tensor, shape, 0, Channels(place, words)), scale)


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
