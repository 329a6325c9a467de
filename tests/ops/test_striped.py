"""Chains run stripe by stripe through rolling buffers that wrap, bit-exact with the reference."""

from __future__ import annotations

import pytest
from ethoscade.codegen.command_stream import generate, surface
from ethoscade.codegen.streams import EncodingChoice
from ethoscade.codegen.weights import encode
from ethoscade.ir import Graph, Window
from ethoscade.judge import reference
from ethoscade.lowering import lower
from ethoscade.lowering.feature_maps import Layout
from ethoscade.pipeline.partition import partition
from ethoscade.scheduling.bricks import lay_in_bricks
from ethoscade.scheduling.program import CopyConstants, Step, Stripe
from ethoscade.targets.target import ACCELERATORS, Accelerator
from graphs import GraphMaker, same
from npu import execute, random_inputs, read
from rolling import Roller
from whole_tensor import pick_block


def chain(channels: int) -> Graph:
    """Every kind of operation that can be cut, with strides, dilation and both kinds of average."""
    maker = GraphMaker(seed=2)
    x = maker.conv(maker.input((1, 20, 18, 6)), 16, same(20, 18, (3, 3)))
    x = maker.depthwise(x, same(20, 18, (3, 3), 2))
    x = maker.conv(x, channels, Window(1, 1))
    x = maker.add(x, x)
    x = maker.pool("AVERAGE_POOL_2D", x, same(10, 9, (3, 3)))
    x = maker.quantize(x)
    x = maker.pool("MAX_POOL_2D", x, Window(2, 2))
    maker.conv(x, 8, same(9, 8, (3, 3), 1, 2))
    return maker.graph()


def run_rolled(graph: Graph, axis: int, step: int, accelerator: Accelerator, bricks: bool) -> int:
    """Check one way to cut the chain; returns how many slabs wrapped, of those in bricks if there are any."""
    npu = lower(graph, partition(graph, accelerator))
    if bricks:
        npu = lay_in_bricks(npu, {*graph.inputs, *graph.outputs})
    operations = npu.operations
    roller = Roller(operations, axis, step)
    depths = [operations[0].inputs[0].shape[2], *(o.ofm.shape[2] for o in operations)]
    offsets: dict[int, int] = {}
    top = 0
    for buffer, (rows, columns) in enumerate(roller.buffers):
        offsets[buffer] = top
        top += -(-rows * columns * depths[buffer] // 16) * 16
    choices = [EncodingChoice(8) if accelerator.macs > 32 else EncodingChoice(4) for _ in operations]
    constants = encode(operations, accelerator, choices)
    steps: list[Step] = []
    staged: dict[int, int] = {}
    for k in range(len(operations)):
        place = constants.place(k)
        if place is not None:
            staged[k] = len(roller.buffers) + k
            offsets[staged[k]] = top
            top += place.length_bytes
            steps.append(CopyConstants(k, staged[k]))
    wraps = 0
    for stripe in roller.steps:
        operation = operations[stripe.stage]
        h, w, _ = pick_block(operation, stripe, accelerator, 0.6)
        block = (h, w, choices[stripe.stage].block_depth)
        if operation.ofm.shape[2] > block[2]:
            block = (min(h, 4), min(w, 4), block[2])
        weights = staged.get(stripe.stage)
        steps.append(Stripe(stripe.stage, stripe.inputs, stripe.output, stripe.padding, block, weights))
        for fm, slab in zip(operation.inputs, stripe.inputs, strict=True):
            s = surface(fm, slab, 0)
            wrapped = s.height_0 < s.shape[0] or s.width_0 < s.shape[1]
            wraps += wrapped and (s.layout is Layout.NHCWB16) == bricks
    payload = generate(operations, steps, offsets, constants, accelerator)
    inputs = random_inputs(graph)
    (value,) = inputs.values()
    machine = execute(payload, constants.blob, top, accelerator, {offsets[0]: value})
    found = read(machine, graph, graph.outputs[0], offsets[len(operations)])
    assert (found == reference.run(graph, inputs).values[graph.outputs[0]]).all()
    return wraps


@pytest.mark.parametrize("accelerator", ["ethos-u55-256", "ethos-u55-32", "ethos-u65-256"])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
@pytest.mark.parametrize(
    ("channels", "bricks"), [(24, False), (24, True), (48, True)], ids=["pixels", "some-bricks", "bricks"]
)
def test_rolling_chain(axis: int, step: int, accelerator: str, channels: int, bricks: bool) -> None:
    assert run_rolled(chain(channels), axis, step, ACCELERATORS[accelerator], bricks) > 0
