"""fold_pad: a PAD before convolutions becomes part of their windows.

PAD fills with the zero point, which is what a convolution's own padding reads as. Pools are another matter: an
average pool does not count its padding and a max pool's padding never wins, so a PAD before them stays.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..ir import ConvAttrs, Graph, Operator, PadAttrs, Window
from .draft import Draft, OnNpu, same_values

_Amounts = tuple[int, int]
"""Rows above and below, or columns to the left and to the right."""


def fold_pad(graph: Graph, on_npu: OnNpu) -> Graph:
    """Fold every PAD of height and width whose readers are all convolutions that the NPU runs with larger windows.

    Where the convolutions see the padded tensor in another shape, as those of one dimension do, a RESHAPE is left.
    """
    draft = Draft(graph)
    # Last first: of two PADs in a row, the second must be gone before the first meets the convolution.
    for index in reversed(range(len(graph.operators))):
        pad = draft.operators[index]
        if pad is None or pad.opaque is not None or not isinstance(pad.attrs, PadAttrs) or pad.attrs.fill is not None:
            continue
        _fold(graph, draft, index, on_npu)
    return draft.finish()


def _fold(graph: Graph, draft: Draft, index: int, on_npu: OnNpu) -> None:
    """Remove a PAD or make it a RESHAPE, where it can become part of all its readers."""
    pad = graph.operators[index]
    if pad.inputs[0] is None:
        return
    source, result = draft.resolve(pad.inputs[0]), pad.outputs[0]
    before, after = draft.tensors[source], draft.tensors[result]
    # What reads a variable later reads another value, and the NPU has no other name for a constant's bytes.
    if draft.is_output(result) or draft.is_written_over(source) or before.is_constant:
        return
    if not same_values(before, after):
        return
    amounts = _amounts_seen(before.shape, pad.attributes(PadAttrs).paddings, after.shape)
    if amounts is None or len(amounts) != 4 or amounts[0] != (0, 0) or amounts[3] != (0, 0):
        return
    shape = tuple(extent - sum(pair) for extent, pair in zip(after.shape, amounts, strict=True))
    reshaped = replace(after, shape=shape)
    unpadded = replace(graph, tensors=(*graph.tensors[:result], reshaped, *graph.tensors[result + 1 :]))
    folded = _fold_into_readers(unpadded, draft, result, (amounts[1], amounts[2]), on_npu)
    if folded is None:
        return
    for reader, operator in folded.items():
        draft.change(reader, operator)
    if shape == before.shape:
        draft.bypass(index)
    else:
        draft.tensors[result] = reshaped
        draft.change(index, replace(pad, kind="RESHAPE", attrs=None, inputs=(source,)))


def _amounts_seen(
    before: tuple[int, ...], paddings: tuple[_Amounts, ...], seen: tuple[int, ...]
) -> tuple[_Amounts, ...] | None:
    """The padding of each axis of `seen`, another shape of a padded tensor; None if a padded axis is not in it.

    An axis is in it if it has the same extent and as many elements before it.
    """
    padded = tuple(extent + sum(pair) for extent, pair in zip(before, paddings, strict=True))
    found: list[_Amounts] = [(0, 0)] * len(seen)
    for axis, pair in enumerate(paddings):
        if pair == (0, 0):
            continue
        ahead = math.prod(padded[:axis])
        same = (i for i, extent in enumerate(seen) if extent == padded[axis] and math.prod(seen[:i]) == ahead)
        place = next(same, None)
        if place is None:
            return None
        found[place] = pair
    return tuple(found)


def _fold_into_readers(
    unpadded: Graph, draft: Draft, tensor: int, amounts: tuple[_Amounts, _Amounts], on_npu: OnNpu
) -> dict[int, Operator] | None:
    """The readers with larger windows, None where the pad cannot become part of all of them.

    `unpadded` has the tensor as they then read it.
    """
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
        if not on_npu(unpadded, replace(larger, inputs=(tensor, *reader.inputs[1:]))):
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
