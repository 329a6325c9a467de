"""fold_reshape: RESHAPE, SQUEEZE and EXPAND_DIMS move nothing, so they vanish where no reader depends on the shape.

A TRANSPOSE that moves only axes of extent 1 is one of them.

Relies on the invariant that `ir.Operator` states: an operator on the NPU may write a tensor of another shape with the
same number of elements, and FULLY_CONNECTED and TRANSPOSE may read one.
"""

from __future__ import annotations

import enum
import math

from ..errors import ModelFormatError
from ..ir import FullyConnectedAttrs, Graph, Operator, TransposeAttrs
from ..ir.operators import RESHAPES
from .draft import Draft, OnNpu, same_values


def fold_reshape(graph: Graph, on_npu: OnNpu) -> Graph:
    """Remove reshapes whose readers or whose producer can do without.

    Readers that only count elements read the original; else the producer, if it is the NPU's and no other operator
    reads what it makes, writes the reshaped tensor. All others stay RESHAPEs; who has them is decided later.
    Raises `ModelFormatError` where a target shape that was folded to a constant contradicts the tensor.
    """
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is not None or not _is_reshape(operator):
            continue
        way = _way(graph, draft, index, on_npu)
        if way is _Way.READERS:
            draft.bypass(index)
        elif way is _Way.MAKER:
            draft.absorb(index)
    return draft.finish()


def _is_reshape(operator: Operator) -> bool:
    attrs = operator.attrs
    return operator.kind in RESHAPES or (isinstance(attrs, TransposeAttrs) and not attrs.moves)


class _Way(enum.Enum):
    """Who does without the reshape."""

    READERS = enum.auto()
    MAKER = enum.auto()


def _way(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> _Way | None:
    """How a reshape can vanish, if it can."""
    operator = graph.operators[index]
    first, result = operator.inputs[0], operator.outputs[0]
    if first is None or not _target_known(draft, operator):
        return None
    source = draft.resolve(first)
    before, after = draft.tensors[source], draft.tensors[result]
    # Whoever reads a variable changes it; a copy taken before is not the same value.
    if before.is_constant or draft.is_written_over(source) or not same_values(before, after):
        return None
    same_shape = before.shape == after.shape
    if not draft.is_output(result) and (same_shape or _only_count(graph, draft, result, on_npu)):
        return _Way.READERS
    if draft.is_given(source) or not draft.read_only_by(source, index):
        return None
    maker = draft.operators[draft.producer[source]]
    # A reshape states its own shape, and a TRANSPOSE of ones is one.
    other = maker is not None and not _is_reshape(maker) and len(maker.outputs) == 1 and on_npu(graph, maker)
    able = maker is not None and (same_shape or other)
    return _Way.MAKER if able else None


def _only_count(graph: Graph, draft: Draft, tensor: int, on_npu: OnNpu) -> bool:
    """Whether every reader takes the tensor as a mere row of elements."""
    readers = [draft.operators[i] for i in draft.readers(tensor)]
    return bool(readers) and all(r is not None and _counts(graph, draft, r, tensor, on_npu) for r in readers)


def _counts(graph: Graph, draft: Draft, reader: Operator, tensor: int, on_npu: OnNpu) -> bool:
    places = [i for i, t in enumerate(reader.inputs) if t is not None and draft.resolve(t) == tensor]
    if reader.opaque is not None or places != [0]:
        return False
    if isinstance(reader.attrs, FullyConnectedAttrs):
        return not reader.attrs.keep_num_dims and on_npu(graph, reader)
    if isinstance(reader.attrs, TransposeAttrs):
        return on_npu(graph, reader)
    # Another RESHAPE names its whole result. SQUEEZE and EXPAND_DIMS name axes of what they read.
    return reader.kind == "RESHAPE"


def _target_known(draft: Draft, operator: Operator) -> bool:
    """Whether the target shape is static; compares it with the tensor if it is a constant."""
    if operator.kind != "RESHAPE" or len(operator.inputs) < 2 or operator.inputs[1] is None:
        return True
    target = draft.tensors[draft.resolve(operator.inputs[1])]
    if target.data is None:
        return False
    wanted = [int(d) for d in target.data.reshape(-1)]
    output = draft.tensors[operator.outputs[0]]
    rest = math.prod(d for d in wanted if d != -1)
    if rest > 0 and wanted.count(-1) == 1:
        wanted[wanted.index(-1)] = math.prod(output.shape) // rest
    if tuple(wanted) != output.shape:
        raise ModelFormatError(
            f"operator '{operator.name}' ({operator.kind}) writes tensor '{output.name}' of shape "
            f"{list(output.shape)}; its new shape '{target.name}' says {wanted}",
            operator=operator.name,
            tensor=output.name,
            value=output.shape,
        )
    return True
