"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, AVERAGE_POOL_2D and MAX_POOL_2D: operators that slide a window.

Owns the translation of TensorFlow Lite's SAME and VALID into explicit padding, and what weights and biases may not
contradict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..ir import Attrs, ConvAttrs, DType, PoolAttrs, Tensor, TransposeConvAttrs, Window, schema
from ..ir.quantised import MAX_LEFT_SHIFT, MAX_WIDE_SHIFT, effective_scales
from .site import NotUnderstood, Site


def conv_2d(site: Site) -> ConvAttrs:
    """CONV_2D: feature map NHWC, weights OHWI, optional bias (O). Weights of fewer inputs make groups of channels."""
    site.count(2, 3)
    ifm, weights = site.input(0, "feature map"), site.input(1, "weights")
    options = site.options()
    site.expect_rank(ifm, 4, "feature map")
    site.expect_rank(weights, 4, "weights")
    outputs, kernel_h, kernel_w, depth = weights.shape
    if ifm.shape[3] % depth or outputs % (ifm.shape[3] // depth):
        raise site.fail(
            f"has weights '{weights.name}' for {depth} input channels; '{ifm.name}' has {ifm.shape[3]}",
            tensor=weights,
            value=depth,
        )
    check_bias(site, ifm, outputs)
    window = _window(site, options, kernel_h, kernel_w, ifm)
    _expect_feature_map(site, ifm, window, outputs)
    check_sums(site, options)
    check_scales(site, ifm, weights)
    return ConvAttrs(window, site.bounds(options))


def depthwise_conv_2d(site: Site) -> ConvAttrs:
    """DEPTHWISE_CONV_2D: feature map NHWC, weights 1HWC, optional bias (C).

    A depth multiplier of 0 in the file means "take it from the shapes", as TensorFlow Lite's kernels do.
    """
    site.count(2, 3)
    ifm, weights = site.input(0, "feature map"), site.input(1, "weights")
    options = site.options()
    site.expect_rank(ifm, 4, "feature map")
    site.expect_rank(weights, 4, "weights")
    first, kernel_h, kernel_w, outputs = weights.shape
    depth = ifm.shape[3]
    if first != 1 or outputs % depth:
        raise site.fail(
            f"has weights '{weights.name}' of shape {list(weights.shape)}; for the {depth} channels of "
            f"'{ifm.name}' they are [1, height, width, a multiple of {depth}]",
            tensor=weights,
            value=weights.shape,
        )
    check_bias(site, ifm, outputs)
    window = _window(site, options, kernel_h, kernel_w, ifm)
    _expect_feature_map(site, ifm, window, outputs)
    multiplier = int(options.DepthMultiplier())
    if multiplier not in (0, outputs // depth):
        # LiteRT takes the shapes' multiplier, Micro the stated one.
        raise NotUnderstood(f"depth multiplier is {multiplier}; '{weights.name}' makes {outputs} channels of {depth}")
    check_scales(site, ifm, weights)
    return ConvAttrs(window, site.bounds(options), outputs // depth)


def transpose_conv(site: Site) -> TransposeConvAttrs:
    """TRANSPOSE_CONV: output shape, weights OHWI, feature map NHWC, optional bias (O).

    An output shape that is not constant may become so when constants are folded; until then the output's own holds.
    """
    site.count(3, 4)
    weights, ifm, ofm = site.input(1, "weights"), site.input(2, "feature map"), site.output
    options = site.options()
    site.expect_rank(ifm, 4, "feature map")
    site.expect_rank(weights, 4, "weights")
    outputs, kernel_h, kernel_w, depth = weights.shape
    if depth != ifm.shape[3]:
        raise site.fail(
            f"has weights '{weights.name}' for {depth} input channels; '{ifm.name}' has {ifm.shape[3]}",
            tensor=weights,
            value=depth,
        )
    check_bias(site, ifm, outputs, 3)
    stated = site.input(0, "output shape")
    shape = ofm.shape if stated.data is None else tuple(site.constant_integers(0, "output shape"))
    if len(shape) != 4 or min(shape) < 1 or (shape[0], shape[3]) != (ifm.shape[0], outputs):
        raise site.fail(
            f"has output shape {list(shape)}; of '{ifm.name}' {list(ifm.shape)} it makes [{ifm.shape[0]}, height, "
            f"width, {outputs}]",
            tensor=stated,
            value=shape,
        )
    site.expect_shape(shape, " and output shape")
    window = _window(site, options, kernel_h, kernel_w, ofm)
    rows = (shape[1] + window.pad_top + window.pad_bottom - kernel_h) // window.stride_h + 1
    columns = (shape[2] + window.pad_left + window.pad_right - kernel_w) // window.stride_w + 1
    if (rows, columns) != ifm.shape[1:3]:
        raise NotUnderstood(
            f"its window makes {rows}x{columns} of its output, and not the {ifm.shape[1]}x{ifm.shape[2]} that it reads"
        )
    check_scales(site, ifm, weights)
    return TransposeConvAttrs(window, (shape[1], shape[2]), site.bounds(options))


def pool_2d(site: Site) -> PoolAttrs:
    """AVERAGE_POOL_2D and MAX_POOL_2D of a feature map NHWC."""
    site.count(1)
    ifm = site.input(0, "feature map")
    options = site.options()
    site.expect_rank(ifm, 4, "feature map")
    window = _window(site, options, int(options.FilterHeight()), int(options.FilterWidth()), ifm)
    _expect_feature_map(site, ifm, window, ifm.shape[3])
    return PoolAttrs(window, site.bounds(options))


def check_scales(site: Site, ifm: Tensor, weights: Tensor) -> None:
    """Raises `NotUnderstood` for scales of quantised tensors whose product no two kernels define alike."""
    if site.is_eight_bit(ifm, site.output) and weights.dtype is ifm.dtype:
        site.check_factors(*effective_scales(site.kind, ifm, weights, site.output))
    elif site.is_quantised(ifm, site.output) and weights.dtype is DType.INT8:
        bias = site.optional(2)
        most = MAX_LEFT_SHIFT if bias is not None and bias.dtype is DType.INT32 else MAX_WIDE_SHIFT
        site.check_factors(*effective_scales(site.kind, ifm, weights, site.output), most=most)


def check_sums(site: Site, options: Any) -> None:
    """Raises `NotUnderstood` where sums of int16 have 32 bits and no bias of int32 says so as well."""
    bias = site.optional(2)
    narrow = options is not None and int(options.QuantizedBiasType()) == schema.TensorType.INT32
    if narrow and site.output.dtype is DType.INT16 and (bias is None or bias.dtype is not DType.INT32):
        raise NotUnderstood("sums of int16 have 32 bits without a bias of int32")


def check_bias(site: Site, ifm: Tensor, outputs: int, place: int = 2) -> None:
    """The bias (input `place`) has one element per output, of int32 with 8-bit feature maps.

    With those of int16 it is of int64 or of int32, which makes sums of 32 bits. No runtime has a DEPTHWISE_CONV_2D of
    the latter; converters write it, and Vela and the NPU sum it as they do that of a CONV_2D. Raises
    `ModelFormatError`, and `NotUnderstood` where what kernels make of it depends on other bytes of the file.
    """
    bias = site.optional(place)
    if bias is None:
        return
    eight_bit = site.is_eight_bit(ifm, site.output)
    possible = (DType.INT32, DType.INT64)
    if site.kind == "TRANSPOSE_CONV" and ifm.dtype is DType.INT16 and bias.dtype is DType.INT32:
        raise NotUnderstood("kernels take its bias of int32 for one of int64, and read on behind it")
    if not eight_bit and site.is_quantised(ifm, site.output) and bias.dtype not in possible:
        raise site.fail(
            f"has bias '{bias.name}' of type {bias.dtype.value}; with int16 feature maps it is "
            f"{' or '.join(dtype.value for dtype in possible)}",
            tensor=bias,
            value=bias.dtype.value,
        )
    if eight_bit and bias.dtype is not DType.INT32:
        raise site.fail(
            f"has bias '{bias.name}' of type {bias.dtype.value}; with 8-bit feature maps it is int32",
            tensor=bias,
            value=bias.dtype.value,
        )
    if bias.shape != (outputs,) and (eight_bit or math.prod(bias.shape) != outputs):
        raise site.fail(
            f"has bias '{bias.name}' of shape {list(bias.shape)}; it makes {outputs} outputs",
            tensor=bias,
            value=bias.shape,
        )


def same_padding(extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Elements of padding (before, after) that make the output ceil(extent / stride) long; the odd one goes after."""
    outputs = -(-extent // stride)
    total = max(0, (outputs - 1) * stride + (kernel - 1) * dilation + 1 - extent)
    return total // 2, total - total // 2


def _window(site: Site, options: Any, kernel_h: int, kernel_w: int, ifm: Tensor) -> Window:
    dilations = (1, 1)
    if hasattr(options, "DilationHFactor"):
        dilations = (int(options.DilationHFactor()), int(options.DilationWFactor()))
    strides = (int(options.StrideH()), int(options.StrideW()))
    for what, values in (("filter", (kernel_h, kernel_w)), ("stride", strides), ("dilation", dilations)):
        if min(values) < 1:
            raise site.fail(f"has {what} {values[0]}x{values[1]}; both are at least 1", value=values)
    padding = int(options.Padding())
    vertical = horizontal = (0, 0)
    if padding == schema.Padding.SAME:
        vertical = same_padding(ifm.shape[1], kernel_h, strides[0], dilations[0])
        horizontal = same_padding(ifm.shape[2], kernel_w, strides[1], dilations[1])
    elif padding != schema.Padding.VALID:
        raise site.fail(f"has padding {padding}; it is 0 (SAME) or 1 (VALID)", value=padding)
    return Window(kernel_h, kernel_w, *strides, *dilations, vertical[0], horizontal[0], vertical[1], horizontal[1])


def _expect_feature_map(site: Site, ifm: Tensor, window: Window, depth: int) -> None:
    n, h, w, _ = ifm.shape
    rows = h + window.pad_top + window.pad_bottom - window.dilated_h
    columns = w + window.pad_left + window.pad_right - window.dilated_w
    if min(rows, columns) < 0:
        raise site.fail(
            f"slides a window of {window.dilated_h}x{window.dilated_w} over '{ifm.name}' of {h}x{w}: it does not fit",
            tensor=ifm,
            value=(window.dilated_h, window.dilated_w),
        )
    site.expect_shape((n, rows // window.stride_h + 1, columns // window.stride_w + 1, depth), " and its window")


WINDOW_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "AVERAGE_POOL_2D": pool_2d,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "MAX_POOL_2D": pool_2d,
    "TRANSPOSE_CONV": transpose_conv,
}
