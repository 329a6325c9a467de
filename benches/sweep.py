"""Thousands of compiles of small random networks in one sweep: rows that are lost, and memory that grows.

    python benches/sweep.py [--networks 10000] [--jobs N] [--targets ethos-u55-128] [--output rows.csv]

Every network is drawn when its turn comes, read, searched, compiled without a budget and forgotten; its row goes to a
file, and answers that the file has are not asked again. Prints what the driver and the workers hold at most in each
quarter of the run, compiles per second, rows that are missing or there twice, and errors by name. The exit status is 1
if a row is missing or there twice, an error is none of ours, or a quarter's most is above the first one's by more than
`GROWTH` bytes.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import ethoscade
from ethoscade import errors
from ethoscade.sweeps import driver
from ethoscade.testing import random_network

GROWTH = 24 << 20
QUARTERS = 4
MB = 1 << 20


class Drawn(Mapping[str, bytes]):
    """Networks by name, each drawn when it is asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __getitem__(self, name: str) -> bytes:
        return random_network(int(name), max_operators=2, max_resolution=8, max_channels=8)

    def __iter__(self) -> Iterator[str]:
        return (f"{seed:06}" for seed in range(self._count))

    def __len__(self) -> int:
        return self._count


def resident(pid: int | str) -> int:
    """Bytes of memory that a process holds; 0 where it has ended, or nobody knows."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return 1024 * int(status.partition("VmRSS:")[2].split()[0]) if "VmRSS:" in status else 0


class Watched(driver.Workers):
    """Workers that can be looked at from outside."""

    made: driver.Workers | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        Watched.made = self


def faults_of(path: Path, networks: int, targets: int) -> tuple[int, int, Counter[str]]:
    """Rows that are missing, rows that are there twice, and errors by name."""
    with open(path, encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    counts = Counter((row["model"], row["target"]) for row in rows)
    twice = sum(count - 1 for count in counts.values())
    return networks * targets - len(counts), twice, Counter(row["error"] for row in rows if row["error"])


def run(networks: int, targets: Sequence[str], jobs: int, path: Path) -> bool:
    """Sweep, and print what it took; whether all is well."""
    driver.Workers = Watched  # type: ignore[misc, assignment]
    sweep = ethoscade.sweep(Drawn(networks), targets, ["fastest"], jobs=jobs, output=path)
    quarter = -(-sweep.questions // QUARTERS)
    most = [[0, 0] for _ in range(QUARTERS)]
    began = now = time.perf_counter()
    print(f"{'quarter':>7}{'questions':>11}{'driver, MB':>12}{'workers, MB':>13}{'a second':>10}")
    for number, _ in enumerate(sweep, start=1):
        place = (number - 1) // quarter
        if number % min(20, quarter) == 0 or number == sweep.questions:
            pids = Watched.made.pids if Watched.made is not None else ()
            held = resident("self"), max(map(resident, pids), default=0)
            most[place] = [max(pair) for pair in zip(most[place], held, strict=True)]
        if number % quarter == 0 or number == sweep.questions:
            driver_most, worker_most = most[place]
            asked = number - place * quarter
            rate = asked / (time.perf_counter() - now)
            now = time.perf_counter()
            figures = f"{driver_most / MB:>12.1f}{worker_most / MB:>13.1f}{rate:>10.1f}"
            print(f"{place + 1:>7}{asked:>11}{figures}", flush=True)
    seconds = time.perf_counter() - began
    missing, twice, found = faults_of(path, networks, len(targets))
    growth = max(of[kind] - most[0][kind] for of in most for kind in (0, 1))
    print(f"{sweep.questions:,} questions in {seconds:,.0f} s with {jobs} workers, {sweep.known:,} known before")
    print(f"rows missing: {missing}, twice: {twice}; errors: {dict(found) or 'none'}; growth: {growth / MB:.1f} MB")
    foreign = [name for name in found if not hasattr(errors, name)]
    return not missing and not twice and not foreign and growth <= GROWTH


def main() -> int:
    """Runs it; 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--targets", nargs="+", default=["ethos-u55-128"])
    parser.add_argument("--output", type=Path, help="keep the rows here, and go on from them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return int(not run(args.networks, args.targets, args.jobs, args.output or Path(scratch) / "rows.csv"))


if __name__ == "__main__":
    sys.exit(main())
