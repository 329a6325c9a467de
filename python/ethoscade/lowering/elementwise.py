"""ABS of one feature map."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Tensor
from ..quantised import scale_of
from . import constraints, limits, views
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Scale
from .te import Compute


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


def lower_unary(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One elementwise operation of one operand. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape = views.image_shape(ifm.shape)
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind[op.kind],
            ifm=builder.view(op.input(0), shape),
            ofm=builder.view(op.outputs[0], shape),
            window=views.POINT,
            compute=Compute(op.name, views.axes(shape), (), (views.point_access(0, shape),)),
            clamp=ofm.dtype.limits,
            scaling=Scale(*limits.npu_scale(_ratio(ifm, ofm))),
        )
    )


def _ratio(ifm: Tensor, ofm: Tensor) -> float:
    """The factor that results are multiplied by, a quotient in float32 as in the kernels."""
    return float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))


def _unary_sums(case: constraints.Case) -> str | None:
    return limits.rescale(_ratio(case.ifm, case.ofm), limits.largest_value(case.ifm.dtype))


ELEMENTWISE_FAMILIES: Mapping[str, Family] = {
    "ABS": Family(
        "the NPU's magnitude of each element",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _unary_sums),
        ),
        lower_unary,
    ),
}
