"""Operators whose outputs read one value of each operand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ethoscade.ir import (
    Activation,
    ArithmeticAttrs,
    DType,
    GeluAttrs,
    LeakyReluAttrs,
    Quantisation,
)
from ethoscade.testing.real_operators import BINARY
from graphs import GraphMaker


def signed(m: GraphMaker, kind: str, q: Quantisation | None = None, of_sixteen: Quantisation | None = None) -> int:
    """A function of which uint8 has no kernel: int8 in its place."""
    dtype = DType.INT8 if m.dtype is DType.UINT8 else m.dtype
    ifm = m.input((1, 9, 7, 21), of_sixteen if dtype is DType.INT16 else q, dtype)
    return m.op(kind, [ifm], m.tensor((1, 9, 7, 21), dtype=dtype))


def coarser(m: GraphMaker) -> Quantisation | None:
    """A scale above all others of int16, whose sums show no ties of a second operand that has it; of 8 bits any."""
    return Quantisation((0.0005,), (0,)) if m.dtype is DType.INT16 else None


def fine(m: GraphMaker) -> Quantisation:
    """A scale of which nothing is left beside others."""
    return Quantisation((1e-12,), (0 if m.dtype is DType.INT16 else 5,))


def prelu(
    m: GraphMaker, slopes: Quantisation, shape: tuple[int, ...] = (1, 1, 21), q: Quantisation | None = None
) -> int:
    """PRELU with constant slopes, which are int8 for int16."""
    return m.binary("PRELU", m.input((1, 9, 7, 21), q), m.values(shape, slopes, slope_type(m)), q=q)


def repeated_prelu(m: GraphMaker, ifm: tuple[int, ...], slopes: tuple[int, ...], constant: bool = False) -> int:
    """PRELU of int8, whatever else is tested but int16: kernels of uint8 do not repeat the values."""
    dtype = DType.INT16 if m.dtype is DType.INT16 else DType.INT8
    given = m.input(ifm, dtype=dtype)
    made = np.broadcast_shapes(ifm, slopes)
    other = m.values(slopes, None, DType.INT8) if constant else m.input(slopes, dtype=DType.INT8)
    return m.op("PRELU", [given, other], m.tensor(made, dtype=dtype))


def slope_type(m: GraphMaker) -> DType:
    """What kernels of PRELU take beside values of the maker's type."""
    return BINARY["PRELU"].second(m.dtype)


def divided(m: GraphMaker, shape: tuple[int, ...], units: int, activation: Activation = Activation.NONE) -> int:
    """DIV of an input of that shape by a number of so many units of its scale."""
    middle = sum(m.dtype.limits) // 2 + 1
    number = np.array([middle + units], m.dtype.numpy)
    divisor = m.constant(number, Quantisation((0.3 / units if units > 0 else 0.1,), (middle,)), m.dtype)
    ifm = m.input(shape, Quantisation((0.05,), (middle - 20,)))
    return m.op(
        "DIV", [ifm, divisor], m.tensor(shape, Quantisation((0.12,), (middle + 9,))), ArithmeticAttrs(activation)
    )


def within_one(m: GraphMaker, of_eight: Quantisation | None = None) -> Quantisation | None:
    """What kernels of int16 make of functions that stay between -1 and 1; of 8 bits as given."""
    return Quantisation((1 / 32768,), (0,)) if m.dtype is DType.INT16 else of_eight


ELEMENTWISE: dict[str, Callable[[GraphMaker], object]] = {
    "abs": lambda m: m.op("ABS", [m.input((1, 20, 20, 9))], m.tensor((1, 20, 20, 9))),
    "abs_of_five_axes": lambda m: m.op("ABS", [m.input((2, 3, 4, 5, 9))], m.tensor((2, 3, 4, 5, 9))),
    "add": lambda m: m.add(m.input((1, 30, 30, 9)), m.input((1, 30, 30, 9))),
    "add_relu": lambda m: m.add(m.input((1, 30, 30, 9)), m.input((1, 30, 30, 9)), Activation.RELU),
    "add_to_itself": lambda m: m.add(*(m.input((1, 30, 30, 9)),) * 2),
    "add_equal_powers_of_two": lambda m: m.add(
        m.input((1, 20, 20, 9), Quantisation((0.03125,), (3,))),
        m.input((1, 20, 20, 9), Quantisation((0.03125,), (100,))),
        q=Quantisation((0.0625,), (7,)),
    ),
    "add_far_apart": lambda m: m.add(
        m.input((1, 20, 20, 9), Quantisation((0.0001,), (3,))), m.input((1, 20, 20, 9), Quantisation((0.5,), (9,)))
    ),
    "add_flat": lambda m: m.add(m.input((3, 50)), m.input((3, 50))),
    "add_constant": lambda m: m.binary("ADD", m.input((1, 9, 7, 21)), m.values((1, 9, 7, 21))),
    "add_constant_of_channels": lambda m: m.binary("ADD", m.values((21,)), m.input((1, 9, 7, 21)), Activation.RELU),
    "add_number": lambda m: m.binary("ADD", m.input((3, 50)), m.values((1, 1))),
    "add_repeated_first": lambda m: m.binary("ADD", m.input((1, 1, 1, 20)), m.input((1, 9, 7, 20))),
    "add_both_repeated": lambda m: m.binary("ADD", m.input((1, 9, 1, 8)), m.input((1, 1, 7, 8)), Activation.RELU),
    "add_repeated_along_channels": lambda m: m.binary("ADD", m.input((1, 9, 7, 1)), m.input((1, 1, 1, 40))),
    "mul_repeated_to_a_constant": lambda m: m.binary("MUL", m.input((1, 1, 7, 1)), m.values((1, 9, 1, 16))),
    "mul_repeated_to_a_whole_constant": lambda m: m.binary("MUL", m.input((1, 1, 1, 8)), m.values((1, 4, 5, 8))),
    "sub_both_repeated": lambda m: m.binary("SUB", m.input((1, 1, 7, 20)), m.input((1, 9, 1, 20), coarser(m))),
    "sub_repeated_here_and_there": lambda m: m.binary(
        "SUB", m.input((2, 1, 4, 1, 6)), m.input((2, 3, 4, 5, 6), coarser(m))
    ),
    "maximum_of_rows_and_columns": lambda m: m.binary("MAXIMUM", m.input((1, 7)), m.input((9, 1))),
    "minimum_both_here_and_there": lambda m: m.binary("MINIMUM", m.input((2, 1, 4, 1, 6)), m.input((1, 3, 1, 5, 1))),
    "squared_difference_both_repeated": lambda m: m.binary(
        "SQUARED_DIFFERENCE", m.input((1, 9, 1, 21)), m.input((1, 1, 7, 1))
    ),
    "prelu_repeated_here_and_there": lambda m: m.binary(
        "PRELU", m.input((2, 3, 4, 5, 6)), m.input((2, 1, 4, 1, 6), dtype=slope_type(m))
    ),
    "sub": lambda m: m.binary("SUB", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21), coarser(m)), Activation.RELU6),
    "add_of_nothing": lambda m: m.binary("ADD", m.input((1, 9, 7, 21)), m.values((21,), fine(m)), Activation.RELU),
    "sub_of_nothing": lambda m: m.binary("SUB", m.input((1, 9, 7, 21), coarser(m)), m.values((), fine(m))),
    "sub_from_nothing": lambda m: m.binary("SUB", m.values((9, 7, 21), fine(m)), m.input((1, 9, 7, 21), coarser(m))),
    "sub_from_a_number": lambda m: m.binary("SUB", m.values(()), m.input((1, 9, 7, 21))),
    "sub_from_a_constant": lambda m: m.binary("SUB", m.values((7, 1)), m.input((1, 9, 7, 32))),
    "sub_constant": lambda m: m.binary("SUB", m.input((1, 9, 7, 32)), m.values((1, 9, 7, 32))),
    "sub_from_a_row": lambda m: m.binary("SUB", m.input((1, 1, 7, 21)), m.input((1, 9, 7, 21), coarser(m))),
    "mul": lambda m: m.binary("MUL", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21)), Activation.RELU),
    "mul_by_itself": lambda m: m.binary("MUL", *(m.input((1, 9, 7, 21)),) * 2),
    "mul_squeeze_excite": lambda m: m.binary("MUL", m.input((1, 1, 1, 48)), m.input((1, 9, 7, 48))),
    "mul_constant_of_channels": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((48,))),
    "mul_constant_of_columns": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((7, 1))),
    "mul_constant": lambda m: m.binary("MUL", m.values((1, 9, 7, 32)), m.input((1, 9, 7, 32)), Activation.RELU6),
    "mul_number": lambda m: m.binary("MUL", m.input((1, 9, 7, 48)), m.values((1,))),
    "mul_of_five_dimensions": lambda m: m.binary("MUL", m.input((2, 3, 4, 5, 6)), m.input((4, 5, 1))),
    "mul_of_batches": lambda m: m.binary("MUL", m.input((3, 4, 5, 6)), m.input((3, 1, 1, 6))),
    "mul_constant_here_and_there": lambda m: m.binary("MUL", m.input((2, 3, 4, 5, 6)), m.values((2, 1, 4, 1, 6))),
    "maximum": lambda m: m.binary("MAXIMUM", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 1))),
    "maximum_with_a_number": lambda m: m.binary("MAXIMUM", m.values((1,)), m.input((40,))),
    "minimum": lambda m: m.binary("MINIMUM", m.input((1, 1, 1, 1)), m.input((1, 9, 7, 21))),
    "minimum_with_a_constant": lambda m: m.binary("MINIMUM", m.input((1, 9, 7, 21)), m.values((1, 9, 1, 21))),
    "squared_difference": lambda m: m.binary("SQUARED_DIFFERENCE", m.input((1, 9, 7, 21)), m.input((1, 1, 7, 21))),
    "squared_difference_to_a_constant": lambda m: m.binary(
        "SQUARED_DIFFERENCE", m.values((7, 21)), m.input((1, 9, 7, 21))
    ),
    "squared_difference_to_a_number": lambda m: m.binary("SQUARED_DIFFERENCE", m.input((40,)), m.values(())),
    "squared_difference_to_itself": lambda m: m.binary("SQUARED_DIFFERENCE", *(m.input((1, 9, 7, 21)),) * 2),
    "prelu": lambda m: prelu(m, Quantisation((0.1,), (100,))),
    "prelu_of_flat_slopes": lambda m: prelu(m, Quantisation((0.002,), (60,))),
    "prelu_of_steep_slopes": lambda m: prelu(m, Quantisation((1.5,), (slope_type(m).limits[0] - 1,)), (21,)),
    "prelu_repeated": lambda m: repeated_prelu(m, (1, 9, 1, 21), (1, 1, 7, 21)),
    "prelu_repeated_along_channels": lambda m: repeated_prelu(m, (4, 1), (1, 7)),
    "prelu_repeated_to_constant_slopes": lambda m: repeated_prelu(m, (1, 1, 1, 7), (1, 4, 5, 7), constant=True),
    "prelu_of_a_feature_map": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.input((1, 9, 7, 21), dtype=slope_type(m))
    ),
    "prelu_of_a_repeated_feature_map": lambda m: m.binary(
        "PRELU", m.input((1, 9, 7, 21)), m.input((7, 1), dtype=slope_type(m))
    ),
    "prelu_of_one_slope": lambda m: prelu(m, Quantisation((0.004,), (20,)), ()),
    "prelu_in_place": lambda m: prelu(m, Quantisation((0.002,), (60,)), q=Quantisation((0.1,), (5,))),
    "div": lambda m: divided(m, (1, 9, 7, 21), 100, Activation.RELU),
    "div_by_a_negative_number": lambda m: divided(m, (5, 60), -3),
    "elu": lambda m: signed(m, "ELU"),
    "exp": lambda m: signed(m, "EXP", Quantisation((0.03125,), (-7,)), Quantisation((0.0001,), (0,))),
    "gelu": lambda m: m.op("GELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21)), GeluAttrs()),
    "gelu_approximate": lambda m: m.op("GELU", [m.input((30, 9))], m.tensor((30, 9)), GeluAttrs(True)),
    "hard_swish": lambda m: m.op("HARD_SWISH", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "leaky_relu": lambda m: m.op("LEAKY_RELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21)), LeakyReluAttrs(0.1)),
    "leaky_relu_steep": lambda m: m.op("LEAKY_RELU", [m.input((300,))], m.tensor((300,)), LeakyReluAttrs(-1.5)),
    "log": lambda m: signed(m, "LOG", Quantisation((0.02,), (-128,))),
    "logistic": lambda m: m.op(
        "LOGISTIC",
        [m.input((1, 2, 3, 9, 7, 21))],
        m.tensor((1, 2, 3, 9, 7, 21), within_one(m, Quantisation((1 / 256,), (0,)))),
    ),
    "neg": lambda m: signed(m, "NEG"),
    "relu_of_another_scale": lambda m: m.op("RELU", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu6_of_another_scale": lambda m: m.op("RELU6", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu_0_to_1": lambda m: m.op("RELU_0_TO_1", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    "relu_n1_to_1": lambda m: m.op("RELU_N1_TO_1", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21))),
    # Of int16 half of all values are negative, where RSQRT is not defined.
    "rsqrt": lambda m: m.op(
        "RSQRT",
        [m.input((1, 9, 7, 21), Quantisation((0.02,), (-128,)), DType.INT8)],
        m.tensor((1, 9, 7, 21), dtype=DType.INT8),
    ),
    "sqrt": lambda m: m.op(
        "SQRT",
        [m.input((1, 9, 7, 21), Quantisation((0.02,), (-128,)), DType.INT8)],
        m.tensor((1, 9, 7, 21), dtype=DType.INT8),
    ),
    "tanh": lambda m: m.op("TANH", [m.input((1, 9, 7, 21))], m.tensor((1, 9, 7, 21), within_one(m))),
}
