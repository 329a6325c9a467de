"""Operators that only rename a shape: the bytes stay as they are."""

from __future__ import annotations

from ...ir import Graph, Operator
from ...ir.operators import RESHAPES
from .kernel import Call, CKernel, Operands, data_input, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    size = graph.tensors[result].size_bytes
    if graph.tensors[index].size_bytes != size:
        refuse(operator, f"it turns {graph.tensors[index].size_bytes} bytes into {size}")
    source, target = operands.source(index), operands.target(result)
    # memmove: a planner may let the two overlap, or give both the same place.
    text = f"memmove({target}, {source}, {size});" if source != target else "(void)arena; /* already in place */"
    return Call("", text)


COPY = CKernel(tuple(sorted(RESHAPES)), _write, None)
