"""QUANTIZE (float32 or 8 bits to 8 bits) and DEQUANTIZE (8 bits to float32)."""

from __future__ import annotations

from ...ir import EIGHT_BIT, DType, Graph, Operator
from ...quantised import multiplier_and_shift
from .kernel import (
    Call,
    CKernel,
    Operands,
    elements,
    first_input,
    float_literal,
    quantisation_of,
    refuse,
    sign_of,
)

# The kernel shifts a 9-bit difference left by at most this much without leaving 32 bits.
_LARGEST_SHIFT = 20


def _write_quantise(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    output, output_sign = quantisation_of(operator, target), sign_of(target)
    pointers = f"{operands.source(index)}, {operands.target(result)}, {elements(source)}"
    if source.dtype is DType.FLOAT32:
        text = f"quantise_8bit({pointers}, {float_literal(output.scale)}, {output.zero_point}, {output_sign});"
        return Call(text, ("quantise.c",))
    entry, entry_sign = quantisation_of(operator, source), sign_of(source)
    multiplier, shift = multiplier_and_shift(entry.scale / output.scale)
    if shift > _LARGEST_SHIFT:
        refuse(operator, f"its input scale is {entry.scale / output.scale:g} times its output scale")
    text = (
        f"requantise_8bit({pointers}, {entry_sign}, {output_sign}, {entry.zero_point}, {output.zero_point}, "
        f"{multiplier}, {shift});"
    )
    return Call(text, ("fixed_point.c", "requantise.c"))


def _write_dequantise(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source = graph.tensors[index]
    entry = quantisation_of(operator, source)
    text = (
        f"dequantise_8bit({operands.source(index)}, {operands.target(result)}, {elements(source)}, "
        f"{float_literal(entry.scale)}, {entry.zero_point}, {sign_of(source)});"
    )
    return Call(text, ("dequantise.c",))


QUANTISE = CKernel(("QUANTIZE",), _write_quantise, types=(DType.FLOAT32, *EIGHT_BIT), keeps_type=False)
DEQUANTISE = CKernel(("DEQUANTIZE",), _write_dequantise, makes=(DType.FLOAT32,), keeps_type=False)
