"""ABS of one feature map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import Graph, Integers, Operator, Tensor
from ..ir.quantised import multiplier_and_shift, scale_of, zero_point_of
from . import constraints, limits, views
from .family import Family
from .maker import Maker
from .npu import NpuGraphBuilder, OperationKind, Scale


def _seen(case: constraints.Case) -> constraints.Views:
    return [(case.ofm, views.image_shape(case.ifm.shape))]


def lower_unary(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One elementwise operation of one operand. Precondition: its family takes it."""
    op = graph.operators[op_index]
    ifm, ofm = graph.read(op), graph.made(op)
    shape = views.image_shape(ifm.shape)
    Maker(op.name, op_index, builder).point(
        OperationKind[op.kind],
        builder.view(op.input(0), shape),
        None,
        builder.view(op.outputs[0], shape),
        Scale(*limits.npu_scale(_ratio(ifm, ofm))),
    )


def _ratio(ifm: Tensor, ofm: Tensor) -> float:
    """The factor that results are multiplied by, a quotient in float32 as in the kernels."""
    return float(np.float32(scale_of(ifm)) / np.float32(scale_of(ofm)))


def _magnitudes(graph: Graph, op: Operator, operands: Sequence[Integers]) -> Integers:
    ifm, ofm = graph.read(op), graph.made(op)
    sizes = np.abs(operands[0] - zero_point_of(ifm))
    scaled = limits.scaled(sizes, *multiplier_and_shift(_ratio(ifm, ofm)))
    return np.clip(scaled + zero_point_of(ofm), *ofm.dtype.limits)


def _unary_sums(case: constraints.Case) -> str | None:
    return limits.rescale(_ratio(case.ifm, case.ofm), limits.largest_value(case.ifm.dtype))


ELEMENTWISE_FAMILIES: Mapping[str, Family] = {
    "ABS": Family(
        "the NPU's magnitude of each element",
        (
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _unary_sums),
        ),
        lower_unary,
        _magnitudes,
    ),
}
