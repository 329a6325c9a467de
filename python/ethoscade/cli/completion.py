"""`ethoscade completion`: a script that teaches a shell the commands, their options and what these take.

Owns the scripts of bash, zsh and fish. What there is to complete is read off the parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..codegen.bundle import ARTEFACTS
from ..project.folder import ALIASES
from ..project.templates import TEMPLATES
from ..targets.boards import known_boards
from ..targets.configurations import MODE, SYSTEM, read_configuration
from ..targets.device_files import READY_DEVICES
from ..targets.target import TARGETS
from ..util.records import dataclass
from . import console
from .common import DONE

# What options take that are no choices of the parser's, by their names in the arguments; the second also take files.
_VALUES: Mapping[str, Iterable[str]] = {
    "accelerator": TARGETS,
    "emit": ARTEFACTS,
    "system_config": read_configuration().names(SYSTEM),
    "memory_mode": read_configuration().names(MODE),
}
_VALUES_OR_FILES: Mapping[str, Iterable[str]] = {
    "board": known_boards(),
    "device": READY_DEVICES,
    "template": TEMPLATES,
    "target": (*TEMPLATES, *ALIASES),
}
# Metavars that stand for neither files nor folders.
_WORDS = (
    "ADDRESS", "BYTES", "E", "LIST", "MS", "N", "NAME", "NAME[=BYTES]", "NAME[@CLOCK]", "PERCENT", "SECONDS", "SIZE",
    "TARGET",
)  # fmt: skip
_FOLDER = "DIR"


@dataclass(frozen=True)
class Completable:
    """An option by its `names`, or without any an argument: what it takes, if anything."""

    names: tuple[str, ...]
    about: str
    takes_value: bool
    values: tuple[str, ...]
    files: bool
    folders: bool


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    command.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help=f"one of {', '.join(_SCRIPTS)}")


def run(args: argparse.Namespace) -> int:
    """`ethoscade completion`."""
    parsers: Mapping[str, argparse.ArgumentParser] = args.parsers()
    console.show(_SCRIPTS[args.shell]({name: completables(parser) for name, parser in parsers.items()}).rstrip())
    return DONE


def completables(parser: argparse.ArgumentParser) -> tuple[Completable, ...]:
    """All options and arguments of a command, as its parser has them."""
    return tuple(_completable(action) for action in parser._actions)


def _completable(action: argparse.Action) -> Completable:
    takes = action.nargs != 0
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    open_ended = () if action.choices else _VALUES_OR_FILES.get(action.dest, ())
    known = (action.choices or _VALUES.get(action.dest) or open_ended) if takes else ()
    folders = takes and metavar == _FOLDER
    is_path = bool(metavar) and metavar not in _WORDS
    files = bool(open_ended) or (takes and not known and not folders and is_path)
    about = " ".join((action.help or metavar).replace("%%", "%").split())
    return Completable(tuple(action.option_strings), about, takes, tuple(map(str, known)), files, folders)


Commands = Mapping[str, Sequence[Completable]]


def _bash(commands: Commands) -> str:
    names = " ".join(commands)
    lines = [
        "# bash completion for ethoscade",
        '_ethoscade_words() { local IFS=$\' \\t\\n\'; COMPREPLY+=($(compgen -W "$1" -- "$current")); }',
        '_ethoscade_paths() { local IFS=$\'\\n\'; COMPREPLY+=($(compgen "$1" -- "$current")); }',
        "_ethoscade() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" command="" word',
        "    COMPREPLY=()",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do',
        f'        case "$word" in {"|".join(commands)}) command="$word"; break ;; esac',
        "    done",
        '    case "$command $previous" in',
    ]
    for name, found in commands.items():
        for one in found:
            if one.names and one.takes_value:
                pattern = "|".join(f'"{name} {option}"' for option in one.names)
                lines.append(f"        {pattern}) {' '.join([*_bash_calls(one), 'return'])} ;;")
    lines += ["    esac", '    case "$command" in', f'        "") _ethoscade_words "{names} --help --version" ;;']
    for name, found in commands.items():
        options = " ".join(option for one in found for option in one.names)
        calls = list(dict.fromkeys(call for one in found if not one.names for call in _bash_calls(one)))
        lines += [
            f"        {name})",
            f'            if [[ "$current" == -?* ]]; then _ethoscade_words "{options}"; return; fi',
            f"            {' '.join([*calls, ':'])} ;;",
        ]
    lines += ["    esac", "}", "complete -o filenames -F _ethoscade ethoscade"]
    return "\n".join(lines)


def _bash_calls(one: Completable) -> list[str]:
    calls = [f'_ethoscade_words "{" ".join(one.values)}";'] if one.values else []
    return calls + (["_ethoscade_paths -f;"] if one.files else ["_ethoscade_paths -d;"] if one.folders else [])


def _zsh(commands: Commands) -> str:
    lines = [
        "#compdef ethoscade",
        "_ethoscade() {",
        "    local -a commands",
        f"    commands=({' '.join(commands)})",
        "    if (( CURRENT == 2 )); then compadd -a commands; return; fi",
        "    local command=${words[2]}",
        "    shift words; (( CURRENT-- ))",
        "    case $command in",
    ]
    for name, found in commands.items():
        specs = [spec for one in found for spec in _zsh_specs(one)]
        lines += [f"        {name}) _arguments {' '.join(specs)} ;;"]
    lines += ["    esac", "}", '_ethoscade "$@"']
    return "\n".join(lines)


def _zsh_specs(one: Completable) -> list[str]:
    action = _zsh_action(one)
    if not one.names:
        return [_quoted(f"*:argument:{action}")]
    text = one.about
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    value = f":value:{action}" if one.takes_value else ""
    return [_quoted(f"{option}[{text}]{value}") for option in one.names]


def _zsh_action(one: Completable) -> str:
    words = f"({' '.join(one.values)})"
    if one.values and one.files:
        return f'_alternative "values:value:{words}" "files:file:_files"'
    return words if one.values else "_files" if one.files else "_files -/" if one.folders else " "


def _fish(commands: Commands) -> str:
    lines = ["# fish completion for ethoscade", "complete -c ethoscade -f"]
    for name, found in commands.items():
        lines.append(f"complete -c ethoscade -n __fish_use_subcommand -a {name}")
        here = f"complete -c ethoscade -n '__fish_seen_subcommand_from {name}'"
        for one in found:
            flags = [f"-{'l' if option.startswith('--') else 's'} {option.lstrip('-')}" for option in one.names]
            takes = ["-r"] if one.names and one.takes_value else []
            paths = ["-F"] if one.files or one.folders else []
            values = ["-a", _quoted(" ".join(one.values))] if one.values else []
            about = ["-d", _quoted(one.about)] if one.names else []
            if flags or paths or values:
                lines.append(" ".join([here, *flags, *takes, *paths, *values, *about]))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A text as a word of a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: Mapping[str, Callable[[Commands], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
