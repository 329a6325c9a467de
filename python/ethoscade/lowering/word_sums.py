"""SUM of int32: halves that are added, one run of axes after the other; kernels look at no scales.

Owns what such sums demand beside those of 8 and 16 bits. Partial sums lie between none of the values and all of them.
"""

from __future__ import annotations

import math

from ..ir import DType, Graph, ReductionAttrs
from . import constraints, limits, ranges, reductions, views
from .maker import Maker
from .npu import UNSCALED, NpuGraphBuilder


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """Sums of halves, or a copy where there is one value each. Precondition: the family takes it."""
    op = graph.operators[op_index]
    shape = graph.read(op).shape
    rows = reductions.rows_of(shape, op.attributes(ReductionAttrs).axes)
    seen, made = _views(shape, rows)
    ifm, ofm = builder.view(op.input(0), seen, zero_point=0), builder.view(op.outputs[0], made, zero_point=0)
    make = Maker(op.name, op_index, builder)
    if rows:
        reductions.total(make, ifm, rows, ofm, UNSCALED)
    else:
        make.copy(ifm, ofm)


def refusal(case: constraints.Case) -> str | None:
    """Why such sums are not made one run of axes after the other, or None."""
    axes = case.op.attributes(ReductionAttrs).axes
    if not axes:
        return "it reduces over no axis"
    rows = reductions.rows_of(case.ifm.shape, axes)
    largest = max((max(one.outer, one.count * one.inner) for one in rows), default=0)
    if largest <= limits.MAX_DIMENSION:
        return None
    return (
        f"it reduces axes {axes} of {case.ifm.shape}, which takes rows of {largest} sums of int32; at most "
        f"{limits.MAX_DIMENSION} are possible"
    )


def beyond(case: constraints.Case) -> str | None:
    """Why sums may be other than the kernels', which wrap where they do not fit, or None."""
    if not constraints.is_words(case):
        return None
    (low, high), (least, most) = ranges.of_sum(case.graph, case.op), DType.INT32.limits
    if least <= low and high <= most:
        return None
    return f"its sums may be {low} to {high}; beyond 32 bits kernels wrap, and what the NPU does is not known"


def views_of(case: constraints.Case) -> constraints.Views:
    """What `constraints.Sizes` asks for."""
    seen, made = _views(case.ifm.shape, reductions.rows_of(case.ifm.shape, case.op.attributes(ReductionAttrs).axes))
    return [(case.ifm, seen), (case.ofm, made)]


def _views(shape: tuple[int, ...], rows: tuple[reductions.Rows, ...]) -> tuple[views.Shape3, views.Shape3]:
    """What is seen of the input, and of the result."""
    if not rows:
        image = views.image_shape(shape)
        return image, image
    first, last = rows[0], rows[-1]
    return (first.outer, 1, math.prod(shape) // first.outer), (last.outer, last.inner, 1)
