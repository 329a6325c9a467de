"""ModelBuilder: quantised TFLite networks, operator by operator, without TensorFlow.

Owns the operators that compute; `shapes` and `moving` have those that only move elements, `recorder` collects what
they make, `schema` knows the option tables, `flatfile` writes the bytes, `calibration` chooses the
quantisations that the caller leaves open. For tests, examples and benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..ir import Activation, Array, DType, Quantisation
from ..ir.operators import CODE_OF_ACTIVATION
from . import real_operators as real
from .calibration import Real, activation_quantisation, dequantise, quantise
from .flatfile import TENSOR_TYPES, Fields, TensorRecord, write_file
from .geometry import Pair, as_pair, resolve_window, transposed_size
from .matrices import MatrixRecorder
from .recorder import UNQUANTISED, Value
from .schema import window_fields


class ModelBuilder(MatrixRecorder):
    """Collects tensors and operators; `build` writes the file.

    `dtype` is INT8, UINT8 or INT16; int8 convolution weights are quantised per channel unless `per_channel` is False.
    Biases of int16 operators are int64, or int32 with `narrow_biases` where sums are known then. Weights
    and biases that are not given are drawn (He-initialised) from a PCG64 generator with `seed`. An activation
    without explicit quantisation gets the range that a float64 run of the network on one seeded input shows. `codes_in`
    is the field that tells an operator's kind in the file: "both", "old" or "new". `dead_share` is how many of the
    output channels have drawn weights of zero alone.

    Methods raise `ValueError` for shapes that do not fit.
    """

    # Network inputs and outputs.

    def input(
        self,
        shape: Sequence[int],
        *,
        quantisation: Quantisation | None = None,
        dtype: DType | None = None,
        name: str | None = None,
    ) -> Value:
        """A network input; by default its real values span [-1, 1). A FLOAT32 one has no quantisation."""
        kind = dtype or self.dtype
        if kind is DType.FLOAT32:
            self._tensors.append(TensorRecord(name or f"input{len(self._inputs)}", tuple(shape), kind))
            value = Value(len(self._tensors) - 1, self._tensors[-1].name, tuple(shape), kind, UNQUANTISED)
            self._inputs.append(value.index)
            real = self._rng.uniform(-1, 1, value.shape)
            self._thunks[value.index] = lambda: real
            return value
        lowest, highest = kind.limits
        default = Quantisation((2.0 / (highest - lowest + 1),), ((lowest + highest + 1) // 2,))
        value = self._tensor(name or f"input{len(self._inputs)}", tuple(shape), kind, quantisation or default)
        self._inputs.append(value.index)
        stored = self._rng.integers(lowest, highest + 1, size=value.shape)
        self._thunks[value.index] = lambda: dequantise(stored, value.quantisation)
        return value

    def output(self, *values: Value) -> None:
        """Mark network outputs; without any, `build` takes those of the last operator that has some."""
        self._outputs.extend(v.index for v in values)

    def build(self) -> bytes:
        """The TFLite file."""
        outputs = self._outputs or list(next(op.outputs for op in reversed(self._operators) if op.outputs))
        operators, others = self._with_state()
        return write_file(self.name, self._tensors, operators, self._inputs, outputs, self.codes_in, others)

    def constant(self, real: Real, *, dtype: DType | None = None, quantisation: Quantisation | None = None) -> Value:
        """A constant operand of an 8-bit type; its quantisation is that of its values by default."""
        kind = dtype or self.dtype
        quantisation = quantisation or activation_quantisation(real, kind)
        stored = quantise(real, quantisation, kind)
        value = self._tensor(f"constant{len(self._tensors)}", real.shape, kind, quantisation, stored)
        self._thunks[value.index] = lambda: dequantise(stored, quantisation)
        return value

    # Operators with weights.

    def conv2d(
        self,
        x: Value,
        channels: int,
        kernel: Pair = 3,
        *,
        stride: Pair = 1,
        dilation: Pair = 1,
        padding: str = "SAME",
        activation: Activation = Activation.NONE,
        weights: Array | None = None,
        weight_quantisation: Quantisation | None = None,
        gain: float = 1.0,
        bias: Array | None = None,
        use_bias: bool = True,
        groups: int = 1,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """CONV_2D. Floating-point `weights` (OHWI) are quantised here; integer ones need `weight_quantisation`.

        A float `bias` is quantised to the product of the scales, an int32 one is taken unchanged. Without weights
        given, `gain` multiplies the drawn ones. LiteRT refuses CONV_2D without bias. `groups` divides the channels on
        both sides: each part is made of its own.
        """
        window, size = resolve_window(x.shape, kernel, stride, dilation, padding)
        shape = (channels, window.kernel_h, window.kernel_w, x.shape[3] // groups)
        fan_in = window.kernel_h * window.kernel_w * x.shape[3] // groups
        axis, kind = self._axis(x, 0), self._weight_type(x)
        w, w_real = self._weights(shape, gain / np.sqrt(fan_in), weights, weight_quantisation, axis, kind)
        b, b_real = self._bias(x, w, channels, bias) if use_bias else (None, None)
        return self._operator(
            "CONV_2D",
            [x.index, w.index, *([] if b is None else [b])],
            (x.shape[0], *size, channels),
            lambda: real.activate(real.conv(self._real(x), w_real, b_real, window), activation),
            output,
            window_fields(window, padding, activation, dilated=True) | self._sum_fields(x, b),
            name,
            x.dtype,
        )

    def depthwise(
        self,
        x: Value,
        kernel: Pair = 3,
        *,
        multiplier: int = 1,
        stride: Pair = 1,
        dilation: Pair = 1,
        padding: str = "SAME",
        activation: Activation = Activation.NONE,
        weights: Array | None = None,
        weight_quantisation: Quantisation | None = None,
        gain: float = 1.0,
        bias: Array | None = None,
        use_bias: bool = True,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """DEPTHWISE_CONV_2D with weights 1HWC and `multiplier` output channels per input channel; see `conv2d`."""
        window, size = resolve_window(x.shape, kernel, stride, dilation, padding)
        channels = x.shape[3] * multiplier
        shape = (1, window.kernel_h, window.kernel_w, channels)
        fan_in = window.kernel_h * window.kernel_w
        axis, kind = self._axis(x, 3), self._weight_type(x)
        w, w_real = self._weights(shape, gain / np.sqrt(fan_in), weights, weight_quantisation, axis, kind, outputs=3)
        b, b_real = self._bias(x, w, channels, bias) if use_bias else (None, None)
        return self._operator(
            "DEPTHWISE_CONV_2D",
            [x.index, w.index, *([] if b is None else [b])],
            (x.shape[0], *size, channels),
            lambda: real.activate(real.depthwise(self._real(x), w_real, b_real, window), activation),
            output,
            {**window_fields(window, padding, activation, dilated=True), "DepthMultiplier": multiplier},
            name,
            x.dtype,
        )

    def transpose_conv(
        self,
        x: Value,
        channels: int,
        kernel: Pair = 2,
        *,
        stride: Pair = 2,
        padding: str = "SAME",
        size: Pair | None = None,
        activation: Activation = Activation.NONE,
        weight_quantisation: Quantisation | None = None,
        use_bias: bool = True,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """TRANSPOSE_CONV with weights OHWI to `size` rows and columns, by default the most that its strides make.

        Raises `ValueError` for a size of which the window makes another image than `x`.
        """
        high, wide = transposed_size(x.shape, kernel, stride, padding) if size is None else as_pair(size)
        window, made = resolve_window((x.shape[0], high, wide, channels), kernel, stride, 1, padding)
        if made != x.shape[1:3]:
            raise ValueError(f"of {high}x{wide} the window makes {made}, and not {x.shape[1:3]}")
        shape = (channels, window.kernel_h, window.kernel_w, x.shape[3])
        fan_in = max(window.kernel_h * window.kernel_w // (window.stride_h * window.stride_w), 1) * x.shape[3]
        axis, kind = self._axis(x, 0), self._weight_type(x)
        w, w_real = self._weights(shape, 1 / np.sqrt(fan_in), None, weight_quantisation, axis, kind)
        b, b_real = self._bias(x, w, channels, None, narrow=False) if use_bias else (None, None)
        target = (x.shape[0], high, wide, channels)
        return self._operator(
            "TRANSPOSE_CONV",
            [self._integers("output_shape", target), w.index, x.index, *([] if b is None else [b])],
            target,
            lambda: real.activate(real.transpose_conv(self._real(x), w_real, b_real, window, (high, wide)), activation),
            output,
            window_fields(window, padding, activation, dilated=False),
            name,
            x.dtype,
        )

    def fully_connected(
        self,
        x: Value,
        units: int,
        *,
        activation: Activation = Activation.NONE,
        keep_num_dims: bool = False,
        inputs: int | None = None,
        per_channel: bool = False,
        weights: Array | None = None,
        weight_quantisation: Quantisation | None = None,
        gain: float = 1.0,
        bias: Array | None = None,
        use_bias: bool = True,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """FULLY_CONNECTED with weights (units, inputs); `inputs` is the last dimension, or all but the batch.

        Without kept dimensions it may be anything that divides the number of elements.
        """
        size = int(np.prod(x.shape))
        inputs = inputs or (x.shape[-1] if keep_num_dims or len(x.shape) == 2 else size // x.shape[0])
        kind = self._weight_type(x)
        axis = 0 if per_channel and kind is DType.INT8 else None
        w, w_real = self._weights((units, inputs), gain / np.sqrt(inputs), weights, weight_quantisation, axis, kind)
        b, b_real = self._bias(x, w, units, bias) if use_bias else (None, None)
        shape = (*x.shape[:-1], units) if keep_num_dims else (size // inputs, units)

        def compute() -> Real:
            out = self._real(x).reshape(-1, inputs) @ w_real.T
            return real.activate(out if b_real is None else out + b_real, activation).reshape(shape)

        fields = {"FusedActivationFunction": CODE_OF_ACTIVATION[activation], "KeepNumDims": keep_num_dims}
        fields |= self._sum_fields(x, b)
        indices = [x.index, w.index, -1 if b is None else b]
        return self._operator("FULLY_CONNECTED", indices, shape, compute, output, fields, name, x.dtype)

    # Operators without weights.

    def add(
        self,
        a: Value,
        b: Value,
        *,
        activation: Activation = Activation.NONE,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """ADD with broadcasting."""
        return self.binary("ADD", a, b, activation=activation, output=output, name=name)

    def binary(
        self,
        kind: str,
        a: Value,
        b: Value,
        *,
        activation: Activation = Activation.NONE,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """One of the kinds of `real_operators.BINARY`, with broadcasting; an activation where the kind may have one.

        What compares stored values gets the first input's quantisation if none is given.
        """
        function = real.BINARY[kind]
        if activation is not Activation.NONE and not function.fuses:
            raise ValueError(f"{kind} has no fused activation; {activation.name} is an operator of its own")
        fused = {"FusedActivationFunction": CODE_OF_ACTIVATION[activation]} if function.fuses else {}
        # By the flag alone nothing is shifted: LiteRT looks at the scales, and this one is no power of two.
        may_shift = len(self._operators) % 2 == 1 and abs(math.log2(a.quantisation.scale) % 1 - 0.5) < 0.49
        shifts = {"PotScaleInt16": may_shift} if kind in ("ADD", "SUB") and a.dtype is DType.INT16 else {}
        return self._operator(
            kind,
            [a.index, b.index],
            np.broadcast_shapes(a.shape, b.shape),
            lambda: real.activate(function.compute(self._real(a), self._real(b)), activation),
            a.quantisation if function.keeps and output is None else output,
            {**fused, **shifts},
            name,
            a.dtype,
        )

    def average_pool(
        self,
        x: Value,
        kernel: Pair = 2,
        *,
        stride: Pair | None = None,
        padding: str = "VALID",
        activation: Activation = Activation.NONE,
        name: str | None = None,
    ) -> Value:
        """AVERAGE_POOL_2D; the output keeps the input's quantisation. The stride is the kernel's size by default."""
        return self._pool("AVERAGE_POOL_2D", x, kernel, stride, padding, activation, name)

    def max_pool(
        self,
        x: Value,
        kernel: Pair = 2,
        *,
        stride: Pair | None = None,
        padding: str = "VALID",
        activation: Activation = Activation.NONE,
        name: str | None = None,
    ) -> Value:
        """MAX_POOL_2D; see `average_pool`."""
        return self._pool("MAX_POOL_2D", x, kernel, stride, padding, activation, name)

    def mean(
        self,
        x: Value,
        axes: Sequence[int] = (1, 2),
        *,
        keep_dims: bool = False,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """MEAN over `axes`."""
        return self.reduce("MEAN", x, axes, keep_dims=keep_dims, output=output, name=name)

    def reduce(
        self,
        kind: str,
        x: Value,
        axes: Sequence[int] = (1, 2),
        *,
        keep_dims: bool = False,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """MEAN, SUM, REDUCE_MAX or REDUCE_MIN over `axes`; the last two keep the input's quantisation."""
        output = output if kind in ("MEAN", "SUM") else x.quantisation
        folded = tuple(a % len(x.shape) for a in axes)
        kept = tuple(1 if i in folded else d for i, d in enumerate(x.shape))
        shape = kept if keep_dims else tuple(d for i, d in enumerate(x.shape) if i not in folded)
        axes_index = self._integers("axes", axes)
        return self._operator(
            kind,
            [x.index, axes_index],
            shape,
            lambda: real.REDUCTIONS[kind](self._real(x), folded, keep_dims),
            output,
            {"KeepDims": keep_dims},
            name,
            x.dtype,
        )

    def arg_max(self, x: Value, axis: int = -1, *, dtype: DType = DType.INT32) -> Value:
        """ARG_MAX along `axis`, as INT32 or INT64."""
        place = axis % len(x.shape)
        shape = (*x.shape[:place], *x.shape[place + 1 :])
        index = self._constant("axis", np.array(axis, dtype=np.int32), DType.INT32).index
        fields = {"OutputType": TENSOR_TYPES[dtype]}
        return self._plain("ARG_MAX", [x.index, index], shape, dtype, lambda: self._real(x).argmax(place), fields)

    def dequantize(self, x: Value) -> Value:
        """DEQUANTIZE to FLOAT32."""
        return self._plain("DEQUANTIZE", [x.index], x.shape, DType.FLOAT32, lambda: self._real(x), {})

    def float_function(
        self, kind: str, x: Value, function: Callable[[Real], Real], number: float | None = None, first: bool = False
    ) -> Value:
        """An operator of floats that looks at one element; a `number` is its other operand, the `first` or not."""
        inputs = [x.index]
        if number is not None:
            self._tensors.append(
                TensorRecord(f"number{len(self._tensors)}", (), DType.FLOAT32, None, np.float32(number).reshape(()))
            )
            inputs.insert(0 if first else 1, len(self._tensors) - 1)
        return self._plain(kind, inputs, x.shape, DType.FLOAT32, lambda: function(self._real(x)), {})

    def quantize(
        self, x: Value, output: Quantisation | None = None, *, dtype: DType | None = None, name: str | None = None
    ) -> Value:
        """QUANTIZE to another quantisation, and to another type if `dtype` is given; from float to the builder's."""
        kind = dtype or (self.dtype if x.dtype is DType.FLOAT32 else x.dtype)
        return self._operator("QUANTIZE", [x.index], x.shape, lambda: self._real(x), output, {}, name, kind)

    def softmax(
        self, x: Value, *, beta: float = 1.0, output: Quantisation | None = None, name: str | None = None
    ) -> Value:
        """SOFTMAX over the last axis; the output's scale is 1/256 and its zero point the type's lowest value."""
        short = x.dtype is DType.INT16
        fixed = Quantisation((1.0 / 32768,), (0,)) if short else Quantisation((1.0 / 256,), (x.dtype.limits[0],))
        return self._operator(
            "SOFTMAX",
            [x.index],
            x.shape,
            lambda: real.softmax(self._real(x), beta),
            output or fixed,
            {"Beta": beta},
            name,
            x.dtype,
        )

    def divide(
        self,
        x: Value,
        divisor: Value,
        *,
        activation: Activation = Activation.NONE,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """DIV of values of 8 bits by constants beside 0, with broadcasting."""
        fields = {"FusedActivationFunction": CODE_OF_ACTIVATION[activation]}
        return self._operator(
            "DIV",
            [x.index, divisor.index],
            np.broadcast_shapes(x.shape, divisor.shape),
            lambda: real.activate(self._real(x) / self._real(divisor), activation),
            output,
            fields,
            name,
            x.dtype,
        )

    def log_softmax(self, x: Value, *, output: Quantisation | None = None, name: str | None = None) -> Value:
        """LOG_SOFTMAX over the last axis; the output's scale is 1/16 and its zero point the type's largest value."""
        fixed = Quantisation((1.0 / 16,), (x.dtype.limits[1],))
        return self._function("LOG_SOFTMAX", x, real.log_softmax, output or fixed, {}, name)

    def l2_normalization(self, x: Value, *, output: Quantisation | None = None, name: str | None = None) -> Value:
        """L2_NORMALIZATION over the last axis; the output's scale is 1/128 and its zero point the type's middle."""
        fixed = Quantisation((1.0 / 128,), (sum(x.dtype.limits) // 2 + 1,))
        fields = {"FusedActivationFunction": CODE_OF_ACTIVATION[Activation.NONE]}
        return self._function("L2_NORMALIZATION", x, real.l2_normalization, output or fixed, fields, name)

    def relu(
        self,
        x: Value,
        *,
        activation: Activation = Activation.RELU,
        output: Quantisation | None = None,
        name: str | None = None,
    ) -> Value:
        """RELU, RELU6 or RELU_N1_TO_1 as an operator of its own."""
        return self.unary(activation.name, x, output=output, name=name)

    def unary(self, kind: str, x: Value, *, output: Quantisation | None = None, name: str | None = None) -> Value:
        """One of the kinds of `real_operators.UNARY`: a function of each element, without options."""
        function = real.UNARY[kind]
        return self._function(kind, x, function.compute, output or function.makes(x.dtype), {}, name)

    def leaky_relu(
        self, x: Value, alpha: float = 0.1, *, output: Quantisation | None = None, name: str | None = None
    ) -> Value:
        """LEAKY_RELU: `alpha`, taken as a float32, times what is negative."""
        return self._function("LEAKY_RELU", x, lambda r: real.leaky_relu(r, alpha), output, {"Alpha": alpha}, name)

    def gelu(
        self, x: Value, *, approximate: bool = False, output: Quantisation | None = None, name: str | None = None
    ) -> Value:
        """GELU, exact or approximate."""
        return self._function("GELU", x, real.gelu, output, {"Approximate": approximate}, name)

    # Internals.

    def _function(
        self,
        kind: str,
        x: Value,
        function: Callable[[Real], Real],
        output: Quantisation | None,
        fields: Fields,
        name: str | None,
    ) -> Value:
        return self._operator(kind, [x.index], x.shape, lambda: function(self._real(x)), output, fields, name, x.dtype)

    def _sum_fields(self, x: Value, bias: int | None) -> dict[str, int]:
        """What tells kernels of int16 to sum in 32 bits, as a bias of int32 has it."""
        short = x.dtype is DType.INT16 and bias is not None and self._tensors[bias].dtype is DType.INT32
        return {"QuantizedBiasType": TENSOR_TYPES[DType.INT32]} if short else {}

    def _pool(
        self,
        kind: str,
        x: Value,
        kernel: Pair,
        stride: Pair | None,
        padding: str,
        activation: Activation,
        name: str | None,
    ) -> Value:
        window, size = resolve_window(x.shape, kernel, kernel if stride is None else stride, 1, padding)
        pool = real.max_pool if kind == "MAX_POOL_2D" else real.average_pool
        fields = {
            **window_fields(window, padding, activation, dilated=False),
            "FilterHeight": window.kernel_h,
            "FilterWidth": window.kernel_w,
        }
        return self._operator(
            kind,
            [x.index],
            (x.shape[0], *size, x.shape[3]),
            lambda: real.activate(pool(self._real(x), window), activation),
            x.quantisation,
            fields,
            name,
            x.dtype,
        )
