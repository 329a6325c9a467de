"""The device compiled for: accelerator, system configuration, memory mode, and the budget as bytes.

Owns the accelerators' parameters and the reading of vela.ini files. Knows nothing of networks.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from .errors import ConfigError
from .util.arguments import checked, exactly, number_of, shown
from .util.files import read_whole


@dataclass(frozen=True)
class Accelerator:
    """An Ethos-U variant (ETHOS-U TRM; micro-block is height, width, OFM depth)."""

    name: str
    macs: int
    product: str
    micro_block: tuple[int, int, int]
    shram_banks: int
    cores: int = 1


# What the simulator runs and times.
SIMULATED: dict[str, Accelerator] = {
    a.name: a
    for a in (
        Accelerator("ethos-u55-32", 32, "u55", (1, 1, 4), 16),
        Accelerator("ethos-u55-64", 64, "u55", (1, 1, 8), 16),
        Accelerator("ethos-u55-128", 128, "u55", (1, 2, 8), 24),
        Accelerator("ethos-u55-256", 256, "u55", (2, 2, 8), 48),
        Accelerator("ethos-u65-256", 256, "u65", (2, 2, 8), 48),
        Accelerator("ethos-u65-512", 512, "u65", (2, 2, 8), 48, cores=2),
    )
}
# What code is generated for: one core.
ACCELERATORS: dict[str, Accelerator] = {name: a for name, a in SIMULATED.items() if a.cores == 1}
NO_NPU = "none"
"""The accelerator of a device without one: every operator is the CPU's."""
TARGETS = (*ACCELERATORS, NO_NPU)
"""What a model can be compiled for."""


@dataclass(frozen=True)
class Memory:
    """A memory as the NPU sees it.

    `bytes_per_cycle` is the port's width (8 on U55, 16 on U65) times the configuration's clock scale, as an exact
    fraction (numerator, denominator). Latencies in NPU cycles, burst length in bytes. `size_bytes` is None where it is
    not known.
    """

    name: str
    bytes_per_cycle: tuple[int, int]
    read_latency: int
    write_latency: int
    burst_bytes: int
    size_bytes: int | None = None

    @property
    def is_sram(self) -> bool:
        """Whether what lies here counts against the SRAM budget."""
        return self.name.lower().startswith("sram")


@dataclass(frozen=True)
class Memories:
    """The memories of a device, by what they are for.

    Tensors, workspace and copies of constants lie in the first of `tensors` as far as it holds them, then in the next.
    That first one is the scarce memory: frontiers count its bytes, budgets bound them. All but the last need a
    `size_bytes`. `constants` is where weights live at home, perhaps one of the others.
    """

    tensors: tuple[Memory, ...]
    constants: Memory

    @property
    def scarce(self) -> Memory:
        """The memory whose bytes frontiers count."""
        return self.tensors[0]


@dataclass(frozen=True)
class Target:
    """Everything about the device that a compilation or a simulation depends on.

    `constants`, `arena` and `cache` are the memories of the NPU's regions 0, 1 and 2. The cache is the arena's memory
    but in the modes called Dedicated_Sram, where the arena lies in DRAM and the cache in an SRAM of its own.
    """

    accelerator: Accelerator
    system_config: str
    memory_mode: str
    core_clock_hz: float
    constants: Memory
    arena: Memory
    cache: Memory

    @property
    def memories(self) -> Memories:
        """The same by what they are for: in Dedicated_Sram tensors may lie in the cache and in the arena's DRAM."""
        return Memories((self.arena,) if self.cache == self.arena else (self.cache, self.arena), self.constants)

    @property
    def has_npu(self) -> bool:
        """Whether there is an NPU at all."""
        return self.accelerator.name != NO_NPU

    @property
    def placed_for(self) -> Target:
        """The device that buffers are placed for: without an NPU any, as nothing is left to run on it."""
        return self if self.has_npu else replace(self, accelerator=next(iter(ACCELERATORS.values())))

    @property
    def constants_in_sram(self) -> bool:
        """Whether weights count against the budget too (memory mode Sram_Only)."""
        return self.constants.is_sram

    @property
    def copies_ahead(self) -> bool:
        """Whether copies of constants run beside operations, so that slices of them pay."""
        return not self.constants_in_sram


_DEFAULT_SYSTEM = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_Embedded"}
_PORT_BYTES = {"u55": 8, "u65": 16}
_DEFAULT_MODE = "Shared_Sram"
_PRODUCT = re.compile(r"Ethos_(U\d\d)_", re.IGNORECASE)
# What the timing model counts with; the same bounds hold for described devices (docs/devices.md).
_MOST_RATE = 1 << 16
_MOST_LATENCY = 1 << 24
_MOST_BURST = 1 << 16
_MOST_CLOCK_HZ = 10**12
_MOST_CONFIG_BYTES = 1 << 20


@checked()
def load_target(
    accelerator: str = "ethos-u55-256",
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Target:
    """Build a target from names; `config` is a vela.ini, by default the one that ships with ethos-u-vela.

    Raises `ConfigError` naming what does not exist and what does, for another product's configuration and for an arena
    in flash. What can be simulated need not be compiled for: `compilation_target` is stricter.
    """
    chip = SIMULATED.get(accelerator)
    if chip is None:
        raise ConfigError(f"unknown accelerator '{accelerator}'; known are {', '.join(SIMULATED)}")
    path = Path(config) if config is not None else default_config()
    sections = _read_sections(path)
    system_name = system_config or _DEFAULT_SYSTEM[chip.product]
    mode_name = memory_mode or _DEFAULT_MODE
    system = _section(sections, "System_Config", system_name, path)
    _check_product(chip, system_name, sections)
    mode = _section(sections, "Memory_Mode", mode_name, path)
    ports = {port: _value(system, f"{port}_port", system_name, path) for port in ("axi0", "axi1")}

    def memory(area: str) -> Memory:
        port = _value(mode, area, mode_name, path).lower()
        if port not in ports:
            raise ConfigError(f"{path}: {area} of memory mode '{mode_name}' is '{port}'; expected Axi0 or Axi1")
        return _memory(system, ports[port], chip, system_name, path)

    constants, arena, cache = (memory(f"{area}_mem_area") for area in ("const", "arena", "cache"))
    for what, place in (("arena", arena), ("cache", cache)):
        if place.name.lower().endswith("flash"):
            raise ConfigError(
                f"memory mode '{mode_name}' keeps the {what} in {place.name} of '{system_name}', which cannot be "
                f"written; choose a system configuration with DRAM, or Shared_Sram or Sram_Only"
            )
    clock = _number(system, "core_clock", system_name, path)
    if not 1 <= clock <= _MOST_CLOCK_HZ:
        raise ConfigError(
            f"{path}: 'core_clock' of '{system_name}' is {shown(system['core_clock'])}; it must be 1 to "
            f"{_MOST_CLOCK_HZ:,} (Hz)"
        )
    return Target(chip, system_name, mode_name, float(clock), constants, arena, cache)


@checked()
def compilation_target(
    accelerator: str = "ethos-u55-256",
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Target:
    """As `load_target`, for devices that code is generated for.

    "none" is a device without an NPU, which has no configuration of memories either.
    Raises `ConfigError` for an accelerator with two cores and for a memory mode whose arena is not the SRAM as well.
    """
    if accelerator == NO_NPU:
        return _without_npu(system_config, memory_mode, config)
    if accelerator not in ACCELERATORS:
        what = "can be simulated only" if accelerator in SIMULATED else "is unknown"
        raise ConfigError(f"accelerator '{accelerator}' {what}; code is generated for {', '.join(TARGETS)}")
    target = load_target(accelerator, system_config, memory_mode, config)
    if target.cache != target.arena or not target.arena.is_sram:
        raise ConfigError(
            f"memory mode '{target.memory_mode}' keeps the arena in {target.arena.name} and a cache in "
            f"{target.cache.name}, which can be simulated only; code is generated for modes whose arena is the SRAM "
            f"itself: Shared_Sram and Sram_Only"
        )
    return target


def _without_npu(system_config: str | None, memory_mode: str | None, config: str | os.PathLike[str] | None) -> Target:
    """A device that is a CPU with SRAM and flash, of which nothing is counted in cycles."""
    named = {"system_config": system_config, "memory_mode": memory_mode, "config": config}
    given = next((name for name, value in named.items() if value is not None), None)
    if given is not None:
        raise ConfigError(
            f"{given} is {shown(str(named[given]))}; it describes the memories of an NPU, and accelerator '{NO_NPU}' "
            f"has none: leave it out"
        )
    chip = Accelerator(NO_NPU, 0, NO_NPU, (1, 1, 1), 0)
    sram, flash = Memory("Sram", (1, 1), 0, 0, 1), Memory("OffChipFlash", (1, 1), 0, 0, 1)
    return Target(chip, NO_NPU, NO_NPU, 0.0, flash, sram, sram)


def _check_product(chip: Accelerator, name: str, sections: Mapping[str, Mapping[str, str]]) -> None:
    """Port widths and latencies are a product's: names such as Ethos_U85_SYS_DRAM_Mid say which."""
    match = _PRODUCT.match(name)
    if match is None or match.group(1).lower() == chip.product:
        return
    systems = (section.removeprefix("System_Config.") for section in sections if section.startswith("System_Config."))
    fitting = [s for s in systems if (m := _PRODUCT.match(s)) is None or m.group(1).lower() == chip.product]
    raise ConfigError(
        f"system configuration '{name}' is for the Ethos-{match.group(1)}, '{chip.name}' is an "
        f"Ethos-{chip.product.upper()}; choose {' or '.join(fitting) or 'another'}"
    )


def default_config() -> Path:
    """The vela.ini that ships with ethos-u-vela. Raises `ConfigError` if it is not installed."""
    spec = importlib.util.find_spec("ethosu")
    for root in (spec.submodule_search_locations or []) if spec else []:
        found = Path(root) / "config_files" / "Arm" / "vela.ini"
        if found.is_file():
            return found
    raise ConfigError("no vela.ini found: install ethos-u-vela, or name a file with config=")


_UNITS = {"": 1, "b": 1, "kib": 1024, "kb": 1024, "k": 1024, "mib": 1 << 20, "mb": 1 << 20, "m": 1 << 20}


_MOST_SIZE_BYTES = 1 << 64


@checked()
def parse_size(text: str | int) -> int:
    """Bytes of a budget such as "300KiB", "0.5MiB" or "307200".

    KB and MB are taken as KiB and MiB, as `sram_kb` is, and rounded down to whole bytes: "15.6KiB" is 15,974. Raises
    `ConfigError` for anything else, less than a byte, fractions of a byte in a plain number and more than 2^64 bytes.
    """
    if isinstance(text, int):
        return _whole_bytes(Fraction(text), shown(text))
    match = re.fullmatch(r"\s*([0-9]{1,40}(?:\.[0-9]{1,40})?)\s*([a-zA-Z]{0,10})\s*", text)
    unit = _UNITS.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        raise ConfigError(f"cannot read the size {shown(text)}; write it like 300KiB, 0.5MiB or 307200")
    size = Fraction(match.group(1)) * unit
    if unit == 1 and size.denominator != 1:
        raise ConfigError(f"the size {shown(text)} is {float(size):g} bytes; it must be a whole positive number")
    return _whole_bytes(size, shown(text))


def size_of_kib(sram_kb: object) -> int:
    """Bytes of a number of KiB, of any kind of number, rounded down. Raises `ConfigError` as `parse_size` does."""
    kib = exactly(sram_kb)
    if kib is None:
        raise ConfigError(f"sram_kb is {shown(sram_kb)}; it must be a number of KiB")
    return _whole_bytes(kib * 1024, f"{shown(sram_kb)} KiB")


def _whole_bytes(size: Fraction, text: str) -> int:
    if not 1 <= size <= _MOST_SIZE_BYTES:
        raise ConfigError(f"the size {text} is out of range; it must be 1 byte to 2^64 bytes")
    return int(size)


def _read_sections(path: Path) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.ConfigParser(interpolation=None)
    data = read_whole(path, _MOST_CONFIG_BYTES)
    try:
        parser.read_string(data.decode("utf-8-sig"), str(path))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not a vela.ini: {str(error).splitlines()[0]}") from error
    return {_on_one_line(name): _entries(parser[name]) for name in parser.sections()}


def _entries(section: Mapping[str, str]) -> dict[str, str]:
    return {key: _on_one_line(value) for key, value in section.items()}


def _on_one_line(text: str) -> str:
    # Messages are one line each, and continued values are none that anybody writes here.
    return " ".join(text.split())


def _section(sections: Mapping[str, Mapping[str, str]], kind: str, name: str, path: Path) -> Mapping[str, str]:
    """A section with what it inherits; child entries win."""
    full = f"{kind}.{name}"
    if full not in sections:
        known = ", ".join(s.split(".", 1)[1] for s in sections if s.startswith(f"{kind}."))
        what = {"System_Config": "system configuration", "Memory_Mode": "memory mode"}[kind]
        raise ConfigError(f"{path} has no {what} '{name}'; it has {known or 'none'}")
    merged: dict[str, str] = {}
    chain = [full]
    while (parent := sections[chain[-1]].get("inherit")) is not None:
        if parent not in sections or parent in chain:
            raise ConfigError(f"{path}: '{chain[-1]}' inherits '{parent}', which is missing or inherits it in turn")
        chain.append(parent)
    for section in reversed(chain):
        merged.update(sections[section])
    return merged


def _value(section: Mapping[str, str], key: str, name: str, path: Path) -> str:
    try:
        return section[key.lower()]
    except KeyError:
        raise ConfigError(f"{path}: '{name}' lacks the entry '{key}'") from None


def _number(section: Mapping[str, str], key: str, name: str, path: Path) -> Fraction:
    text = _value(section, key, name, path)
    number = number_of(text)
    if number is None:
        raise ConfigError(f"{path}: '{key}' of '{name}' is {shown(text)}, not a number of at most 60 digits")
    if number < 0:
        raise ConfigError(f"{path}: '{key}' of '{name}' is {text}; it must not be negative")
    return number


def _whole(section: Mapping[str, str], key: str, name: str, path: Path, least: int, most: int) -> int:
    number = _number(section, key, name, path)
    if number.denominator != 1 or not least <= number <= most:
        text = shown(_value(section, key, name, path))
        raise ConfigError(f"{path}: '{key}' of '{name}' is {text}; it must be a whole number from {least} to {most:,}")
    return int(number)


def _memory(section: Mapping[str, str], memory: str, chip: Accelerator, name: str, path: Path) -> Memory:
    rate = _rate(section, memory, _PORT_BYTES[chip.product], name, path)
    read, write = (
        _whole(section, f"{memory}_{way}_latency", name, path, 0, _MOST_LATENCY) for way in ("read", "write")
    )
    burst = _whole(section, f"{memory}_burst_length", name, path, 1, _MOST_BURST)
    return Memory(memory, (rate.numerator, rate.denominator), read, write, burst)


def _rate(section: Mapping[str, str], memory: str, port_bytes: int, name: str, path: Path) -> Fraction:
    """Bytes per cycle: the nearest fraction that the timing model counts with, both numbers up to 65,536."""
    key = f"{memory}_clock_scale"
    rate = _number(section, key, name, path) * port_bytes
    if not Fraction(1, _MOST_RATE) <= rate <= _MOST_RATE:
        raise ConfigError(
            f"{path}: '{key}' of '{name}' is {shown(_value(section, key, name, path))}; times the port's {port_bytes} "
            f"bytes it must be 1/{_MOST_RATE:,} to {_MOST_RATE:,} bytes per cycle"
        )
    # A numerator is the denominator times the rate: it is bounded with it.
    return rate.limit_denominator(_MOST_RATE if rate <= 1 else int(_MOST_RATE / rate))
