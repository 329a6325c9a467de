"""`ethoscade verify`: outputs compared with the reference, of a model compiled now or a file compiled before."""

from __future__ import annotations

import argparse

from ..errors import ConfigError
from ..frontend import read_tflite
from ..judge.verification import check_available
from ..pipeline.borders import INTERFACES, applied
from ..report import summary
from ..run.compiled_file import file_faults, maker_of
from ..run.judgement import on_file
from ..run.pairing import pairing_of, source_of
from ..util.progress import Stopwatch
from . import arguments
from .common import DIFFERENT, DONE, compile_as_told, model_of, print_report
from .working import working


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command)
    arguments.add_target(command)
    arguments.add_budget(command)
    command.add_argument("--seeds", type=arguments.positive, default=3, help="random inputs (default: 3)")
    arguments.add_runs(command)
    command.add_argument(
        "--artifact", metavar="FILE", help="compare this compiled .tflite, ours or Vela's, with MODEL; compile nothing"
    )
    command.add_argument(
        "--target", choices=("simulator", "c"), help="what runs the network (default: simulator, or c without an NPU)"
    )


def run(args: argparse.Namespace) -> int:
    """`ethoscade verify`."""
    if args.artifact:
        return _verify_file(args)
    check_available()
    compiled = compile_as_told(args)
    with working(args) as progress:
        check = compiled.verify(args.seeds, args.target, args.runs, progress=progress)
    print_report(args, summary.compile_json(compiled, {}, check), summary.compile_text(compiled, check))
    return DONE if check.ok else DIFFERENT


def _verify_file(args: argparse.Namespace) -> int:
    """`ethoscade verify --artifact`: a file that is compiled already."""
    said = {"--sram": args.sram, "--target": args.target is not None, "--io": args.io != "float"}
    if (wrong := [option for option, given in said.items() if given]) or arguments.system_said(args):
        raise ConfigError(
            f"{', '.join(wrong) or arguments.SYSTEM_OPTIONS} would say how to compile "
            f"'{args.model}', and '{args.artifact}' is compiled already: leave out one or the other"
        )
    check_available()
    compiled, source = read_tflite(args.artifact), read_tflite(model_of(args.model))
    # A file of ours may have had its float borders cut off.
    candidates = [applied(source, io)[0] for io in INTERFACES]
    with working(args) as progress:
        watch = Stopwatch(progress, ("verify",))
        watch.begin("verify")
        origin = source_of(compiled, candidates)
        check = on_file(compiled, origin, args.seeds, args.runs, watch.tick)
        watch.end()
    faults = [*file_faults(compiled), *pairing_of(compiled, origin).faults]
    report = {
        "schema_version": summary.SCHEMA_VERSION,
        "model": source.name,
        "artifact": compiled.name,
        "file_faults": faults,
        "verification": summary.verification_json(check),
    }
    lines = [f"{maker_of(compiled)} file is at fault: {fault}" for fault in faults]
    print_report(args, report, "\n".join([summary.verification_text(compiled.name, source.name, check), *lines]))
    return DONE if check.ok else DIFFERENT
