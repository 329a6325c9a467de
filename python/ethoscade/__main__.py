"""The command line: `ethoscade compile | frontier | verify | simulate | new | build | run | ...`.

Owns arguments and exit status: 0 done, 1 the model, the configuration or the budget is at fault (one sentence on
stderr), 2 wrong usage, 3 a verification found a difference, 130 interrupted. What the commands do is in
`report.commands`, `report.runs`, `report.plan_memory` and `report.projects`. A command imports the one that it needs,
so that `--version` and `--help` do not wait for NumPy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from ._core import __version__
from .errors import BudgetError, EthoscadeError
from .report import console

_MOST_DIGITS = 20
# Options of commands that compile, by their names in the arguments.
_OF_COMPILING = (
    "accelerator", "system_config", "memory_mode", "config", "sram", "optimise", "io", "epsilon", "keep_dead_channels",
    "weight_encoder", "kernels", "module_name", "weights",
)  # fmt: skip
INTERRUPTED = 130
"""What shells report of a program that Ctrl-C ended: 128 and the signal's number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    _hold_closed_streams()
    args = argparse.Namespace()
    try:
        args = _parser().parse_args(arguments)
        status: int = args.run(args)
        return status
    except console.ReaderGone:
        return 1
    except console.OutputError as error:
        console.complain(str(error))
        return 1
    except EthoscadeError as error:
        return _refuse(error, args)
    except KeyboardInterrupt:
        console.complain("interrupted")
        return INTERRUPTED
    except MemoryError:
        console.complain("there is not enough memory for this")
        return 1
    except OSError as error:
        # What is nobody's file in particular: no folder for temporary files, no process to be had.
        console.complain(f"the system refused: {error}")
        return 1


def _refuse(error: EthoscadeError, args: argparse.Namespace) -> int:
    """Say what is wrong, in words and where asked for as JSON; returns the exit status."""
    from .report.summary import error_json, refusal_text

    console.complain(f"{error}{_hint(error, args)}")
    try:
        if getattr(args, "json", False):
            console.show(json.dumps(error_json(error)))
        elif getattr(args, "explain", False) and isinstance(error, BudgetError):
            console.show(refusal_text(error))
    except console.ReaderGone:
        pass
    except console.OutputError as lost:
        console.complain(str(lost))
    return 1


def _hold_closed_streams() -> None:
    """Keep the numbers of closed streams taken: a file opened later would get whatever libraries print."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        if stream is None:
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _hint(error: EthoscadeError, args: argparse.Namespace) -> str:
    """Bare numbers are bytes; whoever meant KiB by a small one is told so."""
    sram = getattr(args, "sram", None)
    if isinstance(error, BudgetError) and sram is not None and sram.isdecimal() and int(sram) < 16384:
        return f" (--sram {sram} counts bytes; {sram} KiB is --sram {sram}KiB)"
    return ""


class _Parser(argparse.ArgumentParser):
    """Prints help as everything else is printed: argparse would not notice that nobody gets it.

    `fill` adds a command's arguments once that command is what is asked for.
    """

    def __init__(
        self, *args: Any, fill: Callable[[argparse.ArgumentParser], None] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)
        return super().parse_known_args(args, namespace)

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is sys.stdout:
            console.show(message.rstrip("\n"))
        else:
            super()._print_message(message, file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ethoscade", description="Compile TFLite models for Arm Ethos-U NPUs inside the SRAM you have."
    )
    parser.add_argument("--version", action="version", version=f"ethoscade {__version__}")
    sub = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (fill, text) in _COMMANDS.items():
        sub.add_parser(name, help=text, description=text, fill=fill)
    return parser


def _compile(command: argparse.ArgumentParser) -> None:
    from .codegen.bundle import ARTEFACTS
    from .report.several import compile_command

    command.set_defaults(run=compile_command)
    _add_json(command)
    command.add_argument("models", metavar="MODEL", nargs="+", help="a quantised .tflite file, or several")
    command.add_argument("-o", "--output", "--output-dir", metavar="DIR", default="out", help="folder (default: out)")
    _add_target(command)
    _add_budget(command)
    command.add_argument(
        "--emit", type=_artefacts, default=("tflite",), metavar="LIST", help=f"of {','.join(ARTEFACTS)}; default tflite"
    )
    _add_c(command)
    command.add_argument(
        "--explain", action="store_true", help="say how the network is cut and what is alive at its peak"
    )
    command.add_argument("--verify", action="store_true", help="compare with the reference interpreter afterwards")
    command.add_argument("--seeds", type=_positive, default=3, help="random inputs to verify on (default: 3)")
    _add_runs(command)


def _frontier(command: argparse.ArgumentParser) -> None:
    from .report.commands import frontier_of

    command.set_defaults(run=frontier_of)
    _add_json(command)
    command.add_argument("model", metavar="MODEL")
    _add_target(command)
    _add_interface(command)
    _add_epsilon(command)
    _add_dead_channels(command)
    _add_weight_encoder(command)
    command.add_argument("--plot", metavar="PNG", help="draw the curve (needs the extra 'report')")


def _verify(command: argparse.ArgumentParser) -> None:
    from .report.runs import verify_model

    command.set_defaults(run=verify_model)
    _add_json(command)
    command.add_argument("model", metavar="MODEL")
    _add_target(command)
    _add_budget(command)
    command.add_argument("--seeds", type=_positive, default=3, help="random inputs (default: 3)")
    _add_runs(command)
    command.add_argument(
        "--artifact", metavar="FILE", help="compare this compiled .tflite, ours or Vela's, with MODEL; compile nothing"
    )
    command.add_argument(
        "--target", choices=("simulator", "c"), help="what runs the network (default: simulator, or c without an NPU)"
    )


def _simulate(command: argparse.ArgumentParser) -> None:
    from .report.runs import simulate_artifact

    command.set_defaults(run=simulate_artifact)
    _add_json(command)
    command.add_argument("artifact", metavar="ARTIFACT", help="a .tflite with ethos-u operators, ours or Vela's")
    command.add_argument("--inputs", metavar="NPZ", help="inputs by name (default: random)")
    command.add_argument("--outputs", metavar="NPZ", help="where to write the outputs")
    command.add_argument("--seed", type=_natural, default=0, help="seed of the random inputs (default: 0)")
    command.add_argument(
        "--runs", type=_positive, metavar="N", help="run it N times in a row; arrays have an axis of N in front"
    )
    command.add_argument("--reference", metavar="MODEL", help="the original model to compare with")
    command.add_argument("--timing", action="store_true", help="say what it costs: cycles and bytes by operator")
    command.add_argument("--trace", metavar="FILE", help="where to write a Chrome/Perfetto trace; implies --timing")
    _add_system(command)


def _plan_memory(command: argparse.ArgumentParser) -> None:
    from .report import plan_memory

    command.set_defaults(run=plan_memory.command_line)
    plan_memory.add_arguments(command)


def _new(command: argparse.ArgumentParser) -> None:
    from .report.projects import new

    command.set_defaults(run=new)
    _add_json(command)
    command.add_argument(
        "--template", required=True, metavar="NAME", help="host, qemu-mps3-an547, cmsis, zephyr, or a file of your own"
    )
    command.add_argument("folder", metavar="DIR", help="where the project goes: a new or an empty folder")
    command.add_argument("model", metavar="MODEL", help="a quantised .tflite file")
    _add_for_project(command)


def _build(command: argparse.ArgumentParser) -> None:
    from .report.projects import build

    command.set_defaults(run=build)
    _add_json(command)
    command.add_argument("folder", metavar="DIR", help="a project")


def _flash(command: argparse.ArgumentParser) -> None:
    from .report.projects import flash

    command.set_defaults(run=flash)
    _add_json(command)
    command.add_argument("folder", metavar="DIR", help="a project")


def _run(command: argparse.ArgumentParser) -> None:
    from .report.projects import run

    command.set_defaults(run=run)
    _add_json(command)
    command.add_argument("place", metavar="DIR|MODEL", help="a project, or with --target a quantised .tflite file")
    command.add_argument(
        "--target", metavar="NAME", help="host, qemu, or another template: what to make of MODEL for this one run"
    )
    command.add_argument("--seeds", type=_positive, default=3, help="random inputs (default: 3)")
    _add_runs(command)
    _add_for_project(command)
    command.set_defaults(untold={name: command.get_default(name) for name in _OF_COMPILING})


def _supported_operators(command: argparse.ArgumentParser) -> None:
    from .report.commands import supported_operators

    command.set_defaults(run=supported_operators)
    _add_json(command)
    _add_target(command, only_accelerator=True)
    command.add_argument("--markdown", action="store_true", help="as a Markdown table")


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "compile": (_compile, "compile a model and write artefacts"),
    "frontier": (_frontier, "print SRAM against cycles, without code generation"),
    "verify": (_verify, "compile and compare every output with the reference"),
    "simulate": (_simulate, "run a compiled .tflite on the simulated NPU"),
    "new": (_new, "make a firmware project for a model"),
    "build": (_build, "build a project's firmware"),
    "flash": (_flash, "build a project's firmware and bring it to the board"),
    "run": (_run, "run a project, or a model on an emulated board, and compare with the reference"),
    "plan-memory": (_plan_memory, "place buffers of a CSV file in memory"),
    "supported-ops": (_supported_operators, "list what runs on the NPU"),
}


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print exactly one JSON object")


def _add_target(parser: argparse.ArgumentParser, only_accelerator: bool = False) -> None:
    from .target import ACCELERATORS, TARGETS

    parser.add_argument(
        "--accelerator",
        "--accelerator-config",
        default="ethos-u55-256",
        metavar="NAME",
        help=f"one of {', '.join(ACCELERATORS if only_accelerator else TARGETS)} (default: ethos-u55-256)",
    )
    if not only_accelerator:
        _add_system(parser)


def _add_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system-config", metavar="NAME", help="system configuration of the vela.ini")
    parser.add_argument("--memory-mode", metavar="NAME", help="memory mode of the vela.ini")
    parser.add_argument("--config", metavar="VELA_INI", help="configuration file (default: ethos-u-vela's)")


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sram", "--arena-cache-size", metavar="SIZE", help="budget, e.g. 300KiB or 307200")
    parser.add_argument(
        "--optimise",
        choices=("performance", "size"),
        default="performance",
        help="the fastest that fits, or the smallest (default: performance)",
    )
    _add_interface(parser)
    _add_epsilon(parser)
    _add_dead_channels(parser)
    _add_weight_encoder(parser)
    parser.add_argument(
        "--kernels", metavar="FILE", help="C functions to call in the place of ours (docs/firmware.md has the format)"
    )


def _add_c(parser: argparse.ArgumentParser) -> None:
    from .codegen.c.options import WEIGHTS, WORKSPACES

    group = parser.add_argument_group("C sources and MLF", "docs/firmware.md says what each is good for")
    group.add_argument(
        "--module-name", metavar="NAME", help="<mod> of all names in C (default: the model's, lower case)"
    )
    group.add_argument(
        "--workspace",
        choices=WORKSPACES,
        default=WORKSPACES[0],
        help="the arena: an array of the sources, or memory that the caller hands to every run (default: internal)",
    )
    group.add_argument(
        "--share-workspace", action="store_true", help="several models run in one arena, one after the other"
    )
    group.add_argument(
        "--workspace-io", action="store_true", help="inputs and outputs stay in the workspace, and are not copied"
    )
    group.add_argument(
        "--weights",
        choices=WEIGHTS,
        default=WEIGHTS[0],
        help="as a C array, from a .bin file by an assembler file, or from the caller's pool (default: auto, "
        "which is incbin above 256 KiB, and in an MLF array)",
    )


def _add_for_project(parser: argparse.ArgumentParser) -> None:
    from .codegen.c.options import WEIGHTS

    _add_target(parser)
    _add_budget(parser)
    parser.add_argument("--module-name", metavar="NAME", help="<mod> of all names in C (default: the model's)")
    parser.add_argument("--weights", choices=WEIGHTS[:3], default=WEIGHTS[0], help="as for compile (default: auto)")


def _add_interface(parser: argparse.ArgumentParser) -> None:
    from .report.commands import INTERFACES

    parser.add_argument(
        "--io",
        choices=INTERFACES,
        default="float",
        help="inputs and outputs as the file has them, or quantised where it has float (default: float)",
    )


def _add_epsilon(parser: argparse.ArgumentParser) -> None:
    from .report.commands import EPSILON

    parser.add_argument(
        "--epsilon",
        type=_fraction,
        default=EPSILON,
        metavar="E",
        help=f"leave out a choice where a leaner one is at most this much slower; 0 for exact (default: {EPSILON})",
    )


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=_positive,
        metavar="N",
        help="runs in a row on each seed (default: 1, or 3 of networks with state)",
    )


def _add_dead_channels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-dead-channels",
        action="store_true",
        help="keep channels that hold one value whatever the input, or that nobody reads",
    )


def _add_weight_encoder(parser: argparse.ArgumentParser) -> None:
    from .codegen.streams import WEIGHT_ENCODERS

    parser.add_argument(
        "--weight-encoder",
        choices=WEIGHT_ENCODERS,
        default=WEIGHT_ENCODERS[0],
        help=f"who compresses weights (default: {WEIGHT_ENCODERS[0]})",
    )


def _artefacts(text: str) -> tuple[str, ...]:
    from .codegen.bundle import ARTEFACTS

    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in names if name not in ARTEFACTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of {', '.join(ARTEFACTS)}")
    return names


def _fraction(text: str) -> Fraction:
    from .util.arguments import number_of, shown

    number = number_of(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number such as 1/64 or 0.02")
    return number


def _positive(text: str) -> int:
    return _at_least(1, text)


def _natural(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    from .util.arguments import shown

    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a whole number of at least {least}, and at most {_MOST_DIGITS} digits"
        )
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
