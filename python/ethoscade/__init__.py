"""Compile quantised TensorFlow Lite models for Arm Ethos-U NPUs inside the SRAM you have.

    import ethoscade
    compiled = ethoscade.compile("model.tflite", sram_kb=300)
    compiled.save("model_ethosu.tflite")

Public names only; every result is a frozen dataclass and every error derives from `EthoscadeError`.
"""

import logging

from ._core import __version__
from .devices import DeviceDescription
from .errors import (
    BudgetError,
    CodegenError,
    ConfigError,
    EthoscadeError,
    ModelFormatError,
    SchedulingError,
    SimulationError,
    UnsupportedOperatorError,
    VerificationError,
)
from .pipeline.compiled import Compiled, Curve, OperatorSummary
from .pipeline.planning import plan
from .pipeline.prepared import Prepared, compile, frontier, prepare
from .run.execution import simulate

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "BudgetError",
    "CodegenError",
    "Compiled",
    "ConfigError",
    "Curve",
    "DeviceDescription",
    "EthoscadeError",
    "ModelFormatError",
    "OperatorSummary",
    "Prepared",
    "SchedulingError",
    "SimulationError",
    "UnsupportedOperatorError",
    "VerificationError",
    "__version__",
    "compile",
    "frontier",
    "plan",
    "prepare",
    "simulate",
]
