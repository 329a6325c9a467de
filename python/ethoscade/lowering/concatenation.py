"""CONCATENATION along the channels: a copy of each input into its channels of the output."""

from __future__ import annotations

from typing import cast

from ..ir import ConcatenationAttrs, Graph, Operator
from ..target import Accelerator
from . import identity, limits, views
from .npu import UNSCALED, Channels, NpuGraphBuilder, NpuOperation, OperationKind

MAX_INPUTS = 64
"""The scheduler's checker remembers for each pixel which of so many parts of its channels are there."""


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if len(op.inputs) > MAX_INPUTS:
        return f"it joins {len(op.inputs)} inputs; at most {MAX_INPUTS} are possible"
    if (reason := limits.ends(graph, op, data_inputs=len(op.inputs))) is not None:
        return reason
    inputs, ofm = [graph.tensors[cast(int, t)] for t in op.inputs], graph.tensors[op.outputs[0]]
    if (reason := limits.same_dtype(*inputs, ofm)) is not None:
        return reason
    rank, axis = len(inputs[0].shape), cast(ConcatenationAttrs, op.attrs).axis
    if rank > 4:
        return f"'{inputs[0].name}' has {rank} dimensions; at most 4 are possible"
    if axis != rank - 1:
        return f"it joins along axis {axis} of {rank}; only the last one, the channels, is possible"
    height, width, _ = views.image_shape(inputs[0].shape)
    return limits.elements(ofm, (height, width, sum(tensor.shape[-1] for tensor in inputs)))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy for each input, all of one output. Precondition: `support` found no reason.

    Stored values are copied as they are, without their (equal) scales and zero points.
    """
    op = graph.operators[op_index]
    inputs = [cast(int, t) for t in op.inputs]
    shapes = [views.image_shape(graph.tensors[t].shape) for t in inputs]
    depth = sum(shape[2] for shape in shapes)
    first = 0
    for tensor, shape in zip(inputs, shapes, strict=True):
        builder.add(
            NpuOperation(
                name=op.name,
                operator=op_index,
                kind=OperationKind.AVERAGE_POOL,
                ifm=builder.view(tensor, shape, zero_point=0),
                ofm=builder.view(op.outputs[0], shape, zero_point=0, channels=Channels(first, depth)),
                window=views.POINT,
                compute=identity.compute(op.name, shape),
                clamp=graph.tensors[op.outputs[0]].dtype.limits,
                scaling=UNSCALED,
            )
        )
        first += shape[2]
