"""`ethoscade list-configs`: boards, accelerators, and the configurations and memory modes of a vela.ini."""

from __future__ import annotations

import argparse

from ..report import summary
from ..report.configurations import boards_markdown, configurations_json, configurations_text
from ..targets.boards import known_boards
from ..targets.configurations import read_configuration
from . import arguments, console
from .common import DONE, print_report


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_config(command)
    command.add_argument("--markdown", action="store_true", help="the table of boards with its sources, as Markdown")


def run(args: argparse.Namespace) -> int:
    """`ethoscade list-configs`."""
    if args.markdown and not args.json:
        console.show(boards_markdown(known_boards().values()))
        return DONE
    found = configurations_json(read_configuration(args.config), known_boards().values())
    print_report(args, {"schema_version": summary.SCHEMA_VERSION, **found}, configurations_text(found))
    return DONE
