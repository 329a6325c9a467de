"""The commands that run what is compiled: `verify` and `simulate`.

Owns their effects and exit status, and the arrays that they read and write. Arguments are parsed in `__main__`.
"""

from __future__ import annotations

import argparse
import io
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError, EthoscadeError
from ..frontend import read_tflite
from ..ir import Array, Graph
from ..judge.verification import check_available, compare, random_inputs, reference_steps
from ..pipeline.borders import INTERFACES, applied
from ..run.execution import run_tflite_steps, sram_touched, unplayable
from ..run.judgement import on_file, source_of
from ..util.files import MANIFEST_SUFFIX, read_whole, refuse_same, strangers, write_whole
from . import summary, trace
from .commands import DIFFERENT, DONE, compile_as_told, print_report

_TEXT_HAZARDS = 10
_MOST_INPUT_BYTES = 1 << 32
# What NumPy and zipfile raise for archives that are damaged, encrypted or claim more than there is room for.
_DAMAGED = (
    ValueError, EOFError, AttributeError, KeyError, OverflowError, NotImplementedError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error, struct.error, OSError,
)  # fmt: skip


def verify_model(args: argparse.Namespace) -> int:
    """`ethoscade verify`."""
    if args.artifact:
        return _verify_file(args)
    check_available()
    compiled = compile_as_told(args)
    check = compiled.verify(args.seeds, args.target, args.runs)
    print_report(args, summary.compile_json(compiled, {}, check), summary.compile_text(compiled, check))
    return DONE if check.ok else DIFFERENT


def _verify_file(args: argparse.Namespace) -> int:
    """`ethoscade verify --artifact`: a file that is compiled already."""
    said = {"--sram": args.sram, "--target": args.target is not None, "--io": args.io != "float"}
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
    print_report(args, report, summary.verification_text(compiled.name, source.name, check))
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
    print_report(args, report, "\n".join(lines))
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
    print_report(args, report, "\n".join(lines))
    return DONE


def _add_timing(args: argparse.Namespace, graph: Graph, report: dict[str, Any]) -> list[str]:
    """Adds the object `timing`; returns the lines that say the same."""
    timing = trace.time_file(graph, args.system_config, args.memory_mode, args.config)
    report["timing"] = trace.timing_json(timing)
    written = [f"wrote {trace.write_trace(timing, args.trace)}"] if args.trace else []
    return [trace.timing_text(timing), *written]


def _timed(args: argparse.Namespace) -> bool:
    return bool(args.timing or args.trace)


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
