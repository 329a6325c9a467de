"""What a network ought to output: its operators evaluated by those who decide, run after run.

Owns who is asked about which operator, in which order, and what becomes of unverified operators.

The reference is LiteRT with its reference kernels, in one run. Where `judges` says that TensorFlow Lite Micro
decides, and for what LiteRT ends its process on although the result is clear (a SOFTMAX of 512 classes or more, say,
whose sum of exponentials may ask for a shift by 32), `reference` has Micro's arithmetic; what else LiteRT refuses is
asked of its default kernels, where these are the same ones of later versions (TILE, say), or of Micro itself, if that
is installed (SVDF, say). Operators that depend on such a one run in LiteRT one at a time, on the values so found.

An operator that none of them can judge is named, or, where the caller can cut it out of what it runs as well, cut:
both sides are given the same random values for what it makes, what it reads is compared like an output, and so
everything before and behind it is judged. Where the caller cannot, because the NPU runs the operator or a rewrite took
it, everything before it is judged and nothing that depends on it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from ..errors import UnsupportedOperatorError, VerificationError
from ..ir import Array, Graph
from ..ir.operators import OPERATORS, own_outputs, updated
from ..util.records import dataclass
from . import judges, litert, reference
from .noise import random_input

JUDGE_LITERT = "litert"
JUDGE_MICRO = "litert + TFLM rounding of fully connected"
JUDGE_CUT = "litert, TFLM or its arithmetic for operators that it refuses"

_SHAPE_ONLY = frozenset(row.name for row in OPERATORS.values() if not row.looks_at_values)
_MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class Cut:
    """An unverified operator: why, and what stands for its outputs. It goes by its first output's name."""

    operator: str
    reason: str
    made: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Expectation:
    """What the reference says for one set of inputs, and which reference it was; `cuts` by their first output's name.

    Outputs of an unverified operator are not among `outputs`, and what it reads is, by `read_name`. `not_judged` has a
    sentence for each unverified operator, and one for those that depend on some that could not be skipped.
    """

    outputs: Mapping[str, Array]
    judge: str
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    not_judged: tuple[str, ...] = ()


def read_name(operator: str, place: int) -> str:
    """What an unverified operator reads at a place, among outputs that are compared."""
    return f"what operator '{operator}' reads as its input {place}"


def reference_outputs(graph: Graph, inputs: Mapping[str, Array]) -> Expectation:
    """What the network ought to output for `inputs`; see `reference_runs`."""
    return reference_runs(graph, [inputs])[0]


def reference_runs(
    graph: Graph, runs: Sequence[Mapping[str, Array]], cut: Mapping[int, str] | None = None
) -> tuple[Expectation, ...]:
    """What the network ought to output for each of several inputs, each after a reset; see `reference_steps`."""
    return tuple(expected for (expected,) in reference_steps(graph, [[inputs] for inputs in runs], cut))


def reference_steps(
    graph: Graph,
    sequences: Sequence[Sequence[Mapping[str, Array]]],
    cut: Mapping[int, str] | None = None,
    removable: Collection[int] | None = None,
) -> tuple[tuple[Expectation, ...], ...]:
    """What the network ought to output for each of several sequences of inputs, in one start of LiteRT.

    All have as many steps; state is as after a reset before the first, and lives on to the next. With `cut`, operators
    by index with the reasons, these are cut. So is every operator without a judge that is `removable` (None: all are);
    what depends on another one is not judged.
    Raises `VerificationError`: LiteRT is not installed, an input does not fit, or, without `cut`, an operator has no
    judge.
    """
    if not graph.source:
        raise VerificationError(f"'{graph.name}' was not read from a file: there is nothing to give to LiteRT")
    for inputs in itertools.chain.from_iterable(sequences):
        _check_inputs(graph, inputs)
    reasons = None if cut is None else dict(cut)
    with _Sessions(graph) as sessions:
        while True:
            found = _evaluate_steps(graph, sequences, sessions, reasons, removable)
            if found is not None:
                return tuple(map(tuple, found))


def _evaluate_steps(
    graph: Graph,
    sequences: Sequence[Sequence[Mapping[str, Array]]],
    sessions: _Sessions,
    reasons: dict[int, str] | None,
    removable: Collection[int] | None,
) -> list[list[Expectation]] | None:
    """The expectations of `reference_steps`, or None where a later step cut an operator that the first ones judged.

    `reasons` gains what is cut.
    """
    state: list[dict[int, Array]] = [{v.before: v.initial for v in graph.variables} for _ in sequences]
    past = _Past()
    found: list[list[Expectation]] = [[] for _ in sequences]
    for runs in zip(*sequences, strict=True):
        values = [
            {t: inputs[graph.tensors[t].name] for t in graph.given} | held
            for inputs, held in zip(runs, state, strict=True)
        ]
        evaluation = _Evaluation(graph, sessions, values, _Cuts(reasons, removable), past)
        judge = evaluation.all()
        if reasons is not None and not evaluation.cuts.keys() <= reasons.keys():
            reasons.update(evaluation.cuts)
            if past.step:
                return None
        for known, expectations in zip(values, found, strict=True):
            expectations.append(_expectation(graph, known, judge, evaluation))
        state = [_kept(graph, known) for known in values]
        past.step += 1
        past.unknown = {v.before for v in graph.variables if v.after in evaluation.unknown}
    return found


@dataclass(frozen=True, eq=False)
class _Cuts:
    """Operators to cut with the reasons, None where nothing may be; `removable` as for `reference_steps`."""

    reasons: Mapping[int, str] | None
    removable: Collection[int] | None


class _Sessions:
    """One file in all interpreters; a context manager that ends their processes."""

    def __init__(self, graph: Graph) -> None:
        self._sessions = {
            one: litert.Session(graph.source, graph.name, one)
            for one in (litert.LITERT, litert.LITERT_DEFAULT, litert.MICRO)
        }

    def __enter__(self) -> _Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()

    def __getitem__(self, interpreter: litert.Interpreter) -> litert.Session:
        return self._sessions[interpreter]


def _kept(graph: Graph, values: Mapping[int, Array]) -> dict[int, Array]:
    """The state after a run, as far as it is known: TensorFlow Lite Micro keeps that of variable tensors to itself."""
    after = {v.before: v.after for v in graph.variables} | {t: t for t in graph.kept if graph.tensors[t].is_variable}
    return {before: values[t] for before, t in after.items() if t in values}


def _expectation(graph: Graph, values: Mapping[int, Array], judge: str, evaluation: _Evaluation) -> Expectation:
    outputs = _outputs(graph, values, evaluation.unknown)
    cuts: dict[str, Cut] = {}
    state = {variable.before for variable in graph.variables if variable.in_place}
    for index, reason in sorted(evaluation.cuts.items()):
        op = graph.operators[index]
        if not op.outputs or not evaluation.may_remove(index):
            continue
        name = graph.tensors[op.outputs[0]].name
        cuts[name] = Cut(judges.described(graph, op), reason, tuple(values[t] for t in op.outputs))
        for t in op.outputs:
            outputs.pop(graph.tensors[t].name, None)
        for place, read in enumerate(op.inputs):
            if read is not None and read in values and not graph.tensors[read].is_variable and read not in state:
                outputs[read_name(name, place)] = values[read]
    return Expectation(outputs, judge, cuts, tuple(_sentences(graph, evaluation)))


def _sentences(graph: Graph, evaluation: _Evaluation) -> Iterator[str]:
    """A sentence for each unverified operator, and one for those that depend on them."""
    for index, reason in sorted(evaluation.cuts.items()):
        yield f"{judges.described(graph, graph.operators[index])}: {reason}"
    if not evaluation.dependent:
        return
    names = [f"'{graph.operators[index].name}'" for index in evaluation.dependent[:_MOST_NAMED]]
    more = len(evaluation.dependent) - len(names)
    several = f" and {more} more, which depend" if more else ", which depends" if len(names) == 1 else ", which depend"
    yield f"operator{'' if len(names) + more == 1 else 's'} {', '.join(names)}{several} on it"


def _check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    for index in graph.given:
        tensor = graph.tensors[index]
        value = inputs.get(tensor.name)
        if value is None or value.shape != tensor.shape or value.dtype != tensor.dtype.numpy:
            found = "nothing" if value is None else f"{value.dtype}{value.shape}"
            raise VerificationError(
                f"input '{tensor.name}' needs {tensor.dtype.value}{tensor.shape}, given was {found}"
            )


def _outputs(graph: Graph, values: Mapping[int, Array], unknown: Collection[int]) -> dict[str, Array]:
    outputs = {}
    for t in graph.handed_out:
        if t in unknown:
            continue
        tensor = graph.tensors[t]
        value = values[t] if tensor.data is None else tensor.data
        outputs[tensor.name] = value.reshape(tensor.shape) if tensor.shape or value.size == 1 else value
    return outputs


def _check_sizes(graph: Graph, values: Mapping[int, Array]) -> None:
    """LiteRT works shapes out for itself; a file that leaves one out, or gives another, was planned by its word."""
    for index, value in values.items():
        tensor = graph.tensors[index]
        has_size = value.size == math.prod(tensor.shape) or _is_left_to_its_kernel(graph, index)
        if not has_size or value.dtype != tensor.dtype.numpy:
            raise VerificationError(
                f"tensor '{tensor.name}' is {tensor.dtype.value}{list(tensor.shape)} in the model, by which memory is "
                f"planned; LiteRT makes {value.dtype}{list(value.shape)} of it: convert the model with static shapes"
            )


def _is_left_to_its_kernel(graph: Graph, index: int) -> bool:
    """Whether a file has no shape for a tensor because an operator of the user's own makes it."""
    makers = (op for op in graph.operators if index in op.outputs)
    return not graph.tensors[index].shape and all(op.kind not in OPERATORS for op in makers)


@dataclass
class _Past:
    """What the steps before left behind: how many there were, and what operators in Micro were given, by index.

    These have an entry for each step, and in it the values for each sequence. `unknown` is the state that depends on
    what is unverified.
    """

    step: int = 0
    unknown: set[int] = field(default_factory=set)
    given: dict[int, list[list[dict[int, Array]]]] = field(default_factory=dict)


class _Evaluation:
    """The operators of a graph evaluated on several runs at once; `values` gains what becomes known."""

    def __init__(
        self, graph: Graph, sessions: _Sessions, values: list[dict[int, Array]], cuts: _Cuts, past: _Past
    ) -> None:
        self.graph = graph
        self.sessions = sessions
        self.values = values
        self.refused = False
        self.may_cut = cuts.reasons is not None
        self.cuts = dict(cuts.reasons or {})
        self.removable = cuts.removable
        self.unknown = set(past.unknown)
        self.dependent: list[int] = []
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
        except litert.LitertRefusal:
            # One at a time tells which operator it is, and whether somebody else has the answer.
            after = set(range(len(self.graph.operators)))
        for index in sorted(after):
            if index in self.cuts:
                self._cut(index)
            elif self._depends(index):
                self.dependent.append(index)
                self.unknown.update(self.graph.operators[index].outputs)
            elif index in own:
                self._in_reference(index)
            else:
                self._alone(index)
        return JUDGE_CUT if self.refused else JUDGE_MICRO if own else JUDGE_LITERT

    def may_remove(self, index: int) -> bool:
        """Whether the caller can leave an operator out of what it runs."""
        return self.removable is None or index in self.removable

    def _depends(self, index: int) -> bool:
        """Whether an operator reads unverified values."""
        op = self.graph.operators[index]
        return op.kind not in _SHAPE_ONLY and any(t in self.unknown for t in op.inputs)

    def _by_micro(self) -> tuple[set[int], set[int]]:
        """The operators whose result is Micro's, and these with all that depend on their values."""
        own: set[int] = set()
        after: set[int] = set()
        touched: set[int] = set(self.unknown)
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
            self._known(self._asked(self.sessions[litert.LITERT], operators, given, tuple(wanted), self.values))

    def _read_again(self) -> dict[int, dict[int, list[int]]]:
        """Operators that read a variable which has been set: what the file calls the tensors that they read instead.

        By the operator's index and the graph's tensor, all names of that tensor.
        """
        graph, found = self.graph, {}
        if not graph.variables:
            return {}
        everything = range(len(graph.operators))
        in_file = self.sessions[litert.LITERT].inputs_of(self._places(everything))
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
        """One operator on known values: in LiteRT, or who else has the answer."""
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
        wanted = tuple(dict.fromkeys((*op.outputs, *state)))
        try:
            if (why := judges.litert_misses(graph, op)) is not None:
                raise litert.LitertRefusal(why)
            found = self._in_litert(index, plain, wanted, given)
        except litert.LitertRefusal as error:
            self.refused = True
            if reference.is_known(graph, op) and judges.micro_stands_in(graph, op):
                self._in_reference(index)
                return
            try:
                found = self._in_micro(index, plain, given, error)
            except VerificationError as nobody:
                self._give_up(index, nobody)
                return
        self._known(found)

    def _in_litert(
        self, index: int, plain: Sequence[int], wanted: Sequence[int], given: Sequence[Mapping[int, Array]]
    ) -> list[dict[int, Array]]:
        """What LiteRT makes of one operator: its reference kernel, or a later version of the same one."""
        try:
            return self._asked(self.sessions[litert.LITERT], [index], plain, wanted, given)
        except litert.LitertRefusal:
            if not judges.default_kernel_decides(self.graph.operators[index]):
                raise
            try:
                found = self._asked(self.sessions[litert.LITERT_DEFAULT], [index], plain, wanted, given)
            except litert.LitertRefusal:
                found = None
            if found is None:
                raise
            self.refused = True
            return found

    def _give_up(self, index: int, error: VerificationError) -> None:
        """Skip an unverified operator. Raises `error` where none may be skipped."""
        if not self.may_cut:
            raise error
        self.cuts[index] = str(error.__cause__ or error)
        self._cut(index)

    def _cut(self, index: int) -> None:
        """Random values for what an operator makes, other ones in each run; none where the caller runs it."""
        if not self.may_remove(index):
            self.unknown.update(self.graph.operators[index].outputs)
            return
        for run, values in enumerate(self.values):
            for t in self.graph.operators[index].outputs:
                seed = [run, t, *([self.past.step] if self.past.step else [])]
                values[t] = random_input(self.graph.tensors[t], np.random.Generator(np.random.PCG64(seed)), 0)

    def _in_micro(
        self, index: int, plain: Sequence[int], given: Sequence[Mapping[int, Array]], error: litert.LitertRefusal
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
                found = self._asked(self.sessions[litert.MICRO], [index], plain, own_outputs(op), runs, continued)
                if any(t is not None and self._is_state(t) for t in op.inputs):
                    self.past.given[index] = steps
                return found[len(steps) - 1 :: len(steps)]
            except VerificationError as second:
                why = str(second)
        reasons = "; ".join(dict.fromkeys((str(error), why)))
        raise VerificationError(f"no judge for {judges.described(graph, op)}: {reasons}") from error

    def _known(self, found: Sequence[Mapping[int, Array]]) -> None:
        for values, new in zip(self.values, found, strict=True):
            _check_sizes(self.graph, new)
            values |= new

    def _in_reference(self, index: int) -> None:
        found = []
        for values in self.values:
            try:
                found.append(reference.run_operator(self.graph, index, values))
            except UnsupportedOperatorError as error:
                self._give_up(index, VerificationError(str(error)))
                return
        for values, new in zip(self.values, found, strict=True):
            values |= new
