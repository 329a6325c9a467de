"""What a budget costs beside the whole frontier, and what is lost: of every shared model at several budgets.

    python benches/budgets.py [MODEL ...] [--instructions callgrind|perf|none]

For each budget the cycles of the frontier's fastest schedule within it, and how many more or fewer the budget's answer
takes. Then CPU seconds of the planner alone, in this process, where every answer is a first one: the whole frontier; a
first budget, the median of all of them; a second one on the same model, the median and the most; `fits`, the most.
Instructions are counted in child processes as in `chains.py`: the whole frontier's, and a first budget's, which is one
and a half times the floor.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path

from chains import COUNTERS
from ethoscade import EthoscadeError, Prepared
from harness import cpu_seconds, default_target, named_models, network_of
from model_files import NO_MODELS, model_folder

CHILD = """
import sys
sys.path.insert(0, {folder!r})
import budgets, harness
made = budgets.Prepared(harness.network_of(budgets.Path({model!r}), harness.default_target()))
if {search!r} == "whole":
    made.network.problem.core
    budgets.answer(made, None)
elif {search!r} == "budget":
    budgets.answer(made, {budget})
"""


def answer(made: Prepared, budget: int | None) -> tuple[tuple[int, int], ...]:
    """The points found for a budget, or the whole frontier without one; no code is generated."""
    found = made.frontier() if budget is None else made.within(budget)
    return found.points


def budgets_of(points: tuple[tuple[int, int], ...], uncascaded: int) -> list[int]:
    """Budgets from the floor to what the fastest schedule takes, and one of three times the network as it is."""
    floor, most = points[0][0], points[-1][0]
    wanted = {floor, floor * 21 // 20, floor * 5 // 4, floor * 3 // 2, floor * 2, floor * 4, math.isqrt(floor * most)}
    within = {budget for budget in wanted | {most * 3 // 4, most} if floor <= budget <= most}
    return sorted(within | {3 * uncascaded})


def instructions(model: Path, budget: int, counter: str) -> tuple[int, int]:
    """Instructions of the whole frontier and of a first budget: runs with the search less one without."""
    folder, count = str(Path(__file__).resolve().parent), COUNTERS[counter][1]
    none, whole, first = (
        count([sys.executable, "-c", CHILD.format(folder=folder, model=str(model), search=search, budget=budget)])
        for search in ("none", "whole", "budget")
    )
    return whole - none, first - none


def row(model: Path, counter: str | None) -> str:
    """What there is to tell of a model."""
    made = Prepared(network_of(model, default_target()))
    points, whole = cpu_seconds(lambda: answer(made, None))
    asked = budgets_of(points, made.frontier().uncascaded_bytes)
    losses, first, second = [], [], []
    repeated = Prepared(made.network)
    answer(repeated, asked[0])
    for budget in asked:
        best = next(cycles for size, cycles in reversed(points) if size <= budget)
        found, seconds = cpu_seconds(lambda budget=budget: answer(Prepared(made.network), budget))
        first.append(seconds)
        second.append(cpu_seconds(lambda budget=budget: answer(repeated, budget))[1])
        size, cycles = next(point for point in reversed(found) if point[0] <= budget)
        assert size <= budget
        losses.append(0.0 if cycles == best else 100 * (cycles / best - 1))
    # From the largest down: what fits is known to fit in more.
    fits = max(cpu_seconds(lambda budget=budget: repeated.fits(budget))[1] for budget in reversed(asked))
    told = f"{model.stem:36}{len(asked):>3}{max(losses):>+8.2f}{statistics.median(losses):>+8.2f}{min(losses):>+8.2f}"
    told += f"{whole:>8.3f}{statistics.median(first):>8.3f}{statistics.median(first) / max(whole, 1e-6):>6.2f}"
    told += f"{1000 * statistics.median(second):>9.1f}{1000 * max(second):>8.1f}{1000 * fits:>7.2f}"
    if counter:
        of_whole, of_first = instructions(model, points[0][0] * 3 // 2, counter)
        told += f"{of_whole / 1e6:>10.0f}{of_first / 1e6:>9.0f}{of_first / max(of_whole, 1):>6.2f}"
    return told


def main() -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--instructions", choices=("none", *COUNTERS), default="none")
    args = parser.parse_args()
    folder = model_folder()
    if folder is None and not args.models:
        sys.exit(NO_MODELS)
    models = named_models(args.models) if args.models or folder is None else sorted(folder.glob("*.tflite"))
    print("cycles of a budget's answer over the frontier's, in %: most, median, least; CPU seconds; milliseconds")
    print(f"{'model':36}{'n':>3}{'most':>8}{'median':>8}{'least':>8}{'whole':>8}{'first':>8}{'ratio':>6}", end="")
    print(f"{'second':>9}{'most':>8}{'fits':>7}", f"{'whole 10^6':>10}{'first':>9}{'ratio':>6}", flush=True)
    counter = None if args.instructions == "none" else args.instructions
    for model in models:
        try:
            print(row(model, counter), flush=True)
        except EthoscadeError as error:
            print(f"{model.stem:36}{error}", flush=True)


if __name__ == "__main__":
    main()
