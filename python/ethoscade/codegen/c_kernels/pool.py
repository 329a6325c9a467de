"""AVERAGE_POOL_2D and MAX_POOL_2D of 8-bit tensors that keep their quantisation."""

from __future__ import annotations

import math

from ...ir import Activation, Graph, Operator, PoolAttrs, Quantisation
from .kernel import Call, CKernel, Operands, first_input, quantisation_of, refuse, same_type, sign_of


def _emit(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    sign = sign_of(operator, source)
    output = quantisation_of(operator, target)
    same_type(operator, source, target)
    if not isinstance(operator.attrs, PoolAttrs):
        refuse(operator, operator.opaque or "its window is not known at compile time")
    if output != quantisation_of(operator, source):
        refuse(operator, "its C kernel does not rescale: input and output must have the same scale and zero point")
    window = operator.attrs.window
    smallest, largest = _limits(operator.attrs.activation, output, -sign, 255 - sign)
    geometry = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w, window.pad_top, window.pad_left)
    text = (
        f"static const int32_t shape[] = {{{', '.join(map(str, source.shape))}}};\n"
        f"static const int32_t result[] = {{{', '.join(map(str, target.shape))}}};\n"
        f"static const struct pool_window window = {{{', '.join(map(str, geometry))}}};\n"
        f"pool_8bit({operands.source(index)}, {operands.target(result)}, shape, result, window, "
        f"{int(operator.kind == 'AVERAGE_POOL_2D')}, {smallest}, {largest}, {sign});"
    )
    return Call(text, ("pool.c",))


def _limits(activation: Activation, output: Quantisation, smallest: int, largest: int) -> tuple[int, int]:
    """The stored values that the fused activation lets through."""

    def stored(real: float) -> int:
        # TFLite divides as float32 and rounds halves away from zero; 6 / scale and 1 / scale are positive.
        steps = math.floor(abs(real) / output.scale + 0.5)
        return output.zero_point + (steps if real >= 0 else -steps)

    bounds = {
        Activation.NONE: (smallest, largest),
        Activation.RELU: (stored(0), largest),
        Activation.RELU6: (stored(0), stored(6)),
        Activation.RELU_N1_TO_1: (stored(-1), stored(1)),
    }
    low, high = bounds[activation]
    return max(smallest, low), min(largest, high)


POOL = CKernel(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _emit)
