"""Division of a graph into NPU regions and CPU operators."""

from __future__ import annotations

from collections.abc import Callable

import ethoscade
import tflite
from calls import count_calls
from ethoscade.frontend import read_tflite
from ethoscade.ir import Graph
from ethoscade.pipeline.partition import Partition, partition
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from ethoscade.testing.recorder import Value
from graphs import GraphMaker
from hypothesis import given
from hypothesis import strategies as st
from tflite_files import File, Op, T

ACCELERATOR = ACCELERATORS["ethos-u55-256"]
SHAPE = (1, 2, 2, 8)


def cpu(maker: GraphMaker, x: int) -> int:
    return maker.op("MYSTERY", [x], maker.tensor(SHAPE))


def check(graph: Graph, found: Partition) -> None:
    """The order is a valid permutation, and regions are its NPU runs with right edges."""
    assert sorted(found.order) == list(range(len(graph.operators)))
    known = set(graph.inputs) | {i for i, t in enumerate(graph.tensors) if t.is_constant}
    for i in found.order:
        op = graph.operators[i]
        assert known.issuperset(t for t in op.inputs if t is not None)
        known.update(op.outputs)
    assert tuple(i for r in found.regions for i in r.operators) == found.npu_operators
    for region in found.regions:
        made = {t for i in region.operators for t in graph.operators[i].outputs}
        read = {t for i in region.operators for t in graph.operators[i].inputs if t is not None}
        assert set(region.inputs) == {t for t in read - made if not graph.tensors[t].is_constant}
        outside = {t for i, op in enumerate(graph.operators) if i not in region.operators for t in op.inputs} | set(
            graph.outputs
        )
        assert set(region.outputs) == made & outside
    assert all((p.where == "cpu") == bool(p.reason) for p in found.assignments)


def test_a_chain_with_a_cpu_operator_has_two_regions() -> None:
    maker = GraphMaker()
    x = maker.input(SHAPE)
    maker.quantize(cpu(maker, maker.quantize(x)))
    graph = maker.graph()
    found = partition(graph, ACCELERATOR)
    check(graph, found)
    assert found.order == (0, 1, 2)
    assert [r.operators for r in found.regions] == [(0,), (2,)]
    assert "MYSTERY" in found.assignments[1].reason


def test_independent_operators_move_together() -> None:
    """Two branches in turn: the file's order starts the NPU twice, once is enough."""
    maker = GraphMaker()
    x = maker.input(SHAPE)
    a = maker.quantize(x)
    b = cpu(maker, a)
    c = maker.quantize(x)
    graph = maker.graph([b, c])
    found = partition(graph, ACCELERATOR)
    check(graph, found)
    assert found.order == (0, 2, 1)
    assert len(found.regions) == 1


def test_starting_on_the_cpu_can_save_a_region() -> None:
    maker = GraphMaker()
    x = maker.input(SHAPE)
    a = maker.quantize(x)
    b = cpu(maker, x)
    maker.add(a, b)
    graph = maker.graph()
    found = partition(graph, ACCELERATOR)
    check(graph, found)
    assert len(found.regions) == 1


def test_the_files_order_stays_where_it_is_as_good() -> None:
    maker = GraphMaker()
    x, y = maker.input(SHAPE), maker.input(SHAPE)
    a = maker.quantize(x)
    b = cpu(maker, y)
    c = cpu(maker, a)
    graph = maker.graph([b, c])
    assert partition(graph, ACCELERATOR).order == (0, 1, 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=8))
def test_no_order_has_fewer_regions(plan: list[tuple[bool, int, int]]) -> None:
    maker = GraphMaker()
    values = [maker.input(SHAPE)]
    for on_npu, i, j in plan:
        a, b = values[i % len(values)], values[j % len(values)]
        if on_npu:
            values.append(maker.add(a, b))
        else:
            values.append(maker.op("MYSTERY", [a, b], maker.tensor(SHAPE)))
    graph = maker.graph([values[-1]])
    found = partition(graph, ACCELERATOR)
    check(graph, found)
    assert len(found.regions) == fewest_regions(graph, [p.where == "npu" for p in found.assignments])


def fewest_regions(graph: Graph, on_npu: list[bool]) -> int:
    """By dynamic programming over (operators done, side of the last one)."""
    producer = graph.producer()
    needs = [sum({1 << producer[t] for t in op.inputs if t in producer}) for op in graph.operators]
    best = {(0, False): 0}
    for _ in needs:
        following: dict[tuple[int, bool], int] = {}
        for (done, side), count in best.items():
            for i, need in enumerate(needs):
                if done >> i & 1 or need & ~done:
                    continue
                key = (done | 1 << i, on_npu[i])
                cost = count + (on_npu[i] and not side)
                following[key] = min(cost, following.get(key, 99))
        best = following
    return min(best.values())


def reasons(build: Callable[[ModelBuilder, Value], None]) -> dict[str, str]:
    """Why operators of a small network stay on the CPU, by kind."""
    b = ModelBuilder()
    build(b, b.input((1, 8, 8, 4)))
    return {op.kind: op.reason for op in ethoscade.compile(b.build()).cpu_operators}


def test_the_reason_of_a_reshape_is_who_makes_and_reads_its_bytes() -> None:
    found = reasons(lambda b, x: b.output(b.reshape(x, (1, 16, 4, 4)), b.resize_nearest(b.input((1, 4, 4, 2)), (6, 5))))
    assert "'input0' is given from outside" in found["RESHAPE"] and "no NPU implementation" not in found["RESHAPE"]


def test_an_activation_that_cannot_fuse_runs_alone_or_says_why_not() -> None:
    def cpu_reasons(dtype: int) -> list[str]:
        file = File(
            (T("x", (1, 4, 4, 8), dtype), T("y", (1, 4, 4, 8), dtype)), (Op("RELU", (0,), (1,)),), (0,), (1,)
        )  # fmt: skip
        return [operator.reason for operator in ethoscade.compile(file.bytes()).cpu_operators]

    assert cpu_reasons(tflite.TensorType.INT8) == []
    (reason,) = cpu_reasons(tflite.TensorType.INT32)
    assert "'x' is int32" in reason


def test_reasons_take_no_longer_the_more_there_are() -> None:
    """Each reason looks at its neighbours alone."""

    def calls(count: int) -> int:
        tensors = [T(f"t{i}", (1, 4, 4, 8)) for i in range(count + 1)]
        operators = [Op("RELU", (0,), (i + 1,)) for i in range(count)]
        graph = read_tflite(File(tensors, operators, (0,), range(1, count + 1)).bytes())
        return count_calls(lambda: partition(graph, ACCELERATOR))

    assert calls(800) < 9 * calls(100)
