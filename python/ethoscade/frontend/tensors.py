"""Tensors of the file as `ir.Tensor`s: types, shapes, quantisation and zero-copy constants.

Owns every check that concerns one tensor alone. What operators make of tensors is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelFormatError, UnsupportedOperatorError
from ..ir import Array, DType, Quantisation, Tensor, schema
from .flatbuffer import MAX_ENTRIES, Ledger, checked, children, integers

_T = schema.TensorType
_DTYPES: dict[int, DType] = {
    _T.INT8: DType.INT8,
    _T.UINT8: DType.UINT8,
    _T.INT16: DType.INT16,
    _T.UINT16: DType.UINT16,
    _T.INT32: DType.INT32,
    _T.UINT32: DType.UINT32,
    _T.INT64: DType.INT64,
    _T.UINT64: DType.UINT64,
    _T.FLOAT16: DType.FLOAT16,
    _T.FLOAT32: DType.FLOAT32,
    _T.FLOAT64: DType.FLOAT64,
    _T.BOOL: DType.BOOL,
}
_TYPE_NAMES = {v: k for k, v in vars(_T).items() if isinstance(v, int)}
_UNCONVERTED = (
    "has elements of type {type}, which ethoscade cannot place in memory; "
    "convert the model with full-integer (int8) quantisation"
)
_STATE = (
    "is a handle (type {type}) of memory that the runtime keeps outside of every tensor, where no static plan "
    "reaches; convert the model with its state as inputs and outputs"
)
_COMPLEX = (
    "has complex elements (type {type}), which a Fourier transform makes and no integers stand for; cut the "
    "transform off, compute it ahead of the network, and give its result as an input"
)
_UNPLACEABLE = {
    "RESOURCE": _STATE,
    "VARIANT": (
        "is a list of tensors (type {type}) that a loop fills, of a length that no file says; build the recurrent "
        "layer with `unroll=True` and a fixed number of steps, and convert again"
    ),
    "COMPLEX64": _COMPLEX,
    "COMPLEX128": _COMPLEX,
    "STRING": "has elements of type {type}, which have no fixed size; cut the part of the model off that handles text",
}
_QUANTISED = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)
_MAX_RANK = 32
# Arena offsets, in files and in runtimes, are signed 32-bit numbers.
_MAX_BYTES = 2**31 - 1

Bytes = npt.NDArray[np.uint8]


def read_buffers(buffers: Sequence[Any], data: bytes) -> list[Bytes]:
    """The contents of every buffer as read-only views of the file; an empty one has length 0.

    Raises `ModelFormatError` for a buffer outside the file.
    """
    contents = []
    for index, buffer in enumerate(buffers):
        view = buffer.DataAsNumpy()
        if isinstance(view, int):
            # Files near 2 GiB keep large buffers behind the FlatBuffer; offsets 0 and 1 mean "not so".
            offset, size = int(buffer.Offset()), int(buffer.Size())
            if offset <= 1:
                offset, size = 0, 0
            if offset + size > len(data):
                raise ModelFormatError(
                    f"buffer {index} claims bytes {offset} to {offset + size}, the file has {len(data)}",
                    value=offset + size,
                )
            view = np.frombuffer(data, np.uint8, size, offset)
        contents.append(view)
    return contents


def tensor_names(raw: Sequence[Any]) -> list[str]:
    """A unique name for every tensor: the file's own, "tensor_<index>" if it has none, "<name>#<index>" if taken."""
    names: list[str] = []
    taken: set[str] = set()
    for index, tensor in enumerate(raw):
        name = (tensor.Name() or b"").decode("utf-8", "replace") or f"tensor_{index}"
        while name in taken:
            name = f"{name}#{index}"
        taken.add(name)
        names.append(name)
    return names


def read_tensors(
    subgraph: Any,
    buffers: Sequence[Bytes],
    ledger: Ledger,
    handles: Collection[int] = (),
    faults: list[str] | None = None,
) -> list[Tensor]:
    """Every tensor of the subgraph, in the file's order. `handles` name variables: they hold nothing.

    Nor does a contradictory tensor to which nothing in the subgraph refers. A constant may have a longer buffer than
    its shape asks for where `faults` are noted: that of a compiled file.

    Raises `ModelFormatError` for a contradiction and `UnsupportedOperatorError` for an element type without a fixed
    layout in memory.
    """
    raw = children(subgraph, "Tensors", "tensor", MAX_ENTRIES, ledger)
    # Looked for once, when it is first wanted.
    referenced = cache(lambda: _references(subgraph, ledger))
    found = []
    for index, (tensor, name) in enumerate(zip(raw, tensor_names(raw), strict=True)):
        if index in handles and int(tensor.Type()) == _T.RESOURCE:
            found.append(_nothing(name))
            continue
        try:
            found.append(_read_tensor(tensor, name, buffers, ledger, faults))
        except (ModelFormatError, UnsupportedOperatorError) as error:
            # A broken reference is damage to the file, and names no tensor.
            is_damage = isinstance(error, ModelFormatError) and error.tensor is None
            if is_damage or index in referenced():
                raise
            found.append(_nothing(name))
    return found


def _nothing(name: str) -> Tensor:
    return Tensor(name, (0,), DType.UINT8, data=np.empty(0, np.uint8))


def _references(subgraph: Any, ledger: Ledger) -> set[int]:
    """The tensors to which the subgraph and its operators refer."""
    operators = children(subgraph, "Operators", "operator", MAX_ENTRIES, ledger)
    lists = [(subgraph, "Inputs"), (subgraph, "Outputs")]
    lists += [(operator, field) for operator in operators for field in ("Inputs", "Outputs", "Intermediates")]
    return {number for accessor, field in lists for number in integers(accessor, field)}


def _read_tensor(raw: Any, name: str, buffers: Sequence[Bytes], ledger: Ledger, faults: list[str] | None) -> Tensor:
    dtype = _read_dtype(raw, name)
    shape = _read_shape(raw, name, dtype)
    data = _read_data(raw, name, shape, dtype, buffers, faults)
    quantisation = None
    if dtype in _QUANTISED:
        parameters = raw.Quantization()
        if parameters is not None:
            parameters = checked(parameters, f"quantisation of tensor '{name}'", ledger)
            quantisation = read_quantisation(parameters, name, shape, dtype)
    is_variable = bool(raw.IsVariable())
    if is_variable and data is not None:
        raise ModelFormatError(
            f"tensor '{name}' is a variable, yet it has constant data", tensor=name, value="variable"
        )
    return Tensor(name, shape, dtype, quantisation, data, is_variable)


def _read_dtype(raw: Any, name: str) -> DType:
    code = int(raw.Type())
    if code in _DTYPES:
        return _DTYPES[code]
    if code not in _TYPE_NAMES:
        raise ModelFormatError(
            f"tensor '{name}' has element type {code}, which TensorFlow Lite does not define", tensor=name, value=code
        )
    raise UnsupportedOperatorError(
        f"tensor '{name}' {_UNPLACEABLE.get(_TYPE_NAMES[code], _UNCONVERTED).format(type=_TYPE_NAMES[code])}",
        operator=name,
        constraint=f"element type {_TYPE_NAMES[code]}",
    )


def _read_shape(raw: Any, name: str, dtype: DType) -> tuple[int, ...]:
    shape = tuple(integers(raw, "Shape"))
    if len(shape) > _MAX_RANK:
        raise ModelFormatError(
            f"tensor '{name}' has {len(shape)} dimensions; at most {_MAX_RANK} are possible",
            tensor=name,
            value=len(shape),
        )
    # A list of nothing is legal as a constant: the axes of no axis, the weights of a compiled network without any.
    if any(d <= 0 for d in shape) and shape != (0,):
        raise ModelFormatError(
            f"tensor '{name}' has shape {shape}: every dimension must be at least 1",
            tensor=name,
            value=shape,
            constraint="dimensions of at least 1",
        )
    if math.prod(shape) * dtype.size_bytes > _MAX_BYTES:
        raise ModelFormatError(
            f"tensor '{name}' has shape {shape}: {math.prod(shape) * dtype.size_bytes} bytes; an arena "
            f"ends at {_MAX_BYTES}",
            tensor=name,
            value=shape,
        )
    return shape


def _read_data(
    raw: Any, name: str, shape: tuple[int, ...], dtype: DType, buffers: Sequence[Bytes], faults: list[str] | None
) -> Array | None:
    index = int(raw.Buffer())
    if index >= len(buffers) and not (index == 0 and not buffers):
        raise ModelFormatError(
            f"tensor '{name}' refers to buffer {index}; the file has {len(buffers)}", tensor=name, value=index
        )
    content = buffers[index] if buffers else np.empty(0, np.uint8)
    if content.size == 0:
        return content.view(dtype.numpy) if shape == (0,) else None
    if raw.Sparsity() is not None:
        raise UnsupportedOperatorError(
            f"constant '{name}' is stored in sparse form; convert the model without sparsity",
            operator=name,
            constraint="sparse constant",
        )
    expected = math.prod(shape) * dtype.size_bytes
    if content.size > expected and faults is not None:
        # Runtimes read as many elements as the shape has.
        faults.append(
            f"constant '{name}' of type {dtype.value}{list(shape)} needs {expected} bytes, its buffer has "
            f"{content.size}: the first ones are taken"
        )
    if content.size < expected:
        raise ModelFormatError(
            f"constant '{name}' of type {dtype.value}{list(shape)} needs {expected} bytes, "
            f"its buffer {index} has {content.size}",
            tensor=name,
            value=int(content.size),
        )
    return content[:expected].view(dtype.numpy).reshape(shape)


def why_meaningless(tensor: Tensor) -> str | None:
    """Why a tensor's scales and zero points say nothing of its elements, None where they do or where there are none.

    Runtimes compute with such numbers all the same, each kernel in its own way.
    """
    quantisation = tensor.quantisation
    if quantisation is None:
        return None
    low, high = tensor.dtype.limits
    beyond = next((point for point in quantisation.zero_points if not low <= point <= high), None)
    if beyond is not None:
        return f"tensor '{tensor.name}' has zero point {beyond}, outside of {tensor.dtype.value} ({low} to {high})"
    least = min(quantisation.scales)
    if least > 0 or (least == 0 and _is_zero_where_unscaled(tensor.data, quantisation)):
        return None
    return (
        f"tensor '{tensor.name}' has scale {least}; a scale is greater than 0, unless every element that it is for is "
        f"a constant zero"
    )


def _is_zero_where_unscaled(data: Array | None, quantisation: Quantisation) -> bool:
    """Converters give scale 0 to constants of which every element is zero; nothing else can have it."""
    if data is None:
        return False
    slices = [data] if quantisation.axis is None else np.moveaxis(data, quantisation.axis, 0)
    stated = zip(quantisation.scales, quantisation.zero_points, slices, strict=True)
    return all(scale > 0 or bool((values == zero_point).all()) for scale, zero_point, values in stated)


def read_quantisation(parameters: Any, name: str, shape: tuple[int, ...], dtype: DType) -> Quantisation | None:
    """The quantisation of one tensor, None if the file gives no scale.

    Whether its numbers mean anything is `why_meaningless`' matter. Exactly one scale is per tensor whatever
    `quantized_dimension` says: old files carry a stray one.
    Raises `ModelFormatError` for scales that are no numbers, and for scales and zero points that do not match the
    shape.
    """
    raw_scales = parameters.ScaleAsNumpy()
    scales = () if isinstance(raw_scales, int) else tuple(map(float, raw_scales.tolist()))
    zero_points = tuple(integers(parameters, "ZeroPoint"))
    if not scales:
        return None
    if not all(map(math.isfinite, scales)):
        scale = next(scale for scale in scales if not math.isfinite(scale))
        raise ModelFormatError(
            f"tensor '{name}' has scale {scale}; a scale is finite and greater than 0", tensor=name, value=scale
        )
    if not zero_points:
        zero_points = (0,) * len(scales)
    if len(zero_points) != len(scales):
        raise ModelFormatError(
            f"tensor '{name}' has {len(scales)} scales and {len(zero_points)} zero points; there must be as many",
            tensor=name,
            value=len(zero_points),
        )
    if len(scales) == 1:
        return Quantisation(scales, zero_points)
    axis = int(parameters.QuantizedDimension())
    if len(shape) == 1 and dtype is DType.INT32:
        # Converters copied the axis of depthwise weights (3) to their biases; a vector has only one axis to mean.
        axis = 0
    if not 0 <= axis < len(shape):
        raise ModelFormatError(
            f"tensor '{name}' is quantised along axis {axis}, it has {len(shape)} dimensions", tensor=name, value=axis
        )
    if len(scales) != shape[axis]:
        raise ModelFormatError(
            f"tensor '{name}' has {len(scales)} scales for the {shape[axis]} slices of its axis {axis}",
            tensor=name,
            value=len(scales),
        )
    return Quantisation(scales, zero_points, axis)
