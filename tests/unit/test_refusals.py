"""What keeps operators from the NPU: each limit of a family is run into, named with its value, and moved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from ethoscade.ir import (
    AddAttrs,
    ArgMaxAttrs,
    DType,
    FullyConnectedAttrs,
    Graph,
    Quantisation,
    ReductionAttrs,
    Window,
)
from ethoscade.lowering import FAMILIES, support
from ethoscade.lowering.constraints import Case, Constraint
from ethoscade.lowering.resize import Doublings
from ethoscade.lowering.transpose_conv import SpreadStrides
from ethoscade.targets.target import ACCELERATORS
from graphs import GraphMaker, same

ACCELERATOR = ACCELERATORS["ethos-u55-256"]


def reason(maker: GraphMaker) -> str:
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATOR) or ""


def tall_kernel(m: GraphMaker) -> None:
    m.depthwise(m.input((1, 80, 2, 3)), Window(65, 1))


def batch(m: GraphMaker) -> None:
    m.pool("MAX_POOL_2D", m.input((1, 4, 4, 8)), Window(2, 2))
    m.tensors[0] = dataclasses.replace(m.tensors[0], shape=(300, 4, 4, 8))


def two_constants(m: GraphMaker) -> None:
    m.binary("SUB", m.values((1, 4, 4, 8)), m.values((1, 4, 4, 8)))


def repeated_here_and_there(m: GraphMaker) -> None:
    m.binary("MAXIMUM", m.input((30, 30, 30, 30, 4)), m.input((30, 1, 30, 1, 4)))


def slopes_of_a_constant(m: GraphMaker) -> None:
    m.binary("PRELU", m.values((1, 4, 4, 8)), m.input((8,)))


def large_squares(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((100.0,), (0,)))
    m.binary("SQUARED_DIFFERENCE", x, m.input((1, 4, 4, 8)))


def lost_operand(m: GraphMaker) -> None:
    m.binary("ADD", m.input((1, 4, 4, 8), Quantisation((1e-12,), (0,))), m.values((8,)))


def large_difference(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((1000.0,), (0,)))
    m.binary("SUB", x, m.input((1, 4, 4, 8)), q=Quantisation((0.001,), (0,)))


def large_product(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), Quantisation((1000.0,), (0,)))
    m.binary("MUL", x, x, q=Quantisation((0.001,), (0,)))


def padded_average(m: GraphMaker) -> None:
    m.pool("AVERAGE_POOL_2D", m.input((1, 20, 20, 8)), same(20, 20, (9, 9)))


def long_mean(m: GraphMaker) -> None:
    m.mean(m.input((1, 8191, 4, 20)), (1,))


def deep_arg_max(m: GraphMaker) -> None:
    m.arg_max(m.input((1, 4, 4, 129)))


def arg_max_of_rows(m: GraphMaker) -> None:
    x, out = m.input((1, 4, 5, 6)), m.tensor((1, 5, 6), dtype=DType.INT32)
    m.op("ARG_MAX", [x], out, ArgMaxAttrs(1))


def long_maximum(m: GraphMaker) -> None:
    m.extreme("REDUCE_MAX", m.input((2, 70000, 2)), (1,))


def wide_resize(m: GraphMaker) -> None:
    m.resize_bilinear(m.input((1, 4, 5, 6)), (12, 15))


def wide_type(m: GraphMaker) -> None:
    made = m.tensor((1, 4, 4, 8), Quantisation((0.1,), (0,)), DType.UINT16)
    m.op("QUANTIZE", [m.input((1, 4, 4, 8))], made)


def zero_point_of_int16(m: GraphMaker) -> None:
    x = m.input((1, 4, 4, 8), dtype=DType.INT16)
    m.tensors[x] = dataclasses.replace(m.tensors[x], quantisation=Quantisation((0.25,), (7,)))
    m.quantize(x, DType.INT8)


def int16_layer(m: GraphMaker, result: float, bias: np.ndarray, weight: int = 1) -> None:
    """A FULLY_CONNECTED whose factor is the reciprocal of the output's scale."""
    one = Quantisation((1.0,), (0,))
    x = m.input((1, 4), one, DType.INT16)
    w = m.constant(np.full((2, 4), weight, np.int8), one, DType.INT8)
    b = m.constant(bias, None, DType(str(bias.dtype)))
    out = m.tensor((1, 2), Quantisation((result,), (0,)), DType.INT16)
    m.op("FULLY_CONNECTED", [x, w, b], out, FullyConnectedAttrs())


def wide_sums(m: GraphMaker) -> None:
    int16_layer(m, 2.0**40, np.array([(1 << 39) - 1, 0]))


def wide_results(m: GraphMaker) -> None:
    int16_layer(m, 2.0**-13, np.array([1 << 17, 0]))


def narrow_sums(m: GraphMaker) -> None:
    int16_layer(m, 1.0, np.array([(1 << 31) - 1, 0], np.int32))


def large_factor(m: GraphMaker) -> None:
    int16_layer(m, 2.0**-14, np.array([0, 0]))


def long_average(m: GraphMaker) -> None:
    m.pool("AVERAGE_POOL_2D", m.input((1, 128, 256, 1), dtype=DType.INT16), Window(128, 256))
    m.tensors[-1] = dataclasses.replace(m.tensors[-1], dtype=DType.INT16)


def unknown_kernel(m: GraphMaker) -> None:
    m.quantize(m.input((1, 4, 4, 8), dtype=DType.INT16), DType.UINT8)


def variable_weights(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 16)), 4)
    m.tensors[1] = dataclasses.replace(m.tensors[1], data=None)
    m.inputs.append(1)


def padding_alone(m: GraphMaker) -> None:
    m.conv(m.input((1, 8, 8, 3)), 4, Window(2, 2, pad_top=2))


def per_channel_input(m: GraphMaker) -> None:
    m.quantize(m.input((1, 1, 1, 2), Quantisation((0.1, 0.2), (0, 0), 3)))


def split_of_a_constant(m: GraphMaker) -> None:
    m.split(m.constant(np.zeros((1, 2, 2, 4), np.int8), Quantisation((0.1,), (0,)), DType.INT8), (2, 2))


def many_inputs(m: GraphMaker) -> None:
    m.concatenate([m.input((1, 4, 4, 1))] * 257)


def long_rows(m: GraphMaker) -> None:
    m.slice(m.input((140000,)), ((1, 139000, 1),))


def joined_constants(m: GraphMaker) -> None:
    m.concatenate([m.values((1, 2, 2, 4)), m.values((1, 2, 2, 4))])


def logistic(m: GraphMaker) -> None:
    m.op("LOGISTIC", [m.input((1, 10))], m.tensor((1, 10), Quantisation((0.0625,), (0,))))


def vast_exponential(m: GraphMaker) -> None:
    m.op("EXP", [m.input((1, 10), Quantisation((1.0,), (-128,)))], m.tensor((1, 10)))


def coarse_swish(m: GraphMaker) -> None:
    out = m.tensor((1, 10), Quantisation((0.0078125,), (0,)))
    m.op("HARD_SWISH", [m.input((1, 10), Quantisation((1.0,), (0,)))], out)


def sine(m: GraphMaker) -> None:
    m.op("SIN", [m.input((1, 10))], m.tensor((1, 10)))


def pad(m: GraphMaker) -> None:
    m.op("MIRROR_PAD", [m.input((1, 4, 4, 2), None, DType.UINT8)], m.tensor((1, 6, 6, 2), None, DType.UINT8))


def odd_end(m: GraphMaker) -> None:
    """The last column would be made of zeros between the pixels and of padding: alone in a stripe it reads nothing."""
    m.transpose_conv(m.input((1, 1, 13, 4)), 5, Window(2, 2, 2, 2), (2, 27))


def beyond_the_only_pixel(m: GraphMaker) -> None:
    m.resize_bilinear(m.input((1, 1, 1, 5)), (70, 65))


REFUSED: list[tuple[Callable[[GraphMaker], None], str]] = [
    (tall_kernel, "kernel is 65x1; at most 64 rows"),
    (batch, "batch 300; at most 256"),
    (padded_average, "at most 8x8"),
    (long_mean, "reduces axes (1,) of (1, 8191, 4, 20); windows of at most 64 rows and 4096 elements"),
    (long_maximum, "reduces axes (1,) of (2, 70000, 2); windows of at most 256 rows"),
    (deep_arg_max, "129 channels; at most 128"),
    (arg_max_of_rows, "looks along axis 1 of 4; only the last one"),
    (wide_resize, "resizes 4x5 to 12x15 by corners"),
    (two_constants, "are both constants"),
    (repeated_here_and_there, "is repeated to (30, 30, 30, 30, 4), and it takes 900 copies or more; at most 256"),
    (slopes_of_a_constant, "is a constant"),
    (large_squares, "the factor from square to output is"),
    (lost_operand, "lie too far apart; a factor below 2^-32 is lost"),
    (large_difference, "kernels are defined below 1"),
    (large_product, "leave 32 bits"),
    (wide_type, "is uint16"),
    (zero_point_of_int16, "int16 with zero point 7; only 0 is possible"),
    (wide_sums, "leave the 40 bits"),
    (wide_results, "leave 32 bits"),
    (narrow_sums, "leave 32 bits"),
    (large_factor, "below 2^14 with int16"),
    (long_average, "averages of at most 32767"),
    (unknown_kernel, "no runtime has a kernel that turns int16 into uint8"),
    (variable_weights, "not constant"),
    (padding_alone, "in padding alone"),
    (odd_end, "the last of 27 columns sees none of the input's 13; at most 26 columns are possible"),
    (per_channel_input, "per channel"),
    (split_of_a_constant, "is a constant"),
    (many_inputs, "takes 257 copies or more; at most 256"),
    (long_rows, "takes 138999 copies or more"),
    (joined_constants, "all of its 2 inputs are constants"),
    (logistic, "its output has scale 0.0625; kernels make it with 1/256"),
    (vast_exponential, "does not fit 32 bits"),
    (coarse_swish, "scale is 128 times its output's; kernels take less than 128 times"),
    (beyond_the_only_pixel, "rounded steps of 1/70 lead kernels beyond the only pixel"),
    (sine, "SIN has no NPU implementation"),
    (pad, "no kernel copies values of this type to others, they must be equal"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_reasons_name_value_and_limit(make: Callable[[GraphMaker], None], words: str) -> None:
    maker = GraphMaker()
    make(maker)
    assert words in reason(maker)


def loosened(constraint: Constraint) -> Constraint | None:
    """The constraint with its limits far out, None for one without a number or list of types."""
    changed: dict[str, object] = {}
    for one in dataclasses.fields(constraint):  # type: ignore[arg-type]
        value = getattr(constraint, one.name)
        if isinstance(constraint, (Doublings, SpreadStrides)) and one.name == "most":
            changed[one.name] = value + 1
        elif one.name in ("most", "rows", "elements", "before", "after", "batch", "sum_limit"):
            changed[one.name] = 1000 * value
        elif one.name == "types":
            changed[one.name] = tuple(DType)
    return dataclasses.replace(constraint, **changed) if changed else None  # type: ignore[type-var]


def heavy(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 70000)), 1)
    m.tensors[1] = dataclasses.replace(m.tensors[1], data=np.full((1, 70000), 127, np.int8))


def tall(m: GraphMaker) -> None:
    m.quantize(m.input((70000, 1)))


def wide_bias(m: GraphMaker) -> None:
    m.fully_connected(m.input((1, 16)), 4)
    m.tensors[2] = dataclasses.replace(m.tensors[2], dtype=DType.INT64, data=np.full(4, 1 << 40))


def five_dimensions(m: GraphMaker) -> None:
    shape = (1, 1, 2, 3, 4)
    m.op("L2_NORMALIZATION", [m.input(shape)], m.tensor(shape, Quantisation((1 / 128,), (0,))))


def deep_softmax(m: GraphMaker) -> None:
    m.softmax(m.input((2, 5000), Quantisation((0.1,), (3,))))


def sixteenfold(m: GraphMaker) -> None:
    m.resize(m.input((1, 2, 3, 4)), (32, 48))


def stride_16(m: GraphMaker) -> None:
    m.transpose_conv(m.input((1, 2, 3, 4)), 5, Window(16, 16, 16, 16), (32, 48))


def far_padding(m: GraphMaker) -> None:
    m.conv(m.input((1, 8, 8, 3)), 4, Window(1, 200, pad_left=128, pad_right=128))


LIMITED = [tall_kernel, batch, padded_average, wide_type,
           heavy, tall, wide_bias, five_dimensions, far_padding,
           deep_softmax, sixteenfold, stride_16]  # fmt: skip


@pytest.mark.parametrize("make", LIMITED)
def test_a_limit_is_one_number_for_the_decision_and_the_page(make: Callable[[GraphMaker], None]) -> None:
    """The constraint that refuses an operator takes it with its limit further out, and says the new limit."""
    maker = GraphMaker()
    make(maker)
    op = maker.operators[-1]
    case = Case(Graph("net", tuple(maker.tensors), (op,), tuple(maker.inputs), op.outputs), op, ACCELERATOR)
    found = next(one for one in FAMILIES[op.kind].takes if one.refusal(case) is not None)
    wider = loosened(found)
    assert wider is not None and wider.refusal(case) is None
    assert str(wider) != str(found)


def test_every_kind_of_limit_is_tried() -> None:
    """A constraint with a limit that no operator above runs into is told here."""
    tried = set()
    for make in LIMITED:
        maker = GraphMaker()
        make(maker)
        op = maker.operators[-1]
        case = Case(Graph("net", tuple(maker.tensors), (op,), tuple(maker.inputs), op.outputs), op, ACCELERATOR)
        tried.add(type(next(one for one in FAMILIES[op.kind].takes if one.refusal(case) is not None)))
    limited = {type(one) for family in FAMILIES.values() for one in family.takes if loosened(one) is not None}
    assert limited == tried


@pytest.mark.parametrize(
    ("before", "after", "align", "half_pixel"),
    [((4, 5), (12, 15), False, False), ((4, 5), (8, 5), False, False), ((4, 5), (2, 2), False, False),
     ((4, 5), (16, 20), True, False), ((4, 5), (7, 9), False, True), ((2, 2), (32, 32), False, False)],
)  # fmt: skip
def test_other_resizes_stay_on_the_cpu(
    before: tuple[int, int], after: tuple[int, int], align: bool, half_pixel: bool
) -> None:
    maker = GraphMaker()
    maker.resize(maker.input((1, *before, 6)), after, align, half_pixel)
    assert reason(maker) == (
        f"it resizes {before[0]}x{before[1]} to {after[0]}x{after[1]}; of those copies of rows and columns where each "
        f"comes 1, 2, 4 or 8 times, one after the other, are possible"
    )


@pytest.mark.parametrize(
    ("shape", "why"),
    [((1, 4096), "it has 4096 channels; at most 4095 are possible"), ((70000, 1, 2), "has a dimension of 70000")],
)
def test_softmaxes_beyond_the_limits_stay_on_the_cpu(shape: tuple[int, ...], why: str) -> None:
    maker = GraphMaker()
    maker.softmax(maker.input(shape))
    assert why in reason(maker)


def scaled(kind: str, factor: float) -> GraphMaker:
    """An operator whose factor from accumulator to output is about `factor`."""
    maker = GraphMaker()
    x = maker.input((1, 4, 4, 8), Quantisation((1.0,), (0,)))
    after = Quantisation((float(np.float32(1.0 / factor)),), (0,))
    if kind == "MEAN":
        maker.op("MEAN", [x], maker.tensor((1, 1, 1, 8), after), ReductionAttrs((1, 2), True))
    elif kind == "ADD":
        maker.op("ADD", [x, x], maker.tensor((1, 4, 4, 8), after), AddAttrs())
    else:
        maker.op("QUANTIZE", [x], maker.tensor((1, 4, 4, 8), after))
    return maker


@pytest.mark.parametrize(
    ("kind", "fine", "beyond"), [("QUANTIZE", 2.0**22, 2.0**24), ("ADD", 2.0**20, 2.0**25), ("MEAN", 2.0**21, 2.0**26)]
)
def test_values_that_a_factor_shifts_out_of_32_bits(kind: str, fine: float, beyond: float) -> None:
    """Kernels of CPUs wrap there and the NPU does not: whoever is right, they would differ."""
    assert reason(scaled(kind, fine)) == ""
    assert "leave 32 bits" in reason(scaled(kind, beyond))


def biased(bias: int, scale: float) -> GraphMaker:
    """A convolution of which one output has the given bias and weights of the given scale."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 4, 4, 8)), 4, Window(1, 1))
    weights, constant = maker.operators[0].inputs[1:]
    values = np.array([0, 0, bias, 0], np.int32)
    scales = (*maker.tensors[weights].quantisation.scales[:2], scale, maker.tensors[weights].quantisation.scales[3])
    maker.tensors[constant] = dataclasses.replace(maker.tensors[constant], data=values)
    maker.tensors[weights] = dataclasses.replace(maker.tensors[weights], quantisation=Quantisation(scales, (0,) * 4, 0))
    return maker


def test_a_bias_that_no_accumulator_holds() -> None:
    """A dead channel may have one: its sums round to zero whichever way they wrap."""
    assert reason(biased(2**24, 0.01)) == ""
    assert "leave 32 bits" in reason(biased(2**31 - 1, 0.01))
    assert "leave 32 bits" in reason(biased(-(2**31), 0.01))
    assert reason(biased(2**31 - 1, 1e-14)) == ""
