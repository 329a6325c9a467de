"""Reference semantics of UNIDIRECTIONAL_SEQUENCE_LSTM, after TensorFlow Lite Micro's kernel.

Owns one step and the sequence of them. LiteRT's kernel rounds products once where Micro rounds twice, and lets the sums
of the recurrent weights exceed 16 bits until those of the input are added.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Array, DType, Graph, LstmAttrs, LstmInputs, Operator, Quantisation, Tensor
from .fixed_point import Int64, multiply, scale_sums
from .formulas import output_factors, scale_of, significand_and_shift, zero_point_of
from .functions16 import logistic_of, tanh_of
from .meaning import SIGNED, Inputs, ReferenceKernel, constant_at, given

_GATE = Tensor("gate", (), DType.INT16, Quantisation((2.0**-12,), (0,)))
"""What the sums of a gate are stored as."""
_UNIT = 2.0**-15
"""Scale of what LOGISTIC and TANH make."""
_SHORT = (-32768, 32767)


def lstm(graph: Graph, op: Operator, inputs: Inputs) -> tuple[Array, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: the hidden states of all steps, and the hidden and the cell state of the last."""
    attrs, state, cell = op.attributes(LstmAttrs), graph.read(op, LstmInputs.hidden), graph.read(op, LstmInputs.cell)
    x = given(inputs).astype(np.int64) - zero_point_of(graph.read(op))
    steps = x if attrs.time_major else x.swapaxes(0, 1)
    hidden, memory = (given(inputs, place).astype(np.int64) for place in (LstmInputs.hidden, LstmInputs.cell))
    made = []
    for step in steps:
        put_in, forget, update, put_out = (_gate(graph, op, inputs, step, hidden, number) for number in range(4))
        kept = _product(forget, memory, _UNIT, _SHORT)
        added = _product(put_in, update, _UNIT * _UNIT / scale_of(cell), _SHORT)
        memory = np.clip(kept + added, *_SHORT)
        if attrs.cell_clip > 0:
            most = int(min(attrs.cell_clip / scale_of(cell), 32767.0))
            memory = np.clip(memory, -most, most)
        factor = _UNIT * _UNIT / scale_of(state)
        hidden = _product(tanh_of(_in_units(memory, scale_of(cell))), put_out, factor, state.dtype.limits, state)
        made.append(hidden)
    sequence = np.stack(made, axis=0 if attrs.time_major else 1)
    return sequence.astype(state.dtype.numpy), hidden.astype(state.dtype.numpy), memory.astype(np.int16)


def _gate(graph: Graph, op: Operator, inputs: Inputs, x: Int64, hidden: Int64, number: int) -> Int64:
    """Sums of the input and of the hidden state, both of 16 bits, and their LOGISTIC, of the cell's gate TANH."""
    state = graph.read(op, LstmInputs.hidden)
    total = _weigh(graph, op, inputs, x, graph.read(op), LstmInputs.of_input[number], LstmInputs.biases[number])
    total += _weigh(graph, op, inputs, hidden - zero_point_of(state), state, LstmInputs.of_state[number], None)
    units = _in_units(np.clip(total, *_SHORT), scale_of(_GATE))
    return tanh_of(units) if number == LstmInputs.update else logistic_of(units)


def _weigh(graph: Graph, op: Operator, inputs: Inputs, x: Int64, source: Tensor, place: int, bias: int | None) -> Int64:
    weights = given(inputs, place).astype(np.int64)
    sums = x @ weights.T
    if bias is not None:
        sums = sums + given(inputs, bias).astype(np.int64)
    (real,) = output_factors("FULLY_CONNECTED", source, graph.read(op, place), _GATE)
    significand, shift = significand_and_shift(real)
    return np.clip(scale_sums(sums, significand, shift, source.dtype is DType.INT16), *_SHORT)


def _product(a: Int64, b: Int64, factor: float, limits: tuple[int, int], ofm: Tensor | None = None) -> Int64:
    scaled = multiply(a * b, *significand_and_shift(factor)) + (0 if ofm is None else zero_point_of(ofm))
    return np.clip(scaled, *limits)


def _in_units(value: Int64, scale: float) -> Int64:
    """In units of 1/12288, a power of two times three: rounded half up where that is a fraction."""
    times = 3 * value
    shift = int(np.log2(scale)) + 12
    return times << shift if shift >= 0 else (times + (1 << (-shift - 1))) >> -shift


RECURRENT_MEANINGS: Mapping[str, ReferenceKernel] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ReferenceKernel(lstm, constant_at(LstmInputs.parameters), SIGNED)
}
