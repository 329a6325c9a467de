"""What can be compiled for, as people and machines read it: boards, accelerators, and what a vela.ini has.

Owns the wording and the schema of `list-configs`. What the figures are is `targets`' and the file's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, get_args

from ..errors import ConfigError
from ..targets.boards import FIGURES, BoardDescription
from ..targets.configurations import MODE, SYSTEM, ConfigSection, ConfigurationFile, shipped_files
from ..targets.target import (
    ACCELERATORS,
    SIMULATED,
    Memory,
    Product,
    core_clock_hz,
    load_target,
    product_of,
    system_memory,
)

_PRODUCTS: tuple[Product, ...] = get_args(Product)
_AREAS = ("const_mem_area", "arena_mem_area", "cache_mem_area")


def configurations_json(file: ConfigurationFile, boards: Iterable[BoardDescription]) -> dict[str, Any]:
    """The object that `list-configs --json` prints."""
    return {
        "config": str(file.path),
        "shipped_files": list(shipped_files()),
        "boards": [_board(board) for board in boards],
        "accelerators": [
            {
                "name": chip.name,
                "macs": chip.macs,
                "cores": chip.cores,
                "compiled_for": chip.name in ACCELERATORS,
            }
            for chip in SIMULATED.values()
        ],
        "system_configs": [_system(file, name) for name in file.names(SYSTEM)],
        "memory_modes": [_mode(file, name) for name in file.names(MODE)],
    }


def configurations_text(found: dict[str, Any]) -> str:
    """The same for people."""
    boards = [
        [
            one["name"],
            one["accelerator"],
            f"{one['core_clock_hz'] / 1e6:g} MHz",
            _memories_text(one["memories"], one["core_clock_hz"]),
            f"{one['sram_bytes'] / 1024:,g} KiB",
            one["memory_mode"],
            one["title"] + ("; assumed: " + ", ".join(one["assumed"]) if one["assumed"] else ""),
        ]
        for one in found["boards"]
    ]
    chips = [
        [
            one["name"],
            f"{one['macs']} MACs",
            "" if one["compiled_for"] else "simulated only",
        ]
        for one in found["accelerators"]
    ]
    parts = [
        "boards (docs/boards.md has the sources, and how to describe one):",
        *_columns(boards),
        "",
        "accelerators:",
        *_columns(chips),
        "",
        f"system configurations of {found['config']}:",
        *_columns([_system_row(one) for one in found["system_configs"]]),
        "",
        f"memory modes of {found['config']}:",
        *_columns([_mode_row(one) for one in found["memory_modes"]]),
        "",
        f"configuration files of ethos-u-vela: {', '.join(found['shipped_files']) or 'none'}",
    ]
    return "\n".join(parts)


def boards_markdown(boards: Iterable[BoardDescription]) -> str:
    """The table of docs/boards.md, and where each figure comes from."""
    found = [_board(board) for board in boards]
    lines = [
        "| `--board` | what it is | NPU | clock | memories: bytes per cycle, latency of a read | its SRAM | mode |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found:
        memories = "; ".join(
            f"{of['name']} {of['bytes_per_cycle']:.3g}, {of['read_latency']} cycles" for of in one["memories"]
        )
        names = ", ".join(f"`{name}`" for name in (one["name"], *one["aliases"]))
        lines.append(
            f"| {names} | {one['title']} | {one['accelerator']} | {one['core_clock_hz'] / 1e6:g} MHz | {memories} | "
            f"{one['sram_bytes'] // 1024:,} KiB | {one['memory_mode']} |"
        )
    for one in found:
        lines += [
            "",
            f"### {one['name']}",
            "",
            f"{one['cpu']}. {one['note']}",
            "",
            "| figure | from |",
            "| --- | --- |",
        ]
        for figure in FIGURES:
            source = one["sources"].get(figure)
            lines.append(f"| {figure} | {source or 'assumed: ' + one['assumed'][figure]} |")
    return "\n".join(lines)


def _board(board: BoardDescription) -> dict[str, Any]:
    target = load_target(board=board.name)
    return {
        "name": board.name,
        "title": board.title,
        "aliases": list(board.aliases),
        "accelerator": board.accelerator,
        "system_config": board.system_config,
        "memory_mode": board.memory_mode,
        "core_clock_hz": target.core_clock_hz,
        "memories": [_memory(one) for one in dict.fromkeys((target.arena, target.cache, target.constants))],
        "sram_bytes": board.sram_bytes,
        "cpu": board.cpu,
        "note": board.note,
        "sources": dict(board.sources),
        "assumed": dict(board.assumed),
    }


def _system(file: ConfigurationFile, name: str) -> dict[str, Any]:
    """A system configuration for each product that it may be for; what is wrong with one that is none."""
    named = product_of(name)
    products = [product for product in _PRODUCTS if named in (None, product)]
    try:
        section = file.section(SYSTEM, name)
        return {
            "name": name,
            "product": named,
            "core_clock_hz": core_clock_hz(section),
            "memories": {product: [_memory(one) for one in _ports(section, product)] for product in products},
        }
    except ConfigError as error:
        return {"name": name, "error": str(error)}


def _ports(section: ConfigSection, product: Product) -> list[Memory]:
    names = dict.fromkeys(section.value(f"{port}_port") for port in ("axi0", "axi1"))
    return [system_memory(section, name, product) for name in names]


def _mode(file: ConfigurationFile, name: str) -> dict[str, Any]:
    try:
        section = file.section(MODE, name)
        areas = {area: section.value(area) for area in _AREAS}
        # An Ethos-U55 writes through one of its ports alone.
        products = ["u55", "u65"] if areas["arena_mem_area"] == areas["cache_mem_area"] else ["u65"]
        size = section.whole("arena_cache_size", 0, 1 << 62) if "arena_cache_size" in section.values else None
        return {"name": name, **areas, "arena_cache_bytes": size, "products": products}
    except ConfigError as error:
        return {"name": name, "error": str(error)}


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "name": memory.name,
        "bytes_per_cycle": float(Fraction(*memory.bytes_per_cycle)),
        "read_latency": memory.read_latency,
        "write_latency": memory.write_latency,
        "burst_bytes": memory.burst_bytes,
    }


def _memories_text(memories: Iterable[dict[str, Any]], clock_hz: float) -> str:
    return ", ".join(
        f"{one['name']} {one['bytes_per_cycle']:.3g} B/cycle ({one['bytes_per_cycle'] * clock_hz / 1e9:.3g} GB/s)"
        for one in memories
    )


def _system_row(one: dict[str, Any]) -> list[str]:
    if "error" in one:
        return [one["name"], one["error"]]
    words = [f"{product}: {_memories_text(of, one['core_clock_hz'])}" for product, of in one["memories"].items()]
    unknown = f"for the Ethos-{str(one['product']).upper()}, which nothing here compiles for"
    return [one["name"], f"{one['core_clock_hz'] / 1e6:g} MHz", "; ".join(words) or unknown]


def _mode_row(one: dict[str, Any]) -> list[str]:
    if "error" in one:
        return [one["name"], one["error"]]
    areas = ", ".join(f"{area.removesuffix('_mem_area')} {one[area]}" for area in _AREAS)
    size = "" if one["arena_cache_bytes"] is None else f", cache of {one['arena_cache_bytes']:,} bytes"
    return [one["name"], areas + size, "" if "u55" in one["products"] else "Ethos-U65 alone"]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its widest entry; the last one as it comes."""
    count = max((len(row) for row in rows), default=0)
    widths = [max((len(row[i]) for row in rows if i < len(row) - 1), default=0) for i in range(count)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows
    ]
