"""Differences are refused where ties would show: kernels negate the factor of the subtrahend, the NPU the result."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ethoscade import lowering
from ethoscade.ir import Quantisation
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
