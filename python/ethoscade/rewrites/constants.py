"""fold_constants: SHAPE, and FILL, QUANTIZE, slices, packs and reshapes of constants, are computed now.

Keras conversions compute a RESHAPE's target from the batch size at run time; shapes are static here, so the chain
SHAPE, STRIDED_SLICE, PACK ends in a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir import Array, DType, Graph, Operator, PackAttrs, StridedSliceAttrs, Tensor
from ..ir.operators import RESHAPES
from ..ir.quantised import scale_of, zero_point_of
from .channel_values import rescaled
from .draft import Draft, same_values

# Shapes are short. A longer result is data, and computing it here would only make the artefact larger.
_MAX_ELEMENTS = 256
_INDEX_TYPES = (DType.INT32, DType.INT64)
_REQUANTISED = {
    DType.FLOAT32: (DType.INT8, DType.UINT8, DType.INT16),
    DType.INT8: (DType.INT8, DType.UINT8, DType.INT16),
    DType.UINT8: (DType.INT8, DType.UINT8),
    DType.INT16: (DType.INT8, DType.INT16),
}
"""Types between which LiteRT has kernels of QUANTIZE."""


def fold_constants(graph: Graph) -> Graph:
    """Replace understood operators on static shapes and small integer constants by their results.

    An operator that makes a network output is left alone: a network does not return constants.
    """
    draft = Draft(graph)
    for operator in graph.operators:
        is_known = operator.opaque is None or operator.kind == "FILL"
        if not is_known or len(operator.outputs) != 1 or draft.is_output(operator.outputs[0]):
            continue
        output = draft.tensors[operator.outputs[0]]
        inputs = [draft.tensors[draft.resolve(t)] for t in operator.inputs if t is not None]
        value = _value(operator, inputs, output)
        if value is not None and value.shape == output.shape:
            # Arithmetic makes numbers of arrays without dimensions.
            value = np.asarray(value)
            value.flags.writeable = False
            draft.set_constant(operator.outputs[0], replace(output, data=value))
    return draft.finish()


def why_constant(graph: Graph, operator: Operator) -> str:
    """What keeps an understood operator on constants from being one, in a sentence without a full stop."""
    becomes = f"{operator.kind} becomes a constant where"
    for t in (t for t in operator.inputs if t is not None):
        tensor = graph.tensors[t]
        if not tensor.is_constant and operator.kind != "SHAPE":
            return f"input '{tensor.name}' is made while the network runs; {becomes} all of its inputs are"
    made = graph.made(operator)
    if made.dtype not in _INDEX_TYPES:
        return f"output '{made.name}' is {made.dtype.value}; {becomes} it is int32 or int64"
    if made.size_bytes > _MAX_ELEMENTS * made.dtype.size_bytes:
        count = made.size_bytes // made.dtype.size_bytes
        return f"output '{made.name}' has {count} elements; {becomes} it has at most {_MAX_ELEMENTS}"
    return f"output '{made.name}' leaves the network, which returns no constants"


def _value(operator: Operator, inputs: Sequence[Tensor], output: Tensor) -> Array | None:
    if operator.kind == "SHAPE":
        return np.array(inputs[0].shape, output.dtype.numpy)
    if operator.kind == "FILL":
        return _fill(inputs, output)
    if operator.kind == "QUANTIZE" and operator.attrs is None:
        return _quantise(inputs[0], output)
    if operator.kind in RESHAPES:
        data = inputs[0].data
        if data is None or not same_values(inputs[0], output) or not all(t.is_constant for t in inputs):
            return None
        return data.reshape(output.shape)
    if output.dtype not in _INDEX_TYPES or output.size_bytes > _MAX_ELEMENTS * output.dtype.size_bytes:
        return None
    if isinstance(operator.attrs, StridedSliceAttrs) and inputs[0].data is not None:
        return _slice(inputs[0].data, operator.attrs).reshape(output.shape)
    if isinstance(operator.attrs, PackAttrs):
        parts = [t.data for t in inputs if t.data is not None]
        return np.stack(parts, operator.attrs.axis) if len(parts) == len(inputs) else None
    return None


def _fill(inputs: Sequence[Tensor], output: Tensor) -> Array | None:
    if len(inputs) != 2 or not same_values(inputs[1], output):
        return None
    dims, value = inputs[0].data, inputs[1].data
    if dims is None or value is None or value.size != 1 or tuple(dims.reshape(-1).tolist()) != output.shape:
        return None
    return np.full(output.shape, value.reshape(-1)[0], output.dtype.numpy)


def _quantise(source: Tensor, output: Tensor) -> Array | None:
    """The stored values, as kernels make them; None where they are defined for none."""
    data, quantisation = source.data, output.quantisation
    if data is None or output.dtype not in _REQUANTISED.get(source.dtype, ()):
        return None
    if quantisation is None or quantisation.axis is not None:
        return None
    if source.dtype is DType.FLOAT32:
        units = (data.astype(np.float32) / np.float32(scale_of(output))).astype(np.float64)
        if not np.isfinite(units).all():
            return None
        scaled = np.copysign(np.floor(np.abs(units) + 0.5), units)
    else:
        if source.quantisation is None or source.quantisation.axis is not None:
            return None
        stored, places = np.unique(data, return_inverse=True)
        ratio = scale_of(source) / scale_of(output)
        made = [rescaled(int(value) - zero_point_of(source), ratio) for value in stored]
        if None in made:
            return None
        scaled = np.array(made, np.int64)[places].reshape(data.shape)
    found: Array = np.clip(scaled + zero_point_of(output), *output.dtype.limits).astype(output.dtype.numpy)
    return found


def _slice(data: Array, attrs: StridedSliceAttrs) -> Array:
    # Ranges may end before element 0, which a Python slice writes as None.
    window = tuple(slice(b, e if e >= 0 else None, s) for b, e, s in attrs.ranges)
    return np.array(data[window], data.dtype)
