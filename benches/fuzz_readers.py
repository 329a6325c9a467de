"""Damaged files for the readers: models (flatbuffers) and files of buffers (CSV). Only our own errors may come out.

    python benches/fuzz_readers.py model|buffers [--inputs N] [--seed S]
    python benches/fuzz_readers.py model|buffers --atheris [-max_total_time=SECONDS ...] [CORPUS]

A hundred thousand damaged inputs by default; prints how they ended, and ends with the input's number and a traceback
where a reader breaks. With `--atheris`, and that package installed, libFuzzer looks for inputs by what they cover.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

INPUTS = 100_000


def sweep(readers: ModuleType, name: str, count: int, seed: int, folder: Path) -> None:
    """Damage and read."""
    read, files = readers.READERS[name]
    victims, ends = files(folder), Counter[str]()
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        try:
            ends[read(readers.damaged(victims[number % len(victims)], rng), folder)] += 1
        except BaseException:
            print(f"input {number} of seed {seed}:", file=sys.stderr)
            raise
    for end, times in ends.most_common():
        print(f"{times:9}  {end}")


def search(name: str, arguments: list[str], folder: Path) -> None:
    """Let libFuzzer look for inputs until its own arguments end it."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["ethoscade.frontend", "ethoscade.memory"]):
        readers = importlib.import_module("reader_fuzzing")
    read, files = readers.READERS[name]
    seeds = folder / "seeds"
    seeds.mkdir()
    for number, data in enumerate(files(folder)):
        (seeds / str(number)).write_bytes(data)

    def once(data: bytes) -> None:
        read(data, folder)

    atheris.Setup([sys.argv[0], *arguments, str(seeds)], once)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=("model", "buffers"))
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="let libFuzzer search; what else is given is for it")
    args, others = parser.parse_known_args()
    if others and not args.atheris:
        parser.error(f"unknown arguments: {' '.join(others)}")
    with tempfile.TemporaryDirectory() as folder:
        if args.atheris:
            search(args.reader, others, Path(folder))
        else:
            sweep(importlib.import_module("reader_fuzzing"), args.reader, args.inputs, args.seed, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
