"""Random small networks for property tests: every choice comes from one seeded generator.

Owns what is drawn and with which odds. The networks cover chains, residuals and branches, kernels and strides of
unequal sides, dilation, SAME, VALID and explicit padding, odd sizes, pools, both 8-bit types, weights quantised per
tensor and per channel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir import Activation, DType
from .builder import ModelBuilder
from .recorder import Value

_ACTIVATIONS = (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)
_KERNELS = (1, 1, 2, 3, 3, 3, 5)


class _Drawing:
    """Draws operators onto a builder."""

    def __init__(self, builder: ModelBuilder, rng: np.random.Generator, max_channels: int) -> None:
        self.builder = builder
        self.rng = rng
        self.max_channels = max_channels

    def integer(self, low: int, high: int) -> int:
        """low <= n <= high."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return bool(self.rng.random() < probability)

    def channels(self) -> int:
        """Up to `max_channels`, often a multiple of 16, which the NPU stores and splits differently."""
        bricks = self.max_channels // 16
        if bricks and self.chance(0.5):
            return 16 * self.integer(1, bricks)
        return self.integer(1, self.max_channels)

    def activation(self) -> Activation:
        """Any fused activation, none in half of the cases."""
        return Activation.NONE if self.chance(0.5) else _ACTIVATIONS[self.integer(1, 3)]

    def kernel(self) -> tuple[int, int]:
        """Mostly square."""
        side = _KERNELS[self.integer(0, len(_KERNELS) - 1)]
        return (side, side) if self.chance(0.75) else (side, _KERNELS[self.integer(0, len(_KERNELS) - 1)])

    def stride(self, square: bool) -> tuple[int, int]:
        """1 to 3, mostly 1."""
        first = self.integer(1, 3) if self.chance(0.4) else 1
        return (first, first) if square or self.chance(0.8) else (first, self.integer(1, 3))

    def padding(self, x: Value, span: tuple[int, int]) -> str:
        """VALID only where a kernel that spans `span` fits."""
        fits = x.shape[1] >= span[0] and x.shape[2] >= span[1]
        return "VALID" if fits and self.chance(0.4) else "SAME"

    def conv(self, x: Value) -> Value:
        """CONV_2D."""
        kernel = self.kernel()
        # TFLite's optimised kernels and the NPU both take either a stride or a dilation.
        dilation = self.integer(1, 2)
        stride = (1, 1) if dilation > 1 else self.stride(square=False)
        span = ((kernel[0] - 1) * dilation + 1, (kernel[1] - 1) * dilation + 1)
        return self.builder.conv2d(
            x,
            self.channels(),
            kernel,
            stride=stride,
            dilation=dilation,
            padding=self.padding(x, span),
            activation=self.activation(),
        )

    def depthwise(self, x: Value) -> Value:
        """DEPTHWISE_CONV_2D, now and then with a multiplier where the channels allow it."""
        kernel = self.kernel()
        multiplier = self.integer(2, 4) if self.chance(0.2) and x.shape[3] * 4 <= self.max_channels else 1
        dilation = self.integer(1, 2)
        stride = (1, 1) if dilation > 1 else self.stride(square=True)
        span = ((kernel[0] - 1) * dilation + 1, (kernel[1] - 1) * dilation + 1)
        return self.builder.depthwise(
            x,
            kernel,
            multiplier=multiplier,
            stride=stride,
            dilation=dilation,
            padding=self.padding(x, span),
            activation=self.activation(),
        )

    def pool(self, x: Value) -> Value:
        """AVERAGE_POOL_2D or MAX_POOL_2D."""
        kernel = self.kernel()
        make = self.builder.max_pool if self.chance(0.5) else self.builder.average_pool
        return make(
            x, kernel, stride=self.stride(square=False), padding=self.padding(x, kernel), activation=self.activation()
        )

    def pad(self, x: Value) -> Value:
        """PAD around the image, and a convolution without padding of its own behind it where one fits."""
        amounts = [(self.integer(0, 2), self.integer(0, 2)) for _ in range(2)]
        padded = self.builder.pad(x, [(0, 0), *amounts, (0, 0)])
        if min(padded.shape[1:3]) < 3:
            return padded
        if self.chance(0.5):
            return self.builder.depthwise(padded, 3, stride=self.integer(1, 2), padding="VALID")
        return self.builder.conv2d(padded, self.channels(), 3, padding="VALID")

    def residual(self, x: Value) -> Value:
        """One or two operators that keep the shape, and an ADD around them."""
        y = x
        if self.chance(0.6):
            y = self.builder.depthwise(y, 3, activation=self.activation())
        y = self.builder.conv2d(y, x.shape[3], self.integer(0, 1) * 2 + 1, activation=self.activation())
        operands = (x, y) if self.chance(0.5) else (y, x)
        return self.builder.add(*operands, activation=self.activation())

    def branches(self, x: Value) -> Value:
        """SPLIT or SPLIT_V of the channels, a convolution for each piece, and their ADD or CONCATENATION."""
        if x.shape[3] == 1:
            return self.residual(x)
        if x.shape[3] % 2 == 0 and self.chance(0.5):
            pieces = self.builder.split(x, 2)
        else:
            pieces = self.builder.split(x, (self.integer(1, x.shape[3] - 1), -1))
        channels = self.channels()
        left = self.builder.conv2d(pieces[0], channels, 2 * self.integer(0, 1) + 1, activation=self.activation())
        if self.chance(0.5):
            right = self.builder.conv2d(pieces[1], channels, 2 * self.integer(0, 1) + 1, activation=self.activation())
            return self.builder.add(left, right)
        right = self.builder.conv2d(pieces[1], self.channels(), 1, output=left.quantisation)
        return self.builder.concatenate([left, right, left] if self.chance(0.2) else [left, right])

    def standalone(self, x: Value) -> Value:
        """QUANTIZE or an activation of its own."""
        if self.chance(0.5):
            return self.builder.quantize(x)
        return self.builder.relu(x, activation=_ACTIVATIONS[self.integer(1, 2)])

    def head(self, x: Value) -> None:
        """Nothing, or a classifier of some kind."""
        b = self.builder
        if self.chance(0.5):
            return
        if self.chance(0.5):
            x = b.mean(x, keep_dims=self.chance(0.5))
            x = b.reshape(x, (x.shape[0], x.shape[-1])) if len(x.shape) == 4 else x
        elif self.chance(0.5):
            x = b.average_pool(x, (x.shape[1], x.shape[2]))
        x = b.fully_connected(x, self.integer(2, 24), activation=self.activation())
        if self.chance(0.5):
            b.softmax(x)


def random_network(
    seed: int,
    *,
    max_operators: int = 8,
    max_resolution: int = 24,
    max_channels: int = 32,
    dtype: DType | None = None,
    heads: bool = True,
) -> bytes:
    """A network of 1 to `max_operators` drawn steps (a step is one to three operators) and perhaps a classifier.

    `dtype` None draws int8 (mostly) or uint8; `heads` False leaves out MEAN, FULLY_CONNECTED and SOFTMAX.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    if dtype is None:
        dtype = DType.UINT8 if rng.random() < 0.3 else DType.INT8
    builder = ModelBuilder(f"random_{seed}", dtype=dtype, per_channel=bool(rng.random() < 0.8), seed=seed)
    draw = _Drawing(builder, rng, max_channels)
    size = [draw.integer(1, max_resolution) for _ in range(2)]
    x = builder.input((1, *size, draw.channels()), name="input")
    steps: tuple[tuple[float, Callable[[Value], Value]], ...] = (
        (0.3, draw.conv),
        (0.15, draw.depthwise),
        (0.15, draw.pool),
        (0.1, draw.pad),
        (0.15, draw.residual),
        (0.1, draw.branches),
        (0.05, draw.standalone),
    )
    odds = [p for p, _ in steps]
    for _ in range(draw.integer(1, max_operators)):
        x = steps[int(rng.choice(len(steps), p=odds))][1](x)
    if heads:
        draw.head(x)
    return builder.build()
