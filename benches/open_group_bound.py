"""What pruning open groups by a lower bound saves, and what it changes: of every shared model.

    python benches/open_group_bound.py [MODEL ...]

Each model is searched once, not refined, with and without: Plans considered, and CPU seconds of its frontier, each with
what is left of it; then floor, and cycles within budgets as `ablation.py` takes them, over those of
the search that drops nothing. More than 1 is worse. The last line has sums, and geometric means. Plans and what is
found are the same everywhere.
"""

from __future__ import annotations

import argparse
import sys

from ablation import Found, compared
from ethoscade import EthoscadeError, _core
from harness import cpu_seconds, default_target, named_models, network_of
from model_files import NO_MODELS, model_folder


def searched(graph: _core.CascaderGraph, bound: int) -> tuple[Found, int]:
    """The frontier, with the seconds it took, and how many Plans were considered."""
    search = _core.Search(graph, tuning=[("open_group_bound", bound), ("refined_up_to", 0)])
    found, seconds = cpu_seconds(search.frontier)
    return Found(tuple((one.sram_bytes, one.cycles) for one in found.proposals), (), seconds), found.plans_considered


def row(name: str, without: list[tuple[Found, int]], within: list[tuple[Found, int]]) -> str:
    """What there is to tell of some models."""
    before, after = ([found for found, _ in some] for some in (without, within))
    floor, cycles, _, _, left = compared(before, after)
    all_plans, plans = (sum(plans for _, plans in some) for some in (without, within))
    all_seconds, seconds = (sum(found.seconds for found in some) for some in (before, after))
    told = f"{name:36}{all_plans:>12,}{plans:>12,}{plans / max(all_plans, 1):>6.2f}"
    return told + f"{all_seconds:>9.3f}{seconds:>8.3f}{left:>6.2f}{floor:>9.4f}{cycles:>8.4f}"


def main() -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    folder = model_folder()
    if folder is None and not args.models:
        sys.exit(NO_MODELS)
    models = named_models(args.models) if args.models or folder is None else sorted(folder.glob("*.tflite"))
    print(f"{'model':36}{'Plans':>12}{'left':>18}{'CPU s':>9}{'left':>14}{'floor':>9}{'cycles':>8}", flush=True)
    without, within = [], []
    for model in models:
        try:
            graph = network_of(model, default_target()).problem.core
        except EthoscadeError as error:
            print(f"{model.stem:36}{error}", flush=True)
            continue
        without.append(searched(graph, 0))
        within.append(searched(graph, 1))
        print(row(model.stem, without[-1:], within[-1:]), flush=True)
    if without:
        print(row(f"all {len(without)}", without, within))


if __name__ == "__main__":
    main()
