"""What other orders of operations gain: the frontier with them, beside that of the file's order alone.

    python benches/orders.py [MODEL ...] [--accelerator NAME]

For each network that forks: its orders, and how many were worth a search; both floors; cycles over those of the file's
order within the bytes of its points, the least and the most; CPU seconds of both frontiers, of making the orders too.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from ethoscade.pipeline.compiler import search
from ethoscade.pipeline.searches import constants_in_sram, explore
from ethoscade.targets.target import ACCELERATORS, load_target
from harness import cpu_seconds, named_models, network_of
from model_files import NO_MODELS, model_paths


def main() -> None:
    """Prints a table, and its sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all models that are found")
    parser.add_argument("--accelerator", choices=sorted(ACCELERATORS), default="ethos-u55-256")
    args = parser.parse_args()
    target = load_target(args.accelerator)
    print("| model | orders | searched | floor, file's | floor | cycles, least | most | CPU s, file's | CPU s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    spent: list[tuple[float, float]] = []
    for model in named_models(args.models) if args.models else model_paths() or sys.exit(NO_MODELS):
        network = network_of(model, target)
        orders, making = cpu_seconds(lambda network=network: network.orders)
        if len(orders) == 1:
            continue
        extra = constants_in_sram(network)
        file, alone = cpu_seconds(lambda network=network, extra=extra: explore(network.problem, extra))
        curve, seconds = cpu_seconds(lambda network=network: search(network))
        found = ((curve.fastest_within(size), cycles) for size, cycles in file.points)
        ratios = [fastest[1] / cycles for fastest, cycles in found if fastest is not None]
        spent.append((alone, making + seconds))
        print(
            f"| {model.stem} | {len(orders)} | {len(set(curve.orders)) or 1} | {file.floor_bytes:,} "
            f"| {curve.floor_bytes:,} | {min(ratios):.3f} | {max(ratios):.3f} | {alone:.2f} | {making + seconds:.2f} |",
            flush=True,
        )
    if not spent:
        sys.exit("none of these networks forks")
    factors = [ours / alone for alone, ours in spent]
    print(
        f"CPU seconds {sum(alone for alone, _ in spent):.1f} and {sum(ours for _, ours in spent):.1f}; "
        f"factor, median {median(factors):.2f}, most {max(factors):.2f}"
    )


if __name__ == "__main__":
    main()
