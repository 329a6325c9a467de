"""SLICE, UNPACK, PADV2, MIRROR_PAD, TILE, REVERSE_V2, GATHER and TRANSPOSE: they move elements, each by its attributes.

Owns the resolution of their begins, sizes, multiples, indices and axes into plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import (
    Attrs,
    DType,
    GatherAttrs,
    MirrorPadAttrs,
    PadAttrs,
    ReverseAttrs,
    StridedSliceAttrs,
    TileAttrs,
    TransposeAttrs,
    UnpackAttrs,
    schema,
)
from .shaping import amounts, resolve_axis
from .site import NotUnderstood, Site

_MODES = {schema.MirrorPadMode.REFLECT: False, schema.MirrorPadMode.SYMMETRIC: True}


def slice_(site: Site) -> StridedSliceAttrs:
    """SLICE by constant begins and sizes; a size of -1 stands for the rest."""
    site.count(3)
    ifm = site.input(0, "input")
    begins, sizes = (site.constant_integers(i, role) for i, role in ((1, "begin"), (2, "size")))
    if not len(begins) == len(sizes) == len(ifm.shape):
        raise site.fail(
            f"has {len(begins)} begins and {len(sizes)} sizes for the {len(ifm.shape)} dimensions of '{ifm.name}'",
            value=(len(begins), len(sizes)),
        )
    ranges = []
    for axis, (begin, size, extent) in enumerate(zip(begins, sizes, ifm.shape, strict=True)):
        end = extent if size == -1 else begin + size
        if not 0 <= begin < end <= extent:
            raise site.fail(f"takes {size} elements from {begin} on of {extent} along axis {axis}", value=(begin, size))
        ranges.append((begin, end, 1))
    site.expect_shape(tuple(end - begin for begin, end, _ in ranges), " and slice")
    site.expect_type()
    return StridedSliceAttrs(tuple(ranges))


def unpack(site: Site) -> UnpackAttrs:
    """UNPACK along an axis, one output for each of its elements."""
    options = site.options()
    count = int(options.Num())
    site.count(1, outputs=count)
    ifm = site.input(0, "input")
    axis = resolve_axis(site, int(options.Axis()), len(ifm.shape))
    if count < 1 or ifm.shape[axis] != count:
        raise site.fail(f"counts {count} outputs for {ifm.shape[axis]} elements along axis {axis}", value=count)
    for output in range(count):
        site.expect_shape((*ifm.shape[:axis], *ifm.shape[axis + 1 :]), " and axis", output=output)
        site.expect_type(output)
    return UnpackAttrs(axis)


def padv2(site: Site) -> PadAttrs:
    """PADV2 with a constant of the input's type."""
    site.count(3)
    paddings = amounts(site)
    ifm, fill = site.input(0, "input"), site.input(2, "value")
    if fill.dtype is not ifm.dtype:
        raise site.fail(
            f"fills '{ifm.name}', {ifm.dtype.value}, with '{fill.name}', {fill.dtype.value}",
            tensor=fill,
            value=fill.dtype.value,
        )
    if fill.data is None or fill.data.dtype.kind not in "iu":
        raise NotUnderstood(f"value '{fill.name}' is not a constant integer")
    if fill.data.size != 1:
        raise site.fail(f"fills with {fill.data.size} values; it takes 1", tensor=fill, value=fill.data.size)
    if fill.quantisation != site.output.quantisation:
        raise NotUnderstood(f"value '{fill.name}' has another quantisation than '{site.output.name}'")
    site.expect_type()
    return PadAttrs(paddings, int(fill.data.reshape(-1)[0]))


def mirror_pad(site: Site) -> MirrorPadAttrs:
    """MIRROR_PAD by less than the tensor's own extent, or by all of it where the outermost elements are repeated."""
    site.count(2)
    paddings, mode = amounts(site), int(site.options().Mode())
    if mode not in _MODES:
        raise site.fail(f"has mode {mode}, which TensorFlow Lite does not define", value=mode)
    ifm, symmetric = site.input(0, "input"), _MODES[mode]
    for axis, (extent, pads) in enumerate(zip(ifm.shape, paddings, strict=True)):
        most = extent if symmetric else extent - 1
        if max(pads) > most:
            raise site.fail(f"mirrors {max(pads)} of {extent} elements along axis {axis}; {most} at most", value=pads)
    site.expect_type()
    return MirrorPadAttrs(paddings, symmetric)


def tile(site: Site) -> TileAttrs:
    """TILE by constant multiples."""
    site.count(2)
    ifm = site.input(0, "input")
    multiples = tuple(site.constant_integers(1, "multiples"))
    if len(multiples) != len(ifm.shape) or min(multiples, default=1) < 1:
        raise site.fail(f"has multiples {list(multiples)} for '{ifm.name}' of shape {list(ifm.shape)}", value=multiples)
    site.expect_shape(tuple(d * n for d, n in zip(ifm.shape, multiples, strict=True)), " and multiples")
    site.expect_type()
    return TileAttrs(multiples)


def reverse(site: Site) -> ReverseAttrs:
    """REVERSE_V2 along constant axes."""
    site.count(2)
    ifm = site.input(0, "input")
    axes = [resolve_axis(site, axis, len(ifm.shape)) for axis in site.constant_integers(1, "axes")]
    if len(set(axes)) != len(axes):
        raise site.fail(f"reverses axes {axes}, one of them twice", value=tuple(axes))
    site.expect_shape(ifm.shape)
    site.expect_type()
    return ReverseAttrs(tuple(sorted(axes)))


def gather(site: Site) -> GatherAttrs:
    """GATHER of constant indices along one axis; they take its place, with all their dimensions."""
    site.count(2)
    ifm, indices = site.input(0, "input"), site.input(1, "indices")
    options = site.options()
    axis = resolve_axis(site, int(options.Axis()), len(ifm.shape))
    if options.BatchDims():
        raise NotUnderstood(f"it has {options.BatchDims()} batch dimensions, each with indices of its own")
    if indices.dtype not in (DType.INT16, DType.INT32, DType.INT64):
        raise site.fail(
            f"has indices '{indices.name}' of type {indices.dtype.value}; it takes int16, int32 or int64",
            tensor=indices,
            value=indices.dtype.value,
        )
    if indices.data is None:
        raise NotUnderstood(f"indices '{indices.name}' are not constant")
    extent, found = ifm.shape[axis], tuple(int(index) for index in indices.data.reshape(-1))
    beyond = next((index for index in found if not 0 <= index < extent), None)
    if beyond is not None:
        raise site.fail(f"takes element {beyond} of {extent} along axis {axis}", tensor=indices, value=beyond)
    site.expect_shape((*ifm.shape[:axis], *indices.shape, *ifm.shape[axis + 1 :]), " and indices")
    site.expect_type()
    return GatherAttrs(axis, found)


def transpose(site: Site) -> TransposeAttrs:
    """TRANSPOSE by a constant permutation."""
    site.count(2)
    ifm, given = site.input(0, "input"), site.constant_integers(1, "permutation")
    rank = len(ifm.shape)
    permutation = tuple(resolve_axis(site, axis, rank) for axis in given)
    if sorted(permutation) != list(range(rank)):
        raise site.fail(f"permutes axes {list(given)} of {rank} dimensions; each comes once", value=tuple(given))
    site.expect_shape(tuple(ifm.shape[axis] for axis in permutation), " and permutation")
    site.expect_type()
    return TransposeAttrs(permutation, ifm.shape)


MOVE_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "GATHER": gather,
    "MIRROR_PAD": mirror_pad,
    "PADV2": padv2,
    "REVERSE_V2": reverse,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
