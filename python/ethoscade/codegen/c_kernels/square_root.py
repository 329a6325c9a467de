"""SQRT of int16, in float32 as LiteRT's kernel has it; that of int8 is a table."""

from __future__ import annotations

from ...ir import DType, Graph, Operator
from .kernel import Call, CKernel, Operands, call, data_input, elements, float_literal, kept, quantisation_of


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = (quantisation_of(operator, graph.tensors[t]) for t in (index, result))
    function = f"square_root_{graph.tensors[index].dtype.value}"
    text = (
        f"{function}({operands.source(index)}, {operands.target(result)}, {elements(graph.tensors[index])}, "
        f"{source.zero_point}, {target.zero_point}, {float_literal(source.scale)}, {float_literal(target.scale)});"
    )
    return call("square_root.c", function, text, TYPE=graph.tensors[index].dtype)


SQUARE_ROOT = CKernel(("SQRT",), _write, kept(DType.INT16))
