"""SPLIT and SPLIT_V along the channels: a copy of some channels for each piece."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from ..ir import Graph, SplitAttrs
from . import constraints, views
from .family import Family
from .npu import UNSCALED, Channels, NpuGraphBuilder, NpuOperation, OperationKind
from .te import Access, Compute, index


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy for each piece that somebody reads. Precondition: its family takes it.

    Stored values are copied as they are, without their (equal) scales and zero points.
    """
    op = graph.operators[op_index]
    attrs = op.attributes(SplitAttrs)
    source = op.input(attrs.operand)
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


_SPLIT = Family(
    "a copy of some channels for each piece that somebody reads",
    (
        constraints.feature_maps(),
        constraints.Rank(),
        constraints.LastAxis("splits"),
        constraints.OneType(),
        constraints.OneQuantisation("stored values are copied as they are"),
        constraints.Sizes(lambda case: [(case.ifm, views.image_shape(case.ifm.shape))]),
    ),
    lower,
)

SPLIT_FAMILIES: Mapping[str, Family] = {"SPLIT": _SPLIT, "SPLIT_V": _SPLIT}
