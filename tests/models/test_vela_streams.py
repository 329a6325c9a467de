"""The simulator against reference interpreters on streams that Vela made: every output element must be equal.

Neither the streams nor the references know anything of ethoscade, so an error that compiler and simulator share cannot
hide here. `ETHOSCADE_SEEDS` is the number of random inputs, by default 3.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import vela_file
from ethoscade.run import simulator
from model_files import NO_MODELS, model_folder

CORES = ("regor", "legacy")
SMALL = ("hello_world_int8", "micro_speech", "kws_ref_int8", "resnet8_int8", "seanet_conv3", "person_detect")
LARGE = (
    "ad01_int8",
    "vww_96_int8",
    "mobilenet_v1_0.25_128_uint8",
    "mobilenet_v1_1.0_224_embed_uint8",
    "mobilenet_v1_1.0_224_int8_rand",
    "mobilenet_v2_1.0_224_ptq",
)
ACCELERATORS = ("ethos-u55-256", "ethos-u55-128", "ethos-u55-32", "ethos-u65-256", "ethos-u65-512")
SEEDS = range(int(os.environ.get("ETHOSCADE_SEEDS", "3")))
CASES = [(accelerator, core, name) for accelerator in ACCELERATORS for core in CORES for name in SMALL + LARGE]
# The references abort in the softmax of a thousand equal classes: this model is compared in front of it.
WITHOUT_SOFTMAX = "mobilenet_v1_1.0_224_int8_rand"
# A network with operators that no NPU has, and its tensors in front of and behind Vela's calls but the last.
WITH_CPU = "keyword_scrambled_8bit"
CPU_ENDS = ((52, 0), (5, 8), (13, 16), (21, 24), (29, 32))
# LiteRT rounds fully connected int8 layers once, everybody else twice.
REFERENCE = {"ad01_int8": "tflm", "hello_world_int8": "tflm", "micro_speech": "tflm", "kws_ref_int8": "tflm"}


def model_path(name: str) -> Path:
    """The model's file; the test is skipped without it."""
    folder = model_folder()
    if folder is None:
        pytest.skip(NO_MODELS)
    path = folder / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is missing")
    return path


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """A function name -> path of the model to compile and to compare with."""

    @functools.cache
    def path(name: str) -> Path:
        original = model_path(name)
        if name != WITHOUT_SOFTMAX:
            return original
        cut = tmp_path_factory.mktemp("models") / original.name
        cut.write_bytes(vela_file.without_last_operator(original.read_bytes()))
        return cut

    return path


@pytest.fixture(scope="session")
def compile_with_vela(tmp_path_factory, model_file):
    """A function (model, accelerator, core) -> compiled file; each is compiled once."""
    if importlib.util.find_spec("ethosu") is None:
        pytest.skip("ethos-u-vela is not installed")

    @functools.cache
    def compile_model(name: str, accelerator: str, core: str) -> vela_file.VelaFile:
        out = tmp_path_factory.mktemp("vela")
        command = [sys.executable, "-m", "ethosu.vela", "--accelerator-config", accelerator, "--output-dir", str(out)]
        command += ["--debug-force-legacy-core"] if core == "legacy" else []
        done = subprocess.run([*command, str(model_file(name))], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return vela_file.read(out / f"{name}_vela.tflite")

    return compile_model


@pytest.fixture(scope="session")
def reference(tmp_path_factory, model_file):
    """A function (model, engine, tensors) -> outputs or those tensors for each seed, computed in a child process."""

    @functools.cache
    def outputs(name: str, engine: str, tensors: tuple[int, ...] = ()) -> list[list[np.ndarray]]:
        module = {"litert": "ai_edge_litert", "tflm": "tflite_micro"}[engine]
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
        directory = tmp_path_factory.mktemp("reference")
        given = [network_inputs(name, seed) for seed in SEEDS]
        np.savez(directory / "inputs.npz", *itertools.chain(*given))
        worker = Path(__file__).with_name("reference_worker.py")
        files = [model_file(name), directory / "inputs.npz", directory / "outputs.npz"]
        command = [sys.executable, worker, *files, engine, *map(str, tensors)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        archive = np.load(directory / "outputs.npz")
        found = [archive[f"arr_{i}"] for i in range(len(archive.files))]
        each = len(found) // len(SEEDS)
        return [found[at : at + each] for at in range(0, len(found), each)]

    return outputs


def network_inputs(name: str, seed: int) -> list[np.ndarray]:
    """Deterministic inputs: even seeds uniform over the type's range, odd ones smooth waves."""
    import tflite

    graph = tflite.Model.GetRootAs(model_path(name).read_bytes(), 0).Subgraphs(0)
    rng = np.random.default_rng(seed)
    inputs = []
    for index in graph.InputsAsNumpy():
        tensor = graph.Tensors(index)
        dtype = np.dtype(vela_file.DTYPES[tensor.Type()])
        shape = tensor.ShapeAsNumpy()
        info = np.iinfo(dtype)
        if seed % 2 == 0:
            inputs.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
        else:
            phase = np.arange(np.prod(shape)).reshape(shape) * 0.01 * seed
            inputs.append(np.round(info.min + (np.sin(phase) + 1) / 2 * (info.max - info.min)).astype(dtype))
    return inputs


def machine_for(accelerator: str, operator: vela_file.NpuOp) -> simulator.Machine:
    """Region 0 constants, 1 the arena; 2 the fast scratch, which may be a part of the arena."""
    offset, size = operator.scratch
    assert offset == 0
    fast_offset, fast_size = operator.fast_scratch
    dedicated = fast_offset + fast_size > size or "u65" in accelerator
    fast = fast_size if dedicated else (1, fast_offset, fast_size)
    return simulator.Machine(accelerator, [operator.constants, size, fast])


def run_network(accelerator: str, compiled: vela_file.VelaFile, inputs: list[np.ndarray]):
    """Outputs and report of a network that is a single NPU operator."""
    (operator,) = compiled.operators
    machine = machine_for(accelerator, operator)
    for tensor, value in zip(compiled.inputs, inputs, strict=True):
        machine.write(1, tensor.offset, value)
    report = machine.run(operator.payload)
    outputs = []
    for tensor in compiled.outputs:
        assert machine.find_uninitialised(1, tensor.offset, tensor.offset + tensor.size_bytes) is None
        data = machine.read(1, tensor.offset, tensor.size_bytes)
        outputs.append(np.frombuffer(data, tensor.dtype).reshape(tensor.shape))
    return outputs, report


@pytest.mark.parametrize(("accelerator", "core", "name"), CASES)
def test_outputs_equal_the_reference(accelerator, core, name, compile_with_vela, reference):
    compiled = compile_with_vela(name, accelerator, core)
    for seed, expected in zip(SEEDS, reference(name, REFERENCE.get(name, "litert")), strict=True):
        outputs, report = run_network(accelerator, compiled, network_inputs(name, seed))
        for got, want in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(got.reshape(want.shape), want, err_msg=f"seed {seed}")
        assert report.warnings == () and report.hazards == ()
        assert report.kernels > 0


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_parts_of_a_network_with_cpu_operators_equal_the_reference(accelerator, core, compile_with_vela, reference):
    """Each call is given what TFLM computes in front of it; SVDF, and the legacy core's softmax, stay on the CPU."""
    compiled = compile_with_vela(WITH_CPU, accelerator, core)
    parts = [operator for operator in compiled.operators if isinstance(operator, vela_file.NpuOp)]
    ends = [*CPU_ENDS, (47, 51 if core == "regor" else 50)]
    for values in reference(WITH_CPU, "tflm", tuple(itertools.chain(*CPU_ENDS, (47, 50, 51)))):
        known = dict(zip((*itertools.chain(*CPU_ENDS), 47, 50, 51), values, strict=True))
        for operator, (before, after) in zip(parts, ends, strict=True):
            machine = machine_for(accelerator, operator)
            (given,), (made,) = operator.inputs, operator.outputs
            machine.write(1, given.offset, known[before].astype(given.dtype))
            report = machine.run(operator.payload)
            assert report.warnings == () and report.hazards == ()
            found = np.frombuffer(machine.read(1, made.offset, made.size_bytes), made.dtype)
            np.testing.assert_array_equal(found, known[after].reshape(-1))
