"""FULLY_CONNECTED, SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION, QUANTIZE, DEQUANTIZE and the stand-alone RELUs.

They have neither windows nor axes, and move no elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..ir import Activation, Attrs, DType, FullyConnectedAttrs, SoftmaxAttrs, schema
from ..ir.operators import ACTIVATION_OPERATORS
from ..ir.quantised import scale_of
from .site import NotUnderstood, Site
from .windows import check_bias, check_scales, check_sums


def fully_connected(site: Site) -> FullyConnectedAttrs:
    """FULLY_CONNECTED: input of any shape, weights (outputs, inputs), optional bias (outputs)."""
    site.count(2, 3)
    ifm, weights = site.input(0, "feature map"), site.input(1, "weights")
    options = site.optional_options()
    # Of uint8 no runtime takes others than those with bounds.
    activation = site.activation(options) if site.output.dtype is DType.UINT8 else site.bounds(options)
    keep_num_dims = options is not None and bool(options.KeepNumDims())
    if options is not None and options.WeightsFormat() != schema.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise NotUnderstood("weights are stored in shuffled order")
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
    check_sums(site, options)
    check_scales(site, ifm, weights)
    return FullyConnectedAttrs(activation, keep_num_dims)


def softmax(site: Site) -> SoftmaxAttrs:
    """SOFTMAX over the last axis."""
    site.count(1)
    site.expect_shape(site.input(0, "input").shape)
    beta = float(site.options().Beta())
    if not math.isfinite(beta):
        raise NotUnderstood(f"beta is {beta}; kernels agree where it is a finite number")
    return SoftmaxAttrs(beta)


def l2_normalization(site: Site) -> Attrs:
    """L2_NORMALIZATION over the last axis."""
    site.count(1)
    ifm = site.input(0, "input")
    if (activation := site.activation(site.optional_options())) is not Activation.NONE:
        raise NotUnderstood(f"fused activation {activation.name}, which no kernel computes")
    site.expect_shape(ifm.shape)
    return None


def log_softmax(site: Site) -> Attrs:
    """LOG_SOFTMAX over the last axis."""
    site.count(1)
    site.expect_shape(site.input(0, "input").shape)
    return None


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
    "DEQUANTIZE": dequantize,
    "FULLY_CONNECTED": fully_connected,
    "L2_NORMALIZATION": l2_normalization,
    "LOG_SOFTMAX": log_softmax,
    "QUANTIZE": rescaling,
    "RELU": activation,
    "RELU6": activation,
    "RELU_N1_TO_1": activation,
    "SOFTMAX": softmax,
}
