"""Runs damaged payloads or whole files on the simulator: none may panic, hang or touch memory outside its regions.

    python benches/fuzz_npu.py [--files] [--inputs N] [--seed S]

A million inputs by default: payloads of small networks or their weights damaged; with `--files` compiled .tflite files,
damaged anywhere, read, run and timed. Prints how they ended and the slowest one. A panic ends the bench with its
input's number; an input that takes more than `SLOWEST_SECONDS` of CPU time fails it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzzing import CompiledFile, Target, compiled_files, targets

INPUTS = 1_000_000
SLOWEST_SECONDS = 2.0


def fuzz(victims: list[Target] | list[CompiledFile], count: int, seed: int) -> int:
    """Damage and run; returns the exit status."""
    ends: Counter[str] = Counter()
    slowest = (0.0, -1)
    begin = time.process_time()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        start = time.process_time()
        try:
            ends[victims[number % len(victims)].run(rng)] += 1
        except BaseException:
            print(f"input {number} of seed {seed}:", file=sys.stderr)
            raise
        slowest = max(slowest, (time.process_time() - start, number))
        if (number + 1) % 50_000 == 0:
            print(f"{number + 1} inputs in {time.process_time() - begin:.0f} s of CPU time", flush=True)
    for end, times in ends.most_common():
        print(f"{times:9}  {end}")
    print(f"slowest: input {slowest[1]}, {slowest[0] * 1000:.1f} ms")
    return int(slowest[0] > SLOWEST_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="damage compiled files instead of payloads")
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    return fuzz(compiled_files() if args.files else targets(), args.inputs, args.seed)


if __name__ == "__main__":
    sys.exit(main())
