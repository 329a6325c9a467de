"""QUANTIZE from one 8-bit quantisation to another: a pixel-wise copy that rescales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ..ir import Graph
from ..quantised import scale_of
from . import constraints, limits, views
from .family import Family
from .stage import Primitive, Stage
from .te import Compute


def lower(graph: Graph, op_index: int) -> tuple[Stage, ...]:
    """One identity stage. Precondition: its family takes it."""
    op = graph.operators[op_index]
    shape = views.image_shape(graph.tensors[cast(int, op.inputs[0])].shape)
    return (
        Stage(
            name=op.name,
            operator=op_index,
            primitive=Primitive.IDENTITY,
            inputs=(views.feature_map(graph, cast(int, op.inputs[0]), shape),),
            output=views.feature_map(graph, op.outputs[0], shape),
            window=views.POINT,
            compute=compute(op.name, shape),
            clamp=graph.tensors[op.outputs[0]].dtype.limits,
        ),
    )


def compute(name: str, shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = in[n, h, w, c], rescaled."""
    return Compute(name, views.axes(shape), (), (views.point_access(0, shape),))


def _factor(case: constraints.Case) -> str | None:
    return limits.rescale(scale_of(case.ifm) / scale_of(case.ofm), limits.LARGEST_VALUE)


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


QUANTISE_FAMILIES: Mapping[str, Family] = {
    "QUANTIZE": Family(
        "a pixel-wise copy that rescales",
        (
            constraints.FeatureMaps(),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _factor),
        ),
        lower,
    )
}
