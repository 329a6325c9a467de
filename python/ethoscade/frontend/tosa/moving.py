"""Readers of reductions and of operators on places of elements: parameters and shapes.

Owns these operators' `ERROR_IF`s of the TOSA specification 1.0.
"""

from __future__ import annotations

import math

from ...ir.tosa import OneAxis, Pad, Reshape, Slice, TileCounts, Transpose
from . import schema
from .site import TosaSite


def reduction(site: TosaSite) -> OneAxis:
    """REDUCE_*: the axis stays, with one element."""
    axis = _axis(site)
    shape = site.value.shape
    site.expect((*shape[:axis], 1, *shape[axis + 1 :]))
    return OneAxis(axis)


def argmax(site: TosaSite) -> OneAxis:
    """ARGMAX: the axis goes."""
    axis = _axis(site)
    shape = site.value.shape
    site.expect((*shape[:axis], *shape[axis + 1 :]))
    return OneAxis(axis)


def reverse(site: TosaSite) -> OneAxis:
    """REVERSE."""
    site.expect(site.value.shape)
    return OneAxis(_axis(site))


def concat(site: TosaSite) -> OneAxis:
    """CONCAT: the others' extents are equal."""
    axis = _axis(site)
    shape = site.value.shape
    for place in range(1, len(site.values)):
        extent = site.expect_rank(place, len(shape))[axis]
        site.expect_shape(place, (*shape[:axis], extent, *shape[axis + 1 :]), "value")
    site.expect((*shape[:axis], sum(tensor.shape[axis] for tensor in site.values), *shape[axis + 1 :]))
    return OneAxis(axis)


def _axis(site: TosaSite) -> int:
    axis, rank = site.attributes().integer(schema.ONLY_FIELD), len(site.value.shape)
    if not 0 <= axis < rank:
        raise site.fail(f"has axis {axis}; '{site.value.name}' has {rank} dimensions", value=axis)
    return axis


def reshape(site: TosaSite) -> Reshape:
    """RESHAPE."""
    shape = site.shape(1, "new shape", len(site.output.shape))
    site.expect(shape, "its parameter says")
    if math.prod(shape) != math.prod(site.value.shape):
        raise site.fail(
            f"makes shape {list(shape)} of {list(site.value.shape)}; both have as many elements", value=shape
        )
    return Reshape(shape)


def pad(site: TosaSite) -> Pad:
    """PAD: sizes are (before, after) of each axis in turn."""
    shape = site.value.shape
    sizes = site.shape(1, "padding", 2 * len(shape))
    site.at_least("padding", sizes, 0)
    before, after = sizes[::2], sizes[1::2]
    site.expect([sum(parts) for parts in zip(before, shape, after, strict=True)])
    return Pad(before, after, site.constant(2, "padding value", site.value.dtype))


def slice_(site: TosaSite) -> Slice:
    """SLICE."""
    shape = site.value.shape
    start, size = site.shape(1, "start", len(shape)), site.shape(2, "size", len(shape))
    site.at_least("start", start, 0)
    site.at_least("size", size, 1)
    if any(first + count > extent for first, count, extent in zip(start, size, shape, strict=True)):
        raise site.fail(
            f"takes {list(size)} elements from {list(start)} on of '{site.value.name}' of shape {list(shape)}; they "
            f"lie inside",
            value=size,
        )
    site.expect(size, "its parameter says")
    return Slice(start, size)


def tile(site: TosaSite) -> TileCounts:
    """TILE."""
    shape = site.value.shape
    multiples = site.shape(1, "multiples", len(shape))
    site.expect([extent * count for extent, count in zip(shape, multiples, strict=True)])
    return TileCounts(multiples)


def transpose(site: TosaSite) -> Transpose:
    """TRANSPOSE."""
    shape = site.value.shape
    order = site.numbers(schema.ONLY_FIELD, "permutation", len(shape))
    if sorted(order) != list(range(len(shape))):
        raise site.fail(f"has the permutation {list(order)}; it names each of {len(shape)} axes once", value=order)
    site.expect([shape[axis] for axis in order])
    return Transpose(order)


def gather(site: TosaSite) -> None:
    """GATHER: rows of [N, K, C] by indices [N, W]."""
    batch, _, channels = site.expect_rank(0, 3)
    count = site.expect_rank(1, 2)[1]
    site.expect_shape(1, (batch, count), "indices")
    site.expect((batch, count, channels))


def scatter(site: TosaSite) -> None:
    """SCATTER: rows [N, W, C] into [N, K, C] by indices [N, W]."""
    batch, rows, channels = site.expect_rank(0, 3)
    count = site.expect_rank(1, 2)[1]
    if count > rows:
        raise site.fail(f"writes {count} rows into {rows}; each is written once", value=count)
    site.expect_shape(1, (batch, count), "indices")
    site.expect_shape(2, (batch, count, channels), "rows")
    site.expect((batch, rows, channels))
