"""SOFTMAX of 8-bit tensors over the last axis, bit for bit as TFLite's reference kernel."""

from __future__ import annotations

import math

from ...ir import Graph, Operator, SoftmaxAttrs
from ...quantised import multiplier_and_shift
from .kernel import (
    Call,
    CKernel,
    Operands,
    elements,
    first_input,
    quantisation_of,
    refuse,
    sign_of,
)

# Differences to the maximum are Q5.26 (TFLite: kScaledDiffIntegerBits).
_INTEGER_BITS = 5
_LARGEST_DIFFERENCE = 255


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    sign = sign_of(source)
    output = quantisation_of(operator, target)
    if output.scale != 1 / 256 or output.zero_point != -sign:
        refuse(operator, f"its output must have scale 1/256 and zero point {-sign}")
    beta = operator.attrs.beta if isinstance(operator.attrs, SoftmaxAttrs) else 1.0
    real = min(beta * quantisation_of(operator, source).scale * 2.0 ** (31 - _INTEGER_BITS), 2.0**31 - 1)
    multiplier, shift = multiplier_and_shift(real)
    reach = math.floor((2**_INTEGER_BITS - 1) * 2.0 ** (31 - _INTEGER_BITS) / 2.0**shift)
    smallest = -min(reach, _LARGEST_DIFFERENCE)
    depth = source.shape[-1] if source.shape else 1
    text = (
        f"softmax_8bit({operands.source(index)}, {operands.target(result)}, {elements(source) // depth}, {depth}, "
        f"{multiplier}, {shift}, {smallest}, {sign});"
    )
    return Call(text, ("fixed_point.c", "softmax.c"))


SOFTMAX = CKernel(("SOFTMAX",), _write)
