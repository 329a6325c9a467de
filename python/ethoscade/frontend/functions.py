"""Functions of each element of one input: what is read of them is their shapes, and the options of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ..ir import Attrs, GeluAttrs, LeakyReluAttrs
from ..ir.quantised import scale_of
from .site import NotUnderstood, Site


def function(site: Site) -> Attrs:
    """A function without options. Converters leave shapes out behind what they do not know."""
    site.count(1)
    given, made = site.input(0, "input").shape, site.output.shape
    if given != made:
        raise NotUnderstood(f"its output has shape {list(made)} in the file, its input {list(given)}")
    return None


def leaky_relu(site: Site) -> LeakyReluAttrs:
    """LEAKY_RELU; a factor of what is negative may have either sign."""
    function(site)
    ifm, alpha = site.input(0, "input"), float(site.options().Alpha())
    if not math.isfinite(alpha):
        raise NotUnderstood(f"alpha is {alpha}; kernels agree where it is a finite number")
    if site.is_eight_bit(ifm, site.output):
        ratio = scale_of(ifm) / scale_of(site.output)
        site.check_factors(ratio, float(np.float32(abs(alpha))) * ratio)
    return LeakyReluAttrs(alpha)


def gelu(site: Site) -> GeluAttrs:
    """GELU in either of its forms; without options it is the exact one."""
    function(site)
    options = site.optional_options()
    return GeluAttrs(options is not None and bool(options.Approximate()))


FUNCTION_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    **dict.fromkeys(("ELU", "EXP", "HARD_SWISH", "LOG", "LOGISTIC", "NEG", "RSQRT", "SQRT", "TANH"), function),
    "GELU": gelu,
    "LEAKY_RELU": leaky_relu,
    "RELU_0_TO_1": function,
}
