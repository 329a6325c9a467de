"""Draws single operators, or a few that belong together, onto a builder: each draw takes a value and returns another.

Owns the odds of every attribute that the reader knows; which draws follow each other is `random_networks`' matter.
Values are feature maps of 8 or 16 bits and one to four dimensions; an operator reshapes them as it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Activation, DType, Quantisation
from .builder import ModelBuilder
from .calibration import coarse_scale
from .geometry import transposed_size
from .real_operators import BINARY, UNARY
from .recorder import Value

_ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
_KERNELS = (1, 1, 2, 3, 3, 3, 5)
_HALVING = (-0.25, -0.5, -1.5)
"""Slopes of LEAKY_RELU whose products with whole numbers are exact halves, where the scale stays."""
_ALPHAS = (0.1, 0.01, 0.3, 1.5, 0.0, -0.2, *_HALVING)
_LARGEST_ROW = 2048
"""A FULLY_CONNECTED weighs at most this number of elements; more of them make it a matter of weights alone."""
_MOST_ELEMENTS = 1 << 15
_LARGEST_SUM = 4.0
"""Sums that could have a larger scale are means."""
_LARGEST_FACTOR = 0.1
"""Values of larger scales are not multiplied by each other: products of products would leave every type."""


class Drawing:
    """Draws operators onto a builder, all from one generator.

    Without `heads`, no draw that is asked for another operator makes a MEAN or FULLY_CONNECTED.
    """

    def __init__(self, builder: ModelBuilder, rng: np.random.Generator, max_channels: int, heads: bool) -> None:
        self.builder = builder
        self.rng = rng
        self.max_channels = max_channels
        self.heads = heads

    # Numbers.

    def integer(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return bool(self.rng.random() < probability)

    def axis(self, rank: int, last: float = 0.5) -> int:
        """An axis, counted from either end; the last one with that probability at least."""
        axis = rank - 1 if self.chance(last) else self.integer(0, rank - 1)
        return axis - rank if self.chance(0.5) else axis

    def channels(self) -> int:
        """Up to `max_channels`, often a multiple of 16, which the NPU stores and splits differently."""
        bricks = self.max_channels // 16
        if bricks and self.chance(0.5):
            return 16 * self.integer(1, bricks)
        return self.integer(1, self.max_channels)

    def activation(self, none: float = 0.5) -> Activation:
        """Any fused activation, none with that probability."""
        return Activation.NONE if self.chance(none) else _ACTIVATIONS[self.integer(1, 3)]

    def kernel(self) -> tuple[int, int]:
        """Mostly square."""
        side = _KERNELS[self.integer(0, len(_KERNELS) - 1)]
        return (side, side) if self.chance(0.75) else (side, _KERNELS[self.integer(0, len(_KERNELS) - 1)])

    def stride(self, square: bool) -> tuple[int, int]:
        """1 to 3, mostly 1; now and then more than the NPU has."""
        first = self.integer(1, 3) if self.chance(0.4) else 1
        first = self.integer(4, 5) if self.chance(0.03) else first
        return (first, first) if square or self.chance(0.8) else (first, self.integer(1, 3))

    def dilation(self) -> tuple[int, int]:
        """1 or 2 along each axis, mostly 1; now and then more than the NPU has."""
        if self.chance(0.6):
            return (1, 1)
        largest = 3 if self.chance(0.05) else 2
        return (self.integer(1, largest), self.integer(1, largest))

    def padding(self, x: Value, span: tuple[int, int]) -> str:
        """VALID only where a kernel that spans `span` fits."""
        fits = x.shape[1] >= span[0] and x.shape[2] >= span[1]
        return "VALID" if fits and self.chance(0.4) else "SAME"

    def quantisation(self, like: Value) -> Quantisation | None:
        """Mostly None, what a run of the network shows; else other scales and zero points, some at the type's ends.

        A scale may be so large that every output is the zero point.
        """
        if self.chance(0.9):
            return None
        low, high = like.dtype.limits
        zero_point = (low, high, 0, self.integer(low, high))[self.integer(0, 3)]
        zero_point = 0 if like.dtype is DType.INT16 else zero_point
        if self.chance(0.1):
            scale = self.huge_scale(like)
        else:
            scale = coarse_scale(like.quantisation.scale * 2.0 ** self.rng.uniform(-5, 5))
        return Quantisation((scale,), (min(max(zero_point, low), high),))

    def huge_scale(self, like: Value) -> float:
        """A scale of which every value of that type and scale is less than half a unit."""
        bits = 8 * like.dtype.size_bytes
        return coarse_scale(like.quantisation.scale * 2.0 ** self.rng.uniform(bits + 1, bits + 8))

    # Shapes.

    def image(self, x: Value) -> Value:
        """The value as an image NHWC: reshaped if it has other than four dimensions, or a great many channels."""
        most = 4 * self.max_channels
        if len(x.shape) == 4 and x.shape[3] <= most:
            return x
        depth = max(n for n in range(1, most + 1) if x.shape[-1] % n == 0)
        pixels = math.prod(x.shape) // depth
        height = self.divisor(pixels)
        return self.reshaped(x, (1, height, pixels // height, depth))

    def divisor(self, number: int) -> int:
        """Any divisor."""
        found = [n for n in range(1, number + 1) if number % n == 0]
        return found[self.integer(0, len(found) - 1)]

    def reshape(self, x: Value) -> Value:
        """To any shape of one to four dimensions; pixels mostly stay whole."""
        rank = self.integer(1, 4)
        whole = len(x.shape) > 1 and rank > 1 and self.chance(0.7)
        left = math.prod(x.shape[:-1]) if whole else math.prod(x.shape)
        tail = [x.shape[-1]] if whole else []
        sizes: list[int] = []
        for _ in range(rank - 1 - len(tail)):
            sizes.append(1 if not sizes and rank == 4 and self.chance(0.8) else self.divisor(left))
            left //= sizes[-1]
        return self.reshaped(x, (*sizes, left, *tail))

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """RESHAPE, its target given in one of the ways there are; or SQUEEZE or EXPAND_DIMS where they do it."""
        b = self.builder
        ones = [i for i, extent in enumerate(x.shape) if extent == 1]
        if tuple(d for d in x.shape if d != 1) == shape and ones and self.chance(0.7):
            return b.squeeze(x, ones if self.chance(0.5) else ())
        for axis in range(len(shape)):
            if shape[axis] == 1 and (*shape[:axis], *shape[axis + 1 :]) == x.shape and self.chance(0.7):
                return b.expand_dims(x, axis - len(shape) if self.chance(0.5) else axis)
        if self.chance(0.5):
            wild = self.integer(0, len(shape) - 1)
            shape = (*shape[:wild], -1, *shape[wild + 1 :])
        elif shape[0] == x.shape[0] and self.chance(0.3):
            # As converters write a shape that keeps the batch: computed from the input's when the network runs.
            batch = b.strided_slice(b.shape_of(x), (0,), (1,), (1,), shrink_mask=1)
            return b.reshape(x, shape, target=b.pack([batch, *shape[1:]]))
        return b.reshape(x, shape, as_option=self.chance(0.2))

    def five(self, x: Value) -> Value:
        """The same elements in five dimensions."""
        depth = self.divisor(x.shape[-1])
        rest = math.prod(x.shape) // depth
        outer = self.divisor(rest)
        return self.builder.reshape(x, (1, outer, 1, rest // outer, depth))

    def renamed(self, x: Value) -> Value:
        """By way of five dimensions to others."""
        return self.reshape(self.five(x))

    def squeezed(self, x: Value) -> Value:
        """Without its dimensions of extent 1, or with one more."""
        bare = tuple(d for d in x.shape if d != 1)
        if bare and bare != x.shape and (len(x.shape) == 4 or self.chance(0.5)):
            return self.reshaped(x, bare)
        if len(x.shape) == 4:
            return self.reshape(x)
        axis = self.integer(0, len(x.shape))
        return self.reshaped(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    # Operators with a window.

    def conv(self, x: Value) -> Value:
        """CONV_2D."""
        x, kernel = self.image(x), self.kernel()
        dilation, stride = self.dilation(), self.stride(square=False)
        channels, groups = self.channels(), 1
        if self.chance(0.2):
            groups = self.divisor(x.shape[3])
            channels = groups * self.integer(1, max(self.max_channels // groups, 1))
        return self.builder.conv2d(
            x,
            channels,
            kernel,
            stride=stride,
            dilation=dilation,
            padding=self.padding(x, _span(kernel, dilation)),
            activation=self.activation(),
            output=self.quantisation(x),
            groups=groups,
        )

    def depthwise(self, x: Value) -> Value:
        """DEPTHWISE_CONV_2D, now and then with a multiplier where the channels allow it."""
        x, kernel = self.image(x), self.kernel()
        multiplier = self.integer(2, 4) if self.chance(0.2) and x.shape[3] <= self.max_channels else 1
        dilation, stride = self.dilation(), self.stride(square=True)
        return self.builder.depthwise(
            x,
            kernel,
            multiplier=multiplier,
            stride=stride,
            dilation=dilation,
            padding=self.padding(x, _span(kernel, dilation)),
            activation=self.activation(),
            output=self.quantisation(x),
            use_bias=self.chance(0.8),
        )

    def transpose_conv(self, x: Value) -> Value:
        """TRANSPOSE_CONV, mostly of stride 2; the output now and then a little larger or smaller than by default."""
        x, kernel = self.image(x), self.kernel()
        stride = (2, 2) if self.chance(0.6) else (self.integer(1, 4), self.integer(1, 2))
        padding = "SAME" if self.chance(0.6) else "VALID"
        size = transposed_size(x.shape, kernel, stride, padding)
        spare = [self.integer(0, s - 1) if self.chance(0.3) else 0 for s in stride]
        high, wide = (n - d if padding == "SAME" else n + d for n, d in zip(size, spare, strict=True))
        return self.builder.transpose_conv(
            x,
            self.channels(),
            kernel,
            stride=stride,
            padding=padding,
            size=(high, wide),
            activation=self.activation(),
            use_bias=self.chance(0.7),
            output=self.quantisation(x),
        )

    def pool(self, x: Value) -> Value:
        """AVERAGE_POOL_2D or MAX_POOL_2D; now and then of the whole image, with any stride."""
        x, kernel, stride = self.image(x), self.kernel(), self.stride(square=False)
        if self.chance(0.15) and max(x.shape[1:3]) <= 16:
            kernel, stride = (x.shape[1], x.shape[2]), (self.integer(1, 9), self.integer(1, 9))
        make = self.builder.max_pool if self.chance(0.5) else self.builder.average_pool
        return make(x, kernel, stride=stride, padding=self.padding(x, kernel), activation=self.activation())

    def pad(self, x: Value) -> Value:
        """PAD, mostly around the image, and a convolution without padding of its own behind it where one fits."""
        if len(x.shape) != 4 or self.chance(0.2):
            return self.builder.pad(
                x,
                [(0, 0) if d > 24 else (self.integer(0, 1), self.integer(0, 1)) for d in x.shape],
                output=self.quantisation(x),
            )
        amounts = [(self.integer(0, 2), self.integer(0, 2)) for _ in range(2)]
        padded = self.builder.pad(x, [(0, 0), *amounts, (0, 0)])
        if min(padded.shape[1:3]) < 3 or self.chance(0.2):
            return padded
        padding = "VALID" if self.chance(0.8) else "SAME"
        if self.chance(0.5):
            return self.builder.depthwise(padded, 3, stride=self.integer(1, 2), padding=padding)
        return self.builder.conv2d(padded, self.channels(), 3, padding=padding)

    def resize(self, x: Value) -> Value:
        """RESIZE_NEAREST_NEIGHBOR, mostly to 2, 4 or 8 times as many rows and columns, or nearly so; else to any."""
        x = self.image(x)
        factor = 2 ** self.integer(1, 3) if self.chance(0.5) else 2
        missing = factor - 1 if self.chance(0.3) else 0
        height, width = (max(1, extent * factor - self.integer(0, missing)) for extent in x.shape[1:3])
        if self.chance(0.25):
            height, width = self.integer(1, 24), self.integer(1, 24)
        return self.builder.resize_nearest(
            x, (height, width), align_corners=self.chance(0.2), half_pixel_centers=self.chance(0.4)
        )

    def resize_bilinear(self, x: Value) -> Value:
        """RESIZE_BILINEAR, mostly to a size that the NPU makes exactly; else to any."""
        x = self.image(x)
        height, width = x.shape[1:3]
        how, factor = self.integer(0, 3), 2 ** self.integer(1, 2)
        aligned, centred = how == 0, how == 1 or (how == 3 and self.chance(0.5))
        size = (height * factor, width * factor)
        if aligned:
            size = ((height - 1) * factor + 1, (width - 1) * factor + 1)
        elif how == 3:
            halved = height % 2 == width % 2 == 0 and self.chance(0.5)
            size = (height // 2, width // 2) if halved else (self.integer(1, 24), self.integer(1, 24))
        return self.builder.resize_bilinear(x, size, align_corners=aligned, half_pixel_centers=centred)

    # Other operators.

    def dense(self, x: Value) -> Value:
        """FULLY_CONNECTED over the pixels of an image or the rows of a matrix, or over several of them at once."""
        keep, units = self.chance(0.6), self.channels()
        inputs = x.shape[-1]
        if not keep and self.chance(0.5):
            rows = self.divisor(math.prod(x.shape[:-1]))
            inputs = math.prod(x.shape) // rows
        if inputs > _LARGEST_ROW:
            inputs = x.shape[-1] if x.shape[-1] <= _LARGEST_ROW else self._small_divisor(math.prod(x.shape))
            keep = keep and inputs == x.shape[-1]
        return self.builder.fully_connected(
            x,
            units,
            keep_num_dims=keep,
            inputs=inputs,
            activation=self.activation(),
            per_channel=self.chance(0.3),
            use_bias=self.chance(0.8),
            output=self.quantisation(x),
        )

    def _small_divisor(self, number: int) -> int:
        return max(n for n in range(1, _LARGEST_ROW + 1) if number % n == 0)

    def mean(self, x: Value) -> Value:
        """MEAN, SUM or an extreme, mostly of height and width together or of one of them; of any shape now and then."""
        x = self.reshape(x) if self.chance(0.1) else self.five(x) if self.chance(0.1) else x
        rank = len(x.shape)
        axes: Sequence[int] = [(1, 2), (1,), (2,), (2, 1), (-3, -2)][self.integer(0, 4)]
        if rank != 4 or self.chance(0.2):
            axes = sorted({self.integer(0, rank - 1) for _ in range(self.integer(1, 3))})
        keep = self.chance(0.5) or len(axes) == rank
        if self.chance(0.4):
            kind = "REDUCE_MAX" if self.chance(0.5) else "REDUCE_MIN"
            return self.builder.reduce(kind, x, axes, keep_dims=keep)
        count = math.prod(x.shape[axis] for axis in axes)
        kind = "SUM" if self.chance(0.3) and x.quantisation.scale * count < _LARGEST_SUM else "MEAN"
        return self.builder.reduce(kind, x, axes, keep_dims=keep, output=self.quantisation(x))

    def standalone(self, x: Value) -> Value:
        """QUANTIZE, to the other type too, or a function of each element, of any shape."""
        x = self.reshape(x) if self.chance(0.25) else x
        if self.chance(0.5):
            back = self.builder.dtype is DType.INT16 and x.dtype is DType.INT8
            other = DType.INT16 if back else DType.UINT8 if x.dtype is DType.INT8 else DType.INT8
            target = other if self.chance(0.3 if x.dtype is not DType.INT16 else 0.8) or back else x.dtype
            output = self.quantisation(x) if target is x.dtype else None
            if x.dtype is DType.INT16 and target is DType.INT8 and self.chance(0.5):
                return self.builder.quantize(self.builder.quantize(x, dtype=target), dtype=x.dtype)
            return self.builder.quantize(
                x, x.quantisation if self.chance(0.05) and target is x.dtype else output, dtype=target
            )
        return self.function(x)

    def function(self, x: Value) -> Value:
        """One of the functions of each element; now and then its input is quantised again to where it is defined."""
        x = self.reshape(x) if self.chance(0.25) else x
        output = x.quantisation if self.chance(0.3) else self.quantisation(x)
        kinds = [kind for kind, one in UNARY.items() if x.dtype in one.types] + ["GELU", "LEAKY_RELU"]
        kind = kinds[self.integer(0, len(kinds) - 1)]
        if kind == "GELU":
            return self.builder.gelu(x, approximate=self.chance(0.5), output=output)
        if kind == "LEAKY_RELU":
            alpha = _ALPHAS[self.integer(0, len(_ALPHAS) - 1)] if self.chance(0.7) else float(self.rng.normal())
            return self.builder.leaky_relu(x, alpha, output=x.quantisation if alpha in _HALVING else output)
        one = UNARY[kind]
        wanted = x.quantisation if one.takes is None else one.takes(x.quantisation, x.dtype)
        if wanted != x.quantisation:
            x = self.builder.quantize(x, wanted)
        return self.builder.unary(kind, x, output=one.makes(x.dtype) or (None if one.calibrated else output))

    def zero_output(self, x: Value) -> Value:
        """A value of which nothing is left: its difference from itself, or a QUANTIZE to a scale beyond its range."""
        if self.chance(0.5):
            return self.builder.binary("SUB", x, x, activation=self.activation(), output=self.quantisation(x))
        return self.builder.quantize(x, Quantisation((self.huge_scale(x),), x.quantisation.zero_points))

    def divided(self, x: Value) -> Value:
        """DIV by a number, now and then by one for each channel; of 8 bits alone."""
        x = self.builder.quantize(x, dtype=DType.INT8) if x.dtype is DType.INT16 else x
        shape = x.shape[-1:] if self.chance(0.2) else (1,) * self.integer(0, 1)
        numbers = self.rng.uniform(0.2, 2.0, shape) * (-1 if self.chance(0.3) else 1)
        # Where quotients are shifted by more than 31 bits or to the left no kernel is defined.
        output = Quantisation((float(np.float32(0.3 * x.quantisation.scale)),), (sum(x.dtype.limits) // 2 + 1,))
        divisor = self.builder.constant(numbers, dtype=x.dtype)
        return self.builder.divide(x, divisor, activation=self.activation(), output=output)

    def wide(self, x: Value) -> Value:
        """Some functions of int16, to which values are brought, of uint8 by way of int8 or not, and back to int8."""
        narrow = x if x.dtype is DType.INT8 else self.builder.quantize(x, dtype=DType.INT8)
        x = self.builder.quantize(x if self.chance(0.5) else narrow, dtype=DType.INT16)
        for _ in range(self.integer(0, 2)):
            x = self.function(x)
        if self.chance(0.2):
            x = self.builder.quantize(x)
        return self.builder.quantize(x, narrow.quantisation if self.chance(0.3) else None, dtype=DType.INT8)

    def softmax(self, x: Value) -> Value:
        """SOFTMAX, which stays on the CPU and cuts the network in two."""
        return self.builder.softmax(x, beta=1.0 if self.chance(0.5) else float(self.integer(1, 8)) / 4)

    def normalised(self, x: Value) -> Value:
        """L2_NORMALIZATION or LOG_SOFTMAX, of 8 bits alone."""
        x = self.builder.quantize(x, dtype=DType.INT8) if x.dtype is DType.INT16 else x
        # Logarithms are defined for scales above 2^-26.
        if self.chance(0.5) and x.quantisation.scale > 2.0**-25:
            return self.builder.log_softmax(x)
        return self.builder.l2_normalization(x)

    def binary(self, x: Value) -> Value:
        """An operator of two operands: a value and itself, a constant, a mean of it or another network input.

        Constants and inputs are repeated along some axes or none, and so may the value be to an input, or both to each
        other; MAXIMUM and MINIMUM compare with any quantisation.
        """
        kinds = [kind for kind, one in BINARY.items() if x.dtype in one.types]
        kind = "ADD" if self.chance(0.3) else kinds[self.integer(0, len(kinds) - 1)]
        if kind in ("MUL", "SQUARED_DIFFERENCE") and x.quantisation.scale > _LARGEST_FACTOR:
            kind = "SUB"
        if self.chance(0.1) and len(x.shape) == 4:
            # Five dimensions for one operator, as a group of channels has them.
            depth = self.divisor(x.shape[3])
            split = self.builder.reshape(x, (*x.shape[:3], x.shape[3] // depth, depth))
            return self.builder.reshape(self._with_another(kind, split), x.shape)
        return self._with_another(kind, x, widens=kind != "PRELU" or x.dtype is not DType.UINT8)

    def _with_another(self, kind: str, x: Value, widens: bool = False) -> Value:
        """`widens`: an input may have several places along an axis of which the value has one."""
        function, how = BINARY[kind], self.integer(0, 4)
        dtype = function.second(x.dtype)
        # Differences of a value from itself, or from the mean of one pixel, are nothing: `zero_output` draws these.
        is_difference = kind in ("SUB", "SQUARED_DIFFERENCE")
        if how == 0 and not is_difference:
            other = x
        elif how == 1 and len(x.shape) == 4 and self.heads and not is_difference:
            other = self.builder.mean(x, keep_dims=True)
        elif how <= 3:
            shape = () if self.chance(0.2) else self._repeated(x.shape)
            other = self._constant(shape, dtype)
        else:
            shape = self._repeated(x.shape) or x.shape
            pairs = zip(shape, x.shape[-len(shape) :], strict=True)
            if widens and self.chance(0.5):
                shape = tuple(self.integer(2, 4) if own == 1 else extent for extent, own in pairs)
            other = self.builder.input(shape, dtype=dtype)
        other = other if other.dtype is dtype else self.builder.quantize(other, dtype=dtype)
        operands = (x, other) if kind == "PRELU" or self.chance(0.5) else (other, x)
        output = None
        if function.keeps:
            output = x.quantisation if self.chance(0.7) else self.quantisation(x)
        # Sums are drawn most often, other kinds with activations so that all of them come.
        fused = self.activation(0.5 if kind == "ADD" else 0.2) if function.fuses else Activation.NONE
        return self.builder.binary(kind, *operands, activation=fused, output=output)

    def _constant(self, shape: tuple[int, ...], dtype: DType) -> Value:
        """A constant operand, or what an operator makes of constants alone."""
        if self.chance(0.15):
            number = self.integer(-1, 1)
            constant = self.builder.constant(np.full(shape, float(number)), dtype=dtype)
            # As converters leave a constant of another scale than the network wants.
            return self.builder.quantize(constant, dtype=dtype) if number == -1 else constant
        if shape and self.heads and self.chance(0.15):
            rows = self.builder.constant(self.rng.standard_normal((*shape[:-1], self.integer(1, 8))), dtype=dtype)
            return self.builder.fully_connected(rows, shape[-1], keep_num_dims=True, activation=self.activation())
        return self.builder.constant(self.rng.standard_normal(shape), dtype=dtype)

    def _repeated(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that is repeated to `shape`: that itself, one extent for each channel, or any extents and ranks."""
        if self.chance(0.3):
            return shape
        if self.chance(0.4):
            return shape[-1:]
        first = self.integer(0, len(shape) - 1)
        return tuple(1 if self.chance(0.4) else extent for extent in shape)[first:]

    # Several operators.

    def residual(self, x: Value) -> Value:
        """One or two operators that keep the shape, and an ADD around them."""
        x = self.image(x) if len(x.shape) == 4 or not self.heads else x
        if len(x.shape) != 4:
            y = self.builder.fully_connected(x, x.shape[-1], keep_num_dims=True) if x.shape[-1] <= 256 else x
            y = self.builder.quantize(y)
        else:
            y = self.builder.depthwise(x, 3, activation=self.activation()) if self.chance(0.6) else x
            if self.heads and self.chance(0.3):
                y = self.builder.fully_connected(y, x.shape[3], keep_num_dims=True, activation=self.activation())
            else:
                y = self.builder.conv2d(y, x.shape[3], self.integer(0, 1) * 2 + 1, activation=self.activation())
        operands = (x, y) if self.chance(0.5) else (y, x)
        return self.builder.add(*operands, activation=self.activation(), output=self.quantisation(x))

    def smaller(self, x: Value) -> Value:
        """The value, reduced where it has grown beyond what a small network should carry."""
        while math.prod(x.shape) > _MOST_ELEMENTS:
            if len(x.shape) != 4 or x.shape[0] > 2:
                pixels = math.prod(x.shape[:-1])
                height = max(n for n in range(1, math.isqrt(pixels) + 1) if pixels % n == 0)
                x = self.builder.reshape(x, (1, height, pixels // height, x.shape[-1]))
            if x.shape[3] > self.max_channels:
                x = self.builder.conv2d(x, self.max_channels, 1)
            else:
                x = self.builder.max_pool(x, 2, stride=2, padding="SAME")
        return x


def _span(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns that a dilated kernel spans."""
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1
