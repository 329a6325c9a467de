"""One-operator models of each kind that Vela has on Ethos-U55 and U65, of each type, in every form worth asking about.

Owns the table of forms by kind. Tensors are small, so that both compilers answer at once. It does not know who takes
what; `vela_forms` asks. Prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import forms_elements as of_elements
import forms_moves as moving
import forms_windows as windowed
from ethoscade.ir import DType
from forms_sketch import TYPES, Drawn, Form, Sketch

__all__ = ["KINDS", "TYPES", "Form", "forms"]

Family = Callable[[DType], Drawn]


def _of(kinds: Sequence[str], family: Callable[[str, DType], Drawn]) -> dict[str, Family]:
    return {kind: lambda dtype, kind=kind: family(kind, dtype) for kind in kinds}  # type: ignore[misc]


FAMILIES: Mapping[str, Family] = {
    **_of(of_elements.FUNCTIONS, of_elements.elementwise),
    **_of(("ADD", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB"), of_elements.binary),
    **_of(("AVERAGE_POOL_2D", "MAX_POOL_2D"), windowed.pools),
    **_of(("CONV_2D", "DEPTHWISE_CONV_2D"), windowed.convolutions),
    **_of(("MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"), of_elements.reductions),
    **_of(("SPLIT", "SPLIT_V", "UNPACK"), moving.splits),
    **_of(("MIRROR_PAD", "PAD", "PADV2"), moving.pads),
    **_of(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), moving.reshapes),
    **_of(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), moving.resizes),
    "ARG_MAX": of_elements.arg_max,
    "BATCH_MATMUL": of_elements.matrices,
    "CONCATENATION": moving.concatenation,
    "FULLY_CONNECTED": windowed.dense,
    "PACK": moving.pack,
    "QUANTIZE": of_elements.quantize,
    "REVERSE_V2": moving.reversals,
    "SLICE": moving.slices,
    "SOFTMAX": of_elements.softmax,
    "STRIDED_SLICE": moving.strided_slices,
    "TILE": moving.tiles,
    "TRANSPOSE": moving.transposes,
    "TRANSPOSE_CONV": windowed.transposed,
}
"""Forms by kind; UNIDIRECTIONAL_SEQUENCE_LSTM has its own."""

KINDS = tuple(sorted((*FAMILIES, "UNIDIRECTIONAL_SEQUENCE_LSTM")))


def forms(kind: str, dtype: DType) -> Iterator[Form]:
    """All forms of a kind of one type."""
    if kind not in FAMILIES:
        for words, model in of_elements.lstms(dtype):
            yield Form(kind, dtype, words, model)
        return
    for words, draw in FAMILIES[kind](dtype):
        sketch = Sketch(dtype)
        draw(sketch)
        yield Form(kind, dtype, words, sketch.build())
