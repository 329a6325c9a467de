"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN over any axes, ARG_MAX along one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import EIGHT_BIT, QUANTISED, ArgMaxAttrs, DType, Graph, Operator, ReductionAttrs
from ...ir.quantised import MAX_LEFT_SHIFT, mean_multiplier
from .kernel import (
    MOST_BOX,
    Call,
    CKernel,
    Operands,
    array,
    arrays,
    call,
    data_input,
    elements,
    factor,
    kept,
    quantisation_of,
    refuse,
    same_quantisation,
)


def _loop(graph: Graph, operator: Operator, operands: Operands) -> tuple[str, str, int]:
    """Declarations and arguments of the loop over kept and reduced dimensions, and how many elements become one."""
    source, attrs = graph.read(operator), operator.attrs
    if not isinstance(attrs, ReductionAttrs) or not attrs.axes:
        refuse(operator, operator.opaque or "its axes are not known at compile time")
    if elements(source) > MOST_BOX:
        refuse(operator, f"its C kernel counts to {MOST_BOX} elements")
    kept_axes = [d for d in range(len(source.shape)) if d not in attrs.axes]
    (outer, outer_strides), (sizes, strides) = (_dimensions(source.shape, axes) for axes in (kept_axes, attrs.axes))
    count = math.prod(sizes)
    fixed = {"kept_sizes": outer, "kept_strides": outer_strides, "sizes": sizes, "strides": strides}
    arguments = (
        f"{operands.source(data_input(operator))}, {operands.target(operator.outputs[0])}, {len(outer)}, kept_sizes, "
        f"kept_strides, {math.prod(outer)}, {len(sizes)}, sizes, strides, {count}"
    )
    return arrays(fixed), arguments, count


def _dimensions(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes and strides along some axes, neighbours that are one dimension joined."""
    found: list[tuple[int, int]] = []
    for axis in axes:
        size, stride = shape[axis], math.prod(shape[axis + 1 :])
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return [size for size, _ in found], [stride for _, stride in found]


def _write_sum(graph: Graph, operator: Operator, operands: Operands) -> Call:
    declared, arguments, count = _loop(graph, operator, operands)
    source, target = graph.read(operator), graph.made(operator)
    entry, output = quantisation_of(operator, source), quantisation_of(operator, target)
    ratio = entry.scale / output.scale
    multiplier, shift = mean_multiplier(ratio, count) if operator.kind == "MEAN" else factor(operator, ratio)
    if not -MAX_LEFT_SHIFT <= shift <= MAX_LEFT_SHIFT:
        refuse(operator, f"its input scale is {ratio:g} times its output scale; kernels shift by at most 31")
    stage = array("stage", (entry.zero_point, output.zero_point, *target.dtype.limits, multiplier, shift))
    function = f"reduce_sum_{source.dtype.value}"
    return call("reduce_sum.c", function, f"{declared}{stage}{function}({arguments}, stage);", TYPE=source.dtype)


def _write_extreme(graph: Graph, operator: Operator, operands: Operands) -> Call:
    declared, arguments, _ = _loop(graph, operator, operands)
    source = graph.read(operator)
    same_quantisation(operator, (source, graph.made(operator)))
    work = "maximum" if operator.kind == "REDUCE_MAX" else "minimum"
    function = f"reduce_{work}_{source.dtype.value}"
    return call("reduce_extreme.c", function, f"{declared}{function}({arguments});", TYPE=source.dtype, WORK=work)


def _write_arg_max(graph: Graph, operator: Operator, operands: Operands) -> Call:
    source, target, attrs = graph.read(operator), graph.made(operator), operator.attrs
    if not isinstance(attrs, ArgMaxAttrs):
        refuse(operator, operator.opaque or "its axis is not known at compile time")
    shape, axis = source.shape, attrs.axis
    function = f"arg_max_{source.dtype.value}_{target.dtype.value}"
    text = (
        f"{function}({operands.source(data_input(operator))}, {operands.target(operator.outputs[0])}, "
        f"{math.prod(shape[:axis])}, {shape[axis]}, {math.prod(shape[axis + 1 :])});"
    )
    return call("arg_max.c", function, text, FROM=source.dtype, INTO=target.dtype)


_COMPARED = (*QUANTISED, DType.INT32, DType.FLOAT32)
_ORDERED = (*EIGHT_BIT, DType.INT32, DType.FLOAT32)
ADDED = CKernel(("MEAN", "SUM"), _write_sum, kept(*QUANTISED))
REDUCED = CKernel(("REDUCE_MAX", "REDUCE_MIN"), _write_extreme, kept(*_COMPARED))
ARG_MAX = CKernel(
    ("ARG_MAX",), _write_arg_max, tuple((of, into) for of in _ORDERED for into in (DType.INT32, DType.INT64))
)
