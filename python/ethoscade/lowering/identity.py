"""QUANTIZE of 8 or 16 bits to another quantisation: each element rescaled, in a copy or in a product, or looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import QUANTISED, DType, Graph, Integers, Operator, TableAttrs
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, lookup, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, OperationKind, Scale


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One operation that rescales or looks up each element. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    if isinstance(op.attrs, TableAttrs):
        lookup.look_up(graph, op_index, builder, op.attrs.results)
        return
    shape, make = views.image_shape(ifm.shape), Maker(op.name, op_index, builder)
    given, made = builder.view(op.input(0), shape), builder.view(op.outputs[0], shape)
    factor = Scale(*limits.npu_scale(scale_of(ifm) / scale_of(ofm)))
    if ofm.dtype is DType.INT32:
        make.point(OperationKind.MUL, given, 1, made, factor)
    else:
        make.copy(given, made, factor)


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
    if (given, made) == (DType.INT16, DType.UINT8):
        return f"no runtime has a kernel that turns {given.value} into {made.value}"
    if made is DType.INT32 and given is not DType.INT16:
        return f"LiteRT has no kernel that turns {given.value} into {made.value}, by which it could be judged"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


QUANTISE_FAMILIES: Mapping[str, Family] = {
    "QUANTIZE": Family(
        "a pixel-wise copy that rescales; in the place of functions of each element a table of all results",
        (
            constraints.FeatureMaps(QUANTISED, wider=(DType.INT32,)),
            constraints.Rule(
                "not from int16 to uint8, nor from 8 bits to int32, of which LiteRT has no kernels", _kernels
            ),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
        _results,
    )
}
