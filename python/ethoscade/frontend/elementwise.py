"""FULLY_CONNECTED, ADD, SOFTMAX, QUANTIZE, DEQUANTIZE and the stand-alone RELUs: neither windows nor moved elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import tflite

from ..ir import AddAttrs, Attrs, DType, FullyConnectedAttrs, SoftmaxAttrs
from ..operators import ACTIVATION_OPERATORS
from ..quantised import add_headroom_bits, scale_of
from .site import NotUnderstood, Site
from .windows import check_bias, check_scales, check_sums


def fully_connected(site: Site) -> FullyConnectedAttrs:
    """FULLY_CONNECTED: input of any shape, weights (outputs, inputs), optional bias (outputs)."""
    site.count(2, 3)
    ifm, weights = site.input(0, "feature map"), site.input(1, "weights")
    options = site.optional_options()
    activation = site.activation(options)
    check_sums(site, options)
    keep_num_dims = options is not None and bool(options.KeepNumDims())
    if options is not None and options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise NotUnderstood("weights are stored in shuffled order")
    check_scales(site, ifm, weights)
    site.expect_rank(weights, 2, "weights")
    outputs, depth = weights.shape
    elements = math.prod(ifm.shape)
    if elements % depth or (keep_num_dims and (not ifm.shape or ifm.shape[-1] != depth)):
        raise site.fail(
            f"has weights '{weights.name}' for {depth} inputs; '{ifm.name}' has shape {list(ifm.shape)}",
            tensor=weights,
            value=depth,
        )
    check_bias(site, ifm, outputs)
    site.expect_shape((*ifm.shape[:-1], outputs) if keep_num_dims else (elements // depth, outputs))
    return FullyConnectedAttrs(activation, keep_num_dims)


def add(site: Site) -> AddAttrs:
    """ADD of two feature maps, the smaller repeated along dimensions of extent 1."""
    site.count(2)
    left, right = site.input(0, "first operand"), site.input(1, "second operand")
    options = site.optional_options()
    activation = site.activation(options)
    if site.output.dtype is DType.INT16 and (options is None or options.PotScaleInt16()):
        raise NotUnderstood("operands of int16 are shifted to each other, for scales that are powers of two")
    rank = max(len(left.shape), len(right.shape))
    a = (1,) * (rank - len(left.shape)) + left.shape
    b = (1,) * (rank - len(right.shape)) + right.shape
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise site.fail(
            f"adds '{left.name}' of shape {list(left.shape)} and '{right.name}' of shape {list(right.shape)}",
            tensor=right,
            value=right.shape,
        )
    site.expect_shape(tuple(max(m, n) for m, n in zip(a, b, strict=True)))
    if site.is_quantised(left, right, site.output):
        operands, headroom = max(scale_of(left), scale_of(right)), add_headroom_bits(site.output.dtype)
        site.check_factors(2.0 * operands / (scale_of(site.output) * (1 << headroom)))
    return AddAttrs(activation)


def softmax(site: Site) -> SoftmaxAttrs:
    """SOFTMAX over the last axis."""
    site.count(1)
    ifm = site.input(0, "input")
    beta = float(site.options().Beta())
    if not math.isfinite(beta):
        raise site.fail(f"has beta {beta}; it is a finite number", value=beta)
    site.expect_shape(ifm.shape)
    return SoftmaxAttrs(beta)


def dequantize(site: Site) -> Attrs:
    """DEQUANTIZE. Converters leave shapes out behind what they do not know, so its two are not compared."""
    site.count(1)
    site.input(0, "input")
    return None


def rescaling(site: Site) -> Attrs:
    """QUANTIZE, and what else makes of each element one of another quantisation and has no attributes."""
    site.count(1)
    ifm = site.input(0, "input")
    site.expect_shape(ifm.shape)
    if site.is_quantised(ifm) and site.is_quantised(site.output):
        site.check_factors(scale_of(ifm) / scale_of(site.output))
    return None


def activation(site: Site) -> Attrs:
    """RELU, RELU6 and RELU_N1_TO_1 as operators of their own."""
    attrs = rescaling(site)
    site.check_bounds(ACTIVATION_OPERATORS[site.kind])
    return attrs


ELEMENTWISE_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "ABS": rescaling,
    "ADD": add,
    "DEQUANTIZE": dequantize,
    "FULLY_CONNECTED": fully_connected,
    "QUANTIZE": rescaling,
    "RELU": activation,
    "RELU6": activation,
    "RELU_N1_TO_1": activation,
    "SOFTMAX": softmax,
}
