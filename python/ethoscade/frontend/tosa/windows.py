"""Readers of operators on windows of an image, and of MATMUL: attributes and shapes.

Owns these operators' `ERROR_IF`s of the TOSA specification 1.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import DType
from ...ir.tosa import (
    AveragePool,
    Convolution,
    MatMul,
    MaxPool,
    Resize,
    ResizeMode,
    TransposeConvolution,
)
from . import schema
from .schema import ConvField, PoolField, TransposeConvField
from .site import Numbers, TosaSite

_ACCUMULATORS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}
_MODES = {schema.RESIZE_NEAREST: ResizeMode.NEAREST, schema.RESIZE_BILINEAR: ResizeMode.BILINEAR}
# RESIZE: the largest image, the largest numerator of a scale, and how far denominators, offsets and borders go.
_RESIZE_EXTENT = 16384
_RESIZE_SCALE = 1 << 11
_RESIZE_FACTOR = 16


def conv2d(site: TosaSite) -> Convolution:
    """CONV2D: weights OHWI."""
    site.expect_rank(0, 4)
    weights = site.expect_rank(1, 4)
    return _convolution(site, weights[1:-1], weights[0], weights[-1])


def conv3d(site: TosaSite) -> Convolution:
    """CONV3D: weights ODHWI."""
    site.expect_rank(0, 5)
    weights = site.expect_rank(1, 5)
    return _convolution(site, weights[1:-1], weights[0], weights[-1])


def depthwise_conv2d(site: TosaSite) -> Convolution:
    """DEPTHWISE_CONV2D: weights HWCM."""
    site.expect_rank(0, 4)
    height, width, channels, multiplier = site.expect_rank(1, 4)
    return _convolution(site, (height, width), channels * multiplier, channels)


def _convolution(site: TosaSite, kernel: Numbers, made: int, seen: int) -> Convolution:
    """A convolution of `seen` channels to `made` channels."""
    axes = len(kernel)
    pad = site.numbers(ConvField.PAD, "padding", 2 * axes)
    stride = site.numbers(ConvField.STRIDE, "stride", axes)
    dilation = site.numbers(ConvField.DILATION, "dilation", axes)
    site.at_least("padding", pad, 0)
    site.at_least("stride", stride, 1)
    site.at_least("dilation", dilation, 1)
    batch, *image, channels = site.value.shape
    if channels != seen:
        raise site.fail(f"has {channels} input channels; its weights take {seen}", value=channels)
    dilated = tuple((extent - 1) * step + 1 for extent, step in zip(kernel, dilation, strict=True))
    site.expect((batch, *_outputs(site, image, dilated, stride, pad), made))
    _check_bias(site, made)
    return Convolution(pad, stride, dilation, *_weight_points(site), _accumulator(site, ConvField.ACC_TYPE))


def _outputs(site: TosaSite, image: Sequence[int], kernel: Numbers, stride: Numbers, pad: Numbers) -> Numbers:
    """How many windows fit along each axis. Raises `ModelFormatError` unless strides end at the border exactly."""
    found = []
    for axis, (extent, window, step) in enumerate(zip(image, kernel, stride, strict=True)):
        room = extent + pad[2 * axis] + pad[2 * axis + 1] - window
        if room < 0 or room % step:
            raise site.fail(
                f"moves a window of {window} by {step} over {room + window} elements with padding; it takes steps that "
                f"end at the last element",
                value=room,
                constraint="windows that fit",
            )
        found.append(room // step + 1)
    return tuple(found)


def _check_bias(site: TosaSite, channels: int) -> None:
    (count,) = site.expect_rank(2, 1)
    if count not in (1, channels):
        raise site.fail(
            f"has a bias of {count} elements; its {channels} output channels take 1 or {channels}", value=count
        )


def _weight_points(site: TosaSite) -> tuple[int, int]:
    return site.zero_point(3, site.value), site.zero_point(4, site.values[1])


def _accumulator(site: TosaSite, field: int, wanted: DType | None = None) -> DType:
    code = site.attributes().unsigned(field)
    wanted = wanted or _ACCUMULATORS[site.value.dtype]
    if schema.DTYPES.get(code) is not wanted:
        name = schema.TYPE_NAMES[code] if code < len(schema.TYPE_NAMES) else str(code)
        raise site.fail(f"accumulates in {name}; {site.value.dtype.value} takes {wanted.name}", value=code)
    return wanted


def transpose_conv2d(site: TosaSite) -> TransposeConvolution:
    """TRANSPOSE_CONV2D: weights OHWI."""
    batch, *image, channels = site.expect_rank(0, 4)
    made, *kernel, seen = site.expect_rank(1, 4)
    pad = site.numbers(TransposeConvField.OUT_PAD, "output padding", 4)
    stride = site.numbers(TransposeConvField.STRIDE, "stride", 2)
    site.at_least("stride", stride, 1)
    if channels != seen:
        raise site.fail(f"has {channels} input channels; its weights take {seen}", value=channels)
    extents = []
    for axis, (extent, window, step) in enumerate(zip(image, kernel, stride, strict=True)):
        site.at_least("output padding", pad[2 * axis : 2 * axis + 2], 1 - window)
        extents.append((extent - 1) * step + pad[2 * axis] + pad[2 * axis + 1] + window)
    site.expect((batch, *extents, made))
    _check_bias(site, made)
    return TransposeConvolution(pad, stride, *_weight_points(site), _accumulator(site, TransposeConvField.ACC_TYPE))


def avg_pool2d(site: TosaSite) -> AveragePool:
    """AVG_POOL2D."""
    kernel, stride, pad = _pool(site)
    points = site.zero_point(1, site.value), site.zero_point(2, site.output)
    return AveragePool(kernel, stride, pad, *points, _accumulator(site, PoolField.ACC_TYPE, DType.INT32))


def max_pool2d(site: TosaSite) -> MaxPool:
    """MAX_POOL2D."""
    return MaxPool(*_pool(site))


def _pool(site: TosaSite) -> tuple[Numbers, Numbers, Numbers]:
    batch, *image, channels = site.expect_rank(0, 4)
    kernel = site.numbers(PoolField.KERNEL, "kernel", 2)
    stride = site.numbers(PoolField.STRIDE, "stride", 2)
    pad = site.numbers(PoolField.PAD, "padding", 4)
    site.at_least("kernel", kernel, 1)
    site.at_least("stride", stride, 1)
    site.at_least("padding", pad, 0)
    for axis, window in enumerate(kernel):
        if max(pad[2 * axis : 2 * axis + 2]) >= window:
            raise site.fail(f"has padding {list(pad)} beside a kernel of {list(kernel)}; each is less", value=pad)
    site.expect((batch, *_outputs(site, image, kernel, stride, pad), channels))
    return kernel, stride, pad


def matmul(site: TosaSite) -> MatMul:
    """MATMUL: [N, H, C] by [N, C, W]."""
    batch, rows, depth = site.expect_rank(0, 3)
    columns = site.expect_rank(1, 3)[2]
    site.expect_shape(1, (batch, depth, columns), "the second factor")
    site.expect((batch, rows, columns))
    return MatMul(site.zero_point(2, site.value), site.zero_point(3, site.values[1]))


def resize(site: TosaSite) -> Resize:
    """RESIZE: the scale decides the size of the output."""
    batch, *image, channels = site.expect_rank(0, 4)
    code = site.attributes().unsigned(schema.ONLY_FIELD)
    if code not in _MODES:
        raise site.fail(f"has mode {code}; it takes 1 (nearest) or 2 (bilinear)", value=code)
    mode = _MODES[code]
    if (mode is ResizeMode.NEAREST) is not (site.value.dtype is site.output.dtype):
        raise site.fail(
            f"makes {site.output.dtype.value} of {site.value.dtype.value} in mode {mode.value}; the nearest pixel "
            f"keeps its type, and the mean of several has more bits",
            tensor=site.output,
            value=site.output.dtype.value,
        )
    scale, offset, border = site.shape(1, "scale", 4), site.shape(2, "offset", 2), site.shape(3, "border", 2)
    extents = [_resized(site, image[i], scale[2 * i], scale[2 * i + 1], offset[i], border[i]) for i in (0, 1)]
    site.expect((batch, *extents, channels))
    if max(*extents, *image) >= _RESIZE_EXTENT:
        raise site.fail(
            f"makes {extents[0]}x{extents[1]} pixels of {image[0]}x{image[1]}; each extent is below {_RESIZE_EXTENT}",
            value=max(*extents, *image),
        )
    return Resize(mode, scale, offset, border)


def _resized(site: TosaSite, extent: int, numerator: int, denominator: int, offset: int, border: int) -> int:
    """Output elements along one axis. Raises `ModelFormatError` for scales, offsets and borders out of range."""
    most = _RESIZE_FACTOR * numerator
    if not (0 < numerator <= _RESIZE_SCALE and 0 < denominator < most):
        raise site.fail(
            f"has the scale {numerator}/{denominator}; the first is 1 to {_RESIZE_SCALE}, the second at least 1 and "
            f"below {_RESIZE_FACTOR} times the first",
            value=(numerator, denominator),
        )
    if not (-numerator <= offset < most and -most <= border < numerator):
        raise site.fail(
            f"has the offset {offset} and the border {border} with the scale {numerator}/{denominator}; they lie in "
            f"[{-numerator}, {most}) and [{-most}, {numerator})",
            value=(offset, border),
        )
    steps = (extent - 1) * numerator - offset + border
    if steps < 0 or steps % denominator:
        raise site.fail(
            f"divides {steps} steps of 1/{numerator} pixel by {denominator}; it takes a whole quotient", value=steps
        )
    return steps // denominator + 1
