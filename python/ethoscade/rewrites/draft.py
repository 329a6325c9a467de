"""A graph being rewritten: operators come and go, tensors are replaced by others, all in time linear in the change.

Owns the bookkeeping that every rule needs (who makes a tensor, who reads it) and the return to an immutable, verified
`Graph`. Decides nothing; a rule does. Lives inside one rule and is never handed to another stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir import Graph, Operator, Tensor

OnNpu = Callable[[Graph, Operator], bool]
"""Whether an operator will run on the NPU. Operators for the CPU are copied from the file, so no rule changes them."""


class Draft:
    """A mutable copy of a graph's structure. Indices are those of the graph it was made from; new tensors follow."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors: list[Tensor] = list(graph.tensors)
        self.operators: list[Operator | None] = list(graph.operators)
        self.producer: dict[int, int] = graph.producer()
        # Dictionaries as ordered sets, so that nothing depends on hashing.
        self._readers: dict[int, dict[int, None]] = {
            t: dict.fromkeys(readers) for t, readers in graph.consumers().items()
        }
        self._outputs = frozenset(graph.outputs)
        self._inputs = frozenset(graph.inputs)
        self._written_over = frozenset(v.before for v in graph.variables if v.in_place)
        self._alias: dict[int, int] = {}
        self._changed = False

    def resolve(self, tensor: int) -> int:
        """The tensor that now stands for `tensor`."""
        root = tensor
        while root in self._alias:
            root = self._alias[root]
        while tensor != root:
            self._alias[tensor], tensor = root, self._alias[tensor]
        return root

    def readers(self, tensor: int) -> tuple[int, ...]:
        """Indices of the operators that read a tensor, oldest first."""
        return tuple(self._readers.get(self.resolve(tensor), ()))

    def read_only_by(self, tensor: int, operator: int) -> bool:
        """Whether `operator` is the tensor's one reader, the caller of the network included."""
        return tensor not in self._outputs and self._readers.get(tensor, {}).keys() == {operator}

    def is_output(self, tensor: int) -> bool:
        """Whether the network hands the tensor to its caller."""
        return tensor in self._outputs

    def is_given(self, tensor: int) -> bool:
        """Whether no operator makes the tensor: an input, a constant or a variable."""
        t = self.tensors[tensor]
        return tensor in self._inputs or t.is_constant or t.is_variable

    def is_written_over(self, tensor: int) -> bool:
        """Whether an operator writes new state over this tensor, so that later readers see another value."""
        return self.tensors[tensor].is_variable or tensor in self._written_over

    def change(self, index: int, operator: Operator) -> None:
        """Put another operator in the place of one with the same inputs and outputs."""
        self.operators[index] = operator
        self._changed = True

    def set_constant(self, tensor: int, constant: Tensor) -> None:
        """Make a tensor constant and remove the operator that made it."""
        self.tensors[tensor] = constant
        self._remove(self.producer[tensor])

    def bypass(self, index: int) -> None:
        """Remove an operator with one output; its readers read the operator's first input instead.

        The output must not be the network's.
        """
        operator = self._operator(index)
        old, new = operator.outputs[0], self._first_input(operator)
        self._remove(index)
        self._rename(old, new)

    def absorb(self, index: int, producer: Operator | None = None) -> None:
        """Remove an operator with one output; the producer of its first input writes the output instead.

        `producer` replaces that maker (its outputs excepted). Other readers of the input read the output from now on.
        """
        operator = self._operator(index)
        old, new = self._first_input(operator), operator.outputs[0]
        maker = self.producer.pop(old)
        self._remove(index)
        changed = producer or self._operator(maker)
        self.operators[maker] = replace(changed, outputs=tuple(new if t == old else t for t in changed.outputs))
        self.producer[new] = maker
        self._rename(old, new)

    def finish(self) -> Graph:
        """The rewritten graph, verified; the very graph it began with if nothing was changed."""
        if not self._changed:
            return self.graph
        operators = tuple(
            replace(op, inputs=tuple(None if t is None else self.resolve(t) for t in op.inputs))
            for op in self.operators
            if op is not None
        )
        return replace(self.graph, tensors=tuple(self.tensors), operators=operators).verify()

    def _operator(self, index: int) -> Operator:
        operator = self.operators[index]
        if operator is None:
            raise AssertionError(f"operator {index} is already gone")
        return operator

    def _first_input(self, operator: Operator) -> int:
        first = operator.inputs[0]
        if first is None:
            raise AssertionError(f"operator '{operator.name}' has no input to stand for its output")
        return self.resolve(first)

    def _remove(self, index: int) -> None:
        operator = self._operator(index)
        for t in operator.inputs:
            if t is not None:
                self._readers.get(self.resolve(t), {}).pop(index, None)
        for t in operator.outputs:
            self.producer.pop(t, None)
        self.operators[index] = None
        self._changed = True

    def _rename(self, old: int, new: int) -> None:
        self._readers.setdefault(new, {}).update(self._readers.pop(old, {}))
        self._alias[old] = new


def same_values(a: Tensor, b: Tensor) -> bool:
    """Whether the stored bytes of both mean the same numbers (shapes may differ)."""
    return a.dtype is b.dtype and a.quantisation == b.quantisation
