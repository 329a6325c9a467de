"""The simplest schedule there is: one stripe per stage, every tensor whole, nothing reused.

Enough to run lowering and code generation end to end without the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ethoscade.codegen import vela
from ethoscade.codegen.command_stream import build_operations, generate
from ethoscade.codegen.weights import Constants, EncodingChoice, StageConstants, encode
from ethoscade.ir import Graph
from ethoscade.lowering import lower
from ethoscade.lowering.stage import FeatureMap, Primitive, Stage
from ethoscade.pipeline.partition import partition
from ethoscade.scheduling.program import CopyConstants, Slab, Step, Stripe
from ethoscade.target import Accelerator


@dataclass(frozen=True)
class WholeTensor:
    """A payload with its constants and the arena offset of every tensor (graph index)."""

    payload: bytes
    constants: bytes
    offsets: Mapping[int, int]
    arena_bytes: int
    stages: tuple[Stage, ...]


def whole(fm: FeatureMap, buffer: int) -> Slab:
    """All of a feature map in a buffer of its own size."""
    h, w, _ = fm.shape
    return Slab(buffer, 0, h, 0, w, h, w)


def exact_padding(stage: Stage, output: Slab) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) that the windows of an output box touch."""
    w, (height, width, _) = stage.window, stage.inputs[0].shape
    return (
        max(0, w.pad_top - output.y0 * w.stride_h),
        max(0, w.pad_left - output.x0 * w.stride_w),
        max(0, (output.y1 - 1) * w.stride_h - w.pad_top + w.dilated_h - height),
        max(0, (output.x1 - 1) * w.stride_w - w.pad_left + w.dilated_w - width),
    )


def pick_block(stage: Stage, stripe: Stripe, accelerator: Accelerator, rank: float = 1.0) -> tuple[int, int, int]:
    """One of the blocks that Vela finds valid, by volume: 1 the largest, 0 the smallest."""
    fake = StageConstants(0, 0, 0, EncodingChoice(stripe.block[2]))
    offsets = dict.fromkeys((*(s.buffer for s in stripe.inputs), stripe.output.buffer), 0)
    kernel = build_operations(
        [stage],
        [Stripe(0, stripe.inputs, stripe.output, stripe.padding, stripe.block)],
        offsets,
        Constants(b"", {(0, stripe.portion): fake} if stage.weights is not None else {}),
    )[0]
    blocks = sorted(vela.valid_blocks(kernel, accelerator), key=lambda b: (b[0] * b[1] * b[2], b))
    return blocks[round(rank * (len(blocks) - 1))]


def part_kernel(stage: Stage) -> bool:
    """A choice that exercises both orders: part-kernel-first for shallow inputs."""
    return stage.primitive is Primitive.CONVOLUTION and stage.inputs[0].shape[2] <= 8


def compile_whole(graph: Graph, accelerator: Accelerator, *, rank: float = 1.0, staged: bool = False) -> WholeTensor:
    """Compile all NPU operators of `graph` as one run; with `staged`, constants are copied to the arena first."""
    stages = lower(graph, partition(graph, accelerator))
    offsets: dict[int, int] = {}
    top = 0
    for i, tensor in enumerate(graph.tensors):
        if not tensor.is_constant:
            offsets[i] = top
            top += -(-tensor.size_bytes // 16) * 16
    stripes = [_stripe(i, stage, accelerator, rank) for i, stage in enumerate(stages)]
    choices = [EncodingChoice(s.block[2], part_kernel(stage)) for s, stage in zip(stripes, stages, strict=True)]
    constants = encode(stages, accelerator, choices)
    steps: list[Step] = []
    placed = dict(offsets)
    for i, stripe in enumerate(stripes):
        place = constants.place(i)
        if staged and place is not None:
            buffer = len(graph.tensors) + i
            placed[buffer] = top
            top += place.length_bytes
            steps.append(CopyConstants(i, buffer))
            stripe = Stripe(i, stripe.inputs, stripe.output, stripe.padding, stripe.block, buffer)
        steps.append(stripe)
    payload = generate(stages, steps, placed, constants, accelerator)
    return WholeTensor(payload, constants.blob, offsets, top, stages)


def _stripe(index: int, stage: Stage, accelerator: Accelerator, rank: float) -> Stripe:
    output = whole(stage.output, stage.output.tensor)
    inputs = tuple(whole(fm, fm.tensor) for fm in stage.inputs)
    stripe = Stripe(index, inputs, output, exact_padding(stage, output), (1, 1, 8))
    return Stripe(index, inputs, output, stripe.padding, pick_block(stage, stripe, accelerator, rank))
