"""The command line: `ethoscade compile | frontier | verify | simulate | new | build | run | ...`.

Owns the table of commands and the exit status: 0 done, 1 the model, the configuration or the budget is at fault (one
sentence on stderr), 2 wrong usage, 3 a verification found a difference, 130 interrupted, 143 terminated. Each command
is a file of `cli`, imported when it is asked for, so that `--version` and `--help` do not wait for NumPy.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ._core import __version__
from .cli import arguments as shared
from .cli import console
from .cli.examples import epilog
from .cli.working import logged
from .errors import BudgetError, EthoscadeError, ProjectError, VerificationError, shorten

INTERRUPTED = 130
TERMINATED = 143
"""What shells report of programs that Ctrl-C and SIGTERM ended: 128 and the signal's number."""

_COMMANDS = {
    "compile": ("compile", "add_arguments", "compile a model and write artefacts"),
    "check": ("check", "add_arguments", "say what runs where, why, and what would help; no search"),
    "frontier": ("frontier", "add_arguments", "print SRAM against cycles, without code generation"),
    "verify": ("verify", "add_arguments", "compile and compare every output with the reference"),
    "simulate": ("simulate", "add_arguments", "run a compiled .tflite on the simulated NPU"),
    "explore": ("explore", "add_arguments", "write a compiled .tflite as a graph for Model Explorer"),
    "sweep": ("sweep", "add_arguments", "ask many models on many targets within many budgets"),
    "new": ("projects", "add_new", "make a firmware project for a model"),
    "build": ("projects", "add_build", "build a project's firmware"),
    "flash": ("projects", "add_flash", "build a project's firmware and bring it to the board"),
    "run": ("projects", "add_run", "run a project, or a model on an emulated board, and compare with the reference"),
    "slide": ("slide", "add_arguments", "make a network of a sliding window take only new rows"),
    "plan": ("plan", "add_arguments", "print arena against cycles on a device by description"),
    "plan-memory": ("plan_memory", "add_arguments", "place buffers of a CSV file in memory"),
    "list-configs": ("list_configs", "add_arguments", "list boards, accelerators and what a vela.ini has"),
    "supported-ops": ("supported_ops", "add_arguments", "list what runs on the NPU"),
    "completion": ("completion", "add_arguments", "print a script that completes command lines in a shell"),
}
"""Of each command its file in `cli`, the function there that adds its arguments, and what it does."""

_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
"""Python looks for garbage after 700 new objects. A command makes many that stay, and few that refer to each other."""

_MATRIX_THREADS = "OPENBLAS_NUM_THREADS"
"""NumPy starts OpenBLAS, whose threads look for work for a while as fast as they can. There is none for them here."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM: whatever a command would clear away after Ctrl-C goes as well."""


def _terminate(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


def program() -> int:
    """`main` as all that its process does; returns the exit status."""
    os.environ.setdefault(_MATRIX_THREADS, "1")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        return main()
    finally:
        # Before it ends the interpreter looks for garbage among all objects there are. The process takes them with it.
        gc.freeze()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        return _status(arguments)
    finally:
        gc.set_threshold(*before)


def _status(arguments: Sequence[str] | None) -> int:
    """What `main` does."""
    _hold_closed_streams()
    args = argparse.Namespace()
    try:
        args = _parser().parse_args(arguments)
        with logged(args):
            status: int = args.run(args)
        return status
    except console.ReaderGone:
        return 1
    except console.OutputError as error:
        console.complain(str(error))
        return 1
    except EthoscadeError as error:
        return _refuse(error, args)
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    except TypeError as error:
        # An interrupt while the core reads the fields of an argument: it says that it could not read them.
        cause = _first_cause(error)
        if not isinstance(cause, KeyboardInterrupt):
            raise
        return _interrupted(cause)
    except MemoryError:
        console.complain("there is not enough memory for this")
        return 1
    except OSError as error:
        # What is nobody's file in particular: no folder for temporary files, no process to be had.
        console.complain(f"the system refused: {error}")
        return 1


def _interrupted(interrupt: KeyboardInterrupt) -> int:
    """Say how the command was stopped; returns the exit status."""
    is_terminated = isinstance(interrupt, _Terminated)
    console.complain("terminated" if is_terminated else "interrupted")
    return TERMINATED if is_terminated else INTERRUPTED


def _first_cause(error: BaseException) -> BaseException:
    """The exception that the others of a chain were raised from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _refuse(error: EthoscadeError, args: argparse.Namespace) -> int:
    """Say what is wrong, in words and where asked for as JSON; returns the exit status."""
    from .report.summary import error_json, refusal_text

    if isinstance(error, ProjectError | VerificationError):
        console.complain(error.sentence, output=error.output)
    else:
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
    """Where a default budget comes from; and a note on bare numbers, which are bytes and not KiB."""
    sram, board = getattr(args, "sram", None), getattr(args, "board", None)
    if isinstance(error, BudgetError) and sram is None and board is not None:
        return f" (the budget is what board '{board}' has for its NPU)"
    if isinstance(error, BudgetError) and sram is not None and sram.isdecimal() and 0 < int(sram) < 16384:
        return f" (--sram {sram} counts bytes; {sram} KiB is --sram {sram}KiB)"
    return ""


class _Parser(argparse.ArgumentParser):
    """Prints help as everything else is printed: argparse would not notice a closed stdout.

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

    def error(self, message: str) -> NoReturn:
        """See `argparse`; what was typed is cut where it is long."""
        super().error(shorten(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        if message and file is sys.stdout:
            console.show(message.rstrip("\n"))
        else:
            super()._print_message(message, file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ethoscade", description="Compile TFLite models for Arm Ethos-U NPUs inside the SRAM you have."
    )
    parser.set_defaults(parsers=_parsers)
    parser.add_argument("--version", action="version", version=f"ethoscade {__version__}")
    sub = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, function, text) in _COMMANDS.items():
        sub.add_parser(
            name,
            help=text,
            description=text,
            epilog=epilog(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            fill=_filler(module, function),
        )
    return parser


def _parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command, with all that it takes."""
    found = {}
    for name, (module, function, text) in _COMMANDS.items():
        found[name] = argparse.ArgumentParser(f"ethoscade {name}", description=text)
        _filler(module, function)(found[name])
    return found


def _filler(module: str, function: str) -> Callable[[argparse.ArgumentParser], None]:
    """What adds a command's arguments, importing its file once that command is what is asked for."""

    def fill(command: argparse.ArgumentParser) -> None:
        getattr(importlib.import_module(f".cli.{module}", __package__), function)(command)
        shared.add_talk(command)

    return fill


if __name__ == "__main__":
    sys.exit(program())
