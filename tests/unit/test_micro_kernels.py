"""What TensorFlow Lite Micro has kernels for, and the arena that it wants: the table and the formula, and itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from command_line_support import Capture, run, run_json
from ethoscade.codegen import micro_arena, micro_kernels, tflite
from ethoscade.errors import EthoscadeError
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType, Graph, Operator
from ethoscade.judge import litert, reference
from ethoscade.testing import ModelBuilder, mobilenet_v1
from reference_support import models_folder
from tflite_files import INT32, File, Op, T
from zoo_models import zoo

# Some with a kernel, some with one for other types, some with none.
DRAWN = [
    ("SOFTMAX", DType.UINT8), ("SOFTMAX", DType.INT8), ("ADD", DType.INT32), ("ADD of scaled int32", DType.INT32),
    ("GELU", DType.INT8), ("TILE", DType.INT8), ("TRANSPOSE", DType.INT16), ("ELU", DType.INT8), ("LOG", DType.INT8),
    ("QUANTIZE", DType.UINT8), ("RELU_N1_TO_1", DType.INT8), ("MEAN", DType.UINT8), ("PACK", DType.INT16),
    ("SPLIT", DType.INT8), ("TRANSPOSE_CONV", DType.INT8),
]  # fmt: skip


def needs_micro() -> None:
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")


@pytest.mark.parametrize(("kind", "dtype"), DRAWN)
def test_the_interpreter_agrees(kind: str, dtype: DType) -> None:
    needs_micro()
    source = zoo(kind, dtype).build()
    graph = read_tflite(source)
    index, op = next((i, op) for i, op in enumerate(graph.operators) if op.kind == kind.split()[0])
    plain = [t for t in dict.fromkeys(op.inputs) if t is not None and not graph.tensors[t].is_constant]
    values = {t: np.ones(graph.tensors[t].shape, graph.tensors[t].dtype.numpy) for t in plain}
    with litert.Session(source, "zoo", litert.MICRO) as session:
        try:
            session.run([index], plain, op.outputs, [values])
            refused = None
        except EthoscadeError as error:
            refused = str(error)
    assert (micro_kernels.misses(graph, op) is None) == (refused is None), refused


def test_the_arithmetic_that_is_known_is_of_kernels_that_there_are() -> None:
    for kind, meaning in reference.MEANINGS.items():
        assert set(meaning.micro) <= set(micro_kernels.MICRO_KERNELS.get(kind, ())), kind


def of_int32(kind: str) -> tuple[Graph, Operator]:
    tensors = [T(name, (1, 4), INT32, (), ()) for name in ("x", "y")]
    graph = read_tflite(File(tensors, [Op(kind, [0], [1])], [0], [1]).bytes())
    return graph, graph.operators[0]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("UNHEARD", r"operator 'y' \(UNHEARD\) has no kernel in TensorFlow Lite Micro"),
        ("ELU", r"operator 'y' \(ELU\) reads int32; TensorFlow Lite Micro's kernel takes float32 and int8"),
        ("CEIL", "reads int32; .* takes float32$"),
        ("QUANTIZE", "makes int32 of int32; TensorFlow Lite Micro's kernel makes int8 and int16"),
        ("RESHAPE", ""),
        ("TFLite_Detection_PostProcess", ""),
    ],
)
def test_what_is_missing_is_told_with_value_and_limit(kind: str, said: str) -> None:
    found = micro_kernels.misses(*of_int32(kind))
    if said:
        assert found is not None and re.search(said, found), found
    else:
        assert found is None


def test_reports_warn_of_files_that_cannot_be_loaded(tmp_path: Path, capfd: Capture) -> None:
    b = ModelBuilder(dtype=DType.UINT8)
    b.output(b.conv2d(b.quantize(b.input((1, 4, 4, 3), dtype=DType.FLOAT32)), 4))
    model = tmp_path / "net.tflite"
    model.write_bytes(b.build())
    (warning,) = ethoscade.compile(model).micro_warnings
    assert "makes uint8 of float32; TensorFlow Lite Micro's kernel makes int8 and int16" in warning
    report = run_json(["compile", model, "-o", tmp_path], capfd)
    assert report["tflm"]["warnings"] == [warning]
    _, out, _ = run(["compile", model, "-o", tmp_path], capfd)
    assert warning in out and "TFLM's arena" in out
    report = run_json(["compile", model, "-o", tmp_path, "--io", "int8"], capfd)
    assert report["tflm"]["warnings"] == []
    sizes = {name: size for name, size in report["tflm"].items() if name != "warnings"}
    assert sizes["planned_bytes"] == report["sram_bytes"]
    assert sizes["arena_bytes"] - sizes["planned_bytes"] - sizes["beyond_bytes"] in range(16)


def test_structures_are_as_large_as_the_interpreter_says(tmp_path: Path) -> None:
    """On this host, whose pointers are longer; what its recording allocator prints of a model with 30 operators."""
    needs_micro()
    model = mobilenet_v1(0.25, 32, 10)
    path = tmp_path / "net.tflite"
    path.write_bytes(model)
    program = (
        "from tflite_micro.python.tflite_micro import runtime\nimport sys\n"
        "runtime.Interpreter.from_file(sys.argv[1], arena_size=1 << 24).print_allocations()"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    text = done.stdout + done.stderr
    used = {name: int(size) for name, size in re.findall(r"'([^']+)' used (\d+) bytes", text)}
    graph = read_tflite(model)
    ours = micro_arena.of_file(graph, pointer_bytes=8)
    assert used["TfLiteEvalTensor data"] == ours.tensors
    assert used["NodeAndRegistration struct"] == ours.nodes
    ends = used["Persistent TfLiteTensor data"] + used["Persistent TfLiteTensor quantization data"]
    assert ours.interface == ends + 2 * 16, "two lists of one pointer, aligned"


def test_a_cortex_m_takes_less() -> None:
    """By the declarations: 12 bytes a tensor, 32 an operator, 40 and 20 for an int8 input or output."""
    compiled = ethoscade.compile(mobilenet_v1(0.25, 32, 10), optimise="size")
    arena = compiled.micro_arena()
    assert arena.planned == compiled.artifact.arena_bytes
    assert arena.nodes == 32 * len(compiled.artifact.calls)
    assert arena.interface == 2 * (16 + 40 + 20)
    assert arena.tensors == 12 * 5, "input, output, commands, constants, the arena itself"
    assert arena.kernels == 24 * sum(hasattr(call, "payload") for call in compiled.artifact.calls)
    own = arena.tensors + arena.nodes + arena.interface + arena.kernels + arena.fixed
    assert arena.beyond_bytes == own + max(arena.scratch, arena.planning - arena.planned)


_RUN = (
    "from tflite_micro.python.tflite_micro import runtime\nimport sys\n"
    "one = runtime.Interpreter.from_file(sys.argv[1], arena_size=int(sys.argv[2]))\none.invoke()"
)


def runs_in(path: Path, arena_bytes: int) -> bool:
    """Whether TensorFlow Lite Micro loads and runs a file in an arena of so many bytes on this host."""
    done = subprocess.run([sys.executable, "-c", _RUN, path, str(arena_bytes)], capture_output=True, check=False)
    return done.returncode == 0


def least_arena(path: Path, most: int) -> int:
    """The smallest arena in which it runs, in whole steps of 16."""
    least = 0
    while most - least > 16:
        middle = (least + most) // 32 * 16
        least, most = (least, middle) if runs_in(path, middle) else (middle, most)
    return most


def hold(model: bytes, tmp_path: Path, above: float) -> None:
    """The figure for this host is enough, and at most so much more than what is needed."""
    compiled = ethoscade.compile(model, accelerator="none")
    file = tflite.write(compiled.artifact)
    path = tmp_path / "net.tflite"
    path.write_bytes(file)
    if not runs_in(path, 1 << 26):
        pytest.skip("TensorFlow Lite Micro does not take it")
    figure = micro_arena.of_file(read_tflite(file), pointer_bytes=8).arena_bytes
    assert runs_in(path, figure), "too small"
    need = least_arena(path, figure)
    assert figure <= need * (1 + above) + 1024, f"{figure} for {need}"


# Kernels that keep buffers or ask for scratch buffers, by the sources of `micro_kernels.COMMIT`, and types of theirs.
KEEPING = [
    ("BATCH_MATMUL", DType.INT8), ("CONV_2D", DType.INT8), ("CONV_2D", DType.INT16),
    ("CONCATENATION", DType.INT8), ("DEPTHWISE_CONV_2D", DType.INT8), ("ELU", DType.INT8),
    ("FULLY_CONNECTED", DType.INT8), ("MEAN", DType.INT8), ("MIRROR_PAD", DType.INT8), ("REDUCE_MAX", DType.INT8),
    ("SOFTMAX", DType.INT16), ("SUM", DType.INT16), ("TRANSPOSE_CONV", DType.INT8), ("TRANSPOSE_CONV", DType.INT16),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", DType.INT8),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "dtype"), KEEPING)
def test_the_arena_is_enough_for_kernels_that_keep_buffers(kind: str, dtype: DType, tmp_path: Path) -> None:
    needs_micro()
    hold(zoo(kind, dtype).build(), tmp_path, 0.1)


def test_the_arena_is_enough_for_convolutions_on_the_cpu(tmp_path: Path) -> None:
    """Factors of each channel, whose bytes do not follow from the plan."""
    needs_micro()
    hold(mobilenet_v1(0.25, 32, 10), tmp_path, 0.02)


MODELS = (
    "kws_ref_int8",
    "person_detect",
    "resnet8_int8",
    "micro_speech_lstm",
    "keyword_scrambled_8bit",
    "alexa_resource",
)


@pytest.mark.parametrize("name", MODELS)
def test_the_arena_is_enough_for_real_models(name: str, tmp_path: Path) -> None:
    needs_micro()
    folder = models_folder()
    if folder is None or not (folder / f"{name}.tflite").exists():
        pytest.skip("no models: set ETHOSCADE_MODELS")
    hold((folder / f"{name}.tflite").read_bytes(), tmp_path, 0.03)
