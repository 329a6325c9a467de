"""Networks of one operator each, for every operator that Vela lowers to NPU commands: types, shapes, quantisations.

Owns the cases; `zoo_builder` writes them down. One file holds all cases of a kind and type, as branches with inputs and
an output of their own. Nothing here knows what becomes of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.testing.flatfile import TensorRecord
from zoo_builder import HIGH, I8, I16, I32, I64, LOW, NONE, PLAIN, RELU, RELU6, RELU_N1, SAME, U8, VALID, Shape, Zoo


def _unary(shapes: Sequence[Shape], options: str | None = None, fields: Mapping[str, object] | None = None, **kw):
    """Elementwise functions of one operand, with plain and extreme quantisations; `out` fixes the output's."""
    out = kw.get("out")

    def build(zoo: Zoo) -> None:
        for shape in shapes:
            for before in kw.get("ins", (PLAIN, LOW, HIGH)):
                after = out[zoo.dtype] if out else kw.get("after", PLAIN)[zoo.dtype]
                after = before[zoo.dtype] if kw.get("keep") else after
                zoo.op([zoo.input(shape, before[zoo.dtype])], shape, after, options=options, fields=fields)

    return build


BROADCASTS = (
    ((1, 7, 5, 19), (1, 7, 5, 19)),
    ((1, 4, 6, 16), (1, 1, 1, 1)),
    ((1, 5, 3, 33), (1, 1, 1, 33)),
    ((1, 5, 3, 8), (1, 5, 1, 8)),
    ((1, 1, 9, 5), (1, 6, 9, 5)),
    ((2, 13), (2, 13)),
    ((1, 6, 7, 1), (1, 6, 7, 12)),
)


def _binary(options: str | None, *, activations: Sequence[int] = (NONE,), same: bool = False):
    def build(zoo: Zoo) -> None:
        fields = lambda a: {"FusedActivationFunction": a} if len(activations) > 1 else {}  # noqa: E731
        wide = zoo.dtype is I32
        for left, right in BROADCASTS:
            shape = np.broadcast_shapes(left, right)
            zoo.op([zoo.input(left), zoo.input(right)], shape, options=options, fields=fields(NONE))
        shape, other = (1, 6, 5, 11), (1, 1, 1, 11)
        for a, b, c in () if wide else ((LOW, PLAIN, LOW), (HIGH, PLAIN, PLAIN), (PLAIN, HIGH, LOW), (LOW, LOW, HIGH)):
            pick = [PLAIN if same else q for q in (a, b, c)]
            left, right = zoo.input(shape, pick[0][zoo.dtype]), zoo.input(other, pick[1][zoo.dtype])
            zoo.op([left, right], shape, pick[2][zoo.dtype], options=options, fields=fields(NONE))
        for activation in () if wide else activations[1:]:
            zoo.op([zoo.input(shape), zoo.input(shape)], shape, options=options, fields=fields(activation))
        if not wide:
            zoo.op([zoo.input(shape), zoo.constant((1,), PLAIN[zoo.dtype])], shape, options=options, case="constant")
            zoo.op([zoo.constant(other, PLAIN[zoo.dtype]), zoo.input(shape)], shape, options=options, case="reversed")

    return build


def _scaled(options: str):
    """32-bit operands whose tensors carry scales."""

    def build(zoo: Zoo) -> None:
        for left, right in BROADCASTS[:3]:
            for scales in ((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (0.5, 0.25, 1.0)):
                a, b, c = ((scale, 0) for scale in scales)
                shape = np.broadcast_shapes(left, right)
                zoo.op([zoo.input(left, a), zoo.input(right, b)], shape, c, options=options, case=f"scales {scales}")

    return build


def _size(n: int, kernel: int, stride: int, padding: int) -> int:
    return -(-n // stride) if padding == SAME else (n - kernel) // stride + 1


def _pool(zoo: Zoo) -> None:
    for shape, (kh, kw), (sh, sw), padding, activation in (
        ((1, 9, 7, 5), (2, 2), (2, 2), VALID, NONE),
        ((1, 9, 7, 21), (3, 3), (1, 2), SAME, RELU),
        ((1, 8, 8, 16), (8, 8), (1, 1), VALID, NONE),
        ((1, 12, 5, 3), (5, 1), (3, 1), SAME, NONE),
        ((1, 6, 6, 8), (1, 1), (1, 1), VALID, RELU6),
    ):
        out = (1, _size(shape[1], kh, sh, padding), _size(shape[2], kw, sw, padding), shape[3])
        fields = {"Padding": padding, "StrideH": sh, "StrideW": sw, "FilterHeight": kh, "FilterWidth": kw}
        fields["FusedActivationFunction"] = activation
        zoo.op([zoo.input(shape)], out, options="Pool2DOptions", fields=fields)


def _weights(zoo: Zoo, shape: Shape, axis: int, channels: int) -> tuple[int, np.ndarray]:
    if zoo.dtype is U8:
        return zoo.constant(shape, (0.02, 120), U8), np.full(channels, 0.02)
    scales = np.float32(0.003) * (1 + np.arange(channels, dtype=np.float32) % 5)
    data = zoo.rng.integers(-127, 128, shape).astype(np.int8)
    quantisation = Quantisation(tuple(float(s) for s in scales), (0,) * channels, axis)
    return zoo.tensor(shape, quantisation, I8, data), scales


def _bias(zoo: Zoo, scales: np.ndarray, x_scale: float) -> int:
    data = zoo.rng.integers(-3000, 3000, scales.size)
    products = tuple(float(np.float32(x_scale) * np.float32(s)) for s in scales)
    kind = I64 if zoo.dtype is I16 else I32
    if zoo.dtype is U8:
        products = products[:1]
    quantisation = Quantisation(products, (0,) * len(products), None if len(products) == 1 else 0)
    return zoo.tensor((scales.size,), quantisation, kind, data.astype(kind.numpy))


def _conv(depthwise: bool):
    def build(zoo: Zoo) -> None:
        out_scale = {I8: (0.4, -7), U8: (1.4, 120), I16: (0.004, 0)}[zoo.dtype]
        for shape, channels, (kh, kw), stride, dilation, padding, activation in (
            ((1, 7, 9, 3), 5, (3, 3), 1, 1, SAME, NONE),
            ((1, 8, 5, 33), 17, (1, 1), 1, 1, VALID, RELU),
            ((1, 11, 10, 4), 12, (3, 2), 2, 1, SAME, NONE),
            ((1, 12, 12, 8), 8, (3, 3), 1, 2, SAME, RELU6),
            ((1, 14, 13, 2), 9, (9, 11), 1, 1, VALID, NONE),
            ((1, 10, 10, 16), 40, (5, 5), 3, 1, VALID, NONE),
        ):
            if depthwise:
                channels = shape[3] * (2 if shape[3] == 3 else 1)
                if shape[3] == 3:
                    shape, channels = (1, 7, 9, 1), 6
                weight_shape, axis = (1, kh, kw, channels), 3
            else:
                weight_shape, axis = (channels, kh, kw, shape[3]), 0
            x = zoo.input(shape)
            weights, scales = _weights(zoo, weight_shape, axis, channels)
            bias = _bias(zoo, scales, PLAIN[zoo.dtype][0])
            size = [(k - 1) * dilation + 1 for k in (kh, kw)]
            out = (1, *(_size(n, k, stride, padding) for n, k in zip(shape[1:3], size, strict=True)), channels)
            fields = {"Padding": padding, "StrideH": stride, "StrideW": stride, "FusedActivationFunction": activation}
            fields |= {"DilationHFactor": dilation, "DilationWFactor": dilation}
            name = "Conv2DOptions"
            if depthwise:
                fields["DepthMultiplier"], name = channels // shape[3], "DepthwiseConv2DOptions"
            zoo.op([x, weights, bias], out, out_scale, options=name, fields=fields)

    return build


def _transpose_conv(zoo: Zoo) -> None:
    for shape, channels, kernel, padding in (((1, 5, 4, 7), 6, 3, SAME), ((1, 3, 6, 16), 9, 2, VALID)):
        weights, scales = _weights(zoo, (channels, kernel, kernel, shape[3]), 0, channels)
        grow = 0 if padding == SAME else max(0, kernel - 2)
        out = (1, shape[1] * 2 + grow, shape[2] * 2 + grow, channels)
        bias = _bias(zoo, scales, PLAIN[zoo.dtype][0])
        fields = {"Padding": padding, "StrideH": 2, "StrideW": 2}
        after = {I8: (0.4, -7), U8: (1.4, 120), I16: (0.004, 0)}[zoo.dtype]
        inputs = [zoo.integers(out), weights, zoo.input(shape), bias]
        zoo.op(inputs, out, after, options="TransposeConvOptions", fields=fields)


def _fully_connected(zoo: Zoo) -> None:
    for batch, inputs, outputs, activation in ((1, 40, 12, NONE), (1, 7, 3, RELU), (3, 130, 33, NONE)):
        kind = U8 if zoo.dtype is U8 else I8
        weights = zoo.constant((outputs, inputs), (0.02, 120) if kind is U8 else (0.01, 0), kind)
        bias = _bias(zoo, np.full(outputs, 0.02 if kind is U8 else 0.01), PLAIN[zoo.dtype][0])
        one = zoo.tensors[bias]
        scale = one.quantisation.scales[:1] if one.quantisation else (1.0,)
        zoo.tensors[bias] = TensorRecord(one.name, one.shape, one.dtype, Quantisation(scale, (0,)), one.data)
        after = {I8: (0.4, -7), U8: (1.4, 120), I16: (0.004, 0)}[zoo.dtype]
        fields = {"FusedActivationFunction": activation}
        inputs_ = [zoo.input((batch, inputs)), weights, bias]
        zoo.op(inputs_, (batch, outputs), after, options="FullyConnectedOptions", fields=fields)


def _reduce(axes_list: Sequence[tuple[int, ...]], *, same: bool = False):
    def build(zoo: Zoo) -> None:
        for axes in axes_list:
            shape = (1, 7, 6, 13)
            for keep in (True, False):
                out = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
                fields = {"KeepDims": keep}
                after = PLAIN if same else {I8: (0.043, -11), U8: (0.043, 140), I16: (0.00028, 0), I32: (1.0, 0)}
                zoo.op(
                    [zoo.input(shape), zoo.integers(axes)],
                    out,
                    after[zoo.dtype],
                    options="ReducerOptions",
                    fields=fields,
                )

    return build


def _concatenation(zoo: Zoo) -> None:
    for axis, shapes in (
        (3, ((1, 5, 4, 7), (1, 5, 4, 16), (1, 5, 4, 1))),
        (1, ((1, 2, 4, 19), (1, 3, 4, 19))),
        (2, ((1, 3, 5, 4),) * 2),
    ):
        out = list(shapes[0])
        out[axis] = sum(shape[axis] for shape in shapes)
        inputs = [zoo.input(shape) for shape in shapes]
        zoo.op(
            inputs, tuple(out), options="ConcatenationOptions", fields={"Axis": axis, "FusedActivationFunction": NONE}
        )


def _pack(zoo: Zoo) -> None:
    for axis, shape in ((0, (4, 5)), (1, (3, 7)), (2, (3, 9))):
        inputs = [zoo.input(shape) for _ in range(3)]
        out = (*shape[:axis], 3, *shape[axis:])
        zoo.op(inputs, out, options="PackOptions", fields={"Axis": axis, "ValuesCount": 3})


def _unpack(zoo: Zoo) -> None:
    for axis, shape in ((0, (2, 4, 5)), (1, (3, 2, 7))):
        out = tuple(n for i, n in enumerate(shape) if i != axis)
        zoo.op(
            [zoo.input(shape)], (out,) * shape[axis], options="UnpackOptions", fields={"Axis": axis, "Num": shape[axis]}
        )


def _split(zoo: Zoo) -> None:
    for axis, shape in ((3, (1, 3, 4, 18)), (1, (1, 6, 4, 5))):
        out = tuple(n // 3 if i == axis else n for i, n in enumerate(shape))
        zoo.op([zoo.integers(axis), zoo.input(shape)], (out,) * 3, options="SplitOptions", fields={"NumSplits": 3})


def _split_v(zoo: Zoo) -> None:
    shape, sizes = (1, 3, 4, 20), (3, 16, 1)
    outs = tuple((1, 3, 4, n) for n in sizes)
    zoo.op(
        [zoo.input(shape), zoo.integers(sizes), zoo.integers(3)], outs, options="SplitVOptions", fields={"NumSplits": 3}
    )


def _pad(value: bool):
    def build(zoo: Zoo) -> None:
        for pads in ([[0, 0], [1, 2], [3, 0], [0, 0]], [[0, 0], [0, 1], [0, 0], [2, 3]]):
            shape = (1, 5, 4, 6)
            out = tuple(n + sum(p) for n, p in zip(shape, pads, strict=True))
            extra = [zoo.tensor((1,), PLAIN[zoo.dtype], None, np.array([9], zoo.dtype.numpy))] if value else []
            zoo.op(
                [zoo.input(shape), zoo.integers(pads), *extra], out, options="PadV2Options" if value else "PadOptions"
            )

    return build


def _mirror_pad(zoo: Zoo) -> None:
    for mode in (0, 1):
        pads = [[0, 0], [1, 1], [1, 1], [0, 0]]
        fields = {"Mode": mode}
        zoo.op([zoo.input((1, 5, 4, 6)), zoo.integers(pads)], (1, 7, 6, 6), options="MirrorPadOptions", fields=fields)


def _shape_only(
    options: str | None, make: Callable[[Zoo, int], tuple[list[int], Shape, dict[str, object]]], shapes: Sequence[Shape]
):
    def build(zoo: Zoo) -> None:
        for shape in shapes:
            x = zoo.input(shape)
            extra, out, fields = make(zoo, x)
            zoo.op([x, *extra], out, options=options, fields=fields)

    return build


def _strided_slice(zoo: Zoo) -> None:
    for begin, end, step in (((0, 1, 0, 2), (1, 7, 6, 11), (1, 2, 3, 1)), ((0, 0, 1, 0), (1, 8, 5, 16), (1, 1, 1, 1))):
        shape = (1, 8, 6, 16)
        out = tuple(-(-(e - b) // s) for b, e, s in zip(begin, end, step, strict=True))
        zoo.op([zoo.input(shape), *(zoo.integers(v) for v in (begin, end, step))], out, options="StridedSliceOptions")


def _resize(options: str, modes: Sequence[tuple[bool, bool]]):
    def build(zoo: Zoo) -> None:
        for align, half in modes:
            for shape in ((1, 4, 5, 6), (1, 3, 3, 17)):
                for factor in (2, 4):
                    out = tuple(n * factor - (factor - 1 if align else 0) for n in shape[1:3])
                    fields = {"AlignCorners": align, "HalfPixelCenters": half}
                    inputs = [zoo.input(shape), zoo.integers(out)]
                    zoo.op(
                        inputs,
                        (1, *out, shape[3]),
                        options=options,
                        fields=fields,
                        case=f"{shape} x{factor} {align} {half}",
                    )

    return build


def _transpose(zoo: Zoo) -> None:
    for shape, order in (((5, 7), (1, 0)), ((1, 4, 6, 9), (0, 2, 1, 3)), ((1, 3, 5, 4), (0, 1, 3, 2))):
        zoo.op([zoo.input(shape), zoo.integers(order)], tuple(shape[i] for i in order), options="TransposeOptions")


def _batch_matmul(zoo: Zoo) -> None:
    after = {I8: (0.5, 4), I16: (0.001, 0)}[zoo.dtype]
    for a, b in (((1, 5, 9), (1, 9, 4)), ((2, 3, 16), (2, 16, 7))):
        inputs = [zoo.input(a), zoo.input(b)]
        zoo.op(inputs, (*a[:2], b[2]), after, options="BatchMatMulOptions", fields={"AdjX": False, "AdjY": False})


def _softmax(zoo: Zoo) -> None:
    after = {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)}[zoo.dtype]
    scale = {I8: 0.1, U8: 0.1, I16: 0.0003}[zoo.dtype]
    for shape, beta in (((1, 12), 1.0), ((3, 33), 0.5), ((1, 4, 5, 7), 1.0)):
        x = zoo.input(shape, (scale, PLAIN[zoo.dtype][1]))
        zoo.op([x], shape, after, options="SoftmaxOptions", fields={"Beta": beta})


def _prelu(zoo: Zoo) -> None:
    alpha = zoo.constant((1, 1, 7), (0.02, 5 if zoo.dtype is I8 else 100))
    zoo.op([zoo.input((1, 5, 6, 7)), alpha], (1, 5, 6, 7))


def _arg_max(zoo: Zoo) -> None:
    for shape in ((1, 5, 4, 10), (1, 3, 3, 127)):
        fields = {"OutputType": tflite.TensorType.INT32}
        zoo.op([zoo.input(shape), zoo.integers(3)], shape[:3], options="ArgMaxOptions", fields=fields, dtype=I32)


def _quantize(zoo: Zoo) -> None:
    shape = (1, 5, 6, 7)
    for other in {I8: (I8, U8, I16), U8: (I8, U8), I16: (I16, I8)}[zoo.dtype]:
        for before, after in ((PLAIN, LOW), (LOW, PLAIN)):
            zoo.op([zoo.input(shape, before[zoo.dtype])], shape, after[other], dtype=other, case=other.value)


def _lstm(zoo: Zoo) -> None:
    """Integer LSTM without projection, peepholes or layer norm: (batch, time, features) and cells, both orders."""
    for batch, times, features, cells, time_major in ((1, 3, 5, 4, False), (2, 2, 8, 16, False), (2, 3, 7, 9, True)):
        x = zoo.input((times, batch, features) if time_major else (batch, times, features))
        weights = [
            zoo.constant((cells, n), (scale, 0), I8) for n, scale in ((features, 0.01), (cells, 0.008)) for _ in "ifco"
        ]
        biases = [_lstm_bias(zoo, cells) for _ in "ifco"]
        out = _TANH[zoo.dtype]
        states = [
            zoo.tensor((batch, cells), out, variable=True),
            zoo.tensor((batch, cells), (2.0**-11, 0), I16, variable=True),
        ]
        between = [zoo.tensor((0,), (2.0**-12, 0), I16) for _ in "ifco"] + [zoo.tensor((0,), out)]
        fields = {
            "FusedActivationFunction": tflite.ActivationFunctionType.TANH,
            "CellClip": 10.0,
            "TimeMajor": time_major,
        }
        zoo.op(
            [x, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1],
            (times, batch, cells) if time_major else (batch, times, cells),
            out,
            options="UnidirectionalSequenceLSTMOptions",
            fields=fields,
            intermediates=between,
            case=f"{batch}x{times}x{features} to {cells}{' time major' if time_major else ''}",
        )


def _lstm_bias(zoo: Zoo, cells: int) -> int:
    kind = I64 if zoo.dtype is I16 else I32
    data = zoo.rng.integers(-2000, 2000, cells).astype(kind.numpy)
    return zoo.tensor((cells,), (0.01 * PLAIN[zoo.dtype][0], 0), kind, data)


def _reverse(zoo: Zoo) -> None:
    for axis in (1, 2):
        zoo.op([zoo.input((1, 5, 4, 7)), zoo.integers([axis])], (1, 5, 4, 7), options="ReverseV2Options")


def _tile(zoo: Zoo) -> None:
    zoo.op([zoo.input((1, 3, 4, 5)), zoo.integers([1, 2, 1, 3])], (1, 6, 4, 15), options="TileOptions")


FLAT: Sequence[Shape] = ((1, 9, 5, 7), (1, 3, 4, 33), (2, 31))
BYTES, ALL = (I8, U8), (I8, U8, I16)
_LOGISTIC = {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)}
_TANH = {I8: (1 / 128, 0), U8: (1 / 128, 128), I16: (1 / 32768, 0)}
_POW2 = {I16: (2.0**-12, 0), I8: (0.03, -5), U8: (0.03, 120)}
_POSITIVE = {I8: (0.02, -128), I16: (0.0003, 0)}
ACTIVATIONS = (NONE, RELU, RELU6, RELU_N1)
KINDS: Mapping[str, tuple[Sequence[DType], Callable[[Zoo], None]]] = {
    "ABS": ((I8, I16), _unary(FLAT, "AbsOptions")),
    "ADD": ((*ALL, I32), _binary("AddOptions", activations=ACTIVATIONS)),
    "ARG_MAX": (BYTES, _arg_max),
    "AVERAGE_POOL_2D": (ALL, _pool),
    "BATCH_MATMUL": ((I8, I16), _batch_matmul),
    "CONCATENATION": (ALL, _concatenation),
    "CONV_2D": (ALL, _conv(False)),
    "DEPTHWISE_CONV_2D": (ALL, _conv(True)),
    "ELU": ((I8,), _unary(FLAT)),
    "EXP": ((I8, I16), _unary(FLAT, "ExpOptions", ins=(PLAIN,), after={I8: (0.4, -100), I16: (0.01, 0)})),
    "EXPAND_DIMS": (ALL, _shape_only("ExpandDimsOptions", lambda z, x: ([z.integers([1])], (3, 1, 5), {}), ((3, 5),))),
    "FULLY_CONNECTED": (ALL, _fully_connected),
    "GELU": ((I8,), _unary(FLAT, "GeluOptions", {"Approximate": False}, ins=(PLAIN,))),
    "HARD_SWISH": (BYTES, _unary(FLAT, "HardSwishOptions")),
    "LEAKY_RELU": (ALL, _unary(FLAT, "LeakyReluOptions", {"Alpha": 0.17})),
    "LOG": ((I8, I16), _unary(FLAT, ins=(_POSITIVE,))),
    "LOGISTIC": (ALL, _unary(FLAT, out=_LOGISTIC, ins=(_POW2, PLAIN))),
    "MAXIMUM": (ALL, _binary("MaximumMinimumOptions", same=True)),
    "MAX_POOL_2D": (ALL, _pool),
    "MEAN": (ALL, _reduce(((1, 2), (1,), (2,), (3,)))),
    "MINIMUM": (ALL, _binary("MaximumMinimumOptions", same=True)),
    "MIRROR_PAD": ((I8,), _mirror_pad),
    "MUL": ((*ALL, I32), _binary("MulOptions", activations=ACTIVATIONS)),
    "NEG": (ALL, _unary(FLAT, "NegOptions")),
    "PACK": (ALL, _pack),
    "PAD": (ALL, _pad(False)),
    "PADV2": ((I8,), _pad(True)),
    "PRELU": (BYTES, _prelu),
    "QUANTIZE": (ALL, _quantize),
    "REDUCE_MAX": ((I8,), _reduce(((1, 2), (3,)), same=True)),
    "REDUCE_MIN": ((I8,), _reduce(((1, 2), (3,)), same=True)),
    "RELU": (ALL, _unary(FLAT)),
    "RELU6": (ALL, _unary(FLAT)),
    "RELU_0_TO_1": ((I8,), _unary(FLAT)),
    "RELU_N1_TO_1": (BYTES, _unary(FLAT)),
    "RESHAPE": (
        ALL,
        _shape_only("ReshapeOptions", lambda z, x: ([z.integers([1, 15])], (1, 15), {"NewShape": (1, 15)}), ((3, 5),)),
    ),
    "RESIZE_BILINEAR": (
        (I8, U8, I16),
        _resize("ResizeBilinearOptions", ((False, False), (True, False), (False, True))),
    ),
    "RESIZE_NEAREST_NEIGHBOR": (
        (I8, U8, I16),
        _resize("ResizeNearestNeighborOptions", ((False, False), (True, False))),
    ),
    "REVERSE_V2": ((I8,), _reverse),
    "RSQRT": ((I8,), _unary(FLAT, ins=({I8: (0.02, -128)},))),
    "SLICE": (
        ALL,
        _shape_only(
            "SliceOptions",
            lambda z, x: ([z.integers([0, 1, 0, 2]), z.integers([1, 3, 4, 5])], (1, 3, 4, 5), {}),
            ((1, 5, 4, 9),),
        ),
    ),
    "SOFTMAX": (ALL, _softmax),
    "SPLIT": (ALL, _split),
    "SPLIT_V": (ALL, _split_v),
    "SQUARED_DIFFERENCE": ((I8,), _binary("SquaredDifferenceOptions")),
    "SQUEEZE": (ALL, _shape_only("SqueezeOptions", lambda z, x: ([], (3, 5), {"SqueezeDims": (1,)}), ((3, 1, 5),))),
    "STRIDED_SLICE": (ALL, _strided_slice),
    "SUB": ((*ALL, I32), _binary("SubOptions", activations=ACTIVATIONS)),
    "SUM": ((I8, I16), _reduce(((3,), (1, 2)))),
    "TANH": (ALL, _unary(FLAT, out=_TANH, ins=(_POW2, PLAIN))),
    "TILE": ((I8,), _tile),
    "TRANSPOSE": (ALL, _transpose),
    "TRANSPOSE_CONV": (ALL, _transpose_conv),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ((I8, I16), _lstm),
    "UNPACK": (ALL, _unpack),
}
for _kind in ("ADD", "MUL", "SUB"):
    KINDS = {**KINDS, f"{_kind} of scaled int32": ((I32,), _scaled(f"{_kind.title()}Options"))}


def zoo(kind: str, dtype: DType) -> Zoo:
    """All cases of an operator kind in one type."""
    found = Zoo(kind.split()[0], dtype)
    KINDS[kind][1](found)
    return found
