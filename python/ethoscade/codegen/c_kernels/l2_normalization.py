"""L2_NORMALIZATION of 8-bit tensors over the last axis, bit for bit as TFLite's reference kernels."""

from __future__ import annotations

from ...ir import DType, Graph, Operator
from .kernel import Call, CKernel, Operands, call, data_input, kept, quantisation_of, refuse, rows_of

# Squares of differences of 8 bits that fit into an int32.
_MOST_DEPTH = (2**31 - 1) // 255**2


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    rows, depth = rows_of(source)
    if depth > _MOST_DEPTH:
        refuse(operator, f"its rows have {depth} elements; squares of more than {_MOST_DEPTH} leave 32 bits")
    quantisation_of(operator, target)
    unsigned, (lowest, highest) = source.dtype is DType.UINT8, target.dtype.limits
    function = f"l2_normalization_{source.dtype.value}"
    text = (
        f"{function}({operands.source(index)}, {operands.target(result)}, {rows}, {depth}, "
        f"{quantisation_of(operator, source).zero_point}, {int(unsigned)}, {128 if unsigned else 0}, "
        f"{lowest}, {highest});"
    )
    return call("l2_normalization.c", function, text, TYPE=source.dtype)


L2_NORMALIZATION = CKernel(("L2_NORMALIZATION",), _write, kept(DType.INT8, DType.UINT8))
