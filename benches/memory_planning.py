"""Peaks, ratios to the lower bound and seconds of every memory planning algorithm on the hard instances A..K.

Run as `python benches/memory_planning.py [--iterations N] [--seed N] [ALGORITHM ...]`. The instances are found through
$ETHOSCADE_INSTANCES, else in a folder `shared/instances` beside the project or above it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from pathlib import Path

from ethoscade import memory


def find_instances() -> list[Path]:
    """The instance files in order, or none."""
    named = os.environ.get("ETHOSCADE_INSTANCES")
    folders = (
        [Path(named)] if named else [parent / "shared" / "instances" for parent in Path(__file__).resolve().parents]
    )
    return next((files for folder in folders if (files := sorted(folder.glob("*.csv")))), [])


def main() -> int:
    """Prints one table row per instance and algorithm, and the geometric means."""
    parser = argparse.ArgumentParser(description="Bench the memory planner on the hard instances A..K")
    parser.add_argument("algorithms", nargs="*", default=memory.ALGORITHMS, metavar="ALGORITHM")
    parser.add_argument("--iterations", type=int, default=memory.DEFAULT_ITERATIONS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    files = find_instances()
    if not files:
        print("no instances: set ETHOSCADE_INSTANCES to the folder that holds A.1048576.csv and so on", file=sys.stderr)
        return 1
    for algorithm in args.algorithms:
        ratios = []
        total = 0.0
        for file in files:
            buffers = memory.read_csv(file)
            started = time.process_time()
            found = memory.plan(buffers, algorithm=algorithm, seed=args.seed, iterations=args.iterations)
            seconds = time.process_time() - started
            total += seconds
            ratios.append(found.peak_bytes / found.lower_bound_bytes)
            print(
                f"{algorithm:20} {file.name[0]} {len(buffers):4} buffers {found.peak_bytes:9} bytes "
                f"{ratios[-1]:6.3f} {seconds:7.3f} s {found.stop_reason}"
            )
        mean = math.prod(ratios) ** (1 / len(ratios))
        print(f"{algorithm:20} geometric mean {mean:.3f}, {total:.2f} s in all\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
