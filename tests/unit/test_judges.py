"""The table of judges: TensorFlow Lite Micro's kernels are those that it says, and `verify` asks nobody else."""

from __future__ import annotations

import os
from dataclasses import replace

import ethoscade
import numpy as np
import pytest
from ethoscade.errors import VerificationError
from ethoscade.frontend import read_tflite
from ethoscade.ir import EIGHT_BIT, DType, Graph, Quantisation
from ethoscade.judge import judges, litert, reference, verification
from ethoscade.judge.verification import random_inputs, reference_outputs
from ethoscade.testing import ModelBuilder
from ethoscade.testing.real_operators import UNARY
from reference_support import drawn_operator, litert_values, needs_litert
from test_reference_micro import micro_output
from test_verification import wide_softmax

MICRO = {kind: meaning.micro for kind, meaning in reference.MEANINGS.items() if meaning.micro}
DRAWN = sorted(set(MICRO) - {"RELU6"})
TYPES = {kind: set(EIGHT_BIT).intersection(one.types) for kind, one in UNARY.items()}


def micro_runs(graph: Graph) -> bool:
    """Whether TensorFlow Lite Micro runs the model, in a process of its own: it ends it over some."""
    from tflite_micro.python.tflite_micro import runtime

    child = os.fork()
    if child == 0:
        try:
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            interpreter = runtime.Interpreter.from_bytes(graph.source, arena_size=1 << 20)
            for number, value in enumerate(random_inputs(graph, 0).values()):
                interpreter.set_input(value, number)
            interpreter.invoke()
        except BaseException:  # noqa: BLE001 - the child ends here, whatever happened
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("kind", DRAWN)
def test_the_table_says_what_micro_has(kind: str) -> None:
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro is not installed: pip install --pre tflite_micro")
    seen: dict[DType | None, set[bool]] = {}
    for seed in range(12):
        graph = read_tflite(drawn_operator(kind, seed))
        (op,) = graph.operators
        seen.setdefault(judges.input_type(graph, op), set()).add(micro_runs(graph))
    assert set(seen) == set(TYPES.get(kind, EIGHT_BIT))
    for dtype, ran in seen.items():
        assert (True in ran) == (dtype in MICRO[kind]), f"{kind} of {dtype}"


def classifier(dtype: DType) -> Graph:
    b = ModelBuilder(dtype=dtype, per_channel=False)
    b.fully_connected(b.input((1, 16)), 8)
    return read_tflite(b.build())


@pytest.mark.parametrize(
    ("dtype", "judge"), [(DType.INT8, verification.JUDGE_MICRO), (DType.UINT8, verification.JUDGE_LITERT)]
)
def test_micro_decides_only_where_it_has_a_kernel(dtype: DType, judge: str) -> None:
    needs_litert()
    graph = classifier(dtype)
    assert judges.micro_decides(graph, graph.operators[0]) == (dtype is DType.INT8)
    assert reference_outputs(graph, random_inputs(graph, 0)).judge == judge


@pytest.mark.parametrize("narrow", [False, True])
def test_micro_decides_on_convolutions_of_int16_with_biases_of_int32(narrow: bool) -> None:
    """LiteRT reads such a bias as one of int64 where the options, like those of older files, do not name its type."""
    needs_litert()
    b = ModelBuilder(dtype=DType.INT16, narrow_biases=narrow)
    x = b.conv2d(b.input((1, 6, 6, 4)), 8, 3)
    b.max_pool(x)
    b._operators[0] = replace(
        b._operators[0], fields={k: v for k, v in b._operators[0].fields.items() if k != "QuantizedBiasType"}
    )
    compiled = ethoscade.compile(b.build())
    assert compiled.cpu_operators == ()
    convolution, pool = compiled.source.operators
    assert judges.micro_decides(compiled.source, convolution) == narrow
    assert not judges.micro_decides(compiled.source, pool)
    check = compiled.verify()
    assert check.ok and check.judge == (verification.JUDGE_MICRO if narrow else verification.JUDGE_LITERT)


def transposed_with_bias(bias: np.ndarray) -> bytes:
    """TRANSPOSE_CONV of int16 with this bias, whatever its type."""
    b = ModelBuilder(dtype=DType.INT16, seed=3)
    x = b.input((1, 3, 2, 5), quantisation=Quantisation((2.0**-10,), (0,)))
    b.transpose_conv(x, 4, 3, output=Quantisation((2.0**-9,), (0,)))
    place = next(i for i, tensor in enumerate(b._tensors) if tensor.name.startswith("bias"))
    b._tensors[place] = replace(b._tensors[place], dtype=DType(str(bias.dtype)), data=bias)
    return b.build()


@pytest.mark.parametrize("runtime", ["litert", "micro"])
def test_no_runtime_reads_narrow_biases_of_transposed_convolutions(runtime: str) -> None:
    """Both take them for int64: the first half of the channels gets every other number, the rest what lies behind."""
    if runtime == "litert":
        needs_litert()
    narrow, wide = (np.array([n, 0, 3 * n, 0], dtype) for n, dtype in ((2_000_000, "int32"), (2_000_000, "int64")))
    misread = np.array([2_000_000, 6_000_000, 0, 0], "int64")
    found = []
    for bias in (narrow, wide, misread):
        graph = read_tflite(transposed_with_bias(bias))
        inputs = random_inputs(graph, 0)
        if runtime == "litert":
            value = litert_values(graph, inputs)[graph.outputs[0]]
        else:
            value = micro_output(graph.source, inputs)
        found.append(value.reshape(-1, 4)[:, :2])
    assert np.array_equal(found[0], found[2]) and not np.array_equal(found[0], found[1])


@pytest.mark.parametrize(("kind", "dtype"), [(k, t) for k, types in judges.NOBODY_JUDGES.items() for t in types])
def test_no_runtime_has_kernels_of_what_nobody_judges(kind: str, dtype: DType) -> None:
    """Asked of the runtimes themselves, which take the same operator of int8."""
    needs_litert()
    for asked, refuses in ((DType.INT8, False), (dtype, True)):
        b = ModelBuilder(dtype=asked)
        x = b.input((1, 2, 2, 4))
        b.unary(kind, x) if kind == "ABS" else b.binary(kind, x, x)
        graph = read_tflite(b.build())
        inputs = [{graph.inputs[0]: random_inputs(graph, 0)[graph.tensors[graph.inputs[0]].name]}]
        for runtime in (litert.LITERT, litert.LITERT_DEFAULT, litert.MICRO):
            if not litert.is_installed(runtime):
                continue
            with litert.Session(graph.source, graph.name, runtime) as session:
                try:
                    session.run([0], graph.inputs, graph.outputs, inputs)
                except litert.LitertRefusal:
                    assert refuses, runtime.name
                else:
                    assert not refuses, runtime.name


def summed(dtype: DType, factor: float) -> bytes:
    """ADD of which the sum, in the precision that kernels raise operands to, is multiplied by about `factor`."""
    bits = 15 if dtype is DType.INT16 else 20  # left_shift of tflite/kernels/add.cc
    b = ModelBuilder(dtype=dtype)
    x, z = (b.input((1, 2, 2, 4), quantisation=Quantisation((0.125,), (0,)), name=name) for name in "xz")
    b.relu(b.add(x, z, output=Quantisation((0.25 / factor / (1 << bits),), (0,)), name="sum"))
    return b.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16], ids=lambda dtype: dtype.value)
def test_a_sum_that_is_multiplied_by_one_or_more_has_no_judge(dtype: DType) -> None:
    """Runtimes end their process over it; below 1 they do not."""
    needs_litert()
    for factor, refuses in ((0.5, False), (1.0, True), (1.5, True)):
        graph = read_tflite(summed(dtype, factor))
        given = random_inputs(graph, 0)
        inputs = [{t: given[graph.tensors[t].name] for t in graph.inputs}]
        for runtime in (litert.LITERT, litert.LITERT_DEFAULT, litert.MICRO):
            if not litert.is_installed(runtime) or (runtime is litert.MICRO and dtype is DType.UINT8):
                continue
            with litert.Session(graph.source, graph.name, runtime) as session:
                try:
                    session.run([0], graph.inputs, graph.operators[0].outputs, inputs)
                except litert.LitertRefusal:
                    assert refuses, runtime.name
                else:
                    assert not refuses, runtime.name
        if not refuses:
            assert ethoscade.compile(summed(dtype, factor)).verify().not_judged == ()
            continue
        with pytest.raises(VerificationError, match=r"'sum' .*a factor of 1.* from the scales") as said:
            reference_outputs(graph, random_inputs(graph, 0))
        assert "signal" not in str(said.value)


def softmax_of_uint8() -> bytes:
    b = ModelBuilder(dtype=DType.UINT8, per_channel=False)
    x = b.conv2d(b.input((1, 1, 1, 4)), 10, 1, output=Quantisation((1e-8,), (0,)))
    b.softmax(b.reshape(x, (1, 10)), name="soft")
    return b.build()


def test_an_operator_that_nobody_judges_is_named() -> None:
    """LiteRT ends its process on it, and Micro has no SOFTMAX of uint8."""
    needs_litert()
    graph = read_tflite(softmax_of_uint8())
    with pytest.raises(VerificationError, match=r"no judge for operator 'soft' \(SOFTMAX of uint8\): LiteRT stopped"):
        reference_outputs(graph, random_inputs(graph, 0))
    signed = read_tflite(wide_softmax(10, 1e-8))
    assert reference_outputs(signed, random_inputs(signed, 0)).judge == verification.JUDGE_CUT


def behind_fully_connected(kind: str) -> bytes:
    """An operator that the reference does not know, on values that LiteRT rounds otherwise."""
    b = ModelBuilder()
    x = b.fully_connected(b.input((4, 16)), 32, weights=np.random.default_rng(1).normal(size=(32, 16)))
    rows = b._constant("rows", np.array([[1], [0], [3], [2]], np.int32), DType.INT32)
    b._operator(kind, [x.index, rows.index], x.shape, lambda: np.zeros(x.shape), x.quantisation, {}, kind)
    return b.build()


def test_operators_behind_one_that_litert_rounds_otherwise_run_in_litert_alone() -> None:
    needs_litert()
    compiled = ethoscade.compile(behind_fully_connected("GATHER_ND"))
    assert [op.kind for op in compiled.cpu_operators] == ["GATHER_ND"]
    check = compiled.verify()
    assert check.ok and check.judge == verification.JUDGE_MICRO and check.elements == 3 * 4 * 32
