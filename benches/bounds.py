"""Bounds beside what the compiler reaches: rows in SRAM, resources of the fastest stream, cycles that a budget forbids.

    python benches/bounds.py [MODEL ...] [--only rows|resources|operators|budgets] [--vela FOLDER]

**Rows.** What full rows take (`lower_bounds.rows`), beside our floor.

**Resources.** Cycles without a budget, as the timing model sees the stream, and what MAC engine, SRAM and flash (every
constant once) are busy with in it; their maximum is what no order of these operations beats.

**Operators.** What every schedule takes whatever its budget (`lower_bounds.cycles`): the sum of all operations' least
cycles, by what binds them, and the sum of their best single kernels. With one model, each operation too.

**Budgets.** What no schedule within a budget beats, why, and what is reached there: by us, and, with a folder for its
files, by Vela. "in one piece" takes every operation to be no faster in stripes than as its best single kernel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ethoscade import Curve
from ethoscade.analysis.explanation import short
from ethoscade.pipeline.compiler import Network, search
from harness import CORES, cost_of, default_target, every_point, kib, named_models, network_of, payloads_of, run_vela

from lower_bounds.cycles import Bound, TimeBounds
from lower_bounds.rows import main_path, plain_bound, walked_bound

TABLES = ("rows", "resources", "operators", "budgets")

BUDGETS = {
    "mobilenet_v1_1.0_224_embed_uint8": (441, 300),
    "mobilenet_v2_1.0_224_ptq": (353.5,),
    "mobilenet_v1_0.25_128_uint8": (80,),
    "vww_96_int8": (48,),
    "person_detect": (30,),
    "resnet8_int8": (35,),
    "kws_ref_int8": (15.625,),
}
"""KiB of the shared models: what Vela's smallest streams take, and what the RFC promised."""

Model = tuple[Path, Network, Curve]


def rows(models: list[Model]) -> Iterator[str]:
    """Row bounds and our floors."""
    yield f"{'KiB':<34}{'published':>10}{'walked':>8}{'our floor':>10}{'floor/walked':>13}"
    for model, network, curve in models:
        plain, walked = plain_bound(main_path(network.npu.operations)), walked_bound(network.problem)
        ratio = curve.floor_bytes / walked
        yield f"{model.stem:<34}{kib(plain):>10}{kib(walked):>8}{kib(curve.floor_bytes):>10}{ratio:>13.3f}"


def resources(models: list[Model]) -> Iterator[str]:
    """What the fastest streams keep busy."""
    head = f"{'MAC engine':>12}{'SRAM':>12}{'flash once':>12}{'flash':>12}{'bound':>12}{'ratio':>7}"
    yield f"{'cycles without a budget':<34}{'KiB':>8}{'promised':>12}{'timed':>12}" + head
    for model, network, curve in models:
        *_, compiled = every_point(network, curve)
        cost = cost_of(payloads_of(compiled), network.target)
        yield (
            f"{model.stem:<34}{kib(compiled.sram_bytes):>8}{compiled.cycles:>12,}{cost.cycles:>12,}{cost.mac_engine:>12,}"
            f"{cost.sram:>12,}{cost.flash_once:>12,}{cost.flash:>12,}{cost.bound:>12,}{cost.cycles / cost.bound:>7.2f}"
        )


def operators(models: list[Model]) -> Iterator[str]:
    """What every schedule takes, by what binds its operations."""
    kinds = ("MAC engine", "output stage", "memory")
    head = (
        "".join(f"{kind:>13}" for kind in kinds) + f"{'sum':>11}{'flash once':>11}{'in one piece':>13}{'reached':>11}"
    )
    yield f"{'cycles with any budget':<34}{head}{'ratio':>7}"
    for model, network, curve in models:
        bounds = TimeBounds(network.problem, network.target)
        bound = {kind: sum(one.cycles for one in bounds.operations.values() if one.bound_by == kind) for kind in kinds}
        reached = curve.points[-1][1]
        yield (
            f"{model.stem:<34}{''.join(f'{int(bound[kind]):>13,}' for kind in kinds)}{bounds.kernel_cycles:>11,}"
            f"{bounds.flash_cycles:>11,}{bounds.in_one_piece_cycles:>13,}{reached:>11,}{reached / bounds.cycles:>7.2f}"
        )
    if len(models) == 1:
        yield f"\n{'operation':<44}{'MAC engine':>12}{'output':>11}{'memory':>11}{'in one piece':>14}{'constants':>11}"
        for one in bounds.operations.values():
            figures = f"{int(one.mac):>12,}{int(one.output):>11,}{int(one.memory):>11,}{int(one.in_one_piece):>14,}"
            yield f"{short(one.name)[-43:]:<44}{figures}{one.constant_bytes:>11,}"


def budgets(models: list[Model], vela: Path | None) -> Iterator[str]:
    """What no schedule within a budget beats, what is reached, and why."""
    head = f"{'bound':>11}{'in one piece':>13}{'reached':>11}{'ratio':>7}{'Vela':>11}"
    yield f"{'cycles within a budget':<34}{'KiB':>7}{head}  why"
    for model, network, curve in models:
        bounds = TimeBounds(network.problem, network.target)
        for size in BUDGETS.get(model.stem, ()):
            budget = int(size * 1024)
            fitting = [cycles for taken, cycles in curve.points if taken <= budget]
            found, single = bounds.within(budget), bounds.within(budget, in_one_piece=True)
            if not fitting or found is None or single is None:
                continue
            least = max(found.cycles, bounds.cycles)
            assumed = max(single.cycles, bounds.in_one_piece_cycles, least)
            why = _reason(found) if found.cycles >= bounds.cycles else "all operations, one after the other"
            yield (
                f"{model.stem:<34}{size:>7.1f}{least:>11,}{assumed:>13,}{fitting[-1]:>11,}{fitting[-1] / least:>7.2f}"
                f"{_vela_within(model, network, budget, vela):>11}  {why}"
            )


def _reason(bound: Bound) -> str:
    return (
        f"{bound.kernel_cycles:,} cycles up to '{short(bound.operation)}'; then {bound.constant_bytes:,} bytes of "
        f"constants, {bound.staged_bytes:,} of them beside '{short(bound.tensor)}' of {bound.tensor_bytes:,}"
    )


def _vela_within(model: Path, network: Network, budget_bytes: int, folder: Path | None) -> str:
    """Cycles of Vela's fastest stream within a budget, of those that it makes for the least SRAM."""
    runs = [run_vela(model, core, "Size", folder) for core in CORES] if folder else []
    fitting = [run for run in runs if run is not None and run.sram_bytes <= budget_bytes]
    return f"{min(cost_of(run.payloads, network.target).cycles for run in fitting):,}" if fitting else "-"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path; default: the seven shared models")
    parser.add_argument("--only", choices=TABLES, help="one table; default: all")
    parser.add_argument("--vela", metavar="FOLDER", type=Path, help="run Vela too, with its files in a folder")
    args = parser.parse_args()
    networks = [(model, network_of(model, default_target())) for model in named_models(args.models)]
    models = [(model, network, search(network)) for model, network in networks]
    tables = {"rows": rows, "resources": resources, "operators": operators}
    for name in (args.only,) if args.only else TABLES:
        for line in budgets(models, args.vela) if name == "budgets" else tables[name](models):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
