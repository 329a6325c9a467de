"""Boards by name: which NPU, at which clock, with which memories, and how much SRAM it may have.

Owns the table (`boards.toml`, with the source of every figure) and files of the same keys for boards of one's own. What
the figures come to is `target`'s.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from ..errors import ConfigError
from ..util.arguments import checked
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from ..util.toml import TomlTable, parse_toml, read_toml
from .configurations import FURTHER_RAM

FIGURES = ("accelerator", "clock", "bandwidths", "latencies", "sram", "cpu")
"""What each board of the table has a source for, or says to be assumed."""
_TABLE = Path(__file__).with_name("boards.toml")
# The memories of a vela.ini's system configuration, and the entries of each.
_AREAS = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_OF_AREA = ("clock_scale", "burst_length", "read_latency", "write_latency")


@dataclass(frozen=True)
class BoardDescription:
    """A board: what `accelerator`, `system_config` and `memory_mode` are on it, and what its NPU may have of SRAM.

    `system` is a system configuration of its own in Vela's words (`core_clock`, `Sram_clock_scale`, ...), empty where
    `system_config` names one of a vela.ini. `further_ram` are the same words about RAM called `FURTHER_RAM`, which the
    NPU reaches through the SRAM's port, empty where there is none, of `further_ram_bytes`. `sources` and `assumed` say
    for each of `FIGURES` where it comes from.
    """

    name: str
    title: str
    accelerator: str
    system_config: str
    memory_mode: str
    sram_bytes: int
    cpu: str = ""
    aliases: tuple[str, ...] = ()
    note: str = ""
    system: Mapping[str, str] = field(default_factory=lambda: FrozenMap({}))
    further_ram: Mapping[str, str] = field(default_factory=lambda: FrozenMap({}))
    further_ram_bytes: int = 0
    sources: Mapping[str, str] = field(default_factory=lambda: FrozenMap({}))
    assumed: Mapping[str, str] = field(default_factory=lambda: FrozenMap({}))


def known_boards() -> Mapping[str, BoardDescription]:
    """The table's boards by name."""
    return _table()


@checked()
def board_named(board: str | os.PathLike[str]) -> BoardDescription:
    """A board by its name or another name of it, or by the path of a TOML file that describes one.

    What ends in ".toml" is a path. Raises `ConfigError` naming the boards that there are, or line and key of what is
    wrong in the file.
    """
    name = os.fspath(board)
    if name.endswith(".toml") or not isinstance(board, str):
        top = read_toml(name)
        return _board(top, Path(name).stem)
    if (known := _of_table(name)) is not None:
        return known
    raise ConfigError(
        f"unknown board '{name}'; known are {', '.join(known_boards())}; a board of your own is a file, such as "
        f"my_board.toml (docs/boards.md)"
    )


@checked()
def names_board(text: str) -> bool:
    """Whether `board_named` would read a file by that name or find a board of the table.

    Raises `ConfigError` for what is no text.
    """
    return text.endswith(".toml") or _of_table(text) is not None


def _of_table(name: str) -> BoardDescription | None:
    """The table's board of that name, whatever its case."""
    wanted = name.lower().replace("_", "-")
    return next((one for one in known_boards().values() if wanted in (one.name, *one.aliases)), None)


@functools.cache
def _table() -> Mapping[str, BoardDescription]:
    top = parse_toml(_TABLE.read_text(encoding="utf-8"), _TABLE.name)
    return FrozenMap({name: _board(top.table(name), name) for name in top.of_each()})


def _board(table: TomlTable, name: str) -> BoardDescription:
    has_system = "system" in table
    further = table.table("further_ram") if "further_ram" in table else None
    found = BoardDescription(
        name=table.string("name", name),
        title=table.string("title", name),
        accelerator=table.string("accelerator"),
        system_config=table.string("system_config", table.string("name", name) if has_system else None),
        memory_mode=table.string("memory_mode", "Shared_Sram"),
        sram_bytes=table.size("sram"),
        cpu=table.string("cpu", ""),
        aliases=table.strings("aliases", ()),
        note=table.string("note", ""),
        system=_system(table.table("system")) if has_system else FrozenMap({}),
        further_ram=FrozenMap({}) if further is None else _area(further, FURTHER_RAM),
        further_ram_bytes=0 if further is None else further.size("size"),
        sources=_words(table, "sources"),
        assumed=_words(table, "assumed"),
    )
    table.end()
    if further is not None:
        further.end()
    return found


def _system(table: TomlTable) -> Mapping[str, str]:
    """A system configuration as a vela.ini would have it: entries in lower case, values as text."""
    found = {"core_clock": str(table.number("core_clock"))}
    for port in ("axi0_port", "axi1_port"):
        area = found[port] = table.string(port)
        if area not in _AREAS:
            raise table.wrong(port, f"is '{area}'; it must be one of {', '.join(_AREAS)}")
        found |= {f"{area}_{what}".lower(): str(table.number(f"{area}_{what}")) for what in _OF_AREA}
    table.end()
    return FrozenMap(found)


def _area(table: TomlTable, name: str) -> Mapping[str, str]:
    """The entries of one memory, whose table needs no name in front of them."""
    return FrozenMap({f"{name}_{what}".lower(): str(table.number(what)) for what in _OF_AREA})


def _words(table: TomlTable, key: str) -> Mapping[str, str]:
    """Sentences by figure."""
    if key not in table:
        return FrozenMap({})
    inner = table.table(key)
    for figure in inner.of_each():
        if figure not in FIGURES:
            raise inner.wrong(figure, f"is no figure of a board; these are {', '.join(FIGURES)}")
    return FrozenMap({figure: inner.string(figure) for figure in inner.of_each()})
