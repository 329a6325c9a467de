"""MEAN, SUM, REDUCE_*, ARG_MAX, PAD, RESIZE_*, RESHAPE, SHAPE, STRIDED_SLICE, PACK: operators about shapes.

Owns the resolution of axes, masks and wildcards into plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..ir import (
    ArgMaxAttrs,
    Attrs,
    DType,
    PackAttrs,
    PadAttrs,
    ReductionAttrs,
    ResizeBilinearAttrs,
    ResizeNearestAttrs,
    StridedSliceAttrs,
)
from ..ir.quantised import scale_of
from .flatbuffer import integers
from .site import NotUnderstood, Site


def reduction(site: Site) -> ReductionAttrs:
    """REDUCE_MAX and REDUCE_MIN over constant axes."""
    site.count(2)
    ifm = site.input(0, "input")
    options = site.options()
    given = site.constant_integers(1, "axes")
    axes = tuple(sorted({resolve_axis(site, a, len(ifm.shape)) for a in given}))
    keep_dims = bool(options.KeepDims())
    kept = (1 if i in axes else d for i, d in enumerate(ifm.shape))
    dropped = (d for i, d in enumerate(ifm.shape) if i not in axes)
    site.expect_shape(tuple(kept) if keep_dims else tuple(dropped), " and axes")
    return ReductionAttrs(axes, keep_dims)


def rescaled_reduction(site: Site) -> ReductionAttrs:
    """MEAN or SUM over constant axes."""
    attrs, ifm = reduction(site), site.input(0, "input")
    if site.is_eight_bit(ifm, site.output):
        site.check_factors(scale_of(ifm) / scale_of(site.output))
    return attrs


def arg_max(site: Site) -> ArgMaxAttrs:
    """ARG_MAX along one constant axis, which vanishes; an index is int32 or int64."""
    site.count(2)
    ifm, given = site.input(0, "input"), site.constant_integers(1, "axis")
    if len(given) != 1:
        raise site.fail(f"has {len(given)} axes; it takes 1", value=len(given))
    axis = resolve_axis(site, given[0], len(ifm.shape))
    if site.output.dtype not in (DType.INT32, DType.INT64):
        raise site.fail(
            f"writes '{site.output.name}' of type {site.output.dtype.value}; it makes int32 or int64",
            tensor=site.output,
            value=site.output.dtype.value,
        )
    site.expect_shape((*ifm.shape[:axis], *ifm.shape[axis + 1 :]), " and axis")
    return ArgMaxAttrs(axis)


def pad(site: Site) -> PadAttrs:
    """PAD with the zero point."""
    site.count(2)
    return PadAttrs(amounts(site))


def amounts(site: Site) -> tuple[tuple[int, int], ...]:
    """Elements before and after, by a constant (rank, 2): what a pad adds. Raises `ModelFormatError`."""
    ifm = site.input(0, "input")
    given = site.constant_integers(1, "paddings")
    table = site.input(1, "paddings")
    if table.shape != (len(ifm.shape), 2):
        raise site.fail(
            f"has paddings '{table.name}' of shape {list(table.shape)}; '{ifm.name}' takes [{len(ifm.shape)}, 2]",
            tensor=table,
            value=table.shape,
        )
    if any(a < 0 for a in given):
        raise site.fail(f"has paddings {given}; none may be negative", tensor=table, value=min(given))
    paddings = tuple(zip(given[::2], given[1::2], strict=True))
    site.expect_shape(
        tuple(d + before + after for d, (before, after) in zip(ifm.shape, paddings, strict=True)), " and paddings"
    )
    return paddings


def resize_bilinear(site: Site) -> ResizeBilinearAttrs:
    """RESIZE_BILINEAR of an image NHWC to a constant height and width; stored values are interpolated."""
    size, options = _new_size(site), site.options()
    aligned, centred = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    if aligned and centred:
        raise site.fail("aligns corners and takes pixels at their centres; it is one of the two", value=(True, True))
    return ResizeBilinearAttrs(size, aligned, centred)


def resize_nearest_neighbor(site: Site) -> ResizeNearestAttrs:
    """RESIZE_NEAREST_NEIGHBOR of an image NHWC to a constant height and width; stored values are copied."""
    size, options = _new_size(site), site.options()
    return ResizeNearestAttrs(size, bool(options.AlignCorners()), bool(options.HalfPixelCenters()))


def _new_size(site: Site) -> tuple[int, int]:
    site.count(2)
    ifm, target = site.input(0, "image"), site.input(1, "size")
    site.expect_rank(ifm, 4, "image")
    size = site.constant_integers(1, "size")
    if len(size) != 2 or min(size) < 1:
        raise site.fail(f"has size {size}; it is a height and a width of at least 1", tensor=target, value=tuple(size))
    site.expect_shape((ifm.shape[0], size[0], size[1], ifm.shape[3]), " and size")
    return size[0], size[1]


def reshape(site: Site) -> Attrs:
    """RESHAPE. A shape that is not constant may become so when constants are folded; `check_reshape` is for then."""
    site.count(1, 2)
    ifm, target = site.input(0, "input"), site.optional(1)
    options = site.optional_options()
    if target is None or target.data is not None:
        new_shape = site.constant_integers(1, "new shape") if target is not None else None
        if new_shape is None and options is not None:
            new_shape = integers(options, "NewShape")
        if new_shape is None:
            raise NotUnderstood("its new shape is missing")
        check_reshape(site, ifm.shape, new_shape)
    _same_elements(site)
    return None


def check_reshape(site: Site, shape: tuple[int, ...], new_shape: Sequence[int]) -> None:
    """Compare the output with `new_shape`, in which one -1 stands for "the rest". Raises `ModelFormatError`."""
    if sum(d == -1 for d in new_shape) > 1 or any(d < 1 and d != -1 for d in new_shape):
        raise site.fail(f"has new shape {list(new_shape)}; one -1 at most, all else at least 1", value=tuple(new_shape))
    rest = math.prod(d for d in new_shape if d != -1)
    elements = math.prod(shape)
    if elements % rest or (-1 not in new_shape and elements != rest):
        raise site.fail(
            f"has new shape {list(new_shape)}; its input has shape {list(shape)}, {elements} elements",
            value=tuple(new_shape),
        )
    site.expect_shape(tuple(elements // rest if d == -1 else d for d in new_shape), " and new shape")


def squeeze(site: Site) -> Attrs:
    """SQUEEZE of the named axes, of every axis of extent 1 if none is named."""
    site.count(1)
    ifm = site.input(0, "input")
    options = site.optional_options()
    named = integers(options, "SqueezeDims") if options is not None else []
    axes = {resolve_axis(site, a, len(ifm.shape)) for a in named} or {i for i, d in enumerate(ifm.shape) if d == 1}
    for axis in sorted(axes):
        if ifm.shape[axis] != 1:
            raise site.fail(
                f"drops axis {axis} of '{ifm.name}' of shape {list(ifm.shape)}; only extent 1 can go",
                tensor=ifm,
                value=axis,
            )
    site.expect_shape(tuple(d for i, d in enumerate(ifm.shape) if i not in axes), " and axes")
    _same_elements(site)
    return None


def expand_dims(site: Site) -> Attrs:
    """EXPAND_DIMS at a constant axis."""
    site.count(2)
    ifm = site.input(0, "input")
    given = site.constant_integers(1, "axis")
    if len(given) != 1:
        raise site.fail(f"has {len(given)} axes; it takes 1", value=len(given))
    axis = resolve_axis(site, given[0], len(ifm.shape) + 1)
    site.expect_shape((*ifm.shape[:axis], 1, *ifm.shape[axis:]), " and axis")
    _same_elements(site)
    return None


def shape_of(site: Site) -> Attrs:
    """SHAPE: the input's dimensions as int32 or int64."""
    site.count(1)
    ifm = site.input(0, "input")
    if site.output.dtype not in (DType.INT32, DType.INT64):
        raise site.fail(
            f"writes '{site.output.name}' of type {site.output.dtype.value}; it makes int32 or int64",
            tensor=site.output,
            value=site.output.dtype.value,
        )
    if not ifm.shape:
        raise NotUnderstood(f"'{ifm.name}' is a scalar: its shape has no elements")
    site.expect_shape((len(ifm.shape),))
    return None


def strided_slice(site: Site) -> StridedSliceAttrs:
    """STRIDED_SLICE with constant begin, end and strides."""
    site.count(4)
    ifm = site.input(0, "input")
    options = site.options()
    if options.Offset():
        raise NotUnderstood("an end that counts from the begin")
    begins, ends, strides = (site.constant_integers(i, r) for i, r in ((1, "begin"), (2, "end"), (3, "strides")))
    begin_mask, end_mask, shrink = int(options.BeginMask()), int(options.EndMask()), int(options.ShrinkAxisMask())
    spans = _spans(len(begins), len(ifm.shape), int(options.EllipsisMask()), int(options.NewAxisMask()))
    if spans is None or not len(begins) == len(ends) == len(strides):
        raise site.fail(
            f"has {len(begins)} begins, {len(ends)} ends and {len(strides)} strides for the {len(ifm.shape)} "
            f"dimensions of '{ifm.name}'",
            value=(len(begins), len(ends), len(strides)),
            constraint=None if len(begins) == len(ends) == len(strides) else "as many begins, ends and strides",
        )
    ranges: list[tuple[int, int, int]] = []
    shape: list[int] = []
    for number in spans:
        if number == _NEW_AXIS:
            shape.append(1)
            continue
        axis, extent = len(ranges), ifm.shape[len(ranges)]
        if number is None:
            ranges.append((0, extent, 1))
        elif shrink >> number & 1:
            ranges.append(_one_element(site, begins[number], extent, masked=bool(begin_mask >> number & 1)))
            continue
        else:
            if strides[number] == 0:
                raise site.fail(f"has stride 0 along axis {axis}", value=0)
            begin = None if begin_mask >> number & 1 else begins[number]
            end = None if end_mask >> number & 1 else ends[number]
            ranges.append(slice(begin, end, strides[number]).indices(extent))
        shape.append(len(range(*ranges[-1])))
    if 0 in shape:
        lengths = tuple(len(range(*one)) for one in ranges)
        raise site.fail(f"slices {list(ifm.shape)} down to nothing: {list(lengths)}", value=lengths)
    site.expect_shape(tuple(shape), " and slice")
    site.expect_type()
    return StridedSliceAttrs(tuple(ranges))


_NEW_AXIS = -1


def _spans(count: int, rank: int, ellipsis: int, new: int) -> list[int | None] | None:
    """What a slice of `count` begins says of each axis, new ones among them; None where it has too many.

    That is the number of its begin, `_NEW_AXIS`, or None for all of an axis. An ellipsis stands for the axes that no
    begin is for, and is no new axis where one is asked for at the same place; behind the last begin all axes are whole.
    """
    dots = [place for place in range(count) if ellipsis >> place & 1]
    added = [place for place in range(count) if new >> place & 1 and place not in dots]
    left = rank - (count - len(dots) - len(added))
    if left < 0:
        return None
    if len(dots) > 1 or (dots and not left):
        raise NotUnderstood("several ellipses in the slice, or one that stands for no axis")
    found: list[int | None] = []
    for place in range(count):
        if place in dots:
            found += [None] * left
        else:
            found.append(_NEW_AXIS if place in added else place)
    return found if dots else [*found, *([None] * left)]


def pack(site: Site) -> PackAttrs:
    """PACK of one or more tensors of one shape along a new axis."""
    site.count(1, 1 << 16)
    options = site.options()
    first = site.input(0, "input")
    for index in range(len(site.inputs)):
        part = site.input(index, "input")
        if part.shape != first.shape or part.dtype is not first.dtype:
            raise site.fail(
                f"packs '{first.name}' {first.dtype.value}{list(first.shape)} with "
                f"'{part.name}' {part.dtype.value}{list(part.shape)}",
                tensor=part,
                value=part.shape,
            )
    if int(options.ValuesCount()) != len(site.inputs):
        raise site.fail(f"counts {options.ValuesCount()} inputs and has {len(site.inputs)}", value=len(site.inputs))
    axis = resolve_axis(site, int(options.Axis()), len(first.shape) + 1)
    site.expect_shape((*first.shape[:axis], len(site.inputs), *first.shape[axis:]), " and axis")
    site.expect_type()
    return PackAttrs(axis)


def resolve_axis(site: Site, axis: int, rank: int) -> int:
    """A non-negative axis of `rank` dimensions. Raises `ModelFormatError` for one that is not there."""
    if not -rank <= axis < rank:
        raise site.fail(f"names axis {axis} of {rank} dimensions", value=axis)
    return axis % rank


def _one_element(site: Site, begin: int, extent: int, *, masked: bool) -> tuple[int, int, int]:
    index = 0 if masked else begin
    if not -extent <= index < extent:
        raise site.fail(f"takes element {index} of {extent}", value=index)
    index %= extent
    return index, index + 1, 1


def _same_elements(site: Site) -> None:
    ifm, ofm = site.input(0, "input"), site.output
    if math.prod(ifm.shape) != math.prod(ofm.shape):
        raise site.fail(
            f"turns '{ifm.name}' of shape {list(ifm.shape)} into '{ofm.name}' of shape {list(ofm.shape)}: "
            f"another number of elements",
            tensor=ofm,
            value=ofm.shape,
        )
    if ifm.dtype.size_bytes == ofm.dtype.size_bytes and ifm.dtype is not ofm.dtype:
        # Kernels copy the bytes and look at no types.
        raise NotUnderstood(f"it takes bytes of {ifm.dtype.value} for {ofm.dtype.value}")
    site.expect_type()


SHAPE_READERS: Mapping[str, Callable[[Site], Attrs]] = {
    "ARG_MAX": arg_max,
    "EXPAND_DIMS": expand_dims,
    "MEAN": rescaled_reduction,
    "PACK": pack,
    "PAD": pad,
    "REDUCE_MAX": reduction,
    "REDUCE_MIN": reduction,
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest_neighbor,
    "SHAPE": shape_of,
    "SQUEEZE": squeeze,
    "STRIDED_SLICE": strided_slice,
    "SUM": rescaled_reduction,
}
