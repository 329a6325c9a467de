"""What the compiler finds for real networks, and how long it takes: floors, frontiers, cycles, seconds of CPU time.

Run as `python benches/models.py [--markdown] [--accelerator NAME] [--budget KIB] [MODEL ...]`. The models are found
through $ETHOSCADE_MODELS, else in a folder `shared/models` beside the project or above it; without either the bench
takes the project's own testing networks and says so. MODEL is the path of another .tflite file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ethoscade
from ethoscade import testing
from ethoscade.pipeline.compiled import Compiled
from harness import ACCELERATOR, SHARED_MODELS, model_folder

MODELS = ("mobilenet_v1_1.0_224_int8_rand", *SHARED_MODELS, "micro_speech", "ad01_int8", "hello_world_int8")

# "Total SRAM used", KiB, of ethos-u-vela 5.2.0 on these very files, the smallest that it reaches, printed by
# vela --accelerator-config ethos-u55-256 --system-config Ethos_U55_High_End_Embedded --memory-mode Shared_Sram \
#      --optimise Size MODEL
# It counts as we do: inputs and outputs, intermediates, rolling buffers, staged weights.
VELA_SIZE_KIB = {
    "mobilenet_v1_1.0_224_int8_rand": 441.0,
    "mobilenet_v1_1.0_224_embed_uint8": 441.0,
    "mobilenet_v2_1.0_224_ptq": 353.5,
    "mobilenet_v1_0.25_128_uint8": 80.0,
    "vww_96_int8": 48.0,
    "resnet8_int8": 35.0,
    "kws_ref_int8": 15.62,
    "person_detect": 30.0,
    "ad01_int8": 0.75,
    "micro_speech": 5.83,
    "hello_world_int8": 0.03,
}


@dataclass(frozen=True)
class Row:
    """What was measured on one model; seconds are CPU time of this process."""

    name: str
    operators: str
    floor_bytes: int
    uncascaded_bytes: int
    vela_kib: float | None
    floor_cycles: int
    budget_cycles: int | None
    fastest_cycles: int
    plans: int
    proposals: int
    points: int
    plan_seconds: float
    codegen_seconds: float
    total_seconds: float


def find_models() -> list[tuple[str, Path | bytes]]:
    """The models named above, else the project's own: (name, path or bytes)."""
    folder = model_folder()
    found: list[tuple[str, Path | bytes]] = []
    if folder is not None:
        found += [(name, folder / f"{name}.tflite") for name in MODELS if (folder / f"{name}.tflite").is_file()]
    if found:
        return found
    print(
        "no public models here (set ETHOSCADE_MODELS to their folder); these are the project's own networks, with "
        "random weights",
        file=sys.stderr,
    )
    return [
        ("testing.mobilenet_v1", testing.mobilenet_v1()),
        ("testing.inverted_residuals", testing.inverted_residuals()),
        ("testing.residual_network", testing.residual_network()),
        ("testing.keyword_spotting", testing.keyword_spotting()),
    ]


def measure(name: str, model: Path | bytes, accelerator: str, budget_kib: float) -> Row:
    """Compile once within the budget, or without one if that is below the floor; the frontier is another search."""
    try:
        compiled, seconds = timed(model, accelerator, budget_kib)
        within: int | None = compiled.cycles
    except ethoscade.BudgetError:
        compiled, seconds = timed(model, accelerator, None)
        within = None
    curve = ethoscade.frontier(model, accelerator=accelerator)
    on_npu = sum(op.where == "npu" for op in compiled.operators)
    return Row(
        name,
        f"{on_npu}+{len(compiled.operators) - on_npu}",
        curve.floor_bytes,
        curve.uncascaded_bytes,
        VELA_SIZE_KIB.get(name) if accelerator == ACCELERATOR else None,
        curve.points[0][1],
        within,
        curve.points[-1][1],
        curve.plans,
        curve.proposals_considered,
        len(curve.points),
        seconds["plan"],
        seconds["encode"] + seconds["codegen"],
        sum(seconds.values()),
    )


def timed(model: Path | bytes, accelerator: str, budget_kib: float | None) -> tuple[Compiled, dict[str, float]]:
    """A compilation and the CPU seconds of each of its stages."""
    begun: list[tuple[str, float]] = [("target", time.process_time())]
    compiled = ethoscade.compile(
        model,
        sram_kb=budget_kib,
        accelerator=accelerator,
        progress=lambda stage: begun.append((stage, time.process_time())),
    )
    ends = [*(at for _, at in begun[1:]), time.process_time()]
    seconds: dict[str, float] = {}
    for (stage, at), end in zip(begun, ends, strict=True):
        seconds[stage] = seconds.get(stage, 0.0) + end - at
    return compiled, seconds


def kib(size_bytes: int) -> str:
    """Bytes in KiB, to a tenth, or to a hundredth where that would be nothing."""
    return f"{size_bytes / 1024:.{1 if size_bytes > 100 else 2}f}"


def mega(cycles: int | None) -> str:
    """Millions of cycles."""
    return "-" if cycles is None else f"{cycles / 1e6:.3f}"


def markdown(rows: Iterator[Row], budget_kib: float) -> Iterator[str]:
    """The README's table."""
    yield (
        f"| model | floor, KiB | Vela 5.2.0 `Size`, KiB | without cascades, KiB | Mcycles at the floor | "
        f"at {budget_kib:g} KiB | fastest | planner, s | compile, s |"
    )
    yield "| --- |" + " ---: |" * 8
    for row in rows:
        cells = [
            row.name,
            kib(row.floor_bytes),
            "-" if row.vela_kib is None else kib(round(row.vela_kib * 1024)),
            kib(row.uncascaded_bytes),
            mega(row.floor_cycles),
            mega(row.budget_cycles),
            mega(row.fastest_cycles),
            f"{row.plan_seconds:.2f}",
            f"{row.total_seconds:.2f}",
        ]
        yield "| " + " | ".join(cells) + " |"


def text(rows: Iterator[Row], budget_kib: float) -> Iterator[str]:
    """Everything measured, for a terminal."""
    at = f"@{budget_kib:g}K"
    yield (
        f"{'model':34} {'npu+cpu':>7} {'floor B':>9} {'KiB':>7} {'Vela':>6} {'whole':>7} "
        f"{'Mcyc floor':>10} {at:>8} {'fastest':>8} {'plans':>8} {'proposals':>9} {'points':>6} "
        f"{'plan s':>7} {'code s':>7} {'all s':>6}"
    )
    for row in rows:
        vela = "-" if row.vela_kib is None else kib(round(row.vela_kib * 1024))
        yield (
            f"{row.name:34} {row.operators:>7} {row.floor_bytes:9} {kib(row.floor_bytes):>7} {vela:>6} "
            f"{kib(row.uncascaded_bytes):>7} {mega(row.floor_cycles):>10} {mega(row.budget_cycles):>8} "
            f"{mega(row.fastest_cycles):>8} {row.plans:8} {row.proposals:9} {row.points:6} {row.plan_seconds:7.3f} "
            f"{row.codegen_seconds:7.3f} {row.total_seconds:6.2f}"
        )


def main() -> int:
    """Prints one table row per model."""
    parser = argparse.ArgumentParser(description="Bench the compiler on real networks")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="default: the models named in the bench")
    parser.add_argument("--accelerator", default=ACCELERATOR)
    parser.add_argument("--budget", type=float, default=300, metavar="KIB", help="KiB to compile into (default: 300)")
    parser.add_argument("--markdown", action="store_true", help="print the README's table")
    args = parser.parse_args()
    models = [(path.stem, path) for path in args.models] or find_models()
    rows = (measure(name, model, args.accelerator, args.budget) for name, model in models)
    try:
        for line in (markdown if args.markdown else text)(rows, args.budget):
            print(line, flush=True)
    except ethoscade.EthoscadeError as error:
        print(f"models.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
