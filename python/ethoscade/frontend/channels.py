"""SPLIT, SPLIT_V and CONCATENATION: operators that take a tensor apart along an axis, or put one together.

Owns their axes and sizes as plain numbers, and the check that the pieces are the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Activation, Attrs, ConcatenationAttrs, SplitAttrs
from .shaping import resolve_axis
from .site import NotUnderstood, Site


def split(site: Site) -> SplitAttrs:
    """SPLIT into equal pieces along a constant axis."""
    pieces = int(site.options().NumSplits())
    site.count(2, outputs=pieces)
    axis = _axis(site, axis_input=0, operand=1)
    extent = site.input(1, "input").shape[axis]
    if pieces < 1 or extent % pieces:
        raise site.fail(f"splits {extent} elements along axis {axis} into {pieces} equal pieces", value=pieces)
    return _checked(site, SplitAttrs(axis, (extent // pieces,) * pieces, operand=1))


def split_v(site: Site) -> SplitAttrs:
    """SPLIT_V into pieces of constant sizes along a constant axis; one size of -1 stands for the rest."""
    pieces = int(site.options().NumSplits())
    site.count(3, outputs=pieces)
    axis = _axis(site, axis_input=2, operand=0)
    sizes = site.constant_integers(1, "sizes")
    extent = site.input(0, "input").shape[axis]
    if len(sizes) != pieces:
        raise site.fail(f"has {len(sizes)} sizes for {pieces} pieces", value=len(sizes))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = extent - sum(sizes) - 1
    if any(size < 1 for size in sizes) or sum(sizes) != extent:
        raise site.fail(f"splits {extent} elements along axis {axis} into {sizes}", value=tuple(sizes))
    return _checked(site, SplitAttrs(axis, tuple(sizes), operand=0))


def concatenation(site: Site) -> ConcatenationAttrs:
    """CONCATENATION of tensors that differ along one axis alone."""
    site.count(1, 1 << 16)
    options = site.options()
    first = site.input(0, "input")
    axis = resolve_axis(site, int(options.Axis()), len(first.shape))
    extent = 0
    for index in range(len(site.inputs)):
        part = site.input(index, "input")
        if len(part.shape) != len(first.shape) or any(
            m != n for i, (m, n) in enumerate(zip(part.shape, first.shape, strict=True)) if i != axis
        ):
            raise site.fail(
                f"joins '{first.name}' of shape {list(first.shape)} and '{part.name}' of shape {list(part.shape)} "
                f"along axis {axis}",
                tensor=part,
                value=part.shape,
            )
        extent += part.shape[axis]
    site.expect_shape((*first.shape[:axis], extent, *first.shape[axis + 1 :]), " and axis")
    if site.activation(options) is not Activation.NONE:
        raise NotUnderstood("a fused activation of a concatenation")
    return ConcatenationAttrs(axis)


def _axis(site: Site, axis_input: int, operand: int) -> int:
    given = site.constant_integers(axis_input, "axis")
    if len(given) != 1:
        raise site.fail(f"has {len(given)} axes; it takes 1", value=len(given))
    return resolve_axis(site, given[0], len(site.input(operand, "input").shape))


def _checked(site: Site, attrs: SplitAttrs) -> SplitAttrs:
    ifm = site.input(attrs.operand, "input")
    for index, size in enumerate(attrs.sizes):
        shape = (*ifm.shape[: attrs.axis], size, *ifm.shape[attrs.axis + 1 :])
        site.expect_shape(shape, " and sizes", output=index)
    return attrs


CHANNEL_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "CONCATENATION": concatenation,
    "SPLIT": split,
    "SPLIT_V": split_v,
}
