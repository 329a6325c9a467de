"""SOFTMAX of int16 over the last axis: exponentials and the reciprocal of their sum are interpolated in tables.

Owns the sequence, after the reference kernel; `softmax` has the family. Exponentials have 16 bits and are kept, as each
of the two tables fills the whole LUT area.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..ir import Graph, Operator, SoftmaxAttrs
from ..ir.quantised import scale_of
from . import interpolated, last_axis, limits
from .maker import AS_IS, Maker
from .npu import NpuGraphBuilder, OperationKind, Rounding, Scale

_REACH = 10.0
"""Further below the maximum exponentials count as nothing."""

MOST_OF_SIXTEEN_BITS = 65536
"""As many exponentials of 15 bits, the most that an axis has on the NPU, are summed within 32 bits."""

_HIGHEST = (1 << 15) - 1


def _factor(graph: Graph, op: Operator) -> float:
    """From a distance between stored values to steps of the table, all of which are `_REACH`; a product in float32."""
    product = np.float32(scale_of(graph.read(op))) * np.float32(op.attributes(SoftmaxAttrs).beta)
    return float(product) / (_REACH / interpolated.FULL_RANGE)


def refusal(graph: Graph, op: Operator) -> str | None:
    """Why distances from a maximum cannot be scaled as the reference scales them, or None."""
    real = _factor(graph, op)
    return limits.rescale(real, 2 * limits.largest_value(graph.read(op).dtype)) if real > 0 else f"beta makes {real:g}"


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Some dozen operations, most of them on one number a row. Precondition: the family takes it."""
    op = graph.operators[op_index]
    source, target = op.input(0), op.outputs[0]
    given = graph.tensors[source].shape
    shape, once = last_axis.seen(given)
    make = Maker(op.name, op_index, builder, Rounding.NATURAL)
    ifm = builder.view(source, shape)
    largest = last_axis.largest(make, source, given)
    # The distance 0 is the highest index of the table.
    exponentials = make.short(
        OperationKind.SUB,
        ifm,
        largest,
        scaling=Scale(*limits.npu_scale(_factor(graph, op))),
        function=interpolated.table(math.exp, _REACH / interpolated.FULL_RANGE, _HIGHEST),
        zero_point=_HIGHEST,
        rounding=Rounding.TFL,
    )
    total = last_axis.total(make, exponentials, math.prod(given[:-1]))
    zeros = make.wide(OperationKind.CLZ, total)
    drop = make.wide(OperationKind.SUB, zeros, 31, scaling=AS_IS, swap_operands=True)
    # The sum without its leading one, 16 bits of it: what 1 is added to for the reciprocal.
    one = make.wide(OperationKind.SHL, make.wide(OperationKind.MINIMUM, total, 1), drop)
    rest = make.wide(OperationKind.SHL, make.wide(OperationKind.SUB, total, one, scaling=AS_IS), zeros)
    inverse = make.short(
        OperationKind.ADD,
        make.wide(OperationKind.SHR, rest, 15),
        -(1 << 15),
        scaling=AS_IS,
        function=interpolated.table(lambda x: 1.0 / (1.0 + x), 1.0 / interpolated.FULL_RANGE, -(1 << 15)),
    )
    inverse, drop = (replace(view, shape=once) for view in (inverse, drop))
    product = make.wide(OperationKind.MUL, exponentials, inverse, scaling=AS_IS)
    ofm = builder.view(target, shape)
    make.point(OperationKind.SHR, product, drop, ofm, clamp=(0, _HIGHEST))
