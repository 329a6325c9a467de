"""Proposals carried out as far as their command streams: what was promised of them, and what they are."""

from __future__ import annotations

from collections.abc import Iterator

from ethoscade import _core
from ethoscade.codegen.artifact import NpuCall
from ethoscade.pipeline.compiled import Curve
from ethoscade.pipeline.compiler import Network, emit
from ethoscade.pipeline.curve import order_of
from ethoscade.run.timing import simulate_timing
from ethoscade.scheduling import schedule as scheduling


def broken_promises(network: Network, curve: Curve, index: int) -> Iterator[str]:
    """How the streams of point `index` of a curve differ from what the planner said: commands, then cycles.

    A command is its operation and the registers that are sent before it, with their values: waits, BLOCKDEP and the
    number of words are among them.
    """
    network = network.order(order_of(curve, curve.proposals[index]))
    placed = scheduling.arrange(network.problem, curve.proposals[index])
    artifact = emit(network, placed)
    payloads = [call.payload for call in artifact.calls if isinstance(call, NpuCall)]
    emitted = [_core.read_stream(payload) for payload in payloads]
    schedule = scheduling.from_proposal(network.problem, curve.proposals[index])
    predicted = scheduling.predicted_streams(network.problem, schedule)
    if [len(run) for run in emitted] != [len(run) for run in predicted]:
        yield f"runs of {[len(run) for run in emitted]} commands, not {[len(run) for run in predicted]}"
    for number, runs in enumerate(zip(emitted, predicted, strict=False)):
        for command, (found, promised) in enumerate(zip(*runs, strict=False)):
            if found != promised:
                yield f"run {number}, command {command}: {found}, not {promised}"
    timed = sum(simulate_timing(payload, network.target).cycles for payload in payloads)
    if timed != curve.points[index][1]:
        yield f"{timed} cycles, not {curve.points[index][1]}"
