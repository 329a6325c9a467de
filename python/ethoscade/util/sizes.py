"""Sizes as people write them: "300KiB", "0.5MiB", "307200". Owns the reading and what is said of a wrong one."""

from __future__ import annotations

import re
from fractions import Fraction

from ..errors import ConfigError
from .arguments import checked, exactly, shown

_UNITS = {"": 1, "b": 1, "kib": 1024, "kb": 1024, "k": 1024, "mib": 1 << 20, "mb": 1 << 20, "m": 1 << 20}
_MOST_SIZE_BYTES = 1 << 64


@checked()
def parse_size(text: str | int, least_bytes: int = 1) -> int:
    """Bytes of a budget such as "300KiB", "0.5MiB" or "307200".

    KB and MB are taken as KiB and MiB, as `sram_kb` is, and rounded down to whole bytes: "15.6KiB" is 15,974. Raises
    `ConfigError` for anything else, less than `least_bytes`, fractions of a byte in a plain number and more than 2^64
    bytes.
    """
    if isinstance(text, int):
        return _whole_bytes(Fraction(text), shown(text), least_bytes)
    match = re.fullmatch(r"\s*([0-9]{1,40}(?:\.[0-9]{1,40})?)\s*([a-zA-Z]{0,10})\s*", text)
    unit = _UNITS.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        raise ConfigError(f"cannot read the size {shown(text)}; write it like 300KiB, 0.5MiB or 307200")
    size = Fraction(match.group(1)) * unit
    if unit == 1 and size.denominator != 1:
        raise ConfigError(f"the size {shown(text)} is {float(size):g} bytes; it must be a whole number")
    return _whole_bytes(size, shown(text), least_bytes)


def budget_of(sram: str | int) -> int:
    """Bytes of a budget, 0 among them: a network may keep nothing in its SRAM. Raises as `parse_size` does."""
    return parse_size(sram, 0)


def budget_of_kib(sram_kb: object) -> int:
    """Bytes of a budget in KiB, of any kind of number, rounded down. Raises `ConfigError` as `parse_size` does."""
    kib = exactly(sram_kb)
    if kib is None:
        raise ConfigError(f"sram_kb is {shown(sram_kb)}; it must be a number of KiB")
    return _whole_bytes(kib * 1024, f"{shown(sram_kb)} KiB", 0)


def _whole_bytes(size: Fraction, text: str, least: int) -> int:
    # A fraction of a byte is none, and asks for more than none.
    if not least <= size <= _MOST_SIZE_BYTES or 0 < size < 1:
        raise ConfigError(f"the size {text} is out of range; it must be {least} to 2^64 bytes")
    return int(size)
