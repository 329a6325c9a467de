"""`ethoscade frontier`: SRAM against cycles, without code generation, of one model and accelerator or of several."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..pipeline.compiled import Curve
from ..pipeline.prepared import frontier
from ..report import summary
from ..targets.boards import board_named
from ..targets.target import DEFAULT_ACCELERATOR
from ..util.files import refuse_same
from ..util.progress import Progress, one_of_many
from . import arguments
from .common import DONE, model_of, of_network, print_report, title_of
from .working import working

if TYPE_CHECKING:
    from ..report.plot import NamedCurve


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command, several=True)
    arguments.add_target(command)
    arguments.add_interface(command)
    arguments.add_epsilon(command)
    arguments.add_dead_channels(command)
    arguments.add_weight_encoder(command)
    command.add_argument(
        "--plot",
        metavar="PNG",
        help="draw the curves over each other, of several models and of --accelerator NAME,NAME (needs 'report')",
    )


def run(args: argparse.Namespace) -> int:
    """`ethoscade frontier`."""
    refuse_same({f"the model '{model}'": model for model in args.models}, {"--plot": args.plot})
    if args.plot:
        from ..page.pictures import require

        require()
    with working(args) as progress:
        curves = _curves(args, progress)
    if args.plot:
        from ..report import plot

        plot.frontiers(curves, _title(args, curves), args.plot)
    drawn = f"\nwrote {args.plot}" if args.plot else ""
    if len(curves) == 1:
        print_report(args, summary.frontier_json(curves[0].curve), summary.frontier_text(curves[0].curve) + drawn)
        return DONE
    told: dict[str, Any] = {"schema_version": summary.SCHEMA_VERSION}
    told["curves"] = [{"name": one.name, **summary.frontier_json(one.curve)} for one in curves]
    texts = [f"{one.name}\n{summary.frontier_text(one.curve)}" for one in curves]
    print_report(args, told, "\n\n".join(texts) + drawn)
    return DONE


def _curves(args: argparse.Namespace, progress: Progress | None) -> list[NamedCurve]:
    """One for each model on each accelerator, by what they differ in. Raises `ConfigError` for the same one twice."""
    from ..report.plot import NamedCurve

    accelerators = _accelerators(args)
    for what, given in (("MODEL", args.models), ("--accelerator", accelerators)):
        if twice := next((one for one in given if given.count(one) > 1), None):
            raise ConfigError(f"{what} has '{twice}' twice; give each once")
    found: list[NamedCurve] = []
    count = len(args.models) * len(accelerators)
    for name in args.models:
        model = model_of(name)
        for accelerator in accelerators:
            differs = [title_of(name)] if len(args.models) > 1 or len(accelerators) == 1 else []
            differs += [accelerator] if len(accelerators) > 1 else []
            curve = _curve(args, model, accelerator, one_of_many(progress, len(found), count))
            found.append(NamedCurve(", ".join(differs), curve))
    return found


def _accelerators(args: argparse.Namespace) -> list[str]:
    """Those named, or that of the board, or the default."""
    if args.accelerator is not None:
        found: list[str] = args.accelerator.split(",")
        return found
    return [DEFAULT_ACCELERATOR if args.board is None else board_named(args.board).accelerator]


def _curve(args: argparse.Namespace, model: str | bytes, accelerator: str, progress: Progress | None) -> Curve:
    options = of_network(args) | {"accelerator": accelerator}
    return frontier(model, **options, epsilon=args.epsilon, progress=progress)


def _title(args: argparse.Namespace, curves: list[NamedCurve]) -> str:
    """What all curves have in common: the model, the target with its clock."""
    common = [title_of(args.models[0])] if len(args.models) == 1 else []
    accelerators = _accelerators(args)
    common += accelerators if len(accelerators) == 1 else []
    clocks = {one.curve.core_clock_hz for one in curves}
    if len(clocks) == 1 and (clock := clocks.pop()):
        common.append(f"{clock / 1e6:,.0f} MHz")
    return ", ".join([*common, *filter(None, (args.board, args.system_config, args.memory_mode))])
