"""Writes a compiled network as raw bytes, an .npz that ExecuTorch, bare firmware and other runtimes take.

Owns which layout a network gets, and the layout of Arm's Vela. That one holds one NPU program and nothing else; what
does not fit it is written as `raw_program` describes networks. `docs/raw.md` documents both for their readers.

Vela's: arrays by name; `cmd_data` (driver payload) and `weight_data` (region 0) as bytes, `scratch_*` the arena
(region 1), `scratch_fast_*` the fast memory (region 2), if there is one, and for inputs, outputs and variables their
shape padded with ones in front to six dimensions, element size in bytes, region and byte offset in it. `variable_data`,
which Vela does not write, is what variables hold before the first run, one after the other; they keep their places in
the arena from run to run.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..ir import Array
from ..util.files import write_whole
from .artifact import Artifact, NpuCall
from .layout import carried_over, input_region, padded, verify
from .raw_program import program_arrays

_DIMENSIONS = 6
_CONSTANTS_REGION = 0
_ARENA_REGION = 1
_FAST_REGION = 2
# A zip file's times start here; anything later would make the bytes depend on the day.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(artifact: Artifact, path: str | os.PathLike[str]) -> Path:
    """Write the .npz to `path` and return it.

    Raises `CodegenError` for a CPU operator whose options cannot be written, `ModelFormatError` for damaged ones.
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
    return program_arrays(artifact) if call is None else _of_one_call(artifact, call)


def _only_call(artifact: Artifact) -> NpuCall | None:
    """The NPU call that Vela's layout can hold with all that belongs to it, if that is the whole network."""
    graph = artifact.graph
    ends = (graph.tensors[t] for t in (*graph.inputs, *graph.handed_out))
    fits = all(len(tensor.shape) <= _DIMENSIONS and not tensor.is_constant for tensor in ends)
    call = artifact.calls[0] if len(artifact.calls) == 1 else None
    return call if isinstance(call, NpuCall) and fits and not carried_over(artifact) else None


def _of_one_call(artifact: Artifact, call: NpuCall) -> dict[str, Array]:
    found: dict[str, Array] = {
        "cmd_data": np.frombuffer(call.payload, np.uint8),
        "weight_data": np.frombuffer(padded(artifact.constants), np.uint8),
        "weight_region": np.array(_CONSTANTS_REGION, np.int64),
        "scratch_shape": np.array([artifact.arena_bytes], np.int64),
        "scratch_region": np.array(_ARENA_REGION, np.int64),
        "scratch_size": np.array(artifact.arena_bytes, np.int64),
        "scratch_fast_shape": np.array([artifact.fast_bytes or 0], np.int64),
        "scratch_fast_region": np.array(_FAST_REGION if artifact.fast_bytes else 0, np.int64),
        "scratch_fast_size": np.array(artifact.fast_bytes or 0, np.int64),
    }
    graph = artifact.graph
    state = tuple(variable.before for variable in graph.variables)
    for prefix, indices in (("input", graph.given), ("output", graph.handed_out), ("variable", state)):
        found.update(_tensors(artifact, prefix, indices))
    if state:
        initial = b"".join(np.ascontiguousarray(variable.initial).tobytes() for variable in graph.variables)
        found["variable_data"] = np.frombuffer(initial, np.uint8)
    return found


def _tensors(artifact: Artifact, prefix: str, indices: Sequence[int]) -> dict[str, Array]:
    tensors = [artifact.graph.tensors[i] for i in indices]
    shapes = [(1,) * (_DIMENSIONS - len(tensor.shape)) + tensor.shape for tensor in tensors]
    return {
        f"{prefix}_shape": np.array(shapes, np.int64).reshape(len(tensors), _DIMENSIONS),
        f"{prefix}_elem_size": np.array([tensor.dtype.size_bytes for tensor in tensors], np.int64),
        f"{prefix}_region": np.array([input_region(artifact, i) or _ARENA_REGION for i in indices], np.int64),
        # An external input is a region from its first byte on.
        f"{prefix}_offset": np.array([artifact.offsets.get(i, 0) for i in indices], np.int64),
    }
