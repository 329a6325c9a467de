"""SVDF: a convolution makes the newest value of every filter, products with the weights in time are summed per unit.

State stays as kernels have it, filter by filter, the newest value last: all values but the oldest of each filter go one
place ahead, and the newest one behind them. They go by way of a temporary, which is the whole state without its first
element, so that the old state is read before the new one is begun and both can have one place. What the filters of a
unit remember are the channels of a pixel, and their weights a constant operand; products have 32 bits. Who holds the
state between runs is no matter of this room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..ir import DType, Graph, Operator, SvdfAttrs, SvdfInputs
from ..ir.quantised import svdf_scales, zero_point_of
from ..util.records import dataclass
from . import constraints, limits, views
from .family import Family
from .feature_maps import Channels, ConstantMap, FeatureMap
from .maker import AS_IS, Maker
from .npu import (
    Function,
    NpuGraphBuilder,
    OperationKind,
    Scale,
    Table,
    Weights,
)


@dataclass(frozen=True)
class _Sizes:
    """Of each of a `batch`: `units` of `rank` filters each, which remember `memory` values."""

    batch: int
    features: int
    units: int
    rank: int
    memory: int

    @property
    def newest(self) -> views.Shape3:
        """One value of each filter."""
        return self.batch, 1, self.units * self.rank

    @property
    def state(self) -> views.Shape3:
        """A pixel for each filter."""
        return self.batch * self.units * self.rank, 1, self.memory

    @property
    def elements(self) -> int:
        """Values of the whole state."""
        return self.batch * self.units * self.rank * self.memory

    @property
    def by_unit(self) -> views.Shape3:
        """The state with a pixel for each unit, of a single batch in rows so that stripes can cut between them."""
        plane = (self.units, 1) if self.batch == 1 else (self.batch, self.units)
        return *plane, self.rank * self.memory

    @property
    def made(self) -> views.Shape3:
        """One value of each unit."""
        return self.batch, 1, self.units


def _sizes(graph: Graph, op: Operator) -> _Sizes:
    (batch, features), rank = graph.read(op).shape, op.attributes(SvdfAttrs).rank
    filters, memory = graph.read(op, SvdfInputs.in_time).shape
    return _Sizes(batch, features, filters // rank, rank, memory)


def _factors(graph: Graph, op: Operator) -> tuple[float, float]:
    weights, times, state = (
        graph.read(op, place) for place in (SvdfInputs.of_input, SvdfInputs.in_time, SvdfInputs.state)
    )
    return svdf_scales(graph.read(op), weights, times, state, graph.made(op))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Up to eight operations. Precondition: its family takes it."""
    op = graph.operators[op_index]
    of, make, (first, second) = _sizes(graph, op), Maker(op.name, op_index, builder), _factors(graph, op)
    after = _remember(graph, op, make, of, first)
    times = _constant(graph, op, SvdfInputs.in_time)
    weights = ConstantMap(times.reshape(of.by_unit if of.batch == 1 else (1, *of.by_unit[1:])), after.dtype)
    products = make.temporary(of.by_unit, DType.INT32)
    make.point(OperationKind.MUL, replace(after, shape=of.by_unit), weights, products, AS_IS)
    sums = replace(make.sum(products), shape=of.made)
    if op.inputs[SvdfInputs.bias] is not None:
        bias = _constant(graph, op, SvdfInputs.bias).reshape(1, 1, of.units)
        sums = make.wide(OperationKind.ADD, sums, ConstantMap(bias, DType.INT32), AS_IS)
    seen = (of.batch, of.units, 1)
    ofm = builder.view(op.outputs[0], seen)
    make.sum(replace(sums, shape=seen), ofm, Scale(*limits.npu_scale(second)))


def _remember(graph: Graph, op: Operator, make: Maker, of: _Sizes, factor: float) -> FeatureMap:
    """The new state: the newest values behind all but the oldest ones."""
    before, after = op.input(SvdfInputs.state), op.outputs[1]
    origin, dtype = zero_point_of(graph.read(op, SvdfInputs.state)), graph.read(op, SvdfInputs.state).dtype
    whole = make.builder.view(after, of.state)
    stored = replace(whole, zero_point=0)
    alone = of.memory == 1
    newest = replace(stored, shape=of.newest) if alone else make.temporary(of.newest, dtype)
    (multiplier, shift), each = limits.npu_scale(factor), np.ones(of.newest[2], np.int64)
    values = _constant(graph, op, SvdfInputs.of_input)[:, None, None, :]
    weights = Weights(values, 0 * each, multiplier * each, shift * each)
    x = make.builder.view(op.input(0), (of.batch, 1, of.features))
    make.weigh(x, newest, weights, together=True, function=_shifted(origin) if origin else Function.CLAMP)
    if not alone:
        rows, kept = of.state[0], of.memory - 1
        left = (1, 1, of.elements - 1)
        old = make.copy(make.builder.view(before, left, 0, Channels(1, of.elements)), make.temporary(left, dtype))
        some = replace(old, shape=(rows, 1, kept), channels=Channels(0, kept), strides=(of.memory, of.memory))
        make.copy(some, replace(stored, shape=some.shape, channels=Channels(0, of.memory)))
        one = (rows, 1, 1)
        make.copy(replace(newest, shape=one), replace(stored, shape=one, channels=Channels(kept, of.memory)))
    return whole


def _shifted(origin: int) -> Table:
    """Values of 8 bits beyond `origin`: kernels add it to what they have clamped, and what leaves 8 bits wraps."""
    lowest, highest = DType.INT8.limits
    return Table((np.arange(lowest, highest + 1) + origin).astype(np.int8).tobytes())


def _constant(graph: Graph, op: Operator, place: int) -> npt.NDArray[np.integer]:
    return cast(npt.NDArray[np.integer], graph.read(op, place).constant())


# --- limits ----------------------------------------------------------------------------------------------------------


def _sums(case: constraints.Case) -> str | None:
    graph, op = case.graph, case.op
    of, (first, second) = _sizes(graph, op), _factors(graph, op)
    features = np.abs(_constant(graph, op, SvdfInputs.of_input).astype(np.int64)).sum(axis=1)
    if (why := limits.rescale(first, limits.LARGEST_VALUE * int(features.max()))) is not None:
        return why
    times = np.abs(_constant(graph, op, SvdfInputs.in_time).astype(np.int64)).reshape(of.units, -1).sum(axis=1)
    sums = limits.largest_value(graph.read(op, SvdfInputs.state).dtype) * times
    if op.inputs[SvdfInputs.bias] is not None:
        sums = sums + np.abs(_constant(graph, op, SvdfInputs.bias).astype(np.int64))
    return limits.rescale(second, int(sums.max()))


def _seen(case: constraints.Case) -> constraints.Views:
    of = _sizes(case.graph, case.op)
    state = case.graph.read(case.op, SvdfInputs.state)
    return [
        (case.ifm, (of.batch, 1, of.features)),
        (state, (1, 1, of.elements)),
        (state, of.by_unit),
        (case.ofm, of.made),
    ]


SVDF_FAMILIES: Mapping[str, Family] = {
    "SVDF": Family(
        "a convolution, a copy of the state without its oldest values, products with the weights in time and their "
        "sums, of 32 bits",
        (
            constraints.FeatureMaps((DType.INT8,), wider=(DType.INT16,)),
            constraints.ConstantAt(SvdfInputs.parameters),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _sums),
        ),
        lower,
    )
}
