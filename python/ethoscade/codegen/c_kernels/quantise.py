"""QUANTIZE and DEQUANTIZE between float32 and integers of up to 16 bits."""

from __future__ import annotations

from ...ir import QUANTISED, DType, Graph, Operator
from .kernel import Call, CKernel, Operands, call, data_input, elements, float_literal, quantisation_of


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    kind, stored = ("quantise", target) if operator.kind == "QUANTIZE" else ("dequantise", source)
    steps, function = quantisation_of(operator, stored), f"{kind}_{stored.dtype.value}"
    text = (
        f"{function}({operands.source(index)}, {operands.target(result)}, {elements(source)}, "
        f"{float_literal(steps.scale)}, {steps.zero_point});"
    )
    return call(f"{kind}.c", function, text, TYPE=stored.dtype)


QUANTISE = CKernel(("QUANTIZE",), _write, tuple((DType.FLOAT32, dtype) for dtype in QUANTISED))
DEQUANTISE = CKernel(("DEQUANTIZE",), _write, tuple((dtype, DType.FLOAT32) for dtype in QUANTISED))
