"""fold_pad: a PAD before convolutions becomes part of their windows.

PAD fills with the zero point, which is what a convolution's own padding reads as. Pools are another matter: an
average pool does not count its padding and a max pool's padding never wins, so a PAD before them stays.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import ConvAttrs, Graph, Operator, PadAttrs, Window
from .draft import Draft, OnNpu, same_values


def fold_pad(graph: Graph, on_npu: OnNpu) -> Graph:
    """Fold every PAD of height and width whose readers are all convolutions on the NPU with larger kernels."""
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
    if draft.is_output(result) or not same_values(draft.tensors[draft.resolve(pad.inputs[0])], draft.tensors[result]):
        return None
    return _fold_into_readers(graph, draft, result, amounts[1], amounts[2], on_npu)


def _fold_into_readers(
    graph: Graph, draft: Draft, tensor: int, rows: tuple[int, int], columns: tuple[int, int], on_npu: OnNpu
) -> dict[int, Operator] | None:
    folded: dict[int, Operator] = {}
    for index in draft.readers(tensor):
        reader = draft.operators[index]
        if reader is None:
            continue
        if not isinstance(reader.attrs, ConvAttrs) or not on_npu(graph, reader):
            return None
        if [i for i, t in enumerate(reader.inputs) if t is not None and draft.resolve(t) == tensor] != [0]:
            return None
        window = _padded(reader.attrs.window, rows, columns)
        # A window may not lie in padding alone.
        if max(window.pad_top, window.pad_bottom) >= window.dilated_h:
            return None
        if max(window.pad_left, window.pad_right) >= window.dilated_w:
            return None
        folded[index] = replace(reader, attrs=replace(reader.attrs, window=window))
    return folded or None


def _padded(window: Window, rows: tuple[int, int], columns: tuple[int, int]) -> Window:
    return replace(
        window,
        pad_top=window.pad_top + rows[0],
        pad_bottom=window.pad_bottom + rows[1],
        pad_left=window.pad_left + columns[0],
        pad_right=window.pad_right + columns[1],
    )
