"""Operators of `ModelBuilder` that multiply matrices: BATCH_MATMUL, SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM.

Owns their methods, output shapes and what an SVDF and an LSTM are in real numbers.
"""

from __future__ import annotations

import numpy as np
import tflite

from ..ir import Activation, DType, LstmInputs, Quantisation
from ..ir.operators import CODE_OF_ACTIVATION
from . import real_operators as real
from .calibration import Real, activation_quantisation
from .flatfile import TensorRecord
from .recorder import Value
from .words import WordRecorder

_LARGEST_SUM = 50000
"""Most that weights of 16 bits add up to behind one output of an SVDF: that leaves room for its bias in 32 bits."""


class MatrixRecorder(WordRecorder):
    """BATCH_MATMUL, SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM."""

    def batch_matmul(
        self,
        a: Value,
        b: Value,
        *,
        adj_x: bool = False,
        adj_y: bool = False,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """BATCH_MATMUL of matrices along the last two axes, transposed where `adj_x` or `adj_y` say so."""

        def turned(shape: tuple[int, ...], adjoint: bool) -> tuple[int, ...]:
            return (*shape[:-2], shape[-1], shape[-2]) if adjoint else shape

        rows, columns = turned(a.shape, adj_x)[-2], turned(b.shape, adj_y)[-1]
        return self._operator(
            "BATCH_MATMUL",
            [a.index, b.index],
            (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns),
            lambda: (
                (self._real(a).swapaxes(-1, -2) if adj_x else self._real(a))
                @ (self._real(b).swapaxes(-1, -2) if adj_y else self._real(b))
            ),
            output,
            {"AdjX": adj_x, "AdjY": adj_y},
            name,
            a.dtype,
        )

    def weighed_by(
        self,
        x: Value,
        weights: Value,
        *,
        use_bias: bool = False,
        activation: Activation = Activation.NONE,
        output: Quantisation | None = None,
    ) -> Value:
        """FULLY_CONNECTED by weights (units, inputs) that are made while the network runs."""
        fields = {"FusedActivationFunction": CODE_OF_ACTIVATION[activation], "KeepNumDims": True}
        bias, shift = self._bias(x, weights, weights.shape[0], None) if use_bias else (None, 0.0)
        return self._operator(
            "FULLY_CONNECTED",
            [x.index, weights.index, *([] if bias is None else [bias])],
            (*x.shape[:-1], weights.shape[0]),
            lambda: real.activate(self._real(x) @ self._real(weights).T + shift, activation),
            output,
            fields,
            None,
            x.dtype,
        )

    def svdf(
        self,
        x: Value,
        units: int,
        memory: int,
        *,
        rank: int = 1,
        state_dtype: DType = DType.INT8,
        state: Quantisation | None = None,
        gain: float = 1.0,
        use_bias: bool = True,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """SVDF of (batch, features), in which `rank` filters for each unit remember their last `memory` values.

        Its state, of int8 or int16 like the weights in time, begins at zero.
        """
        (batch, features), filters = x.shape, units * rank
        weights, real = self._weights((filters, features), gain / np.sqrt(features), None, None, None, DType.INT8)
        label = name or f"svdf{len(self._operators)}"
        wanted = self._rng.standard_normal((filters, memory)) / np.sqrt(rank * memory)
        # Sums of products of 16 bits stay within 32.
        longest = float(np.abs(wanted).reshape(units, -1).sum(axis=1).max())
        most = min(_LARGEST_SUM / longest, 32767 / np.abs(wanted).max()) if state_dtype is DType.INT16 else None
        fine = None if most is None else Quantisation((float(np.float32(1 / most)),), (0,))
        times, in_time = self._weights((filters, memory), 1.0, wanted, fine, None, state_dtype)
        if state is None:
            state = activation_quantisation(self._real(x) @ real.T, state_dtype)
        inputs = [x.index, weights.index, times.index, -1]
        kept = self._state_tensor(f"{label}_state", (batch, filters * memory), state_dtype, state)
        bias: Real = np.zeros(units)
        if use_bias:
            remembered = Value(kept, label, (batch, filters * memory), DType.INT8, state)
            inputs[3], bias = self._bias(remembered, times, units, None)

        def compute() -> Real:
            # As after as many runs of one input as are remembered.
            weighed: Real = (self._real(x) @ real.T) * in_time.sum(axis=1)
            made: Real = weighed.reshape(batch, units, rank).sum(axis=2) + bias
            return made

        return self._operator(
            "SVDF",
            [*inputs, kept],
            (batch, units),
            compute,
            output,
            {"Rank": rank, "FusedActivationFunction": tflite.ActivationFunctionType.RELU},
            label,
            x.dtype,
        )

    def lstm(
        self,
        x: Value,
        cells: int,
        *,
        time_major: bool = False,
        cell_clip: float = 0.0,
        cell_scale: float = 2.0**-11,
        gain: float = 1.0,
        weight_quantisation: Quantisation | None = None,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """UNIDIRECTIONAL_SEQUENCE_LSTM of (batch, time, features), or (time, batch, features) where `time_major`.

        Its hidden and its cell state begin at zero. `cell_scale` is a power of two.
        """
        batch, times, features = x.shape if not time_major else (x.shape[1], x.shape[0], x.shape[2])
        label = name or f"lstm{len(self._operators)}"
        parts = [
            self._weights((cells, size), gain / np.sqrt(size), None, weight_quantisation, None, DType.INT8)
            for size in (features, cells)
            for _ in LstmInputs.of_input
        ]
        biases = [self._bias(x, weights, cells, None, narrow=False) for weights, _ in parts[:4]]
        reals = [real for _, real in parts]

        def compute() -> Real:
            value = self._real(x) if time_major else self._real(x).swapaxes(0, 1)
            made = _unrolled(value, reals, [real for _, real in biases], cell_clip)
            return made if time_major else made.swapaxes(0, 1)

        output = output or activation_quantisation(compute(), x.dtype)
        state = self._state_tensor(f"{label}_hidden", (batch, cells), x.dtype, output)
        cell = self._state_tensor(f"{label}_cell", (batch, cells), DType.INT16, Quantisation((cell_scale,), (0,)))
        between = [
            self._tensor(f"{label}_gate{number}", (0,), DType.INT16, Quantisation((2.0**-12,), (0,))).index
            for number in range(4)
        ]
        between.append(self._tensor(f"{label}_product", (0,), x.dtype, output).index)
        shape = (times, batch, cells) if time_major else (batch, times, cells)
        made = self._tensor(label, shape, x.dtype, output)
        self._thunks[made.index] = compute
        inputs = [x.index, *(value.index for value, _ in parts), -1, -1, -1, *(index for index, _ in biases), -1, -1]
        fields = {
            "FusedActivationFunction": tflite.ActivationFunctionType.TANH,
            "CellClip": cell_clip,
            "TimeMajor": time_major,
        }
        self._record(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", [*inputs, state, cell, -1, -1, -1, -1], [made], fields, tuple(between)
        )
        return made

    def _state_tensor(self, name: str, shape: tuple[int, ...], dtype: DType, quantisation: Quantisation) -> int:
        self._tensors.append(TensorRecord(name, shape, dtype, quantisation, variable=True))
        return len(self._tensors) - 1


def _unrolled(steps: Real, weights: list[Real], biases: list[Real], clip: float) -> Real:
    """Hidden states of steps (time, batch, features); gates in the order input, forget, cell, output."""

    def sigmoid(value: Real) -> Real:
        return 1 / (1 + np.exp(-value))

    cells = len(biases[0])
    hidden = memory = np.zeros((steps.shape[1], cells))
    made = []
    for step in steps:
        gates = [step @ weights[n].T + hidden @ weights[4 + n].T + biases[n] for n in range(4)]
        memory = sigmoid(gates[1]) * memory + sigmoid(gates[0]) * np.tanh(gates[2])
        memory = np.clip(memory, -clip, clip) if clip > 0 else memory
        hidden = sigmoid(gates[3]) * np.tanh(memory)
        made.append(hidden)
    return np.stack(made)
