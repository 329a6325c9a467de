"""SPLIT and SPLIT_V: operators that take a tensor apart along an axis.

Owns their axes and sizes as plain numbers, and the check that the pieces are the whole.
"""

from __future__ import annotations

from ..ir import SplitAttrs
from .shaping import resolve_axis
from .site import NotUnderstood, Site


def split(site: Site) -> SplitAttrs:
    """SPLIT into equal pieces along a constant axis."""
    pieces = int(site.options("SplitOptions").NumSplits())
    site.count(2, outputs=pieces)
    axis = _axis(site, axis_input=0, operand=1)
    extent = site.input(1, "input").shape[axis]
    if pieces < 1 or extent % pieces:
        raise site.fail(f"splits {extent} elements along axis {axis} into {pieces} equal pieces", value=pieces)
    return _checked(site, SplitAttrs(axis, (extent // pieces,) * pieces, operand=1))


def split_v(site: Site) -> SplitAttrs:
    """SPLIT_V into pieces of constant sizes along a constant axis; one size of -1 stands for the rest."""
    pieces = int(site.options("SplitVOptions").NumSplits())
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


def _axis(site: Site, axis_input: int, operand: int) -> int:
    given = site.constant_integers(axis_input, "axis")
    if len(given) != 1:
        raise site.fail(f"has {len(given)} axes; it takes 1", value=len(given))
    return resolve_axis(site, given[0], len(site.input(operand, "input").shape))


def _checked(site: Site, attrs: SplitAttrs) -> SplitAttrs:
    ifm = site.input(attrs.operand, "input")
    made = [site.tensors[t] for t in site.outputs]
    for index, size in enumerate(attrs.sizes):
        shape = (*ifm.shape[: attrs.axis], size, *ifm.shape[attrs.axis + 1 :])
        site.expect_shape(shape, " and sizes", output=index)
    site.require_quantised(ifm, *made)
    for tensor in made:
        if tensor.quantisation != ifm.quantisation:
            raise NotUnderstood(f"it changes the quantisation from '{ifm.name}' to '{tensor.name}'")
    return attrs
