"""Each operator's semantics against LiteRT's reference kernels, on one-operator models; unit tests of the formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from ethoscade.errors import ModelFormatError, UnsupportedOperatorError
from ethoscade.frontend import read_tflite
from ethoscade.ir import (
    EIGHT_BIT,
    QUANTISED,
    Activation,
    ConvAttrs,
    DType,
    Graph,
    Operator,
    PoolAttrs,
    Quantisation,
    Tensor,
    Window,
)
from ethoscade.ir.quantised import activation_range, effective_scales, multiplier_and_shift, quantise_real
from ethoscade.judge import reference
from ethoscade.judge.judges import litert_lacks
from ethoscade.judge.reference.fixed_point import divide_by_power, high_mul, multiply
from ethoscade.judge.reference.windows import output_size, pad_spatial, seen, tap
from ethoscade.judge.verification import random_inputs
from ethoscade.testing import ModelBuilder
from ethoscade.testing.real_operators import BINARY, UNARY
from graphs import GraphMaker
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_support import MOVES, check, differences, drawn_operator, litert_values, needs_litert
from tflite import ActivationFunctionType

KINDS = (
    "ARG_MAX",
    "AVERAGE_POOL_2D",
    "BATCH_MATMUL",
    "CONCATENATION",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "GELU",
    "L2_NORMALIZATION",
    "LOG_SOFTMAX",
    "LEAKY_RELU",
    "MAX_POOL_2D",
    "MEAN",
    "PAD",
    "QUANTIZE",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "RELU",
    "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR",
    "SOFTMAX",
    "SPLIT",
    "SPLIT_V",
    "SUM",
    "TRANSPOSE_CONV",
    *BINARY,
    *MOVES,
    # ELU has no reference kernel in LiteRT, the others are drawn as RELU.
    *(kind for kind in UNARY if kind not in ("ELU", "RELU6", "RELU_N1_TO_1", "RELU")),
)


TYPES = {
    **{kind: function.types for kind, function in (*BINARY.items(), *UNARY.items())},
    "ARG_MAX": EIGHT_BIT,
    "BATCH_MATMUL": (DType.INT8, DType.INT16),
    "DIV": EIGHT_BIT,
    "L2_NORMALIZATION": EIGHT_BIT,
    "LOG_SOFTMAX": EIGHT_BIT,
    "SUM": (DType.UINT8,),
}
"""The types of which LiteRT is the judge, where these are not all."""


@pytest.mark.parametrize("kind", KINDS)
def test_equals_litert_on_drawn_models(kind: str) -> None:
    needs_litert()
    for seed in range(90):
        graph = read_tflite(drawn_operator(kind, seed, DType.INT16 if seed >= 60 else None))
        drawn = graph.operators[0].kind
        if drawn in TYPES and graph.tensors[graph.inputs[0]].dtype not in TYPES[drawn]:
            continue
        if litert_lacks(graph, graph.operators[0]):
            continue
        wrong = differences(graph, random_inputs(graph, seed))
        assert wrong == [], f"seed {seed}"


BOUNDED = {
    "ADD": lambda b, x: b.add(x, b.input(x.shape)),
    "SUB": lambda b, x: b.binary("SUB", x, b.input(x.shape)),
    "MUL": lambda b, x: b.binary("MUL", x, b.input(x.shape)),
    "AVERAGE_POOL_2D": lambda b, x: b.average_pool(x, 2),
    "MAX_POOL_2D": lambda b, x: b.max_pool(x, 2),
    "CONV_2D": lambda b, x: b.conv2d(x, 5, 3),
    "DEPTHWISE_CONV_2D": lambda b, x: b.depthwise(x, 3),
    "TRANSPOSE_CONV": lambda b, x: b.transpose_conv(x, 5, 3, stride=(2, 2)),
}
"""Kinds whose kernels know activations by their bounds, in LiteRT too."""


@pytest.mark.parametrize("code", [ActivationFunctionType.TANH, ActivationFunctionType.SIGN_BIT])
@pytest.mark.parametrize("kind", BOUNDED)
def test_activations_without_bounds_have_no_effect_in_litert(kind: str, code: int) -> None:
    needs_litert()
    for seed, dtype in enumerate(QUANTISED):
        b = ModelBuilder(dtype=dtype, seed=seed)
        BOUNDED[kind](b, b.input((1, 6, 7, 9)))
        last = b._operators[-1]
        assert last.kind == kind
        b._operators[-1] = replace(last, fields={**last.fields, "FusedActivationFunction": code})
        check(b.build())


def test_fully_connected_is_within_one_of_litert() -> None:
    needs_litert()
    apart = 0
    for seed in range(150):
        graph = read_tflite(drawn_operator("FULLY_CONNECTED", seed, DType.INT16 if seed >= 120 else None))
        for _, count, largest in differences(graph, random_inputs(graph, 0)):
            assert largest == 1 and graph.tensors[graph.inputs[0]].dtype is not DType.UINT8, f"seed {seed}"
            apart += count
    assert apart > 0, "LiteRT rounds like TensorFlow Lite Micro now: the judge's exception is no longer needed"


def test_sums_of_signed_values_are_those_of_others_in_litert() -> None:
    """Its reference kernel takes int8 for uint8: -50 is 206, and what it makes of that is stored as int8 again."""
    needs_litert()
    for values, expected in (([100, 100, -50, 4], 103), ([-1, 9, 0, 0], 66), ([102, -2, -2, -2], -40)):
        b = ModelBuilder()
        x = b.input((1, 4), quantisation=Quantisation((1.0,), (0,)))
        y = b.reduce("SUM", x, (1,), output=Quantisation((4.0,), (0,)))
        graph = read_tflite(b.build())
        given = {graph.tensors[x.index].name: np.array([values], np.int8)}
        assert litert_values(graph, given)[y.index] == expected, "the judge's exception is no longer needed"
        assert reference.run(graph, given).values[y.index] == np.floor(sum(values) / 4 + 0.5)


LARGEST = float(np.float32(3.0))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("scales", [(1e-6, 1e-3), (LARGEST, 1e-4), (0.007, 50.0), (1.0, 1.0)])
def test_conv_with_extreme_scales_and_zero_points(dtype: DType, scales: tuple[float, float]) -> None:
    """A multiplier far above 1 wraps the accumulator at 32 bits before it rounds."""
    needs_litert()
    lowest, highest = dtype.limits
    first, second = (float(np.float32(s)) for s in scales)
    for zero_in, zero_out in ((lowest, highest), (highest, lowest)):
        b = ModelBuilder(dtype=dtype, seed=3)
        x = b.input((1, 7, 5, 6), quantisation=Quantisation((first,), (zero_in,)))
        b.conv2d(x, 9, 3, output=Quantisation((second,), (zero_out,)))
        check(b.build())
        b = ModelBuilder(dtype=dtype, seed=4)
        x = b.input((1, 7, 5, 6), quantisation=Quantisation((first,), (zero_in,)))
        b.depthwise(x, 3, multiplier=2, stride=2, output=Quantisation((second,), (zero_out,)))
        check(b.build())


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (1, 7, 7, 16), (2, 3, 5, 4), (1, 64, 64, 2), (1, 13, 1, 8)])
@pytest.mark.parametrize("ratio", [0.01, 0.999, 1.0, 1.7, 300.0])
def test_mean_over_the_image(shape: tuple[int, ...], ratio: float) -> None:
    needs_litert()
    for dtype in (DType.INT8, DType.UINT8):
        for keep_dims in (False, True):
            b = ModelBuilder(dtype=dtype)
            x = b.input(shape, quantisation=Quantisation((0.03125,), (dtype.limits[1],)))
            scale = float(np.float32(0.03125 / ratio))
            b.mean(x, keep_dims=keep_dims, output=Quantisation((scale,), (dtype.limits[0] + 3,)))
            check(b.build())


@pytest.mark.parametrize("beta", [1.0, 0.37, 12.5])
@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.1, 1.0, 20.0])
def test_softmax_scales(scale: float, beta: float) -> None:
    needs_litert()
    for dtype in (DType.INT8, DType.UINT8):
        # 512 nearly equal classes and more make LiteRT abort.
        for classes in (1, 2, 10, 511, 1001 if scale >= 0.1 and beta >= 1 else 3):
            b = ModelBuilder(dtype=dtype)
            x = b.input((3, classes), quantisation=Quantisation((float(np.float32(scale)),), (5,)))
            b.softmax(x, beta=beta)
            check(b.build())


def test_quantize_from_and_to_int16_and_float() -> None:
    needs_litert()
    for dtype, to in ((DType.INT16, DType.INT8), (DType.INT8, DType.INT16), (DType.INT16, DType.INT16)):
        b = ModelBuilder()
        x = b.input((1, 4, 50, 50), dtype=dtype, quantisation=Quantisation((0.001,), (0,)))
        b.quantize(x, Quantisation((0.0037,), (0,)), dtype=to)
        check(b.build())


def test_real_multipliers_are_fixed_point_fractions() -> None:
    assert multiplier_and_shift(0.0) == (0, 0)
    assert multiplier_and_shift(1.0) == (1 << 30, 1)
    assert multiplier_and_shift(0.5) == (1 << 30, 0)
    assert multiplier_and_shift(1.0 - 2.0**-40) == (1 << 30, 1), "rounds up to 2**31, so halves"
    assert multiplier_and_shift(2.0**-33) == (0, 0)
    for real in (3.7e-9, 0.001, 0.3, 1.9, 1234.5):
        significand, shift = multiplier_and_shift(real)
        assert 1 << 30 <= significand < 1 << 31
        assert math.isclose(math.ldexp(significand, shift - 31), real, rel_tol=2.0**-31)


def test_activation_ranges_in_stored_values() -> None:
    quantisation = Quantisation((0.0235294122248888,), (-128,))
    assert activation_range(quantisation, DType.INT8, Activation.RELU6) == (-128, 127)
    assert activation_range(Quantisation((0.1,), (0,)), DType.INT8, Activation.RELU6) == (0, 60)
    assert activation_range(Quantisation((0.1,), (3,)), DType.INT8, Activation.RELU_N1_TO_1) == (-7, 13)
    assert activation_range(Quantisation((0.1,), (3,)), DType.UINT8, Activation.NONE) == (0, 255)
    assert activation_range(None, DType.INT16, Activation.RELU) == (-32768, 32767)
    assert quantise_real(-1.0, Quantisation((0.4,), (0,))) == -3, "-2.5 rounds away from zero"


def test_uint8_scales_multiply_in_float32() -> None:
    def tensor(dtype: DType, scale: float) -> Tensor:
        return Tensor("t", (1,), dtype, Quantisation((float(np.float32(scale)),), (0,)))

    triples = [tuple(tensor(dtype, s) for s in (0.0123, 0.00456, 0.0789)) for dtype in (DType.INT8, DType.UINT8)]
    (signed,) = effective_scales("CONV_2D", *triples[0])
    (unsigned,) = effective_scales("CONV_2D", *triples[1])
    assert signed != unsigned and math.isclose(signed, unsigned, rel_tol=1e-7)
    assert effective_scales("FULLY_CONNECTED", *triples[0]) == (unsigned,)


def test_fixed_point_rounding() -> None:
    assert divide_by_power(np.array([5, -5, 6, -6, 7, -1]), 2).tolist() == [1, -1, 2, -2, 2, 0]
    assert divide_by_power(np.array([5, -5]), 0).tolist() == [5, -5]
    half = np.array([1 << 30])
    assert high_mul(half, np.array([1])).tolist() == [1] and high_mul(-half, np.array([1])).tolist() == [0]
    # 3 * 0.6 / 4 = 0.45 is 2 / 4 after the first rounding and 1 after the second; rounded once it would be 0.
    assert multiply(np.array([3]), *multiplier_and_shift(0.6 / 4)).tolist() == [1]
    assert multiply(np.array([1 << 30]), 1 << 30, 3).tolist() == [0], "the left shift wraps"


def test_output_may_have_another_shape() -> None:
    """A rewrite may fold a RESHAPE into its producer."""
    b = ModelBuilder()
    b.conv2d(b.input((1, 3, 3, 2)), 4, 1)
    graph = read_tflite(b.build())
    inputs = random_inputs(graph, 0)
    flat = tuple(
        Tensor(t.name, (1, 36), t.dtype, t.quantisation) if i in graph.outputs else t
        for i, t in enumerate(graph.tensors)
    )
    folded = Graph(graph.name, flat, graph.operators, graph.inputs, graph.outputs)
    ((name, value),) = reference.run(folded, inputs).outputs.items()
    assert value.shape == (1, 36)
    assert np.array_equal(value.ravel(), reference.run(graph, inputs).outputs[name].ravel())


def test_complaints_name_the_place() -> None:
    tensor = Tensor("x", (2,), DType.INT8)
    graph = Graph("g", (tensor, Tensor("y", (2,), DType.INT8)), (Operator("SIN", "sine", (0,), (1,)),), (0,), (1,))
    with pytest.raises(UnsupportedOperatorError, match="sine") as caught:
        reference.run(graph, {"x": np.zeros(2, np.int8)})
    assert caught.value.operator == "sine"
    with pytest.raises(ModelFormatError, match="'x' needs"):
        reference.run(graph, {"x": np.zeros(3, np.int8)})
    reshape = Graph("g", (tensor, Tensor("y", (3,), DType.INT8)), (Operator("RESHAPE", "r", (0,), (1,)),), (0,), (1,))
    with pytest.raises(ModelFormatError, match="shape"):
        reference.run(reshape, {"x": np.zeros(2, np.int8)})
    with pytest.raises(ModelFormatError, match="no value"):
        reference.run_operator(reshape, 0, {})


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    st.tuples(st.integers(1, 7), st.integers(1, 5)),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 9),
    st.tuples(*[st.integers(0, 12)] * 4),
)
def test_padding_that_nothing_meets_is_left_out(size, kernel, stride, dilation, pads):
    """Against the whole kernel on the whole padded image."""
    window = Window(kernel, kernel, stride, stride, dilation, dilation, *pads)
    image = np.arange(1, 1 + size[0] * size[1]).reshape(1, *size, 1)
    padded = pad_spatial(image, window, 0)
    if padded.shape[1] < window.dilated_h or padded.shape[2] < window.dilated_w:
        return
    weights = np.random.default_rng(kernel).integers(1, 9, (kernel, kernel))
    expected = sum(tap(padded, window, y, x) * weights[y, x] for y in range(kernel) for x in range(kernel))
    met = seen(window, *size)
    if met.nothing:
        assert not expected.any()
        return
    small, left = pad_spatial(met.of(image), met.window, 0), weights[met.rows, met.columns]
    assert output_size(small.shape, met.window) == expected.shape[1:3]
    places = [(y, x) for y in range(met.window.kernel_h) for x in range(met.window.kernel_w)]
    np.testing.assert_array_equal(sum(tap(small, met.window, y, x) * left[y, x] for y, x in places), expected)


@pytest.mark.parametrize("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D", "DEPTHWISE_CONV_2D"])
def test_windows_far_larger_than_the_image_take_no_more_time(kind: str) -> None:
    """Steps and bytes follow the image, whatever a file says of its windows."""
    maker = GraphMaker()
    x = maker.input((1, 6, 6, 4))
    huge = 1 << 30
    if kind == "DEPTHWISE_CONV_2D":
        weights, bias = maker.weights((1, 3, 3, 4), 3, 9)
        window = Window(3, 3, dilation_h=huge, pad_top=huge, pad_bottom=huge, pad_left=1, pad_right=1)
        maker.op(kind, [x, weights, bias], maker.tensor((1, 6, 6, 4)), ConvAttrs(window))
    else:
        window = Window(huge, 3, pad_top=huge // 2, pad_bottom=huge - 1 - huge // 2, pad_left=1, pad_right=1)
        maker.op(kind, [x], maker.tensor((1, 6, 6, 4)), PoolAttrs(window))
    graph = maker.graph()
    value = np.random.default_rng(0).integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
    found = reference.run(graph, {graph.tensors[x].name: value}).values[graph.outputs[0]]
    assert found.shape == (1, 6, 6, 4)
    if kind == "MAX_POOL_2D":
        assert (found == found[:, :1]).all() and found[0, 0, 1, 2] == value[0, :, 0:3, 2].max()
