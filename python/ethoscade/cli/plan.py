"""`ethoscade plan`: arena against cycles of a model on a device by description, without code generation."""

from __future__ import annotations

import argparse

from ..ir import Operator
from ..pipeline.planning import planned
from ..report import summary
from ..targets.device_files import READY_DEVICES
from ..util.files import refuse_same
from . import arguments
from .common import DONE, model_of, print_report
from .working import working


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command)
    command.add_argument(
        "--device",
        required=True,
        metavar="NAME",
        help=f"{', '.join(READY_DEVICES)}, or a TOML file (docs/devices.md has the format)",
    )
    arguments.add_epsilon(command)
    arguments.add_dead_channels(command)
    command.add_argument("--plot", metavar="PNG", help="draw the curve (needs the extra 'report')")


def run(args: argparse.Namespace) -> int:
    """`ethoscade plan`."""
    refuse_same({"the model": args.model, "--device": args.device}, {"--plot": args.plot})
    with working(args) as progress:
        outline, curve = planned(model_of(args.model), args.device, args.epsilon, not args.keep_dead_channels, progress)
    if args.plot:
        from ..report import plot

        named = plot.NamedCurve(outline.source.name, curve)
        plot.frontiers([named], f"{outline.source.name} on {outline.device.name}", args.plot)
    drawn = f"\nwrote {args.plot}" if args.plot else ""
    report = {
        **summary.frontier_json(curve),
        "model": outline.source.name,
        "device": outline.device.name,
        "constant_bytes": outline.constant_bytes,
        "elsewhere": [{"name": op.name, "kind": op.kind} for op in outline.elsewhere],
    }
    text = f"'{outline.source.name}' on {outline.device.name}, bytes of its arena '{outline.device.arena.name}'\n"
    print_report(args, report, text + summary.frontier_text(curve) + _elsewhere(outline.elsewhere) + drawn)
    return DONE


def _elsewhere(left: tuple[Operator, ...]) -> str:
    """The operators that no engine can run, by kind."""
    if not left:
        return ""
    kinds = [op.kind for op in left]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return f"\nnot counted, as no engine can run them: {counted}"
