"""Operators, and the graph of them and their tensors, with its `verify()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar

from ..errors import ModelFormatError
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .attributes import Attrs
from .tensor import Array, Tensor

ETHOS_U = "ethos-u"
"""Kind of the custom operator that holds an NPU's commands."""

_NPU_MEMORIES = 4

_Class = TypeVar("_Class")


@dataclass(frozen=True)
class Operator:
    """One operator. `kind` is TFLite's builtin name, a custom operator's code, or TOSA's name ("tosa.conv2d").

    An absent optional input is None.
    `attrs` is None for kinds without attributes of interest and for kinds the frontend only carries along.
    `source_index` is the operator's place in the file it came from, None for one that a rewrite made.
    `opaque` says that the frontend did not look into it: it can only stay on the CPU, for the reason given.
    `intermediates` are tensors that lend an LSTM their quantisation; no bytes of them exist.

    The shape of an operator follows from its inputs and attrs, not from its output tensor: once reshapes are folded,
    an operator for the NPU may write a tensor of another shape with the same number of elements in the same order,
    and FULLY_CONNECTED and TRANSPOSE may read one. Operators for the CPU have the shapes that the file gave them.
    """

    kind: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attrs: Attrs = None
    source_index: int | None = None
    opaque: str | None = None
    intermediates: tuple[int, ...] = ()

    @property
    def memories(self) -> tuple[int | None, ...]:
        """The first inputs of an NPU operator: payload, constants, arena, fast memory. Other operators have none."""
        return self.inputs[:_NPU_MEMORIES] if self.kind == ETHOS_U else ()

    def attributes(self, wanted: type[_Class]) -> _Class:
        """`attrs` as the class that the operator's kind has. Raises `ModelFormatError` if they are of another."""
        if not isinstance(self.attrs, wanted):
            raise ModelFormatError(
                f"operator '{self.name}' ({self.kind}) has attributes {self.attrs!r}; it takes {wanted.__name__}",
                operator=self.name,
                value=self.attrs,
            )
        return self.attrs

    def input(self, place: int) -> int:
        """The tensor index of the input at `place`. Raises `ModelFormatError` if it is absent."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise ModelFormatError(
                f"operator '{self.name}' ({self.kind}) has no input {place}", operator=self.name, value=place
            )
        return found


@dataclass(frozen=True, eq=False)
class Variable:
    """State that lives on: what `after` holds at the end of a run, `before` holds at the start of the next one.

    Both are tensors of the graph, by index, of one type and shape. Before the first run `before` holds `initial`. So a
    run is a function of its inputs and its state, and nothing in it changes under a reader's hands.

    `in_place` says that the file has one tensor for both, a variable tensor that the operator which makes `after`
    writes over; else they are what a READ_VARIABLE makes and an ASSIGN_VARIABLE stores, of the resource called `name`.
    """

    name: str
    before: int
    after: int
    initial: Array = field(repr=False)
    in_place: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """Tensors and operators by dense index, operators in execution order.

    `inputs` hold a value before the first operator, `outputs` are wanted after the last: first those of the caller, in
    the file's order, then the state in the order of `variables`, `before` and `after`.
    `source` holds the bytes of the file (operators that stay on the CPU are copied from it), `metadata` the file's
    named metadata buffers. `faults` has a sentence for each thing that is wrong with a compiled file that runs all the
    same.
    """

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    source: bytes = field(default=b"", repr=False)
    metadata: Mapping[str, bytes] = field(default_factory=lambda: FrozenMap({}), repr=False)
    variables: tuple[Variable, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[int, ...]:
        """The inputs that the caller brings: all but the state."""
        return self.inputs[: len(self.inputs) - len(self.variables)]

    @property
    def handed_out(self) -> tuple[int, ...]:
        """The outputs that the caller gets: all but the state."""
        return self.outputs[: len(self.outputs) - len(self.variables)]

    @property
    def kept(self) -> tuple[int, ...]:
        """The tensors whose bytes hold state from the end of one run to the start of the next."""
        variables = (i for i, tensor in enumerate(self.tensors) if tensor.is_variable)
        return (*variables, *(variable.before for variable in self.variables))

    def read(self, operator: Operator, place: int = 0) -> Tensor:
        """The tensor that `operator` reads at `place`. Raises `ModelFormatError` if that input is absent."""
        return self.tensors[operator.input(place)]

    def made(self, operator: Operator, place: int = 0) -> Tensor:
        """The tensor that `operator` writes at `place`."""
        return self.tensors[operator.outputs[place]]

    def producer(self) -> dict[int, int]:
        """Tensor index to the index of the operator that makes it."""
        return {t: i for i, op in enumerate(self.operators) for t in op.outputs}

    def consumers(self) -> dict[int, tuple[int, ...]]:
        """Tensor index to the indices of the operators that read it, ascending, without repetition."""
        found: dict[int, list[int]] = {}
        for i, op in enumerate(self.operators):
            for t in dict.fromkeys(t for t in op.inputs if t is not None):
                found.setdefault(t, []).append(i)
        return {t: tuple(readers) for t, readers in found.items()}

    def verify(self) -> Graph:
        """Check the invariants of the data model and return self.

        Raises `ModelFormatError`: an index out of range, a tensor made twice or read before it is made, a constant
        whose data has another shape or type, an output without a producer. NPU programs may write what is there
        already.
        """
        known = set(self.inputs) | {i for i, t in enumerate(self.tensors) if t.is_constant or t.is_variable}
        self._check_variables()
        for index in (*self.inputs, *self.outputs):
            self._check_index(index, "graph")
        for tensor in self.tensors:
            # Compiled files and scalar reshapes carry constants without elements; a value has at least one.
            if any(d <= 0 for d in tensor.shape) and not (tensor.is_constant and tensor.shape == (0,)):
                raise ModelFormatError(
                    f"tensor '{tensor.name}' has shape {tensor.shape}: every dimension must be at least 1",
                    tensor=tensor.name,
                    value=tensor.shape,
                )
            if tensor.data is not None and (
                tensor.data.shape != tensor.shape or tensor.data.dtype != tensor.dtype.numpy
            ):
                raise ModelFormatError(
                    f"constant '{tensor.name}' holds {tensor.data.dtype}{tensor.data.shape}, "
                    f"its tensor says {tensor.dtype.value}{tensor.shape}",
                    tensor=tensor.name,
                    value=tensor.data.shape,
                )
        for op in self.operators:
            for t in op.inputs:
                if t is None:
                    continue
                self._check_index(t, op.name)
                if t not in known:
                    raise ModelFormatError(
                        f"operator '{op.name}' ({op.kind}) reads tensor '{self.tensors[t].name}' before anything "
                        f"makes it: operators are out of order or an input is missing",
                        operator=op.name,
                        tensor=self.tensors[t].name,
                        value=t,
                        constraint="operators in order",
                    )
            for t in op.intermediates:
                self._check_index(t, op.name)
            for t in op.outputs:
                self._check_index(t, op.name)
                rewritten = op.kind == ETHOS_U and not self.tensors[t].is_constant
                if t in known and not rewritten:
                    raise ModelFormatError(
                        f"operator '{op.name}' ({op.kind}) writes tensor '{self.tensors[t].name}', which is a "
                        f"constant, a variable, an input or already made",
                        operator=op.name,
                        tensor=self.tensors[t].name,
                        value=t,
                        constraint="one maker of a tensor",
                    )
                known.add(t)
        for t in self.outputs:
            if t not in known:
                raise ModelFormatError(
                    f"graph output '{self.tensors[t].name}' is made by no operator",
                    tensor=self.tensors[t].name,
                    value=t,
                    constraint="outputs that operators make",
                )
        return self

    def _check_variables(self) -> None:
        state = [[getattr(variable, end) for variable in self.variables] for end in ("before", "after")]
        if state != [list(self.inputs[len(self.given) :]), list(self.outputs[len(self.handed_out) :])]:
            raise AssertionError(f"the variables of '{self.name}' are not the last of its inputs and outputs")
        for variable in self.variables:
            for index in (variable.before, variable.after):
                self._check_index(index, variable.name)
                tensor, initial = self.tensors[index], variable.initial
                if (tensor.size_bytes, tensor.dtype.numpy) != (initial.nbytes, initial.dtype):
                    raise ModelFormatError(
                        f"variable '{variable.name}' starts as {initial.dtype}{initial.shape}, and its tensor "
                        f"'{tensor.name}' is {tensor.dtype.value}{tensor.shape}",
                        tensor=tensor.name,
                        value=tensor.shape,
                    )

    def _check_index(self, index: int, where: str) -> None:
        if not 0 <= index < len(self.tensors):
            raise ModelFormatError(
                f"'{where}' refers to tensor {index}; the file has {len(self.tensors)}", operator=where, value=index
            )
