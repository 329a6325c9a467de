"""User-supplied kernels: a table that a user writes, and the calls that follow from it.

Owns the file's format: an INI file with a section for each of our functions that is replaced, named like it, with the
entries `function` (the C function called instead, of the same signature) and `workspace_bytes` (default 0: bytes that
the planner keeps for it in the arena, aligned to 16, and of which it gets the address as one argument more, behind all
others). Which functions there are the C files say.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources

from ...errors import ConfigError
from ...util.files import read_whole
from ...util.frozen import FrozenMap
from ..c.names import is_keyword
from ..kernel_table import KernelTable, ReplacementFunction
from .kernel import Call

_MOST_BYTES = 1 << 20
_MOST_WORKSPACE = 2**31 - 1
_ENTRIES = {"function", "workspace_bytes"}
_TYPES = "u?int(?:8|16|32|64)|float32"
_WORDS = {"SUM": "32|64", **dict.fromkeys(("TYPE", "FROM", "INTO", "OTHER", "STATE"), _TYPES)}
_PLACEHOLDER = re.compile("|".join(_WORDS))


def workspace_bytes(table: KernelTable, written: Call) -> int:
    """Bytes that a call works in beside its operands."""
    found = table.chosen.get(written.function)
    return written.workspace_bytes + (0 if found is None else found.workspace_bytes)


def replaced(table: KernelTable, written: Call, workspace: str) -> Call:
    """The call with the user's function, if there is one; `workspace` is a C expression of its address."""
    found = table.chosen.get(written.function)
    if written.workspace_bytes:
        written = replace(written, text=written.text.replace("WORKSPACE", workspace))
    if found is None:
        return written
    own = f"{workspace} + {written.workspace_bytes}" if written.workspace_bytes else workspace
    more = f", {own}" if found.workspace_bytes else ""
    text = re.sub(rf"\b{written.function}\((.*)\);", rf"{found.function}(\1{more});", written.text)
    declared = replace(
        written.sources[-1],
        function=written.function,
        instead=found.function,
        has_workspace=found.workspace_bytes > 0,
    )
    return Call(written.function, text, (declared,))


def read(path: str | os.PathLike[str]) -> KernelTable:
    """The table of a file. Raises `ConfigError` naming the section and entry that make no sense."""
    parser = configparser.ConfigParser(interpolation=None, default_section="", delimiters=("=",))
    try:
        parser.read_string(read_whole(path, _MOST_BYTES).decode("utf-8-sig"), str(path))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not a table of kernels: {str(error).splitlines()[0]}") from error
    found: dict[str, ReplacementFunction] = {}
    for section in parser.sections():
        known = functions()
        if not any(re.fullmatch(pattern, section) for pattern in known.values()):
            raise ConfigError(
                f"{path}: '{section}' is no function that the C kernels have; they have {', '.join(known)}"
            )
        found[section] = _entry(parser[section], section, path)
    return KernelTable(FrozenMap(found))


def _entry(entries: Mapping[str, str], section: str, path: str | os.PathLike[str]) -> ReplacementFunction:
    unknown = next((name for name in entries if name not in _ENTRIES), None)
    if unknown is not None:
        raise ConfigError(f"{path}: '{section}' has an entry '{unknown}'; there are {', '.join(sorted(_ENTRIES))}")
    function = entries.get("function", "").strip("\"'")
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", function) or is_keyword(function):
        raise ConfigError(f"{path}: function of '{section}' is '{function}'; it must be a name that C allows")
    text = entries.get("workspace_bytes", "0")
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > _MOST_WORKSPACE:
        raise ConfigError(
            f"{path}: workspace_bytes of '{section}' is '{text}'; it must be a whole number of 0 to {_MOST_WORKSPACE}"
        )
    return ReplacementFunction(function, int(text))


@cache
def functions() -> Mapping[str, str]:
    """The functions that calls name, with placeholders for types as `texts` has them, and the pattern of each."""
    folder = resources.files(__package__).joinpath("c")
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir(), key=lambda f: f.name)}
    works = {
        "binary.c": _defined(texts, r"(\w+)_of_(?:TYPE|int32|float32)"),
        "real_loop.c": _defined(texts, r"(real_\w+)(?=\(float value, const float\* stage)"),
        "reduce_extreme.c": ["maximum", "minimum"],
    }
    names = []
    for file, text in texts.items():
        # What a file is for stands at its end.
        found = [] if file == "store.c" else re.findall(r"^static void (\w+)\(", text, re.MULTILINE)[-1:]
        names += [name.replace("WORK", work) for name in found for work in works.get(file, ["WORK"])]
    return FrozenMap(
        {name: _PLACEHOLDER.sub(lambda word: f"(?:{_WORDS[word.group()]})", name) for name in sorted(names)}
    )


def _defined(texts: Mapping[str, str], name: str) -> list[str]:
    """The functions of such a name that some file defines."""
    found = (re.search(rf"^static \w+ {name}\(?", text, re.MULTILINE) for text in texts.values())
    return [one.group(1) for one in found if one is not None and one.group(1) != "logistic"]
