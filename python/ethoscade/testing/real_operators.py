"""Real-valued (float64) operators, by which built networks are calibrated. Nothing here is bit-exact to anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..ir import EIGHT_BIT, Activation, DType, Window
from ..judge.reference.windows import correlate, output_size, pad_spatial, tap
from ..operators import ACTIVATION_OPERATORS
from .calibration import Real

_BOUNDS = {
    Activation.NONE: (-np.inf, np.inf),
    Activation.RELU: (0.0, np.inf),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}


def activate(x: Real, activation: Activation) -> Real:
    """`x` clamped to the activation's bounds."""
    return np.clip(x, *_BOUNDS[activation])


@dataclass(frozen=True)
class Unary:
    """A function of each element of one input, without options, and the `types` that it is drawn for."""

    compute: Callable[[Real], Real]
    types: tuple[DType, ...] = EIGHT_BIT


@dataclass(frozen=True)
class Binary:
    """A function of the elements of two inputs, and the `types` that it is drawn for.

    `fuses`: it may have an activation. `keeps`: both inputs and the output have one quantisation, as stored values are
    compared.
    """

    compute: Callable[[Real, Real], Real]
    types: tuple[DType, ...] = EIGHT_BIT
    fuses: bool = False
    keeps: bool = False


UNARY: Mapping[str, Unary] = {
    "ABS": Unary(np.abs, (DType.INT8,)),
    **{kind: Unary(partial(activate, activation=activation)) for kind, activation in ACTIVATION_OPERATORS.items()},
}
"""By kind; random networks draw all of them."""


BINARY: Mapping[str, Binary] = {
    "ADD": Binary(np.add, fuses=True),
    "MAXIMUM": Binary(np.maximum, keeps=True),
    "MINIMUM": Binary(np.minimum, keeps=True),
    "MUL": Binary(np.multiply, fuses=True),
    "PRELU": Binary(lambda x, slope: np.where(x >= 0, x, x * slope)),
    "SQUARED_DIFFERENCE": Binary(lambda a, b: (a - b) ** 2, (DType.INT8,)),
    "SUB": Binary(np.subtract, fuses=True),
}
"""By kind; random networks draw all of them."""


def conv(x: Real, weights: Real, bias: Real | None, window: Window) -> Real:
    """Convolution of NHWC by OHWI."""
    out = correlate(np.asarray(pad_spatial(x, window, 0), dtype=np.float64), weights, window)
    return out if bias is None else out + bias


def depthwise(x: Real, weights: Real, bias: Real | None, window: Window) -> Real:
    """Depthwise convolution of NHWC by 1HWC."""
    x = np.repeat(x, weights.shape[3] // x.shape[3], axis=3)
    padded = np.asarray(pad_spatial(x, window, 0), dtype=np.float64)
    out = np.zeros((x.shape[0], *output_size(padded.shape, window), x.shape[3]))
    for ky in range(window.kernel_h):
        for kx in range(window.kernel_w):
            out += np.asarray(tap(padded, window, ky, kx), dtype=np.float64) * weights[0, ky, kx]
    return out if bias is None else out + bias


def average_pool(x: Real, window: Window) -> Real:
    """Mean over the part of each window that lies inside the image."""
    ones = np.ones((1, 1, 1, x.shape[3]))
    ones = np.broadcast_to(ones, (1, window.kernel_h, window.kernel_w, x.shape[3]))
    inside = np.ones((1, *x.shape[1:]))
    return depthwise(x, ones, None, window) / depthwise(inside, ones, None, window)


def max_pool(x: Real, window: Window) -> Real:
    """Maximum over the part of each window that lies inside the image."""
    padded = np.asarray(pad_spatial(x, window, -np.inf), dtype=np.float64)
    taps = [tap(padded, window, ky, kx) for ky in range(window.kernel_h) for kx in range(window.kernel_w)]
    return np.asarray(np.max(np.stack(taps), axis=0), dtype=np.float64)


def softmax(x: Real, beta: float) -> Real:
    """Softmax over the last axis."""
    e = np.exp(beta * (x - x.max(axis=-1, keepdims=True)))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), dtype=np.float64)
