"""Describes any compiled network for another runtime: arrays of bytes and one JSON text.

Owns that description, which `docs/raw.md` documents for its readers. `raw` puts it into a file; which layout a network
gets is decided there.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..ir import Array, Operator, Tensor
from ..ir.operators import own_outputs, updated
from .artifact import Artifact, CpuCall, FeedCall, NpuCall, TakeCall
from .layout import ALIGNMENT_BYTES, call_tensors, cpu_operators, distinct_payloads, padded
from .origins import Origins
from .tflite_options import told_options

_VERSION = 1
_VERSION_OF_FEEDS = 2
_VERSION_OF_TAKES = 3
_ARENA, _FAST = "arena", "fast"


def program_arrays(artifact: Artifact) -> dict[str, Array]:
    """The arrays that describe `artifact`, by name: `program`, which is the JSON, and the bytes that it refers to.

    Raises `CodegenError` for a CPU operator of the original file whose options cannot be written, `ModelFormatError`
    for one whose options are damaged.
    """
    payloads = {payload: f"cmd_data_{number}" for number, payload in enumerate(distinct_payloads(artifact))}
    constants, state = _Blob("constant_data"), _Blob("variable_data")
    wanted, count = _read_constants(artifact), len(artifact.graph.tensors)
    lenders = {t for _, operator in cpu_operators(artifact) for t in operator.intermediates}
    described = {
        "version": _VERSION_OF_TAKES if artifact.takes else _VERSION_OF_FEEDS if artifact.feeds else _VERSION,
        "name": artifact.name,
        "accelerator": artifact.accelerator if payloads else None,
        "arena_bytes": artifact.arena_bytes,
        "fast_bytes": artifact.fast_bytes or 0,
        "regions": ["weight_data", _ARENA, _FAST if artifact.fast_bytes else _ARENA, *_external(artifact)]
        if payloads
        else [],
        "tensors": [_tensor(artifact, t, constants if t in wanted else None, lends=t in lenders) for t in range(count)],
        "inputs": list(artifact.graph.given),
        "outputs": list(artifact.graph.handed_out),
        "state": list(_state(artifact, state)),
        "calls": list(_calls(artifact, payloads)),
    }
    text = json.dumps(described, ensure_ascii=False, allow_nan=False).encode()
    arrays = {"program": np.frombuffer(text, np.uint8)}
    arrays |= {name: np.frombuffer(payload, np.uint8) for payload, name in payloads.items()}
    if payloads:
        arrays["weight_data"] = np.frombuffer(padded(artifact.constants), np.uint8)
    return arrays | constants.array() | state.array()


class _Blob:
    """Values one behind the other, each at a multiple of 16 bytes, in an array of the file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._data = bytearray()

    def add(self, value: Array) -> int:
        """Append a value and return its offset."""
        self._data += bytes(-len(self._data) % ALIGNMENT_BYTES)
        offset = len(self._data)
        self._data += np.ascontiguousarray(value).tobytes()
        return offset

    def array(self) -> dict[str, Array]:
        """The array by its name, unless nothing was added."""
        return {self.name: np.frombuffer(padded(bytes(self._data)), np.uint8)} if self._data else {}


def _tensor(artifact: Artifact, index: int, constants: _Blob | None, *, lends: bool) -> dict[str, Any]:
    tensor = artifact.graph.tensors[index]
    memory, offset = None, None
    if index in artifact.offsets:
        memory, offset = _ARENA, artifact.offsets[index]
    elif index in artifact.external:
        memory, offset = _external(artifact)[artifact.external.index(index)], 0
    elif tensor.data is not None and constants is not None:
        memory, offset = constants.name, constants.add(tensor.data)
    return {
        "name": tensor.name,
        "type": tensor.dtype.value,
        "shape": list(tensor.shape),
        "size_bytes": tensor.size_bytes,
        "memory": memory,
        "offset": offset,
        # The scales of the NPU's own weights are many, and in its commands already.
        "quantisation": _quantisation(tensor) if lends or memory is not None else None,
    }


def _external(artifact: Artifact) -> list[str]:
    """Names of the regions of external inputs."""
    return [f"input_{number}" for number in range(len(artifact.external))]


def _read_constants(artifact: Artifact) -> set[int]:
    """Constants that are wanted beside the NPU's own: those of CPU operators, and outputs that nothing computes."""
    read = {t for call, _ in cpu_operators(artifact) for t in call_tensors(artifact, call)[0]}
    return read | set(artifact.graph.handed_out)


def _quantisation(tensor: Tensor) -> dict[str, Any] | None:
    if tensor.quantisation is None:
        return None
    scales, zero_points, axis = tensor.quantisation.scales, tensor.quantisation.zero_points, tensor.quantisation.axis
    return {"scales": list(scales), "zero_points": list(zero_points), "axis": axis}


def _state(artifact: Artifact, initial: _Blob) -> Iterator[dict[str, Any]]:
    """What lives from run to run: variables, and variable tensors that operators change without saying so."""
    graph = artifact.graph
    for variable in graph.variables:
        yield {
            "name": variable.name,
            "before": variable.before,
            "after": variable.after,
            "initial_offset": initial.add(variable.initial),
        }
    known = {t for variable in graph.variables for t in (variable.before, variable.after)}
    for index, tensor in enumerate(graph.tensors):
        if tensor.is_variable and index in artifact.offsets and index not in known:
            place = initial.add(tensor.reset_value())
            yield {"name": tensor.name, "before": index, "after": index, "initial_offset": place}


def _calls(artifact: Artifact, payloads: dict[bytes, str]) -> Iterator[dict[str, Any]]:
    origins = Origins(artifact.graph)
    for call in artifact.calls:
        if isinstance(call, NpuCall):
            yield {
                "on": "npu",
                "name": call.name,
                "commands": payloads[call.payload],
                "inputs": list(call.inputs),
                "outputs": list(call.outputs),
            }
        elif isinstance(call, TakeCall):
            yield {
                "on": "caller",
                "takes": call.tensor,
                "row": call.row,
                "rows": call.rows,
                "offset": call.offset,
                "row_bytes": call.row_bytes,
            }
        elif isinstance(call, FeedCall):
            yield {
                "on": "caller",
                "tensor": call.tensor,
                "row": call.row,
                "rows": call.rows,
                "offset": call.offset,
                "row_bytes": call.row_bytes,
                "is_ahead": call.is_ahead,
            }
        else:
            yield _cpu_call(call, artifact.graph.operators[call.operator], origins)


def _cpu_call(call: CpuCall, operator: Operator, origins: Origins) -> dict[str, Any]:
    return {
        "on": "cpu",
        "name": operator.name,
        "kind": operator.kind,
        "inputs": list(operator.inputs),
        "outputs": list(own_outputs(operator)),
        "updates": [list(pair) for pair in updated(operator)],
        "intermediates": list(operator.intermediates),
        "workspace_offset": call.workspace_offset,
        "workspace_bytes": call.workspace_bytes,
        "attributes": _plain(operator.attrs),
        "file": _in_file(operator, origins),
    }


def _in_file(operator: Operator, origins: Origins) -> dict[str, Any] | None:
    """What the original file says of an operator; None for one that was made during compilation."""
    if operator.source_index is None:
        return None
    origin = origins.table(operator)
    number, custom, version = origins.code(operator, origin)
    tables = (
        ("BuiltinOptions", origin.BuiltinOptionsType(), origin.BuiltinOptions()),
        ("BuiltinOptions2", origin.BuiltinOptions2Type(), origin.BuiltinOptions2()),
    )
    told = (told_options(union, kind, table, operator.name, origins.ledger) for union, kind, table in tables)
    options = origin.CustomOptionsAsNumpy().tobytes().hex() if origin.CustomOptionsLength() else None
    return {
        "builtin_code": number,
        "custom_code": custom.decode("utf-8", "replace"),
        "version": version,
        "options": {name: _plain(values) for name, values in filter(None, told)},
        "custom_options": options,
    }


def _plain(value: Any) -> Any:
    """A value in the words of JSON: classes by their fields, enumerations by their values, infinities as text."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.generic):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
