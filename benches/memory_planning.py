"""Peaks, ratios to the lower bound and CPU seconds of every memory planning algorithm.

Run as `python benches/memory_planning.py [--iterations N] [--seed N] [--networks [COUNT ...]] [ALGORITHM ...]`. Without
`--networks` on the hard instances A..K, which are found through $ETHOSCADE_INSTANCES, else in a folder
`shared/instances` beside the project or above it; with it on generated networks of so many buffers (50 to 30,000).
Two baselines up to 3,000 buffers: `stacked` is by size without filling gaps, as TVM's greedy_by_size does it,
`canonical` is first fit in MiniMalloc's orders, without its search. Both leave windows and gaps unused.

`--opponents [FAMILY ...]` runs other planners and ours on irregular problems (`memory_irregular`), all for the same CPU
seconds, keeps what was found in `--results FILE`, and writes the tables of all results so far into `docs/memory.md`.
Each family is named as `FAMILY` or `FAMILY:COUNT:SEED`. Every plan is checked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ethoscade import memory
from ethoscade.memory import Buffer, Pool
from memory_irregular import FAMILIES, KNOWN_OPTIMUM
from memory_irregular import generate as generate_irregular
from memory_networks import KINDS, generate
from memory_opponents import OPPONENTS


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


SECONDS = (0.1, 1.0, 10.0, 30.0)
IRREGULAR = ((150, 1), (1200, 3), (5000, 2))
"""About how many buffers, and the seed, of each family's problems."""

Peaks = Mapping[str, Sequence[int]]
"""The peaks of a problem in bytes, by planner, after each number of seconds; and the best known one."""

OURS = "ethoscade"
LEAST_ITERATIONS, MOST_ITERATIONS = 500, 1 << 31
PAGE = Path(__file__).resolve().parents[1] / "docs" / "memory.md"
MARKS = ("<!-- opponents: begin -->", "<!-- opponents: end -->")


def _our_peaks(buffers: Sequence[Buffer], budgets: Sequence[float]) -> list[int]:
    """Our peaks within each of `budgets`, in seconds, each by the best run of those in time.

    The first run has the iterations that users get. Then come half as many until a run is within the first budget, and
    twice as many until one is beyond the last.
    """
    runs: list[tuple[float, int]] = []

    def is_done(iterations: int) -> bool:
        started = time.process_time()
        found = memory.plan(buffers, iterations=iterations)
        runs.append((time.process_time() - started, found.peak_bytes))
        return found.optimal

    iterations = memory.DEFAULT_ITERATIONS
    ended = is_done(iterations)
    while runs[-1][0] > budgets[0] and iterations > LEAST_ITERATIONS:
        iterations //= 2
        is_done(iterations)
    iterations = memory.DEFAULT_ITERATIONS
    while not ended and max(spent for spent, _ in runs) <= budgets[-1] and iterations <= MOST_ITERATIONS // 2:
        iterations *= 2
        ended = is_done(iterations)
    # What was not even begun in time counts as the fastest run's plan.
    return [min((peak for spent, peak in runs if spent <= seconds), default=min(runs)[1]) for seconds in budgets]


def _opponent_peaks(name: str, buffers: Sequence[Buffer], optimum: int, budgets: Sequence[float]) -> list[int]:
    """An opponent's peaks within each of `budgets`, in seconds, up to the one that meets `optimum`, in bytes."""
    peaks: list[int] = []
    for seconds in budgets:
        if not peaks or (peaks[-1] > optimum and not name.startswith("tvm greedy")):
            *_, last = OPPONENTS[name](buffers, seconds)
            # The checker shares no code with any planner.
            found = memory.plan(buffers, algorithm=lambda _buffers, _pools, last=last: last)  # type: ignore[misc]
            peaks.append(min([found.peak_bytes, *peaks]))
        else:
            peaks.append(peaks[-1])
    return peaks


def run_opponents(families: Sequence[str], results: Path, budgets: Sequence[float], opponents: Sequence[str]) -> None:
    """Adds the peaks of ours and of `opponents` on `families` to `results`, and writes the tables of all results."""
    # All planners have one core, so that none gets more CPU time by running threads.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known: dict[str, dict[str, list[int]]] = json.loads(results.read_text()) if results.exists() else {}
    for family in families:
        name, *numbers = family.split(":")
        for count, seed in [(int(numbers[0]), int(numbers[1]))] if numbers else IRREGULAR:
            buffers = generate_irregular(name, count, seed)
            peaks = {OURS: _our_peaks(buffers, budgets)}
            bound = memory.plan(buffers, algorithm="greedy_by_size").lower_bound_bytes
            for opponent in opponents:
                peaks[opponent] = _opponent_peaks(opponent, buffers, bound, budgets)
            least = min(peak for row in peaks.values() for peak in row)
            known[f"{name} {count} {seed}"] = {**peaks, "best known": [KNOWN_OPTIMUM.get(name, least)]}
            print(
                name, count, seed, {who: [round(p / least, 4) for p in row] for who, row in peaks.items()}, flush=True
            )
            results.parent.mkdir(parents=True, exist_ok=True)
            results.write_text(json.dumps(known))
            _write_tables(known, budgets)


def _write_tables(known: Mapping[str, Peaks], budgets: Sequence[float]) -> None:
    """Writes a table for each number of buffers into the page."""
    by_count: dict[int, dict[str, Peaks]] = {}
    for problem, rows in known.items():
        by_count.setdefault(int(problem.split()[1]), {})[problem] = rows
    tables = "\n".join(_table(count, by_count[count], budgets) for count in sorted(by_count))
    before, rest = PAGE.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(f"{before}{MARKS[0]}\n{tables}{MARKS[1]}{after}")


def _table(count: int, known: Mapping[str, Peaks], budgets: Sequence[float]) -> str:
    """Geometric means of peak / best known after each of `budgets`, by planner and family, and where ours is above."""
    families = [family for family in FAMILIES if any(problem.startswith(f"{family} ") for problem in known)]
    title = f"{count:,} buffers, after " + ", ".join(f"{seconds:g}" for seconds in budgets) + " s"
    lines = [f"| {title} | {' | '.join(families)} |", "| --- |" + " --- |" * len(families)]
    for planner in (OURS, *OPPONENTS):
        cells = []
        for family in families:
            rows = [row for problem, row in known.items() if problem.startswith(f"{family} ") and planner in row]
            means = [
                math.prod(row[planner][at] / row["best known"][0] for row in rows) ** (1 / max(1, len(rows)))
                for at in range(len(budgets))
            ]
            cells.append(" ".join(f"{mean:.3f}" for mean in means) if rows else "not run")
        lines.append(f"| {planner} | {' | '.join(cells)} |")
    above = [problem for problem, row in known.items() if row[OURS][-1] > row["best known"][0]]
    end = f"after {budgets[-1]:g} s {OURS} is above the best known peak"
    lines += ["", f"Of {count:,} buffers, {end} on {', '.join(above) or 'none of these problems'}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the benches that the command line asks for."""
    parser = argparse.ArgumentParser(description="Bench the memory planner")
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM")
    parser.add_argument("--iterations", type=int, default=memory.DEFAULT_ITERATIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", nargs="*", type=int, metavar="COUNT", help="generated networks of these sizes")
    parser.add_argument("--opponents", nargs="*", metavar="FAMILY", help="other planners on irregular problems")
    parser.add_argument(
        "--planners", nargs="+", choices=OPPONENTS, default=list(OPPONENTS), help="which of these planners"
    )
    parser.add_argument("--seconds", nargs="+", type=float, default=SECONDS, help="CPU seconds of each planner")
    parser.add_argument("--results", type=Path, default=Path("out/memory_opponents.json"), metavar="FILE")
    args = parser.parse_args()
    if args.opponents is not None:
        run_opponents(args.opponents or FAMILIES, args.results, args.seconds, args.planners)
        return 0
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
