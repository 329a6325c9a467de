"""QUANTIZE from one quantisation of 8 or 16 bits to another: a pixel-wise copy that rescales, or looks up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import DType, Graph, Integers, Operator, TableAttrs
from ..quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, lookup, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, Scale


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels that rescales or looks up. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    if isinstance(op.attrs, TableAttrs):
        lookup.look_up(graph, op_index, builder, op.attrs.results)
        return
    shape = views.image_shape(ifm.shape)
    Maker(op.name, op_index, builder).copy(
        builder.view(op.input(0), shape),
        builder.view(op.outputs[0], shape),
        Scale(*limits.npu_scale(scale_of(ifm) / scale_of(ofm))),
    )


def _results(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    ifm, ofm = graph.read(op), graph.made(op)
    if isinstance(op.attrs, TableAttrs):
        return lookup.looked_up(op.attrs.results, ifm, operands)
    factor = multiplier_and_shift(scale_of(ifm) / scale_of(ofm))
    scaled = limits.scaled(operands[0] - zero_point_of(ifm), *factor)
    return np.clip(scaled + zero_point_of(ofm), *ofm.dtype.limits)


def _factor(case: constraints.Case) -> str | None:
    if isinstance(case.op.attrs, TableAttrs):
        return None
    return limits.rescale(scale_of(case.ifm) / scale_of(case.ofm), limits.largest_value(case.ifm.dtype))


def _kernels(case: constraints.Case) -> str | None:
    given, made = case.ifm.dtype, case.ofm.dtype
    if {given, made} == {DType.UINT8, DType.INT16}:
        return f"no runtime has a kernel that turns {given.value} into {made.value}"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


QUANTISE_FAMILIES: Mapping[str, Family] = {
    "QUANTIZE": Family(
        "a pixel-wise copy that rescales; in the place of functions of each element a table of all results",
        (
            constraints.feature_maps(),
            constraints.Rule("not between uint8 and int16, of which no runtime has a kernel", _kernels),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
        _results,
    )
}
