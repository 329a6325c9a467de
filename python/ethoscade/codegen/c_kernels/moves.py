"""Operators that move elements of any type: boxes with strides, one for each input or output.

Owns the reduction of a move to few dimensions and a run of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir import (
    ConcatenationAttrs,
    DType,
    Graph,
    Operator,
    PackAttrs,
    ReverseAttrs,
    SplitAttrs,
    StridedSliceAttrs,
    TileAttrs,
    TransposeAttrs,
    UnpackAttrs,
)
from ...ir.quantised import rescaled_bytes
from .kernel import MOST_BOX, Call, CKernel, Operands, array, arrays, data_input, refuse, same_quantisation
from .texts import source, with_used

_Dimension = tuple[int, int, int]
"""Its size, and how many elements of input and output it goes on."""


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _reduced(box: Sequence[_Dimension], element: int) -> tuple[list[_Dimension], int]:
    """The same move in as few dimensions as can be, strides in bytes, and how many bytes lie together."""
    joined: list[_Dimension] = []
    for size, a, b in box:
        if size == 1:
            continue
        if joined and joined[-1][1:] == (size * a, size * b):
            joined[-1] = (joined[-1][0] * size, a, b)
        else:
            joined.append((size, a, b))
    run = element
    if joined and joined[-1][1:] == (1, 1):
        run *= joined.pop()[0]
    return [(size, a * element, b * element) for size, a, b in joined], run


def _box_text(
    source: str, target: str, box: Sequence[_Dimension], element: int, results: Sequence[int] | None = None
) -> str:
    """The copy of a box; of bytes perhaps by a table of their 256 `results`."""
    dimensions, run = _reduced(box, element)
    if not dimensions and results is None:
        return f"memcpy({target}, {source}, {run});\n"
    fixed = {"sizes": [size for size, _, _ in dimensions], "strides": [s for _, a, b in dimensions for s in (a, b)]}
    table = "" if results is None else array("results", results, "uint8_t")
    declared = "".join(f"  {line}\n" for line in (arrays(fixed) + table).splitlines())
    function, more = ("move_box", "") if results is None else ("move_by_table", ", results")
    return f"{{\n{declared}  {function}({source}, {target}, {len(dimensions)}, sizes, strides, {run}{more});\n}}\n"


def _moved(operator: Operator, texts: Sequence[str]) -> Call:
    text = "".join(texts).rstrip("\n")
    files = [file for file in ("move_box", "move_by_table") if f"{file}(" in text]
    sources = tuple(one for file in files for one in with_used(source(f"{file}.c")))
    return Call(files[0] if len(files) == 1 else "", text, sources)


def _at(pointer: str, elements: int, element: int) -> str:
    return f"{pointer} + {elements * element}" if elements else pointer


def _single(graph: Graph, operator: Operator, operands: Operands, box: Sequence[_Dimension], start: int = 0) -> Call:
    index, result = data_input(operator), operator.outputs[0]
    size = graph.tensors[index].dtype.size_bytes
    if math.prod(extent for extent, _, _ in box) > MOST_BOX:
        refuse(operator, f"its C kernel counts to {MOST_BOX} elements")
    pointer = _at(operands.source(index), start, size)
    return _moved(operator, [_box_text(pointer, operands.target(result), box, size)])


def _transpose(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, TransposeAttrs):
        refuse(operator, operator.opaque or "its permutation is not known at compile time")
    ahead = _strides(attrs.extents)
    shape = [attrs.extents[axis] for axis in attrs.permutation]
    box = zip(shape, (ahead[axis] for axis in attrs.permutation), _strides(shape), strict=True)
    return _single(graph, operator, operands, list(box))


def _slice(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, StridedSliceAttrs):
        refuse(operator, operator.opaque or "its ranges are not known at compile time")
    ahead = _strides(graph.read(operator).shape)
    shape = [len(range(*of)) for of in attrs.ranges]
    box = [
        (size, of[2] * step, made)
        for size, of, step, made in zip(shape, attrs.ranges, ahead, _strides(shape), strict=True)
    ]
    start = sum(of[0] * step for of, step in zip(attrs.ranges, ahead, strict=True))
    return _single(graph, operator, operands, box, start)


def _reverse(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, ReverseAttrs):
        refuse(operator, operator.opaque or "its axes are not known at compile time")
    shape = graph.read(operator).shape
    ahead = _strides(shape)
    box = [(size, -ahead[d] if d in attrs.axes else ahead[d], ahead[d]) for d, size in enumerate(shape)]
    start = sum((shape[axis] - 1) * ahead[axis] for axis in attrs.axes)
    return _single(graph, operator, operands, box, start)


def _tile(graph: Graph, operator: Operator, operands: Operands) -> Call:
    attrs = operator.attrs
    if not isinstance(attrs, TileAttrs):
        refuse(operator, operator.opaque or "its multiples are not known at compile time")
    shape = graph.read(operator).shape
    ahead = _strides(shape)
    made = _strides([size * times for size, times in zip(shape, attrs.multiples, strict=True)])
    box: list[_Dimension] = []
    for d, size in enumerate(shape):
        box += [(attrs.multiples[d], 0, size * made[d]), (size, ahead[d], made[d])]
    return _single(graph, operator, operands, box)


def _pieces(graph: Graph, operator: Operator, operands: Operands) -> Call:
    """SPLIT, SPLIT_V and UNPACK: a box of the input for each output."""
    attrs = operator.attrs
    if not isinstance(attrs, (SplitAttrs, UnpackAttrs)):
        refuse(operator, operator.opaque or "its axis is not known at compile time")
    place = attrs.operand if isinstance(attrs, SplitAttrs) else 0
    ifm, index = graph.read(operator, place), operator.input(place)
    sizes = attrs.sizes if isinstance(attrs, SplitAttrs) else (1,) * len(operator.outputs)
    ahead, start, texts = _strides(ifm.shape), 0, []
    for size, result in zip(sizes, operator.outputs, strict=True):
        shape = [size if d == attrs.axis else extent for d, extent in enumerate(ifm.shape)]
        pointer = _at(operands.source(index), start * ahead[attrs.axis], ifm.dtype.size_bytes)
        box = list(zip(shape, ahead, _strides(shape), strict=True))
        texts.append(_box_text(pointer, operands.target(result), box, ifm.dtype.size_bytes))
        start += size
    return _moved(operator, texts)


def _joined(graph: Graph, operator: Operator, operands: Operands) -> Call:
    """CONCATENATION and PACK: a box of the output for each input."""
    attrs, ofm = operator.attrs, graph.made(operator)
    if not isinstance(attrs, (ConcatenationAttrs, PackAttrs)):
        refuse(operator, operator.opaque or "its axis is not known at compile time")
    tensors = [graph.read(operator, place) for place in range(len(operator.inputs))]
    if ofm.dtype is DType.INT8 and isinstance(attrs, ConcatenationAttrs):
        same_quantisation(operator, (ofm, *tensors))
    axis, packs = attrs.axis, isinstance(attrs, PackAttrs)
    shapes = [(*t.shape[:axis], 1, *t.shape[axis:]) if packs else t.shape for t in tensors]
    whole = [sum(shape[d] for shape in shapes) if d == axis else extent for d, extent in enumerate(shapes[0])]
    made, start, texts = _strides(whole), 0, []
    for place, shape in enumerate(shapes):
        target = _at(operands.target(operator.outputs[0]), start * made[axis], ofm.dtype.size_bytes)
        box = list(zip(shape, _strides(shape), made, strict=True))
        changes = not packs and ofm.dtype is DType.UINT8 and tensors[place].quantisation != ofm.quantisation
        results = [int(result) for result in rescaled_bytes(tensors[place], ofm)] if changes else None
        pointer = operands.source(operator.input(place))
        texts.append(_box_text(pointer, target, box, ofm.dtype.size_bytes, results))
        start += shape[axis]
    return _moved(operator, texts)


TRANSPOSE = CKernel(("TRANSPOSE",), _transpose, None)
SLICE = CKernel(("SLICE", "STRIDED_SLICE"), _slice, None)
REVERSE = CKernel(("REVERSE_V2",), _reverse, None)
TILE = CKernel(("TILE",), _tile, None)
PIECES = CKernel(("SPLIT", "SPLIT_V", "UNPACK"), _pieces, None)
JOINED = CKernel(("CONCATENATION", "PACK"), _joined, None)
