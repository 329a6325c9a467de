"""Every public model, compiled by us and by Vela: one row each, then the aims and how many models meet them.

    python benches/zoo.py [MODEL ...] [--accelerator NAME] [--io int8|float] [--no-verify] [--seeds N]
                          [--write ROWS.jsonl] [--compare ROWS.jsonl] [--cache out/zoo]

Ours is compiled into the SRAM that Vela takes with `--optimise Size` (at our floor if that does not fit), so that
cycles are compared at one size; the timing model costs the streams of both as they were issued. What Vela made is kept
in `--cache` by the model's content, the accelerator and Vela's version. Either side runs in a process of its own that
may neither live longer nor take more address space than the limits say: what fails is a row. `--compare` prints what
changed since rows that `--write` kept. Ends with status 3 if one of our results is wrong.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ethoscade
from ethoscade.codegen.artifact import CpuCall
from ethoscade.targets.target import ACCELERATORS, Target, compilation_target
from harness import cost_of, cpu_seconds, kib, macs_of, named_models, payloads_of, run_limited, vela_command
from model_files import NO_MODELS, model_paths
from vela_file import read as read_vela_file

SECONDS, MEGABYTES = 600, 8000
BORDERS = ("QUANTIZE", "DEQUANTIZE")
FEWER_CYCLES = 0.85
"""What our cycles should be of Vela's in the geometric mean."""


@dataclass(frozen=True)
class Side:
    """What one of the compilers made of a model; `said` is empty if it made something. Cycles by the timing model."""

    said: str = ""
    npu: int | None = None
    cpu: int = 0
    calls: int = 0
    floor_bytes: int = 0
    cycles: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Row:
    """One model on both sides.

    `sram_bytes` is what ours was compiled into, and `fits` whether that is Vela's size. `inner` counts CPU operators
    other than QUANTIZE and DEQUANTIZE; `macs` are (on the NPU, in all).
    """

    model: str
    io: str | None
    ours: Side
    vela: Side
    sram_bytes: int = 0
    fits: bool = False
    inner: int = 0
    macs: tuple[int, int] = (0, 0)
    kinds: dict[str, int] = field(default_factory=dict)
    verdict: str = "not verified"

    @property
    def comparable(self) -> bool:
        """Whether both sides made something of the model."""
        return not self.ours.said and not self.vela.said

    @property
    def ratio(self) -> float | None:
        """Our cycles over Vela's at Vela's SRAM, where both have some and we leave no more to the CPU."""
        if not (self.comparable and self.fits and self.ours.cycles and self.vela.cycles):
            return None
        return self.ours.cycles / self.vela.cycles if self.ours.cpu <= self.vela.cpu else None

    @property
    def wrong(self) -> bool:
        """Whether a result of ours is no result: another one than the reference's, a hazard, a traceback, a hang."""
        return any(word.startswith(("WRONG", "traceback", "killed", "hang")) for word in (self.ours.said, self.verdict))

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def row_from(line: str) -> Row:
    """The row that `to_json` wrote."""
    held = json.loads(line)
    sides = {name: Side(**held[name]) for name in ("ours", "vela")}
    return Row(**{**held, **sides, "macs": tuple(held["macs"])})


# --- the two sides ----------------------------------------------------------------------------------------------------


def vela_side(model: Path, target: Target, cache: Path, seconds: int, megabytes: int) -> Side:
    """Vela's least SRAM and what it costs; a failure is kept as well."""
    name = f"{hashlib.sha256(model.read_bytes()).hexdigest()[:24]}-{target.accelerator.name}"
    folder = cache / f"vela-{version('ethos-u-vela')}" / name
    failure = folder / "failure.txt"
    if not failure.is_file() and not any(folder.glob("*_vela.tflite")):
        folder.mkdir(parents=True, exist_ok=True)
        _, trouble = run_limited(vela_command(model, "regor", "Size", folder, target), seconds, megabytes)
        if trouble or not any(folder.glob("*_vela.tflite")):
            failure.write_text(trouble or "nothing written", encoding="utf-8")
    if failure.is_file():
        return Side(said=failure.read_text(encoding="utf-8"))
    made = read_vela_file(next(folder.glob("*_vela.tflite"))).operators
    payloads = [op.payload for op in made if not isinstance(op, str)]
    with open(next(folder.glob("*_summary_*.csv")), encoding="utf-8", newline="") as text:
        size = round(1024 * float(next(csv.DictReader(text))["sram_memory_used"]))
    return Side(
        cpu=len(made) - len(payloads),
        calls=len(payloads),
        floor_bytes=size,
        cycles=cost_of(payloads, target).cycles,
    )


def borders_known() -> bool:
    """Whether the compiler can be told what its borders are."""
    return "io" in inspect.signature(ethoscade.compile).parameters


def examine(model: Path, accelerator: str, io: str | None, size: int | None, seeds: int) -> None:
    """Compile into `size` bytes, or at the floor, and verify; prints one JSON object per step as it ends."""
    options: dict[str, Any] = {"accelerator": accelerator} | ({"io": io} if io and borders_known() else {})

    def compiled_into(sram: int | None) -> ethoscade.Compiled:
        optimise = "size" if sram is None else "performance"
        return ethoscade.compile(model, sram=sram, optimise=optimise, **options)

    def work() -> tuple[ethoscade.Compiled, bool]:
        try:
            return compiled_into(size), size is not None
        except ethoscade.BudgetError:
            return compiled_into(None), False

    try:
        (compiled, fits), seconds = cpu_seconds(work)
    except ethoscade.EthoscadeError as error:
        print(json.dumps({"said": f"{type(error).__name__}: {error}"}), flush=True)
        return
    floor = ethoscade.frontier(model, **options).floor_bytes
    print(json.dumps({**figures(compiled), "floor_bytes": floor, "fits": fits, "seconds": seconds}), flush=True)
    if seeds:
        print(json.dumps({"verdict": verdict_on(compiled, seeds)}), flush=True)


def figures(compiled: ethoscade.Compiled) -> dict[str, Any]:
    """What a row tells of a compilation, but for the floor."""
    graph, calls = compiled.artifact.graph, compiled.artifact.calls
    on_cpu = [call.operator for call in calls if isinstance(call, CpuCall)]
    macs = [macs_of(graph, operator) for operator in graph.operators]
    kinds: dict[str, int] = {}
    for index in on_cpu:
        kind = graph.operators[index].kind
        kinds[kind] = kinds.get(kind, 0) + 1
    return {
        "npu": len(graph.operators) - len(on_cpu),
        "cpu": len(on_cpu),
        "calls": len(calls) - len(on_cpu),
        "sram_bytes": compiled.sram_bytes,
        "cycles": cost_of(payloads_of(compiled), compiled.target).cycles,
        "macs": [sum(macs) - sum(macs[i] for i in on_cpu), sum(macs)],
        "kinds": dict(sorted(kinds.items())),
        "inner": sum(count for kind, count in kinds.items() if kind not in BORDERS),
    }


def verdict_on(compiled: ethoscade.Compiled, seeds: int) -> str:
    """What `verify` says: "exact", "WRONG (...)", or why it does not say."""
    try:
        check = compiled.verify(seeds=seeds)
    except ethoscade.EthoscadeError as error:
        return f"{type(error).__name__}: {error}"
    if check.ok:
        return "exact"
    return f"WRONG ({check.mismatches} of {check.elements} elements, {check.hazards} hazards)"


def our_row(model: Path, target: Target, io: str | None, vela: Side, options: argparse.Namespace) -> Row:
    """Our side in a child process, beside Vela's."""
    command = [sys.executable, __file__, "--child", str(model), "--accelerator", target.accelerator.name]
    command += ["--seeds", str(0 if options.no_verify else options.seeds)]
    command += ["--into", str(vela.floor_bytes)] if not vela.said else []
    command += ["--io", io] if io else []
    printed, trouble = run_limited(command, options.limit_seconds, options.limit_mb)
    told: dict[str, Any] = {}
    for line in printed.splitlines():
        told |= json.loads(line)
    if "npu" not in told:
        return Row(model.stem, io, Side(said=told.get("said", trouble)), vela)
    if trouble:
        told["verdict"] = trouble
    names = {f.name for f in fields(Side)}
    ours = Side(**{name: value for name, value in told.items() if name in names})
    rest = {name: value for name, value in told.items() if name not in names}
    return Row(model.stem, io, ours, vela, **{**rest, "macs": tuple(told["macs"])})


# --- what is printed --------------------------------------------------------------------------------------------------

HEAD = (
    "| model | NPU | CPU | Vela's | calls | Vela's | floor, KiB | Vela's | cycles at Vela's SRAM | Vela's | ratio "
    "| MACs on the NPU | CPU s | verdict | left to the CPU |\n|---|" + "---:|" * 12 + "---|---|"
)


def line_of(row: Row) -> str:
    """One row of the table."""
    ours, vela = row.ours, row.vela
    share = f"{100 * row.macs[0] / row.macs[1]:.1f} %" if row.macs[1] else "-"
    left = ", ".join(f"{kind} {count}" for kind, count in row.kinds.items())
    theirs = [str(vela.cpu), str(vela.calls), kib(vela.floor_bytes), f"{vela.cycles:,}"] if not vela.said else ["-"] * 4
    if ours.said:
        cells = ["-", "-", theirs[0], "-", theirs[1], "-", theirs[2], "-", theirs[3], "-", "-", "-", "-", ours.said]
    else:
        at = f"{ours.cycles:,}" if row.fits else f"({ours.cycles:,} at {kib(row.sram_bytes)})"
        ratio = f"{row.ratio:.3f}" if row.ratio is not None else "-"
        cells = [str(ours.npu), str(ours.cpu), theirs[0], str(ours.calls), theirs[1], kib(ours.floor_bytes), theirs[2]]
        cells += [at, theirs[3], ratio, share, f"{ours.seconds:.1f}", row.verdict, left]
    if vela.said:
        cells[-1] += f" (Vela: {vela.said})"
    return "| " + " | ".join(cell.replace("|", "/")[:160] for cell in (row.model, *cells)) + " |"


def aims(rows: Sequence[Row]) -> list[str]:
    """How many models meet each aim, and which do not."""
    both = [row for row in rows if row.comparable]

    def count(title: str, among: Sequence[Row], met: Callable[[Row], bool]) -> str:
        missed = [row.model for row in among if not met(row)]
        return f"{title}: {len(among) - len(missed)} of {len(among)}" + (f"; not {', '.join(missed)}" * bool(missed))

    timed = [row for row in both if row.ratio is not None]
    ratios = [row.ratio for row in timed if row.ratio]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
    left = ", ".join(row.model for row in both if row.ratio is None)
    return [
        count("compiled", rows, lambda row: not row.ours.said),
        count("no more CPU operators than Vela", both, lambda row: row.ours.cpu <= row.vela.cpu),
        count("no more NPU calls than Vela", both, lambda row: row.ours.calls <= row.vela.calls),
        count("no floor above Vela's", both, lambda row: row.ours.floor_bytes <= row.vela.floor_bytes),
        count("no more cycles than Vela at its SRAM", timed, lambda row: row.ours.cycles <= row.vela.cycles),
        f"cycles at Vela's SRAM, geometric mean over {len(ratios)}: {mean:.3f} (aim {FEWER_CYCLES}: "
        f"{'met' if mean <= FEWER_CYCLES else 'not met'})" + (f"; not compared: {left}" * bool(left)),
        count("bit-exact and free of hazards", rows, lambda row: row.verdict == "exact"),
    ]


@dataclass(frozen=True)
class Aim:
    """Something that one model should reach, with borders `io` (those of the file if None)."""

    model: str
    what: str
    most: int
    io: str | None = None

    def reached(self, row: Row | None) -> tuple[str, str]:
        """The figure, and whether it is what it should be."""
        if row is None:
            return "not measured", "-"
        if row.ours.said:
            return row.ours.said[:80], "not met"
        found = {"calls": row.ours.calls, "inner": row.inner, "CPU": row.ours.cpu, "floor": row.ours.floor_bytes / 1024}
        figure = found[self.what]
        return f"{figure:.1f}" if self.what == "floor" else str(figure), "met" if figure <= self.most else "not met"

    def __str__(self) -> str:
        what = {
            "calls": "NPU calls",
            "inner": "CPU operators but QUANTIZE and DEQUANTIZE",
            "CPU": "CPU operators",
            "floor": "KiB of floor",
        }[self.what]
        return f"{self.model}{f' with {self.io} borders' if self.io else ''}: {what}, at most {self.most}"


NAMED = (
    Aim("yolov8n_192", "calls", 1),
    Aim("deeplabv3_mnv2_pascal", "floor", 2300),
    Aim("mobilefacenet", "floor", 588),
    Aim("dbface_256", "floor", 480, "int8"),
    Aim("face_landmarks_192", "floor", 200, "int8"),
    Aim("movenet_singlepose_192", "floor", 150, "int8"),
    Aim("hps_89ops", "floor", 250),
    Aim("denoise_16x8", "inner", 0),
    Aim("micro_speech_lstm", "CPU", 0),
    Aim("tinyengine_vww", "floor", 24, "int8"),
    Aim("tinyengine_vww", "floor", 76),
    Aim("tinyengine_mcunetv2_large", "floor", 220, "int8"),
    Aim("tinyengine_mcunetv2_large", "floor", 590),
)


def changes(before: Iterable[Row], after: Iterable[Row]) -> list[str]:
    """What differs between two runs, a line for each model that changed; seconds are not compared."""
    old = {(row.model, row.io): row for row in before}
    found = []
    for row in after:
        was = old.get((row.model, row.io))
        if was is None:
            found.append(f"{row.model}: new")
            continue
        pairs = [
            ("said", was.ours.said, row.ours.said),
            ("NPU operators", was.ours.npu, row.ours.npu),
            ("CPU operators", was.ours.cpu, row.ours.cpu),
            ("NPU calls", was.ours.calls, row.ours.calls),
            ("floor", was.ours.floor_bytes, row.ours.floor_bytes),
            ("cycles", was.ours.cycles, row.ours.cycles),
            ("MACs", was.macs[1], row.macs[1]),
            ("verdict", was.verdict, row.verdict),
        ]
        said = [f"{name} {a or '-'} -> {b or '-'}" for name, a, b in pairs if a != b]
        if said:
            found.append(f"{row.model}: {'; '.join(said)}")
    return found


def measure(paths: Sequence[Path], target: Target, options: argparse.Namespace) -> list[Row]:
    """All rows, printed as they come."""
    print(HEAD, flush=True)
    rows = []
    for path in paths:
        vela = vela_side(path, target, options.cache, options.limit_seconds, options.limit_mb)
        rows.append(our_row(path, target, options.io, vela, options))
        print(line_of(rows[-1]), flush=True)
        if options.write:
            options.write.parent.mkdir(parents=True, exist_ok=True)
            options.write.write_text("".join(row.to_json() + "\n" for row in rows), encoding="utf-8")
    return rows


def print_named(rows: Sequence[Row], paths: Sequence[Path], target: Target, options: argparse.Namespace) -> None:
    """The named aims; those with other borders than the rows' are compiled for, where the compiler has borders."""
    files = {path.stem: path for path in paths}
    known = {(row.model, row.io): row for row in rows}
    unverified = argparse.Namespace(**{**vars(options), "no_verify": True})
    for aim in NAMED:
        if aim.model not in files:
            continue
        row = known.get((aim.model, aim.io or options.io))
        if row is None and borders_known():
            row = our_row(files[aim.model], target, aim.io, Side(said="not asked"), unverified)
        figure, verdict = aim.reached(row)
        print(f"  {aim}: {figure} ({verdict})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="name or path; default: all")
    parser.add_argument("--accelerator", choices=sorted(ACCELERATORS), default="ethos-u55-256")
    parser.add_argument("--io", choices=("int8", "float"), help="borders, passed on where the compiler knows them")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--seeds", type=int, default=1, help="random inputs to verify on (default: 1)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the rows, one JSON object a line")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="rows to compare with")
    parser.add_argument("--cache", type=Path, default=Path("out/zoo"), metavar="DIR", help="what Vela made")
    parser.add_argument("--limit-seconds", type=int, default=SECONDS, help="of CPU time, for a model and a side")
    parser.add_argument("--limit-mb", type=int, default=MEGABYTES)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        examine(args.child, args.accelerator, args.io, args.into, args.seeds)
        return 0
    before = [row_from(line) for line in args.compare.read_text(encoding="utf-8").splitlines()] if args.compare else []
    paths = named_models(args.models) if args.models else model_paths() or sys.exit(NO_MODELS)
    target = compilation_target(args.accelerator)
    rows = measure(paths, target, args)
    print("\n" + "\n".join(aims(rows)))
    print_named(rows, paths, target, args)
    if args.compare:
        print("\nsince then:\n" + "\n".join(changes(before, rows) or ["nothing changed"]))
    return 3 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
