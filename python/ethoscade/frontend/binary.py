"""The operators of two operands, element by element: ADD, SUB, MUL and their kin. The smaller operand is repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..ir import Activation, AddAttrs, ArithmeticAttrs, Attrs, DType, Tensor
from ..ir.quantised import add_headroom_bits, scale_of
from .site import NotUnderstood, Site

_NEARLY_WHOLE = 0.0011
"""LiteRT takes a logarithm for whole that is 0.001 off, in float32; what is close to that is left to it."""


def _operands(site: Site, verb: str) -> tuple[Tensor, Tensor]:
    """Both operands, where their shapes make the output's."""
    site.count(2)
    left, right = site.input(0, "first operand"), site.input(1, "second operand")
    rank = max(len(left.shape), len(right.shape))
    a = (1,) * (rank - len(left.shape)) + left.shape
    b = (1,) * (rank - len(right.shape)) + right.shape
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise site.fail(
            f"{verb} '{left.name}' of shape {list(left.shape)} and '{right.name}' of shape {list(right.shape)}",
            tensor=right,
            value=right.shape,
        )
    site.expect_shape(tuple(max(m, n) for m, n in zip(a, b, strict=True)))
    return left, right


def add(site: Site) -> AddAttrs:
    """ADD."""
    return AddAttrs(_sum(site, "adds"))


def sub(site: Site) -> ArithmeticAttrs:
    """SUB."""
    return ArithmeticAttrs(_sum(site, "subtracts"))


def _sum(site: Site, verb: str) -> Activation:
    left, right = _operands(site, verb)
    options = site.optional_options()
    activation = site.bounds(options)
    may_shift = site.output.dtype is DType.INT16 and (options is None or options.PotScaleInt16())
    if may_shift and _are_shifted(site, left, right, site.output):
        raise NotUnderstood("operands of int16 are shifted to each other, as their scales are different powers of two")
    if site.is_quantised(left, right, site.output):
        operands, headroom = max(scale_of(left), scale_of(right)), add_headroom_bits(site.output.dtype)
        site.check_factors(2.0 * operands / (scale_of(site.output) * (1 << headroom)))
    return activation


def _are_shifted(site: Site, *tensors: Tensor) -> bool:
    """Whether LiteRT shifts one operand to the other, where Micro multiplies both: they round differently.

    It does if all scales are powers of two, or nearly. With the same scale everywhere there is nothing to round.
    """
    if not site.is_quantised(*tensors):
        return True
    scales = {scale_of(tensor) for tensor in tensors}
    powers = [math.log2(scale) for scale in scales]
    return len(scales) > 1 and all(abs(power - round(power)) < _NEARLY_WHOLE for power in powers)


def mul(site: Site) -> ArithmeticAttrs:
    """MUL."""
    left, right = _operands(site, "multiplies")
    activation = site.bounds(site.optional_options())
    if site.is_quantised(left, right, site.output):
        site.check_factors(scale_of(left) * scale_of(right) / scale_of(site.output))
    return ArithmeticAttrs(activation)


def div(site: Site) -> ArithmeticAttrs:
    """DIV."""
    left, right = _operands(site, "divides")
    activation = site.activation(site.optional_options())
    if site.is_quantised(left, right, site.output):
        site.check_factors(scale_of(left) / (scale_of(right) * scale_of(site.output)))
    return ArithmeticAttrs(activation)


def compared(site: Site) -> Attrs:
    """MAXIMUM, MINIMUM and SQUARED_DIFFERENCE, which have no attributes."""
    _operands(site, "compares")
    return None


def prelu(site: Site) -> Attrs:
    """PRELU: a feature map and slopes for its values below zero, which are repeated to its shape.

    Micro's kernels, of int8 and int16, repeat the feature map as well. Slopes for int16 are int8: kernels read others
    as if they were.
    """
    ifm, slopes = _operands(site, "multiplies")
    if ifm.dtype not in (DType.INT8, DType.INT16):
        site.expect_shape(ifm.shape)
    if ifm.dtype is DType.INT16 and slopes.dtype is not DType.INT8:
        raise NotUnderstood(f"slopes for int16 are int8, and '{slopes.name}' is {slopes.dtype.value}")
    if site.is_quantised(ifm, site.output) and site.is_eight_bit(slopes):
        ratio = scale_of(ifm) / scale_of(site.output)
        site.check_factors(ratio, ratio * scale_of(slopes))
    return None


BINARY_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "ADD": add,
    "DIV": div,
    "MAXIMUM": compared,
    "MINIMUM": compared,
    "MUL": mul,
    "PRELU": prelu,
    "SQUARED_DIFFERENCE": compared,
    "SUB": sub,
}
