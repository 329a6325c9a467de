"""Which tensors lie in bricks of 16 channels (NHCWB16) rather than pixel by pixel (NHWC).

Owns that decision. The NPU writes 16 channels of a pixel at a time: in NHWC that is half a burst of the memory, in
bricks neighbouring columns fill it. It is settled once per tensor, before any schedule, and changes neither a tensor's
size nor where its rows lie, so the planner's arithmetic is the same for both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..lowering.feature_maps import (
    BRICK_CHANNELS,
    ConstantMap,
    FeatureMap,
    Layout,
    NpuTensor,
)
from ..lowering.npu import NpuGraph, NpuOperation


def lay_in_bricks(npu: NpuGraph, exposed: Collection[int]) -> NpuGraph:
    """The graph with every feature map in bricks that may and should be.

    `exposed` are the tensors (graph indices) whose bytes others than the NPU look at: what goes in and out of each NPU
    region, the network's own inputs and outputs among it.
    """
    bricks = _bricks(npu.operations, exposed)
    tensors = tuple(replace(t, layout=Layout.NHCWB16) if t in bricks else t for t in npu.tensors)

    def laid(operation: NpuOperation) -> NpuOperation:
        ifm, ofm = (replace(view, tensor=tensors[view.tensor.id]) for view in (operation.ifm, operation.ofm))
        ifm2 = operation.ifm2
        if isinstance(ifm2, FeatureMap):
            ifm2 = replace(ifm2, tensor=tensors[ifm2.tensor.id])
        elif isinstance(ifm2, ConstantMap) and _gains(ifm2):
            ifm2 = replace(ifm2, layout=Layout.NHCWB16)
        return replace(operation, ifm=ifm, ifm2=ifm2, ofm=ofm)

    return replace(npu, tensors=tensors, operations=tuple(laid(operation) for operation in npu.operations))


def _bricks(operations: Sequence[NpuOperation], exposed: Collection[int]) -> frozenset[NpuTensor]:
    made = {operation.ofm.tensor: operation.ofm for operation in operations}
    found = {tensor for tensor, view in made.items() if tensor.graph_tensor not in exposed and _gains(view)}
    for operation in operations:
        for view in (*operation.inputs, operation.ofm):
            if view.tensor in found and not _fits(view, made[view.tensor]):
                found.remove(view.tensor)
    return frozenset(found)


def _fits(view: FeatureMap, made: FeatureMap) -> bool:
    """Whether a view's rows are the maker's, as rows of bricks cannot be seen as others, and hold whole bricks."""
    same = (*view.plane, view.pixel_channels) == (*made.plane, made.pixel_channels) and view.strides is None
    return same and view.first_channel % BRICK_CHANNELS == 0 == view.shape[2] % BRICK_CHANNELS


def _gains(view: FeatureMap | ConstantMap) -> bool:
    """Whether bricks hold the feature map without gaps, and differ from NHWC in more than shorter runs.

    A single column is the same bytes in either layout, and in NHWC all of its channels are one run.
    """
    width, depth = view.plane[1], view.pixel_channels
    return width > 1 and depth % BRICK_CHANNELS == 0 and view.dtype.size_bytes <= 2
