"""The file as a whole: header, buffers, metadata and the one subgraph, in the order in which they are checked.

Owns the pipeline from bytes to `ir.Graph` and the checks that concern more than one operator.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ModelFormatError, UnsupportedOperatorError
from ..ir import ETHOS_U, DType, Graph, Operator, Tensor, schema
from ..util.frozen import FrozenMap
from .flatbuffer import MAX_ENTRIES, Ledger, children, integers, open_root
from .operators import read_kinds, read_operators
from .source import read_source
from .state import File, check_readers, handles, separate
from .tensors import Bytes, read_buffers, read_tensors

_SCHEMA_VERSION = 3
_OPERATORS = "at least one operator"
_STORED = (DType.INT8, DType.UINT8, DType.INT16)


def read_tflite(source: str | os.PathLike[str] | bytes, name: str | None = None) -> Graph:
    """Read a TensorFlow Lite model from a path or from bytes.

    The graph's tensors have the file's indices; constants are read-only views of its bytes. Operators that are not
    understood are kept with a reason in `opaque`. Of several subgraphs the first is read. The graph is called `name`,
    else after its file.

    Raises `ModelFormatError` for a file that cannot be read, is damaged or contradicts itself,
    `UnsupportedOperatorError` for a model that is not quantised or has elements without a fixed layout, and
    `ConfigError` for a `source` that is neither path nor bytes.
    """
    return read_source(source, name, read_bytes)


def tensor_counts(source: bytes) -> tuple[int, ...]:
    """How many tensors each subgraph of a file has. Raises `ModelFormatError` for one that is damaged."""
    ledger = Ledger(len(source))
    subgraphs = children(open_root(schema.Model, source, ledger), "Subgraphs", "subgraph", MAX_ENTRIES, ledger)
    return tuple(int(subgraph.TensorsLength()) for subgraph in subgraphs)


def read_bytes(data: bytes, name: str) -> Graph:
    """The graph of a file's bytes. Raises as `read_tflite`."""
    ledger = Ledger(len(data))
    model = open_root(schema.Model, data, ledger)
    version = int(model.Version())
    if version != _SCHEMA_VERSION:
        raise ModelFormatError(f"the model has schema version {version}; ethoscade reads version 3", value=version)
    buffers = read_buffers(children(model, "Buffers", "buffer", MAX_ENTRIES, ledger), data)
    kinds = read_kinds(children(model, "OperatorCodes", "operator code", MAX_ENTRIES, ledger))
    subgraphs = children(model, "Subgraphs", "subgraph", MAX_ENTRIES, ledger)
    if not subgraphs:
        raise ModelFormatError("the model has no subgraph: there is nothing to compile", value=0, constraint=_OPERATORS)
    subgraph = subgraphs[0]
    raw = children(subgraph, "Operators", "operator", MAX_ENTRIES, ledger)
    names = handles(raw, kinds, ledger)
    # What is wrong with a model is its maker's to mend. A compiled file is run as a runtime would, and its faults told.
    faults: list[str] | None = [] if ETHOS_U in kinds else None
    tensors = read_tensors(subgraph, buffers, ledger, names, faults)
    check_readers(raw, kinds, tensors, names)
    operators = read_operators(raw, kinds, tuple(tensors), ledger, faults)
    inputs = _ends(subgraph, "Inputs", tensors)
    outputs = _ends(subgraph, "Outputs", tensors)
    _require_values(tensors, inputs)
    found = separate(File(subgraphs, kinds, buffers, ledger, faults), raw, tensors, operators, outputs, names)
    if not found.operators:
        raise ModelFormatError(
            "the model has no operators: there is nothing to compile", value=0, constraint=_OPERATORS
        )
    _require_quantised(found.tensors, found.operators)
    graph = Graph(
        name,
        _with_scratch(found.tensors, found.operators, inputs),
        found.operators,
        (*inputs, *(variable.before for variable in found.variables)),
        (*found.outputs, *(variable.after for variable in found.variables)),
        data,
        _metadata(children(model, "Metadata", "metadata entry", MAX_ENTRIES, ledger), buffers, ledger),
        found.variables,
        tuple(faults or ()),
    )
    return graph.verify()


def _ends(subgraph: Any, field: str, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    numbers = tuple(integers(subgraph, field))
    what = field.lower()
    if not numbers:
        raise ModelFormatError(f"the model has no {what}", value=0, constraint="inputs and outputs")
    for number in numbers:
        if not 0 <= number < len(tensors):
            raise ModelFormatError(
                f"the model's {what} name tensor {number}; the file has {len(tensors)}", operator="graph", value=number
            )
    # What a network makes, it may hand out twice; what it is given has one value.
    if field == "Inputs" and len(set(numbers)) != len(numbers):
        raise ModelFormatError(
            f"the model's {what} name a tensor twice: {list(numbers)}", value=numbers, constraint="each input once"
        )
    return numbers


def _require_values(tensors: Sequence[Tensor], inputs: Sequence[int]) -> None:
    for number in inputs:
        if tensors[number].is_constant:
            raise ModelFormatError(
                f"model input '{tensors[number].name}' has constant data",
                tensor=tensors[number].name,
                value=number,
                constraint="inputs without data",
            )


def _require_quantised(tensors: Sequence[Tensor], operators: Sequence[Operator]) -> None:
    """A network whose values are all real numbers has nothing for the NPU; saying so early saves a puzzle."""
    if any(t.dtype in _STORED and not t.is_constant for t in tensors):
        return
    for operator in operators:
        for number in (*operator.inputs, *operator.outputs):
            if number is not None and tensors[number].dtype.is_float and not tensors[number].is_constant:
                raise UnsupportedOperatorError(
                    f"the model is not quantised: operator '{operator.name}' ({operator.kind}) and all others compute "
                    f"in {tensors[number].dtype.value}; convert it with full-integer (int8) post-training quantisation",
                    operator=operator.name,
                    constraint="full-integer quantisation",
                )


def _with_scratch(
    tensors: Sequence[Tensor], operators: Sequence[Operator], inputs: Sequence[int]
) -> tuple[Tensor, ...]:
    """Mark inputs of a compiled operator without a producer: the NPU's scratch memory, not declared in any way."""
    made = set(inputs) | {t for op in operators for t in op.outputs}
    scratch = {
        t
        for op in operators
        if op.kind == ETHOS_U
        for t in op.inputs
        if t is not None and t not in made and not tensors[t].is_constant
    }
    return tuple(replace(t, is_variable=True) if i in scratch else t for i, t in enumerate(tensors))


def _metadata(entries: Sequence[Any], buffers: Sequence[Bytes], ledger: Ledger) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for index, entry in enumerate(entries):
        name = (entry.Name() or b"").decode("utf-8", "replace")
        number = int(entry.Buffer())
        # What is said beside a network is no part of it: nobody computes otherwise for want of it.
        if number >= len(buffers):
            continue
        ledger.charge(int(buffers[number].size), f"metadata entry {index}")
        found.setdefault(name, buffers[number].tobytes())
    return FrozenMap(found)
