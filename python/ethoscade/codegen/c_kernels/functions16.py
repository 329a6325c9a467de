"""Functions of int16: by 513 samples between which is interpolated, LOGISTIC and TANH by a curve of their own."""

from __future__ import annotations

import numpy as np

from ...ir import DType, Graph, Operator
from ...ir.quantised import scale_of
from ...lowering import functions, functions16
from ...lowering.npu import Table
from .kernel import Call, CKernel, Operands, array, call, data_input, elements, kept, quantisation_of, refuse

_UNITS = 12288.0
_MOST_BITS = 16


def _pointers(graph: Graph, operator: Operator, operands: Operands) -> str:
    for tensor in (graph.read(operator), graph.made(operator)):
        if quantisation_of(operator, tensor).zero_point:
            refuse(operator, f"its C kernel takes int16 with the zero point 0; '{tensor.name}' has another")
    count = elements(graph.made(operator))
    return f"{operands.source(data_input(operator))}, {operands.target(operator.outputs[0])}, {count}"


def samples_of(table: Table) -> list[int]:
    """The 513 samples of a table of 512 bases and slopes."""
    pairs = np.frombuffer(table.data, "<i2").reshape(-1, 2).astype(int)
    return [*(int(base) for base in pairs[:, 0]), int(pairs[-1].sum())]


def _write_samples(graph: Graph, operator: Operator, operands: Operands) -> Call:
    pointers = _pointers(graph, operator, operands)
    if operator.opaque is not None:
        refuse(operator, operator.opaque)
    try:
        samples = samples_of(functions16.table(operator, graph.read(operator), graph.made(operator)))
    except functions.NoResult as why:
        refuse(operator, str(why))
    text = f"{array('samples', samples, 'int16_t')}interpolate_int16({pointers}, samples);"
    return call("interpolate.c", "interpolate_int16", text)


def _write_curve(graph: Graph, operator: Operator, operands: Operands) -> Call:
    pointers = _pointers(graph, operator, operands)
    scale, made = (scale_of(tensor) for tensor in (graph.read(operator), graph.made(operator)))
    if made != 1 / 32768:
        refuse(operator, f"its output has scale {made:g}; kernels make it with 1/32768")
    real, shift = scale * _UNITS, 0
    while real <= 32767.0 / 2 and shift <= 30:
        real, shift = real * 2, shift + 1
    if int(real) >= 1 << _MOST_BITS:
        refuse(operator, f"its input has scale {scale:g}; products with its factor leave 32 bits from 16/3 on")
    text = f"logistic_int16({pointers}, {int(real)}, {shift}, {int(operator.kind == 'TANH')});"
    return call("logistic.c", "logistic_int16", text)


SAMPLES = CKernel(("EXP", "GELU", "LOG", "RSQRT"), _write_samples, kept(DType.INT16))
CURVE = CKernel(("LOGISTIC", "TANH"), _write_curve, kept(DType.INT16))
