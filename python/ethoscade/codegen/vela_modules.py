"""How Vela's modules are imported: without those that making command streams never calls.

Owns what stands in for these. Vela asks its package for a version, which takes the parsers of e-mail and ZIP files, and
its description of an accelerator holds tables of all operators of TFLite and TOSA, from two hundred modules: together a
tenth of a small compilation. What is imported later, by whomever, is Vela's own, and so is what a stand-in's functions
do when they are called after all.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "ethosu.vela"
_VERSION = f"{PACKAGE}._version"
_TABLES = ("tflite_mapping", "tflite_supported_operators", "tosa_mapping", "tosa_supported_operators")
"""Of these others import functions and classes alone, and call them when they work on a graph."""
_METADATA, _SUFFIX = "ethos_u_vela-", ".dist-info"


class _Later(ModuleType):
    """Has whatever is asked for as a function, which imports the module of that name and calls what it has."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)

        def call(*args: Any, **kwargs: Any) -> Any:
            _forget(self)
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return call


@contextlib.contextmanager
def without_tables() -> Iterator[None]:
    """While this lasts stand-ins are found for modules that are not there yet, and afterwards no more."""
    stand_ins: list[ModuleType] = [_Later(f"{PACKAGE}.{name}") for name in _TABLES]
    version = installed_version()
    if version is not None:
        told = ModuleType(_VERSION)
        told.__version__ = version  # type: ignore[attr-defined]
        stand_ins.append(told)
    for module in stand_ins:
        sys.modules.setdefault(module.__name__, module)
    try:
        yield
    finally:
        for module in stand_ins:
            _forget(module)


def _forget(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def installed_version() -> str | None:
    """Vela's version by the folder of its metadata, None where that is not to be seen, or not the only one."""
    spec = importlib.util.find_spec(PACKAGE.partition(".")[0])
    places = [] if spec is None else [Path(place).parent for place in spec.submodule_search_locations or ()]
    found = [folder.name for place in places for folder in place.glob(f"{_METADATA}*{_SUFFIX}")]
    return found[0].removeprefix(_METADATA).removesuffix(_SUFFIX) if len(found) == 1 else None
