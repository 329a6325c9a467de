"""Forms of operators with weights or windows: pools, convolutions, dense layers.

Owns which of them are worth asking about. Prints nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ethoscade.ir import DType, Quantisation
from forms_sketch import ACTIVATIONS, SAME, SHAPES, VALID, Draw, Drawn, Shape, Sketch, default, rank_of

# Windows.


def extent(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Rows or columns that a window makes."""
    spans = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == SAME else (size - spans) // stride + 1


_WINDOWS: tuple[tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]], ...] = (
    # Rows and columns of the input, the kernel, the stride, the dilation.
    *(((12, 12), (k, k), (s, s), (1, 1)) for k in (1, 2, 3, 5, 8) for s in (1, 2, 3)),
    *(
        ((12, 12), (3, 3), stride, (1, 1))
        for stride in ((4, 4), (5, 5), (6, 6), (1, 4), (4, 1), (1, 6), (2, 3), (1, 8))
    ),
    *(((12, 12), (3, 3), (1, 1), dilation) for dilation in ((2, 2), (3, 3), (4, 4), (1, 2), (2, 1), (5, 1))),
    ((12, 12), (3, 3), (2, 2), (2, 2)),
    *(((12, 12), (12, 12), stride, (1, 1)) for stride in ((1, 1), (7, 9), (12, 12))),
    ((12, 12), (9, 9), (1, 1), (1, 1)),
    ((12, 12), (1, 7), (1, 1), (1, 1)),
    ((12, 12), (7, 1), (1, 1), (1, 1)),
    ((12, 12), (12, 1), (1, 1), (1, 1)),
    ((1, 64), (1, 9), (1, 4), (1, 1)),
    ((64, 1), (9, 1), (4, 1), (1, 1)),
    ((1, 60), (1, 10), (1, 10), (1, 1)),
    ((70, 70), (64, 64), (1, 1), (1, 1)),
    ((70, 4), (65, 1), (1, 1), (1, 1)),
    ((260, 4), (256, 1), (1, 1), (1, 1)),
    ((4, 4), (7, 7), (1, 1), (1, 1)),
    ((4, 4), (8, 8), (1, 1), (1, 1)),
    ((2, 2), (9, 9), (1, 1), (1, 1)),
    ((24, 24), (12, 12), (12, 12), (1, 1)),
)


@dataclass(frozen=True)
class Window:
    """A window over an image, in words and as options."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: int

    def __str__(self) -> str:
        dilated = "" if self.dilation == (1, 1) else f" dilation {self.dilation[0]}x{self.dilation[1]}"
        found = zip(("", "kernel ", "stride "), (self.size, self.kernel, self.stride), strict=True)
        return ", ".join(f"{w}{a}x{b}" for w, (a, b) in found) + dilated + (" SAME", " VALID")[self.padding]

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns of what it makes."""
        per_axis = zip(self.size, self.kernel, self.stride, self.dilation, strict=True)
        rows, columns = (extent(*axis, self.padding) for axis in per_axis)
        return rows, columns

    @property
    def fields(self) -> dict[str, object]:
        """The options."""
        return {"Padding": self.padding, "StrideH": self.stride[0], "StrideW": self.stride[1]}

    @property
    def dilated(self) -> dict[str, object]:
        """With dilation."""
        return self.fields | {"DilationHFactor": self.dilation[0], "DilationWFactor": self.dilation[1]}


def windows() -> Iterator[Window]:
    """All that make something."""
    for size, kernel, stride, dilation in _WINDOWS:
        for padding in (SAME, VALID):
            window = Window(size, kernel, stride, dilation, padding)
            if min(window.made) >= 1:
                yield window


def pools(kind: str, dtype: DType) -> Drawn:
    """AVERAGE_POOL_2D and MAX_POOL_2D."""

    def pool(w: Window, batch: int = 1, coarser: float = 1.0, code: int = 0) -> Draw:
        def draw(s: Sketch) -> None:
            fields = w.fields | {"FilterHeight": w.kernel[0], "FilterWidth": w.kernel[1]}
            made = s.tensor((batch, *w.made, 5), default(s.dtype, coarser))
            s.op(kind, [s.input((batch, *w.size, 5))], [made], **fields, FusedActivationFunction=code)

        return draw

    for window in windows():
        if window.dilation == (1, 1):
            yield str(window), pool(window)
    plain = Window((12, 12), (3, 3), (2, 2), (1, 1), SAME)
    yield "batch 2", pool(plain, 2)
    yield "batch 2, stride 6", pool(Window((12, 12), (3, 3), (6, 6), (1, 1), VALID), 2)
    yield "output twice as coarse", pool(plain, coarser=2.0)
    for name, code in ACTIVATIONS.items():
        yield f"fused {name}", pool(plain, code=code)


@dataclass(frozen=True)
class Weighted:
    """What a convolution has beside its window."""

    depth: int = 5
    channels: int = 6
    batch: int = 1
    activation: int = 0
    bias: DType | None = DType.INT32
    per_channel: bool = False
    constant: bool = True
    multiplier: int = 1
    groups: int = 1
    coarser: float = 16.0
    quantized_bias: bool = False


def weights_of(s: Sketch, shape: Shape, axis: int, w: Weighted) -> int:
    """Weights of 8 bits, with one scale or one for each output channel."""
    kind = DType.UINT8 if s.dtype is DType.UINT8 else DType.INT8
    count = shape[axis]
    scales = tuple(0.01 + 0.001 * n for n in range(count)) if w.per_channel else (0.01,)
    points = (0,) * len(scales) if kind is DType.INT8 else (117,)
    q = Quantisation(scales, points, axis if w.per_channel else None)
    return s.values(shape, q, kind) if w.constant else s.input(shape, q, kind)


def bias_of(s: Sketch, count: int, w: Weighted) -> list[int]:
    """The bias, if there is one, of the product of the scales; int64 for int16 unless `quantized_bias`."""
    if w.bias is None:
        return []
    kind = DType.INT64 if s.dtype is DType.INT16 and not w.quantized_bias else w.bias
    scale = default(s.dtype).scale
    scales = tuple(scale * (0.01 + 0.001 * n) for n in range(count)) if w.per_channel else (scale * 0.01,)
    q = Quantisation(scales, (0,) * len(scales), 0 if w.per_channel else None)
    return [s.values((count,), q, kind)]


def convolution(kind: str, window: Window, w: Weighted) -> Draw:
    """CONV_2D or DEPTHWISE_CONV_2D."""

    def draw(s: Sketch) -> None:
        x = s.input((w.batch, *window.size, w.depth))
        fields = dict(window.dilated)
        if kind == "CONV_2D":
            shape, axis, count = (w.channels, *window.kernel, w.depth // w.groups), 0, w.channels
        else:
            count, axis = w.depth * w.multiplier, 3
            shape = (1, *window.kernel, count)
            fields["DepthMultiplier"] = w.multiplier
        if w.quantized_bias and kind == "CONV_2D":
            fields["QuantizedBiasType"] = 2
        made = s.tensor((w.batch, *window.made, count), default(s.dtype, w.coarser))
        inputs = [x, weights_of(s, shape, axis, w), *bias_of(s, count, w)]
        s.op(kind, inputs, [made], **fields, FusedActivationFunction=w.activation)

    return draw


def _particular(dtype: DType) -> Iterator[tuple[str, Weighted]]:
    """What convolutions and matrices have in many ways, each one by itself."""
    yield "batch 2", Weighted(batch=2)
    yield "no bias", Weighted(bias=None)
    if dtype is not DType.UINT8:
        yield "one scale for each channel", Weighted(per_channel=True)
    if dtype is DType.INT16:
        yield "a bias of int32", Weighted(quantized_bias=True)
    yield "weights that are an input", Weighted(constant=False)
    yield "no weights that are constant, no bias", Weighted(constant=False, bias=None)
    for name, code in ACTIVATIONS.items():
        yield f"fused {name}", Weighted(activation=code)
    yield "a finer output", Weighted(coarser=0.01)


def convolutions(kind: str, dtype: DType) -> Drawn:
    """CONV_2D or DEPTHWISE_CONV_2D in all windows, then with all else."""
    plain = Window((12, 12), (3, 3), (2, 2), (1, 1), SAME)
    for window in windows():
        yield str(window), convolution(kind, window, Weighted())
    for words, w in _particular(dtype):
        yield words, convolution(kind, plain, w)
    if kind == "CONV_2D":
        yield "groups of channels", convolution(kind, plain, Weighted(depth=6, groups=3))
        yield "groups, batch 2", convolution(kind, plain, Weighted(depth=6, groups=3, batch=2))
    else:
        for depth, multiplier in ((1, 4), (5, 2), (1, 33)):
            words = f"{depth} channels, multiplier {multiplier}"
            yield words, convolution(kind, plain, Weighted(depth=depth, multiplier=multiplier))


def transposed(dtype: DType) -> Drawn:
    """TRANSPOSE_CONV."""

    def conv(
        size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], padding: int, w: Weighted
    ) -> Draw:
        def draw(s: Sketch) -> None:
            per_axis = zip(size, kernel, stride, strict=True)
            made = (n * step + (max(k - step, 0) if padding else 0) for n, k, step in per_axis)
            target = (w.batch, *made, w.channels)
            given = [s.numbers(target), weights_of(s, (w.channels, *kernel, w.depth), 0, w)]
            inputs = [*given, s.input((w.batch, *size, w.depth)), *bias_of(s, w.channels, w)]
            fields = Window(size, kernel, stride, (1, 1), padding).fields
            made_index = s.tensor(target, default(s.dtype, w.coarser))
            s.op("TRANSPOSE_CONV", inputs, [made_index], **fields, FusedActivationFunction=w.activation)

        return draw

    for padding, (size, kernel) in itertools.product(
        (SAME, VALID), (((4, 5), (2, 2)), ((4, 5), (3, 3)), ((4, 5), (4, 4)), ((4, 5), (1, 1)), ((4, 5), (5, 3)))
    ):
        for stride in ((1, 1), (2, 2), (3, 3), (2, 1), (1, 2), (4, 4)):
            words = f"kernel {kernel[0]}x{kernel[1]}, stride {stride[0]}x{stride[1]} {('SAME', 'VALID')[padding]}"
            yield words, conv(size, kernel, stride, padding, Weighted())
    for words, axes in (("one row", ((1, 5), (1, 3), (1, 2))), ("one column", ((5, 1), (3, 1), (2, 1)))):
        for padding in (SAME, VALID):
            yield f"{words} {('SAME', 'VALID')[padding]}", conv(*axes, padding, Weighted())
    for words, w in _particular(dtype):
        yield words, conv((4, 5), (3, 3), (2, 2), SAME, w)


def dense(dtype: DType) -> Drawn:
    """FULLY_CONNECTED."""

    def connect(shape: Shape, inputs: int, keep: bool, w: Weighted) -> Draw:
        def draw(s: Sketch) -> None:
            x = s.input(shape)
            rows = math.prod(shape) // inputs
            made = (*shape[:-1], w.channels) if keep else (rows, w.channels)
            read = [x, weights_of(s, (w.channels, inputs), 0, w), *bias_of(s, w.channels, w)]
            fields: dict[str, object] = {"KeepNumDims": keep, "FusedActivationFunction": w.activation}
            if w.quantized_bias:
                fields["QuantizedBiasType"] = 2
            s.op("FULLY_CONNECTED", read, [s.tensor(made, default(s.dtype, w.coarser))], **fields)

        return draw

    for shape in SHAPES:
        for keep in (False, True):
            yield f"{rank_of(shape)}{', dimensions kept' if keep else ''}", connect(shape, shape[-1], keep, Weighted())
        if len(shape) > 2:
            yield f"{rank_of(shape)}, rows of more axes", connect(shape, math.prod(shape[1:]), False, Weighted())
    for words, w in _particular(dtype):
        yield words, connect((3, 7), 7, False, w)
        yield f"{words}, one row", connect((1, 7), 7, False, w)
