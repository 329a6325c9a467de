"""The judge: what a network ought to output, and how far a compiled network's outputs are from it.

Owns the evaluation of a network by its judges, run after run, and the comparison; the seeded inputs are `noise`'s.
Works on the graph as read from the file. What executes the compiled network comes in as a callable: nothing here knows
the simulator or the code generator.

The reference is LiteRT with its reference kernels, in one run. Where `judges` says that TensorFlow Lite Micro
decides, and for what LiteRT ends its process on although the result is clear (a SOFTMAX of 512 classes or more, say,
whose sum of exponentials may ask for a shift by 32), `reference` has Micro's arithmetic; what else LiteRT refuses
(SVDF, say) runs in Micro itself, if that is installed. Operators that depend on such a one run in LiteRT one at a
time, on the values so found. An operator that none of the two can judge is named, or, where the caller can cut it out
of what it runs as well, cut: both sides are given the same random values for what it makes, what it reads is compared
like an output, and so everything before and behind it is judged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

import numpy as np

from ..errors import UnsupportedOperatorError, VerificationError
from ..ir import Array, Graph
from ..operators import OPERATORS, own_outputs, updated
from ..util.progress import Tick, nobody_asks
from ..util.records import dataclass
from . import judges, litert, reference
from .noise import random_input
from .noise import random_inputs as random_inputs

JUDGE_LITERT = "litert"
JUDGE_MICRO = "litert + TFLM rounding of fully connected"
JUDGE_CUT = "litert, TFLM or its arithmetic for operators that it refuses"

STATEFUL_RUNS = 3

_FINDINGS = 10
_SHAPE_ONLY = frozenset(row.name for row in OPERATORS.values() if not row.looks_at_values)


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


@dataclass(frozen=True, eq=False)
class Cut:
    """An operator that nobody judges: why not, and what stands for its outputs. It goes by its first output's name."""

    operator: str
    reason: str
    made: tuple[Array, ...]


class Cutting(Protocol):
    """Whoever runs the compiled network, and can leave operators out of it."""

    @property
    def unplayed(self) -> Mapping[str, str]:
        """Operators that it has nobody to run, by their first output's name, each with the reason."""

    def leave_out(self, cuts: Sequence[Mapping[str, Cut]]) -> None:
        """From now on these operators make what their cuts say, one entry for each run after a reset, in turn.

        What they read is noted for `Observation`.
        """


@dataclass(frozen=True, eq=False)
class Observation:
    """What one execution of the compiled network showed; outputs by the names of the original graph's outputs.

    `hazards` counts whatever the simulator found fault with: unordered accesses, reads of unwritten bytes, and sums
    beyond the accumulator that show in an output. `findings` are sentences about them. Among the outputs is what cut
    operators read, by `read_name`.
    """

    outputs: Mapping[str, Array]
    hazards: int
    sram_touched_bytes: int
    findings: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Expectation:
    """What the reference says for one set of inputs, and which reference it was; `cuts` by their first output's name.

    Outputs that a cut operator makes are not among `outputs`, and what it reads is, by `read_name`.
    """

    outputs: Mapping[str, Array]
    judge: str
    cuts: Mapping[str, Cut] = field(default_factory=dict)


def read_name(operator: str, place: int) -> str:
    """What a cut operator reads at a place, among outputs that are compared."""
    return f"input {place} of the operator that makes '{operator}'"


def check_available() -> None:
    """Raises `VerificationError` where the reference is not installed, before anybody has spent time on more."""
    if not litert.is_installed():
        raise VerificationError(
            f"verification needs {litert.LITERT.name}, which is not installed: {litert.LITERT.advice}"
        )


def steps_of(graph: Graph, runs: int | None) -> int:
    """How many runs in a row are judged where nobody says it: one, or three of a network with state."""
    return runs if runs is not None else STATEFUL_RUNS if graph.kept else 1


def verify(
    graph: Graph,
    execute: Callable[[Sequence[Mapping[str, Array]]], Sequence[Observation]],
    seeds: int = 3,
    cutting: Cutting | None = None,
    runs: int | None = None,
    tick: Tick = nobody_asks,
) -> Verification:
    """Run `execute` on the inputs of seeds 0 .. seeds-1 and compare every output element with the reference.

    For each seed it is given the inputs of `runs` runs in a row (see `steps_of`), the first after a reset.
    `graph` is the network as read, with its `source`. Operators that nobody judges or plays are cut by `cutting`.
    `tick` is told before each seed how much is done.
    Raises `VerificationError` when the reference is not installed or cannot run the model, or nothing of it can be
    judged, and whatever `execute` raises.
    """
    check_available()
    runs = steps_of(graph, runs)
    inputs = [[random_inputs(graph, seed, step) for step in range(runs)] for seed in range(seeds)]
    unplayed = None if cutting is None else _by_index(graph, cutting.unplayed)
    not_judged: tuple[str, ...] = ()
    elements = mismatches = hazards = touched = 0
    largest: float = 0
    judge = JUDGE_LITERT
    findings: dict[str, None] = {}
    for seed, (given, steps) in enumerate(zip(inputs, reference_steps(graph, inputs, unplayed), strict=True)):
        tick(seed / seeds)
        if cutting is not None:
            cutting.leave_out([expected.cuts for expected in steps])
            not_judged = tuple(f"{cut.operator}: {cut.reason}" for cut in steps[0].cuts.values())
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


def reference_outputs(graph: Graph, inputs: Mapping[str, Array]) -> Expectation:
    """What the network ought to output for `inputs`; see `reference_runs`."""
    return reference_runs(graph, [inputs])[0]


def reference_runs(
    graph: Graph, runs: Sequence[Mapping[str, Array]], cut: Mapping[int, str] | None = None
) -> tuple[Expectation, ...]:
    """What the network ought to output for each of several inputs, each after a reset; see `reference_steps`."""
    return tuple(expected for (expected,) in reference_steps(graph, [[inputs] for inputs in runs], cut))


def reference_steps(
    graph: Graph, sequences: Sequence[Sequence[Mapping[str, Array]]], cut: Mapping[int, str] | None = None
) -> tuple[tuple[Expectation, ...], ...]:
    """What the network ought to output for each of several sequences of inputs, in one start of LiteRT.

    All have as many steps; state is as after a reset before the first, and lives on to the next. With `cut`, operators
    by index with the reasons, these are cut, and so is every operator without a judge.
    Raises `VerificationError`: LiteRT is not installed, an input does not fit, or an operator has no judge.
    """
    if not graph.source:
        raise VerificationError(f"graph '{graph.name}' was not read from a file: there is nothing to give to LiteRT")
    for inputs in itertools.chain.from_iterable(sequences):
        _check_inputs(graph, inputs)
    state: list[dict[int, Array]] = [{v.before: v.initial for v in graph.variables} for _ in sequences]
    past = _Past()
    found: list[list[Expectation]] = [[] for _ in sequences]
    with (
        litert.Session(graph.source, graph.name) as session,
        litert.Session(graph.source, graph.name, litert.MICRO) as micro,
    ):
        for runs in zip(*sequences, strict=True):
            values = [
                {t: inputs[graph.tensors[t].name] for t in graph.given} | held
                for inputs, held in zip(runs, state, strict=True)
            ]
            evaluation = _Evaluation(graph, session, micro, values, cut, past)
            judge = evaluation.all()
            for known, expectations in zip(values, found, strict=True):
                expectations.append(_expectation(graph, known, judge, evaluation.cuts))
            state = [_kept(graph, known) for known in values]
            past.step += 1
    return tuple(map(tuple, found))


def _kept(graph: Graph, values: Mapping[int, Array]) -> dict[int, Array]:
    """The state after a run, as far as it is known: TensorFlow Lite Micro keeps that of variable tensors to itself."""
    after = {v.before: v.after for v in graph.variables} | {t: t for t in graph.kept if graph.tensors[t].is_variable}
    return {before: values[t] for before, t in after.items() if t in values}


def _expectation(graph: Graph, values: Mapping[int, Array], judge: str, reasons: Mapping[int, str]) -> Expectation:
    outputs = _outputs(graph, values)
    cuts: dict[str, Cut] = {}
    for index, reason in sorted(reasons.items()):
        op = graph.operators[index]
        name = graph.tensors[op.outputs[0]].name
        cuts[name] = Cut(judges.described(graph, op), reason, tuple(values[t] for t in op.outputs))
        for t in op.outputs:
            outputs.pop(graph.tensors[t].name, None)
        for place, read in enumerate(op.inputs):
            if read is not None and read in values and not graph.tensors[read].is_variable:
                outputs[read_name(name, place)] = values[read]
    return Expectation(outputs, judge, cuts)


def _check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    for index in graph.given:
        tensor = graph.tensors[index]
        value = inputs.get(tensor.name)
        if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
            found = "nothing" if value is None else f"{value.dtype}{value.shape}"
            raise VerificationError(
                f"input '{tensor.name}' needs {tensor.dtype.value}{tensor.shape}, given was {found}"
            )


def _outputs(graph: Graph, values: Mapping[int, Array]) -> dict[str, Array]:
    outputs = {}
    for t in graph.handed_out:
        tensor = graph.tensors[t]
        value = values[t] if tensor.data is None else tensor.data
        outputs[tensor.name] = value.reshape(tensor.shape)
    return outputs


def _check_sizes(graph: Graph, values: Mapping[int, Array]) -> None:
    """LiteRT works shapes out for itself; a file that leaves one out, or gives another, was planned by its word."""
    for index, value in values.items():
        tensor = graph.tensors[index]
        if value.size != math.prod(tensor.shape) or value.dtype != tensor.dtype.numpy:
            raise VerificationError(
                f"tensor '{tensor.name}' is {tensor.dtype.value}{list(tensor.shape)} in the model, by which memory is "
                f"planned; LiteRT makes {value.dtype}{list(value.shape)} of it: convert the model with static shapes"
            )


@dataclass
class _Past:
    """What the steps before left behind: how many there were, and what operators in Micro were given, by index.

    These have an entry for each step, and in it the values for each sequence.
    """

    step: int = 0
    given: dict[int, list[list[dict[int, Array]]]] = field(default_factory=dict)


class _Evaluation:
    """The operators of a graph evaluated on several runs at once; `values` gains what becomes known."""

    def __init__(
        self,
        graph: Graph,
        session: litert.Session,
        micro: litert.Session,
        values: list[dict[int, Array]],
        cut: Mapping[int, str] | None,
        past: _Past,
    ) -> None:
        self.graph = graph
        self.session = session
        self.micro = micro
        self.values = values
        self.refused = False
        self.may_cut = cut is not None
        self.cuts = dict(cut or {})
        self.past = past
        # What the file calls a tensor that an operator writes over has one name before and afterwards.
        self.names = {v.after: v.before for v in graph.variables if v.in_place}
        self.read_again = self._read_again()

    def all(self) -> str:
        """Evaluate everything that the outputs need; returns which judge decided."""
        own, after = self._by_micro()
        together = [i for i in range(len(self.graph.operators)) if i not in after]
        try:
            self._together(together, after)
        except litert.Refused:
            # One at a time tells which operator it is, and whether somebody else has the answer.
            after = set(range(len(self.graph.operators)))
        for index in sorted(after):
            if index in self.cuts:
                self._cut(index)
            elif index in own:
                self._in_reference(index)
            else:
                self._alone(index)
        return JUDGE_CUT if self.refused else JUDGE_MICRO if own else JUDGE_LITERT

    def _by_micro(self) -> tuple[set[int], set[int]]:
        """The operators whose result is Micro's, and these with all that depend on their values."""
        own: set[int] = set()
        after: set[int] = set()
        touched: set[int] = set()
        for i, op in enumerate(self.graph.operators):
            if judges.micro_decides(self.graph, op) and reference.is_known(self.graph, op):
                own.add(i)
            strange = i in self.cuts or i in self.read_again or judges.litert_misses(self.graph, op) is not None
            if i in own or strange or (op.kind not in _SHAPE_ONLY and any(t in touched for t in op.inputs)):
                after.add(i)
                touched.update(op.outputs)
        self.refused = any(self.graph.operators[i].kind == "SOFTMAX" for i in own)
        return own, after

    def _places(self, operators: Sequence[int]) -> list[int]:
        """Where operators stand in the file: a graph whose borders were cut has fewer of them."""
        sources = ((index, self.graph.operators[index].source_index) for index in operators)
        return [index if place is None else place for index, place in sources]

    def _together(self, operators: Sequence[int], after: set[int]) -> None:
        """LiteRT's whole model, or all of it that comes before the operators `after`."""
        graph = self.graph
        read = {t for i in after for t in graph.operators[i].inputs}.union(graph.outputs)
        made = [t for i in operators for t in graph.operators[i].outputs if t in read]
        if made:
            state = {t for i in operators for t in graph.operators[i].inputs if t is not None and self._is_state(t)}
            wanted = dict.fromkeys([*made, *sorted(t for t in state if graph.tensors[t].is_variable)])
            given = [t for t in graph.inputs if t not in state]
            self._known(self._asked(self.session, operators, given, tuple(wanted), self.values))

    def _read_again(self) -> dict[int, dict[int, list[int]]]:
        """Operators that read a variable which has been set: what the file calls the tensors that they read instead.

        By the operator's index and the graph's tensor, all names of that tensor.
        """
        graph, found = self.graph, {}
        if not graph.variables:
            return {}
        everything = range(len(graph.operators))
        in_file = self.session.inputs_of(self._places(everything))
        for index, names in zip(everything, in_file, strict=True):
            pairs = [(t, name) for t, name in zip(graph.operators[index].inputs, names, strict=False) if t is not None]
            if any(name != self.names.get(t, t) for t, name in pairs):
                found[index] = {t: list(dict.fromkeys(name for u, name in pairs if u == t)) for t, _ in pairs}
        return found

    def _is_state(self, tensor: int) -> bool:
        """Whether the file has the tensor as one that operators write over."""
        return self.graph.tensors[tensor].is_variable or tensor in self.names or tensor in self.names.values()

    def _asked(
        self,
        session: litert.Session,
        operators: Sequence[int],
        given: Sequence[int],
        wanted: Sequence[int],
        runs: Sequence[Mapping[int, Array]],
        continued: Sequence[bool] = (),
    ) -> list[dict[int, Array]]:
        """`session.run` for operators and tensors of the graph."""
        file = self.names.get
        named = [{file(t, t): value for t, value in values.items()} for values in runs]
        asked = [file(t, t) for t in wanted]
        found = session.run(self._places(operators), given, tuple(dict.fromkeys(asked)), named, continued)
        return [{t: of[file(t, t)] for t in wanted} for of in found]

    def _alone(self, index: int) -> None:
        """One operator in LiteRT on known values; if LiteRT refuses it in Micro, or by Micro's arithmetic."""
        graph, op = self.graph, self.graph.operators[index]
        read = tuple(t for t in dict.fromkeys(op.inputs) if t is not None and not graph.tensors[t].is_constant)
        again = self.read_again.get(index, {})
        after = dict(updated(op))
        state = tuple(after.get(t, t) for t in read if self._is_state(t))
        given = [{t: values[t] for t in read if t in values} for values in self.values]
        plain = [t for t in read if not self._is_state(t)]
        if again:
            plain = [name for t in plain for name in again.get(t, [t])]
            given = [{name: value for t, value in of.items() for name in again.get(t, [t])} for of in given]
        try:
            if (why := judges.litert_misses(graph, op)) is not None:
                raise litert.Refused(why)
            found = self._asked(self.session, [index], plain, tuple(dict.fromkeys((*op.outputs, *state))), given)
        except litert.Refused as error:
            self.refused = True
            if reference.is_known(graph, op) and judges.micro_stands_in(graph, op):
                self._in_reference(index)
                return
            try:
                found = self._in_micro(index, plain, given, error)
            except VerificationError as nobody:
                if not self.may_cut:
                    raise
                self.cuts[index] = str(nobody.__cause__ or nobody)
                self._cut(index)
                return
        self._known(found)

    def _cut(self, index: int) -> None:
        """Random values for what an operator makes, other ones in each run."""
        for run, values in enumerate(self.values):
            for t in self.graph.operators[index].outputs:
                seed = [run, t, *([self.past.step] if self.past.step else [])]
                values[t] = random_input(self.graph.tensors[t], np.random.Generator(np.random.PCG64(seed)), 0)

    def _in_micro(
        self, index: int, plain: Sequence[int], given: Sequence[Mapping[int, Array]], error: litert.Refused
    ) -> list[dict[int, Array]]:
        """The outputs of an operator that LiteRT refused with `error`, in TensorFlow Lite Micro."""
        graph, op = self.graph, self.graph.operators[index]
        if (why := judges.micro_misses(graph, op)) is None:
            try:
                now = [{t: of[t] for t in plain} for of in given]
                steps = [*self.past.given.get(index, []), now]
                # Its state is nobody else's to see: the operator lives through all steps again.
                runs = [step[run] for run in range(len(now)) for step in steps]
                continued = [number > 0 for _ in now for number in range(len(steps))]
                found = self._asked(self.micro, [index], plain, own_outputs(op), runs, continued)
                if any(t is not None and self._is_state(t) for t in op.inputs):
                    self.past.given[index] = steps
                return found[len(steps) - 1 :: len(steps)]
            except VerificationError as second:
                why = str(second)
        raise VerificationError(f"no judge for {judges.described(graph, op)}: {error}; {why}") from error

    def _known(self, found: Sequence[Mapping[int, Array]]) -> None:
        for values, new in zip(self.values, found, strict=True):
            _check_sizes(self.graph, new)
            values |= new

    def _in_reference(self, index: int) -> None:
        for values in self.values:
            try:
                values |= reference.run_operator(self.graph, index, values)
            except UnsupportedOperatorError as error:
                raise VerificationError(str(error)) from error
