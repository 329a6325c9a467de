"""Verification of a compiled network: the judge of `verification` put to work on the simulator or on the emitted C.

Owns how each target executes the network for the judge. The reference and the comparison are `verification`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .execution import run_artifact
from .verification import Observation, Verification, verify

if TYPE_CHECKING:
    from .compiled import Compiled

Arrays = Mapping[str, npt.NDArray[np.generic]]


def on_simulator(compiled: Compiled, seeds: int) -> Verification:
    """Verify the artefact's own bytes on the simulated NPU."""
    constants = len(compiled.artifact.constants) if compiled.target.constants_in_sram else 0

    def execute(inputs: Arrays) -> Observation:
        result = run_artifact(compiled.artifact, inputs)
        findings = result.hazards + len(result.warnings)
        return Observation(result.outputs, findings, result.arena_touched_bytes + constants)

    return verify(compiled.source, execute, seeds)


def in_c(compiled: Compiled, seeds: int) -> Verification:
    """Verify the emitted C, built with the system's compiler, its NPU calls served by the simulator's driver."""
    from . import host_c

    constants = len(compiled.artifact.constants) if compiled.target.constants_in_sram else 0
    with host_c.HostLibrary(compiled.artifact) as library:

        def execute(inputs: Arrays) -> Observation:
            result = library.run(inputs)
            return Observation(result.outputs, result.hazards or 0, result.arena_bytes + constants)

        return verify(compiled.source, execute, seeds)
