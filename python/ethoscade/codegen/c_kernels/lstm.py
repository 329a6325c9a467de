"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16, after TensorFlow Lite Micro's kernel."""

from __future__ import annotations

import math

from ...ir import DType, Graph, LstmAttrs, LstmInputs, Operator, Quantisation, Tensor
from ...ir.quantised import effective_scales, reduced_multiplier_and_shift, scale_of, zero_point_of
from .kernel import Call, CKernel, Operands, arrays, call, factor, kept, refuse

_GATE = Tensor("gate", (), DType.INT16, Quantisation((2.0**-12,), (0,)))
_UNIT = 2.0**-15


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs, places = operator.attrs, LstmInputs
    if not isinstance(attrs, LstmAttrs):
        refuse(operator, operator.opaque or "its attributes are not known")
    ifm, hidden, cell = (graph.read(operator, place) for place in (0, places.hidden, places.cell))
    times, batches = ifm.shape[:2] if attrs.time_major else ifm.shape[1::-1]
    inputs, units = ifm.shape[2], hidden.shape[1]
    # From one step to the next, and from one batch to the next.
    ahead = (batches, 1) if attrs.time_major else (1, times)
    stage = [zero_point_of(ifm), zero_point_of(hidden), *hidden.dtype.limits, _largest_cell(attrs, cell)]
    stage.append(math.frexp(scale_of(cell))[1] - 1 + 12)
    for number in range(4):
        for source, of in ((ifm, places.of_input), (hidden, places.of_state)):
            stage += _factor(operator, source, graph.read(operator, of[number]))
    products = (_UNIT, _UNIT * _UNIT / scale_of(cell), _UNIT * _UNIT / scale_of(hidden))
    stage += [part for real in products for part in factor(operator, real)]
    shape = (batches, times, inputs, units, ahead[0] * inputs, ahead[0] * units, ahead[1] * inputs, ahead[1] * units)
    return _call(operator, operands, ifm.dtype, shape, stage)


def _largest_cell(attrs: LstmAttrs, cell: Tensor) -> int:
    """What a cell is clamped to, 0 for nothing."""
    return int(min(attrs.cell_clip / scale_of(cell), 32767.0)) if attrs.cell_clip > 0 else 0


def _factor(operator: Operator, source: Tensor, weights: Tensor) -> tuple[int, int]:
    (real,) = effective_scales("FULLY_CONNECTED", source, weights, _GATE)
    return reduced_multiplier_and_shift(real) if source.dtype is DType.INT16 else factor(operator, real)


def _call(operator: Operator, operands: Operands, dtype: DType, shape: tuple[int, ...], stage: list[int]) -> Call:
    places = LstmInputs
    read = ", ".join(operands.source(operator.input(place)) for place in (0, places.hidden, places.cell))
    made = ", ".join(operands.target(tensor) for tensor in operator.outputs)
    lines: list[str] = []
    for number in range(4):
        for of in (places.of_input, places.of_state, places.biases):
            lines.append(f"constants[{len(lines)}] = {operands.source(operator.input(of[number]))};\n")
    text = (
        f"{arrays({'shape': shape, 'stage': stage})}const uint8_t* constants[12];\n\n{''.join(lines)}"
        f"lstm_{dtype.value}({read}, {made}, constants, shape, stage);"
    )
    return call("lstm.c", f"lstm_{dtype.value}", text, TYPE=dtype, SUM="64" if dtype is DType.INT16 else "32")


LSTM = CKernel(("UNIDIRECTIONAL_SEQUENCE_LSTM",), _write, kept(DType.INT8, DType.INT16))
