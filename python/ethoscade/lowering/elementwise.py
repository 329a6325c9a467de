"""ADD of two feature maps of one shape."""

from __future__ import annotations

from typing import cast

from ..ir import AddAttrs, Graph, Operator
from ..quantised import ADD_HEADROOM_BITS, activation_range, scale_of
from ..target import Accelerator
from . import limits, views
from .npu import NpuGraphBuilder, NpuOperation, OperandScales, OperationKind
from .te import Compute


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := limits.ends(graph, op, data_inputs=2)) is not None:
        return reason
    a, b = (graph.tensors[cast(int, t)] for t in op.inputs[:2])
    ofm = graph.tensors[op.outputs[0]]
    if (reason := limits.same_dtype(a, b, ofm)) is not None:
        return reason
    if a.shape != b.shape:
        return f"inputs have shapes {a.shape} and {b.shape}; broadcasting is not possible"
    if len(a.shape) > 4:
        return f"'{a.name}' has {len(a.shape)} dimensions; at most 4 are possible"
    return limits.first((limits.elements(ofm, views.image_shape(a.shape)), _scales(graph, op)))


def _scales(graph: Graph, op: Operator) -> str | None:
    """Operand and output factors fit the NPU's shifts (a factor of 0 would lose an operand)."""
    scales = [graph.tensors[cast(int, t)].quantisation for t in (*op.inputs[:2], op.outputs[0])]
    a, b, out = (1.0 if q is None else q.scale for q in scales)
    largest = max(a, b)
    factor = 2.0 * largest / (out * (1 << ADD_HEADROOM_BITS))
    if limits.npu_scale(factor)[0] == 0 or limits.npu_scale(min(a, b) / (2.0 * largest))[0] == 0:
        return f"scales {a:g} and {b:g} against an output of {out:g} lie too far apart; a factor below 2^-32 is lost"
    return limits.rescale(factor, limits.LARGEST_VALUE << ADD_HEADROOM_BITS)


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One elementwise operation. Precondition: `support` found no reason."""
    op = graph.operators[op_index]
    first, second = (cast(int, t) for t in op.inputs[:2])
    shape = views.image_shape(graph.tensors[first].shape)
    ofm = graph.tensors[op.outputs[0]]
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
            clamp=activation_range(ofm.quantisation, ofm.dtype, cast(AddAttrs, op.attrs).activation),
            scaling=OperandScales(scale_of(graph.tensors[first]), scale_of(graph.tensors[second]), scale_of(ofm)),
        )
    )


def compute(name: str, shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = in0[n, h, w, c] + in1[n, h, w, c]."""
    return Compute(name, views.axes(shape), (), (views.point_access(0, shape), views.point_access(1, shape)))
