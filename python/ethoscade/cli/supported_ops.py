"""`ethoscade supported-ops`: what runs on the NPU, and by which limits."""

from __future__ import annotations

import argparse

from ..errors import ConfigError
from ..lowering import FAMILIES
from ..report import summary, support
from ..rewrites import FOLDED
from ..targets.target import ACCELERATORS
from . import arguments
from .common import DONE, print_report


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_target(command, only_accelerator=True)
    command.add_argument("--markdown", action="store_true", help="as a Markdown table")


def run(args: argparse.Namespace) -> int:
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
    print_report(args, report, text)
    return DONE
