"""fold_reshape: RESHAPE, SQUEEZE and EXPAND_DIMS move nothing, so they vanish where nobody depends on the shape.

Relies on the invariant that `ir.Operator` states: an operator on the NPU may write a tensor of another shape with the
same number of elements, and FULLY_CONNECTED may read one.
"""

from __future__ import annotations

import math

from ..errors import ModelFormatError
from ..ir import FullyConnectedAttrs, Graph, Operator
from .draft import Draft, OnNpu, same_values, understood

_KINDS = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def fold_reshape(graph: Graph, on_npu: OnNpu = understood) -> Graph:
    """Remove reshapes whose readers or whose producer can do without.

    Readers that only count elements read the original; else the producer, if it is the NPU's and nobody else reads
    what it makes, writes the reshaped tensor. All others stay RESHAPEs: copies on the CPU.
    Raises `ModelFormatError` where a target shape that was folded to a constant contradicts the tensor.
    """
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is not None or operator.kind not in _KINDS or not _target_known(draft, operator):
            continue
        first, result = operator.inputs[0], operator.outputs[0]
        if first is None:
            continue
        source = draft.resolve(first)
        before, after = draft.tensors[source], draft.tensors[result]
        # Whoever reads a variable changes it; a copy taken before is not the same value.
        if before.is_constant or before.is_variable or not same_values(before, after):
            continue
        same_shape = before.shape == after.shape
        if not draft.is_output(result) and (same_shape or _only_count(graph, draft, result, on_npu)):
            draft.bypass(index)
        elif draft.read_only_by(source, index) and not draft.is_given(source):
            maker = draft.operators[draft.producer[source]]
            if maker is not None and (same_shape or (len(maker.outputs) == 1 and on_npu(graph, maker))):
                draft.absorb(index)
    return draft.finish()


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
