"""State of the file as `ir.Variable`s: resources that runtimes keep outside of all tensors, and variable tensors.

Owns VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE, of which no operators are left in a graph: what is read
of a variable is a tensor that is there when a run begins, what is stored last one that is wanted when it ends. Where
either lies, and who carries it over to the next run, is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ..errors import ModelFormatError, UnsupportedOperatorError
from ..ir import Array, Operator, ResourceAttrs, Tensor, Variable, schema
from ..ir.operators import OPERATORS, RESOURCE_KINDS
from ..util.frozen import FrozenMap
from ..util.records import dataclass
from .flatbuffer import MAX_ENTRIES, Ledger, children, integers, union
from .operators import read_operators
from .tensors import Bytes, read_tensors


@dataclass(frozen=True, eq=False)
class Stateless:
    """A subgraph whose state has become inputs and outputs, of `variables`; tensors of the file keep their indices."""

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[int, ...]
    variables: tuple[Variable, ...]


@dataclass(frozen=True, eq=False)
class File:
    """What of a file concerns all of its subgraphs."""

    subgraphs: Sequence[Any]
    kinds: Sequence[str]
    buffers: Sequence[Bytes]
    ledger: Ledger
    faults: list[str] | None = None
    """What is wrong with a compiled file is noted here, where it runs all the same."""


def handles(raw: Sequence[Any], kinds: Sequence[str], ledger: Ledger) -> dict[int, str]:
    """The tensors that name variables, with the names. Raises `ModelFormatError` for a VAR_HANDLE without a name."""
    found: dict[int, str] = {}
    for index, operator in enumerate(raw):
        code = int(operator.OpcodeIndex())
        if code >= len(kinds) or kinds[code] != "VAR_HANDLE":
            continue
        options = None
        if int(operator.BuiltinOptionsType()) == schema.BuiltinOptions.VarHandleOptions:
            options = union(operator, schema.VarHandleOptions, f"options of operator {index}", ledger)
        if options is None or operator.OutputsLength() != 1:
            raise ModelFormatError(
                f"operator {index} (VAR_HANDLE) names no variable: it takes VarHandleOptions and makes one tensor",
                operator=f"operator {index}",
                value=operator.OutputsLength(),
            )
        parts = [(text or b"").decode("utf-8", "replace") for text in (options.Container(), options.SharedName())]
        found[int(operator.Outputs(0))] = "/".join(part for part in parts if part)
    return found


def check_readers(
    raw: Sequence[Any], kinds: Sequence[str], tensors: Sequence[Tensor], names: Mapping[int, str]
) -> None:
    """Raises `UnsupportedOperatorError` for an operator that does otherwise with a variable than to read or set it."""
    for index, operator in enumerate(raw):
        code = int(operator.OpcodeIndex())
        if not names or code >= len(kinds) or kinds[code] in RESOURCE_KINDS:
            continue
        for number in integers(operator, "Inputs"):
            if number in names:
                _refuse(tensors[number], names[number], f"operator {index} ({kinds[code]}) takes it")


def _refuse(handle: Tensor, name: str, why: str) -> None:
    raise UnsupportedOperatorError(
        f"tensor '{handle.name}' is a handle of variable '{name}', and {why}; only READ_VARIABLE and ASSIGN_VARIABLE "
        f"can be compiled",
        operator=handle.name,
        constraint="readers of a variable",
    )


def separate(
    file: File,
    raw: Sequence[Any],
    tensors: Sequence[Tensor],
    operators: Sequence[Operator],
    outputs: Sequence[int],
    names: Mapping[int, str],
) -> Stateless:
    """The first subgraph, as it was read, without state; `names` are those of `handles`.

    Variables come in the order in which they are first read; one that is never read is nothing. Raises
    `ModelFormatError` for a variable that is read before anybody has set it, or with another type or shape,
    `UnsupportedOperatorError` for an initialisation that is more than constants. A compiled file with its variables in
    another order keeps its operators of variables, to be run as they are.
    """
    held = list(tensors)
    updating, written_over, latest = _updating(held, operators)
    for number in outputs:
        if number in names:
            _refuse(tensors[number], names[number], "the network hands it out")
    walk = _Walk(file, raw, held, names)
    try:
        kept = [walk.renamed(operator) for operator in updating if walk.keeps(operator)]
        variables = walk.variables()
    except (ModelFormatError, UnsupportedOperatorError) as error:
        if file.faults is None:
            raise
        file.faults.append(
            f"{str(error).partition(';')[0]}; its operators of variables run in the file's order, as in TensorFlow "
            f"Lite Micro"
        )
        as_they_are = [walk.as_it_is(operator) for operator in updating if operator.kind != "VAR_HANDLE"]
        ends = tuple(latest.get(number, number) for number in outputs)
        return Stateless(tuple(held), tuple(as_they_are), ends, tuple(written_over))
    ends = tuple(walk.now(latest.get(number, number)) for number in outputs)
    return Stateless(tuple(held), tuple(kept), ends, (*variables, *written_over))


@dataclass
class _Walk:
    """The operators in their order, and what each variable holds by then."""

    file: File
    raw: Sequence[Any]
    tensors: Sequence[Tensor]
    names: Mapping[int, str]
    initial: dict[str, Array] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    current: dict[str, int] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)

    def now(self, tensor: int) -> int:
        """The tensor that stands for one that was read of a variable."""
        return self.again.get(tensor, tensor)

    def renamed(self, operator: Operator) -> Operator:
        return replace(operator, inputs=tuple(None if t is None else self.now(t) for t in operator.inputs))

    def keeps(self, operator: Operator) -> bool:
        """Whether an operator is none of variables; what it does to these is noted."""
        if operator.kind not in RESOURCE_KINDS:
            return True
        if operator.kind == "CALL_ONCE":
            self._set_up(operator)
        elif operator.kind == "READ_VARIABLE":
            self._read(operator)
        elif operator.kind == "ASSIGN_VARIABLE":
            variable = self._variable(operator, 2, 0)
            self.current[variable] = self.now(operator.input(1))
        return False

    def as_it_is(self, operator: Operator) -> Operator:
        """An operator with what it says of variables."""
        if operator.kind not in RESOURCE_KINDS:
            return operator
        if operator.kind == "CALL_ONCE":
            attrs = ResourceAttrs(values=FrozenMap(self._first_values(operator)))
        elif operator.kind == "READ_VARIABLE":
            attrs = ResourceAttrs(self._variable(operator, 1, 1))
        else:
            attrs = ResourceAttrs(self._variable(operator, 2, 0))
        return replace(operator, attrs=attrs)

    def _variable(self, operator: Operator, inputs: int, outputs: int) -> str:
        if len(operator.inputs) != inputs or len(operator.outputs) != outputs:
            raise ModelFormatError(
                f"operator '{operator.name}' ({operator.kind}) has {len(operator.inputs)} inputs and "
                f"{len(operator.outputs)} outputs; it takes {inputs} and makes {outputs}",
                operator=operator.name,
                value=len(operator.inputs),
            )
        handle = operator.input(0)
        if handle not in self.names:
            raise ModelFormatError(
                f"operator '{operator.name}' ({operator.kind}) takes '{self.tensors[handle].name}' for a variable, "
                f"which no VAR_HANDLE makes",
                operator=operator.name,
                tensor=self.tensors[handle].name,
            )
        return self.names[handle]

    def _read(self, operator: Operator) -> None:
        variable, made = self._variable(operator, 1, 1), operator.outputs[0]
        known = self.current.get(variable, self.before.get(variable))
        if known is None:
            self.before[variable] = made
            return
        tensor, same = self.tensors[made], self.tensors[known]
        if (tensor.shape, tensor.dtype, tensor.quantisation) != (same.shape, same.dtype, same.quantisation):
            raise UnsupportedOperatorError(
                f"operator '{operator.name}' reads variable '{variable}' as {tensor.dtype.value}{tensor.shape}, and "
                f"what it holds, '{same.name}', is {same.dtype.value}{same.shape} or quantised otherwise",
                operator=operator.name,
                constraint="one type of a variable",
            )
        self.again[made] = known

    def _first_values(self, operator: Operator) -> dict[str, Array]:
        """What the subgraph of a CALL_ONCE sets variables to."""
        source = operator.source_index
        raw = None if source is None else self.raw[source]
        options = None
        if raw is not None and int(raw.BuiltinOptionsType()) == schema.BuiltinOptions.CallOnceOptions:
            options = union(raw, schema.CallOnceOptions, f"options of operator '{operator.name}'", self.file.ledger)
        number = 0 if options is None else int(options.InitSubgraphIndex())
        return _constants_of(self.file, number, operator)

    def _set_up(self, operator: Operator) -> None:
        """CALL_ONCE: its subgraph gives variables their first values."""
        for variable, value in self._first_values(operator).items():
            if variable in self.current:
                raise UnsupportedOperatorError(
                    f"operator '{operator.name}' (CALL_ONCE) sets variable '{variable}', which the first run has set "
                    f"by then; convert the model with its variables set up first",
                    operator=operator.name,
                    constraint="variables set up first",
                )
            if variable not in self.before:
                self.initial[variable] = value

    def variables(self) -> list[Variable]:
        """The variables that are read."""
        found = []
        for name, before in self.before.items():
            tensor, initial, after = self.tensors[before], self.initial.get(name), self.current.get(name, before)
            if initial is None:
                raise ModelFormatError(
                    f"tensor '{tensor.name}' is read of variable '{name}' before anybody has set it: no CALL_ONCE "
                    f"before it does",
                    tensor=tensor.name,
                    value=name,
                    constraint="variables that are set before they are read",
                )
            for read in (tensor, self.tensors[after]):
                if (read.shape, read.dtype.numpy) != (initial.shape, initial.dtype):
                    raise ModelFormatError(
                        f"variable '{name}' starts as {initial.dtype}{initial.shape}, and tensor '{read.name}', by "
                        f"which it is read or set, is {read.dtype.value}{read.shape}",
                        tensor=read.name,
                        value=read.shape,
                        constraint="one type of a variable",
                    )
            found.append(Variable(name, before, after, initial))
        return found


def _constants_of(file: File, number: int, caller: Operator) -> dict[str, Array]:
    """What a subgraph sets variables to, by name."""
    if number >= len(file.subgraphs):
        raise ModelFormatError(
            f"operator '{caller.name}' (CALL_ONCE) runs subgraph {number}; the file has {len(file.subgraphs)}",
            operator=caller.name,
            value=number,
        )
    subgraph, ledger = file.subgraphs[number], file.ledger
    raw = children(subgraph, "Operators", "operator", MAX_ENTRIES, ledger)
    names = handles(raw, file.kinds, ledger)
    tensors = read_tensors(subgraph, file.buffers, ledger, names)
    check_readers(raw, file.kinds, tensors, names)
    found: dict[str, Array] = {}
    for operator in read_operators(raw, file.kinds, tuple(tensors), ledger):
        if operator.kind == "VAR_HANDLE":
            continue
        value = operator.inputs[1] if len(operator.inputs) == 2 else None
        handle = operator.inputs[0] if operator.inputs else None
        data = None if value is None else tensors[value].data
        if operator.kind != "ASSIGN_VARIABLE" or handle not in names or data is None:
            raise UnsupportedOperatorError(
                f"operator '{caller.name}' (CALL_ONCE) runs another subgraph of the file, number {number}, and that "
                f"does more than set variables to constants: it has operator '{operator.name}' ({operator.kind}); "
                f"convert the model with constant initial values",
                operator=caller.name,
                constraint="one subgraph",
            )
        found[names[handle]] = data
    return found


def _updating(
    tensors: list[Tensor], operators: Sequence[Operator]
) -> tuple[list[Operator], list[Variable], dict[int, int]]:
    """Operators that write over their inputs with the new values as outputs; `tensors` gains these.

    Later readers of such a tensor read the new value; which is which is returned as well.
    """
    latest: dict[int, int] = {}
    found = []
    for operator in operators:
        inputs = tuple(None if t is None else latest.get(t, t) for t in operator.inputs)
        row = OPERATORS.get(operator.kind)
        made = list(operator.outputs)
        for place in row.updates if row is not None and operator.opaque is None else ():
            old = operator.input(place)
            if not tensors[old].is_variable:
                raise ModelFormatError(
                    f"operator '{operator.name}' ({operator.kind}) writes over its input {place}, "
                    f"'{tensors[old].name}', which is no variable tensor",
                    operator=operator.name,
                    tensor=tensors[old].name,
                    value=place,
                )
            if old in latest:
                raise UnsupportedOperatorError(
                    f"operator '{operator.name}' ({operator.kind}) writes over variable tensor '{tensors[old].name}', "
                    f"and so does an earlier one; convert the model with state of its own for each",
                    operator=operator.name,
                    constraint="one writer of a variable tensor",
                )
            latest[old] = len(tensors)
            made.append(len(tensors))
            tensors.append(replace(tensors[old], name=f"{tensors[old].name}#{len(tensors)}", is_variable=False))
        found.append(replace(operator, inputs=inputs, outputs=tuple(made)))
    variables = []
    for before in latest:
        tensors[before] = replace(tensors[before], is_variable=False)
        name = tensors[before].name
        variables.append(Variable(name, before, latest[before], tensors[before].reset_value(), in_place=True))
    return found, variables, latest
