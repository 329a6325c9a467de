"""Writes a compiled network in the raw .npz layout of Arm's Vela, which ExecuTorch and bare firmware take.

Owns that layout. It holds one NPU program and nothing else, so a network with CPU operators does not fit.

Format: arrays by name; `cmd_data` (driver payload) and `weight_data` (region 0) as bytes, `scratch_*` the arena
(region 1), `scratch_fast_*` empty, and for inputs, outputs and variables their shape padded with ones in front to six
dimensions, element size in bytes, region and byte offset in it. `variable_data`, which Vela does not write, is what
variables hold before the first run, one after the other; they keep their places in the arena from run to run.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CodegenError
from ..ir import Array
from ..util.files import write_whole
from .artifact import Artifact, NpuCall
from .layout import carried_over, padded, verify

_DIMENSIONS = 6
_CONSTANTS_REGION = 0
_ARENA_REGION = 1
# A zip file's times start here; anything later would make the bytes depend on the day.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(artifact: Artifact, path: str | os.PathLike[str]) -> Path:
    """Write the .npz to `path` and return it.

    Raises `CodegenError` unless the artefact is exactly one NPU call, or if a tensor has more than six dimensions.
    """
    return write_whole(path, archive(artifact))


def archive(artifact: Artifact) -> bytes:
    """The bytes of the .npz. Raises as `write` does, but nothing is written."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as members:
        for name, values in arrays(artifact).items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, values, version=(1, 0), allow_pickle=False)
            members.writestr(zipfile.ZipInfo(f"{name}.npy", _ZIP_EPOCH), entry.getvalue())
    return stream.getvalue()


def arrays(artifact: Artifact) -> dict[str, Array]:
    """The arrays of the file by name, in the order of the file."""
    call = _only_call(verify(artifact))
    found: dict[str, Array] = {
        "cmd_data": np.frombuffer(call.payload, np.uint8),
        "weight_data": np.frombuffer(padded(artifact.constants), np.uint8),
        "weight_region": np.array(_CONSTANTS_REGION, np.int64),
        "scratch_shape": np.array([artifact.arena_bytes], np.int64),
        "scratch_region": np.array(_ARENA_REGION, np.int64),
        "scratch_size": np.array(artifact.arena_bytes, np.int64),
        "scratch_fast_shape": np.array([0], np.int64),
        "scratch_fast_region": np.array(0, np.int64),
        "scratch_fast_size": np.array(0, np.int64),
    }
    graph = artifact.graph
    state = tuple(variable.before for variable in graph.variables)
    for prefix, indices in (("input", graph.given), ("output", graph.handed_out), ("variable", state)):
        found.update(_tensors(artifact, prefix, indices))
    if state:
        initial = b"".join(np.ascontiguousarray(variable.initial).tobytes() for variable in graph.variables)
        found["variable_data"] = np.frombuffer(initial, np.uint8)
    return found


def _only_call(artifact: Artifact) -> NpuCall:
    if moved := carried_over(artifact):
        variable = artifact.graph.variables[moved[0][0]].name
        raise CodegenError(
            f"the raw format holds one NPU program and '{artifact.name}' does not fit: variable '{variable}' is copied "
            f"between two runs; write .tflite or C"
        )
    if len(artifact.calls) == 1 and isinstance(artifact.calls[0], NpuCall):
        return artifact.calls[0]
    cpu = [artifact.graph.operators[call.operator] for call in artifact.calls if not isinstance(call, NpuCall)]
    found = f"operator '{cpu[0].name}' ({cpu[0].kind}) runs on the CPU" if cpu else f"it has {len(artifact.calls)}"
    raise CodegenError(
        f"the raw format holds exactly one NPU program and '{artifact.name}' does not fit: {found}; write .tflite or C"
    )


def _tensors(artifact: Artifact, prefix: str, indices: Sequence[int]) -> dict[str, Array]:
    tensors = [artifact.graph.tensors[i] for i in indices]
    for tensor in tensors:
        if len(tensor.shape) > _DIMENSIONS or tensor.is_constant:
            raise CodegenError(
                f"tensor '{tensor.name}' with shape {tensor.shape} does not fit the raw format: it takes tensors "
                f"in the arena with at most {_DIMENSIONS} dimensions"
            )
    shapes = [(1,) * (_DIMENSIONS - len(tensor.shape)) + tensor.shape for tensor in tensors]
    return {
        f"{prefix}_shape": np.array(shapes, np.int64).reshape(len(tensors), _DIMENSIONS),
        f"{prefix}_elem_size": np.array([tensor.dtype.size_bytes for tensor in tensors], np.int64),
        f"{prefix}_region": np.full(len(tensors), _ARENA_REGION, np.int64),
        f"{prefix}_offset": np.array([artifact.offsets[i] for i in indices], np.int64),
    }
