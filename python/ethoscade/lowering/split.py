"""SPLIT and SPLIT_V along the channels: a copy of some channels for each piece."""

from __future__ import annotations

from itertools import accumulate
from typing import cast

from ..ir import Graph, Operator, SplitAttrs
from ..target import Accelerator
from . import limits, views
from .npu import UNSCALED, Channels, NpuGraphBuilder, NpuOperation, OperationKind
from .te import Access, Compute, index


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    attrs = cast(SplitAttrs, op.attrs)
    ifm = graph.tensors[cast(int, op.inputs[attrs.operand])]
    made = [graph.tensors[t] for t in op.outputs]
    reasons = (limits.feature_map(ifm, "input"), *(limits.feature_map(t, "output") for t in made))
    if (reason := limits.first(reasons)) is not None:
        return reason
    if len(ifm.shape) > 4:
        return f"'{ifm.name}' has {len(ifm.shape)} dimensions; at most 4 are possible"
    if attrs.axis != len(ifm.shape) - 1:
        return f"it splits axis {attrs.axis} of {len(ifm.shape)}; only the last one, the channels, is possible"
    return limits.first((limits.same_dtype(ifm, *made), limits.dimensions(ifm.name, views.image_shape(ifm.shape))))


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy for each piece that somebody reads. Precondition: `support` found no reason.

    Stored values are copied as they are, without their (equal) scales and zero points.
    """
    op = graph.operators[op_index]
    attrs = cast(SplitAttrs, op.attrs)
    source = cast(int, op.inputs[attrs.operand])
    height, width, depth = views.image_shape(graph.tensors[source].shape)
    read = {t for reader in graph.operators[op_index + 1 :] for t in reader.inputs}.union(graph.outputs)
    for tensor, size, first in zip(op.outputs, attrs.sizes, accumulate(attrs.sizes, initial=0), strict=False):
        if tensor not in read:
            continue
        shape = (height, width, size)
        builder.add(
            NpuOperation(
                name=graph.tensors[tensor].name,
                operator=op_index,
                kind=OperationKind.AVERAGE_POOL,
                ifm=builder.view(source, shape, zero_point=0, channels=Channels(first, depth)),
                ofm=builder.view(tensor, shape, zero_point=0),
                window=views.POINT,
                compute=compute(op.name, shape, first, depth),
                clamp=graph.tensors[tensor].dtype.limits,
                scaling=UNSCALED,
            )
        )


def compute(name: str, shape: views.Shape3, first: int, depth: int) -> Compute:
    """out[n, h, w, c] = in[n, h, w, first + c], where the input has `depth` channels."""
    height, width, _ = shape
    read = Access(0, (index(n=1), index(h=1), index(w=1), index(first, c=1)), (1, height, width, depth))
    return Compute(name, views.axes(shape), (), (read,))
