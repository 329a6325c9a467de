"""Reasons for the CPU: grouped by kind, with counts and shares; what folds elsewhere says what is in the way."""

from __future__ import annotations

import ethoscade
import numpy as np
import pytest
from ethoscade.analysis.macs import macs_of
from ethoscade.frontend import read_tflite
from ethoscade.ir import DType
from ethoscade.report import summary
from ethoscade.rewrites import why_kept
from ethoscade.testing import ModelBuilder
from graphs import GraphMaker
from zoo_models import zoo


def wide() -> bytes:
    """Three convolutions that the NPU does not take, two for one reason, and one that it takes."""
    b = ModelBuilder()
    x = b.input((1, 8, 8, 4))
    for _ in range(2):
        x = b.conv2d(x, 4, 3, dilation=33)
    b.output(b.conv2d(b.conv2d(x, 4, 3, dilation=35), 4, 1))
    return b.build()


def test_reasons_are_grouped_by_kind_with_counts_and_shares() -> None:
    compiled = ethoscade.compile(wide())
    window, point = 8 * 8 * 4 * 9 * 4, 8 * 8 * 4 * 4
    (kind,) = compiled.kinds_on_cpu
    assert (kind.kind, kind.operators, kind.macs) == ("CONV_2D", 3, 3 * window)
    assert kind.share == 3 * window / (3 * window + point)
    often, once = kind.reasons
    assert "67x67" in often and "71x71" in once and "at most 64" in often
    assert [len(names) for names in kind.reasons.values()] == [2, 1]
    told = summary.compile_json(compiled, {})
    assert told["macs"] == {"npu": point, "cpu": 3 * window}
    assert told["cpu_kinds"][0]["reasons"][0]["operators"] == list(kind.reasons[often])
    text = summary.compile_text(compiled)
    assert f"CONV_2D: 3 operators, {100 * kind.share:.1f} % of the MACs" in text
    assert f"and 1 more: {often}" in text


def test_the_text_has_the_first_reasons_and_says_how_many_more() -> None:
    b = ModelBuilder()
    x = b.input((1, 40, 40, 2))
    for dilation in range(33, 49, 2):
        x = b.conv2d(x, 2, 3, dilation=dilation)
    compiled = ethoscade.compile(b.build())
    assert len(compiled.kinds_on_cpu[0].reasons) == 8
    assert "and 2 reasons more, which --json lists" in summary.compile_text(compiled)


def terms(kind: str, made: tuple[int, ...], values: tuple[int, ...], weights: tuple[int, ...]) -> int:
    """Products, one after the other: of each output element, or of each input pixel that is spread over outputs."""
    of_each = {
        "CONV_2D": [weights[1:]] * int(np.prod(made)),
        "DEPTHWISE_CONV_2D": [weights[1:3]] * int(np.prod(made)),
        "FULLY_CONNECTED": [weights[1:]] * int(np.prod(made)),
        "TRANSPOSE_CONV": [weights] * int(np.prod(values[:-1])),
    }
    return sum(int(np.prod(one)) for one in of_each[kind])


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_macs_are_the_products_that_a_loop_makes(kind: str) -> None:
    graph = read_tflite(zoo(kind, DType.INT8).build())
    alike = [op for op in graph.operators if op.kind == kind]
    assert alike
    for op in alike:
        values = graph.read(op, 2 if kind == "TRANSPOSE_CONV" else 0)
        assert macs_of(graph, op) == terms(kind, graph.made(op).shape, values.shape, graph.read(op, 1).shape)


def test_products_of_matrices_and_steps_in_time_are_counted() -> None:
    maker = GraphMaker()
    x, y = maker.input((2, 3, 5)), maker.input((2, 5, 7))
    maker.op("BATCH_MATMUL", [x, y], maker.tensor((2, 3, 7)))
    gates = [maker.constant(np.zeros((4, 5), np.int8), None, DType.INT8) for _ in range(4)]
    maker.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *gates], maker.tensor((2, 3, 4)))
    maker.op("ADD", [x, x], maker.tensor((2, 3, 5)))
    graph = maker.graph()
    assert [macs_of(graph, op) for op in graph.operators] == [2 * 3 * 7 * 5, 2 * 3 * 4 * 4 * 5, 0]


def test_what_has_no_family_says_what_is_in_the_way_first() -> None:
    b = ModelBuilder()
    b.output(b.dequantize(b.max_pool(b.input((1, 4, 4, 2)), 2)))
    (operator,) = ethoscade.compile(b.build()).cpu_operators
    assert operator.reason == f"output '{operator.name}' is float32; the NPU computes with integers"


def test_what_becomes_a_constant_elsewhere_says_why_not_here() -> None:
    maker = GraphMaker()
    x = maker.input((1, 4))
    short, long = (maker.constant(np.zeros((n,), np.int32), None, DType.INT32) for n in (2, 200))
    shape = maker.op("SHAPE", [x], maker.tensor((2,), dtype=DType.INT32))
    moving = maker.op("PACK", [x, x], maker.tensor((2, 1, 4)))
    wide = maker.op("PACK", [long, long], maker.tensor((2, 200), dtype=DType.INT32))
    narrow = maker.op("PACK", [short, short], maker.tensor((2, 2), dtype=DType.INT16))
    found = why_kept(maker.graph([shape, moving, wide, narrow]))
    assert found[0] == "output 't3' leaves the network, which returns no constants"
    assert found[1] == "input 't0' is made while the network runs; PACK becomes a constant where all of its inputs are"
    assert found[2] == f"output 't{wide}' has 400 elements; PACK becomes a constant where it has at most 256"
    assert found[3] == f"output 't{narrow}' is int16; PACK becomes a constant where it is int32 or int64"
