"""What each command of the command line does: calls the library, writes files, prints one report.

Owns the commands' effects and exit status. Arguments are parsed in `__main__`.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen import bundle
from ..errors import ConfigError, EthoscadeError
from ..frontend import read_tflite
from ..ir import Array, Graph
from ..judge.verification import check_available, compare, random_inputs, reference_steps
from ..lowering import FAMILIES
from ..pipeline.borders import INTERFACES as INTERFACES
from ..pipeline.borders import applied
from ..pipeline.compiled import Compiled
from ..pipeline.compiler import EPSILON as EPSILON
from ..pipeline.prepared import compile, frontier
from ..rewrites import FOLDED
from ..run.execution import run_tflite_steps, sram_touched, unplayable
from ..run.judgement import on_file, source_of
from ..target import ACCELERATORS
from ..util.files import MANIFEST_SUFFIX, read_whole, refuse_same, strangers, write_together, write_whole
from . import console, plot, summary, support, trace

DONE = 0
FAULTY = 1
DIFFERENT = 3
_TEXT_HAZARDS = 10
_MOST_INPUT_BYTES = 1 << 32
# What NumPy and zipfile raise for archives that are damaged, encrypted or claim more than there is room for.
_DAMAGED = (
    ValueError, EOFError, AttributeError, KeyError, OverflowError, NotImplementedError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error, struct.error, OSError,
)  # fmt: skip


def compile_model(args: argparse.Namespace) -> int:
    """`ethoscade compile`."""
    if args.verify:
        check_available()
    compiled = _compile(args)
    made = bundle.render(compiled.artifact, args.emit)
    if not made.files:
        raise next(iter(made.refused.values()))
    written, manifest = _write(compiled, Path(args.output), made)
    check = compiled.verify(args.seeds, runs=args.runs) if args.verify else None
    report, text = summary.compile_json(compiled, written, check), summary.compile_text(compiled, check)
    report["manifest"] = manifest
    if "tflite" in written:
        arena, warnings = compiled.micro_arena(), compiled.micro_warnings
        report["tflm"] = summary.micro_json(arena, warnings)
        text += f"\n{summary.micro_text(arena, warnings)}"
    report["not_written"] = [{"artifact": kind, **summary.error_json(error)} for kind, error in made.refused.items()]
    if args.explain:
        explanation = compiled.explain()
        report["explanation"] = summary.explanation_json(explanation)
        text += f"\n\n{explanation}"
    _print(args, report, text + _listing(written, manifest))
    for kind, error in made.refused.items():
        console.complain(f"{kind} was not written, but {' and '.join(written)}: {error}")
    if check is not None and not check.ok:
        return DIFFERENT
    return FAULTY if made.refused else DONE


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
        io=args.io,
    )
    if args.plot:
        plot.frontier(curve, Path(args.model).stem, Path(args.plot))
    drawn = f"\nwrote {args.plot}" if args.plot else ""
    _print(args, summary.frontier_json(curve), summary.frontier_text(curve) + drawn)
    return DONE


def verify_model(args: argparse.Namespace) -> int:
    """`ethoscade verify`."""
    if args.artifact:
        return _verify_file(args)
    check_available()
    compiled = _compile(args)
    check = compiled.verify(args.seeds, args.target, args.runs)
    _print(args, summary.compile_json(compiled, {}, check), summary.compile_text(compiled, check))
    return DONE if check.ok else DIFFERENT


def _verify_file(args: argparse.Namespace) -> int:
    """`ethoscade verify --artifact`: a file that is compiled already."""
    said = {"--sram": args.sram, "--target": args.target != "simulator", "--io": args.io != "float"}
    if (wrong := [option for option, given in said.items() if given]) or _system_said(args):
        raise ConfigError(
            f"{', '.join(wrong) or '--system-config, --memory-mode and --config'} would say how to compile "
            f"'{args.model}', and '{args.artifact}' is compiled already: leave out one or the other"
        )
    check_available()
    compiled, source = read_tflite(args.artifact), read_tflite(args.model)
    # A file of ours may have had its float borders cut off.
    candidates = [applied(source, io)[0] for io in INTERFACES]
    check = on_file(compiled, source_of(compiled, candidates), args.seeds, args.runs)
    report = {
        "schema_version": summary.SCHEMA_VERSION,
        "model": source.name,
        "artifact": compiled.name,
        "verification": summary.verification_json(check),
    }
    _print(args, report, summary.verification_text(compiled.name, source.name, check))
    return DONE if check.ok else DIFFERENT


def _system_said(args: argparse.Namespace) -> bool:
    return bool(args.system_config or args.memory_mode or args.config)


def simulate_artifact(args: argparse.Namespace) -> int:
    """`ethoscade simulate`."""
    if not _timed(args) and _system_said(args):
        raise ConfigError("--system-config, --memory-mode and --config say what to time on; add --timing or --trace")
    read = {"the artifact": args.artifact, "--inputs": args.inputs, "--reference": args.reference}
    refuse_same(read, {"--outputs": args.outputs, "--trace": args.trace})
    graph = read_tflite(args.artifact)
    if _timed(args) and not (args.inputs or args.outputs or args.reference) and (unknown := unplayable(graph)):
        return _time_only(args, graph, unknown)
    steps = _steps(args, graph)
    results = run_tflite_steps(graph, steps)
    outputs = _in_a_row(args, [result.outputs for result in results])
    if args.outputs:
        _write_arrays(Path(args.outputs), outputs)
    reports = [run for result in results for run in result.reports]
    warnings = list(dict.fromkeys(warning for result in results for warning in result.warnings))
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "artifact": graph.name,
        "runs": len(results),
        "sram_touched_bytes": (touched := max(sram_touched(graph, result) for result in results)),
        "warnings": warnings,
        "hazards": [
            {"run": number, "call": call, **asdict(hazard)}
            for number, result in enumerate(results)
            for call, run in enumerate(result.reports)
            for hazard in run.hazards
        ],
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
    }
    found = [hazard.message for run in reports for hazard in run.hazards]
    free = "" if found else "; no hazards"
    mixed = _check_companions(Path(args.artifact))
    report["mixed_files"] = list(mixed)
    times = f" {len(results)} times in a row" if len(results) > 1 else ""
    lines = [f"ran '{graph.name}'{times}; highest SRAM byte touched gives {touched:,} bytes{free}"]
    lines += [f"warning: {warning}" for warning in (*warnings, *mixed)]
    lines += [f"hazard: {message}" for message in found[:_TEXT_HAZARDS]]
    if len(found) > _TEXT_HAZARDS:
        lines.append(f"and {len(found) - _TEXT_HAZARDS:,} hazards more")
    if _timed(args):
        lines += _add_timing(args, graph, report)
    status = DONE
    if args.reference:
        reference = read_tflite(args.reference)
        source = source_of(graph, [applied(reference, io)[0] for io in INTERFACES])
        (judged,) = reference_steps(source, [steps])
        expected = _in_a_row(args, [one.outputs for one in judged])
        elements, mismatches, largest = compare(outputs, expected)
        report["reference"] = {"elements": elements, "mismatches": mismatches, "max_abs_diff": summary.finite(largest)}
        lines.append(f"reference: {mismatches:,} of {elements:,} elements differ (by up to {largest})")
        status = DIFFERENT if mismatches or warnings or found else DONE
    _print(args, report, "\n".join(lines))
    return status


def _steps(args: argparse.Namespace, graph: Graph) -> list[dict[str, Array]]:
    """The inputs of each run; arrays of a file have one more axis in front where the number of runs is said."""
    if not args.inputs:
        return [random_inputs(graph, args.seed, step) for step in range(args.runs or 1)]
    given = _read_arrays(Path(args.inputs))
    if args.runs is None:
        return [given]
    for name, array in given.items():
        if not array.ndim or len(array) != args.runs:
            raise ConfigError(
                f"input '{name}' in '{args.inputs}' has shape {array.shape}; for --runs {args.runs} its first axis is "
                f"of as many runs"
            )
    return [{name: array[step] for name, array in given.items()} for step in range(args.runs)]


def _in_a_row(args: argparse.Namespace, outputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of several runs by name, with one more axis in front where the number of runs is said."""
    if args.runs is None:
        return dict(outputs[0])
    return {name: np.stack([of[name] for of in outputs]) for name in outputs[0]}


def _time_only(args: argparse.Namespace, graph: Graph, unknown: Sequence[str]) -> int:
    """The costs of a network that cannot be run, because nobody here knows its operators on the CPU."""
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "artifact": graph.name,
        "not_run": list(unknown),
    }
    lines = [f"did not run '{graph.name}': it has {', '.join(unknown)} on the CPU, not simulated here; its NPU calls:"]
    lines += _add_timing(args, graph, report)
    _print(args, report, "\n".join(lines))
    return DONE


def _add_timing(args: argparse.Namespace, graph: Graph, report: dict[str, Any]) -> list[str]:
    """Adds the object `timing`; returns the lines that say the same."""
    timing = trace.time_file(graph, args.system_config, args.memory_mode, args.config)
    report["timing"] = trace.timing_json(timing)
    written = [f"wrote {trace.write_trace(timing, args.trace)}"] if args.trace else []
    return [trace.timing_text(timing), *written]


def _timed(args: argparse.Namespace) -> bool:
    return bool(args.timing or args.trace)


def supported_operators(args: argparse.Namespace) -> int:
    """`ethoscade supported-ops`."""
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
    _print(args, report, text)
    return DONE


def _compile(args: argparse.Namespace) -> Compiled:
    return compile(
        args.model,
        sram=args.sram,
        accelerator=args.accelerator,
        system_config=args.system_config,
        memory_mode=args.memory_mode,
        config=args.config,
        optimise=args.optimise,
        epsilon=args.epsilon,
        dead_channels=not args.keep_dead_channels,
        io=args.io,
    )


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


def _check_companions(artifact: Path) -> tuple[str, ...]:
    """What does not fit the list of hashes that was written with a compiled file, if there is one and it lists it."""
    listed = artifact.with_name(f"{artifact.stem.removesuffix('_ethosu')}{MANIFEST_SUFFIX}")
    try:
        found = strangers(listed) if listed.is_file() else {}
    except (EthoscadeError, OSError) as error:
        return (str(error),)
    different = sorted(name for name, differs in found.items() if differs)
    if not different or artifact.name not in found:
        return ()
    return (
        (
            f"the files that '{listed}' lists are of several compilations, or a write was cut short: "
            f"{', '.join(different)} differ from it; compile again"
        ),
    )


def _print(args: argparse.Namespace, report: Mapping[str, Any], text: str) -> None:
    console.show(json.dumps(report) if args.json else text)


def _read_arrays(path: Path) -> dict[str, Array]:
    data = read_whole(path, _MOST_INPUT_BYTES)
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise ConfigError(f"'{path}' is no .npz file; inputs come in one, by name (numpy.savez)")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise ConfigError(f"cannot read inputs from '{path}': {' '.join(str(error).split())}") from error


def _write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    # Not np.savez: a tensor named like one of its parameters ("file") would be taken for that.
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())
    write_whole(path, stream.getvalue())
