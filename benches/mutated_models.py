"""Mutated models: files changed field by field, compiled, written, run and judged, each in a child under limits.

    python benches/mutated_models.py [--count N] [--seed S] [--models] [--keep FOLDER]

10,000 files by default: small networks of every kind of operator, and with `--models` the small ones among the public
models too, with one to three of their numbers (shapes, types, scales, codes, indices, options, lengths, offsets, small
constants) replaced, or bits flipped, or cut short. A child takes ten seconds of CPU time and a gigabyte at most. Prints
how the files ended and the slowest and largest; ends with status 1 if one was wrong, died, hung or left a traceback, or
was refused though LiteRT runs it as it is written and Vela compiles it. `--keep` writes such files down.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import takers
from model_files import model_paths
from model_mutations import is_bad, mutate, outcome, places, summary, victims

COUNT = 10_000
LARGEST_MODEL_BYTES = 64 * 1024
REFUSED_ALONE = "refused, though LiteRT and Vela take it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", action="store_true", help="mutate small public models as well")
    parser.add_argument("--keep", type=Path, help="a folder for the files that ended badly")
    args = parser.parse_args()
    files = victims()
    if args.models:
        files += [path.read_bytes() for path in model_paths() if path.stat().st_size <= LARGEST_MODEL_BYTES]
    at = [places(data) for data in files]
    takers.warm_up()
    ends: Counter[str] = Counter()
    slowest, largest, bad = (0.0, -1), (0, -1), 0
    for number in range(args.count):
        which = number % len(files)
        data = mutate(files[which], at[which], random.Random(f"{args.seed}/{number}"))
        words, seconds, megabytes = outcome(data)
        if words.startswith("refused (") and (alone := takers.refused_alone(data)) is not None:
            words = f"{REFUSED_ALONE}: {alone}"
        ends[REFUSED_ALONE if words.startswith(REFUSED_ALONE) else summary(words)] += 1
        slowest, largest = max(slowest, (seconds, number)), max(largest, (megabytes, number))
        if is_bad(words) or words.startswith(REFUSED_ALONE):
            bad += 1
            print(f"file {number} of seed {args.seed} (victim {which}): {words}", flush=True)
            if args.keep:
                args.keep.mkdir(parents=True, exist_ok=True)
                (args.keep / f"{args.seed}_{number}.tflite").write_bytes(data)
        if (number + 1) % 1000 == 0:
            print(f"{number + 1} files", file=sys.stderr, flush=True)
    for end, times in ends.most_common():
        print(f"{times:9}  {end}")
    print(f"slowest: file {slowest[1]}, {slowest[0]:.1f} s; largest: file {largest[1]}, {largest[0]} MB")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
