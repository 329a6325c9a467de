"""Devices by name and by file: the ready ones, and descriptions written as TOML.

Owns the file's keys (docs/devices.md). What a description means and which makes sense is for `devices` and the core.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..util.arguments import checked
from ..util.frozen import FrozenMap
from ..util.toml import TomlTable, read_toml
from .devices import DeviceDescription, Dma, Engine, cortex_m7, cortex_m55, matrix_npu
from .target import Memory

READY_DEVICES: Mapping[str, Callable[[], DeviceDescription]] = FrozenMap(
    {"cortex-m55": cortex_m55, "cortex-m7": cortex_m7, "matrix-npu": matrix_npu}
)
"""The devices that come along, by name."""
# How the core's complaints about a description begin: a field, an engine's, or a memory's by the memory's name.
_FIELD = re.compile(r"device '.*?': (\w+)(?:\[(\d+)\])?(?:\.(\w+))?(?: of the memory '(.*?)')?")


@checked()
def device_named(device: str | os.PathLike[str]) -> DeviceDescription:
    """A ready device by its name, or the one that a TOML file describes; what ends in ".toml" is a path.

    Raises `ConfigError` naming the devices that there are, or line and key of what is wrong in the file.
    """
    name = os.fspath(device)
    if name.endswith(".toml") or not isinstance(device, str):
        return _described(read_toml(name), Path(name).stem)
    ready = READY_DEVICES.get(name.lower().replace("_", "-"))
    if ready is None:
        raise ConfigError(
            f"unknown device '{name}'; known are {', '.join(READY_DEVICES)}; a device of your own is a file, such as "
            f"my_device.toml (docs/devices.md)"
        )
    return ready()


def _described(top: TomlTable, stem: str) -> DeviceDescription:
    memories = top.table("memories")
    by_name = {name: _memory(memories.table(name), name) for name in memories.of_each()}

    def named(key: str, name: str) -> Memory:
        if name not in by_name:
            raise top.wrong(
                key, f"is '{name}', which no table [memories.{name}] describes; there are {', '.join(by_name)}"
            )
        return by_name[name]

    arena, constants = (top.string(key) for key in ("arena", "constants"))
    spill = top.strings("spill", ())
    spilled = tuple(named("spill", name) for name in spill)
    fields: dict[str, Any] = {
        "name": top.string("name", stem),
        "engines": tuple(_engine(engine) for engine in top.tables("engines")),
        "constants": named("constants", constants),
        "arena": named("arena", arena),
        "spill": spilled if len(spilled) > 1 else next(iter(spilled), None),
        "buffer_bytes": top.size("buffer_bytes") if "buffer_bytes" in top else None,
        "dma": _dma(top.table("dma")) if "dma" in top else None,
        "layout": top.string("layout", "NHWC"),
    }
    top.end()
    try:
        return DeviceDescription(**fields)
    except ConfigError as error:
        raise _with_its_line(top, error, {"arena": (arena,), "constants": (constants,), "spill": spill}) from None


def _memory(table: TomlTable, name: str) -> Memory:
    memory = Memory(
        name,
        table.number("bytes_per_cycle").as_integer_ratio(),
        table.whole("read_latency"),
        table.whole("write_latency"),
        table.whole("burst_bytes"),
        table.size("size_bytes") if "size_bytes" in table else None,
    )
    table.end()
    return memory


def _engine(table: TomlTable) -> Engine:
    rates = table.table("rates")
    granule = table.wholes("granule", (1, 1, 1, 1))
    if len(granule) != 4:
        raise table.wrong("granule", "must be 4 numbers: height, width, input channels, output channels")
    engine = Engine(
        table.string("name"),
        FrozenMap({kind: rates.number(kind).as_integer_ratio() for kind in rates.of_each()}),
        (granule[0], granule[1], granule[2], granule[3]),
        table.whole("operation_cycles", 0),
        table.whole("instruction_cycles", 0),
    )
    table.end()
    return engine


def _dma(table: TomlTable) -> Dma:
    dma = Dma(table.whole("start_cycles", 0), table.whole("in_flight", 2))
    table.end()
    return dma


def _with_its_line(top: TomlTable, error: ConfigError, uses: Mapping[str, tuple[str, ...]]) -> ConfigError:
    """A complaint about a description, with the file and the line of the field that it is about."""
    match = _FIELD.match(str(error))
    place: tuple[str | int, ...] = ()
    if match is not None:
        field, index, inner, memory = match.groups()
        if memory is not None:
            place = ("memories", memory, field)
        elif inner is not None and field in uses:
            place = ("memories", uses[field][int(index or 0)], inner)
        else:
            place = tuple(part for part in (field, None if index is None else int(index), inner) if part is not None)
    return ConfigError(f"{top.name}, line {top.line_of(place)}: {error}")
