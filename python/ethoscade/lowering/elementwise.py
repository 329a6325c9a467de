"""ADD of two feature maps of one shape, ABS of one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import EIGHT_BIT, AddAttrs, DType, Graph, Tensor
from ..quantised import ADD_HEADROOM_BITS, activation_range, scale_of
from . import constraints, limits, views
from .family import Family
from .npu import NpuGraphBuilder, NpuOperation, OperandScales, OperationKind, Scale
from .te import Compute


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One elementwise operation. Precondition: its family takes it."""
    op = graph.operators[op_index]
    first, second = (op.input(0), op.input(1))
    shape = views.image_shape(graph.tensors[first].shape)
    ofm = graph.made(op)
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.ADD,
            ifm=builder.view(first, shape),
            ifm2=builder.view(second, shape),
            ofm=builder.view(op.outputs[0], shape),
            window=views.POINT,
            compute=compute(op.name, shape),
            clamp=activation_range(ofm.quantisation, ofm.dtype, op.attributes(AddAttrs).activation),
            scaling=OperandScales(scale_of(graph.tensors[first]), scale_of(graph.tensors[second]), scale_of(ofm)),
        )
    )


def compute(name: str, shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = in0[n, h, w, c] + in1[n, h, w, c]."""
    return Compute(name, views.axes(shape), (), (views.point_access(0, shape), views.point_access(1, shape)))


def _scales(case: constraints.Case) -> str | None:
    """Operand and output factors fit the NPU's shifts (a factor of 0 would lose an operand)."""
    a, b, out = (scale_of(tensor) for tensor in (*case.values, case.ofm))
    largest = max(a, b)
    factor = 2.0 * largest / (out * (1 << ADD_HEADROOM_BITS))
    if limits.npu_scale(factor)[0] == 0 or limits.npu_scale(min(a, b) / (2.0 * largest))[0] == 0:
        return f"scales {a:g} and {b:g} against an output of {out:g} lie too far apart; a factor below 2^-32 is lost"
    return limits.rescale(factor, limits.LARGEST_VALUE << ADD_HEADROOM_BITS)


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
            constraints.FeatureMaps((*EIGHT_BIT, DType.INT16)),
            constraints.OneType(),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(constraints.SUMS, _unary_sums),
        ),
        lower_unary,
    ),
    "ADD": Family(
        "the NPU's sum of two feature maps",
        (
            constraints.FeatureMaps(),
            constraints.OneType(),
            constraints.SameShape(),
            constraints.Rank(),
            constraints.Sizes(_seen),
            constraints.Rule(f"{constraints.SUMS}, none below 2^-32", _scales),
        ),
        lower,
    ),
}
