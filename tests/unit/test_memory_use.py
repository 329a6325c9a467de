"""Bytes that compiling takes beside the model's own, and how large weights are encoded piece by piece."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen import vela
from ethoscade.codegen.streams import WEIGHT_ENCODERS
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.judge import reference
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder, mobilenet_v1

# Prints the most bytes that compiling the file and writing it takes, more than the process had before.
CHILD = '''
import resource, sys
import ethoscade
from ethoscade.testing import tiny_conv
def most():
    """Bytes, since this program began: what ru_maxrss says may be of the process that started it."""
    try:
        status = open("/proc/self/status").read()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 1024 * int(status.split("VmHWM:")[1].split()[0])
ethoscade.compile(tiny_conv())
before = most()
ethoscade.compile(sys.argv[1]).save(sys.argv[2])
print(most() - before)
'''
TIMES = 5
"""Bytes that may be taken for each byte of a model."""


def dense(inputs: int, outputs: int, dtype: DType = DType.INT8) -> bytes:
    """One fully connected layer."""
    builder = ModelBuilder("dense", dtype=dtype, seed=3)
    builder.fully_connected(builder.input((1, inputs)), outputs)
    return builder.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_a_model_is_not_held_many_times(dtype: DType) -> None:
    model = dense(1500, 1500, dtype)
    ethoscade.compile(dense(16, 16))
    tracemalloc.start()
    try:
        compiled = ethoscade.compile(model)
        _, compiling = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        del compiled
    finally:
        tracemalloc.stop()
    assert compiling < TIMES * len(model) + (1 << 20)


@pytest.mark.skipif(sys.platform == "win32", reason="the system does not say how much a process took")
def test_a_process_takes_five_times_the_model_and_a_constant(tmp_path: Path) -> None:
    """What ethos-u-vela takes counts as well."""
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense(2500, 2500))
    command = [sys.executable, "-c", CHILD, str(path), str(tmp_path / "compiled.tflite")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # The piece that ethos-u-vela has in hand is the constant: a hundred bytes for each of its weights.
    assert path.stat().st_size < int(done.stdout) < TIMES * path.stat().st_size + (128 << 20)


def test_weights_are_the_files_own_bytes() -> None:
    model = dense(300, 200)
    compiled = ethoscade.compile(model)
    (operation,) = compiled.npu.operations
    assert operation.weights is not None
    assert operation.weights.values.nbytes == 300 * 200
    stored = next(t.data for t in compiled.source.tensors if t.data is not None and t.data.size == 300 * 200)
    assert np.shares_memory(operation.weights.values, stored)


def test_no_call_encodes_many_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds the interpreter's lock."""
    api, sizes = vela._api(), []
    encode = api.npu_encode_weights

    def counted(accelerator: Any, weights: Any, *rest: Any) -> Any:
        sizes.append(weights.size)
        return encode(accelerator, weights, *rest)

    monkeypatch.setattr(api, "npu_encode_weights", counted)
    ethoscade.compile(dense(1100, 1100), weight_encoder="vela")
    assert max(sizes) <= vela._PIECE_WEIGHTS < 1100 * 1100
    assert sum(sizes) % (1100 * 1100) == 0


def differences(model: bytes, encoder: str) -> int:
    """Elements of the outputs that the simulator computes otherwise than the reference."""
    compiled = ethoscade.compile(model, optimise="size", weight_encoder=encoder)
    inputs = random_inputs(compiled.source, 5)
    want = reference.run(read_tflite(model), inputs).values
    found = compiled.simulate(inputs).outputs
    tensors = compiled.source.tensors
    return sum(int((found[tensors[t].name] != want[t]).sum()) for t in compiled.source.outputs)


def test_what_is_encoded_in_pieces_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [differences(dense(1100, 1100), encoder) for encoder in WEIGHT_ENCODERS] == [0, 0]
    # Every block of output channels is a piece of its own.
    monkeypatch.setattr(vela, "_PIECE_WEIGHTS", 1)
    for model in (dense(70, 90), dense(40, 50, DType.UINT8), mobilenet_v1(0.25, 32)):
        assert differences(model, "vela") == 0
