"""Heavy operators fused into kernels by a cost model: bottlenecks planned for an NPU with shared memory.

A Plan is such a kernel: consecutive operators, the rows each makes at a time, and buffers for what is between them.
"""

from __future__ import annotations

import sys

from ethoscade import _core
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation
from ethoscade.pipeline.planning import Outline, prepare
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling.schedule import Proposal, arrange
from ethoscade.targets.devices import matrix_npu
from ethoscade.testing import ModelBuilder


def bottlenecks() -> bytes:
    """Two inverted bottlenecks: seven heavy operators and an addition, 864 KiB between some of them."""
    b = ModelBuilder("bottlenecks")
    x = b.input((1, 192, 192, 3), name="image")
    x = b.conv2d(x, 16, 3, stride=2, activation=Activation.RELU6, name="stem")
    y = b.conv2d(x, 96, 1, activation=Activation.RELU6, name="expand 1")
    y = b.depthwise(y, 3, activation=Activation.RELU6, name="depthwise 1")
    y = b.conv2d(y, 16, 1, name="project 1")
    x = b.add(x, y, name="add")
    y = b.conv2d(x, 96, 1, activation=Activation.RELU6, name="expand 2")
    y = b.depthwise(y, 3, stride=2, activation=Activation.RELU6, name="depthwise 2")
    b.conv2d(y, 24, 1, name="project 2")
    return b.build()


def describe(outline: Outline, proposal: Proposal) -> None:
    """Print each Plan of a Proposal as the kernel that it is."""
    program = arrange(outline.problem, proposal).program
    print(f"{proposal.sram_bytes:>9,} bytes  {proposal.cycles:>9,} cycles")
    for plan in proposal.plans:
        parts = range(plan.first, plan.last + 1)
        names = [outline.npu.operations[outline.problem.parts[part][1]].name for part in parts]
        rows = [
            f"{name} {stripe}{' staged' if staging != 'in_place' else ''}"
            for name, stripe, staging in zip(names, plan.stripes, plan.staging, strict=True)
        ]
        print(f"    kernel: {', '.join(rows)} ({'rows' if plan.roll == 'height' else 'columns'} at a time)")
    for buffer in program.buffers:
        if buffer.kind == "rolling":
            print(f"    keeps {buffer.size_bytes:>7,} bytes: {buffer.name}")


def main() -> int:
    """Plan with and without fusing, print both; returns 0 if fusing pays."""
    outline = prepare(read_tflite(bottlenecks()), matrix_npu())
    alone = _core.Search(outline.problem.core, max_group=1).frontier().proposals[-1]
    curve = explore(outline.problem, 0)
    print(f"{outline.device.name}: {outline.device.arena.size_bytes:,} bytes of shared memory, DRAM behind them\n")
    print("every operator a kernel of its own, the fastest way:")
    describe(outline, alone)
    print("\nfused as the cost model finds it, the fastest way and the smallest:")
    describe(outline, curve.proposals[-1])
    describe(outline, curve.proposals[0])
    print(f"\nall {len(curve.points)} choices, bytes and cycles:")
    for size, cycles in curve.points:
        print(f"{size:>9,} {cycles:>9,}")
    return 0 if curve.points[-1][1] < alone.cycles else 1


if __name__ == "__main__":
    sys.exit(main())
