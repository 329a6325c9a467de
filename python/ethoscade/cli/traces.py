"""What `compile` writes for viewers of others: `--trace` and `--debug-db`.

Owns the two options, what is refused of them, and the writing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import ConfigError
from ..pipeline.compiled import Compiled
from ..util.files import refuse_same


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds both options to a parser."""
    command.add_argument("--trace", metavar="FILE", help="where to write a trace of an inference for ui.perfetto.dev")
    command.add_argument("--debug-db", metavar="FILE", help="where to write Vela's debug database of the .tflite (XML)")


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be written before anything is compiled. Raises `ConfigError`."""
    given = {"--trace": args.trace, "--debug-db": args.debug_db}
    named = [option for option, path in given.items() if path is not None]
    if named and len(args.models) > 1:
        raise ConfigError(f"{named[0]} is for one model, and several were given")
    if named and "," in (args.sram or ""):
        raise ConfigError(f"{named[0]} is for one budget, and --sram {args.sram} are several")
    if args.debug_db is not None and "tflite" not in args.emit:
        raise ConfigError(
            f"--debug-db is about the .tflite, and --emit {','.join(args.emit)} has none: add tflite to it"
        )
    read = {f"the model '{model}'": model for model in args.models}
    refuse_same(read, {**given, "--csv": args.csv, "--addresses": args.addresses})


def write(args: argparse.Namespace, compiled: Compiled) -> dict[str, str]:
    """Write what is asked for; returns the paths by option. Raises `CodegenError`."""
    written: dict[str, Path] = {}
    if args.trace is not None:
        written["trace"] = compiled.trace(args.trace, args.cpu)
    if args.debug_db is not None:
        written["debug_db"] = compiled.write_debug_database(args.debug_db)
    return {option: str(path) for option, path in written.items()}
