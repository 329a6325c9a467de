"""Work that grows with the network and not with its square, by counted calls; what is remembered for that is right."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import pytest
from ethoscade import lowering
from ethoscade.codegen import command_stream, vela
from ethoscade.codegen.weights import EncodingChoice, encode
from ethoscade.frontend import read_tflite
from ethoscade.ir import Activation, AddAttrs, DType, Graph, Operator, Tensor, Window
from ethoscade.lowering import functions, lower
from ethoscade.pipeline import compiler
from ethoscade.pipeline.partition import partition
from ethoscade.scheduling.program import CopyConstants, Slab, Step, Stripe
from ethoscade.targets.target import ACCELERATORS, Accelerator, load_target
from ethoscade.testing import ModelBuilder, random_network
from graphs import GraphMaker

U55 = ACCELERATORS["ethos-u55-256"]


def calls(work: Callable[[], object]) -> int:
    """How many functions some work calls."""
    found = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def assert_linear(of: Callable[[int], int], size: int, tolerance: float) -> None:
    few, some, many = (of(size << doubled) for doubled in range(3))
    assert some > few > size
    assert many - some == pytest.approx(2 * (some - few), rel=tolerance)


def stream_of(stripes: int) -> int:
    """A stream of so many stripes, one in four with its constants copied before it."""
    maker = GraphMaker()
    maker.conv(maker.input((1, 4, 4, 8)), 8, Window(1, 1))
    graph = maker.graph()
    operations = lower(graph, partition(graph, U55)).operations
    constants = encode(operations, U55, [EncodingChoice(8)])
    steps: list[Step] = []
    for number in range(stripes):
        staged = 100 if number % 4 == 0 else None
        steps += [CopyConstants(0, 100)] if staged is not None else []
        source, target = Slab(number % 7, 0, 4, 0, 4, 4, 4), Slab(number % 5 + 7, 0, 4, 0, 4, 4, 4)
        steps.append(Stripe(0, (source,), target, (0, 0, 0, 0), (4, 4, 8), weights=staged))
    offsets = {number: 128 * number for number in range(101)}
    return calls(lambda: command_stream.generate(operations, steps, offsets, constants, U55))


def cells(count: int) -> bytes:
    """So many cells: a convolution, x times its LOGISTIC, halves split off and joined again, a sum with the input."""
    net = ModelBuilder("cells", seed=1)
    x = net.input((1, 8, 8, 16))
    for _ in range(count):
        y = net.conv2d(x, 16)
        y = net.binary("MUL", y, net.unary("LOGISTIC", y))
        left, right = net.split(y, 2, axis=3)
        x = net.add(net.concatenate([net.conv2d(left, 8, output=right.quantisation), right], axis=3), x)
    net.output(x)
    return net.build()


def preparation_of(count: int) -> int:
    model, target = cells(count), load_target("ethos-u55-256")
    # What smaller networks of the same cells have left behind.
    vela.registers.cache_clear()
    functions._results.cache_clear()
    return calls(lambda: compiler.prepare(read_tflite(model), target))


def test_a_stream_of_twice_the_stripes_takes_twice_the_work() -> None:
    stream_of(1)  # what is worked out once for a process
    assert_linear(stream_of, 40, 0.01)


def test_a_network_of_twice_the_cells_takes_twice_the_work() -> None:
    preparation_of(1)  # what is worked out once for a process
    assert_linear(preparation_of, 6, 0.08)


def test_what_the_npu_takes_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    answer = lowering.support

    def asking(graph: Graph, op: Operator, npu: Accelerator) -> str | None:
        own = (*op.inputs, *op.outputs, *op.intermediates)
        asked.append((op, *(None if t is None else graph.tensors[t] for t in own)))
        return answer(graph, op, npu)

    monkeypatch.setattr(lowering, "support", asking)
    compiler.prepare(read_tflite(cells(3)), load_target("ethos-u55-256"))
    assert len(asked) > 3 * 6 and len(set(asked)) == len(asked)


def test_what_is_remembered_is_asked_again_where_it_depends_on_who_makes_the_operands() -> None:
    """A sum of int32: of two indices it fits, of two that anybody may have made it need not."""
    net = GraphMaker()
    first, second = (net.arg_max(net.input((1, 4, 4, 8))) for _ in range(2))
    net.tensors.append(Tensor("sum", net.tensors[first].shape, DType.INT32, None))
    net.op("ADD", [first, second], len(net.tensors) - 1, AddAttrs(Activation.NONE))
    graph = net.graph()
    *makers, op = graph.operators
    unknown = dataclasses.replace(graph, operators=(*(dataclasses.replace(m, opaque="") for m in makers), op))
    support = lowering.Support(U55)
    assert support(graph, op) is None is lowering.support(graph, op, U55)
    assert support(unknown, op) == lowering.support(unknown, op, U55) is not None
    assert support(graph, op) is None


@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_is_what_would_be_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered, asked = lowering.Support.__call__, 0

    def both(support: lowering.Support, graph: Graph, op: Operator) -> str | None:
        nonlocal asked
        asked += 1
        found = remembered(support, graph, op)
        assert found == lowering.support(graph, op, U55), op
        return found

    monkeypatch.setattr(lowering.Support, "__call__", both)
    compiler.prepare(read_tflite(random_network(seed)), load_target(U55.name))
    assert asked
