"""RESIZE_NEAREST_NEIGHBOR of any element type, which pixel each one is a copy of being settled here; RESIZE_BILINEAR.

Bilinear kernels of int8 and int16 compute in units of 1/1024, those of uint8 and float32 in float32.
"""

from __future__ import annotations

import numpy as np

from ...ir import DType, Graph, Operator, ResizeBilinearAttrs, ResizeNearestAttrs
from ...ir.quantised import nearest_indices
from .kernel import MOST_BOX, Call, CKernel, Operands, array, arrays, call, data_input, float_literal, kept, refuse


def _write_nearest(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result, attrs = data_input(operator), operator.outputs[0], operator.attrs
    source, target = graph.tensors[index], graph.tensors[result]
    if not isinstance(attrs, ResizeNearestAttrs):
        refuse(operator, operator.opaque or "its size is not known at compile time")
    batches, height, width, depth = source.shape
    rows, columns = (
        nearest_indices(extent, outputs, attrs.align_corners, attrs.half_pixel_centers)
        for extent, outputs in zip((height, width), target.shape[1:3], strict=True)
    )
    text = (
        f"{arrays({'rows': rows, 'columns': columns})}"
        f"resize_nearest({operands.source(index)}, {operands.target(result)}, {batches}, {height}, {width}, "
        f"{depth * source.dtype.size_bytes}, rows, {target.shape[1]}, columns, {target.shape[2]});"
    )
    return call("resize.c", "resize_nearest", text)


def _write_bilinear(graph: Graph, operator: Operator, operands: Operands) -> Call:
    index, result, attrs = data_input(operator), operator.outputs[0], operator.attrs
    source, target = graph.tensors[index], graph.tensors[result]
    if not isinstance(attrs, ResizeBilinearAttrs):
        refuse(operator, operator.opaque or "its size is not known at compile time")
    spans = []
    for extent, outputs in zip(source.shape[1:3], target.shape[1:3], strict=True):
        corners = attrs.align_corners and outputs > 1
        spans.append((extent - corners, outputs - corners))
    function = f"resize_bilinear_{source.dtype.value}"
    shapes = arrays({"shape": source.shape, "result": target.shape})
    pointers = f"{operands.source(index)}, {operands.target(result)}, shape, result"
    if source.dtype in (DType.UINT8, DType.FLOAT32):
        steps = [float_literal(float(np.float32(span) / np.float32(count))) for span, count in spans]
        half = "0.5f" if attrs.half_pixel_centers else "0.0f"
        work = "real_nearest" if source.dtype is DType.UINT8 else "real_as_is"
        text = f"{shapes}{array('steps', steps, 'float')}{function}({pointers}, steps, {half});"
        return call("resize_bilinear_real.c", function, text, TYPE=source.dtype, WORK=work)
    tens = [(span * 1024 + count // 2) // count for span, count in spans]
    starts = [ten // 2 - 512 if attrs.half_pixel_centers else 0 for ten in tens]
    if max(ten * outputs for ten, outputs in zip(tens, target.shape[1:3], strict=True)) + 1023 > MOST_BOX:
        refuse(operator, f"places in 1/1024 of its {max(source.shape[1:3])} rows or columns leave 32 bits")
    text = f"{shapes}{arrays({'steps': (*tens, *starts)})}{function}({pointers}, steps);"
    return call("resize_bilinear.c", function, text, TYPE=source.dtype)


RESIZE = CKernel(("RESIZE_NEAREST_NEIGHBOR",), _write_nearest, None)
BILINEAR = CKernel(("RESIZE_BILINEAR",), _write_bilinear, kept(DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT32))
