"""One-operator graphs made directly as `ir`, so that lowering and code generation are tested without a file format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from ethoscade.ir import (
    Activation,
    AddAttrs,
    ArgMaxAttrs,
    ArithmeticAttrs,
    Attrs,
    BatchMatMulAttrs,
    ConcatenationAttrs,
    ConvAttrs,
    DType,
    FullyConnectedAttrs,
    GatherAttrs,
    Graph,
    LstmAttrs,
    Operator,
    PackAttrs,
    PoolAttrs,
    Quantisation,
    ReductionAttrs,
    ResizeBilinearAttrs,
    ResizeNearestAttrs,
    SoftmaxAttrs,
    SplitAttrs,
    StridedSliceAttrs,
    SvdfAttrs,
    Tensor,
    TransposeConvAttrs,
    UnpackAttrs,
    Window,
)
from ethoscade.lowering import support
from ethoscade.targets.target import ACCELERATORS


def on_npu(graph: Graph, op: Operator) -> bool:
    """Whether an operator will run on an Ethos-U55-256."""
    return support(graph, op, ACCELERATORS["ethos-u55-256"]) is None


def quantisation(rng: np.random.Generator, dtype: DType) -> Quantisation:
    """A random per-tensor quantisation whose scale is a float32; symmetric for int16."""
    if dtype is DType.INT16:
        return Quantisation((float(np.float32(rng.uniform(2e-5, 4e-4))),), (0,))
    low, high = dtype.limits
    return Quantisation((float(np.float32(rng.uniform(0.005, 0.1))),), (int(rng.integers(low, high + 1)),))


class GraphMaker:
    """Collects tensors and operators of a graph; values come from a generator with `seed`."""

    def __init__(self, dtype: DType = DType.INT8, seed: int = 0) -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.narrow_bias = False
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.inputs: list[int] = []

    def tensor(self, shape: Sequence[int], q: Quantisation | None = None, dtype: DType | None = None) -> int:
        kind = dtype or self.dtype
        found = q or quantisation(self.rng, kind)
        if kind is DType.INT16:
            found = replace(found, zero_points=(0,))
        self.tensors.append(Tensor(f"t{len(self.tensors)}", tuple(shape), kind, found))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], q: Quantisation | None = None, dtype: DType | None = None) -> int:
        self.inputs.append(self.tensor(shape, q, dtype))
        return self.inputs[-1]

    def constant(self, data: np.ndarray, q: Quantisation | None, dtype: DType) -> int:
        self.tensors.append(Tensor(f"c{len(self.tensors)}", data.shape, dtype, q, data))
        return len(self.tensors) - 1

    def op(self, kind: str, inputs: Sequence[int | None], output: int, attrs: Attrs = None) -> int:
        self.operators.append(Operator(kind, f"{kind.lower()}{len(self.operators)}", tuple(inputs), (output,), attrs))
        return output

    def graph(self, outputs: Sequence[int] | None = None) -> Graph:
        last = tuple(outputs) if outputs is not None else self.operators[-1].outputs
        return Graph("test", tuple(self.tensors), tuple(self.operators), tuple(self.inputs), last).verify()

    # Operators.

    def weights(self, shape: tuple[int, ...], axis: int, fan_in: int) -> tuple[int, int]:
        """Constant weights and bias, such that outputs spread over the type's range."""
        channels = shape[axis]
        if self.dtype is DType.UINT8:
            q = Quantisation((float(np.float32(self.rng.uniform(0.001, 0.02))),), (int(self.rng.integers(90, 160)),))
            data = self.rng.integers(0, 256, shape).astype(np.uint8)
        else:
            scales = self.rng.uniform(0.2, 1.0, channels) * 0.05 / np.sqrt(fan_in)
            q = Quantisation(tuple(float(np.float32(s)) for s in scales), (0,) * channels, axis)
            data = self.rng.integers(-127, 128, shape).astype(np.int8)
        weight_type = DType.UINT8 if self.dtype is DType.UINT8 else DType.INT8
        if self.dtype is DType.INT16:
            bias = self.rng.integers(-800_000, 800_000, channels)
        else:
            bias = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        if self.narrow_bias:
            bias = bias.astype(np.int32)
        return self.constant(data, q, weight_type), self.constant(bias, None, DType(str(bias.dtype)))

    def conv(
        self,
        x: int,
        channels: int,
        window: Window,
        activation: Activation = Activation.NONE,
        shape: Sequence[int] | None = None,
        groups: int = 1,
    ) -> int:
        depth = self.tensors[x].shape[3] // groups
        fan_in = window.kernel_h * window.kernel_w * depth
        w, b = self.weights((channels, window.kernel_h, window.kernel_w, depth), 0, fan_in)
        out = self.tensor(shape or (self.tensors[x].shape[0], *self._size(x, window), channels))
        return self.op("CONV_2D", [x, w, b], out, ConvAttrs(window, activation))

    def depthwise(self, x: int, window: Window, activation: Activation = Activation.NONE, multiplier: int = 1) -> int:
        channels = self.tensors[x].shape[3] * multiplier
        w, b = self.weights((1, window.kernel_h, window.kernel_w, channels), 3, window.kernel_h * window.kernel_w)
        out = self.tensor((self.tensors[x].shape[0], *self._size(x, window), channels))
        return self.op("DEPTHWISE_CONV_2D", [x, w, b], out, ConvAttrs(window, activation, multiplier))

    def transpose_conv(
        self, x: int, channels: int, window: Window, size: tuple[int, int], activation: Activation = Activation.NONE
    ) -> int:
        """`window` is that of the convolution which makes the input's rows and columns of `size`."""
        depth = self.tensors[x].shape[3]
        fan_in = window.kernel_h * window.kernel_w * depth
        w, b = self.weights((channels, window.kernel_h, window.kernel_w, depth), 0, fan_in)
        made = (self.tensors[x].shape[0], *size, channels)
        shape = self.constant(np.array(made, np.int32), None, DType.INT32)
        attrs = TransposeConvAttrs(window, size, activation)
        return self.op("TRANSPOSE_CONV", [shape, w, x, b], self.tensor(made), attrs)

    def fully_connected(
        self,
        x: int,
        units: int,
        activation: Activation = Activation.NONE,
        rows: int = 1,
        shape: Sequence[int] | None = None,
        keep: bool = False,
    ) -> int:
        count = int(np.prod(self.tensors[x].shape)) // rows
        w, b = self.weights((units, count), 0, count)
        out = self.tensor(shape or (rows, units))
        return self.op("FULLY_CONNECTED", [x, w, b], out, FullyConnectedAttrs(activation, keep))

    def pool(self, kind: str, x: int, window: Window, activation: Activation = Activation.NONE) -> int:
        source = self.tensors[x]
        out = self.tensor((source.shape[0], *self._size(x, window), source.shape[3]), source.quantisation)
        return self.op(kind, [x], out, PoolAttrs(window, activation))

    def add(self, a: int, b: int, activation: Activation = Activation.NONE, q: Quantisation | None = None) -> int:
        return self.op("ADD", [a, b], self.tensor(self.tensors[a].shape, q), AddAttrs(activation))

    def values(self, shape: Sequence[int], q: Quantisation | None = None, dtype: DType | None = None) -> int:
        """A constant operand."""
        kind = dtype or self.dtype
        data = self.rng.integers(*kind.limits, shape, endpoint=True).astype(kind.numpy)
        return self.constant(data, q or quantisation(self.rng, kind), kind)

    def binary(
        self, kind: str, a: int, b: int, activation: Activation = Activation.NONE, q: Quantisation | None = None
    ) -> int:
        """An operator of two operands; what compares stored values has no quantisation of its own."""
        shape = np.broadcast_shapes(self.tensors[a].shape, self.tensors[b].shape)
        attributes = {"ADD": AddAttrs, "MUL": ArithmeticAttrs, "SUB": ArithmeticAttrs}
        attrs = attributes[kind](activation) if kind in attributes else None
        if kind == "MUL" and q is None:
            q = Quantisation((0.05,), quantisation(self.rng, self.dtype).zero_points)
        return self.op(kind, [a, b], self.tensor(shape, q), attrs)

    def matmul(self, a: int, b: int, adj_x: bool = False, adj_y: bool = False) -> int:
        first, second = self.tensors[a], self.tensors[b]
        rows, terms = first.shape[-2:][:: -1 if adj_x else 1]
        shape = (*np.broadcast_shapes(first.shape[:-2], second.shape[:-2]), rows, second.shape[-2 if adj_y else -1])
        size = self.dtype.limits[1] * np.sqrt(terms / 12) * self.rng.uniform(0.5, 2)
        scale = float(np.float32(first.quantisation.scale * second.quantisation.scale * size))
        made = Quantisation((scale,), quantisation(self.rng, self.dtype).zero_points)
        return self.op("BATCH_MATMUL", [a, b], self.tensor(shape, made), BatchMatMulAttrs(adj_x, adj_y))

    def lstm(self, x: int, cells: int, time_major: bool = False, cell_clip: float = 0.0) -> int:
        """An LSTM whose state is there when it begins, and made anew."""
        first, second, features = self.tensors[x].shape
        batch, kind = second if time_major else first, DType.INT64 if self.dtype is DType.INT16 else DType.INT32
        parts = [
            self.constant(
                self.rng.integers(-127, 128, (cells, size)).astype(np.int8), Quantisation((scale,), (0,)), DType.INT8
            )
            for size in (features, cells)
            for scale in self.rng.uniform(0.005, 0.02, 4).astype(np.float32).astype(float)
        ]
        biases = [self.constant(self.rng.integers(-3000, 3000, cells).astype(kind.numpy), None, kind) for _ in range(4)]
        made = quantisation(self.rng, self.dtype)
        made = Quantisation((float(np.float32(made.scale / 5)),), made.zero_points)
        sequence = self.tensor((first, second, cells), made)
        kinds = ((self.dtype, made), (DType.INT16, Quantisation((2.0**-12,), (0,))))
        states = [self.input((batch, cells), q, dtype) for dtype, q in kinds]
        ends = tuple(self.tensor((batch, cells), q, dtype) for dtype, q in kinds)
        absent = (None,) * 4
        inputs = (x, *parts, *absent[:3], *biases, *absent[:2], *states, *absent)
        attrs = LstmAttrs(time_major, cell_clip)
        self.operators.append(
            Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", f"lstm{len(self.operators)}", inputs, (sequence, *ends), attrs)
        )
        return sequence

    def svdf(
        self,
        x: int,
        units: int,
        memory: int,
        rank: int = 1,
        dtype: DType = DType.INT8,
        zero_point: int = 0,
        use_bias: bool = True,
    ) -> int:
        """An SVDF whose state, of `dtype`, is there when it begins, and made anew."""
        (batch, features), filters = self.tensors[x].shape, units * rank
        most = 127 if dtype is DType.INT8 else min(32767, 65000 // (rank * memory))
        weights, times = (
            self.constant(
                self.rng.integers(-top, top + 1, shape).astype(kind.numpy), Quantisation((scale,), (0,)), kind
            )
            for top, shape, kind, scale in (
                (127, (filters, features), DType.INT8, float(np.float32(0.01))),
                (most, (filters, memory), dtype, float(np.float32(1 / most))),
            )
        )
        scale = float(np.float32(0.5 / {DType.INT8: 64, DType.INT16: 16384}[dtype]))
        bias = self.constant(self.rng.integers(-500, 500, units).astype(np.int32), None, DType.INT32)
        kept = Quantisation((scale,), (zero_point,))
        state = self.input((batch, filters * memory), kept, dtype)
        made, after = self.tensor((batch, units)), self.tensor((batch, filters * memory), kept, dtype)
        inputs = (x, weights, times, bias if use_bias else None, state)
        self.operators.append(Operator("SVDF", f"svdf{len(self.operators)}", inputs, (made, after), SvdfAttrs(rank)))
        return made

    def mean(self, x: int, axes: tuple[int, ...] = (1, 2)) -> int:
        return self._reduced("MEAN", x, axes, False, None)

    def total(self, x: int, axes: tuple[int, ...] = (1, 2), keep: bool = False) -> int:
        """SUM, of values that are about as often positive as negative."""
        source, (low, high) = self.tensors[x], self.dtype.limits
        count = np.prod([source.shape[axis] for axis in axes])
        scale = float(np.float32(source.quantisation.scale * np.sqrt(count) * self.rng.uniform(0.5, 2)))
        centred = Quantisation(source.quantisation.scales, ((low + high + 1) // 2,))
        self.tensors[x] = replace(source, quantisation=centred)
        made = Quantisation((scale,), quantisation(self.rng, self.dtype).zero_points)
        return self._reduced("SUM", x, axes, keep, made)

    def extreme(self, kind: str, x: int, axes: tuple[int, ...] = (1, 2), keep: bool = False) -> int:
        return self._reduced(kind, x, axes, keep, self.tensors[x].quantisation)

    def _reduced(self, kind: str, x: int, axes: tuple[int, ...], keep: bool, q: Quantisation | None) -> int:
        source = self.tensors[x]
        kept = tuple(1 if i in axes else d for i, d in enumerate(source.shape))
        shape = kept if keep else tuple(d for i, d in enumerate(source.shape) if i not in axes)
        return self.op(kind, [x], self.tensor(shape, q), ReductionAttrs(axes, keep))

    def arg_max(self, x: int, dtype: DType = DType.INT32) -> int:
        shape = self.tensors[x].shape
        self.tensors.append(Tensor(f"t{len(self.tensors)}", shape[:-1], dtype))
        return self.op("ARG_MAX", [x], len(self.tensors) - 1, ArgMaxAttrs(len(shape) - 1))

    def quantize(self, x: int, dtype: DType | None = None) -> int:
        return self.op("QUANTIZE", [x], self.tensor(self.tensors[x].shape, dtype=dtype))

    def resize(self, x: int, size: tuple[int, int], align: bool = False, half_pixel: bool = False) -> int:
        source = self.tensors[x]
        out = self.tensor((source.shape[0], *size, source.shape[3]), source.quantisation)
        return self.op("RESIZE_NEAREST_NEIGHBOR", [x], out, ResizeNearestAttrs(size, align, half_pixel))

    def resize_bilinear(self, x: int, size: tuple[int, int], align: bool = False, half_pixel: bool = False) -> int:
        source = self.tensors[x]
        out = self.tensor((source.shape[0], *size, source.shape[3]), source.quantisation)
        return self.op("RESIZE_BILINEAR", [x], out, ResizeBilinearAttrs(size, align, half_pixel))

    def softmax(self, x: int, beta: float = 1.0) -> int:
        source = self.tensors[x]
        short = source.dtype is DType.INT16
        q = Quantisation((1 / 32768,), (0,)) if short else Quantisation((1 / 256,), (source.dtype.limits[0],))
        return self.op("SOFTMAX", [x], self.tensor(source.shape, q, source.dtype), SoftmaxAttrs(beta))

    def split(self, x: int, sizes: tuple[int, ...], axis: int = 3) -> tuple[int, ...]:
        source = self.tensors[x]
        shapes = [(*source.shape[:axis], size, *source.shape[axis + 1 :]) for size in sizes]
        made = tuple(self.tensor(shape, source.quantisation) for shape in shapes)
        name = f"split{len(self.operators)}"
        self.operators.append(Operator("SPLIT_V", name, (x,), made, SplitAttrs(axis, sizes, 0)))
        return made

    def concatenate(self, parts: Sequence[int], axis: int = 3) -> int:
        first = self.tensors[parts[0]]
        for part in parts:
            self.tensors[part] = replace(self.tensors[part], quantisation=first.quantisation)
        extent = sum(self.tensors[part].shape[axis] for part in parts)
        out = self.tensor((*first.shape[:axis], extent, *first.shape[axis + 1 :]), first.quantisation)
        return self.op("CONCATENATION", parts, out, ConcatenationAttrs(axis))

    def slice(self, x: int, ranges: Sequence[tuple[int, int, int]], dropped: tuple[int, ...] = ()) -> int:
        source = self.tensors[x]
        shape = [len(range(*one)) for axis, one in enumerate(ranges) if axis not in dropped]
        out = self.tensor(shape, source.quantisation)
        return self.op("STRIDED_SLICE", [x], out, StridedSliceAttrs(tuple(ranges)))

    def pack(self, parts: Sequence[int], axis: int) -> int:
        first = self.tensors[parts[0]]
        for part in parts:
            self.tensors[part] = replace(self.tensors[part], quantisation=first.quantisation)
        out = self.tensor((*first.shape[:axis], len(parts), *first.shape[axis:]), first.quantisation)
        return self.op("PACK", parts, out, PackAttrs(axis))

    def unpack(self, x: int, axis: int) -> tuple[int, ...]:
        source = self.tensors[x]
        shape = (*source.shape[:axis], *source.shape[axis + 1 :])
        made = tuple(self.tensor(shape, source.quantisation) for _ in range(source.shape[axis]))
        self.operators.append(Operator("UNPACK", f"unpack{len(self.operators)}", (x,), made, UnpackAttrs(axis)))
        return made

    def gather(self, x: int, indices: Sequence[int], axis: int, dims: tuple[int, ...] | None = None) -> int:
        """The indices have the dimensions `dims`, by default one."""
        shape, made = self.tensors[x].shape, (len(indices),) if dims is None else dims
        attrs = GatherAttrs(axis, tuple(indices))
        return self.moved("GATHER", x, (*shape[:axis], *made, *shape[axis + 1 :]), attrs)

    def moved(self, kind: str, x: int, shape: Sequence[int], attrs: Attrs) -> int:
        """An operator that moves elements of one tensor, with attributes as they are."""
        return self.op(kind, [x], self.tensor(shape, self.tensors[x].quantisation), attrs)

    def _size(self, x: int, window: Window) -> tuple[int, int]:
        _, h, w, _ = self.tensors[x].shape
        return (
            (h + window.pad_top + window.pad_bottom - window.dilated_h) // window.stride_h + 1,
            (w + window.pad_left + window.pad_right - window.dilated_w) // window.stride_w + 1,
        )


def same(height: int, width: int, kernel: tuple[int, int], stride: int = 1, dilation: int = 1) -> Window:
    """TFLite's SAME padding, written out."""
    pads = []
    for size, k in zip((height, width), kernel, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size)
        pads.append((total // 2, total - total // 2))
    (top, bottom), (left, right) = pads
    return Window(*kernel, stride, stride, dilation, dilation, top, left, bottom, right)
