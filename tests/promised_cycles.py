"""Proposals carried out as far as their command streams, and timed by the referee."""

from __future__ import annotations

from ethoscade.codegen.artifact import NpuCall
from ethoscade.pipeline.compiled import Curve
from ethoscade.pipeline.compiler import Network, emit
from ethoscade.run.timing import simulate_timing
from ethoscade.scheduling import schedule as scheduling

TOLERANCE = 0.03


def promised_and_timed(network: Network, curve: Curve, index: int) -> tuple[int, int]:
    """Cycles that point `index` of a curve promises, and those of its streams by the timing model."""
    placed = scheduling.arrange(network.problem, curve.proposals[index])
    artifact = emit(network, placed.program, dict(enumerate(placed.offsets)), placed.arena_bytes)
    payloads = [call.payload for call in artifact.calls if isinstance(call, NpuCall)]
    return curve.points[index][1], sum(simulate_timing(payload, network.target).cycles for payload in payloads)
