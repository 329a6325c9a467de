"""`ethoscade check`: what runs where, why, what it costs layer by layer and what would help; nothing is searched.

Owns its arguments.
"""

from __future__ import annotations

import argparse

from ..pipeline.check import check
from ..report.check import check_json, check_text
from . import arguments
from .common import DONE, model_of, of_network, print_report
from .working import working


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command)
    arguments.add_target(command)
    arguments.add_interface(command)
    arguments.add_dead_channels(command)
    arguments.add_weight_encoder(command)
    command.add_argument("--operators", action="store_true", help="list all operators, in the order in which they run")


def run(args: argparse.Namespace) -> int:
    """`ethoscade check`: done whatever is found."""
    with working(args) as progress:
        found = check(model_of(args.model), **of_network(args), progress=progress)
    print_report(args, check_json(found), check_text(found, args.operators))
    return DONE
