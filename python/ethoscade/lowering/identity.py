"""QUANTIZE of 8 or 16 bits to another quantisation: each element rescaled, in a copy or in a product, or looked up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import QUANTISED, DType, Graph, TableAttrs
from ..quantised import scale_of
from . import constraints, limits, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, OperationKind, Scale, Table


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One operation that rescales or looks up each element. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape, make = views.image_shape(ifm.shape), Maker(op.name, op_index, builder)
    if isinstance(op.attrs, TableAttrs):
        given, made = (builder.view(t, shape, zero_point=0) for t in (op.input(0), op.outputs[0]))
        table = Table(np.array(op.attrs.results, ofm.dtype.numpy).tobytes())
        make.look_up(given, made, table)
        return
    given, made = builder.view(op.input(0), shape), builder.view(op.outputs[0], shape)
    factor = Scale(*limits.npu_scale(scale_of(ifm) / scale_of(ofm)))
    if ofm.dtype is DType.INT32:
        make.point(OperationKind.MUL, given, 1, made, factor)
    else:
        make.copy(given, made, factor)


def _factor(case: constraints.Case) -> str | None:
    if isinstance(case.op.attrs, TableAttrs):
        return None
    return limits.rescale(scale_of(case.ifm) / scale_of(case.ofm), limits.largest_value(case.ifm.dtype))


def _kernels(case: constraints.Case) -> str | None:
    given, made = case.ifm.dtype, case.ofm.dtype
    if {given, made} == {DType.UINT8, DType.INT16}:
        return f"no runtime has a kernel that turns {given.value} into {made.value}"
    if made is DType.INT32 and given is not DType.INT16:
        return f"LiteRT has no kernel that turns {given.value} into {made.value}, by which it could be judged"
    return None


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


QUANTISE_FAMILIES: Mapping[str, Family] = {
    "QUANTIZE": Family(
        "a pixel-wise copy that rescales; behind functions of floats of each element a table of all results",
        (
            constraints.FeatureMaps(QUANTISED, wider=(DType.INT32,)),
            constraints.Rule(
                "not between uint8 and int16, nor from 8 bits to int32, of which LiteRT has no kernels", _kernels
            ),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
    )
}
