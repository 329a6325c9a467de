"""Differences are refused where ties would show: kernels negate the factor of the subtrahend, the NPU the result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ethoscade import lowering
from ethoscade.ir import DType, Quantisation
from ethoscade.lowering import FAMILIES, support
from ethoscade.target import ACCELERATORS
from graphs import GraphMaker
from npu import check_whole

U55 = ACCELERATORS["ethos-u55-256"]
# Minuend, subtrahend, output: the subtrahend's factor has a significand that ends in seven zeros.
TIES = Quantisation((0.0625,), (113,)), Quantisation((0.017753856256604195,), (108,)), Quantisation((2.0**-20,), (84,))


def difference(first: Quantisation, second: Quantisation, output: Quantisation) -> GraphMaker:
    maker = GraphMaker(seed=1)
    shape = (1, 256, 256, 16)
    maker.binary("SUB", maker.input(shape, first), maker.input(shape, second), q=output)
    return maker


def test_a_difference_whose_ties_show_stays_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = difference(*TIES).graph()
    why = support(graph, graph.operators[0], U55)
    assert why is not None and "halves of its second input are not rounded as in kernels" in why
    *others, _ = FAMILIES["SUB"].takes
    monkeypatch.setattr(lowering, "FAMILIES", {**FAMILIES, "SUB": replace(FAMILIES["SUB"], takes=tuple(others))})
    with pytest.raises(AssertionError, match="Mismatched elements"):
        check_whole(graph, U55)


def test_ties_of_the_minuend_are_rounded_alike() -> None:
    first, second, output = TIES
    graph = difference(second, first, output).graph()
    assert support(graph, graph.operators[0], U55) is None
    check_whole(graph, U55)


def test_ties_that_do_not_show_are_let_through() -> None:
    """In units as coarse as the minuend's a tie is next to nothing."""
    graph = difference(*TIES[:2], Quantisation((0.0625,), (0,))).graph()
    assert support(graph, graph.operators[0], U55) is None
    check_whole(graph, U55)


# The factor of the second ends in an odd digit: of int16, -32768 alone makes a half.
WIDE = tuple(Quantisation((float(np.float32(scale)),), (0,)) for scale in (2.62045e-4, 1.09109e-4, 2e-4))


@pytest.mark.parametrize("lowest", [-32768, -32767])
def test_constants_of_int16_are_refused_for_the_halves_that_they_have(lowest: int) -> None:
    maker = GraphMaker(DType.INT16, seed=2)
    shape = (1, 64, 64, 16)
    values = np.arange(lowest, lowest + 64 * 64 * 16, dtype=np.int64).clip(-32768, 32767).astype(np.int16)
    subtrahend = maker.constant(values.reshape(shape), WIDE[1], DType.INT16)
    maker.binary("SUB", maker.input(shape, WIDE[0]), subtrahend, q=WIDE[2])
    graph = maker.graph()
    why = support(graph, graph.operators[0], U55)
    if lowest == -32768:
        assert why is not None and "halves of its second input are not rounded as in kernels" in why
    else:
        assert why is None
        check_whole(graph, U55)


@pytest.mark.parametrize(("number", "possible"), [(32767, True), (-32768, False)])
def test_a_product_of_int16_may_be_as_large_as_its_constant_lets_it(number: int, possible: bool) -> None:
    """A factor of more than 1 shifts 2^30, the square of the lowest value, beyond 32 bits."""
    maker = GraphMaker(DType.INT16, seed=3)
    shape, q = (1, 60, 60, 20), Quantisation((1.0,), (0,))
    constant = maker.constant(np.full((1,), number, np.int16), q, DType.INT16)
    maker.binary("MUL", maker.input(shape, q), constant, q=Quantisation((0.75,), (0,)))
    graph = maker.graph()
    why = support(graph, graph.operators[0], U55)
    assert (why is None) == possible and (why is None or "leave 32 bits" in why)
    check_whole(graph, U55)
