"""Cycles of Vela's streams and of ours under one timing model, beside Vela's own totals and the lower bounds.

    python benches/timing.py [--models resnet8_int8,...] [--switches] [--no-ours] [--cache FOLDER]

Every stream is costed as it was issued: a stripe costs what a stripe costs. Vela's own totals cost an operator as if it
ran unstriped. `--switches` prints what each assumption of the model changes. Vela runs as a subprocess; with `--cache`
its output is kept and used again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ethoscade
from ethoscade.run.timing import TimingReport, simulate_timing
from ethoscade.targets.target import Target, load_target
from harness import named_models, payloads_of, run_vela
from independent_cycles import COLUMNS, INDEPENDENT
from model_files import model_paths

SWITCHES = {
    "commands cost nothing": {"cycles_per_word": 0, "fetch_commands": 0},
    "issue costs nothing": {"issue": 0},
    "issue |write - fetch|": {"issue": 2},
    "no burst waste": {"bursts": 0},
    "no whole beats": {"whole_beats": 0},
    "fill, drain whole bricks": {"whole_bricks": 1},
    "BLOCKDEP hides nothing": {"hide_latency": 0},
    "28 cycles per kernel": {"cycles_per_kernel": 28},
    "elementwise depth by 16": {"elementwise_depth": 16},
    "elementwise depth exact": {"elementwise_depth": 1},
    "partial blocks cost as full": {"partial_blocks": 0},
    "partial IFM depth as full": {"partial_ifm_depth": 0},
    "edges fetch full blocks": {"exact_halo": 0},
    "IFM once for all depths": {"ifm_per_depth_block": 0},
    "weights once per kernel": {"weights_per_spatial_block": 0},
    "no contention": {"contention": 0},
    "DMA without write latency": {"dma_write_latency": 0},
    "2 DMAs outstanding": {"dma_queue": 2},
    "3 kernels outstanding": {"kernel_queue": 3},
}


@dataclass(frozen=True)
class Sum:
    """Several payloads of one network together."""

    cycles: int
    lower_bound: int
    mac_engine: int
    flash_once: int
    bound: str
    seconds: float


def total(payloads: tuple[bytes, ...], target: Target, rules: dict[str, int] | None = None) -> Sum:
    """Add the payloads of one network up."""
    began = time.perf_counter()
    reports: list[TimingReport] = [simulate_timing(payload, target, rules=rules) for payload in payloads]
    seconds = time.perf_counter() - began
    bounds: dict[str, int] = {}
    for report in reports:
        for name, cycles in report.bound_cycles.items():
            bounds[name] = bounds.get(name, 0) + cycles
    cycles = sum(report.cycles for report in reports)
    shares = [
        f"{name} {100 * part / max(cycles, 1):.0f}%" for name, part in sorted(bounds.items(), key=lambda b: -b[1])
    ]
    rate = target.constants.bytes_per_cycle
    commands = sum(report.memories[target.constants.name].command_bytes for report in reports)
    once = sum(report.constant_bytes for report in reports) + commands
    return Sum(
        cycles,
        sum(report.lower_bound_cycles for report in reports),
        sum(report.mac_engine_cycles for report in reports),
        once * rate[1] // rate[0],
        " ".join(shares[:3]),
        seconds,
    )


def percent(ours: int, theirs: int) -> str:
    """Difference of `ours` to `theirs`."""
    return f"{100 * (ours / theirs - 1):+6.1f}%" if theirs else "-"


def print_model(model: Path, target: Target, cache: Path, ours: bool) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Print one model's rows; yields its streams by name."""
    print(f"\n{model.stem}")
    head = f"  {'stream':<20}{'SRAM bytes':>11}{'cycles':>12}{'indep.':>9}{'Vela own':>12}{'diff.':>9}"
    print(head + f"{'lower bound':>12}{'MAC engine':>12}{'flash once':>12}{'seconds':>9}  bound by")
    independent = dict(zip(COLUMNS, INDEPENDENT.get(model.stem, ()), strict=False))
    least = sys.maxsize
    for core, mode in COLUMNS:
        run = run_vela(model, core, mode, cache)
        if run is None:
            sys.exit(f"Vela's {core} core dies on {model}")
        least = min(least, run.sram_bytes)
        row = total(run.payloads, target)
        other = percent(row.cycles, independent[core, mode]) if (core, mode) in independent else ""
        name = f"Vela {core} {mode}"
        print(f"  {name:<20.20}{run.sram_bytes:>11,}{row.cycles:>12,}{other:>9}{run.own_cycles:>12,}"
              f"{percent(row.cycles, run.own_cycles):>9}{_bounds(row)}")  # fmt: skip
        yield f"{model.stem} {core} {mode}", run.payloads
    for budget in ("floor", "Vela's least", "300KiB", None) if ours else ():
        try:
            known = {"floor": lambda: ethoscade.frontier(model).floor_bytes, "Vela's least": lambda: least}
            size = known[budget]() if budget in known else budget
            compiled = ethoscade.compile(model, sram=size)
        except ethoscade.EthoscadeError as error:
            print(f"  ours {budget}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
            continue
        payloads = payloads_of(compiled)
        row = total(payloads, target)
        name = f"ours {budget or 'no budget'}"
        print(f"  {name:<20}{compiled.sram_bytes:>11,}{row.cycles:>12,}{'':>9}{compiled.cycles:>12,}"
              f"{percent(row.cycles, compiled.cycles):>9}{_bounds(row)}")  # fmt: skip
        yield f"{model.stem} {name}", payloads


def _bounds(row: Sum) -> str:
    return f"{row.lower_bound:>12,}{row.mac_engine:>12,}{row.flash_once:>12,}{row.seconds:>9.3f}  {row.bound}"


def print_switches(streams: dict[str, tuple[bytes, ...]], target: Target) -> None:
    """What each switch changes, least and most over Vela's unstriped, striped and our streams."""
    groups = {
        "Vela unstriped": [p for name, p in streams.items() if name.endswith("Performance")],
        "Vela Size": [p for name, p in streams.items() if name.endswith("Size")],
        "ours": [p for name, p in streams.items() if " ours " in name],
    }
    print("\n" + f"{'switch':<30}" + "".join(f"{name:>22}" for name in groups))
    base = {name: [total(p, target).cycles for p in group] for name, group in groups.items()}
    for title, rules in SWITCHES.items():
        cells = []
        for name, group in groups.items():
            changes = [100 * (total(p, target, rules).cycles / b - 1) for p, b in zip(group, base[name], strict=True)]
            cells.append(f"{min(changes):+.1f}..{max(changes):+.1f}%" if changes else "-")
        print(f"{title:<30}" + "".join(f"{cell:>22}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="comma-separated names; default: all, those with figures first")
    parser.add_argument(
        "--switches", action="store_true", help="what each assumption changes, over models with figures"
    )
    parser.add_argument("--no-ours", action="store_true", help="only Vela's streams")
    parser.add_argument("--cache", type=Path, help="folder that keeps Vela's output")
    args = parser.parse_args()
    others = [path.stem for path in model_paths() if path.stem not in INDEPENDENT]
    wanted = args.models.split(",") if args.models else [*INDEPENDENT, *others]
    target = load_target("ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram")
    streams: dict[str, tuple[bytes, ...]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for model in named_models(wanted):
            found = dict(print_model(model, target, args.cache or Path(scratch), not args.no_ours))
            if args.models or model.stem in INDEPENDENT:
                streams |= found
    if args.switches:
        print_switches(streams, target)


if __name__ == "__main__":
    main()
