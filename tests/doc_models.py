"""Networks that the pages' examples take for given: small, quantised, in the working directory.

A page names them in a comment above its first example. Random weights, the same ones every time.
"""

from __future__ import annotations

from pathlib import Path

from ethoscade.ir import Activation
from ethoscade.testing import ModelBuilder


def person(path: str = "person.tflite", channels: int = 24) -> None:
    """A detector of people in small images: a stem, four separable convolutions, a mean."""
    builder = ModelBuilder(name="person", seed=7)
    x = builder.input((1, 48, 48, 4), name="image")
    x = builder.conv2d(x, 16, 3, stride=2, activation=Activation.RELU6, name="stem")
    for index, (made, stride) in enumerate([(channels, 1), (channels, 1), (2 * channels, 2), (2 * channels, 1)]):
        x = builder.depthwise(x, 3, stride=stride, activation=Activation.RELU6, name=f"filter{index}")
        x = builder.conv2d(x, made, 1, activation=Activation.RELU6, name=f"mix{index}")
    builder.mean(x)
    Path(path).write_bytes(builder.build())


def segmentation(path: str = "segmentation.tflite") -> None:
    """Sixteen classes for each pixel of a small image, by way of a smaller one."""
    builder = ModelBuilder(name="segmentation", seed=7)
    x = builder.conv2d(builder.input((1, 48, 48, 4), name="image"), 8, 3, stride=2, activation=Activation.RELU6)
    x = builder.resize_nearest(builder.conv2d(x, 16, 3, activation=Activation.RELU6), (48, 48))
    builder.conv2d(x, 16, 3)
    Path(path).write_bytes(builder.build())


def words(path: str = "words.tflite") -> None:
    """A spotter of words with a filter that is longer than the NPU's limit."""
    builder = ModelBuilder(name="words", seed=3)
    x = builder.input((1, 98, 1, 16), name="spectrum")
    x = builder.conv2d(x, 16, (3, 1), activation=Activation.RELU, name="short")
    x = builder.conv2d(x, 8, (80, 1), activation=Activation.RELU, name="long")
    x = builder.fully_connected(builder.mean(x), 12, name="scores")
    builder.softmax(x)
    Path(path).write_bytes(builder.build())


def spoken(path: str = "kws.tflite") -> None:
    """What the tutorial trains: a spotter of twelve words in a second of sound."""
    builder = ModelBuilder(name="kws", seed=5)
    x = builder.input((1, 49, 10, 1), name="sound")
    x = builder.conv2d(x, 64, (10, 4), stride=2, activation=Activation.RELU, name="stem")
    x = builder.depthwise(x, 3, activation=Activation.RELU, name="filter")
    x = builder.conv2d(x, 64, 1, activation=Activation.RELU, name="mix")
    x = builder.fully_connected(builder.mean(x), 12, name="scores")
    builder.softmax(x)
    Path(path).write_bytes(builder.build())


def wake_word(path: str = "wake_word.tflite") -> None:
    """Separable convolutions along time without padding, in windows of 30 rows."""
    builder = ModelBuilder(name="wake_word", seed=5)
    x = builder.input((1, 30, 1, 40), name="features")
    for kernel, channels in ((3, 32), (5, 32), (10, 32), (15, 16)):
        x = builder.conv2d(builder.depthwise(x, (kernel, 1), padding="VALID"), channels, 1, activation=Activation.RELU)
    builder.softmax(builder.fully_connected(builder.reshape(x, (1, 16)), 3))
    Path(path).write_bytes(builder.build())
