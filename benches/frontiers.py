"""Our frontier over Vela's, both timed by one model: tables, plots, and who dominates whom.

    python benches/frontiers.py [MODEL ...] [--output out/frontiers] [--docs docs/frontiers.md] [--sizes 12]

Vela is swept: Performance over `--arena-cache-size` from below its least SRAM to its largest, and Size, which does not
look at that; both of its cores. Ours is compiled at every point of its own frontier. A point (SRAM bytes, cycles)
dominates another if it is no worse in both and better in one. Each model's points go to a CSV file and, with
matplotlib, a plot in the output folder.

Behind them our own frontiers of `INPUT_MODELS` with inputs whole in SRAM, in another memory (`--input-memory`), and
arriving row by row (`--stream-input`): floor, knee and fastest, cycles as promised. `--docs` writes the page that the
project keeps, of both.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ethoscade
from ethoscade import ConfigError, Curve
from ethoscade.page import pictures
from ethoscade.pipeline.compiler import search
from ethoscade.targets.target import Target
from harness import (
    CORES,
    VelaRun,
    cost_of,
    cpu_seconds,
    default_target,
    every_point,
    kib,
    millions,
    named_models,
    network_of,
    payloads_of,
    run_vela,
)

INPUT_MODELS = (
    "mobilenet_v1_1.0_224_embed_uint8", "mobilenet_v2_1.0_224_ptq", "vww_96_int8", "person_detect",
    "mobilenetv2_160_035", "movenet_singlepose_192",
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One compiled network: SRAM bytes, cycles by the timing model, and its own compiler's estimate of them."""

    who: str
    sram_bytes: int
    cycles: int
    estimate: int

    def dominates(self, other: Point) -> bool:
        """No worse in both, better in one."""
        mine, theirs = (self.sram_bytes, self.cycles), (other.sram_bytes, other.cycles)
        return mine[0] <= theirs[0] and mine[1] <= theirs[1] and mine != theirs


@dataclass(frozen=True)
class Comparison:
    """One model's points, each side ascending in SRAM; `uncascaded` is (bytes, our estimate of the cycles)."""

    model: str
    ours: tuple[Point, ...]
    velas: tuple[Point, ...]
    uncascaded: tuple[int, int]
    search_seconds: float

    @property
    def floor(self) -> Point:
        """Our least SRAM."""
        return self.ours[0]

    @property
    def vela_floor(self) -> Point:
        """Vela's least SRAM, its fastest there."""
        return min(self.velas, key=lambda point: (point.sram_bytes, point.cycles))

    @property
    def lost(self) -> list[Point]:
        """Points of Vela's that dominate any of ours."""
        return [vela for vela in self.velas if any(vela.dominates(our) for our in self.ours)]

    @property
    def won(self) -> list[Point]:
        """Points of Vela's that some point of ours dominates."""
        return [vela for vela in self.velas if any(our.dominates(vela) for our in self.ours)]

    def ours_within(self, size_bytes: int) -> Point | None:
        """What a budget of that size gets: the last point that fits."""
        return next((point for point in reversed(self.ours) if point.sram_bytes <= size_bytes), None)


def compare(model: Path, target: Target, count: int, folder: Path) -> Comparison:
    """Measure both sides on one model."""
    network = network_of(model, target)
    curve, seconds = cpu_seconds(lambda: search(network))
    ours = tuple(
        Point("ours", compiled.sram_bytes, cost_of(payloads_of(compiled), target).cycles, compiled.cycles)
        for compiled in every_point(network, curve)
    )
    velas = tuple(sorted(sweep(model, target, count, folder), key=lambda point: (point.sram_bytes, point.cycles)))
    return Comparison(model.stem, ours, velas, (curve.uncascaded_bytes, curve.uncascaded_cycles), seconds)


def sweep(model: Path, target: Target, count: int, folder: Path) -> Iterator[Point]:
    """Vela's points without repetitions: its Size, and Performance over `count` sizes of the arena cache."""
    seen = set()
    for core in CORES:
        lean, fast = run_vela(model, core, "Size", folder), run_vela(model, core, "Performance", folder)
        runs: list[tuple[str, VelaRun | None]] = [("Size", lean), ("Performance", fast)]
        least = min(run.sram_bytes for run in (lean, fast) if run is not None)
        most = max(run.sram_bytes for run in (lean, fast) if run is not None)
        runs += (
            (f"Performance {kib(size)}", run_vela(model, core, "Performance", folder, size))
            for size in sizes_between(least, most, count)
        )
        for name, run in runs:
            if run is not None and run.payloads not in seen:
                seen.add(run.payloads)
                yield Point(f"{core} {name}", run.sram_bytes, cost_of(run.payloads, target).cycles, run.own_cycles)


def sizes_between(least: int, most: int, count: int) -> list[int]:
    """Sizes in even ratios, from a tenth below the least to the most, in whole KiB (or 16 bytes below 8 KiB)."""
    low, grid = 0.9 * least, 1024 if least >= 8192 else 16
    ratio = (most / low) ** (1 / max(count - 1, 1))
    return sorted({round(low * ratio**i / grid) * grid for i in range(count)} - {0})


def input_curves(model: Path) -> dict[str, Curve]:
    """Our frontiers of a model by where its inputs are."""
    return {
        "whole, in SRAM": ethoscade.frontier(model, io="int8"),
        "in OffChipFlash": ethoscade.frontier(model, io="int8", input_memory="OffChipFlash"),
        "a row at a time": ethoscade.frontier(model, io="int8", stream_input=1),
    }


# --- what is written --------------------------------------------------------------------------------------------------


def rows_of(found: Comparison) -> Iterator[tuple[str, int, int, int, str]]:
    """Every point: who, SRAM, cycles, own estimate, and what it dominates or is dominated by."""
    for point in sorted((*found.ours, *found.velas), key=lambda p: (p.sram_bytes, p.cycles)):
        others = found.velas if point in found.ours else found.ours
        better = sum(other.dominates(point) for other in others)
        worse = sum(point.dominates(other) for other in others)
        verdict = [f"dominates {worse}"] * (worse > 0) + [f"dominated by {better}"] * (better > 0)
        yield point.who, point.sram_bytes, point.cycles, point.estimate, ", ".join(verdict)


def summary_of(found: Comparison) -> str:
    """One line: who dominates whom."""
    return (
        f"{found.model}: {len(found.lost)} of Vela's {len(found.velas)} points dominate any of our {len(found.ours)}; "
        f"ours dominate {len(found.won)} of Vela's; frontier in {found.search_seconds:.2f} s of CPU"
    )


def write_files(found: Comparison, folder: Path) -> None:
    """The CSV of all points, and the plot where matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{found.model}.csv", "w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(("who", "sram_bytes", "cycles", "own_estimate", "verdict"))
        writer.writerows(rows_of(found))
    try:
        draw(found, folder / f"{found.model}.png")
    except ConfigError as error:
        print(f"no plot: {error}", file=sys.stderr)


def draw(found: Comparison, path: Path) -> None:
    """Our points as steps, all others as marks. Raises `ConfigError` where matplotlib is missing."""
    figure = pictures.figure(9, 5.4)
    axes = figure.add_subplot()
    ours = [(point.sram_bytes, point.cycles) for point in found.ours]
    series = {"ours": ours, "ours without cascades, estimated": [found.uncascaded]}
    for core in CORES:
        series[f"Vela, {core}"] = [(p.sram_bytes, p.cycles) for p in found.velas if p.who.startswith(core)]
    for (name, points), marker in zip(series.items(), ("o-", "x", "s", "^"), strict=True):
        sizes, times = [size / 1024 for size, _ in points], [cycles / 1e6 for _, cycles in points]
        axes.plot(sizes, times, marker, markersize=4, drawstyle="steps-post", label=name)
    axes.axvline(found.floor.sram_bytes / 1024, linestyle=":", label="our floor")
    axes.set(xlabel="SRAM (KiB)", ylabel="cycles (million)", title=found.model)
    axes.legend()
    pictures.save(figure, path)


def print_points(found: Comparison) -> None:
    """The table for a terminal."""
    print(f"\n{found.model}\n  {'who':<28}{'KiB':>9}{'cycles':>12}{'own estimate':>14}  verdict")
    for who, size, cycles, estimate, verdict in rows_of(found):
        print(f"  {who:<28}{kib(size):>9}{cycles:>12,}{estimate:>14,}  {verdict}")
    print(f"  {summary_of(found)}", flush=True)


PAGE = """# Frontiers

Our frontier over Vela's on the public models: ethos-u55-256, Ethos_U55_High_End_Embedded, Shared_Sram, cycles of both
tools' command streams by the simulator's timing model ([timing.md](timing.md)). Vela is swept over `--arena-cache-size`
(`--optimise Performance`, and `Size`), with both of its cores. KiB are 1,024 bytes; millions of cycles. Written by

<!-- not run: it needs the public models, and ten minutes -->
```sh
python benches/frontiers.py --docs docs/frontiers.md
```

"At Vela's floor" gives our cycles in as much SRAM as Vela needs at least, and Vela's there. "Without a budget" gives
our fastest point, and Vela's fastest at any size. "Lost" counts points of Vela's that dominate any of ours (no worse in
SRAM and cycles, better in one), "won" those that one of ours dominates.
"""


INPUTS = """## Inputs elsewhere, or row by row

Our frontiers with the inputs whole in SRAM, in another memory ([`--input-memory`](input-memory.md)), and arriving row
by row ([`--stream-input`](stream-input.md)), `io="int8"`: KiB, and millions of cycles as promised. Given are the floor,
the knee (`Curve.knee`) and the fastest point. "In the SRAM of the first" are cycles within as many bytes as the floor
with whole inputs takes. [bounds.md](bounds.md#sram) has what no schedule goes below.

"""
INPUTS_HEAD = (
    "| model | inputs | floor, KiB | Mcycles | in the SRAM of the first | knee, KiB | Mcycles | fastest, KiB "
    "| Mcycles | points |\n| --- | --- " + "| ---: " * 8 + "|\n"
)


def inputs_table(curves: Mapping[str, Mapping[str, Curve]]) -> str:
    """The section about where inputs are."""
    rows = []
    for model, by_place in curves.items():
        whole, *_ = by_place.values()
        for place, curve in by_place.items():
            points = (curve.points[0], curve.knee, curve.points[-1])
            cells = [cell for size, cycles in points for cell in (kib(size), millions(cycles))]
            within = curve.fastest_within(whole.floor_bytes)
            cells.insert(2, "-" if within is None else millions(within[1]))
            rows.append(f"| {model} | {place} | {' | '.join(cells)} | {len(curve.points)} |\n")
    return f"{INPUTS}{INPUTS_HEAD}{''.join(rows)}"


def page(all_found: Sequence[Comparison], curves: Mapping[str, Mapping[str, Curve]]) -> str:
    """The Markdown page."""
    lines = [
        PAGE,
        (
            "| model | floor, KiB | Vela's | cycles at our floor | at Vela's floor | Vela's | without a budget "
            "| Vela's | lost | won |"
        ),
        "| --- |" + " ---: |" * 9,
    ]
    for found in all_found:
        ours, theirs = found.ours_within(found.vela_floor.sram_bytes), found.vela_floor
        fastest = min(found.velas, key=lambda point: point.cycles)
        cells = [
            found.model,
            kib(found.floor.sram_bytes),
            kib(theirs.sram_bytes),
            millions(found.floor.cycles),
            "-" if ours is None else millions(ours.cycles),
            millions(theirs.cycles),
            f"{millions(found.ours[-1].cycles)} in {kib(found.ours[-1].sram_bytes)} KiB",
            f"{millions(fastest.cycles)} in {kib(fastest.sram_bytes)} KiB",
            f"{len(found.lost)} of {len(found.velas)}",
            f"{len(found.won)} of {len(found.velas)}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", inputs_table(curves).rstrip()]
    for found in all_found:
        lines += [
            "",
            f"## {found.model}",
            "",
            "| who | KiB | Mcycles | own estimate | |",
            "| --- | ---: | ---: | ---: | --- |",
        ]
        for who, size, cycles, estimate, verdict in rows_of(found):
            shown = f"**{who}**" if who == "ours" else f"Vela {who}"
            lines.append(f"| {shown} | {kib(size)} | {millions(cycles)} | {millions(estimate)} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Compares model by model; 3 if a point of Vela's dominates one of ours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path; default: the seven shared models")
    parser.add_argument("--output", type=Path, default=Path("out/frontiers"), metavar="DIR", help="tables and plots")
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the project's page")
    parser.add_argument("--sizes", type=int, default=12, metavar="N", help="sizes of Vela's sweep (default: 12)")
    parser.add_argument("--vela", type=Path, metavar="DIR", help="keep Vela's output here and use it again")
    args = parser.parse_args()
    target, all_found = default_target(), []
    with tempfile.TemporaryDirectory() as scratch:
        for model in named_models(args.models):
            found = compare(model, target, args.sizes, args.vela or Path(scratch))
            print_points(found)
            write_files(found, args.output)
            all_found.append(found)
    print()
    for found in all_found:
        print(summary_of(found))
    curves = {model.stem: input_curves(model) for model in named_models(args.models or INPUT_MODELS)}
    print("\n" + inputs_table(curves))
    if args.docs:
        args.docs.write_text(page(all_found, curves), encoding="utf-8")
    return 3 if any(found.lost for found in all_found) else 0


if __name__ == "__main__":
    sys.exit(main())
