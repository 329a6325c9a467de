"""RESIZE_NEAREST_NEIGHBOR of an image, of any element type: which pixel each one is a copy of is settled here."""

from __future__ import annotations

from ...ir import Graph, Operator, ResizeNearestAttrs
from ...quantised import nearest_indices
from .kernel import Call, CKernel, Operands, first_input, refuse


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result = first_input(operator), operator.outputs[0]
    source, target = graph.tensors[index], graph.tensors[result]
    attrs = operator.attrs
    if not isinstance(attrs, ResizeNearestAttrs):
        refuse(operator, operator.opaque or "its size is not known at compile time")
    batches, height, width, depth = source.shape
    rows, columns = (
        ", ".join(map(str, nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)))
        for extent, outputs in zip((height, width), target.shape[1:3], strict=True)
    )
    text = (
        f"static const int32_t rows[] = {{{rows}}};\n"
        f"static const int32_t columns[] = {{{columns}}};\n"
        f"resize_nearest({operands.source(index)}, {operands.target(result)}, {batches}, {height}, {width}, "
        f"{depth * source.dtype.size_bytes}, rows, {target.shape[1]}, columns, {target.shape[2]});"
    )
    return Call(text, ("resize.c",))


RESIZE = CKernel(("RESIZE_NEAREST_NEIGHBOR",), _write, types=None, makes=None)
