"""Plays the CPU operators of a compiled network: on the reference where that knows them, else in LiteRT one by one.

What LiteRT does not take, TensorFlow Lite Micro plays, if it is installed.

Owns the executor of each operator and the complaint about those without one, made before the first one runs. Where
values come from and go to is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import tflite

from ..errors import EthoscadeError, UnsupportedOperatorError
from ..ir import Array, Graph, Operator, Tensor
from ..ir.operators import own_outputs, updated
from ..judge import judges, litert, reference


class Player:
    """The CPU operators of one network; a context manager that ends the interpreters' processes, if any was needed.

    `prepare` must have found nothing missing before `run`.
    """

    def __init__(
        self, graph: Graph, operators: Mapping[int, int], file: Callable[[], bytes], *, trusted: bool = True
    ) -> None:
        """`operators` maps the CPU operators' indices in `graph` to their places in the .tflite that `file` gives.

        An operator that is not `trusted` does not run in LiteRT, whose work cannot be bounded.
        """
        self._graph = graph
        self._places = operators
        self._file = file
        self._trusted = trusted
        self._sessions: dict[litert.Interpreter, litert.Session] = {}
        self._interpreters: dict[int, litert.Interpreter] = {}
        self._inputs: dict[int, Sequence[int]] = {}
        self._outputs: dict[int, Sequence[int]] = {}
        self._left_out: Sequence[Mapping[int, tuple[Array, ...]]] = ()
        self._past: dict[int, list[Mapping[int, Array]]] = {}
        self.read: list[dict[int, Mapping[int, Array]]] = []
        """What operators that were left out were given, by place, in each run since the last `reset`."""

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    @property
    def operators(self) -> Collection[int]:
        """The operators that it plays, by index."""
        return self._places

    def leave_out(self, made: Sequence[Mapping[int, tuple[Array, ...]]]) -> None:
        """From now on these operators make these outputs, and are not run; `read` tells what they were given.

        `made` has an entry for each run after a reset, all of the same operators.
        """
        self._left_out = made
        self.reset()

    def reset(self) -> None:
        """The next run is the first after a reset: no operator has state."""
        self._past.clear()
        self.read = []

    def begin(self) -> None:
        """A run begins."""
        self.read.append({})

    def missing(self) -> dict[int, str]:
        """The operators that cannot be played, by index, each with the reason."""
        left_out = self._left_out[0] if self._left_out else {}
        unknown = [index for index in self._places if index not in left_out and not self._is_ours(index)]
        if not unknown or self._sessions:
            return {}
        if not self._trusted:
            return dict.fromkeys(unknown, "they are not among those that ethoscade plays by itself")
        if not litert.is_installed():
            why = 'playing them needs LiteRT, which is not installed: pip install "ethoscade[verify]"'
            return dict.fromkeys(unknown, why)
        try:
            self._open(unknown)
        except EthoscadeError as error:
            return dict.fromkeys(unknown, str(error))
        refused = {index: self._refused(index) for index in unknown}
        return {index: why for index, why in refused.items() if why is not None}

    def _is_ours(self, index: int) -> bool:
        """Whether the reference plays an operator."""
        op = self._graph.operators[index]
        return reference.is_known(self._graph, op) and judges.undefined(self._graph, op) is None

    def prepare(self) -> None:
        """Raises `UnsupportedOperatorError` that names every operator that cannot be played."""
        missing = self.missing()
        if not missing:
            return
        operators = self._graph.operators
        told = "; ".join(
            ", ".join(judges.described(self._graph, operators[i]) for i, why in missing.items() if why == reason)
            + f": {reason}"
            for reason in dict.fromkeys(missing.values())
        )
        raise UnsupportedOperatorError(
            f"'{self._graph.name}' has operators on the CPU that cannot be played here: {told}",
            operator=operators[next(iter(missing))].name,
            constraint="player of CPU operators",
        )

    def run(self, index: int, values: Mapping[int, Array]) -> dict[int, Array]:
        """The outputs, and the variables that it keeps its state in, of the operator with that index of the graph.

        `values` has its inputs; constants need none, and a variable without one is as after a reset. Micro does not
        tell its state: there an operator lives through all runs since the last `reset` again, and keeps none outside.
        """
        op = self._graph.operators[index]
        if self._left_out and index in self._left_out[0]:
            self.read[-1][index] = {place: values[t] for place, t in enumerate(op.inputs) if t is not None}
            return dict(zip(op.outputs, self._left_out[len(self.read) - 1][index], strict=True))
        if reference.is_known(self._graph, op):
            return reference.run_operator(self._graph, op, values)
        interpreter = self._interpreters[index]
        names, made = self._named(index)
        plain, state = self._divided(index)
        micro = interpreter is litert.MICRO
        given = {name: values[names[name]] for name in (plain if micro else names) if names[name] in values}
        past = self._past.setdefault(index, []) if micro and state else []
        read_back = made if micro else state | made
        continued = [number > 0 for number in range(len(past) + 1)]
        found = self._sessions[interpreter].run(
            [self._places[index]], plain, tuple(read_back), [*past, given], continued
        )[-1]
        past.append(given)
        return {t: self._fitted(found[name], self._graph.tensors[t], op) for name, t in read_back.items()}

    def _open(self, unknown: Sequence[int]) -> None:
        file = self._file()
        subgraph = tflite.Model.GetRootAs(file, 0).Subgraphs(0)
        for index in unknown:
            table = subgraph.Operators(self._places[index])
            self._inputs[index] = [int(table.Inputs(i)) for i in range(table.InputsLength())]
            self._outputs[index] = [int(table.Outputs(i)) for i in range(table.OutputsLength())]
        interpreters = [one for one in (litert.LITERT, litert.LITERT_DEFAULT, litert.MICRO) if litert.is_installed(one)]
        self._sessions = {one: litert.Session(file, self._graph.name, one) for one in interpreters}

    def _named(self, index: int) -> tuple[dict[int, int], dict[int, int]]:
        """The file's tensors and the graph's of the inputs that are no constants, and of the outputs."""
        op, tensors = self._graph.operators[index], self._graph.tensors
        pairs = zip(self._inputs[index], op.inputs, strict=True)
        inputs = {name: t for name, t in pairs if t is not None and not tensors[t].is_constant}
        return inputs, dict(zip(self._outputs[index], own_outputs(op), strict=True))

    def _divided(self, index: int) -> tuple[list[int], dict[int, int]]:
        """The file's inputs with values, and those of state, with the graph's tensor for what it is afterwards."""
        after = dict(updated(self._graph.operators[index]))
        names, _ = self._named(index)
        state = {name: after.get(t, t) for name, t in names.items() if t in after or self._graph.tensors[t].is_variable}
        return [name for name in names if name not in state], state

    def _refused(self, index: int) -> str | None:
        """Why no interpreter plays an operator, or None; the first that does is remembered."""
        reasons = []
        for interpreter in self._sessions:
            op = self._graph.operators[index]
            if interpreter is litert.LITERT_DEFAULT and not judges.default_kernel_decides(op):
                continue
            misses = judges.micro_misses if interpreter is litert.MICRO else judges.litert_misses
            why = misses(self._graph, op) or self._tried(index, interpreter)
            if why is None:
                self._interpreters[index] = interpreter
                return None
            reasons.append(why)
        return "; ".join(dict.fromkeys(reasons))

    def _tried(self, index: int, interpreter: litert.Interpreter) -> str | None:
        """Why an interpreter does not play an operator, or None. It is run on zeros: some end the process only then."""
        names, made = self._named(index)
        tensors = {name: self._graph.tensors[t] for name, t in names.items()}
        plain, _ = self._divided(index)
        zeros = {name: np.zeros(tensors[name].shape, tensors[name].dtype.numpy) for name in plain}
        for runs in ([], [zeros]):
            try:
                self._sessions[interpreter].run([self._places[index]], plain, tuple(made), runs)
            except litert.LitertRefusal as error:
                # What it does not want to compute of zeros (a division, say) it may want of others.
                if not runs or isinstance(error, litert.LitertAbort):
                    return str(error)
        return None

    def _fitted(self, value: Array, tensor: Tensor, op: Operator) -> Array:
        """A value in the shape that the file has; that of the kernel where the file leaves it out."""
        if not tensor.shape and value.dtype == tensor.dtype.numpy:
            return value if value.size > 1 else value.reshape(tensor.shape)
        if value.nbytes != tensor.size_bytes or value.dtype != tensor.dtype.numpy:
            raise UnsupportedOperatorError(
                f"{judges.described(self._graph, op)} makes {value.dtype}{value.shape} of what the file calls "
                f"'{tensor.name}', {tensor.dtype.value}{tensor.shape}",
                operator=op.name,
                constraint="shape of outputs",
            )
        return value.reshape(tensor.shape)
