"""What budgets lose that a frontier finds: cycles of answers where a budget is exactly what a point of it takes.

    python benches/losses.py [MODEL ...] [--random N] [--accelerators NAME ...] [--tune NAME=VALUE ...]

Networks are the models (by default those that benches share, where they are), three that the project builds, and N
random ones. Each is asked for every point of its frontier, for what lies halfway to the next one, and for one and a
half times the last. Per network: questions, how many answers are slower than the frontier's fastest schedule within the
budget by more than 1 %, the mean and the worst of what they lose (less than 0 is faster), and milliseconds of the
median question, after the search is made.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ethoscade import EthoscadeError, _core, testing
from ethoscade.frontend import read_tflite
from ethoscade.pipeline.compiler import Network, prepare
from ethoscade.targets.target import Target, load_target
from harness import cpu_seconds, named_models, network_of
from model_files import NO_MODELS, model_folder

LARGEST_VALUE = 2**64 - 1
SLOWER = 1.0
"""From more than so many per cent on an answer counts as slower."""


def networks(names: list[str], random: int, target: Target) -> Iterator[tuple[str, Network]]:
    """What is asked, by name."""
    if not names and model_folder() is None:
        print(NO_MODELS)
    else:
        for path in named_models(names):
            yield path.stem, network_of(path, target)
    built = {
        "inverted_residuals": testing.inverted_residuals(),
        "shuffle_units 3 48 32": testing.shuffle_units(3, 48, 32),
        "inception_modules": testing.inception_modules(),
    }
    for name, model in built.items():
        yield name, prepare(read_tflite(model), target)
    for seed in range(random):
        yield f"random network {seed}", prepare(read_tflite(testing.random_network(seed)), target)


def budgets_of(points: list[tuple[int, int]]) -> list[int]:
    """Every point's bytes, what lies halfway to the next, and more than the last."""
    sizes = [size for size, _ in points]
    between = [(size + following) // 2 for size, following in pairwise(sizes)]
    return sorted({*sizes, *between, sizes[-1] * 3 // 2})


def losses(core: _core.CascaderGraph, tuning: list[tuple[Any, int]]) -> tuple[list[float], float]:
    """Per cent that the answers lose, and milliseconds of the median question."""
    asked = _core.Search(core, tuning=tuning)
    points = [(point.sram_bytes, point.cycles) for point in asked.frontier().proposals]
    lost, spent = [], []
    asked.within(points[-1][0])
    for budget in budgets_of(points):
        best = min(cycles for size, cycles in points if size <= budget)
        found, seconds = cpu_seconds(lambda budget=budget: asked.within(budget))
        spent.append(1000 * seconds)
        within = [point.cycles for point in found.proposals if point.sram_bytes <= budget]
        lost.append(0.0 if best == 0 else 100 * (min(within) / best - 1))
    return lost, statistics.median(spent)


def told(name: str, lost: list[float], spent: float) -> str:
    """A row of the table."""
    worse = sum(loss > SLOWER for loss in lost)
    return f"{name:36}{len(lost):>6}{worse:>6}{statistics.fmean(lost):>+9.3f}{max(lost):>+8.2f}{spent:>9.1f}"


def setting(text: str) -> tuple[str, int]:
    """NAME=VALUE. Raises `argparse.ArgumentTypeError` for a value beyond the core's integers of 64 bits."""
    name, _, value = text.partition("=")
    if not value.isdecimal() or int(value) > LARGEST_VALUE:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE with a whole number from 0 to {LARGEST_VALUE}")
    return name, int(value)


def main() -> None:
    """Prints a row for each network, and one for all of an accelerator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="how many random networks (default: none)")
    parser.add_argument("--accelerators", nargs="+", default=["ethos-u55-256", "ethos-u65-256"])
    parser.add_argument("--tune", nargs="+", type=setting, default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    for accelerator in args.accelerators:
        print(f"{accelerator:36}{'asked':>6}{'> 1 %':>6}{'mean %':>9}{'worst %':>8}{'ms':>9}", flush=True)
        everything: list[float] = []
        times: list[float] = []
        for name, network in networks(args.models, args.random, load_target(accelerator)):
            lost, spent = losses(network.problem.core, args.tune)
            everything += lost
            times.append(spent)
            print(told(name, lost, spent), flush=True)
        print(told("all", everything, statistics.fmean(times)), flush=True)


if __name__ == "__main__":
    try:
        main()
    except EthoscadeError as error:
        sys.exit(str(error))
