"""Channel slices: an image of which one pool makes a single pixel, made and pooled some channels at a time.

The last convolution of most image classifiers makes many channels of few, and a global pool is all that reads them. By
slices no more of them is there at a time than of what the convolution reads. Each slice takes three kernels, and the
convolution's input is read once for each.

Owns this rule over lowered networks. Whether a network is run so is not decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ..util.records import dataclass
from . import copies, expressions, views
from .convolution import MOST_PIECES
from .feature_maps import BRICK_CHANNELS, Channels, FeatureMap, NpuTensor
from .npu import UNSCALED, NpuGraph, NpuOperation, OperationKind, Rounding, renumbered
from .te import Compute


@dataclass(frozen=True)
class _Head:
    """A convolution and the pool behind it, which makes one pixel."""

    convolution: NpuOperation
    pool: NpuOperation

    @property
    def whole_bytes(self) -> int:
        """Bytes of what the convolution reads and makes."""
        return self.convolution.ifm.tensor.placed_bytes + self.convolution.ofm.tensor.placed_bytes

    @property
    def slices(self) -> tuple[range, ...]:
        """Channels that are made together: whole bricks, and no more bytes of them than are read."""
        made, read = self.convolution.ofm.tensor, self.convolution.ifm.tensor
        depth, count = made.shape[2], min(-(-made.placed_bytes // read.placed_bytes), MOST_PIECES)
        each = -(-depth // (count * BRICK_CHANNELS)) * BRICK_CHANNELS
        return tuple(range(first, min(first + each, depth)) for first in range(0, depth, each))


def whole_bytes(npu: NpuGraph, exposed: Collection[int]) -> int:
    """The most bytes read and made by one convolution that slices would help; 0 without any."""
    return max((head.whole_bytes for head in _heads(npu, exposed)), default=0)


def in_slices(npu: NpuGraph, exposed: Collection[int]) -> NpuGraph:
    """The graph with every convolution in front of a global pool by slices; the graph itself without one.

    `exposed` are the tensors (graph indices) that others than the NPU operations of one region look at.
    """
    heads = {head.convolution: head for head in _heads(npu, exposed)}
    if not heads:
        return npu
    pools, whole = {head.pool for head in heads.values()}, {operation.ofm.tensor.id for operation in heads}
    tensors = {tensor.id: tensor for tensor in npu.tensors if tensor.id not in whole}
    operations: list[NpuOperation] = []
    for operation in npu.operations:
        if operation in heads:
            operations += _by_slices(heads[operation], tensors)
        elif operation not in pools:
            operations.append(operation)
    return replace(renumbered(npu, operations, tensors), sliced=tuple(operation.operator for operation in heads))


def _heads(npu: NpuGraph, exposed: Collection[int]) -> Iterator[_Head]:
    users = copies.Users(npu.operations)
    for operation in npu.operations:
        made = operation.ofm.tensor
        readers = users.readers(made)
        if operation.kind is OperationKind.CONVOLUTION and made.graph_tensor not in exposed and len(readers) == 1:
            head = _Head(operation, readers[0])
            if len(users.makers(readers[0].ofm.tensor)) == 1 and _is_global(head) and len(head.slices) > 1:
                yield head


def _is_global(head: _Head) -> bool:
    """Whether the pool makes one pixel of the whole image, channel by channel."""
    convolution, pool = head.convolution, head.pool
    tensor, shapes = convolution.ofm.tensor, (convolution.ofm.shape, pool.ifm.shape)
    return (
        (pool.kind.is_pool or pool.kind is OperationKind.DEPTHWISE)
        and not pool.kind.reads_whole_depth
        and pool.ofm.shape == (1, 1, tensor.shape[2])
        and pool.ofm.dtype.size_bytes <= 2
        and all(_is_plain(view) for view in (convolution.ofm, pool.ifm, pool.ofm))
        and all(shape[2] == tensor.shape[2] for shape in shapes)
    )


def _is_plain(view: FeatureMap) -> bool:
    return view.channels is None and view.place is None and view.strides is None


def _by_slices(head: _Head, tensors: dict[int, NpuTensor]) -> Iterator[NpuOperation]:
    """The operations of a head, to whose `tensors` new ones are added."""
    convolution, pool, pooled = head.convolution, head.pool, []
    for number, channels in enumerate(head.slices):

        def new(view: FeatureMap, number: int = number, channels: range = channels) -> FeatureMap:
            whole = view.tensor
            name, shape = f"slice {number} of '{whole.name}'", (*whole.shape[:2], len(channels))
            made = NpuTensor(max(tensors) + 1, name, shape, whole.dtype, whole.layout)
            tensors[made.id] = made
            return _seen(view, made)

        image, pixel = new(convolution.ofm), new(pool.ofm)
        yield _of_channels(convolution, convolution.ifm, image, channels)
        yield _of_channels(pool, _seen(pool.ifm, image.tensor), pixel, channels)
        pooled.append(pixel)
    for channels, pixel in zip(head.slices, pooled, strict=True):
        yield _copied(pool, replace(pixel, zero_point=0), channels)


def _seen(view: FeatureMap, tensor: NpuTensor) -> FeatureMap:
    """A tensor of fewer channels, seen as another one was."""
    return replace(view, tensor=tensor, shape=(*view.shape[:2], tensor.shape[2]))


def _of_channels(operation: NpuOperation, ifm: FeatureMap, ofm: FeatureMap, channels: range) -> NpuOperation:
    """The operation, for some channels of its output."""
    weights = operation.weights and operation.weights.of_channels(slice(channels.start, channels.stop))
    compute = _compute_of(operation.compute, ifm, len(channels))
    return replace(operation, ifm=ifm, ofm=ofm, weights=weights, compute=compute)


def _compute_of(compute: Compute, ifm: FeatureMap, count: int) -> Compute:
    (read,) = compute.reads
    axes = (*compute.axes[:3], replace(compute.axes[3], extent=count))
    return replace(compute, axes=axes, reads=(replace(read, extents=(*read.extents[:3], ifm.pixel_channels)),))


def _copied(pool: NpuOperation, pixel: FeatureMap, channels: range) -> NpuOperation:
    """A slice's pixel, copied to its channels of the output."""
    depth = pool.ofm.shape[2]
    ofm = replace(pool.ofm, shape=pixel.shape, zero_point=0, channels=Channels(channels.start, depth))
    return NpuOperation(
        name=pool.name,
        operator=pool.operator,
        kind=OperationKind.AVERAGE_POOL,
        ifm=pixel,
        ofm=ofm,
        window=views.POINT,
        compute=expressions.points(pool.name, ofm.shape, pixel),
        clamp=ofm.dtype.limits,
        scaling=UNSCALED,
        rounding=Rounding.TFL,
    )
