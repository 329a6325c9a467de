"""Configuration files in Vela's words: where they are, and what is written in them.

Owns vela.ini files: sections, what they inherit, the reading of their numbers. What the numbers mean for a device is
`target`'s.
"""

from __future__ import annotations

import configparser
import importlib.util
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from ..errors import ConfigError
from ..util.arguments import number_of, shown
from ..util.files import read_whole
from ..util.records import dataclass

SYSTEM, MODE = "System_Config", "Memory_Mode"
"""The two kinds of sections."""
FURTHER_RAM = "Ram"
"""What RAM beside a board's SRAM is called, which no vela.ini has."""
_CALLED = {SYSTEM: "system configuration", MODE: "memory mode"}
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ConfigSection:
    """A section by its own name, with what it inherits; `where` it was found opens complaints about it."""

    name: str
    where: str
    values: Mapping[str, str]

    def value(self, key: str) -> str:
        """An entry's text. Raises `ConfigError` if there is none."""
        try:
            return self.values[key.lower()]
        except KeyError:
            raise ConfigError(f"{self.where}: '{self.name}' lacks the entry '{key}'") from None

    def number(self, key: str) -> Fraction:
        """An entry as an exact number of at least 0. Raises `ConfigError`."""
        text = self.value(key)
        number = number_of(text)
        if number is None:
            raise ConfigError(
                f"{self.where}: '{key}' of '{self.name}' is {shown(text)}, not a number of at most 60 digits"
            )
        if number < 0:
            raise ConfigError(f"{self.where}: '{key}' of '{self.name}' is {text}; it must not be negative")
        return number

    def whole(self, key: str, least: int, most: int) -> int:
        """An entry as a whole number, both ends included. Raises `ConfigError`."""
        number = self.number(key)
        if number.denominator != 1 or not least <= number <= most:
            raise ConfigError(
                f"{self.where}: '{key}' of '{self.name}' is {shown(self.value(key))}; it must be a whole number from "
                f"{least} to {most:,}"
            )
        return int(number)


@dataclass(frozen=True)
class ConfigurationFile:
    """A vela.ini, its sections as they are written."""

    path: Path
    sections: Mapping[str, Mapping[str, str]]

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of all sections of a kind, in the file's order."""
        return tuple(s.removeprefix(f"{kind}.") for s in self.sections if s.startswith(f"{kind}."))

    def section(self, kind: str, name: str) -> ConfigSection:
        """A section with what it inherits; its own entries win. Raises `ConfigError` naming those that there are."""
        full = f"{kind}.{name}"
        if full not in self.sections:
            known = ", ".join(self.names(kind))
            raise ConfigError(f"{self.path} has no {_CALLED[kind]} '{name}'; it has {known or 'none'}")
        merged: dict[str, str] = {}
        chain = [full]
        while (parent := self.sections[chain[-1]].get("inherit")) is not None:
            if parent not in self.sections or parent in chain:
                raise ConfigError(
                    f"{self.path}: '{chain[-1]}' inherits '{parent}', which is missing or inherits it in turn"
                )
            chain.append(parent)
        for section in reversed(chain):
            merged.update(self.sections[section])
        return ConfigSection(name, str(self.path), merged)


def read_configuration(config: str | os.PathLike[str] | None = None) -> ConfigurationFile:
    """A configuration file by its path, or by its name in ethos-u-vela's folder of them: "Arm/vela.ini".

    By default that one. Raises `ConfigError` for a file that cannot be read, and names those of the folder.
    """
    path = default_config() if config is None else _found(config)
    data = read_whole(path, _MOST_BYTES)
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(data.decode("utf-8-sig"), str(path))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not a vela.ini: {str(error).splitlines()[0]}") from error
    return ConfigurationFile(path, {_on_one_line(name): _entries(parser[name]) for name in parser.sections()})


def default_config() -> Path:
    """The vela.ini that ships with ethos-u-vela. Raises `ConfigError` if it is not installed."""
    for folder in _folders():
        found = folder / "Arm" / "vela.ini"
        if found.is_file():
            return found
    raise ConfigError("no vela.ini found: install ethos-u-vela, or name a file with config=")


def shipped_files() -> tuple[str, ...]:
    """The configuration files of ethos-u-vela's folder, by the names that `read_configuration` takes."""
    return tuple(
        sorted(path.relative_to(folder).as_posix() for folder in _folders() for path in folder.glob("*/*.ini"))
    )


def _found(config: str | os.PathLike[str]) -> Path:
    """The file that is meant: a path, or where there is none a name in the package's folder."""
    path = Path(config)
    try:
        os.stat(path)
    except FileNotFoundError:
        shipped = shipped_files()
        if path.as_posix() not in shipped:
            raise ConfigError(
                f"cannot read '{path}': No such file or directory; ethos-u-vela's folder of them has "
                f"{', '.join(shipped) or 'none'}"
            ) from None
        return next(found for folder in _folders() if (found := folder / path).is_file())
    except (OSError, ValueError):
        # Whoever reads it says what is wrong with it.
        return path
    return path


def _folders() -> list[Path]:
    spec = importlib.util.find_spec("ethosu")
    return [Path(root) / "config_files" for root in (spec.submodule_search_locations or [])] if spec else []


def _entries(section: Mapping[str, str]) -> dict[str, str]:
    return {key: _on_one_line(value) for key, value in section.items()}


def _on_one_line(text: str) -> str:
    # Messages are one line each, and continued values are none that anybody writes here.
    return " ".join(text.split())
