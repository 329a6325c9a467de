"""What commands of the command line do: call the library, write files, print one report.

Owns the effects and exit status of those that run nothing; others are in `runs`. Arguments are parsed in `__main__`.
What only some calls of a command need is imported there: judges and pictures take longer than starting to compile.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..codegen import bundle, micro_arena
from ..codegen.c.options import COptions
from ..errors import ConfigError
from ..frontend import read_tflite
from ..lowering import FAMILIES
from ..pipeline.borders import INTERFACES as INTERFACES
from ..pipeline.compiled import Compiled
from ..pipeline.compiler import EPSILON as EPSILON
from ..pipeline.prepared import compile, frontier
from ..rewrites import FOLDED
from ..target import ACCELERATORS
from ..util.files import MANIFEST_SUFFIX, refuse_same, write_together, write_whole
from . import console, summary

DONE = 0
FAULTY = 1
DIFFERENT = 3


def compile_model(args: argparse.Namespace, options: COptions) -> int:
    """`ethoscade compile` with one model."""
    compiled = compile_as_told(args)
    made = bundle.render(compiled.artifact, args.emit, options)
    if not made.files:
        raise next(iter(made.refused.values()))
    written, manifest = _write(compiled, Path(args.output), made)
    check = compiled.verify(args.seeds, runs=args.runs) if args.verify else None
    report, text = summary.compile_json(compiled, written, check), summary.compile_text(compiled, check)
    report["manifest"] = manifest
    if "tflite" in written:
        file = read_tflite(made.files[made.places["tflite"]])
        arena, warnings = micro_arena.of_file(file, compiled.artifact.arena_bytes), compiled.micro_warnings
        report["tflm"] = summary.micro_json(arena, warnings)
        text += f"\n{summary.micro_text(arena, warnings)}"
    report["not_written"] = [{"artifact": kind, **summary.error_json(error)} for kind, error in made.refused.items()]
    if args.explain:
        explanation = compiled.explain()
        report["explanation"] = summary.explanation_json(explanation)
        text += f"\n\n{explanation}"
    print_report(args, report, text + _listing(written, manifest))
    for kind, error in made.refused.items():
        console.complain(f"{kind} was not written, but {' and '.join(written)}: {error}")
    tell_of_lines(compiled, written)
    if check is not None and not check.ok:
        return DIFFERENT
    return FAULTY if made.refused else DONE


def tell_of_lines(compiled: Compiled, written: Collection[str]) -> None:
    """Say so where the arena of C that was written takes more than the budget, because it is whole cache lines."""
    budget, added = compiled.budget_bytes, compiled.workspace_bytes - compiled.pools["arena"]
    if budget is not None and {"c", "mlf"} & set(written) and compiled.sram_bytes + added > budget:
        console.complain(
            f"the arena of '{compiled.name}' in C takes whole cache lines, {compiled.workspace_bytes} bytes: "
            f"{compiled.sram_bytes + added - budget} more than the budget; budgets in multiples of 32 bytes are kept"
        )


def frontier_of(args: argparse.Namespace) -> int:
    """`ethoscade frontier`."""
    refuse_same({"the model": args.model}, {"--plot": args.plot})
    curve = frontier(
        args.model,
        accelerator=args.accelerator,
        system_config=args.system_config,
        memory_mode=args.memory_mode,
        config=args.config,
        epsilon=args.epsilon,
        dead_channels=not args.keep_dead_channels,
        weight_encoder=args.weight_encoder,
        io=args.io,
    )
    if args.plot:
        from . import plot

        plot.frontier(curve, Path(args.model).stem, Path(args.plot))
    drawn = f"\nwrote {args.plot}" if args.plot else ""
    print_report(args, summary.frontier_json(curve), summary.frontier_text(curve) + drawn)
    return DONE


def supported_operators(args: argparse.Namespace) -> int:
    """`ethoscade supported-ops`."""
    from . import support

    if args.accelerator not in ACCELERATORS:
        raise ConfigError(f"unknown accelerator '{args.accelerator}'; known are {', '.join(ACCELERATORS)}")
    text = support.page().rstrip() if args.markdown else support.text()
    report = {
        "schema_version": summary.SCHEMA_VERSION,
        "accelerator": args.accelerator,
        "operators": {kind: family.runs_as for kind, family in FAMILIES.items()},
        "limits": {kind: support.lines(kind) for kind in FAMILIES},
        "vanishing": dict(FOLDED),
    }
    if not args.markdown:
        text += "\n\nOther operators stay on the CPU; `ethoscade compile` gives the reason for each."
    print_report(args, report, text)
    return DONE


def compile_as_told(args: argparse.Namespace) -> Compiled:
    """The model of a command, compiled by its options."""
    return compile(args.model, **told(args))


def told(args: argparse.Namespace) -> dict[str, Any]:
    """A command's options as `compile` and `compile_many` take them."""
    return {
        "sram": args.sram,
        "accelerator": args.accelerator,
        "system_config": args.system_config,
        "memory_mode": args.memory_mode,
        "config": args.config,
        "optimise": args.optimise,
        "epsilon": args.epsilon,
        "dead_channels": not args.keep_dead_channels,
        "weight_encoder": args.weight_encoder,
        "io": args.io,
        "kernels": args.kernels,
    }


def _write(compiled: Compiled, folder: Path, made: bundle.Bundle) -> tuple[dict[str, str], str | None]:
    """Write the artefacts' files together; returns the artefacts' paths, and that of the list of hashes.

    A single file is whole or not there: it needs no list, and None is returned for it.
    """
    manifest = f"{compiled.name}{MANIFEST_SUFFIX}"
    if len(made.files) > 1:
        write_together(folder, made.files, manifest)
    else:
        for name, data in made.files.items():
            write_whole(folder / name, data)
    listed = str(folder / manifest) if len(made.files) > 1 else None
    return {artefact: str(folder / name) for artefact, name in made.places.items()}, listed


def _listing(written: Mapping[str, str], manifest: str | None) -> str:
    lines = [f"\nwrote {'C sources into ' if kind == 'c' else ''}{path}" for kind, path in written.items()]
    return "".join(lines) + (f"\nwrote {manifest}, the hashes of these files" if manifest else "")


def print_report(args: argparse.Namespace, report: Mapping[str, Any], text: str) -> None:
    """Print a command's one report, as JSON where that is asked for."""
    console.show(json.dumps(report) if args.json else text)
