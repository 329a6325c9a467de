"""Operators of `ModelBuilder` that compute with numbers of 32 bits, which have no scales.

Owns their methods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Activation, Array, DType
from ..ir.operators import CODE_OF_ACTIVATION
from . import real_operators as real
from .calibration import Real
from .moving import MoveRecorder
from .recorder import Value


class WordRecorder(MoveRecorder):
    """ADD, SUB, MUL, MAXIMUM, MINIMUM and SUM of INT32."""

    def sum_of_words(self, x: Value, axes: Sequence[int], *, keep_dims: bool = False) -> Value:
        """SUM of a value of INT32."""
        over = tuple(axis % len(x.shape) for axis in axes)
        shape = np.empty(x.shape, np.int8).sum(axis=over, keepdims=keep_dims).shape
        inputs, fields = [x.index, self._integers("axes", axes)], {"KeepDims": keep_dims}

        def compute() -> Real:
            return np.asarray(self._real(x).sum(axis=over, keepdims=keep_dims))

        return self._plain("SUM", inputs, shape, x.dtype, compute, fields)

    def of_words(self, kind: str, x: Value, numbers: Array) -> Value:
        """One of them, of a value of INT32 and constant numbers."""
        function = real.BINARY[kind]
        index = self._constant("numbers", numbers.astype(np.int32), DType.INT32).index
        fields = {"FusedActivationFunction": CODE_OF_ACTIVATION[Activation.NONE]} if function.fuses else {}
        wanted = numbers.astype(np.float64)
        return self._plain(
            kind,
            [x.index, index],
            np.broadcast_shapes(x.shape, numbers.shape),
            x.dtype,
            lambda: function.compute(self._real(x), wanted),
            fields,
        )
