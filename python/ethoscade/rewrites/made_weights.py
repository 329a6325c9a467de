"""multiply_matrices: a FULLY_CONNECTED whose weights are made while the network runs is a product of two matrices.

A BATCH_MATMUL by the transposed weights has the same sums and the same factor; bias and activation go along.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import BatchMatMulAttrs, FullyConnectedAttrs, Graph, Operator
from .draft import Draft, OnNpu


def multiply_matrices(graph: Graph, on_npu: OnNpu) -> Graph:
    """Turn every such FULLY_CONNECTED into a BATCH_MATMUL that the NPU takes."""
    draft = Draft(graph)
    for index, operator in enumerate(graph.operators):
        if operator.opaque is None and operator.kind == "FULLY_CONNECTED" and _is_product(graph, operator):
            activation = operator.attributes(FullyConnectedAttrs).activation
            given = operator.inputs if operator.inputs[2:] != (None,) else operator.inputs[:2]
            attrs = BatchMatMulAttrs(adj_y=True, activation=activation)
            found = replace(operator, kind="BATCH_MATMUL", inputs=given, attrs=attrs)
            if on_npu(graph, found):
                draft.change(index, found)
    return draft.finish()


def _is_product(graph: Graph, operator: Operator) -> bool:
    ifm, weights = graph.read(operator), graph.read(operator, 1)
    rows = len(ifm.shape) > 1 and ifm.shape[-1] == weights.shape[-1]
    return rows and not weights.is_constant
