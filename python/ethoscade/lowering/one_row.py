"""One row: operations on images of one column laid along one row, where what they read was made as one.

Keras writes a one-dimensional convolution as an image of one row, and a pool behind it as one of one column. Bytes are
the same, and stripes of the one are stripes of the other only if both are cut along the same axis.

Owns this rule over lowered networks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir import Window
from ..util.frozen import FrozenMap
from . import copies
from .feature_maps import FeatureMap, NpuTensor
from .npu import NpuGraph, NpuOperation, Weights, renumbered
from .te import Access, Affine, Compute


def in_one_row(npu: NpuGraph) -> NpuGraph:
    """The graph with such operations turned, one after the other; the graph itself without one."""
    users, tensors = copies.Users(npu.operations), {tensor.id: tensor for tensor in npu.tensors}
    rows: dict[int, int] = {}
    operations: list[NpuOperation] = []
    for operation in npu.operations:
        made = operation.ofm.tensor
        is_of_row = rows.get(operation.ifm.tensor.id) == operation.ifm.shape[0]
        if is_of_row and _is_column(operation) and len(users.makers(made)) == 1:
            operation = _turned(operation)
            tensors[made.id] = _turned_tensor(made, operation.ofm)
        height, width, _ = operation.ofm.shape
        if height == 1 and operation.ofm.place is None:
            rows[made.id] = width
        operations.append(operation)
    if all(new is old for new, old in zip(operations, npu.operations, strict=True)):
        return npu
    return renumbered(npu, operations, tensors)


def _is_column(operation: NpuOperation) -> bool:
    """Whether it looks at one image of several rows and one column, and makes one of one column."""
    seen = (operation.ifm, operation.ofm)
    return (
        operation.ifm2 is None
        and operation.ifm.shape[0] > 1
        and all(view.shape[1] == 1 and view.place is None and view.strides is None for view in seen)
        and operation.compute.reads[0].origin is None
    )


def _turned(operation: NpuOperation) -> NpuOperation:
    return replace(
        operation,
        ifm=_turned_view(operation.ifm),
        ofm=_turned_view(operation.ofm),
        window=_turned_window(operation.window),
        compute=_turned_compute(operation.compute),
        weights=operation.weights and _turned_weights(operation.weights),
    )


def _turned_view(view: FeatureMap) -> FeatureMap:
    height, width, depth = view.shape
    return replace(view, shape=(width, height, depth))


def _turned_tensor(tensor: NpuTensor, ofm: FeatureMap) -> NpuTensor:
    height, width, depth = tensor.shape
    return replace(tensor, shape=(width, height, depth)) if (width, height) == ofm.shape[:2] else tensor


def _turned_window(window: Window) -> Window:
    w = window
    return Window(
        w.kernel_w, w.kernel_h, w.stride_w, w.stride_h, w.dilation_w, w.dilation_h,
        w.pad_left, w.pad_top, w.pad_right, w.pad_bottom,
    )  # fmt: skip


def _turned_weights(weights: Weights) -> Weights:
    return replace(weights, values=np.swapaxes(weights.values, 1, 2))


_OTHER = {"h": "w", "w": "h", "kh": "kw", "kw": "kh"}


def _turned_compute(compute: Compute) -> Compute:
    n, h, w, c = compute.axes
    axes = (n, replace(w, name="h"), replace(h, name="w"), c)
    reductions = tuple(replace(axis, name=_OTHER.get(axis.name, axis.name)) for axis in compute.reductions)
    return replace(compute, axes=axes, reductions=reductions, reads=tuple(map(_turned_access, compute.reads)))


def _turned_access(access: Access) -> Access:
    n, row, column, channel = (_turned_index(index) for index in access.indices)
    batch, height, width, depth = access.extents
    return replace(access, indices=(n, column, row, channel), extents=(batch, width, height, depth))


def _turned_index(index: Affine) -> Affine:
    return replace(
        index, coefficients=FrozenMap({_OTHER.get(name, name): by for name, by in index.coefficients.items()})
    )
