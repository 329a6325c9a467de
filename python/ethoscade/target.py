"""The device compiled for: accelerator, system configuration, memory mode, and the budget as bytes.

Owns the accelerators' parameters and the reading of vela.ini files. Knows nothing of networks.
"""

from __future__ import annotations

import configparser
import os
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from .errors import ConfigError


@dataclass(frozen=True)
class Accelerator:
    """An Ethos-U variant (ETHOS-U TRM; micro-block is height, width, OFM depth)."""

    name: str
    macs: int
    product: str
    micro_block: tuple[int, int, int]
    shram_banks: int
    cores: int = 1


ACCELERATORS: dict[str, Accelerator] = {
    a.name: a
    for a in (
        Accelerator("ethos-u55-32", 32, "u55", (1, 1, 4), 16),
        Accelerator("ethos-u55-64", 64, "u55", (1, 1, 8), 16),
        Accelerator("ethos-u55-128", 128, "u55", (1, 2, 8), 24),
        Accelerator("ethos-u55-256", 256, "u55", (2, 2, 8), 48),
        Accelerator("ethos-u65-256", 256, "u65", (2, 2, 8), 48),
    )
}


@dataclass(frozen=True)
class Memory:
    """A memory as the NPU sees it.

    `bytes_per_cycle` is the port's width (8 on U55, 16 on U65) times the configuration's clock scale, as an exact
    fraction (numerator, denominator). Latencies in NPU cycles, burst length in bytes.
    """

    name: str
    bytes_per_cycle: tuple[int, int]
    read_latency: int
    write_latency: int
    burst_bytes: int

    @property
    def is_sram(self) -> bool:
        """Whether what lies here counts against the SRAM budget."""
        return self.name.lower().startswith("sram")


@dataclass(frozen=True)
class Target:
    """Everything about the device that a compilation depends on. `constants` and `arena` are where each kind lives."""

    accelerator: Accelerator
    system_config: str
    memory_mode: str
    core_clock_hz: float
    constants: Memory
    arena: Memory


_DEFAULT_SYSTEM = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_Embedded"}
_PORT_BYTES = {"u55": 8, "u65": 16}
