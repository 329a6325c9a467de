"""PAD with the zero point, PADV2 with a stored value, MIRROR_PAD; of any element type."""

from __future__ import annotations

import numpy as np

from ...ir import QUANTISED, DType, Graph, MirrorPadAttrs, Operator, PadAttrs
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
    kept,
    refuse,
)


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    source, target, attrs = graph.read(operator), graph.made(operator), operator.attrs
    if not isinstance(attrs, PadAttrs) or not source.shape:
        refuse(operator, operator.opaque or "its paddings are not known at compile time")
    zero = target.quantisation.zero_point if target.quantisation is not None else 0
    fill = zero if attrs.fill is None else attrs.fill
    stored = np.array(fill, source.dtype.numpy).tobytes()
    text = (
        f"{array('fill', list(stored), 'uint8_t')}{_shapes(graph, operator, attrs.paddings)}"
        f"pad_tensor({_pointers(operator, operands)}, {len(source.shape)}, shape, before, result, "
        f"{source.dtype.size_bytes}, fill);"
    )
    return call("pad.c", "pad_tensor", text)


def _write_mirror(graph: Graph, operator: Operator, operands: Operands) -> Call:
    source, attrs = graph.read(operator), operator.attrs
    if not isinstance(attrs, MirrorPadAttrs) or not source.shape:
        refuse(operator, operator.opaque or "its paddings are not known at compile time")
    text = (
        f"{_shapes(graph, operator, attrs.paddings)}mirror_pad({_pointers(operator, operands)}, {len(source.shape)}, "
        f"shape, before, result, {source.dtype.size_bytes}, {int(not attrs.symmetric)});"
    )
    return call("mirror_pad.c", "mirror_pad", text)


def _pointers(operator: Operator, operands: Operands) -> str:
    return f"{operands.source(data_input(operator))}, {operands.target(operator.outputs[0])}"


def _shapes(graph: Graph, operator: Operator, paddings: tuple[tuple[int, int], ...]) -> str:
    shape = graph.read(operator).shape
    result = [extent + sum(pads) for extent, pads in zip(shape, paddings, strict=True)]
    if elements(graph.made(operator)) > MOST_BOX:
        refuse(operator, f"its C kernel counts to {MOST_BOX} elements")
    return arrays({"shape": shape, "before": [pads[0] for pads in paddings], "result": result})


_TYPES = (*QUANTISED, DType.INT32, DType.INT64, DType.FLOAT32)
PAD = CKernel(("PAD", "PADV2"), _write, kept(*_TYPES))
MIRROR_PAD = CKernel(("MIRROR_PAD",), _write_mirror, None)
