"""Judges whole frontiers of described devices: proofs, order, and bounds from resources alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from ethoscade import Curve, DeviceDescription, _core
from ethoscade.lowering.npu import NpuOperation, OperationKind
from ethoscade.pipeline.planning import Outline
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Arrangement, CopyTensor, ProgramBuffer


def judged(outline: Outline) -> Curve:
    """The frontier of a problem, after all that must hold for any device was asserted."""
    curve = explore(outline.problem, 0)
    assert curve.points
    assert 0 <= curve.floor_bytes <= curve.uncascaded_bytes
    sizes, cycles = zip(*curve.points, strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert list(cycles) == sorted(set(cycles), reverse=True)
    for (size, _), proposal in zip(curve.points, curve.proposals, strict=True):
        scheduling.prove(outline.problem, scheduling.from_proposal(outline.problem, proposal))
        placed = scheduling.arrange(outline.problem, proposal)
        check_pools(outline, placed)
        assert placed.arena_bytes == size
    assert cycles[-1] >= resource_bound(outline)
    return curve


def check_pools(outline: Outline, placed: Arrangement) -> None:
    """Buffers lie in memories that may hold them, apart where bytes are live, and inside of all memories but the last.

    What is copied between memories is alive in both of them, and as large.
    """
    memories, program = outline.device.memories.tensors, placed.program
    ends = [0] * len(memories)
    live: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for buffer, pool, offset in zip(program.buffers, placed.pools, placed.offsets, strict=True):
        assert pool in buffer.pools, f"{buffer.name} lies in '{memories[pool].name}', which may not hold it"
        ends[pool] = max(ends[pool], offset + buffer.size_bytes)
        for first, last, low, high in _live(buffer):
            for step in range(first, last):
                live.setdefault((pool, step), []).append((offset + low, offset + high))
    for (pool, step), ranges in live.items():
        for (_, end), (start, _) in pairwise(sorted(one for one in ranges if one[0] < one[1])):
            assert end <= start, f"bytes of '{memories[pool].name}' are used twice at step {step}"
    assert list(placed.pool_bytes) == [-(-end // 16) * 16 for end in ends]
    for memory, end in list(zip(memories, ends, strict=True))[:-1]:
        assert memory.size_bytes is not None
        assert end <= memory.size_bytes, f"'{memory.name}' ends at {memory.size_bytes}, buffers at {end}"
    for number, step in enumerate(program.steps):
        if isinstance(step, CopyTensor):
            source, target = program.buffers[step.source], program.buffers[step.buffer]
            assert source.tensor == target.tensor == step.tensor
            assert source.size_bytes == target.size_bytes == source.live_bytes(number) == target.live_bytes(number)
            assert placed.pools[step.source] != placed.pools[step.buffer]


def _live(buffer: ProgramBuffer) -> Iterator[tuple[int, int, int, int]]:
    """First step, one past the last, and the bytes that are live meanwhile."""
    if not buffer.windows:
        yield buffer.first_step, buffer.last_step, 0, buffer.size_bytes
    for window in buffer.windows:
        yield window.first_step, window.last_step, window.low, window.high


def fastest_one_by_one(outline: Outline) -> int:
    """Cycles of the fastest way without cascades."""
    return _core.Search(outline.problem.core, max_group=1).frontier().proposals[-1].cycles


def resource_bound(outline: Outline) -> Fraction:
    """Cycles that no schedule beats: work at peak rates, constants and results once over their memories.

    The largest of them where a DMA engine moves data, their sum where whoever computes does.
    """
    device = outline.device
    engines = [_engine_bound(outline.npu.operations, device, index) for index in range(len(device.engines))]
    memories = device.memories.tensors
    results = sum(operation.ofm.size_bytes for operation in outline.npu.operations)
    constants = sum(
        operation.weights.values.size + 10 * operation.weights.bias.size
        for operation in outline.npu.operations
        if operation.weights is not None
    )
    moved = [
        constants / Fraction(*device.constants.bytes_per_cycle),
        results / max(Fraction(*memory.bytes_per_cycle) for memory in memories),
    ]
    return max(*engines, *moved) if device.dma is not None else sum(engines + moved, Fraction())


def _engine_bound(operations: tuple[NpuOperation, ...], device: DeviceDescription, index: int) -> Fraction:
    """Cycles of what only this engine can do."""
    cycles = Fraction()
    for operation in operations:
        kind = operation.kind.value
        able = [i for i, engine in enumerate(device.engines) if kind in engine.rates]
        if able == [index]:
            height, width, depth = operation.ofm.shape
            work = height * width * depth * operation.window.kernel_h * operation.window.kernel_w
            if operation.kind is OperationKind.CONVOLUTION:
                work *= operation.inputs[0].shape[2]
            cycles += work / Fraction(*device.engines[index].rates[kind])
    return cycles
