"""Arguments that several commands share, and the types of their values.

Owns the words of options; what is done with them is in the command's own module. What an option's choices or defaults
come from is imported where it is added, so that `--version` and `--help` do not wait for NumPy.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

_MOST_DIGITS = 20
SYSTEM_OPTIONS = "--system-config, --memory-mode, --config and --board"
"""What `system_said` looks for."""
# Options of commands that compile, by their names in the arguments.
OF_COMPILING = (
    "accelerator", "system_config", "memory_mode", "config", "board", "input_memory", "stream_input", "stream_ahead",
    "stream_output", "sram", "optimise", "io", "epsilon", "keep_dead_channels", "weight_encoder", "kernels", "cmsis_nn",
    "module_name", "weights",
)  # fmt: skip


def add_json(parser: argparse.ArgumentParser) -> None:
    """One object on stdout."""
    parser.add_argument("--json", action="store_true", help="print exactly one JSON object")


def add_talk(parser: argparse.ArgumentParser) -> None:
    """How much is said on stderr."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but what is wrong")
    group.add_argument(
        "-v", "--verbose", action="count", default=0, help="log stages with sizes and seconds; -vv: all that there is"
    )


def add_model(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """The model, or several."""
    if several:
        parser.add_argument(
            "models", metavar="MODEL", nargs="+", help="a quantised .tflite file, or several; - for stdin"
        )
    else:
        parser.add_argument("model", metavar="MODEL", help="a quantised .tflite file; - for stdin")


def add_target(parser: argparse.ArgumentParser, only_accelerator: bool = False) -> None:
    """What is compiled for; `only_accelerator`: no system around it."""
    from ..targets.target import ACCELERATORS, DEFAULT_ACCELERATOR, TARGETS

    names = ACCELERATORS if only_accelerator else TARGETS
    parser.add_argument(
        "--accelerator",
        "--accelerator-config",
        default=DEFAULT_ACCELERATOR if only_accelerator else None,
        metavar="NAME",
        help=f"one of {', '.join(names)} (default: {'' if only_accelerator else 'the one of --board, or '}"
        f"{DEFAULT_ACCELERATOR})",
    )
    if not only_accelerator:
        add_system(parser)
        add_input(parser)


def add_system(parser: argparse.ArgumentParser) -> None:
    """The system configuration and memory mode, and the file that has them."""
    parser.add_argument("--system-config", metavar="NAME", help="system configuration of the vela.ini")
    parser.add_argument("--memory-mode", metavar="NAME", help="memory mode of the vela.ini")
    add_config(parser)
    parser.add_argument(
        "--board",
        metavar="NAME",
        help="a board of `ethoscade list-configs`, or a TOML file of your own: accelerator, configuration, memory "
        "mode, and its SRAM as the budget where --sram gives none",
    )


def add_input(parser: argparse.ArgumentParser) -> None:
    """Where the caller keeps the network's inputs, and in which pieces they arrive and outputs are taken."""
    parser.add_argument(
        "--input-memory",
        metavar="NAME",
        help="the memory of the system configuration where inputs lie, e.g. OffChipFlash, and are read as often as "
        "wanted (default: in the SRAM)",
    )
    parser.add_argument(
        "--stream-input",
        type=positive,
        metavar="ROWS",
        help="this number of the input's rows arrives at once, in order, each once, while the network runs (default: "
        "all of it is there beforehand)",
    )
    parser.add_argument(
        "--stream-ahead",
        action="store_true",
        help="with --stream-input, rows arrive while the NPU works on those before, in more SRAM",
    )
    parser.add_argument(
        "--stream-output",
        type=positive,
        metavar="ROWS",
        help="this number of the output's rows is taken at once, in order, while the network runs (default: all of it "
        "is there at the end)",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """The file that has configurations and memory modes."""
    parser.add_argument(
        "--config", metavar="VELA_INI", help="configuration file, or Arm/vela.ini of ethos-u-vela's folder (default)"
    )


def add_budget(parser: argparse.ArgumentParser) -> None:
    """How much SRAM, what is wanted of it, and all that changes what is compiled."""
    from ..pipeline.prepared import OPTIMISATIONS

    parser.add_argument("--sram", "--arena-cache-size", metavar="SIZE", help="budget, e.g. 300KiB or 307200")
    parser.add_argument(
        "--optimise",
        choices=OPTIMISATIONS,
        default=OPTIMISATIONS[0],
        help="of what fits the smallest within 1 %% of the fastest, the smallest, the knee, or the fastest "
        "(default: performance)",
    )
    add_interface(parser)
    add_epsilon(parser)
    add_dead_channels(parser)
    add_weight_encoder(parser)
    parser.add_argument(
        "--kernels",
        metavar="FILE",
        help="user-supplied kernels (docs/firmware.md has the format), or cmsis-nn",
    )
    parser.add_argument(
        "--cmsis-nn", metavar="DIR", help="the folder of CMSIS-NN, whose header is checked (default: $CMSIS_NN)"
    )


def add_c(parser: argparse.ArgumentParser) -> None:
    """What is chosen of the C sources and the MLF."""
    from ..codegen.c.options import EXECUTORS, WEIGHTS, WORKSPACES

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
    group.add_argument(
        "--executor",
        choices=EXECUTORS,
        default=EXECUTORS[0],
        help="with graph a run can also go call by call, and any live tensor be read in between (default: aot)",
    )


def add_for_project(parser: argparse.ArgumentParser) -> None:
    """What a project's network is compiled by."""
    from ..codegen.c.options import WEIGHTS

    add_target(parser)
    add_budget(parser)
    parser.add_argument("--module-name", metavar="NAME", help="<mod> of all names in C (default: the model's)")
    parser.add_argument("--weights", choices=WEIGHTS[:3], default=WEIGHTS[0], help="as for compile (default: auto)")


def add_interface(parser: argparse.ArgumentParser) -> None:
    """What the network's inputs and outputs are."""
    from ..pipeline.borders import INTERFACES

    parser.add_argument(
        "--io",
        choices=INTERFACES,
        default="float",
        help="inputs and outputs as the file has them, or quantised where it has float (default: float)",
    )


def add_epsilon(parser: argparse.ArgumentParser) -> None:
    """How close two choices may be."""
    from ..pipeline.compiler import EPSILON

    parser.add_argument(
        "--epsilon",
        type=fraction,
        default=EPSILON,
        metavar="E",
        help="drop a frontier point if one with less SRAM is within this fraction of its speed; 0 for exact "
        f"(default: {EPSILON})",
    )


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Runs in a row."""
    parser.add_argument(
        "--runs",
        type=positive,
        metavar="N",
        help="runs in a row on each seed (default: 1, or 3 of networks with state)",
    )


def add_dead_channels(parser: argparse.ArgumentParser) -> None:
    """Whether channels that do nothing stay."""
    parser.add_argument(
        "--keep-dead-channels",
        action="store_true",
        help="keep constant or unused channels",
    )


def add_weight_encoder(parser: argparse.ArgumentParser) -> None:
    """The weight encoder."""
    from ..codegen.streams import WEIGHT_ENCODERS

    parser.add_argument(
        "--weight-encoder",
        choices=WEIGHT_ENCODERS,
        default=WEIGHT_ENCODERS[0],
        help=f"the weight encoder (default: {WEIGHT_ENCODERS[0]})",
    )


def system_said(args: argparse.Namespace) -> bool:
    """Whether a system to compile for is named."""
    return bool(args.system_config or args.memory_mode or args.config or args.board)


def artefact_list(text: str) -> tuple[str, ...]:
    """A list of artefacts, each once, in the order told."""
    from ..codegen.bundle import ARTEFACTS

    names = tuple(dict.fromkeys(name for name in text.split(",") if name))
    unknown = [name for name in names if name not in ARTEFACTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of {', '.join(ARTEFACTS)}")
    return names


def fraction(text: str) -> Fraction:
    """An exact number: 1/64 or 0.02."""
    from ..util.arguments import number_of, shown

    number = number_of(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number such as 1/64 or 0.02")
    return number


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _at_least(1, text)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    from ..util.arguments import shown

    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or int(text) < least:
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a whole number of at least {least}, and at most {_MOST_DIGITS} digits"
        )
    return int(text)
