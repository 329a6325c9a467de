"""Compile quantised TensorFlow Lite models for Arm Ethos-U NPUs inside the SRAM you have.

    import ethoscade
    compiled = ethoscade.compile("model.tflite", sram_kb=300)
    compiled.save("model_ethosu.tflite")

Public names only; every result is a frozen dataclass and every error derives from `EthoscadeError`. What brings NumPy
and the compiler along is imported when it is first asked for.
"""

import os
import sys


def _end_quietly(kind: type[BaseException], *error: object) -> None:
    """Say what Ctrl-C did in one line, with the command line's status for it; anything else as Python says it."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, *error)  # type: ignore[arg-type]
        return
    if sys.stderr is not None:
        sys.stderr.write("ethoscade: interrupted\n")
        sys.stderr.flush()
    os._exit(130)


# Ahead of all imports, which take a while. While `-m` looks for what it runs, that is the name of the program.
if sys.argv[:1] == ["-m"] or os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0] == "ethoscade":
    sys.excepthook = _end_quietly

import importlib
import logging
from typing import TYPE_CHECKING

from ._core import __version__
from .errors import (
    BudgetError,
    CodegenError,
    ConfigError,
    EthoscadeError,
    ModelFormatError,
    ProjectError,
    SchedulingError,
    SimulationError,
    SweepError,
    UnsupportedOperatorError,
    VerificationError,
)

if TYPE_CHECKING:
    from .analysis.addresses import Address
    from .analysis.advice import Advice
    from .analysis.table import OperatorRow, OperatorSummary, OperatorTable
    from .pipeline.check import Check, check
    from .pipeline.compiled import Compiled
    from .pipeline.curve import Curve
    from .pipeline.many import CompiledMany, compile_many
    from .pipeline.planning import plan
    from .pipeline.prepared import Prepared, compile, frontier, prepare
    from .project.folder import connect
    from .run import simulator
    from .run.execution import simulate
    from .sliding.file import Sliding, slide
    from .sweeps.driver import sweep
    from .sweeps.rows import SweepRow
    from .targets import cpus as cpus
    from .targets import devices as devices
    from .targets import target as target
    from .targets.devices import DeviceDescription

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Address",
    "Advice",
    "BudgetError",
    "Check",
    "CodegenError",
    "Compiled",
    "CompiledMany",
    "ConfigError",
    "Curve",
    "DeviceDescription",
    "EthoscadeError",
    "ModelFormatError",
    "OperatorRow",
    "OperatorSummary",
    "OperatorTable",
    "Prepared",
    "ProjectError",
    "SchedulingError",
    "SimulationError",
    "Sliding",
    "SweepError",
    "SweepRow",
    "UnsupportedOperatorError",
    "VerificationError",
    "__version__",
    "check",
    "compile",
    "compile_many",
    "connect",
    "frontier",
    "plan",
    "prepare",
    "simulate",
    "simulator",
    "slide",
    "sweep",
]

# Importing the compiler takes several times as long as importing the rest: programs that only look for a version, or
# catch errors, do not wait for it.
_HOMES = {
    "Address": "analysis.addresses",
    "Advice": "analysis.advice",
    "Check": "pipeline.check",
    "Compiled": "pipeline.compiled",
    "CompiledMany": "pipeline.many",
    "Curve": "pipeline.curve",
    "DeviceDescription": "targets.devices",
    "OperatorRow": "analysis.table",
    "OperatorSummary": "analysis.table",
    "OperatorTable": "analysis.table",
    "Prepared": "pipeline.prepared",
    "SweepRow": "sweeps.rows",
    "check": "pipeline.check",
    "compile": "pipeline.prepared",
    "compile_many": "pipeline.many",
    "connect": "project.folder",
    "frontier": "pipeline.prepared",
    "plan": "pipeline.planning",
    "Sliding": "sliding.file",
    "slide": "sliding.file",
    "prepare": "pipeline.prepared",
    "simulate": "run.execution",
    "sweep": "sweeps.driver",
}

_MODULES = {
    "cpus": "targets.cpus",
    "devices": "targets.devices",
    "simulator": "run.simulator",
    "target": "targets.target",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name, from the module that defines it; or a module of the package by its own name."""
        if name in _HOMES:
            found = globals()[name] = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
            return found
        if name in _MODULES:
            return importlib.import_module(f".{_MODULES[name]}", __name__)
        if not name.startswith("_"):
            try:
                return importlib.import_module(f".{name}", __name__)
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
