"""What several commands share: their exit status, the compilation their options ask for, the report they print.

Owns no command; each is a file of this room.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..codegen.layout import ALIGNMENT_BYTES, CACHE_LINE_BYTES
from ..errors import ConfigError
from ..frontend.source import MAX_FILE_BYTES
from ..pipeline.compiled import Compiled
from ..pipeline.prepared import compile
from . import console
from .working import working

STDIN = "-"
"""The MODEL that comes from stdin."""
DONE = 0
FAULTY = 1
DIFFERENT = 3


def compile_as_told(args: argparse.Namespace, *, is_c: bool = False) -> Compiled:
    """The model of a command, compiled by its options; if it becomes C, the budget counts whole cache lines."""
    with working(args) as progress:
        compiled = compile(model_of(args.model), **told(args, is_c=is_c), progress=progress)
    tell_of_board(args, compiled)
    return compiled


def model_of(name: str) -> str | bytes:
    """What `compile` is to be given for a MODEL: its path, or what stdin holds where it is "-".

    Raises `ConfigError` for a stdin that is a terminal, closed, empty or larger than a model may be.
    """
    if name != STDIN:
        return name
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("MODEL is -, and nothing is piped into stdin; give a file, or pipe one: ... < net.tflite")
    try:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read stdin: {error.strerror or error}") from error
    if not data:
        raise ConfigError("MODEL is -, and stdin is empty")
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"cannot read stdin: it has more than {MAX_FILE_BYTES:,} bytes")
    return data


def title_of(name: str) -> str:
    """What a picture of a MODEL is called."""
    return "model" if name == STDIN else Path(name).stem


def tell_of_board(args: argparse.Namespace, compiled: Compiled) -> None:
    """Say so where the budget is more than the board has."""
    said = compiled.target.remark_on(compiled.budget_bytes)
    # With -v the library's own warning is there already.
    if said is not None and not args.verbose:
        remark(args, said)


def remark(args: argparse.Namespace, text: str) -> None:
    """Write a note to stderr, unless the command is quiet."""
    if not getattr(args, "quiet", False):
        console.complain(text)


def of_network(args: argparse.Namespace) -> dict[str, Any]:
    """A command's options on what is compiled, and for what, as all that read a model take them."""
    return {
        "accelerator": args.accelerator,
        "system_config": args.system_config,
        "memory_mode": args.memory_mode,
        "config": args.config,
        "board": args.board,
        "input_memory": args.input_memory,
        "stream_input": args.stream_input,
        "stream_ahead": args.stream_ahead,
        "stream_output": args.stream_output,
        "dead_channels": not args.keep_dead_channels,
        "weight_encoder": args.weight_encoder,
        "io": args.io,
    }


def told(args: argparse.Namespace, *, is_c: bool = False) -> dict[str, Any]:
    """A command's options as `compile` and `compile_many` take them."""
    return {
        **of_network(args),
        "sram": args.sram,
        "optimise": args.optimise,
        "epsilon": args.epsilon,
        "kernels": args.kernels,
        "cmsis_nn": args.cmsis_nn,
        "line_bytes": CACHE_LINE_BYTES if is_c else ALIGNMENT_BYTES,
    }


def print_report(args: argparse.Namespace, report: Mapping[str, Any], text: str) -> None:
    """Print a command's one report, as JSON where that is asked for."""
    console.show(json.dumps(report) if args.json else text)
