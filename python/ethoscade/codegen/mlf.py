"""Writes compiled networks in TVM's Model Library Format, version 7: C sources, headers, metadata.json, listings.

Owns the layout and the metadata. The C text is `c_source`'s. Format: apache/tvm v0.18,
python/tvm/micro/model_library_format.py. The same artefacts give the same bytes: members are sorted, owners and times
are fixed (SOURCE_DATE_EPOCH, else the epoch).
"""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import CodegenError
from ..ir import Tensor
from ..util.files import MANIFEST_SUFFIX, absolute_path, write_together, write_whole
from . import c_source, executor_graph
from .artifact import Artifact, CpuCall, FeedCall, NpuCall, TakeCall
from .c.names import identifier
from .c.options import COptions, Networks
from .layout import call_tensors, distinct_payloads, input_region, npu_calls, touched_tensors, whole_lines

VERSION = 7
# DLPack's device type of the CPU; the NPU has no memory of its own to report.
_CPU = 1
# A map of parameters without entries, which readers of the format open (TVM's kTVMNDArrayListMagic): magic number,
# a reserved word, the number of names, the number of arrays; 64 bits each.
_NO_PARAMETERS = struct.pack("<4Q", 0xF7E58D4F05049CB7, 0, 0, 0)


def write(modules: Networks, path: str | os.PathLike[str]) -> Path:
    """Write the library to `path`: a tar file if it ends in ".tar", else a folder. Returns the path.

    Beside a folder, `<folder>.sha256` lists the hashes of its files.
    Raises `CodegenError` for what cannot be written, `UnsupportedOperatorError` for a CPU operator without a C kernel.
    """
    target = Path(path)
    if target.suffix == ".tar":
        return write_whole(target, archive(modules))
    if target.suffixes[-2:-1] == [".tar"]:
        raise CodegenError(f"cannot write '{target}': compressed archives are not written; name it .tar")
    # The folder may be named by ".." or end in a slash: its own name is asked of its real path.
    folder = absolute_path(target)
    files = {f"{folder.name}/{name}": data for name, data in contents(modules).items()}
    write_together(folder.parent, files, f"{folder.name}{MANIFEST_SUFFIX}")
    return target


def archive(modules: Networks) -> bytes:
    """The bytes of the tar file. Raises as `write` does, but nothing is written."""
    return _tar(contents(modules))


def contents(modules: Networks) -> dict[str, bytes]:
    """Every file of the library by its path within, in sorted order."""
    files: dict[str, bytes] = {}
    for name, data in c_source.all_units([(artifact, _all_c(options)) for artifact, options in modules]).items():
        folder = "include" if name.endswith(".h") else "src"
        files[f"codegen/host/{folder}/{name}"] = data
    for artifact, options in modules:
        module = c_source.module_name(artifact, options)
        files[f"parameters/{module}.params"] = _NO_PARAMETERS
        if options.has_graph:
            files[f"executor-config/graph/{module}.graph"] = executor_graph.to_json(artifact, module).encode()
        files[f"src/{module}.txt"] = listing(artifact).encode("utf-8", "backslashreplace")
    files["metadata.json"] = (json.dumps(metadata(modules), indent=2, sort_keys=True) + "\n").encode()
    return dict(sorted(files.items()))


def _all_c(options: COptions) -> COptions:
    """Consumers compile the archive's C files and nothing else: weights are C unless they are wanted otherwise."""
    return replace(options, weights="array") if options.weights == "auto" else options


def metadata(modules: Networks) -> dict[str, Any]:
    """The content of metadata.json.

    `workspace_size_bytes` is the arena as the C sources declare it; inputs and outputs lie in it, so that
    `io_size_bytes`, which consumers add to it, is 0. Of networks that share an arena, each tells what it needs of it.
    """
    return {
        "version": VERSION,
        "modules": {
            c_source.module_name(artifact, options): _module(artifact, options) for artifact, options in modules
        },
    }


def _module(artifact: Artifact, options: COptions) -> dict[str, Any]:
    graph, module = artifact.graph, c_source.module_name(artifact, options)
    ends = {
        what: {identifier(graph.tensors[i].name): _end(graph.tensors[i]) for i in indices}
        for what, indices in (("inputs", graph.given), ("outputs", graph.handed_out))
    }
    main = {
        "device": _CPU,
        "workspace_size_bytes": whole_lines(artifact.arena_bytes) + whole_lines(artifact.fast_bytes or 0),
        "constants_size_bytes": _constant_bytes(artifact),
        "io_size_bytes": 0,
        **ends,
    }
    operators = [
        {"function_name": name, "workspace": [{"device": _CPU, "workspace_size_bytes": size}]}
        for name, size in _functions(artifact, module, options)
    ]
    memory: dict[str, Any] = {"functions": {"main": [main], "operator_functions": operators}}
    if options.has_graph:
        memory["sids"] = executor_graph.storages(artifact, module)
    devices = [f"ethos-u -accelerator_config={artifact.accelerator}"] if npu_calls(artifact) else []
    return {
        "model_name": module,
        "export_datetime": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(_epoch())),
        "target": ["c -keys=cpu", *devices],
        "executors": [options.executor],
        "style": "full-model",
        "memory": memory,
        "external_dependencies": [],
    }


def _end(tensor: Tensor) -> dict[str, Any]:
    """An input or output; scale and zero point, which TVM's own libraries do not tell, where there is one of each."""
    told: dict[str, Any] = {"size": tensor.size_bytes, "dtype": tensor.dtype.value}
    if tensor.quantisation is not None and tensor.quantisation.axis is None:
        told |= {"scale": tensor.quantisation.scale, "zero_point": tensor.quantisation.zero_point}
    return told


def listing(artifact: Artifact) -> str:
    """What the network became, as text: every tensor with its place, every call with what it reads and writes."""
    fast = f"fast memory {artifact.fast_bytes} bytes, " if artifact.fast_bytes else ""
    lines = [
        f"network {artifact.name} for {artifact.accelerator}",
        f"arena {artifact.arena_bytes} bytes, {fast}constants {len(artifact.constants)} bytes",
        "",
        "tensors",
    ]
    for index in touched_tensors(artifact):
        tensor = artifact.graph.tensors[index]
        place = "constant" if tensor.is_constant else f"arena {artifact.offsets.get(index)}"
        if (region := input_region(artifact, index)) is not None:
            place = f"the caller's, region {region}"
        lines.append(
            f"  %{index} {tensor.name}: {tensor.dtype.value}{list(tensor.shape)}, {tensor.size_bytes} bytes, {place}"
        )
    lines += ["", "calls"]
    for call in artifact.calls:
        reads, writes = (" ".join(f"%{t}" for t in group) for group in call_tensors(artifact, call))
        if isinstance(call, NpuCall):
            title = f"npu {call.name}, payload {len(call.payload)} bytes"
        elif isinstance(call, FeedCall | TakeCall):
            title = f"caller, {call.name} at arena {call.offset}"
        else:
            operator = artifact.graph.operators[call.operator]
            title = f"cpu {operator.kind} {operator.name}"
        lines.append(f"  {title}: {reads} -> {writes}")
    return "\n".join(lines) + "\n"


def _constant_bytes(artifact: Artifact) -> int:
    tensors = (artifact.graph.tensors[i] for i in touched_tensors(artifact))
    return (
        len(artifact.constants)
        + sum(len(payload) for payload in distinct_payloads(artifact))
        + sum(tensor.size_bytes for tensor in tensors if tensor.is_constant)
    )


def _functions(artifact: Artifact, module: str, options: COptions) -> list[tuple[str, int]]:
    """Name and workspace bytes of the calls' functions: a program of the NPU is one for the graph executor alone."""
    return [
        (executor_graph.function_name(module, number, call), call.workspace_bytes if isinstance(call, CpuCall) else 0)
        for number, call in enumerate(artifact.calls)
        if isinstance(call, CpuCall) or (options.has_graph and isinstance(call, NpuCall))
    ]


def _epoch() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "0")
    try:
        return int(text)
    except ValueError:
        raise CodegenError(f"SOURCE_DATE_EPOCH is '{text}', not a number of seconds") from None


def _tar(files: dict[str, bytes]) -> bytes:
    folders = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) != "."})
    stream = io.BytesIO()
    # PAX adds headers only for names that are too long otherwise, and none that depend on the system.
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in folders:
            archive.addfile(_member(name, tarfile.DIRTYPE, 0o755, 0))
        for name, data in files.items():
            archive.addfile(_member(name, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))
    return stream.getvalue()


def _member(name: str, kind: bytes, mode: int, size: int) -> tarfile.TarInfo:
    # TVM's readers ask for "./metadata.json".
    info = tarfile.TarInfo(f"./{name}")
    info.type, info.mode, info.size, info.mtime = kind, mode, size, _epoch()
    return info
