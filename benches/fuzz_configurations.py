"""Wrong calls, configuration files and command lines: only a result or one of our errors may come out, and in time.

    python benches/fuzz_configurations.py [--configurations N] [--commands N] [--seed S]

Every public callable with every wrong value in each of its parameters; a thousand random vela.ini files, those that
make sense compiled for and timed; a thousand random command lines. Prints how they ended and the slowest of each. What
escapes ends the bench with its input; an input that takes more than `SLOWEST_SECONDS` of CPU time fails it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import misconfigured
import misuse

SLOWEST_SECONDS = 10.0
NESTED = 2000


def tell(what: str, inputs: Iterable[tuple[object, Callable[[], str]]]) -> bool:
    """Run all inputs, named by themselves; prints how they ended; whether none was slow."""
    ends: Counter[str] = Counter()
    slowest: tuple[float, str] = (0.0, "none")
    for name, run in inputs:
        start = time.process_time()
        try:
            ends[run()] += 1
        except BaseException:
            print(f"{what} {name!r}:", file=sys.stderr)
            raise
        slowest = max(slowest, (time.process_time() - start, str(name)[:100]))
    print(f"{sum(ends.values()):,} {what}s: {', '.join(f'{count:,} {end}' for end, count in ends.most_common())}")
    print(f"  slowest: {slowest[0]:.2f} s of CPU time, {slowest[1]}", flush=True)
    return slowest[0] <= SLOWEST_SECONDS


def wrong_calls(seed: int) -> Iterable[tuple[object, Callable[[], str]]]:
    nested = misuse.nested_cases(random.Random(seed), NESTED)
    for call, parameter, wrong in (*misuse.cases(), *nested):
        yield (call.name, parameter), lambda c=call, p=parameter, w=wrong: misuse.outcome(c, p, w)


def configurations(count: int, seed: int) -> Iterable[tuple[object, Callable[[], str]]]:
    path = Path("fuzzed.ini")
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        path.write_bytes(misconfigured.configuration(rng))
        yield f"{seed}/{number}", lambda rng=rng: misconfigured.read(path, rng)


def commands(count: int, seed: int) -> Iterable[tuple[object, Callable[[], str]]]:
    for number in range(count):
        words = misconfigured.command_line(random.Random(f"{seed}/{number}"))
        yield words, lambda words=words: misconfigured.run(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configurations", type=int, default=1000)
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        misconfigured.prepare_folder(Path(folder))
        fast = [
            tell("call", wrong_calls(args.seed)),
            tell("configuration", configurations(args.configurations, args.seed)),
            tell("command line", commands(args.commands, args.seed)),
        ]
        os.chdir(home)
    return int(not all(fast))


if __name__ == "__main__":
    sys.exit(main())
