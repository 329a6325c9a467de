"""QUANTIZE from one 8-bit quantisation to another: a pixel-wise copy that rescales."""

from __future__ import annotations

from typing import cast

from ..ir import Graph, Operator
from ..quantised import scale_of
from ..target import Accelerator
from . import limits, views
from .npu import NpuGraphBuilder, NpuOperation, OperationKind, Scale
from .te import Compute


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := limits.ends(graph, op)) is not None:
        return reason
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    if len(ifm.shape) > 4:
        return f"'{ifm.name}' has {len(ifm.shape)} dimensions; at most 4 are possible"
    factor = scale_of(ifm) / scale_of(ofm)
    return limits.first(
        (limits.elements(ofm, views.image_shape(ifm.shape)), limits.rescale(factor, limits.LARGEST_VALUE))
    )


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool of single pixels that rescales. Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    shape = views.image_shape(ifm.shape)
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=OperationKind.AVERAGE_POOL,
            ifm=builder.view(cast(int, op.inputs[0]), shape),
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
