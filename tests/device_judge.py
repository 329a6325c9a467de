"""Judges whole frontiers of described devices: proofs, order, and bounds from resources alone."""

from __future__ import annotations

from fractions import Fraction

from ethoscade import Curve, DeviceDescription, _core
from ethoscade.lowering.stage import Primitive, Stage
from ethoscade.pipeline.compiler import explore
from ethoscade.pipeline.planning import Outline
from ethoscade.scheduling import schedule as scheduling


def judged(outline: Outline) -> Curve:
    """The frontier of a problem, after all that must hold for any device was asserted."""
    curve = explore(outline.problem, 0)
    assert curve.points
    assert 0 <= curve.floor_bytes <= curve.uncascaded_bytes
    sizes, cycles = zip(*curve.points, strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert list(cycles) == sorted(set(cycles), reverse=True)
    for proposal in curve.proposals:
        scheduling.prove(outline.problem, scheduling.from_proposal(outline.problem, proposal))
    assert cycles[-1] >= resource_bound(outline)
    return curve


def fastest_one_by_one(outline: Outline) -> int:
    """Cycles of the fastest way without cascades."""
    return _core.search_cascades(outline.problem.core, max_group=1).proposals[-1].cycles


def resource_bound(outline: Outline) -> Fraction:
    """Cycles that no schedule beats: work at peak rates, constants and results once over their memories.

    The largest of them where a DMA engine moves data, their sum where whoever computes does.
    """
    device = outline.device
    engines = [_engine_bound(outline.stages, device, index) for index in range(len(device.engines))]
    memories = device.memories.tensors
    results = sum(stage.output.size_bytes for stage in outline.stages)
    constants = sum(
        stage.weights.values.size + 10 * stage.weights.bias.size
        for stage in outline.stages
        if stage.weights is not None
    )
    moved = [
        constants / Fraction(*device.constants.bytes_per_cycle),
        results / max(Fraction(*memory.bytes_per_cycle) for memory in memories),
    ]
    return max(*engines, *moved) if device.dma is not None else sum(engines + moved, Fraction())


def _engine_bound(stages: tuple[Stage, ...], device: DeviceDescription, index: int) -> Fraction:
    """Cycles of what only this engine can do."""
    cycles = Fraction()
    for stage in stages:
        primitive = "average_pool" if stage.primitive is Primitive.IDENTITY else stage.primitive.value
        able = [i for i, engine in enumerate(device.engines) if primitive in engine.rates]
        if able == [index]:
            height, width, depth = stage.output.shape
            work = height * width * depth * stage.window.kernel_h * stage.window.kernel_w
            if stage.primitive is Primitive.CONVOLUTION:
                work *= stage.inputs[0].shape[2]
            cycles += work / Fraction(*device.engines[index].rates[primitive])
    return cycles
