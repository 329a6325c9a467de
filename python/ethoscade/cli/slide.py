"""`ethoscade slide`: the network of a sliding window taking only new rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..analysis.macs import macs_of
from ..frontend import read_tflite
from ..ir import Graph
from ..report import summary
from ..sliding.file import Sliding, slide_graph
from ..util.files import refuse_same, write_whole
from . import arguments
from .common import DONE, STDIN, model_of, print_report, title_of


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command)
    command.add_argument(
        "--rows",
        type=arguments.positive,
        default=1,
        metavar="N",
        help="new rows of the window in each run (default: 1)",
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", help="the .tflite (default: beside the model, with _sliding in its name)"
    )


def run(args: argparse.Namespace) -> int:
    """`ethoscade slide`."""
    before = read_tflite(model_of(args.model))
    target = Path(args.output or _beside(args.model))
    refuse_same({"the model": args.model}, {"--output": str(target)})
    found = slide_graph(before, args.rows)
    write_whole(target, found.model)
    macs = [_macs(graph) for graph in (before, read_tflite(found.model))]
    report = {
        "schema_version": summary.SCHEMA_VERSION,
        "model": before.name,
        "new_rows": found.new_rows,
        "window_rows": found.window_rows,
        "kept_bytes": found.kept_bytes,
        "macs": {"window": macs[0], "sliding": macs[1]},
        "window_operators": list(found.window_operators),
        "output": str(target),
    }
    print_report(args, report, _text(found, macs) + f"\nwrote {target}")
    return DONE


def _beside(model: str) -> str:
    path = Path(title_of(model) if model == STDIN else model)
    return str(path.with_name(f"{path.stem}_sliding.tflite"))


def _macs(graph: Graph) -> int:
    return sum(macs_of(graph, op) for op in graph.operators)


def _text(found: Sliding, macs: list[int]) -> str:
    lines = [
        f"{found.new_rows} of {found.window_rows} rows are new in a run",
        f"kept for the next run: {found.kept_bytes:,} bytes",
        f"MACs in a run: {macs[1]:,} instead of {macs[0]:,}",
    ]
    lines += [f"reads the whole window: '{name}'" for name in found.window_operators]
    return "\n".join(lines)
