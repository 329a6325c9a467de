"""Operators of `ModelBuilder` that multiply matrices: BATCH_MATMUL.

Owns their methods and output shapes.
"""

from __future__ import annotations

import numpy as np

from ..ir import Quantisation
from .moving import MoveRecorder
from .recorder import Value


class MatrixRecorder(MoveRecorder):
    """BATCH_MATMUL."""

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
