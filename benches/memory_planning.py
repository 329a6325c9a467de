"""Peaks, ratios to the lower bound and CPU seconds of every memory planning algorithm.

Run as `python benches/memory_planning.py [--iterations N] [--seed N] [--networks [COUNT ...]] [ALGORITHM ...]`. Without
`--networks` on the hard instances A..K, which are found through $ETHOSCADE_INSTANCES, else in a folder
`shared/instances` beside the project or above it; with it on generated networks of so many buffers (50 to 30,000).
Two baselines up to 3,000 buffers: `stacked` is by size without filling gaps, as TVM's greedy_by_size does it,
`canonical` is first fit in MiniMalloc's orders, without its search. Both leave windows and gaps unused.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ethoscade import memory
from ethoscade.memory import Buffer, Pool
from memory_networks import KINDS, generate


def find_instances() -> list[Path]:
    """The instance files in order, or none."""
    named = os.environ.get("ETHOSCADE_INSTANCES")
    folders = (
        [Path(named)] if named else [parent / "shared" / "instances" for parent in Path(__file__).resolve().parents]
    )
    return next((files for folder in folders if (files := sorted(folder.glob("*.csv")))), [])


def stacked(buffers: Sequence[Buffer], pools: Sequence[Pool]) -> list[int]:
    """The largest first, each above all that it meets: TVM's greedy_by_size, which never fills gaps."""
    del pools
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: -buffers[i].size_bytes):
        this = buffers[index]
        met = (i for i in placed if buffers[i].lower < this.upper and this.lower < buffers[i].upper)
        top = max((offsets[i] + buffers[i].size_bytes for i in met), default=0)
        offsets[index] = -(-top // this.alignment) * this.alignment
        placed.append(index)
    return offsets


def canonical(buffers: Sequence[Buffer], pools: Sequence[Pool]) -> list[int]:
    """MiniMalloc-like without the search: first fit by area, by steps and by size, the best of the three orders."""
    keys: tuple[Callable[[Buffer], int], ...] = (
        lambda b: b.size_bytes * (b.upper - b.lower),
        lambda b: b.upper - b.lower,
        lambda b: b.size_bytes,
    )
    answers = [_first_fit(buffers, sorted(range(len(buffers)), key=lambda i: -key(buffers[i]))) for key in keys]
    return min(answers, key=lambda offsets: max(o + b.size_bytes for o, b in zip(offsets, buffers, strict=True)))


def _first_fit(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """The lowest offset at which each meets nothing placed before; windows and gaps in time are ignored."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in order:
        this = buffers[index]
        met = [i for i in placed if buffers[i].lower < this.upper and this.lower < buffers[i].upper]
        offset = 0
        for start, end in sorted((offsets[i], offsets[i] + buffers[i].size_bytes) for i in met):
            if start >= offset + this.size_bytes:
                break
            offset = max(offset, -(-end // this.alignment) * this.alignment)
        offsets[index] = offset
        placed.append(index)
    return offsets


BASELINES = {"stacked": stacked, "canonical": canonical}


def run(problems: Mapping[str, Sequence[Buffer]], algorithms: Sequence[str], seed: int, iterations: int) -> None:
    """Prints one row per problem and algorithm, and the geometric mean and the sum for each algorithm."""
    for name in algorithms:
        algorithm = BASELINES.get(name, name)
        ratios: list[float] = []
        total = 0.0
        for title, buffers in problems.items():
            if name in BASELINES and len(buffers) > 3_000:
                continue
            started = time.process_time()
            found = memory.plan(buffers, algorithm=algorithm, seed=seed, iterations=iterations)
            seconds = time.process_time() - started
            total += seconds
            ratios.append(found.peak_bytes / max(1, found.lower_bound_bytes))
            proof = "optimal" if found.optimal else found.stop_reason
            print(
                f"{name:20} {title:14} {len(buffers):6} buffers {found.peak_bytes:10} bytes "
                f"{ratios[-1]:6.3f} {seconds:8.3f} s {proof}",
                flush=True,
            )
        mean = math.prod(ratios) ** (1 / max(1, len(ratios)))
        print(f"{name:20} geometric mean {mean:.3f}, {total:.2f} s in all\n")


def main() -> int:
    """Runs the benches that the command line asks for."""
    parser = argparse.ArgumentParser(description="Bench the memory planner")
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM")
    parser.add_argument("--iterations", type=int, default=memory.DEFAULT_ITERATIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", nargs="*", type=int, metavar="COUNT", help="generated networks of these sizes")
    args = parser.parse_args()
    algorithms = args.algorithms or [*memory.ALGORITHMS, *BASELINES]
    problems: dict[str, Sequence[Buffer]]
    if args.networks is not None:
        counts = args.networks or [50, 200, 1000]
        problems = {f"{kind} {count}": generate(kind, count, args.seed) for kind in KINDS for count in counts}
    else:
        problems = {file.name[0]: memory.read_csv(file) for file in find_instances()}
    if not problems:
        print("no instances: set ETHOSCADE_INSTANCES to the folder that holds A.1048576.csv and so on", file=sys.stderr)
        return 1
    run(problems, algorithms, args.seed, args.iterations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
