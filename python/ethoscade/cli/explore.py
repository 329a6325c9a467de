"""`ethoscade explore`: a compiled .tflite as files for Google's Model Explorer.

Owns its arguments and what is printed; graphs and numbers are `trace.graph`'s.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..frontend import read_tflite
from ..report import summary
from ..trace.files import record_file, target_of, time_file
from ..trace.graph import files
from ..util.files import MANIFEST_SUFFIX, write_together
from . import arguments
from .common import DONE, print_report


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    command.add_argument("artifact", metavar="ARTIFACT", help="a .tflite with ethos-u operators, ours or Vela's")
    command.add_argument("-o", "--output", "--output-dir", metavar="DIR", default="out", help="folder (default: out)")
    arguments.add_system(command)


def run(args: argparse.Namespace) -> int:
    """`ethoscade explore`."""
    graph = read_tflite(args.artifact)
    system = (args.system_config, args.memory_mode, args.config, args.board)
    made = files(record_file(graph, time_file(graph, *system), target_of(graph, *system)))
    folder = Path(args.output)
    written = [str(folder / name) for name in made]
    write_together(folder, made, f"{graph.name}_explorer{MANIFEST_SUFFIX}")
    drawn, *numbers = written
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "artifact": graph.name,
        "graph": drawn,
        "node_data": numbers,
    }
    lines = [*(f"wrote {path}" for path in written), "open them with:"]
    lines.append(f"  model-explorer {drawn} --node_data_paths={','.join(numbers)}")
    print_report(args, report, "\n".join(lines))
    return DONE
