"""The device compiled for: accelerator, system configuration, memory mode, by names or by a board's.

Owns the accelerators' parameters and what configurations mean for them. Knows nothing of networks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal, cast

from ..errors import ConfigError
from ..util.arguments import Count, Range, checked, shown
from ..util.records import dataclass
from ..util.sizes import budget_of as budget_of
from ..util.sizes import budget_of_kib as budget_of_kib
from ..util.sizes import parse_size as parse_size
from .configurations import FURTHER_RAM, MODE, SYSTEM, ConfigSection, ConfigurationFile, read_configuration
from .configurations import default_config as default_config

if TYPE_CHECKING:
    from .boards import BoardDescription


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
    `size_bytes`. `constants` is where weights live at home, perhaps one of the others. `inputs` is where the network's
    inputs lie, if not among the tensors: read there as often as wanted, with no bytes counted.
    """

    tensors: tuple[Memory, ...]
    constants: Memory
    inputs: Memory | None = None

    @property
    def scarce(self) -> Memory:
        """The memory whose bytes frontiers count."""
        return self.tensors[0]


@dataclass(frozen=True)
class Streaming:
    """How an input arrives: `rows` at once, in order, each once; `is_ahead`: while the NPU works on those before."""

    rows: int
    is_ahead: bool = False


@dataclass(frozen=True)
class Target:
    """Everything about the device that a compilation or a simulation depends on.

    `constants`, `arena` and `cache` are the memories of the NPU's regions 0, 1 and 2. The cache is the arena's memory
    but in the modes called Dedicated_Sram, where the arena lies in DRAM and the cache in an SRAM of its own, of
    `size_bytes` if the mode says how large, and on boards with further RAM, where the arena lies in that. `board` is
    the one that was named, with the SRAM that it has for the NPU. `inputs` is where the caller keeps the network's
    inputs, each a region from 3 on; None where they lie in the arena. `streaming` is how the network's input arrives
    row by row, `taken_rows` how many rows of its output the caller takes at once; None where they are there as a whole.
    """

    accelerator: Accelerator
    system_config: str
    memory_mode: str
    core_clock_hz: float
    constants: Memory
    arena: Memory
    cache: Memory
    board: BoardDescription | None = None
    inputs: Memory | None = None
    streaming: Streaming | None = None
    taken_rows: int | None = None

    @property
    def has_cache(self) -> bool:
        """Whether tensors may lie in two memories: in an SRAM that is the NPU's own, else in the arena's DRAM."""
        return self.cache != self.arena

    @property
    def memories(self) -> Memories:
        """The same by what they are for: tensors may lie in the cache and in the arena, where these are two.

        A cache of unknown size has as much as is wanted.
        """
        if not self.has_cache:
            return Memories((self.arena,), self.constants, self.inputs)
        sized = self.with_cache_of(_ENDLESS) if self.cache.size_bytes is None else self
        return Memories((sized.cache, self.arena), self.constants)

    @checked()
    def with_cache_of(self, size_bytes: Count) -> Target:
        """The same device with a cache of this size in bytes. Raises `ConfigError` for what is no number of bytes."""
        return replace(self, cache=replace(self.cache, size_bytes=size_bytes))

    @property
    def has_npu(self) -> bool:
        """Whether there is an NPU at all."""
        return self.accelerator.name != NO_NPU

    @checked()
    def remark_on(self, budget_bytes: int | None) -> str | None:
        """What is to be said of a budget that the board does not have, None of one that it has."""
        if self.board is None or budget_bytes is None or budget_bytes <= self.board.sram_bytes:
            return None
        return (
            f"the budget of {budget_bytes:,} bytes is more than board '{self.board.name}' has for its NPU, "
            f"{self.board.sram_bytes:,} bytes"
        )

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


DEFAULT_ACCELERATOR = "ethos-u55-256"
"""What is compiled for where neither an accelerator nor a board is named."""
_DEFAULT_SYSTEM = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_Embedded"}
_PORT_BYTES = {"u55": 8, "u65": 16}
Product = Literal["u55", "u65"]
RowCount = Annotated[int, Range(1, 1 << 31)]
"""How many rows of an input arrive at once, or how many of an output are taken."""
_DEFAULT_MODE = "Shared_Sram"
_CACHE_SIZE = "arena_cache_size"
_PRODUCT = re.compile(r"Ethos_(U\d\d)_", re.IGNORECASE)
# What the timing model counts with; the same bounds hold for described devices (docs/devices.md).
_MOST_RATE = 1 << 16
_MOST_LATENCY = 1 << 24
_MOST_BURST = 1 << 16
_MOST_CLOCK_HZ = 10**12
_ENDLESS = 1 << 40
"""Bytes of a cache of unknown size: more than any network has."""


@checked()
def load_target(
    accelerator: str | None = None,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
    board: str | os.PathLike[str] | None = None,
    input_memory: str | None = None,
    stream_input: RowCount | None = None,
    stream_ahead: bool = False,
    stream_output: RowCount | None = None,
) -> Target:
    """Build a target from names; `config` is a vela.ini, by default the one that ships with ethos-u-vela.

    `config` may be a name in ethos-u-vela's folder, "Arm/vela.ini". `board` is a board's name or a TOML file that
    describes one; what is named beside it goes before what the board has. Without either the accelerator is
    `DEFAULT_ACCELERATOR`.

    `input_memory` names the memory of the system configuration, whatever its case, in which the caller keeps the
    network's inputs; None: the arena. `stream_input` is how many rows of the input arrive there at once, in order;
    with `stream_ahead` they do so while the NPU works on those before. `stream_output` is how many rows of the output
    the caller takes there at once, in order.

    Raises `ConfigError` naming what does not exist and what does, for another product's configuration and for an arena
    in flash. What can be simulated need not be compiled for: `compilation_target` is stricter.
    """
    at = None if board is None else _board_named(board)
    chip = _chip(accelerator or (DEFAULT_ACCELERATOR if at is None else at.accelerator))
    file = read_configuration(config)
    system = _system(chip, system_config, file, at, config is not None)
    mode = file.section(MODE, memory_mode or (_DEFAULT_MODE if at is None else at.memory_mode))
    constants, arena, cache = (_area(mode, system, chip, f"{area}_mem_area") for area in ("const", "arena", "cache"))
    if cache != arena and _CACHE_SIZE in mode.values:
        cache = replace(cache, size_bytes=mode.whole(_CACHE_SIZE, 0, _ENDLESS))
    if at is not None and at.further_ram and cache == arena:
        further = ConfigSection(FURTHER_RAM, f"board '{at.name}'", at.further_ram)
        arena = system_memory(further, FURTHER_RAM, cast(Product, chip.product))
        arena = replace(arena, size_bytes=at.further_ram_bytes)
    for what, place in (("arena", arena), ("cache", cache)):
        if place.name.lower().endswith("flash"):
            raise ConfigError(
                f"memory mode '{mode.name}' keeps the {what} in {place.name} of '{system.name}', which cannot be "
                f"written; choose a system configuration with DRAM, or Shared_Sram or Sram_Only"
            )
    if input_memory is not None and cache != arena:
        raise ConfigError(
            f"input_memory is {shown(input_memory)}, and inputs lie in {arena.name} already, where no SRAM is counted: "
            f"leave it out"
        )
    inputs = None if input_memory is None else _inputs_in(input_memory, system, cast(Product, chip.product))
    streaming = _streaming(stream_input, stream_ahead, input_memory)
    for name, rows in (("stream_input", stream_input), ("stream_output", stream_output)):
        if rows is not None and cache != arena:
            raise ConfigError(
                f"{name} is {rows}, and the arena lies in {arena.name}: what is in {cache.name} is lost whenever the "
                f"NPU waits for the caller; choose a memory mode whose arena is the SRAM, Shared_Sram or Sram_Only"
            )
    clock_hz, places = core_clock_hz(system), (constants, arena, cache)
    return Target(chip, system.name, mode.name, clock_hz, *places, at, inputs, streaming, stream_output)


@checked()
def compilation_target(
    accelerator: str | None = None,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config: str | os.PathLike[str] | None = None,
    board: str | os.PathLike[str] | None = None,
    input_memory: str | None = None,
    stream_input: RowCount | None = None,
    stream_ahead: bool = False,
    stream_output: RowCount | None = None,
) -> Target:
    """As `load_target`, for devices that code is generated for.

    "none" is a device without an NPU, which has no configuration of memories either.
    Raises `ConfigError` for an accelerator with two cores and for a memory mode with an arena outside of the SRAM and
    no SRAM beside it, or on an Ethos-U55, which writes through one of its ports alone.
    """
    if accelerator == NO_NPU:
        named = {
            "system_config": system_config,
            "memory_mode": memory_mode,
            "config": config,
            "board": board,
            "input_memory": input_memory,
            "stream_input": stream_input,
            "stream_ahead": stream_ahead or None,
            "stream_output": stream_output,
        }
        return _without_npu(named)
    if accelerator is not None and accelerator not in ACCELERATORS:
        what = "can be simulated only" if accelerator in SIMULATED else "is unknown"
        raise ConfigError(f"accelerator '{accelerator}' {what}; code is generated for {', '.join(TARGETS)}")
    target = load_target(
        accelerator, system_config, memory_mode, config, board, input_memory, stream_input, stream_ahead, stream_output
    )
    if target.accelerator.name not in ACCELERATORS:
        raise ConfigError(
            f"accelerator '{target.accelerator.name}' of board '{board}' can be simulated only; code is generated for "
            f"{', '.join(TARGETS)}"
        )
    if not target.cache.is_sram or (target.has_cache and target.arena.is_sram):
        raise ConfigError(
            f"memory mode '{target.memory_mode}' keeps the arena in {target.arena.name} and a cache in "
            f"{target.cache.name}, which can be simulated only; code is generated for modes whose arena is the SRAM "
            f"itself, Shared_Sram and Sram_Only, or lies in DRAM beside an SRAM of the NPU's own, Dedicated_Sram"
        )
    if target.has_cache and target.arena.name != FURTHER_RAM and target.accelerator.product == "u55":
        raise ConfigError(
            f"memory mode '{target.memory_mode}' has tensors in {target.cache.name} and in {target.arena.name}, behind "
            f"two ports, and an Ethos-U55 writes through one of them alone; choose Shared_Sram or Sram_Only"
        )
    return target


def _inputs_in(name: str, system: ConfigSection, product: Product) -> Memory:
    """The memory of a system configuration that a caller names for inputs."""
    known = {memory.lower(): memory for memory in (system.value(f"{port}_port") for port in ("axi0", "axi1"))}
    if name.lower() not in known:
        raise ConfigError(
            f"input_memory is {shown(name)}; system configuration '{system.name}' has {' and '.join(known.values())}"
        )
    return system_memory(system, known[name.lower()], product)


def _streaming(rows: int | None, is_ahead: bool, input_memory: str | None) -> Streaming | None:
    """How the input arrives. Raises `ConfigError` for what a streamed input does not go with."""
    if rows is None:
        if is_ahead:
            raise ConfigError("stream_ahead is given, and no stream_input: say how many rows arrive at once")
        return None
    if input_memory is not None:
        raise ConfigError(
            f"stream_input is {rows} and input_memory {shown(input_memory)}: rows either arrive once, or lie there to "
            f"be read as often as wanted; leave one of the two out"
        )
    return Streaming(rows, is_ahead)


def _without_npu(named: Mapping[str, object]) -> Target:
    """A device that is a CPU with SRAM and flash, of which nothing is counted in cycles.

    Raises `ConfigError` for whatever is `named` of an NPU's memories, None where it is not.
    """
    given = next((name for name, value in named.items() if value is not None), None)
    if given is not None:
        raise ConfigError(
            f"{given} is {shown(str(named[given]))}; it describes the memories of an NPU, and accelerator '{NO_NPU}' "
            f"has none: leave it out"
        )
    chip = Accelerator(NO_NPU, 0, NO_NPU, (1, 1, 1), 0)
    sram, flash = Memory("Sram", (1, 1), 0, 0, 1), Memory("OffChipFlash", (1, 1), 0, 0, 1)
    return Target(chip, NO_NPU, NO_NPU, 0.0, flash, sram, sram)


def _board_named(board: str | os.PathLike[str]) -> BoardDescription:
    # Who names none waits neither for the table nor for what reads it.
    from .boards import board_named

    return board_named(board)


def _chip(accelerator: str) -> Accelerator:
    if accelerator not in SIMULATED:
        raise ConfigError(f"unknown accelerator '{accelerator}'; known are {', '.join(SIMULATED)}")
    return SIMULATED[accelerator]


def _system(
    chip: Accelerator, name: str | None, file: ConfigurationFile, board: BoardDescription | None, file_is_named: bool
) -> ConfigSection:
    """The system configuration that is meant: one that is named, the board's, or the product's default."""
    if name is None and board is not None:
        product = _chip(board.accelerator).product
        if product != chip.product:
            raise ConfigError(
                f"board '{board.name}' has an Ethos-{product.upper()}, '{chip.name}' is an "
                f"Ethos-{chip.product.upper()}, with other ports; name a system_config for it"
            )
        # A vendor's own file, where it is given, may be newer than the table.
        if board.system and not (file_is_named and board.system_config in file.names(SYSTEM)):
            return ConfigSection(board.system_config, f"board '{board.name}'", board.system)
        name = board.system_config
    system = file.section(SYSTEM, name or _DEFAULT_SYSTEM[chip.product])
    _check_product(chip, system.name, file)
    return system


def _area(mode: ConfigSection, system: ConfigSection, chip: Accelerator, key: str) -> Memory:
    """The memory behind the port that a memory mode names for an area."""
    ports = {port: system.value(f"{port}_port") for port in ("axi0", "axi1")}
    port = mode.value(key).lower()
    if port not in ports:
        raise ConfigError(f"{mode.where}: {key} of memory mode '{mode.name}' is '{port}'; expected Axi0 or Axi1")
    return system_memory(system, ports[port], cast(Product, chip.product))


@checked()
def core_clock_hz(system: ConfigSection) -> float:
    """The clock of a system configuration's NPU. Raises `ConfigError` out of 1 Hz to 1 THz."""
    clock = system.number("core_clock")
    if not 1 <= clock <= _MOST_CLOCK_HZ:
        raise ConfigError(
            f"{system.where}: 'core_clock' of '{system.name}' is {shown(system.value('core_clock'))}; it must be 1 to "
            f"{_MOST_CLOCK_HZ:,} (Hz)"
        )
    return float(clock)


@checked()
def product_of(system_config: str) -> str | None:
    """The product that a system configuration's name says it is for, such as "u55"; None where it says none."""
    match = _PRODUCT.match(system_config)
    return None if match is None else match.group(1).lower()


def _check_product(chip: Accelerator, name: str, file: ConfigurationFile) -> None:
    """Port widths and latencies are a product's: names such as Ethos_U85_SYS_DRAM_Mid say which."""
    product = product_of(name)
    if product in (None, chip.product):
        return
    fitting = [s for s in file.names(SYSTEM) if product_of(s) in (None, chip.product)]
    raise ConfigError(
        f"system configuration '{name}' is for the Ethos-{str(product).upper()}, '{chip.name}' is an "
        f"Ethos-{chip.product.upper()}; choose {' or '.join(fitting) or 'another'}"
    )


@checked()
def system_memory(system: ConfigSection, memory: str, product: Product) -> Memory:
    """A memory of a system configuration, behind a port of a product ("u55", "u65"). Raises `ConfigError`."""
    rate = _rate(system, f"{memory}_clock_scale", _PORT_BYTES[product])
    read, write = (system.whole(f"{memory}_{way}_latency", 0, _MOST_LATENCY) for way in ("read", "write"))
    burst = system.whole(f"{memory}_burst_length", 1, _MOST_BURST)
    return Memory(memory, (rate.numerator, rate.denominator), read, write, burst)


def _rate(system: ConfigSection, key: str, port_bytes: int) -> Fraction:
    """Bytes per cycle: the nearest fraction that the timing model counts with, both numbers up to 65,536."""
    rate = system.number(key) * port_bytes
    if not Fraction(1, _MOST_RATE) <= rate <= _MOST_RATE:
        raise ConfigError(
            f"{system.where}: '{key}' of '{system.name}' is {shown(system.value(key))}; times the port's {port_bytes} "
            f"bytes it must be 1/{_MOST_RATE:,} to {_MOST_RATE:,} bytes per cycle"
        )
    # A numerator is the denominator times the rate: it is bounded with it.
    return rate.limit_denominator(_MOST_RATE if rate <= 1 else int(_MOST_RATE / rate))
