"""QUANTIZE from one quantisation of 8 or 16 bits to another: a pixel-wise copy that rescales, or looks up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import DType, Graph, TableAttrs
from ..quantised import scale_of
from . import constraints, limits, lookup, views
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Scale, Table
from .te import Compute


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels that rescales or looks up. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape = views.image_shape(ifm.shape)
    if isinstance(op.attrs, TableAttrs):
        given, made = (builder.view(t, shape, zero_point=0) for t in (op.input(0), op.outputs[0]))
        table = Table(np.array(op.attrs.results, ofm.dtype.numpy).tobytes())
        builder.add(lookup.look_up(op.name, op_index, given, made, table))
        return
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.AVERAGE_POOL,
            ifm=builder.view(op.input(0), shape),
            ofm=builder.view(op.outputs[0], shape),
            window=views.POINT,
            compute=compute(op.name, shape),
            clamp=ofm.dtype.limits,
            scaling=Scale(*limits.npu_scale(scale_of(ifm) / scale_of(ofm))),
        )
    )


def compute(name: str, shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = in[n, h, w, c], rescaled."""
    return Compute(name, views.axes(shape), (), (views.point_access(0, shape),))


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
