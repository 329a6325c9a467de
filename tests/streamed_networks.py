"""Networks whose input can arrive row by row, for several files of tests."""

from __future__ import annotations

from ethoscade.testing import ModelBuilder, inverted_residuals


def image() -> bytes:
    return inverted_residuals(resolution=32)


def passed_through() -> bytes:
    """The input is an output as well."""
    b = ModelBuilder("passed_through")
    x = b.input((1, 8, 6, 8), name="input")
    b.output(b.reshape(x, (1, 384)), b.conv2d(x, 8, 3))
    return b.build()


def with_state() -> bytes:
    b = ModelBuilder("with_state")
    b.fully_connected(b.lstm(b.reshape(b.conv2d(b.input((1, 6, 1, 8), name="input"), 8, 1), (1, 6, 8)), 12), 4)
    return b.build()


def operators_behind() -> bytes:
    """The NPU reads the input, the CPU what comes of it, and then the NPU again."""
    b = ModelBuilder("operators_behind")
    x = b.conv2d(b.conv2d(b.input((1, 12, 12, 4), name="input"), 16, 3), 8, 3)
    b.conv2d(b.resize_bilinear(x, (18, 18)), 8, 3)
    return b.build()


def segmentation() -> bytes:
    """Nothing is as large as the output."""
    b = ModelBuilder("segmentation")
    x = b.conv2d(b.conv2d(b.input((1, 24, 20, 8), name="input"), 8, 3, stride=2), 16, 3)
    b.conv2d(b.resize_nearest(x, (24, 20)), 32, 3)
    return b.build()


def joined_output() -> bytes:
    """Made of pieces, one of which is a copy."""
    b = ModelBuilder("joined_output")
    x = b.input((1, 12, 10, 8), name="input")
    y = b.conv2d(b.depthwise(x, 3), 16, 1)
    b.concatenate([y, b.quantize(b.conv2d(y, 8, 3), y.quantisation)], axis=3)
    return b.build()
