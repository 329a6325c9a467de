"""Runs damaged payloads and files on the simulator: none may panic, hang or touch memory outside its regions.

    python benches/fuzz_npu.py [inputs] [seed]

A million inputs by default, each of them either a payload of a small network or its weights damaged. Prints how they
ended and the slowest one. A panic ends the bench with its input's number; an input that takes more than
`SLOWEST_SECONDS` fails it.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzzing import Target, targets

INPUTS = 1_000_000
SLOWEST_SECONDS = 2.0


def main(count: int = INPUTS, seed: int = 0) -> int:
    machines: list[Target] = targets()
    ends: Counter[str] = Counter()
    slowest = (0.0, -1)
    begin = time.perf_counter()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        target = machines[number % len(machines)]
        start = time.perf_counter()
        ends[target.run(rng)] += 1
        slowest = max(slowest, (time.perf_counter() - start, number))
        if (number + 1) % 100_000 == 0:
            print(f"{number + 1} inputs in {time.perf_counter() - begin:.0f} s", flush=True)
    for end, times in ends.most_common():
        print(f"{times:9}  {end}")
    print(f"slowest: input {slowest[1]}, {slowest[0] * 1000:.1f} ms")
    return int(slowest[0] > SLOWEST_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
