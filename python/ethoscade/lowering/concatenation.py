"""CONCATENATION along the channels: a copy of each input into its channels of the output."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir import Graph
from . import constraints, identity, views
from .family import Family
from .npu import UNSCALED, Channels, NpuGraphBuilder, NpuOperation, OperationKind

MAX_INPUTS = 64
"""The scheduler's checker remembers for each pixel which of so many parts of its channels are there."""


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One copy for each input, all of one output. Precondition: its family takes it.

    Stored values are copied as they are, without their (equal) scales and zero points.
    """
    op = graph.operators[op_index]
    inputs = [op.input(place) for place in range(len(op.inputs))]
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
                clamp=graph.made(op).dtype.limits,
                scaling=UNSCALED,
            )
        )
        first += shape[2]


def _seen(case: constraints.Case) -> constraints.Views:
    height, width, _ = views.image_shape(case.ifm.shape)
    return [(case.ofm, (height, width, sum(tensor.shape[-1] for tensor in case.values)))]


JOIN_FAMILIES: Mapping[str, Family] = {
    "CONCATENATION": Family(
        "a copy of each input into its channels of the output",
        (
            constraints.InputCount(MAX_INPUTS),
            constraints.feature_maps(),
            constraints.OneType(),
            constraints.Rank(),
            constraints.LastAxis("joins along"),
            constraints.OneQuantisation("stored values are copied as they are"),
            constraints.Sizes(_seen),
        ),
        lower,
    )
}
