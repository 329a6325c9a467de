"""Real-valued (float64) operators, by which built networks are calibrated. Nothing here is bit-exact to anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ..ir import EIGHT_BIT, QUANTISED, Activation, DType, Quantisation, Window
from ..ir.operators import ACTIVATION_OPERATORS
from ..judge.reference.windows import correlate, output_size, pad_spatial, tap
from ..util.records import dataclass
from .calibration import Real, coarse_scale

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
    """A function of each element of one input, without options, and the `types` that it is drawn for.

    `takes` gives for the input's quantisation one near it with which the function is defined everywhere, `makes` the
    output's where kernels make no other, else None. `calibrated` outputs have no drawn scales: finer ones would leave
    32 bits.
    """

    compute: Callable[[Real], Real]
    types: tuple[DType, ...] = EIGHT_BIT
    takes: Callable[[Quantisation, DType], Quantisation] | None = None
    makes: Callable[[DType], Quantisation | None] = lambda _: None
    calibrated: bool = False


def _positive(given: Quantisation, dtype: DType) -> Quantisation:
    return Quantisation(given.scales, (0 if dtype is DType.INT16 else dtype.limits[0],))


def _small(given: Quantisation, dtype: DType) -> Quantisation:
    """Reals below 8, so that results are numbers of 32 bits, and of 16 where a kernel has no more, on drawn scales."""
    lowest, highest = dtype.limits
    return Quantisation((coarse_scale(min(given.scale, 8.0 / (highest - lowest + 1))),), given.zero_points)


def _fixed(dtype: DType, of_eight: Quantisation | None) -> Quantisation | None:
    """What kernels of int16 make of functions that stay between -1 and 1; of 8 bits as given."""
    return Quantisation((1.0 / 32768,), (0,)) if dtype is DType.INT16 else of_eight


_SIGNED = (DType.INT8,)
_SIGNED_OR_SIXTEEN = (DType.INT8, DType.INT16)
_ALL = QUANTISED


@dataclass(frozen=True)
class Binary:
    """A function of the elements of two inputs, and the `types` that it is drawn for.

    `fuses`: it may have an activation. `keeps`: both inputs and the output have one quantisation, as stored values are
    compared. `narrow`: the second input is int8 where the first is int16.
    """

    compute: Callable[[Real, Real], Real]
    types: tuple[DType, ...] = EIGHT_BIT
    fuses: bool = False
    keeps: bool = False
    narrow: bool = False

    def second(self, first: DType) -> DType:
        """The type of the second input."""
        return DType.INT8 if self.narrow and first is DType.INT16 else first


UNARY: Mapping[str, Unary] = {
    "ABS": Unary(np.abs, _ALL),
    "ELU": Unary(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x), _SIGNED),
    "EXP": Unary(lambda x: np.exp(np.clip(x, -8, 8)), _SIGNED_OR_SIXTEEN, takes=_small, calibrated=True),
    "HARD_SWISH": Unary(lambda x: np.clip(x, -8, 8) * np.clip(x + 3, 0, 6) / 6, takes=_small, calibrated=True),
    "LOG": Unary(lambda x: np.log(np.maximum(x, 1e-6)), _SIGNED_OR_SIXTEEN),
    "LOGISTIC": Unary(
        lambda x: (1 + np.tanh(x / 2)) / 2,
        _ALL,
        makes=lambda dtype: _fixed(dtype, Quantisation((1.0 / 256,), (dtype.limits[0],))),
    ),
    "NEG": Unary(np.negative, _SIGNED_OR_SIXTEEN),
    "RELU_0_TO_1": Unary(lambda x: np.clip(x, 0, 1)),
    "RSQRT": Unary(lambda x: 1 / np.sqrt(np.maximum(x, 1e-6)), _SIGNED, takes=_positive),
    "SQRT": Unary(lambda x: np.sqrt(np.maximum(x, 0)), _SIGNED, takes=_positive),
    "TANH": Unary(np.tanh, _ALL, makes=lambda dtype: _fixed(dtype, None)),
    **{
        kind: Unary(partial(activate, activation=activation), EIGHT_BIT if kind == "RELU_N1_TO_1" else _ALL)
        for kind, activation in ACTIVATION_OPERATORS.items()
    },
}
"""By kind; random networks draw all of them."""


def gelu(x: Real) -> Real:
    """GELU by its approximation, which calibration cannot tell from the exact one."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), dtype=np.float64)


def leaky_relu(x: Real, alpha: float) -> Real:
    """`alpha` times what is negative."""
    return np.where(x < 0, alpha * x, x)


BINARY: Mapping[str, Binary] = {
    "ADD": Binary(np.add, QUANTISED, fuses=True),
    "MAXIMUM": Binary(np.maximum, QUANTISED, keeps=True),
    "MINIMUM": Binary(np.minimum, QUANTISED, keeps=True),
    "MUL": Binary(np.multiply, QUANTISED, fuses=True),
    "PRELU": Binary(lambda x, slope: np.where(x >= 0, x, x * slope), QUANTISED, narrow=True),
    "SQUARED_DIFFERENCE": Binary(lambda a, b: (a - b) ** 2, QUANTISED),
    "SUB": Binary(np.subtract, QUANTISED, fuses=True),
}
"""By kind; random networks draw all of them."""


REDUCTIONS: Mapping[str, Callable[[Real, tuple[int, ...], bool], Real]] = {
    "MEAN": lambda x, axes, keep: np.asarray(x.mean(axis=axes, keepdims=keep)),
    "REDUCE_MAX": lambda x, axes, keep: np.asarray(x.max(axis=axes, keepdims=keep)),
    "REDUCE_MIN": lambda x, axes, keep: np.asarray(x.min(axis=axes, keepdims=keep)),
    "SUM": lambda x, axes, keep: np.asarray(x.sum(axis=axes, keepdims=keep)),
}
"""Reductions over axes, which are kept or not."""


def conv(x: Real, weights: Real, bias: Real | None, window: Window) -> Real:
    """Convolution of NHWC by OHWI; weights of fewer inputs make groups of channels."""
    padded = np.asarray(pad_spatial(x, window, 0), dtype=np.float64)
    groups = x.shape[3] // weights.shape[3]
    parts = zip(np.split(padded, groups, axis=3), np.split(weights, groups), strict=True)
    out = np.concatenate([correlate(part, own, window) for part, own in parts], axis=3)
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


def transpose_conv(x: Real, weights: Real, bias: Real | None, window: Window, size: tuple[int, int]) -> Real:
    """What a convolution of `window` over an image of `size` takes back to that image; weights OHWI."""
    batch, rows, columns, _ = x.shape
    spread = np.zeros((batch, size[0] + 2 * window.kernel_h, size[1] + 2 * window.kernel_w, weights.shape[0]))
    for y, x_ in np.ndindex(rows, columns):
        top = y * window.stride_h - window.pad_top + window.kernel_h
        left = x_ * window.stride_w - window.pad_left + window.kernel_w
        patch = np.einsum("ni,ohwi->nhwo", x[:, y, x_], weights)
        spread[:, top : top + window.kernel_h, left : left + window.kernel_w] += patch
    top, left = window.kernel_h, window.kernel_w
    out = spread[:, top : top + size[0], left : left + size[1]]
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


def log_softmax(x: Real) -> Real:
    """Logarithms of softmax over the last axis."""
    below = x - x.max(axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)), dtype=np.float64)


def l2_normalization(x: Real) -> Real:
    """Rows of the last axis divided by the roots of their sums of squares."""
    return np.asarray(x / np.sqrt(np.maximum((x**2).sum(axis=-1, keepdims=True), 1e-12)), dtype=np.float64)


def softmax(x: Real, beta: float) -> Real:
    """Softmax over the last axis."""
    e = np.exp(beta * (x - x.max(axis=-1, keepdims=True)))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), dtype=np.float64)
