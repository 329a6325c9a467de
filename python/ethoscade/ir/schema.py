"""The names of the `tflite` package, each from the file that defines it: accessors of tables, enumerations, writers.

Owns how they are imported. The package itself imports two hundred modules for the twenty that a model takes, a tenth
of the time of a small compilation. What is imported here is what an `import tflite` finds, before and after.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import threading
from functools import cache
from types import ModuleType
from typing import Any

_INSIDE = {
    "Model": ("Buffer", "Metadata", "OperatorCode", "SubGraph"),
    "SubGraph": ("Operator", "Tensor"),
    "Tensor": ("QuantizationParameters",),
}
"""Tables whose accessors import others by themselves, with the package where those are not there yet."""

_importing = threading.RLock()


def __getattr__(name: str) -> Any:
    """The class, enumeration or function that the package knows by a name."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    home = _home(name)
    # Of a package that is no folder of files, or has other names, the package itself is asked.
    found = globals()[name] = getattr(module(home) if home else importlib.import_module("tflite"), name)
    return found


@cache
def _folder() -> list[str]:
    spec = importlib.util.find_spec("tflite")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("No module named 'tflite'", name="tflite")
    return list(spec.submodule_search_locations)


@cache
def _modules() -> frozenset[str]:
    files = (file for folder in filter(os.path.isdir, _folder()) for file in os.listdir(folder))
    return frozenset(file.removesuffix(".py") for file in files if file.endswith(".py"))


def _home(name: str) -> str:
    """The module that defines a name: it has that name, or the table's that a writer begins with."""
    fitting = (name[:end] for end in range(len(name), 0, -1) if name[:end] in _modules())
    return next(fitting, "")


def module(name: str) -> ModuleType:
    """A module of the package, without the package where it is a folder of files.

    Raises `ModuleNotFoundError` if there is none of that name.
    """
    whole = f"tflite.{name}"
    with _importing:
        if whole not in sys.modules:
            spec = importlib.machinery.PathFinder.find_spec(whole, _folder())
            if spec is None or spec.loader is None:
                return importlib.import_module(whole)
            found = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
            sys.modules[whole] = found
        for inner in _INSIDE.get(name, ()):
            module(inner)
        return sys.modules[whole]
