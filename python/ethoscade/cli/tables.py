"""`--cpu`, `--csv` and `--addresses` of `compile`: what operators on the CPU cost, and tables as files.

Owns these options, what is refused of them, and the writing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from ..pipeline.compiled import Compiled
from ..targets.cpus import described
from ..util.files import refuse_same, write_whole


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds the options to a command's parser."""
    command.add_argument(
        "--cpu",
        metavar="NAME[@CLOCK]",
        help="estimate the operators on the CPU, e.g. cortex-m55 or cortex-m4/plain@64MHz (docs/cpu-time.md)",
    )
    command.add_argument(
        "--csv", metavar="FILE", help="write a row for each operator: cycles, bytes, MACs, SRAM (docs/csv.md)"
    )
    command.add_argument(
        "--addresses", metavar="FILE", help="write where everything lies: address, size and lifetime (docs/csv.md)"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse to write a table over a model or over the other one, and an unknown CPU. Raises `ConfigError`."""
    if args.cpu is not None:
        described(args.cpu)
    read = {f"the model '{model}'": model for model in args.models}
    refuse_same(read, {"--csv": args.csv, "--addresses": args.addresses})


def write(args: argparse.Namespace, compilations: Sequence[Compiled]) -> dict[str, str]:
    """Write the tables that are asked for; returns their paths by option. Raises `CodegenError`."""
    written = {}
    if args.csv or args.addresses:
        from ..report import tables
    if args.csv:
        written["csv"] = str(write_whole(args.csv, tables.operators_csv(compilations, args.cpu)))
    if args.addresses:
        written["addresses"] = str(write_whole(args.addresses, tables.addresses_csv(compilations)))
    return written


def listing(written: Mapping[str, str]) -> str:
    """A line for each file."""
    return "".join(f"\nwrote {path}" for path in written.values())
