"""QUANTIZE from one quantisation of 8 or 16 bits to another: a pixel-wise copy that rescales, or looks up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import DType, Graph, TableAttrs
from ..quantised import scale_of
from . import constraints, limits, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, Scale, Table


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels that rescales or looks up. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape, make = views.image_shape(ifm.shape), Maker(op.name, op_index, builder)
    if isinstance(op.attrs, TableAttrs):
        given, made = (builder.view(t, shape, zero_point=0) for t in (op.input(0), op.outputs[0]))
        table = Table(np.array(op.attrs.results, ofm.dtype.numpy).tobytes())
        make.look_up(given, made, table)
        return
    make.copy(
        builder.view(op.input(0), shape),
        builder.view(op.outputs[0], shape),
        Scale(*limits.npu_scale(scale_of(ifm) / scale_of(ofm))),
    )


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
        "a pixel-wise copy that rescales; behind functions of floats of each element a table of all results",
        (
            constraints.feature_maps(),
            constraints.Rule("not between uint8 and int16, of which no runtime has a kernel", _kernels),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
    )
}
