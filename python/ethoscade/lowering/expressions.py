"""Index expressions that operator families share: what an operation reads to make one element.

Owns the reads of points, windows and depths in the language of `te`. Checks nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Window
from . import views
from .feature_maps import ConstantMap, FeatureMap
from .npu import Upscale
from .te import Access, Affine, Axis, Compute, index


def points(
    name: str,
    made: views.Shape3,
    ifm: FeatureMap,
    second: FeatureMap | ConstantMap | None = None,
    steps: Window = views.POINT,
    first: tuple[int, int] = (0, 0),
    upscale: Upscale = Upscale.NONE,
) -> Compute:
    """out[n, h, w, c] = f(in0[n, (top + s*h) // u, (left + s*w) // u, c], in1[n, h, w, c]), of what views see.

    The second operand is read at its only row, column or channel where the first has more. `steps` has the strides s,
    `first` is the top row and the left column.
    """
    row, column = index(first[0], h=steps.stride_h), index(first[1], w=steps.stride_w)
    own = (row // upscale.factor, column // upscale.factor, index(ifm.first_channel, c=1))
    reads = [_access(0, ifm, own)]
    if second is not None:
        rows, columns, channels = (mine == whole for mine, whole in zip(second.shape, ifm.shape, strict=True))
        kept = (index(h=int(rows)), index(w=int(columns)), index(second.first_channel, c=int(channels)))
        reads.append(_access(1, second, kept))
    return Compute(name, _axes(made), (), tuple(reads))


def windows(
    name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3, upscale: Upscale = Upscale.NONE
) -> Compute:
    """out[n, h, w, c] = f over kh, kw of in[n, s*h + d*kh - top, s*w + d*kw - left, c]: pools, depthwise operations."""
    read = _under(window, ifm_shape, index(c=1), upscale)
    return Compute(name, _axes(ofm_shape), _taps(window), (read,))


def whole_windows(
    name: str,
    window: Window,
    ifm_shape: views.Shape3,
    ofm_shape: views.Shape3,
    upscale: Upscale = Upscale.NONE,
    first: int = 0,
    depth: int | None = None,
) -> Compute:
    """out[n, h, w, c] = sum over kh, kw, ic of in[n, s*h + d*kh - top, s*w + d*kw - left, first + ic] * weight.

    `depth` are the channels of the input where not all are read.
    """
    seen = ifm_shape if depth is None else (*ifm_shape[:2], depth)
    read = _under(window, seen, index(first, ic=1), upscale)
    return Compute(name, _axes(ofm_shape), (*_taps(window), _depth(ifm_shape)), (read,))


def from_there(compute: Compute, first: tuple[int, int]) -> Compute:
    """The same of an only input of which the row and column `first` are taken for the first ones."""
    (read,) = compute.reads
    n, row, column, channel = read.indices
    row, column = (
        replace(at, constant=at.constant + by * at.divisor) for at, by in zip((row, column), first, strict=True)
    )
    return replace(compute, reads=(replace(read, indices=(n, row, column, channel)),))


def depths(name: str, ifm: FeatureMap) -> Compute:
    """out[n, h, w, 0] = sum over ic of in[n, h, w, ic]."""
    read = _access(0, ifm, (index(h=1), index(w=1), index(ic=1)))
    return Compute(name, _axes((*ifm.shape[:2], 1)), (_depth(ifm.shape),), (read,))


def _axes(shape: views.Shape3) -> tuple[Axis, Axis, Axis, Axis]:
    """The spatial axes n, h, w, c of an output of `shape`."""
    h, w, c = shape
    return Axis("n", 1), Axis("h", h), Axis("w", w), Axis("c", c)


def _taps(window: Window) -> tuple[Axis, Axis]:
    """Reduction axes kh and kw of a window."""
    return Axis("kh", window.kernel_h, True), Axis("kw", window.kernel_w, True)


def _depth(shape: views.Shape3) -> Axis:
    return Axis("ic", shape[2], True)


def _access(operand: int, view: FeatureMap | ConstantMap, place: tuple[Affine, Affine, Affine]) -> Access:
    """A read of an operand at one row, column and channel."""
    return Access(operand, (index(n=1), *place), (1, *view.shape[:2], view.pixel_channels))


def _under(window: Window, shape: views.Shape3, channel: Affine, upscale: Upscale) -> Access:
    """A read of operand 0 (of `shape`, enlarged) under a window, at the given channel index."""
    row = index(-window.pad_top, h=window.stride_h, kh=window.dilation_h) // upscale.factor
    column = index(-window.pad_left, w=window.stride_w, kw=window.dilation_w) // upscale.factor
    return Access(0, (index(n=1), row, column, channel), (1, *shape))
