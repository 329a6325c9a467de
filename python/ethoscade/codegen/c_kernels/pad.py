"""PAD with the tensor's zero point."""

from __future__ import annotations

from ...ir import Graph, Operator, PadAttrs
from .kernel import Call, CKernel, Operands, first_input, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    if not isinstance(operator.attrs, PadAttrs) or not source.shape:
        refuse(operator, operator.opaque or "its paddings are not known at compile time")
    if target.quantisation != source.quantisation:
        refuse(operator, "its C kernel does not rescale: input and output must have the same scale and zero point")
    fill = source.quantisation.zero_point if source.quantisation is not None else 0
    if fill and source.dtype.size_bytes != 1:
        refuse(operator, f"its C kernel fills {source.dtype.value} with zeros only; the zero point is {fill}")
    shape, before, result_shape = (
        ", ".join(map(str, values))
        for values in (source.shape, (pair[0] for pair in operator.attrs.paddings), target.shape)
    )
    text = (
        f"static const int32_t shape[] = {{{shape}}};\n"
        f"static const int32_t before[] = {{{before}}};\n"
        f"static const int32_t result[] = {{{result_shape}}};\n"
        f"pad_tensor({operands.source(index)}, {operands.target(result)}, {len(source.shape)}, shape, before, result, "
        f"{source.dtype.size_bytes}, {fill & 0xFF});"
    )
    return Call(text, ("pad.c",))


PAD = CKernel(("PAD",), _write, types=None, makes=None)
