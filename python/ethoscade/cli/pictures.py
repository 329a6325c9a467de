"""`--report` and `--plot` of `ethoscade compile`: a page and a picture of what was compiled.

Owns these options and what they write. The page's frontier is the whole one, which a compilation searches only for a
knee.
"""

from __future__ import annotations

import argparse

from ..errors import ConfigError
from ..pipeline.compiled import Compiled, Curve
from ..pipeline.prepared import frontier
from ..util.files import refuse_same
from .common import of_network


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of a command that compiles."""
    group = command.add_argument_group("pictures", "docs/report.md says how to read them")
    group.add_argument("--report", metavar="HTML", help="a page about the network: SRAM map, frontier, cycles, tables")
    group.add_argument("--plot", metavar="PNG", help="the SRAM map as a picture (needs the extra 'report')")


def check(args: argparse.Namespace) -> None:
    """Raises `ConfigError` for pictures that cannot be drawn, before anything is compiled."""
    for option, path in (("--report", args.report), ("--plot", args.plot)):
        if path is not None and len(args.models) > 1:
            raise ConfigError(f"{option} is for one model, and several were given")
        if path is not None and "," in (args.sram or ""):
            raise ConfigError(f"{option} is for one budget, and --sram {args.sram} are several")
    refuse_same({"the model": args.models[0]}, {"--report": args.report, "--plot": args.plot})
    if args.plot is not None:
        from ..page.pictures import require

        require()


def write(args: argparse.Namespace, compiled: Compiled) -> dict[str, str]:
    """Writes what was asked for; the paths by option."""
    written = {}
    if args.report is not None:
        compiled.report(args.report, frontier=_whole(args, compiled), cpu=args.cpu)
        written["report"] = args.report
    if args.plot is not None:
        compiled.plot(args.plot)
        written["plot"] = args.plot
    return written


def _whole(args: argparse.Namespace, compiled: Compiled) -> Curve:
    """Every choice that there is: a compilation may know those alone that its answer needed."""
    if compiled.curve.is_whole:
        return compiled.curve
    return frontier(compiled.source.source, **of_network(args), epsilon=args.epsilon)
