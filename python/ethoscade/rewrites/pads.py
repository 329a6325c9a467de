"""fold_pad: a PAD before convolutions becomes part of their windows.

PAD fills with the zero point, which is what a convolution's own padding reads as. Pools are another matter: an
average pool does not count its padding and a max pool's padding never wins, so a PAD before them stays.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import ConvAttrs, Graph, Operator, PadAttrs, Window
from .draft import Draft, OnNpu, same_values

_Amounts = tuple[int, int]
"""Rows above and below, or columns to the left and to the right."""


def fold_pad(graph: Graph, on_npu: OnNpu) -> Graph:
    """Fold every PAD of height and width whose readers are all convolutions that the NPU runs with larger windows."""
    draft = Draft(graph)
    # Last first: of two PADs in a row, the second must be gone before the first meets the convolution.
    for index in reversed(range(len(graph.operators))):
        pad = draft.operators[index]
        if pad is None or pad.opaque is not None or not isinstance(pad.attrs, PadAttrs) or pad.attrs.fill is not None:
            continue
        folded = _folded(graph, draft, pad, pad.attrs, on_npu)
        if folded is not None:
            for reader, operator in folded.items():
                draft.change(reader, operator)
            draft.bypass(index)
    return draft.finish()


def _folded(graph: Graph, draft: Draft, pad: Operator, attrs: PadAttrs, on_npu: OnNpu) -> dict[int, Operator] | None:
    """The readers with larger windows, None where the pad cannot become part of all of them."""
    result, amounts = pad.outputs[0], attrs.paddings
    if pad.inputs[0] is None or len(amounts) != 4 or amounts[0] != (0, 0) or amounts[3] != (0, 0):
        return None
    source = draft.resolve(pad.inputs[0])
    before, after = draft.tensors[source], draft.tensors[result]
    if draft.is_output(result) or not same_values(before, after):
        return None
    # Its readers may see what it makes in another shape, where its rows are not theirs.
    if after.shape != tuple(extent + sum(pair) for extent, pair in zip(before.shape, amounts, strict=True)):
        return None
    return _fold_into_readers(graph, draft, source, result, (amounts[1], amounts[2]), on_npu)


def _fold_into_readers(
    graph: Graph, draft: Draft, source: int, tensor: int, amounts: tuple[_Amounts, _Amounts], on_npu: OnNpu
) -> dict[int, Operator] | None:
    folded: dict[int, Operator] = {}
    for index in draft.readers(tensor):
        reader = draft.operators[index]
        if reader is None:
            continue
        if not isinstance(reader.attrs, ConvAttrs):
            return None
        if [i for i, t in enumerate(reader.inputs) if t is not None and draft.resolve(t) == tensor] != [0]:
            return None
        window = _padded(reader.attrs.window, *amounts)
        # A window may not lie in padding alone.
        if max(window.pad_top, window.pad_bottom) >= window.dilated_h:
            return None
        if max(window.pad_left, window.pad_right) >= window.dilated_w:
            return None
        larger = replace(reader, attrs=replace(reader.attrs, window=window))
        # More padding may be more than the NPU has, and operators for the CPU are as the file has them.
        if not on_npu(graph, replace(larger, inputs=(source, *reader.inputs[1:]))):
            return None
        folded[index] = larger
    return folded or None


def _padded(window: Window, rows: _Amounts, columns: _Amounts) -> Window:
    return replace(
        window,
        pad_top=window.pad_top + rows[0],
        pad_bottom=window.pad_bottom + rows[1],
        pad_left=window.pad_left + columns[0],
        pad_right=window.pad_right + columns[1],
    )
