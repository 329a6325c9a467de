"""Artefacts to test writers with, made without the compiler: CPU-only ones from graphs, NPU ones from Vela's output."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from ethoscade.codegen.artifact import Artifact, CpuCall, NpuCall
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from model_files import NO_MODELS, model_folder

ETHOS_U = "ethos-u"


def models_folder() -> Path:
    """Where real models lie. Skips if there are none."""
    folder = model_folder()
    if folder is None:
        pytest.skip(NO_MODELS)
    return folder


def cpu_artifact(model: bytes, name: str = "net") -> Artifact:
    """Every operator on the CPU, every tensor in a place of its own."""
    graph = read_tflite(model, name)
    offsets: dict[int, int] = {}
    end = 0
    for index, tensor in enumerate(graph.tensors):
        if not tensor.is_constant:
            offsets[index] = end
            end += -(-tensor.size_bytes // 16) * 16
    calls = tuple(CpuCall(position) for position in range(len(graph.operators)))
    return Artifact(name, "ethos-u55-256", graph, calls, b"", end, offsets)


def artifact_of_compiled(graph: Graph) -> Artifact:
    """The artefact that a compiled file with one pair of memories holds."""
    words = np.frombuffer(graph.metadata["OfflineMemoryAllocation"], np.int32)
    plan = {index: int(offset) for index, offset in enumerate(words[3:]) if offset >= 0}
    calls: list[NpuCall | CpuCall] = []
    constants, arena = b"", 0
    for position, operator in enumerate(graph.operators):
        if operator.kind != ETHOS_U:
            calls.append(CpuCall(position))
            continue
        payload, blob, scratch = (t for t in operator.inputs[:3] if t is not None)
        constants = _bytes(graph, blob)
        arena = graph.tensors[scratch].size_bytes
        inputs = tuple(t for t in operator.inputs[4:] if t is not None)
        calls.append(NpuCall(operator.name, _bytes(graph, payload), inputs, operator.outputs))
    arena = max([arena, *(plan[i] + graph.tensors[i].size_bytes for i in plan)])
    return Artifact(graph.name, "ethos-u55-256", graph, tuple(calls), constants, -(-arena // 16) * 16, plan)


def vela_file(model: bytes, *options: str) -> bytes:
    """`model` compiled by Vela for Ethos-U55-256."""
    return vela_files(model, *options)["model_vela.tflite"]


@cache
def vela_files(model: bytes, *options: str) -> dict[str, bytes]:
    """All that Vela writes when it compiles `model` for Ethos-U55-256, by name: "model_vela.tflite" and more."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(model)
        command = [str(Path(sys.executable).with_name("vela")), str(source), "--output-dir", folder]
        command += ["--accelerator-config", "ethos-u55-256", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Vela cannot run here: {done.stderr[-200:]}")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path != source}


def vela_artifact(model: bytes, name: str = "net") -> Artifact:
    """`model` compiled by Vela, as an artefact."""
    return artifact_of_compiled(read_tflite(vela_file(model), name))


def litert(model: bytes, inputs: dict[str, np.ndarray], resolver: str = "BUILTIN_REF") -> dict[str, np.ndarray]:
    """Outputs of LiteRT's kernels, by default the reference ones, by tensor name."""
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    with contextlib.redirect_stderr(io.StringIO()):
        interpreter = interpreter_module.Interpreter(
            model_content=model, experimental_op_resolver_type=interpreter_module.OpResolverType[resolver]
        )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return {detail["name"]: interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()}


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Uniform noise over each input's type."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found = {}
    for index in graph.inputs:
        tensor = graph.tensors[index]
        if tensor.dtype.numpy.kind == "f":
            found[tensor.name] = rng.normal(size=tensor.shape).astype(tensor.dtype.numpy)
        else:
            low, high = tensor.dtype.limits
            found[tensor.name] = rng.integers(low, high + 1, size=tensor.shape).astype(tensor.dtype.numpy)
    return found


def _bytes(graph: Graph, index: int) -> bytes:
    data = graph.tensors[index].data
    return b"" if data is None else data.tobytes()
