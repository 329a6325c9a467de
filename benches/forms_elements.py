"""Forms of operators that look at elements, or at rows of them: functions, operands, reductions, products, LSTMs.

Owns which of them are worth asking about. Prints nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from ethoscade.ir import DType, Quantisation
from ethoscade.testing import ModelBuilder
from forms_sketch import ACTIVATIONS, IMAGE, SHAPES, TYPES, Draw, Drawn, Shape, Sketch, default, rank_of

# Functions of one element.

_FIXED = {
    "LOGISTIC": {
        DType.INT8: Quantisation((1 / 256,), (-128,)),
        DType.UINT8: Quantisation((1 / 256,), (0,)),
        DType.INT16: Quantisation((1 / 32768,), (0,)),
    },
    "TANH": {
        DType.INT8: Quantisation((1 / 128,), (0,)),
        DType.UINT8: Quantisation((1 / 128,), (128,)),
        DType.INT16: Quantisation((1 / 32768,), (0,)),
    },
}
FUNCTIONS = (
    *("ABS", "ELU", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "NEG"),
    *("RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RSQRT", "TANH"),
)


def _function(kind: str, shape: Shape, coarser: float, given: Quantisation | None = None, **fields: object) -> Draw:
    def draw(s: Sketch) -> None:
        lowest = {DType.INT8: -128, DType.UINT8: 0}.get(s.dtype, 0)
        positive = Quantisation(default(s.dtype).scales, (lowest,)) if kind == "RSQRT" else None
        made = given or _FIXED.get(kind, {}).get(s.dtype) or default(s.dtype, coarser)
        s.op(kind, [s.input(shape, positive)], [s.tensor(shape, made)], **fields)

    return draw


def elementwise(kind: str, dtype: DType) -> Drawn:
    """A function of each element, of all ranks."""
    options: dict[str, dict[str, Any]] = {"": {}}
    if kind == "LEAKY_RELU":
        options = {f", alpha {alpha}": {"Alpha": alpha} for alpha in (0.1, 1.5, 0.0, -0.2, 1.0)}
    if kind == "GELU":
        options = {f", approximate {way}": {"Approximate": way} for way in (False, True)}
    for words, fields in options.items():
        for shape in SHAPES:
            yield f"{rank_of(shape)}{words}", _function(kind, shape, 1.0, **fields)
        for coarser in (0.25, 4.0):
            yield f"output {coarser} as coarse{words}", _function(kind, IMAGE, coarser, **fields)
    if dtype in (DType.INT8, DType.UINT8):
        yield "another zero point", _function(kind, IMAGE, 1.0, Quantisation((1 / 64,), (33,)))


def quantize(dtype: DType) -> Drawn:
    """QUANTIZE of `dtype` to every type."""
    for other, shape in itertools.product(TYPES, SHAPES):

        def draw(s: Sketch, other: DType = other, shape: Shape = shape) -> None:
            s.op("QUANTIZE", [s.input(shape)], [s.tensor(shape, default(other, 1.3), other)])

        yield f"to {other.value}, {rank_of(shape)}", draw


# Functions of two.

_PAIRS: tuple[tuple[Shape, Shape], ...] = (
    *((shape, shape) for shape in SHAPES),
    *((IMAGE, other) for other in ((), (1,), (7,), (1, 1, 1, 1), (1, 1, 1, 7), (5, 1), (4, 1, 1), (4, 1, 7), (5, 7))),
    *(((3, 7), other) for other in ((), (7,), (3, 1), (1, 7), (1, 1))),
    *(((2, 3, 7), other) for other in ((7,), (2, 1, 1), (1, 3, 1), (3, 7), (2, 1, 7), (2, 3, 1))),
    *(((2, 4, 5, 7), other) for other in ((1, 4, 5, 7), (2, 1, 1, 7), (2, 1, 1, 1), (7,))),
    *(((1, 2, 3, 4, 5), other) for other in ((5,), (1, 2, 1, 1, 1), (3, 1, 5), (1, 1, 3, 1, 1))),
    ((1, 4, 1, 7), (1, 1, 5, 7)),
    ((1, 1, 1, 7), (1, 4, 5, 1)),
    ((4, 1), (1, 7)),
    ((2, 2, 3, 4, 5), (1, 2, 1, 4, 1)),
    ((2, 1, 5, 7), (1, 4, 5, 1)),
)
_COMPARING = frozenset({"MAXIMUM", "MINIMUM"})


def _pair(
    kind: str, a: Shape, b: Shape, constant: int | None = None, coarser: float | None = None, **fields: object
) -> Draw:
    """`constant` is the place of the operand that is one; `coarser` quantises all three tensors differently."""

    def draw(s: Sketch) -> None:
        second = DType.INT8 if kind == "PRELU" and s.dtype is DType.INT16 else s.dtype
        finer = 0.75 if coarser and kind not in _COMPARING else 1.0
        kinds = ((a, default(s.dtype), s.dtype), (b, default(second, finer), second))
        read = [(s.values if place == constant else s.input)(*one) for place, one in enumerate(kinds)]
        made = default(s.dtype, coarser if coarser is not None else 1.0)
        options = dict(fields)
        if kind in ("ADD", "SUB") and s.dtype is DType.INT16:
            options.setdefault("PotScaleInt16", False)
        s.op(kind, read, [s.tensor(np.broadcast_shapes(a, b), made)], **options)

    return draw


def binary(kind: str, dtype: DType) -> Drawn:
    """Two operands: repeated on either side, constant on either side, with activations, of other scales."""
    for a, b in _PAIRS:
        yield f"{rank_of(a)} and {rank_of(b)}", _pair(kind, a, b, coarser=None if kind in _COMPARING else 2.0)
        if kind == "PRELU":
            yield f"{rank_of(a)} and constant {rank_of(b)}", _pair(kind, a, b, 1, 2.0)
            continue
        if a != b:
            yield f"{rank_of(b)} and {rank_of(a)}", _pair(kind, b, a, coarser=None if kind in _COMPARING else 2.0)
        for constant, (first, second) in enumerate(((b, a), (a, b))):
            words = f"constant {rank_of(b)} as operand {constant}"
            yield f"{words} with {rank_of(a)}", _pair(kind, first, second, constant)
    yield "one quantisation", _pair(kind, IMAGE, IMAGE)
    for coarser in (0.25, 4.0):
        yield f"output {coarser} as coarse", _pair(kind, IMAGE, IMAGE, coarser=coarser)
    if kind in ("ADD", "SUB", "MUL"):
        for name, code in ACTIVATIONS.items():
            yield f"fused {name}", _pair(kind, IMAGE, IMAGE, FusedActivationFunction=code)
    if kind in ("ADD", "SUB") and dtype is DType.INT16:
        yield "operands shifted to each other", _pair(kind, IMAGE, IMAGE, PotScaleInt16=True)
        yield "operands shifted, output 2 as coarse", _pair(kind, IMAGE, IMAGE, coarser=2.0, PotScaleInt16=True)
    if dtype is DType.INT32:
        yield "no quantisation", _plain_pair(kind, IMAGE, None)
        yield "no quantisation, constant per channel", _plain_pair(kind, (7,), 1)


def _plain_pair(kind: str, second: Shape, constant: int | None) -> Draw:
    def draw(s: Sketch) -> None:
        a, b = s.plain(IMAGE, s.dtype), s.numbers(np.full(second, 3)) if constant else s.plain(second, s.dtype)
        s._inputs.extend([a] if constant else [a, b])
        s.op(kind, [a, b], [s.plain(IMAGE, s.dtype)])

    return draw


# Reductions and rows.


def _subsets(rank: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(range(rank), n) for n in range(1, rank + 1))


def reductions(kind: str, dtype: DType) -> Drawn:
    """Over every set of axes, kept and not."""

    def reduce(shape: Shape, axes: tuple[int, ...] | int, keep: bool, coarser: float = 1.0) -> Draw:
        def draw(s: Sketch) -> None:
            over = {a % len(shape) for a in (axes if isinstance(axes, tuple) else (axes,))}
            made = tuple(1 if i in over else n for i, n in enumerate(shape) if keep or i not in over)
            inputs = [s.input(shape), s.numbers(axes)]
            s.op(kind, inputs, [s.tensor(made, default(s.dtype, coarser))], KeepDims=keep)

        return draw

    for shape, keep in itertools.product(SHAPES, (True, False)):
        for axes in _subsets(len(shape)):
            yield f"{rank_of(shape)} over {axes}{', kept' if keep else ''}", reduce(shape, axes, keep)
    yield "a scalar axis", reduce(IMAGE, 1, True)
    yield "negative axes", reduce(IMAGE, (-3, -2), True)
    yield "over no axis", reduce(IMAGE, (), True)
    yield "output 4 as coarse", reduce(IMAGE, (1, 2), True, 4.0)
    yield "output 0.25 as coarse", reduce(IMAGE, (1, 2), True, 0.25)
    for size in ((1, 64, 64, 3), (1, 65, 65, 3), (1, 2, 4096, 3), (1, 2, 4097, 3), (1, 300, 2, 3), (1, 256, 256, 1)):
        yield f"{rank_of(size)} over (1, 2), kept", reduce(size, (1, 2), True)
    for size in ((1, 1, 2, 4096), (1, 1, 1, 4097)):
        yield f"{rank_of(size)} over (3,), kept", reduce(size, (3,), True)


def arg_max(dtype: DType) -> Drawn:
    """ARG_MAX along each axis."""

    def largest(shape: Shape, axis: int, made: DType) -> Draw:
        def draw(s: Sketch) -> None:
            place = axis % len(shape)
            inputs = [s.input(shape), s.numbers(axis)]
            outputs = [s.plain((*shape[:place], *shape[place + 1 :]), made)]
            s.op("ARG_MAX", inputs, outputs, OutputType=2 if made is DType.INT32 else 4)

        return draw

    for shape in SHAPES:
        for axis in range(len(shape)):
            yield f"{rank_of(shape)}, axis {axis}", largest(shape, axis, DType.INT32)
    yield "axis -1", largest(IMAGE, -1, DType.INT32)
    yield "to int64", largest(IMAGE, 3, DType.INT64)
    for depth in (1, 2, 16, 21, 127, 128, 129, 1001):
        yield f"of {depth}", largest((1, 4, 5, depth), 3, DType.INT32)
        yield f"of {depth}, one row", largest((1, depth), 1, DType.INT32)


def softmax(dtype: DType) -> Drawn:
    """SOFTMAX."""

    def soft(shape: Shape, beta: float = 1.0) -> Draw:
        def draw(s: Sketch) -> None:
            made = _FIXED["LOGISTIC"].get(s.dtype)
            s.op("SOFTMAX", [s.input(shape)], [s.tensor(shape, made)], Beta=beta)

        return draw

    for shape in SHAPES:
        yield rank_of(shape), soft(shape)
    for beta in (0.25, 2.0):
        yield f"beta {beta}", soft(IMAGE, beta)
    for shape in ((1, 1), (1, 1000), (1, 4095), (1, 4096), (1, 10000), (1, 300, 300, 2), (3, 256, 256, 2)):
        yield rank_of(shape), soft(shape)


# Matrices.


def matrices(dtype: DType) -> Drawn:
    """BATCH_MATMUL."""

    def product(a: Shape, b: Shape, x: bool, y: bool, constant: int | None = None) -> Draw:
        def draw(s: Sketch) -> None:
            def turned(shape: Shape, swapped: bool) -> Shape:
                return (*shape[:-2], shape[-1], shape[-2]) if swapped else shape

            shapes = (turned(a, x), turned(b, y))
            read = [(s.values if i == constant else s.input)(shape) for i, shape in enumerate(shapes)]
            made = (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])
            s.op("BATCH_MATMUL", read, [s.tensor(made, default(s.dtype, 16.0))], AdjX=x, AdjY=y)

        return draw

    pairs: tuple[tuple[Shape, Shape], ...] = (
        ((3, 7), (7, 5)),
        ((2, 3, 7), (2, 7, 5)),
        ((2, 3, 7), (1, 7, 5)),
        ((1, 3, 7), (2, 7, 5)),
        ((2, 3, 7), (7, 5)),
        ((1, 2, 3, 7), (1, 2, 7, 5)),
        ((2, 2, 3, 7), (2, 2, 7, 5)),
        ((2, 1, 3, 7), (1, 2, 7, 5)),
        ((1, 2, 2, 3, 7), (1, 2, 2, 7, 5)),
        ((1, 300, 7), (1, 7, 5)),
        ((1, 3, 7), (1, 7, 300)),
        ((1, 300, 7), (1, 7, 300)),
        ((1, 1, 7), (1, 7, 5)),
    )
    for a, b in pairs:
        for x, y in itertools.product((False, True), repeat=2):
            words = f"{rank_of(a)} by {rank_of(b)}{' adj_x' if x else ''}{' adj_y' if y else ''}"
            yield words, product(a, b, x, y)
        for constant in (0, 1):
            yield f"{rank_of(a)} by {rank_of(b)}, operand {constant} constant", product(a, b, False, False, constant)


def lstms(dtype: DType) -> Iterator[tuple[str, bytes]]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, by the builder of networks."""
    if dtype not in (DType.INT8, DType.INT16):
        return
    for words, shape, options in (
        ("one batch", (1, 3, 5), {}),
        ("two batches", (2, 3, 5), {}),
        ("time major", (3, 1, 5), {"time_major": True}),
        ("time major, two batches", (3, 2, 5), {"time_major": True}),
        ("a clipped cell", (1, 3, 5), {"cell_clip": 3.0}),
        ("one step", (1, 1, 5), {}),
        ("another scale of the cell", (1, 3, 5), {"cell_scale": 2.0**-13}),
    ):
        b = ModelBuilder(dtype=dtype)
        b.lstm(b.input(shape), 6, **options)  # type: ignore[arg-type]
        yield words, b.build()
