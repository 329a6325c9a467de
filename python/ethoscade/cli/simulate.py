"""`ethoscade simulate`: a compiled .tflite on the simulated NPU.

Owns its arguments, its effects and exit status, and the arrays that it reads and writes.
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
from ..judge.verification import random_inputs
from ..pipeline.borders import INTERFACES, applied
from ..report import summary, timing
from ..run.compiled_file import file_faults, maker_of
from ..run.execution import ExecutionResult, run_tflite_steps, sram_touched, unplayable
from ..run.judgement import Comparison, compare_file
from ..run.pairing import source_of
from ..trace.files import record_file, target_of, time_file
from ..trace.perfetto import write_trace
from ..util.files import MANIFEST_SUFFIX, read_whole, refuse_same, strangers, write_whole
from . import arguments
from .common import DIFFERENT, DONE, STDIN, model_of, print_report
from .working import working

_TEXT_HAZARDS = 10
_MOST_INPUT_BYTES = 1 << 32
# What NumPy and zipfile raise for archives that are damaged, encrypted or claim more than there is room for.
_DAMAGED = (
    ValueError, EOFError, AttributeError, KeyError, OverflowError, NotImplementedError, RuntimeError, MemoryError,
    zipfile.BadZipFile, zlib.error, struct.error, OSError,
)  # fmt: skip


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    command.add_argument(
        "artifact", metavar="ARTIFACT", help="a .tflite with ethos-u operators, ours or Vela's; - for stdin"
    )
    command.add_argument("--inputs", metavar="NPZ", help="inputs by name (default: random)")
    command.add_argument("--outputs", metavar="NPZ", help="where to write the outputs")
    command.add_argument("--seed", type=arguments.natural, default=0, help="seed of the random inputs (default: 0)")
    command.add_argument(
        "--runs",
        type=arguments.positive,
        metavar="N",
        help="run it N times in a row; arrays have an axis of N in front",
    )
    command.add_argument("--reference", metavar="MODEL", help="the original model to compare with")
    command.add_argument("--timing", action="store_true", help="say what it costs: cycles and bytes by operator")
    command.add_argument("--trace", metavar="FILE", help="where to write a trace for ui.perfetto.dev; implies --timing")
    arguments.add_system(command)


def run(args: argparse.Namespace) -> int:
    """`ethoscade simulate`."""
    if not _timed(args) and arguments.system_said(args):
        raise ConfigError(f"{arguments.SYSTEM_OPTIONS} say what to time on; add --timing or --trace")
    if args.artifact == args.reference == STDIN:
        raise ConfigError(f"the artifact and --reference are both {STDIN}; there is one stdin to read from")
    read = {"the artifact": args.artifact, "--inputs": args.inputs, "--reference": args.reference}
    refuse_same(read, {"--outputs": args.outputs, "--trace": args.trace})
    graph = read_tflite(model_of(args.artifact))
    if _timed(args) and not (args.inputs or args.outputs or args.reference) and (unknown := unplayable(graph)):
        return _time_only(args, graph, unknown)
    steps = _steps(args, graph)
    results, comparison = _run(args, graph, steps)
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
        "file_faults": (faults := [*file_faults(graph), *(comparison.faults if comparison else ())]),
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
    lines += [f"{maker_of(graph)} file is at fault: {fault}" for fault in faults]
    lines += [f"warning: {warning}" for warning in (*warnings, *mixed)]
    lines += [f"hazard: {message}" for message in found[:_TEXT_HAZARDS]]
    if len(found) > _TEXT_HAZARDS:
        lines.append(f"and {len(found) - _TEXT_HAZARDS:,} hazards more")
    if _timed(args):
        lines += _add_timing(args, graph, report)
    status = DONE
    if comparison:
        mismatches, largest = comparison.mismatches, comparison.max_abs_diff
        report["reference"] = {
            "elements": comparison.elements,
            "mismatches": mismatches,
            "max_abs_diff": summary.finite(largest),
            "not_judged": list(comparison.not_judged),
        }
        lines.append(f"reference: {mismatches:,} of {comparison.elements:,} elements differ (by up to {largest})")
        lines += [f"not judged: {told}" for told in comparison.not_judged]
        # Values that saturate in 32 bits are worth a warning, and no fault.
        status = DIFFERENT if mismatches or any(result.faults for result in results) else DONE
    print_report(args, report, "\n".join(lines))
    return status


def _run(
    args: argparse.Namespace, graph: Graph, steps: Sequence[Mapping[str, Array]]
) -> tuple[Sequence[ExecutionResult], Comparison | None]:
    """The runs, and what came of comparing them, where that was asked for."""
    if not args.reference:
        with working(args) as progress:
            return run_tflite_steps(graph, steps, progress=progress), None
    reference = read_tflite(model_of(args.reference))
    source = source_of(graph, [applied(reference, io)[0] for io in INTERFACES])
    with working(args) as progress:
        comparison = compare_file(graph, source, steps, args.seed, progress)
    return comparison.results, comparison


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
    """The costs of a network that cannot be run, for want of kernels for its operators on the CPU."""
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
    system = (args.system_config, args.memory_mode, args.config, args.board)
    reports = time_file(graph, *system)
    report["timing"] = timing.timing_json(reports)
    lines = [timing.timing_text(reports)]
    if args.trace:
        lines.append(f"wrote {write_trace(record_file(graph, reports, target_of(graph, *system)), args.trace)}")
    return lines


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
