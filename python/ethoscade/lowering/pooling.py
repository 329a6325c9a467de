"""AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from typing import cast

from ..ir import Graph, Operator, PoolAttrs, Tensor, Window
from ..quantised import activation_range
from ..target import Accelerator
from . import limits, views
from .npu import NpuGraphBuilder, NpuOperation, OperationKind
from .te import Compute, index

_KINDS = {"AVERAGE_POOL_2D": OperationKind.AVERAGE_POOL, "MAX_POOL_2D": OperationKind.MAX_POOL}


def support(graph: Graph, op: Operator, accelerator: Accelerator) -> str | None:
    """None if the NPU can run it, else the reason."""
    if (reason := limits.ends(graph, op)) is not None:
        return reason
    ifm, ofm = graph.tensors[cast(int, op.inputs[0])], graph.tensors[op.outputs[0]]
    if (reason := limits.first((limits.same_dtype(ifm, ofm), limits.image(ifm), _same_scale(ifm, ofm)))) is not None:
        return reason
    stated = cast(PoolAttrs, op.attrs).window
    size = views.output_size(stated, ifm.shape[1], ifm.shape[2])
    window = views.simplest(stated, ifm.shape[1], ifm.shape[2])
    return limits.first(
        (
            limits.elements(ofm, (*size, ifm.shape[3])),
            limits.strides(window),
            limits.kernel(window, limits.MAX_POOL_ROWS, limits.MAX_POOL_ELEMENTS),
            limits.padding(window),
            _padded_average(op.kind, window),
        )
    )


def _same_scale(ifm: Tensor, ofm: Tensor) -> str | None:
    a, b = ifm.quantisation, ofm.quantisation
    if a is None or b is None or (a.scale, a.zero_point) == (b.scale, b.zero_point):
        return None
    return (
        f"input has scale {a.scale:g} and zero point {a.zero_point}, output {b.scale:g} and {b.zero_point}; "
        f"a pool does not rescale, they must be equal"
    )


def _padded_average(kind: str, window: Window) -> str | None:
    pads = window.pad_top + window.pad_left + window.pad_bottom + window.pad_right
    if kind != "AVERAGE_POOL_2D" or not pads or max(window.kernel_h, window.kernel_w) <= limits.MAX_PADDED_AVERAGE:
        return None
    limit = limits.MAX_PADDED_AVERAGE
    return f"kernel is {window.kernel_h}x{window.kernel_w}; a padded average takes at most {limit}x{limit}"


def lower(graph: Graph, op_index: int, builder: NpuGraphBuilder) -> None:
    """One pool. Precondition: `support` found no reason.

    The stored values themselves are averaged, without their (equal) zero points: TFLite rounds a tie away from the
    stored zero, and with the zero point taken off the tie would fall to the other side.
    """
    op = graph.operators[op_index]
    attrs = cast(PoolAttrs, op.attrs)
    shape = views.image_shape(graph.tensors[cast(int, op.inputs[0])].shape)
    ofm_shape = (*views.output_size(attrs.window, *shape[:2]), shape[2])
    window = views.simplest(attrs.window, *shape[:2])
    ofm = graph.tensors[op.outputs[0]]
    builder.add(
        NpuOperation(
            name=op.name,
            operator=op_index,
            kind=_KINDS[op.kind],
            ifm=builder.view(cast(int, op.inputs[0]), shape, zero_point=0),
            ofm=builder.view(op.outputs[0], ofm_shape, zero_point=0),
            window=window,
            compute=compute(op.name, window, shape, ofm_shape),
            clamp=activation_range(ofm.quantisation, ofm.dtype, attrs.activation),
        )
    )


def compute(name: str, window: Window, ifm_shape: views.Shape3, ofm_shape: views.Shape3) -> Compute:
    """out[n, h, w, c] = mean or maximum over kh, kw of in[n, s*h + kh - top, s*w + kw - left, c]."""
    access = views.window_access(window, ifm_shape, index(c=1))
    return Compute(name, views.axes(ofm_shape), views.kernel_axes(window), (access,))
