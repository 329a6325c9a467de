"""GATHER of constant indices, of any element type."""

from __future__ import annotations

import math

from ...ir import GatherAttrs, Graph, Operator
from .kernel import Call, CKernel, Operands, array, call, data_input, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs, source = operator.attrs, graph.read(operator)
    if not isinstance(attrs, GatherAttrs):
        refuse(operator, operator.opaque or "its indices are not known at compile time")
    blocks, extent = math.prod(source.shape[: attrs.axis]), source.shape[attrs.axis]
    piece = math.prod(source.shape[attrs.axis + 1 :]) * source.dtype.size_bytes
    text = (
        f"{array('numbers', attrs.indices)}take_pieces({operands.source(data_input(operator))}, "
        f"{operands.target(operator.outputs[0])}, {blocks}, {extent}, {piece}, numbers, {len(attrs.indices)});"
    )
    return call("take.c", "take_pieces", text)


GATHER = CKernel(("GATHER",), _write, None)
