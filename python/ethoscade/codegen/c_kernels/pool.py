"""AVERAGE_POOL_2D and MAX_POOL_2D of integers that keep their quantisation."""

from __future__ import annotations

from ...ir import QUANTISED, Graph, Operator, PoolAttrs
from ...ir.quantised import activation_range
from .kernel import MOST_BOX, Call, CKernel, Operands, arrays, call, data_input, kept, quantisation_of, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result, attrs = data_input(operator), operator.outputs[0], operator.attrs
    source, target = graph.tensors[index], graph.tensors[result]
    output = quantisation_of(operator, target)
    if not isinstance(attrs, PoolAttrs):
        refuse(operator, operator.opaque or "its window is not known at compile time")
    average, window = operator.kind == "AVERAGE_POOL_2D", attrs.window
    if average and output != quantisation_of(operator, source):
        refuse(operator, "its C kernel does not rescale: input and output must have the same scale and zero point")
    seen = min(window.kernel_h, source.shape[1]) * min(window.kernel_w, source.shape[2])
    most = MOST_BOX >> 8 * source.dtype.size_bytes
    if average and seen > most:
        refuse(operator, f"its windows have {seen} pixels; its C kernel adds at most {most} in 32 bits")
    reach = max(
        size * stride for size, stride in zip(target.shape[1:3], (window.stride_h, window.stride_w), strict=True)
    )
    if reach + max(window.kernel_h, window.kernel_w, window.pad_top, window.pad_left) > MOST_BOX:
        refuse(operator, f"its windows reach beyond {MOST_BOX} rows or columns, to which its C kernel counts")
    steps = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w, window.pad_top, window.pad_left)
    limits = activation_range(output, target.dtype, attrs.activation)
    function = f"pool_{source.dtype.value}"
    text = (
        f"{arrays({'shape': source.shape, 'result': target.shape, 'window': steps})}"
        f"{function}({operands.source(index)}, {operands.target(result)}, shape, result, window, {int(average)}, "
        f"{limits[0]}, {limits[1]});"
    )
    return call("pool.c", function, text, TYPE=source.dtype)


POOL = CKernel(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _write, kept(*QUANTISED))
