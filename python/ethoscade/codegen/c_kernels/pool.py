"""AVERAGE_POOL_2D and MAX_POOL_2D of 8-bit tensors that keep their quantisation."""

from __future__ import annotations

from ...ir import Graph, Operator, PoolAttrs
from ...quantised import activation_range
from .kernel import Call, CKernel, Operands, first_input, quantisation_of, refuse, sign_of


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    sign = sign_of(source)
    output = quantisation_of(operator, target)
    if not isinstance(operator.attrs, PoolAttrs):
        refuse(operator, operator.opaque or "its window is not known at compile time")
    if output != quantisation_of(operator, source):
        refuse(operator, "its C kernel does not rescale: input and output must have the same scale and zero point")
    window = operator.attrs.window
    smallest, largest = activation_range(output, target.dtype, operator.attrs.activation)
    geometry = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w, window.pad_top, window.pad_left)
    text = (
        f"static const int32_t shape[] = {{{', '.join(map(str, source.shape))}}};\n"
        f"static const int32_t result[] = {{{', '.join(map(str, target.shape))}}};\n"
        f"static const struct pool_window window = {{{', '.join(map(str, geometry))}}};\n"
        f"pool_8bit({operands.source(index)}, {operands.target(result)}, shape, result, window, "
        f"{int(operator.kind == 'AVERAGE_POOL_2D')}, {smallest}, {largest}, {sign});"
    )
    return Call(text, ("pool.c",))


POOL = CKernel(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _write)
