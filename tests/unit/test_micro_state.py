"""State in TensorFlow Lite Micro's arena: no scratch buffer of any kernel lies over it between two runs."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from ethoscade.codegen import tflite
from ethoscade.errors import CodegenError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.testing import ModelBuilder
from in_a_row import steps_of
from test_micro_kernels import hold, needs_micro
from test_state import with_state
from test_state_readers import of_long_sums

RUNS = 6


def remembered(b: ModelBuilder, dtype: DType = DType.INT8) -> None:
    """The state of the SVDF is the largest of all; TRANSPOSE_CONV's sums fit into its bytes."""
    kept = b.svdf(b.input((1, 16), name="x"), 16, 64, state_dtype=dtype)
    b.output(b.transpose_conv(b.reshape(kept, (1, 4, 4, 1)), 2, 3))


def remembered_wide(b: ModelBuilder) -> None:
    remembered(b, DType.INT16)


def remembered_twice(b: ModelBuilder) -> None:
    """The second SVDF's scratch is as small as the first one's."""
    b.output(b.svdf(b.svdf(b.input((1, 16), name="x"), 16, 64), 8, 2))


def recurrent(b: ModelBuilder) -> None:
    """Hidden state of 8 bits and cell state of 16, many times what the layers behind it take."""
    last = b.slice(b.lstm(b.input((1, 2, 16), name="x"), 256), (0, 1, 0), (1, 1, 16))
    b.output(b.transpose_conv(b.reshape(last, (1, 4, 4, 1)), 1, 3))


def behind(b: ModelBuilder) -> None:
    """The kernel with scratch comes before the state."""
    sums = b.transpose_conv(b.input((1, 4, 4, 1), name="x"), 2, 3)
    b.output(b.svdf(b.reshape(sums, (1, 128)), 16, 64))


def summed(b: ModelBuilder) -> None:
    """A resource variable before TRANSPOSE_CONV and MEAN."""
    x = b.input((1, 8, 8, 4), name="x")
    total = b.variable(x.shape, Quantisation((0.02,), (0,)))
    b.assign(total, b.add(total, x, output=total.quantisation))
    b.output(b.mean(b.transpose_conv(total, 1, 3)))


NETWORKS: dict[str, Callable[[ModelBuilder], None]] = {
    of.__name__: of for of in (remembered, remembered_wide, remembered_twice, recurrent, behind, summed)
}


def drawn(seed: int) -> bytes:
    """Layers with state and layers with scratch in any order."""
    rng = np.random.default_rng(seed)
    b = ModelBuilder(f"drawn{seed}", seed=seed)
    x = b.input((1, int(rng.choice([8, 16, 24]))), name="x")
    for kind in (*rng.permutation(["svdf", "lstm", "transpose_conv"]), *rng.choice(["svdf", "transpose_conv"], 2)):
        size = x.shape[1]
        if kind == "svdf":
            x = b.svdf(x, int(rng.choice([4, 8, 16])), int(rng.integers(2, 60)))
        elif kind == "lstm":
            cells = int(rng.choice([4, 16, 64]))
            x = b.reshape(b.lstm(b.reshape(x, (1, 1, size)), cells), (1, cells))
        else:
            sums = b.transpose_conv(b.reshape(x, (1, size // 4, 2, 2)), int(rng.integers(1, 3)), 3)
            x = b.reshape(sums, (1, int(np.prod(sums.shape))))
    b.output(x)
    return b.build()


def built(name: str) -> bytes:
    b = ModelBuilder(name)
    NETWORKS[name](b)
    return b.build()


_RUN = """
import sys
import numpy as np
from tflite_micro.python.tflite_micro import runtime
interpreter, found = runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 22), []
for value in np.load(sys.argv[2]):
    interpreter.set_input(value, 0)
    interpreter.invoke()
    found.append(np.array(interpreter.get_output(0)))
np.save(sys.argv[3], np.array(found))
"""


def in_micro(model: bytes, steps: list[dict[str, np.ndarray]], folder: Path) -> np.ndarray:
    """What TensorFlow Lite Micro makes of runs in a row, in a process of its own."""
    path, given, made = folder / "net.tflite", folder / "given.npy", folder / "made.npy"
    path.write_bytes(model)
    np.save(given, np.array([step["x"] for step in steps]))
    subprocess.run([sys.executable, "-c", _RUN, path, given, made], check=True, capture_output=True)
    return np.load(made)


def hold_in_a_row(model: bytes, folder: Path) -> None:
    """The compiled file makes in every run what the reference does, and TensorFlow Lite Micro of the model itself."""
    graph = read_tflite(model)
    given = graph.tensors[graph.given[0]]
    steps = steps_of(given.shape, given.dtype, RUNS)
    expected = [next(iter(run.outputs.values())) for run in reference.run_steps(graph, steps)]
    alone = next(iter(reference.run(graph, steps[-1]).outputs.values()))
    assert not np.array_equal(alone, expected[-1]), "the state ought to show"
    np.testing.assert_array_equal(in_micro(model, steps, folder), expected)
    written = tflite.write(ethoscade.compile(model, accelerator="none").artifact)
    np.testing.assert_array_equal(in_micro(written, steps, folder), expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_state_outlives_the_scratch_of_all_kernels(name: str, tmp_path: Path) -> None:
    needs_micro()
    hold_in_a_row(built(name), tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_state_of_drawn_networks_outlives_all_scratch(seed: int, tmp_path: Path) -> None:
    needs_micro()
    hold_in_a_row(drawn(seed), tmp_path)


def places_of(model: bytes) -> dict[str, int]:
    """Where the file's plan puts tensors, by name."""
    graph = read_tflite(model)
    plan = graph.metadata["OfflineMemoryAllocation"]
    words = struct.unpack(f"<{len(plan) // 4}i", plan)
    return {tensor.name: place for tensor, place in zip(graph.tensors, words[3:], strict=False)}


def test_state_beside_npu_calls_has_no_place_in_the_plan() -> None:
    """Micro then allocates it for all runs: `AllocateVariables` of micro_allocator.cc at `micro_kernels.COMMIT`."""
    compiled = ethoscade.compile(with_state().bytes())
    assert [op.kind for op in compiled.cpu_operators] == ["SVDF"]
    places = places_of(tflite.write(compiled.artifact))
    assert places["state"] == -1 and places["scratch"] == 0 and places["hidden"] >= 0
    assert compiled.verify(seeds=2).ok


def test_an_npu_call_that_touches_such_state_is_not_written() -> None:
    artifact = ethoscade.compile(of_long_sums().bytes()).artifact
    (variable,) = artifact.graph.variables
    first, *rest = artifact.calls
    for touched in (variable.before, variable.after):
        wrong = replace(artifact, calls=(replace(first, inputs=(*first.inputs, touched)), *rest))
        with pytest.raises(CodegenError, match=r"NPU call .* reads or writes variable tensor 'state'"):
            tflite.write(wrong)


def test_reports_count_state_beside_the_plan(tmp_path: Path) -> None:
    """On this host: enough, and at most a tenth and a kilobyte more than what Micro needs."""
    needs_micro()
    for model in (built("remembered"), built("recurrent"), drawn(3)):
        hold(model, tmp_path, 0.1)
