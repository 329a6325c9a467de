"""The judge: what a network ought to output, and how far a compiled network's outputs are from it.

Owns the comparison; who decides what is right is `evaluation`'s, and the seeded inputs are `noise`'s.
Works on the graph as read from the file. What executes the compiled network comes in as a callable: nothing here knows
the simulator or the code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from ..errors import VerificationError
from ..ir import Array, Graph
from ..util.progress import ProgressCallback, no_progress
from ..util.records import dataclass
from . import litert
from .evaluation import JUDGE_CUT as JUDGE_CUT
from .evaluation import JUDGE_LITERT as JUDGE_LITERT
from .evaluation import JUDGE_MICRO as JUDGE_MICRO
from .evaluation import Cut, reference_steps
from .evaluation import Expectation as Expectation
from .evaluation import read_name as read_name
from .evaluation import reference_outputs as reference_outputs
from .evaluation import reference_runs as reference_runs
from .noise import random_inputs as random_inputs

STATEFUL_RUNS = 3

_FINDINGS = 10


@dataclass(frozen=True)
class Verification:
    """Outcome of comparing a compiled network with the reference on several seeds, `runs` in a row on each.

    `elements`, `mismatches` and `hazards` (the simulator's, and its warnings) are sums over the seeds, `max_abs_diff`
    (in stored integers) and `sram_touched_bytes` maxima. `judge` says what the reference was. `findings` are the first
    of the hazards as sentences, each once.
    """

    ok: bool
    seeds: int
    elements: int
    mismatches: int
    max_abs_diff: float
    hazards: int
    sram_touched_bytes: int
    judge: str
    findings: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()
    runs: int = 1


class Cutting(Protocol):
    """The executor of the compiled network, which can leave operators out of it."""

    @property
    def removable(self) -> Collection[str]:
        """Operators that it can leave out, by their first output's name."""

    @property
    def unplayed(self) -> Mapping[str, str]:
        """Operators without an executor, by their first output's name, each with the reason."""

    def leave_out(self, cuts: Sequence[Mapping[str, Cut]]) -> None:
        """From now on these operators make what their cuts say, one entry for each run after a reset, in turn.

        What they read is noted for `Observation`.
        """


@dataclass(frozen=True, eq=False)
class Observation:
    """What one execution of the compiled network showed; outputs by the names of the original graph's outputs.

    `hazards` counts whatever the simulator found fault with: unordered accesses, reads of unwritten bytes, and sums
    beyond the accumulator that show in an output. `findings` are sentences about them. Among the outputs is what
    unverified operators read, by `read_name`.
    """

    outputs: Mapping[str, Array]
    hazards: int
    sram_touched_bytes: int
    findings: Sequence[str] = ()


def check_available() -> None:
    """Raises `VerificationError` where the reference is not installed, before anybody has spent time on more."""
    if not litert.is_installed():
        raise VerificationError(
            f"verification needs {litert.LITERT.name}, which is not installed: {litert.LITERT.advice}"
        )


def steps_of(graph: Graph, runs: int | None) -> int:
    """The default number of runs in a row: one, or three of a network with state."""
    return runs if runs is not None else STATEFUL_RUNS if graph.kept else 1


def verify(
    graph: Graph,
    execute: Callable[[Sequence[Mapping[str, Array]]], Sequence[Observation]],
    seeds: int = 3,
    cutting: Cutting | None = None,
    runs: int | None = None,
    tick: ProgressCallback = no_progress,
) -> Verification:
    """Run `execute` on the inputs of seeds 0 .. seeds-1 and compare every output element with the reference.

    For each seed it is given the inputs of `runs` runs in a row (see `steps_of`), the first after a reset.
    `graph` is the network as read, with its `source`. Unverified operators are skipped by `cutting`;
    what depends on those that it cannot cut is not judged.
    `tick` is called before each seed with how much is done.
    Raises `VerificationError` when the reference is not installed or cannot run the model, or nothing of it can be
    judged, and whatever `execute` raises.
    """
    check_available()
    runs = steps_of(graph, runs)
    inputs = [[random_inputs(graph, seed, step) for step in range(runs)] for seed in range(seeds)]
    not_judged: tuple[str, ...] = ()
    elements = mismatches = hazards = touched = 0
    largest: float = 0
    judge = JUDGE_LITERT
    findings: dict[str, None] = {}
    judged = reference_steps(graph, inputs, *cuts_of(graph, cutting))
    for seed, (given, steps) in enumerate(zip(inputs, judged, strict=True)):
        tick(seed / seeds)
        not_judged = steps[-1].not_judged
        if cutting is not None:
            cutting.leave_out([expected.cuts for expected in steps])
        if not steps[0].outputs:
            raise VerificationError(f"nothing of '{graph.name}' can be judged: {'; '.join(not_judged)}")
        for seen, expected in zip(execute(given), steps, strict=True):
            counted, wrong, difference = compare(seen.outputs, expected.outputs)
            elements, mismatches, hazards = elements + counted, mismatches + wrong, hazards + seen.hazards
            largest, touched = max(largest, difference), max(touched, seen.sram_touched_bytes)
            judge = expected.judge
            findings.update(dict.fromkeys(seen.findings))
    ok = elements > 0 and mismatches == 0 and hazards == 0
    told = tuple(findings)[:_FINDINGS]
    return Verification(ok, seeds, elements, mismatches, largest, hazards, touched, judge, told, not_judged, runs)


def cuts_of(graph: Graph, cutting: Cutting | None) -> tuple[dict[int, str], Collection[int]]:
    """Operators that are cut from the start, with the reasons, and those that can be, by index."""
    if cutting is None:
        return {}, ()
    return _by_index(graph, cutting.unplayed), _by_index(graph, dict.fromkeys(cutting.removable, ""))


def _by_index(graph: Graph, reasons: Mapping[str, str]) -> dict[int, str]:
    """Reasons of operators by index instead of their first output's name."""
    names = {graph.tensors[op.outputs[0]].name: index for index, op in enumerate(graph.operators) if op.outputs}
    return {names[name]: reason for name, reason in reasons.items() if name in names}


def compare(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> tuple[int, int, float]:
    """(elements, mismatches, largest absolute difference) over all `expected` outputs.

    Two NaNs are equal; a NaN against a number is an infinite difference. Raises `VerificationError` for an output that
    is missing or has another number of elements or another dtype.
    """
    elements = mismatches = 0
    largest: float = 0
    for name, wanted in expected.items():
        found = outputs.get(name)
        if found is None or found.size != wanted.size or found.dtype != wanted.dtype:
            what = "nothing" if found is None else f"{found.dtype}{found.shape}"
            raise VerificationError(f"output '{name}' is {what}, the reference has {wanted.dtype}{wanted.shape}")
        wrong, difference = _difference(found.reshape(wanted.shape), wanted)
        elements += wanted.size
        mismatches += wrong
        largest = max(largest, difference)
    return elements, mismatches, largest


def _difference(found: Array, wanted: Array) -> tuple[int, float]:
    if not wanted.size:
        return 0, 0
    if not np.issubdtype(wanted.dtype, np.floating):
        apart = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
        return int(np.count_nonzero(apart)), int(apart.max())
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(a - b))
    return int(np.count_nonzero(~same)), float(np.where(np.isnan(distance), np.inf, distance).max())
