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
        if pad is None or pad.opaque is not None or not isinstance(pad.attrs, PadAttrs):
            continue
        folded = _folded(graph, draft, pad, pad.attrs, on_npu)
        if not isinstance(folded, str):
            for reader, operator in folded.items():
                draft.change(reader, operator)
            draft.bypass(index)
    return draft.finish()


def why_pad(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> str:
    """What keeps an understood PAD from being folded, in a sentence without a full stop."""
    pad = graph.operators[index]
    if not isinstance(pad.attrs, PadAttrs):
        raise AssertionError(f"{pad.kind} is no pad")
    found = _folded(graph, draft, pad, pad.attrs, on_npu)
    return found if isinstance(found, str) else "it becomes part of the convolutions that read it"


def _folded(graph: Graph, draft: Draft, pad: Operator, attrs: PadAttrs, on_npu: OnNpu) -> dict[int, Operator] | str:
    """The readers with larger windows, or what is in the way."""
    result, amounts = pad.outputs[0], attrs.paddings
    if pad.inputs[0] is None:
        return f"{pad.kind} has no input"
    if len(amounts) != 4:
        return f"it pads {len(amounts)} dimensions; a pad runs as part of the convolutions that read it, which have 4"
    if amounts[0] != (0, 0) or amounts[3] != (0, 0):
        what, (before, after) = ("channels", amounts[3]) if amounts[3] != (0, 0) else ("batches", amounts[0])
        return (
            f"it pads {what} by {before} and {after}; a pad runs as part of the convolutions that read it, which pad "
            f"height and width"
        )
    name = draft.tensors[result].name
    if draft.is_output(result):
        return f"its result '{name}' leaves the network; a pad runs as part of the convolutions that read it"
    if not same_values(draft.tensors[draft.resolve(pad.inputs[0])], draft.tensors[result]):
        return f"it changes the quantisation of '{name}'"
    return _fold_into_readers(graph, draft, result, amounts[1], amounts[2], on_npu)


def _fold_into_readers(
    graph: Graph, draft: Draft, tensor: int, rows: tuple[int, int], columns: tuple[int, int], on_npu: OnNpu
) -> dict[int, Operator] | str:
    folded: dict[int, Operator] = {}
    for index in draft.readers(tensor):
        reader = draft.operators[index]
        if reader is None:
            continue
        who = f"'{reader.name}' ({reader.kind})"
        if not isinstance(reader.attrs, ConvAttrs) or not on_npu(graph, reader):
            return f"{who} reads its result; only convolutions on the NPU take a pad into their windows"
        if [i for i, t in enumerate(reader.inputs) if t is not None and draft.resolve(t) == tensor] != [0]:
            return f"{who} reads its result as something else than its image"
        window = _padded(reader.attrs.window, rows, columns)
        for what, most, extent in (
            ("rows", max(window.pad_top, window.pad_bottom), window.dilated_h),
            ("columns", max(window.pad_left, window.pad_right), window.dilated_w),
        ):
            if most >= extent:
                return f"{who} would pad {most} {what} with a kernel of {extent}; a window may not lie in padding alone"
        folded[index] = replace(reader, attrs=replace(reader.attrs, window=window))
    return folded or "nobody reads its result"


def _padded(window: Window, rows: tuple[int, int], columns: tuple[int, int]) -> Window:
    return replace(
        window,
        pad_top=window.pad_top + rows[0],
        pad_bottom=window.pad_bottom + rows[1],
        pad_left=window.pad_left + columns[0],
        pad_right=window.pad_right + columns[1],
    )
