"""requantise: a QUANTIZE that changes neither type nor quantisation nor shape copies its input, so it vanishes."""

from __future__ import annotations

from ..ir import Graph
from .draft import Draft, same_values


def requantise(graph: Graph) -> Graph:
    """Remove every QUANTIZE between equal tensors, except from a network input or variable to a network output."""
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is not None or operator.kind != "QUANTIZE" or operator.attrs is not None:
            continue
        if operator.inputs[0] is None:
            continue
        source, result = draft.resolve(operator.inputs[0]), operator.outputs[0]
        before, after = draft.tensors[source], draft.tensors[result]
        if before.quantisation is None or before.shape != after.shape or not same_values(before, after):
            continue
        if not draft.is_output(result) and not draft.is_written_over(source):
            draft.bypass(index)
        elif not draft.is_given(source) and not draft.is_output(source):
            draft.absorb(index)
    return draft.finish()
