"""Functions of one 8-bit element as a table of all 256 results."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import EIGHT_BIT, DType, Graph, Operator
from ...lowering import functions
from .kernel import Call, CKernel, Operands, array, call, data_input, elements, kept, quantisation_of, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    source, target = graph.tensors[data_input(operator)], graph.made(operator)
    for tensor in (source, target):
        quantisation_of(operator, tensor)
    if operator.opaque is not None:
        refuse(operator, operator.opaque)
    try:
        results = functions.results(operator, source, target)
    except functions.NoResult as why:
        refuse(operator, str(why))
    return table_call(graph, operator, operands, results)


def table_call(graph: Graph, operator: Operator, operands: Operands, results: Sequence[int]) -> Call:
    """The call of a look-up; `results` are those of the stored values from the smallest up."""
    index, result = data_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    for tensor in (source, target):
        if tensor.dtype not in EIGHT_BIT:
            refuse(operator, f"its C kernel looks up bytes; '{tensor.name}' is {tensor.dtype.value}")
    # Bytes of int8 count from 0 to 127 and then from -128 up.
    turn = -source.dtype.limits[0]
    by_byte = [value & 0xFF for value in (*results[turn:], *results[:turn])]
    text = (
        f"{array('results', by_byte, 'uint8_t')}"
        f"table_8bit({operands.source(index)}, {operands.target(result)}, {elements(source)}, results);"
    )
    return call("table.c", "table_8bit", text)


_SIGNED = ("ELU", "EXP", "LOG", "NEG", "RSQRT", "SQRT")
TABLE = CKernel(("GELU", "HARD_SWISH", "LOGISTIC", "TANH"), _write, kept(*EIGHT_BIT))
TABLE_OF_INT8 = CKernel(_SIGNED, _write, kept(DType.INT8))
