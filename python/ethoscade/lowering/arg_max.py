"""ARG_MAX over the last axis: the largest of numbers that hold a value and, below it, its channel.

Such a number has 16 bits: 128 times the value, plus 63, less the channel, so that of equal values the first is largest.
The largest of a pixel is found by halves of its channels. Divided by 128 it is the value again, and what is left of it
says the channel. An index of 64 bits is a pair of 32 bits, of which the second is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..ir import DType, Graph, Operator
from . import constraints, depthwise, extremes, identity, reductions, views
from .family import Family
from .npu import (
    UNSCALED,
    Channels,
    FeatureMap,
    NpuGraphBuilder,
    NpuOperation,
    OperationKind,
    Rounding,
    Scale,
    Weights,
)
from .te import Compute

_BITS = 7
MOST_INDICES = 1 << _BITS
_ABOVE = MOST_INDICES // 2 - 1
"""What is added to the first channel's number: half of what lies between two values, so that they are rounded to."""


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Numbers, their maximum by halves, and the channel that is in it. Precondition: its family takes it."""
    op = graph.operators[op_index]
    source, target = graph.read(op), graph.made(op)
    height, width, depth = views.image_shape(source.shape)
    make = _Indices(op, op_index, builder)
    middle = sum(source.dtype.limits) // 2 + 1
    ifm = builder.view(op.input(0), (height, width, depth), zero_point=middle)
    words = target.dtype.size_bytes // DType.INT32.size_bytes
    ofm = builder.view(op.outputs[0], (height, width, words), zero_point=0, dtype=DType.INT32)
    numbers = make.numbers(ifm)
    make.channel(extremes.by_halves(op, op_index, builder, OperationKind.MAXIMUM, numbers), ofm)


class _Indices:
    """Makes the operations of one operator."""

    def __init__(self, op: Operator, op_index: int, builder: NpuGraphBuilder) -> None:
        self._op, self._index, self._builder = op, op_index, builder

    def numbers(self, ifm: FeatureMap) -> FeatureMap:
        """Of each value 128 times itself, plus 63, less its channel."""
        depth = ifm.shape[2]
        ofm = self._temporary(ifm.shape)
        weights = Weights(
            values=np.full((depth, 1, 1, 1), MOST_INDICES, np.int16),
            bias=(_ABOVE - np.arange(depth)).astype(np.int64),
            multipliers=np.ones(depth, np.int64),
            shifts=np.zeros(depth, np.int64),
        )
        compute = depthwise.compute(self._op.name, views.POINT, ifm.shape, ofm.shape)
        self._add(OperationKind.DEPTHWISE, ifm, ofm, compute, weights=weights)
        return ofm

    def channel(self, largest: FeatureMap, ofm: FeatureMap) -> None:
        """The channel in a number: 128 times the value, plus 63, less the number."""
        value, rounded = self._temporary(largest.shape), self._temporary(largest.shape, _ABOVE)
        self._copy(largest, value, _times(-_BITS))
        self._copy(value, rounded, _times(_BITS))
        rounded = replace(rounded, zero_point=0)
        words = ofm.shape[2]
        found = ofm if words == 1 else self._temporary(largest.shape)
        reads = tuple(reductions.some_read(operand, view) for operand, view in enumerate((rounded, largest)))
        compute = Compute(self._op.name, views.axes(found.shape), (), reads)
        self._add(OperationKind.SUB, rounded, found, compute, Scale(1, 0), ifm2=largest)
        if words > 1:
            # A channel is so small that the second word is nothing of it.
            for place, scale in enumerate((UNSCALED, _times(-2 * _BITS))):
                self._copy(found, FeatureMap(ofm.tensor, found.shape, 0, Channels(place, words)), scale)

    def _copy(self, ifm: FeatureMap, ofm: FeatureMap, scale: Scale) -> None:
        compute = identity.compute(self._op.name, ifm.shape)
        self._add(OperationKind.AVERAGE_POOL, ifm, ofm, compute, scale)

    def _temporary(self, shape: views.Shape3, zero_point: int = 0) -> FeatureMap:
        return self._builder.temporary(self._index, shape, DType.INT16, zero_point)

    def _add(
        self,
        kind: OperationKind,
        ifm: FeatureMap,
        ofm: FeatureMap,
        compute: Compute,
        scaling: Scale | None = None,
        weights: Weights | None = None,
        ifm2: FeatureMap | None = None,
    ) -> None:
        self._builder.add(
            NpuOperation(
                name=self._op.name,
                operator=self._index,
                kind=kind,
                ifm=ifm,
                ifm2=ifm2,
                ofm=ofm,
                window=views.POINT,
                compute=compute,
                clamp=ofm.dtype.limits,
                weights=weights,
                scaling=scaling,
                rounding=Rounding.NATURAL,
            )
        )


def _times(power: int) -> Scale:
    """A factor of 2^`power`."""
    return Scale(UNSCALED.multiplier, UNSCALED.shift - power)


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
