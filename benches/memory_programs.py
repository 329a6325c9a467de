"""How well and how fast the programs of a model's frontier are placed, and the planner's share of compile time.

Run as `python benches/memory_programs.py MODEL.tflite ... [--iterations N]`. The bound is the largest sum of live
bytes; a plan above it is still optimal where the search has proved that no plan reaches the bound.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import ethoscade
from ethoscade import compiler, memory
from ethoscade.frontend import read_tflite
from ethoscade.memory import Pool
from ethoscade.scheduling import schedule as scheduling
from ethoscade.target import load_target


def place_frontier(model: Path, accelerator: str, iterations: int) -> str:
    """Peaks of all points of the frontier beside their bounds, and CPU milliseconds for each."""
    network = compiler.prepare(read_tflite(model), load_target(accelerator))
    ratios: list[float] = []
    milliseconds: list[float] = []
    floor, optimal = sys.maxsize, 0
    for proposal in compiler.search(network).proposals:
        schedule = scheduling.from_proposal(network.problem, proposal)
        buffers = memory.program_buffers(scheduling.lower_schedule(network.problem, schedule)[0])
        pools = [Pool("arena", alignment=16)]
        started = time.process_time()
        placed = memory.plan(buffers, pools=pools, iterations=iterations)
        milliseconds.append((time.process_time() - started) * 1e3)
        bound = memory.plan(buffers, pools=pools, algorithm="greedy_by_size").lower_bound_bytes
        ratios.append(placed.peak_bytes / bound)
        floor, optimal = min(floor, placed.peak_bytes), optimal + placed.optimal
    mean = math.prod(ratios) ** (1 / len(ratios))
    return (
        f"{len(ratios):4} points, {optimal:4} optimal, floor {floor:8}, above the bound: mean {mean - 1:6.2%} "
        f"most {max(ratios) - 1:6.2%}, {sum(milliseconds) / len(ratios):5.2f} ms (most {max(milliseconds):5.2f})"
    )


def share_of_compiling(model: Path, accelerator: str) -> str:
    """CPU seconds that a compilation takes, and those of its placements: all in the search, and one more for good."""
    network = compiler.prepare(read_tflite(model), load_target(accelerator))
    found = scheduling.search(network.problem)
    started = time.process_time()
    ethoscade.compile(model, accelerator=accelerator)
    seconds = time.process_time() - started
    # The one for good repeats one of the search's, so it is counted as their mean.
    placing = found.placement_seconds * (1 + 1 / found.placements)
    return (
        f"{found.placements:5} placements in the search {found.placement_seconds:6.3f} s, of the {seconds:6.3f} s of a "
        f"compilation with the one for good {placing / seconds:6.2%}"
    )


def main() -> int:
    """Prints two lines for each model."""
    parser = argparse.ArgumentParser(description="Bench the memory planner on compiled models")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--accelerator", default="ethos-u55-256")
    parser.add_argument("--iterations", type=int, default=memory.DEFAULT_ITERATIONS)
    args = parser.parse_args()
    for model in args.models:
        print(f"{model.stem:36} {place_frontier(model, args.accelerator, args.iterations)}")
        print(f"{'':36} {share_of_compiling(model, args.accelerator)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
