"""Reference semantics of SVDF, after TensorFlow Lite Micro's kernel.

Micro makes room for the newest values when a run begins, LiteRT when it ends: their states differ between runs, their
outputs do not. LiteRT's kernel takes every state for int16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Array, Graph, Operator, SvdfAttrs, SvdfInputs
from .fixed_point import multiply, wrap
from .formulas import memory_factors, significand_and_shift, zero_point_of
from .meaning import INT8, Inputs, ReferenceKernel, constant_at, given


def svdf(graph: Graph, op: Operator, inputs: Inputs) -> tuple[Array, ...]:
    """SVDF: sums over units and time, and what is remembered for the next run, the newest value of a filter last.

    A newest value is clamped ahead of the state's zero point, and what leaves 8 bits then wraps.
    """
    ifm, weights, times, state = (
        graph.read(op, place) for place in (0, SvdfInputs.of_input, SvdfInputs.in_time, SvdfInputs.state)
    )
    ofm, origin = graph.made(op), zero_point_of(state)
    filters, memory = times.shape
    first, second = memory_factors(ifm, weights, state, times, ofm)
    x = given(inputs).astype(np.int64) - zero_point_of(ifm)
    sums = x @ given(inputs, SvdfInputs.of_input).astype(np.int64).T
    newest = np.clip(multiply(wrap(sums), *significand_and_shift(first)), *state.dtype.limits) + origin
    kept = given(inputs, SvdfInputs.state).reshape(-1, filters, memory)
    after = np.concatenate([kept[:, :, 1:], newest.astype(state.dtype.numpy)[:, :, None]], axis=2)
    weighed = (after.astype(np.int64) - origin) * given(inputs, SvdfInputs.in_time).astype(np.int64)
    total = weighed.reshape(len(x), filters // op.attributes(SvdfAttrs).rank, -1).sum(axis=2)
    if op.inputs[SvdfInputs.bias] is not None:
        total = total + given(inputs, SvdfInputs.bias).astype(np.int64)
    scaled = multiply(wrap(total), *significand_and_shift(second)) + zero_point_of(ofm)
    made = np.clip(scaled, *ofm.dtype.limits).astype(ofm.dtype.numpy)
    return made, after.reshape(state.shape)


SVDF_MEANINGS: Mapping[str, ReferenceKernel] = {"SVDF": ReferenceKernel(svdf, constant_at(SvdfInputs.parameters), INT8)}
