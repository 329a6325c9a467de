"""Every C kernel, bit for bit, built by the system compiler: against the reference on drawn operators, against LiteRT.

Hundreds of operators are one network, so that the compiler is called a few times. `RUNTIME_CHECKS` are switched on
where the compiler has them: undefined behaviour ends the run.
"""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from codegen_support import random_inputs
from ethoscade.codegen import c_kernels, c_source
from ethoscade.codegen.artifact import Artifact, CpuCall
from ethoscade.codegen.c_kernels import KERNELS, kernel_for
from ethoscade.codegen.c_kernels.texts import source, text_of
from ethoscade.errors import UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import (
    EIGHT_BIT,
    Activation,
    AddAttrs,
    ArgMaxAttrs,
    ArithmeticAttrs,
    Attrs,
    ConcatenationAttrs,
    ConvAttrs,
    DType,
    Graph,
    MirrorPadAttrs,
    Operator,
    PadAttrs,
    Quantisation,
    ReductionAttrs,
    ResizeNearestAttrs,
    SoftmaxAttrs,
    Tensor,
    Window,
)
from ethoscade.ir.operators import OPERATORS
from ethoscade.judge import reference
from ethoscade.run import host_c
from ethoscade.testing import ModelBuilder, random_network
from ethoscade.testing.recorder import Value
from operator_batches import Batch
from reference_support import drawn_operator, litert_values, needs_litert

WARNINGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion"),
    *("-Wcast-qual", "-Wcast-align", "-Wmissing-prototypes"),
)
RUNTIME_CHECKS = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
TYPES = (DType.INT8, DType.UINT8, DType.INT16)
NETWORKS = range(24)


@functools.cache
def flags() -> tuple[str, ...]:
    """All warnings, and checks at run time if the compiler can link them."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "empty.c"
        program.write_text("int empty(void);\nint empty(void) { return 0; }\n")
        command = ["cc", *RUNTIME_CHECKS, "-fPIC", "-shared", str(program), "-o", str(program.with_suffix(".so"))]
        linked = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return (*WARNINGS, "-O1", *(RUNTIME_CHECKS if linked else ()))


def differences(batch: Batch, extra: Sequence[str] = ()) -> list[str]:
    found = host_c.run(batch.artifact(), batch.values, extra_flags=(*flags(), *extra))
    return batch.differences(found.outputs)


def drawn_models() -> Iterator[bytes]:
    """Operators of every kind, type and variant: of each kind some by themselves, and those of random networks."""
    for kind, dtype, seed in itertools.product(reference.MEANINGS, TYPES, range(2)):
        try:
            yield drawn_operator(kind, seed, dtype)
        except (AssertionError, KeyError, ValueError):
            # Nobody draws such operators by themselves.
            continue
    for seed in NETWORKS:
        yield random_network(seed)


def test_drawn_operators_equal_the_reference() -> None:
    """Of every kind that has a kernel and of all its types."""
    batch = Batch()
    seen = set()
    for model in drawn_models():
        graph = read_tflite(model)
        for index, op in enumerate(graph.operators):
            if reference.is_known(graph, op):
                try:
                    kernel_for(graph, op)
                    batch.add(graph, index)
                except UnsupportedOperatorError:
                    continue
                seen.add(types_of(graph, op))
    assert differences(batch) == []
    wanted = {
        (kind, *pair)
        for kind, kernels in KERNELS.items()
        for kernel in kernels
        for pair in kernel.types or ()
        if DType.FLOAT32 not in pair
    }
    wanted |= {(kind, dtype, dtype) for kind, kernels in KERNELS.items() for dtype in TYPES if kernels[0].types is None}
    by_hand = {types_of(graph, graph.operators[0]) for graph in (*undrawn(), *(graph for graph, _ in odd_ones()))}
    assert wanted <= seen | by_hand


def types_of(graph: Graph, op: Operator) -> tuple[str, DType, DType]:
    """An operator's kind, and the types by which its kernel is chosen."""
    return op.kind, graph.read(op, OPERATORS[op.kind].data_input).dtype, graph.made(op).dtype


def one(kind: str, inputs: Sequence[Tensor], output: Tensor, attrs: Attrs = None) -> Graph:
    """A network of one operator."""
    count = len(inputs)
    operator = Operator(kind, "y", tuple(range(count)), (count,), attrs)
    live = tuple(i for i, tensor in enumerate(inputs) if not tensor.is_constant)
    tensors = tuple(replace(tensor, name=f"t{number}") for number, tensor in enumerate((*inputs, output)))
    return Graph("net", tensors, (operator,), live, (count,))


def tensor(dtype: DType, shape: tuple[int, ...], scale: float | None = None, zero: int = 0) -> Tensor:
    steps = None if scale is None else Quantisation((float(np.float32(scale)),), (zero,))
    return Tensor("t", shape, dtype, steps)


def undrawn() -> Iterator[Graph]:
    for dtype in (*TYPES, DType.INT32):
        for target in (*TYPES, DType.INT32):
            for ratio in (0.7, 3.1, 1e-4):
                yield one("QUANTIZE", [tensor(dtype, (5, 77), 0.01 * ratio)], tensor(target, (5, 77), 0.01))
    for kind, attrs in (
        ("ADD", AddAttrs(Activation.RELU)),
        ("MUL", ArithmeticAttrs(Activation.RELU6)),
        ("SUB", ArithmeticAttrs()),
        ("MINIMUM", None),
        ("MAXIMUM", None),
    ):
        yield one(
            kind, [tensor(DType.INT32, (3, 1, 4)), tensor(DType.INT32, (5, 1))], tensor(DType.INT32, (3, 5, 4)), attrs
        )
    for kind in ("EXPAND_DIMS", "SQUEEZE"):
        for dtype in (DType.UINT8, DType.INT16):
            yield one(kind, [tensor(dtype, (1, 3, 7))], tensor(dtype, (3, 7)))


def weighed_off_centre() -> Graph:
    """A convolution whose int8 weights have a zero point, which kernels do not heed."""
    steps = Quantisation((0.01,), (5,))
    weights = Tensor("w", (3, 1, 1, 4), DType.INT8, steps, np.arange(12, dtype=np.int8).reshape(3, 1, 1, 4))
    x, y = tensor(DType.INT8, (1, 2, 2, 4), 0.5, 3), tensor(DType.INT8, (1, 2, 2, 3), 0.02)
    return one("CONV_2D", [x, weights], y, ConvAttrs(Window(1, 1)))


def test_what_nobody_draws_equals_the_reference() -> None:
    batch = Batch(1)
    for graph in undrawn():
        batch.add(graph, 0)
    batch.add(weighed_off_centre(), 0)
    # Every value by one slope that is far from 1, so that none next to zero is taken for one on its other side.
    for dtype in EIGHT_BIT:
        values = np.arange(256).astype(np.uint8).view(dtype.numpy)
        inputs = [tensor(dtype, (256,), 0.1, 9), tensor(dtype, (1,), 0.1)]
        batch.add(one("PRELU", inputs, tensor(dtype, (256,), 0.01)), 0, {0: values, 1: np.array([90], dtype.numpy)})
    assert differences(batch) == []


def odd_ones() -> Iterator[tuple[Graph, Callable[..., object]]]:
    """Types of LiteRT's kernels that the NPU never has, and a few other moves, each with what NumPy makes of it."""
    for dtype in (DType.INT32, DType.FLOAT32):
        x = tensor(dtype, (3, 4, 5))
        for into in (DType.INT32, DType.INT64):
            yield one("ARG_MAX", [x], tensor(into, (3, 5)), ArgMaxAttrs(1)), lambda v: np.argmax(v, 1)
        yield one("REDUCE_MAX", [x], tensor(dtype, (4,)), ReductionAttrs((0, 2), False)), lambda v: v.max((0, 2))
        yield one("REDUCE_MIN", [x], tensor(dtype, (3, 4, 1)), ReductionAttrs((2,), True)), lambda v: v.min(2)
    for dtype in (DType.INT32, DType.INT64, DType.FLOAT32):
        x, pads = tensor(dtype, (2, 3)), ((1, 0), (2, 1))
        for kind, fill in (("PAD", 0), ("PADV2", -3)):
            padded = functools.partial(np.pad, pad_width=pads, constant_values=fill)
            yield one(kind, [x], tensor(dtype, (3, 6)), PadAttrs(pads, fill or None)), padded
        mirrored = functools.partial(np.pad, pad_width=pads, mode="reflect")
        yield one("MIRROR_PAD", [x], tensor(dtype, (3, 6)), MirrorPadAttrs(pads, False)), mirrored
        image, larger = tensor(dtype, (1, 2, 2, 3)), tensor(dtype, (1, 4, 2, 3))
        attrs = ResizeNearestAttrs((4, 2))
        yield one("RESIZE_NEAREST_NEIGHBOR", [image], larger, attrs), lambda v: np.repeat(v, 2, 1)
    softmax = one(
        "SOFTMAX", [tensor(DType.INT8, (2, 5), 0.1)], tensor(DType.INT16, (2, 5), 2**-16, -(2**15)), SoftmaxAttrs()
    )
    # The formula that the reference has for 8 bits is the kernel's for 16 as well.
    yield softmax, lambda v: reference.MEANINGS["SOFTMAX"].evaluate(softmax, softmax.operators[0], [v])


def test_what_the_reference_lacks_equals_numpy() -> None:
    batch = Batch(2)
    rng = np.random.Generator(np.random.PCG64(2))
    for graph, made in odd_ones():
        target = graph.made(graph.operators[0])
        values = {t: graph.tensors[t] for t in graph.inputs}
        drawn = {t: rng.integers(-9, 9, of.shape).astype(of.dtype.numpy) for t, of in values.items()}
        expected = np.asarray(made(*drawn.values()), target.dtype.numpy).reshape(target.shape)
        batch.include(graph, graph.operators[0], drawn, {graph.outputs[0]: expected})
    assert differences(batch) == []


def litert_models() -> Iterator[tuple[bytes, int]]:
    """Cases with the scales and sizes at which kernels change their ways, each with how many inputs to try."""
    for dtype, scale, beta in itertools.product(EIGHT_BIT, (0.0035, 0.05, 0.17, 1.3), (1.0, 0.25)):
        b = ModelBuilder(dtype=dtype)
        b.softmax(b.input((40, 33), quantisation=Quantisation((float(np.float32(scale)),), (3,))), beta=beta)
        yield b.build(), 1
    for depth in (1, 2, 1001):
        b = ModelBuilder()
        b.softmax(b.input((3, depth)))
        yield b.build(), 2
    for dtype, target, scale in itertools.product(EIGHT_BIT, EIGHT_BIT, (1 / 128, 0.0031, 0.9)):
        b = ModelBuilder(dtype=dtype)
        zero = 128 if target is DType.UINT8 else 0
        b.quantize(b.input((1, 7, 5, 19)), Quantisation((float(np.float32(scale)),), (zero + 5,)), dtype=target)
        yield b.build(), 2
    for dtype in EIGHT_BIT:
        b = ModelBuilder(dtype=dtype)
        b.squeeze(b.reshape(b.input((1, 6, 4, 2)), (1, 1, 48)), (1,))
        yield b.build(), 2
        b = ModelBuilder(dtype=dtype)
        b.pad(b.input((1, 5, 4, 3)), ((0, 0), (1, 2), (3, 0), (0, 1)))
        yield b.build(), 2
    for dtype, align, half, size in itertools.product(
        EIGHT_BIT, (False, True), (False, True), ((10, 8), (3, 13), (1, 1), (7, 4))
    ):
        b = ModelBuilder(dtype=dtype)
        b.resize_nearest(b.input((2, 5, 4, 3)), size, align_corners=align, half_pixel_centers=half)
        yield b.build(), 1
    for dtype, padding, activation in itertools.product(
        EIGHT_BIT, ("SAME", "VALID"), (Activation.NONE, Activation.RELU, Activation.RELU6)
    ):
        b = ModelBuilder(dtype=dtype)
        x = b.input((1, 9, 8, 5), quantisation=Quantisation((0.0625,), (128 if dtype is DType.UINT8 else 0,)))
        b.output(
            b.average_pool(x, 3, stride=2, padding=padding, activation=activation),
            b.max_pool(x, (2, 3), stride=(1, 2), padding=padding, activation=activation),
        )
        yield b.build(), 2
    for dtype, axes, keep in itertools.product(EIGHT_BIT, ((1, 2), (2, 1), (3,), (1,), (0, 1, 2, 3)), (True, False)):
        # The builder makes no scalars.
        if len(axes) < 4 or keep:
            b = ModelBuilder(dtype=dtype)
            b.mean(b.input((1, 7, 5, 6)), axes, keep_dims=keep)
            yield b.build(), 2


def test_kernels_equal_litert() -> None:
    needs_litert()
    batch = Batch()
    for model, seeds in litert_models():
        graph = read_tflite(model, "net")
        for seed in range(seeds):
            batch.add_all(graph, litert_values(graph, random_inputs(graph, seed)))
    assert differences(batch) == []


@pytest.mark.parametrize("scale", [1e-7, 7.8e-9, 1e-18])
def test_softmax_of_next_to_nothing(scale: float) -> None:
    """Where LiteRT aborts, because the difference is shifted right, the reference semantics decide."""
    batch = Batch()
    for dtype in EIGHT_BIT:
        b = ModelBuilder(dtype=dtype)
        b.softmax(b.input((4, 1000), quantisation=Quantisation((float(np.float32(scale)),), (3,))), name="y")
        batch.add(read_tflite(b.build()), 0)
    assert differences(batch) == []


def real_models() -> Iterator[bytes]:
    """Operators of float32, of pairs also one whose second operand repeats, each beside integers: readers want some."""

    def beside(b: ModelBuilder, made: Value) -> bytes:
        b.output(made, b.quantize(b.input((4,), dtype=DType.FLOAT32), Quantisation((0.1,), (0,))))
        return b.build()

    unary = ("ABS", "EXP", "LOG", "LOGISTIC", "NEG", "RELU", "RELU6", "RELU_N1_TO_1", "RSQRT", "SQRT", "TANH")
    for kind in unary:
        b = ModelBuilder()
        yield beside(b, b.float_function(kind, b.input((4, 99), dtype=DType.FLOAT32), lambda x: x))
    b = ModelBuilder()
    x = b.input((4, 99), dtype=DType.FLOAT32)
    zeros = np.zeros((4, 99))
    yield beside(b, b._plain("LEAKY_RELU", [x.index], (4, 99), DType.FLOAT32, lambda: zeros, {"Alpha": 0.1}))
    for kind, shape in itertools.product(
        ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB"), ((2, 5, 7), (1, 5, 1))
    ):
        b = ModelBuilder()
        first, second = b.input((2, 5, 7), dtype=DType.FLOAT32), b.input(shape, dtype=DType.FLOAT32)
        pair = [first.index, second.index]
        yield beside(b, b._plain(kind, pair, (2, 5, 7), DType.FLOAT32, lambda: np.zeros((2, 5, 7)), {}))
    for align, half in ((False, False), (True, False), (False, True)):
        b = ModelBuilder()
        x = b.input((1, 5, 4, 3), dtype=DType.FLOAT32)
        yield beside(b, b.resize_bilinear(x, (7, 9), align_corners=align, half_pixel_centers=half))


FUSED = ("-std=gnu99", "-O3", "-mfma", "-ffp-contract=fast")


@pytest.mark.parametrize("extra", [(), FUSED])
def test_kernels_of_reals_equal_litert(extra: tuple[str, ...]) -> None:
    """Every bit: the same operations in the same order, and one C library for both.

    Also where the compiler may make one operation of a product and a sum, and this machine has one.
    """
    needs_litert()
    cpu = Path("/proc/cpuinfo")
    if extra and not (cpu.is_file() and " fma " in cpu.read_text()):
        pytest.skip("this machine has no fused multiply-add of x86")
    batch = Batch()
    kinds = set()
    for model in real_models():
        graph = read_tflite(model, "net")
        for seed in range(2):
            inputs = {name: value * 5 for name, value in random_inputs(graph, seed).items()}
            batch.add_all(graph, litert_values(graph, inputs))
        kinds |= {op.kind for op in graph.operators}
    assert differences(batch, extra) == []
    real = {kind for kind, kernels in KERNELS.items() for k in kernels if k.types and (DType.FLOAT32,) * 2 in k.types}
    assert real - kinds == {"PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN"}


@pytest.mark.parametrize("to_float", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_floats(dtype: DType, to_float: bool) -> None:
    """Against the reference semantics, with halves and values beyond the range among the inputs."""
    lowest, highest = dtype.limits
    quantised = Tensor("q", (1, 256), dtype, Quantisation((0.0625,), (0 if dtype is DType.INT16 else 7,)))
    real = Tensor("f", (1, 256), DType.FLOAT32)
    batch = Batch()
    if to_float:
        values = np.linspace(lowest, highest, 256).astype(dtype.numpy)
        graph = one("DEQUANTIZE", [quantised], real)
    else:
        reach = (highest - lowest) // 256 * 0.15625 / 2
        values = ((np.arange(256) - 128) * reach).astype(np.float32)
        values[:2] = (np.inf, -np.inf)
        graph = one("QUANTIZE", [real], quantised)
    batch.add(graph, 0, {0: values.reshape(1, 256)})
    assert differences(batch) == []


def test_an_operator_without_a_kernel_is_named() -> None:
    graph = one("ATAN2", [tensor(DType.FLOAT32, (4,))], tensor(DType.FLOAT32, (4,)))
    artifact = Artifact("net", "none", graph, (CpuCall(0),), b"", 32, {0: 0, 1: 16})
    with pytest.raises(UnsupportedOperatorError, match=r"ATAN2.*C kernels exist for ABS, ADD.*UNPACK") as info:
        c_source.sources(artifact)
    assert info.value.operator == "y"


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (one("ELU", [tensor(DType.UINT8, (4,), 0.1)], tensor(DType.UINT8, (4,), 0.1)), "from uint8 to uint8; .* int8"),
        (one("SOFTMAX", [tensor(DType.INT8, (2, 5000), 0.1)], tensor(DType.INT8, (2, 5000), 1 / 256, -128)), "5000"),
        (one("SOFTMAX", [tensor(DType.INT8, (2, 5), 0.1)], tensor(DType.INT8, (2, 5), 1 / 128, -128)), "0.0078125"),
        (
            one("ADD", [tensor(DType.INT8, (4,), 1e30)] * 2, tensor(DType.INT8, (4,), 1e-9), AddAttrs()),
            r"multiplies by .*2\^31",
        ),
        (
            one("CONCATENATION", [tensor(DType.INT8, (4,), 0.1)], tensor(DType.INT8, (4,), 0.2), ConcatenationAttrs(0)),
            "rescale",
        ),
        (one("L2_NORMALIZATION", [tensor(DType.INT8, (1, 40000), 0.1)], tensor(DType.INT8, (1, 40000), 0.1)), "40000"),
        (one("MEAN", [tensor(DType.INT8, (4, 4), 0.1)], tensor(DType.INT8, (4,), 0.1)), "axes"),
    ],
)
def test_refusals_name_the_value_and_the_limit(graph: Graph, words: str) -> None:
    artifact = cpu_graph(graph)
    with pytest.raises(UnsupportedOperatorError, match=words) as info:
        c_source.sources(artifact)
    assert info.value.operator == "y" and info.value.constraint


def cpu_graph(graph: Graph) -> Artifact:
    places = [sum(-(-t.size_bytes // 16) * 16 for t in graph.tensors[:i]) for i in range(len(graph.tensors) + 1)]
    return Artifact("net", "none", graph, (CpuCall(0),), b"", places[-1], dict(enumerate(places[:-1])))


def c_files() -> list[str]:
    folder = resources.files(c_kernels).joinpath("c")
    return sorted(file.name for file in folder.iterdir())


def test_files_can_be_filled_for_several_types() -> None:
    """What a file with placeholders defines is named by them: two instances are no redefinition."""
    for name in c_files():
        words = dict.fromkeys(("TYPE", "FROM", "INTO", "OTHER", "WEIGHT", "STATE", "TIME"), "int8")
        words |= {"SUM": "32", "WORK": "maximum"}
        raw = text_of(source(name))
        placed = text_of(source(name, **words)) != raw
        defined = re.findall(r"^(?:static|typedef)[^;=]*?\b(\w+)[(\[;]", raw, re.MULTILINE)
        fixed = [one for one in defined if not re.search("TYPE|FROM|INTO|STATE|WORK|SUM", one)]
        assert not (placed and fixed), (name, fixed)
