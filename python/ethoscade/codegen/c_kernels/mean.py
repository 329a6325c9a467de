"""MEAN of 8-bit tensors over any axes, bit for bit as TFLite's reference kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import Graph, Operator, ReductionAttrs
from ...quantised import mean_multiplier
from .kernel import Call, CKernel, Operands, first_input, quantisation_of, refuse, sign_of

_MAX_RANK = 8
# The C kernel sums bytes and a zero point in 32 bits.
_MAX_COUNT = 2**31 // 512


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    entry, output = quantisation_of(operator, source), quantisation_of(operator, target)
    sign = sign_of(source)
    if not isinstance(operator.attrs, ReductionAttrs) or not operator.attrs.axes:
        refuse(operator, operator.opaque or "its axes are not known at compile time")
    axes, rank = operator.attrs.axes, len(source.shape)
    count = math.prod(source.shape[a] for a in axes)
    if rank > _MAX_RANK or count > _MAX_COUNT:
        refuse(operator, f"its C kernel takes {_MAX_RANK} dimensions and {_MAX_COUNT} values per mean")
    multiplier, shift = mean_multiplier(entry.scale / output.scale, count)
    if shift > 0:
        refuse(operator, f"its input scale is {entry.scale / output.scale:g} times its output scale")
    strides = [math.prod(source.shape[d + 1 :]) for d in range(rank)]
    kept = [d for d in range(rank) if d not in axes]
    text = (
        f"static const struct mean_dimensions kept = {_dimensions(kept, source.shape, strides)};\n"
        f"static const struct mean_dimensions reduced = {_dimensions(axes, source.shape, strides)};\n"
        f"mean_8bit({operands.source(index)}, {operands.target(result)}, &kept, "
        f"{math.prod(source.shape[d] for d in kept)}, &reduced, {count}, {entry.zero_point}, {output.zero_point}, "
        f"{multiplier}, {-shift}, {sign});"
    )
    return Call(text, ("fixed_point.c", "mean.c"))


def _dimensions(chosen: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> str:
    if not chosen:
        return "{0, {0}, {0}}"
    sizes, steps = (", ".join(str(values[d]) for d in chosen) for values in (shape, strides))
    return f"{{{len(chosen)}, {{{sizes}}}, {{{steps}}}}}"


MEAN = CKernel(("MEAN",), _write)
