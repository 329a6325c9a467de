"""Which tensors lie in bricks of 16 channels (NHCWB16) rather than pixel by pixel (NHWC).

Owns that decision. The NPU writes 16 channels of a pixel at a time: in NHWC that is half a burst of the memory, in
bricks neighbouring columns fill it. It is settled once per tensor, before any schedule, and changes neither a tensor's
size nor where its rows lie, so the planner's arithmetic is the same for both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..lowering.stage import BRICK_CHANNELS, FeatureMap, Layout, Stage


def lay_in_bricks(stages: Sequence[Stage], exposed: Collection[int]) -> tuple[Stage, ...]:
    """The stages with every feature map in bricks that may and should be.

    `exposed` are the tensors (graph indices) whose bytes others than the NPU look at: what goes in and out of each NPU
    region, the network's own inputs and outputs among it.
    """
    bricks = _bricks(stages, exposed)

    def laid(view: FeatureMap) -> FeatureMap:
        return replace(view, layout=Layout.NHCWB16) if view.tensor in bricks else view

    return tuple(replace(s, inputs=tuple(map(laid, s.inputs)), output=laid(s.output)) for s in stages)


def _bricks(stages: Sequence[Stage], exposed: Collection[int]) -> frozenset[int]:
    made = {stage.output.tensor: stage.output for stage in stages}
    found = {tensor for tensor, view in made.items() if tensor not in exposed and _gains(view)}
    for stage in stages:
        for view in (*stage.inputs, stage.output):
            if view.tensor in found and not _fits(view, made[view.tensor]):
                found.remove(view.tensor)
    return frozenset(found)


def _fits(view: FeatureMap, made: FeatureMap) -> bool:
    """Whether a view's rows are the maker's, as rows of bricks cannot be seen as others, and hold whole bricks."""
    same = (*view.shape[:2], view.pixel_channels) == (*made.shape[:2], made.pixel_channels)
    return same and view.first_channel % BRICK_CHANNELS == 0 == view.shape[2] % BRICK_CHANNELS


def _gains(view: FeatureMap) -> bool:
    """Whether bricks hold the feature map without gaps, and differ from NHWC in more than shorter runs.

    A single column is the same bytes in either layout, and in NHWC all of its channels are one run.
    """
    width, depth = view.shape[1], view.pixel_channels
    return width > 1 and depth % BRICK_CHANNELS == 0 and view.dtype.size_bytes == 1
