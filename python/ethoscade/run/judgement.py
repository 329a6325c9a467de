"""Verification of an artefact: the judge of `verification` put to work on the simulator or on the emitted C.

Owns how each target executes the network for the judge. The reference and the comparison are `verification`'s.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..codegen.artifact import Artifact
from ..ir import Array, Graph
from ..judge.verification import Observation, Verification, verify
from .execution import player_of, run_artifact

Arrays = Mapping[str, Array]


def on_simulator(artifact: Artifact, source: Graph, seeds: int, constant_bytes: int) -> Verification:
    """Verify the artefact's own bytes on the simulated NPU against the network as it was read.

    `constant_bytes` of constants lie in SRAM beside the arena.
    """
    with player_of(artifact) as player:

        def execute(inputs: Arrays) -> Observation:
            result = run_artifact(artifact, inputs, player)
            found = [*result.warnings, *(hazard.message for report in result.reports for hazard in report.hazards)]
            return Observation(result.outputs, len(found), result.arena_touched_bytes + constant_bytes, found)

        return verify(source, execute, seeds)


def in_c(artifact: Artifact, source: Graph, seeds: int, constant_bytes: int) -> Verification:
    """Verify the emitted C, built with the system's compiler, its NPU calls served by the simulator's driver."""
    from . import host_c

    with host_c.HostLibrary(artifact) as library:

        def execute(inputs: Arrays) -> Observation:
            result = library.run(inputs)
            return Observation(result.outputs, result.hazards or 0, result.arena_bytes + constant_bytes)

        return verify(source, execute, seeds)
