"""Whole networks for tests, examples and benchmarks: seeded weights, calibrated quantisation, the same bytes always.

Owns architectures only. `MobileNetV1` follows Howard et al., "MobileNets" (2017), the rest are small stand-ins for
common shapes of network. Weights are random: outputs vary with the input but mean nothing.
"""

from __future__ import annotations

from ..ir import Activation, DType
from .builder import ModelBuilder
from .recorder import Value

# (stride, output channels at alpha 1) of each depthwise-separable block.
_MOBILENET_V1_BLOCKS = (
    (1, 64),
    (2, 128),
    (1, 128),
    (2, 256),
    (1, 256),
    (2, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (2, 1024),
    (1, 1024),
)

_CLASSIFIER_GAIN = 8.0  # random logits lie close together; without spreading them every probability would round to 0


def mobilenet_v1(
    alpha: float = 1.0,
    resolution: int = 224,
    classes: int = 1000,
    seed: int = 0,
    *,
    dtype: DType = DType.INT8,
    pool: str = "AVERAGE_POOL_2D",
) -> bytes:
    """MobileNetV1: 28 convolutions with ReLU6, global pool, classifier as a 1x1 CONV_2D, RESHAPE, SOFTMAX.

    `pool` is "AVERAGE_POOL_2D" or "MEAN". Input is `resolution` x `resolution` x 3, real values in [-1, 1).
    """
    b = ModelBuilder("mobilenet_v1", dtype=dtype, seed=seed)
    x = b.input((1, resolution, resolution, 3), name="input")
    x = b.conv2d(x, max(8, int(32 * alpha)), 3, stride=2, activation=Activation.RELU6)
    for stride, channels in _MOBILENET_V1_BLOCKS:
        x = b.depthwise(x, 3, stride=stride, activation=Activation.RELU6)
        x = b.conv2d(x, max(8, int(channels * alpha)), 1, activation=Activation.RELU6)
    x = b.mean(x, keep_dims=True) if pool == "MEAN" else b.average_pool(x, (x.shape[1], x.shape[2]), stride=1)
    x = b.conv2d(x, classes, 1, gain=_CLASSIFIER_GAIN)
    b.softmax(b.reshape(x, (1, classes)), name="probabilities")
    return b.build()


def tiny_conv(seed: int = 0, *, dtype: DType = DType.INT8) -> bytes:
    """Two convolutions on an 8x8x3 image: the smallest network worth cascading."""
    b = ModelBuilder("tiny_conv", dtype=dtype, seed=seed)
    x = b.input((1, 8, 8, 3), name="input")
    x = b.conv2d(x, 8, 3, activation=Activation.RELU)
    b.conv2d(x, 4, 3, stride=2, name="output")
    return b.build()


def residual_network(
    blocks: int = 3, channels: int = 16, resolution: int = 32, seed: int = 0, *, dtype: DType = DType.INT8
) -> bytes:
    """A small ResNet: `blocks` of two 3x3 convolutions and an ADD; every block but the first halves the image."""
    b = ModelBuilder("residual_network", dtype=dtype, seed=seed)
    x = b.input((1, resolution, resolution, 3), name="input")
    x = b.conv2d(x, channels, 3, activation=Activation.RELU)
    for block in range(blocks):
        stride, width = (1, channels) if block == 0 else (2, x.shape[3] * 2)
        y = b.conv2d(x, width, 3, stride=stride, activation=Activation.RELU)
        y = b.conv2d(y, width, 3)
        shortcut = x if stride == 1 else b.conv2d(x, width, 1, stride=stride)
        x = b.add(y, shortcut, activation=Activation.RELU)
    x = b.mean(x)
    b.softmax(b.fully_connected(x, 10), name="probabilities")
    return b.build()


def keyword_spotting(channels: int = 32, classes: int = 12, seed: int = 0, *, dtype: DType = DType.INT8) -> bytes:
    """A depthwise-separable keyword spotter on 49x10 features, in the manner of DS-CNN."""
    b = ModelBuilder("keyword_spotting", dtype=dtype, seed=seed)
    x = b.input((1, 49, 10, 1), name="features")
    x = b.conv2d(x, channels, (10, 4), stride=2, activation=Activation.RELU)
    for _ in range(4):
        x = b.depthwise(x, 3, activation=Activation.RELU)
        x = b.conv2d(x, channels, 1, activation=Activation.RELU)
    x = b.average_pool(x, (x.shape[1], x.shape[2]))
    x = b.reshape(x, (1, channels))
    b.softmax(b.fully_connected(x, classes, gain=_CLASSIFIER_GAIN), name="probabilities")
    return b.build()


def inverted_residuals(
    blocks: int = 4, channels: int = 8, expansion: int = 6, resolution: int = 48, seed: int = 0
) -> bytes:
    """A small MobileNetV2: expand 1x1, depthwise 3x3, project 1x1, ADD around the blocks that keep their shape."""
    b = ModelBuilder("inverted_residuals", seed=seed)
    x = b.input((1, resolution, resolution, 3), name="input")
    x = b.conv2d(x, channels, 3, stride=2, activation=Activation.RELU6)
    for block in range(blocks):
        x = _inverted_residual(b, x, expansion, 2 if block == 1 else 1)
    x = b.mean(x, keep_dims=True)
    b.conv2d(x, 10, 1, name="logits")
    return b.build()


def shuffle_units(units: int = 2, channels: int = 32, resolution: int = 24, seed: int = 0) -> bytes:
    """Units whose channels part for two branches, in the manner of ShuffleNetV2, and meet again in an ADD."""
    b = ModelBuilder("shuffle_units", seed=seed)
    x = b.input((1, resolution, resolution - 5, 3), name="input")
    x = b.conv2d(x, channels, 3, stride=2, activation=Activation.RELU)
    for _ in range(units):
        kept, worked = b.split(x, 2)
        worked = b.conv2d(worked, worked.shape[3], 1, activation=Activation.RELU)
        worked = b.conv2d(b.depthwise(worked, 3), worked.shape[3], 1)
        x = b.conv2d(b.add(kept, worked), channels, 1, activation=Activation.RELU)
    b.conv2d(b.mean(x, keep_dims=True), 10, 1, name="logits")
    return b.build()


def inception_modules(modules: int = 2, channels: int = 16, resolution: int = 24, seed: int = 0) -> bytes:
    """Modules of branches that end in a CONCATENATION, in the manner of GoogLeNet, each behind a pool that halves."""
    b = ModelBuilder("inception_modules", seed=seed)
    x = b.input((1, resolution, resolution - 5, 3), name="input")
    x = b.conv2d(x, channels, 3, activation=Activation.RELU)
    for _ in range(modules):
        x = b.max_pool(x, 3, stride=2, padding="SAME")
        first = b.conv2d(x, channels, 1, activation=Activation.RELU)
        reduced = b.conv2d(x, channels // 2, 1, activation=Activation.RELU)
        pooled = b.max_pool(x, 3, stride=1, padding="SAME")
        ends = [
            b.conv2d(y, channels, kernel, activation=Activation.RELU, output=first.quantisation)
            for y, kernel in ((reduced, 3), (pooled, 1))
        ]
        x = b.concatenate([first, *ends])
    b.conv2d(b.mean(x, keep_dims=True), 10, 1, name="logits")
    return b.build()


def _inverted_residual(b: ModelBuilder, x: Value, expansion: int, stride: int) -> Value:
    y = b.conv2d(x, x.shape[3] * expansion, 1, activation=Activation.RELU6)
    y = b.depthwise(y, 3, stride=stride, activation=Activation.RELU6)
    y = b.conv2d(y, x.shape[3], 1)
    return b.add(x, y) if stride == 1 else y
