"""How full the arenas of a model's frontier are, and the memory planner's share of compile time.

Run as `python benches/memory_programs.py MODEL.tflite ...`. What is in use at once is the largest sum of live bytes at
any step, which no placement of the same program goes below; the arena is what the point promises.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from pathlib import Path

import ethoscade
from ethoscade import memory
from ethoscade.frontend import read_tflite
from ethoscade.pipeline import compiler
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import Program
from ethoscade.targets.target import load_target

ALIGNMENT = 16
ITERATIONS = 80
"""Moves that the search grants the memory planner for one program."""


def live_bytes(program: Program) -> int:
    """Most bytes in use at once, those of each buffer in whole steps of 16."""
    changes = [0] * (len(program.steps) + 2)
    for buffer in program.buffers:
        for first, last, size in buffer.periods():
            aligned = -(-size // ALIGNMENT) * ALIGNMENT
            changes[first] += aligned
            changes[last] -= aligned
    return max(itertools.accumulate(changes))


def fill_of_frontier(model: Path, accelerator: str) -> tuple[str, list[float]]:
    """A line on all points of the frontier, and arena over live bytes of each."""
    network = compiler.prepare(read_tflite(model), load_target(accelerator))
    proposals = compiler.search(network).proposals
    ratios: list[float] = []
    for proposal in proposals:
        placed = scheduling.arrange(network.problem, proposal)
        ratios.append(placed.arena_bytes / max(live_bytes(placed.program), ALIGNMENT))
    early = sum(proposal.issue_order is not None for proposal in proposals)
    return (
        (
            f"{len(ratios):4} points, {early:4} with early copies, floor {proposals[0].sram_bytes:9}, "
            f"arena over live bytes: mean {mean(ratios):.4f}, most {max(ratios):.4f}"
        ),
        ratios,
    )


def mean(ratios: list[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def share_of_compiling(model: Path, accelerator: str) -> str:
    """CPU seconds of a compilation, and those of its placements, each taken as long as those of what it finds."""
    network = compiler.prepare(read_tflite(model), load_target(accelerator))
    found = scheduling.search(network.problem)
    programs = [scheduling.arrange(network.problem, proposal).program for proposal in found.proposals]
    started = time.process_time()
    for program in programs:
        memory.place_program(program, iterations=ITERATIONS)
    each = (time.process_time() - started) / len(programs)
    started = time.process_time()
    ethoscade.compile(model, accelerator=accelerator)
    seconds = time.process_time() - started
    placing = each * found.placements
    return (
        f"{found.placements:5} placements of {1000 * each:6.2f} ms, {placing:6.3f} s of the {seconds:6.3f} s of a "
        f"compilation, {placing / seconds:6.2%}"
    )


def main() -> int:
    """Prints two lines for each model, and the mean of their means."""
    parser = argparse.ArgumentParser(description="Bench the memory planner on compiled models")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--accelerator", default="ethos-u55-256")
    args = parser.parse_args()
    means: list[float] = []
    for model in args.models:
        try:
            line, ratios = fill_of_frontier(model, args.accelerator)
        except ethoscade.EthoscadeError as error:
            print(f"{model.stem:36} refused: {error}", flush=True)
            continue
        means.append(mean(ratios))
        print(f"{model.stem:36} {line}")
        print(f"{'':36} {share_of_compiling(model, args.accelerator)}", flush=True)
    if means:
        print(f"{len(means)} models, mean of arena over live bytes {mean(means):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
