"""BATCH_MATMUL in networks: attention cut by rows, at several budgets; reasons against what the NPU does not take."""

from __future__ import annotations

import numpy as np
import pytest
from end_to_end import network_of
from ethoscade.ir import DType, Quantisation
from ethoscade.judge import reference
from ethoscade.judge.verification import compare, random_inputs
from ethoscade.lowering import support
from ethoscade.lowering.npu import OperationKind
from ethoscade.pipeline.compiler import carry_out, search
from ethoscade.run.execution import run_artifact
from ethoscade.targets.target import ACCELERATORS
from ethoscade.testing import ModelBuilder
from graphs import GraphMaker
from promised_cycles import broken_promises


def attention(rows: int, heads: int, depth: int) -> bytes:
    """Queries, keys and values of one input, heads apart, and their SOFTMAX between two products."""
    b = ModelBuilder(seed=3)
    x = b.input((1, rows, heads * depth))
    parts = [b.fully_connected(x, heads * depth, keep_num_dims=True) for _ in range(3)]
    query, key, value = (b.transpose(b.reshape(part, (1, rows, heads, depth)), (0, 2, 1, 3)) for part in parts)
    weights = b.softmax(b.batch_matmul(query, key, adj_y=True))
    mixed = b.transpose(b.batch_matmul(weights, value), (0, 2, 1, 3))
    b.fully_connected(b.reshape(mixed, (1, rows, heads * depth)), 8, keep_num_dims=True)
    return b.build()


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_points_of_attention(accelerator: str) -> None:
    rows, heads, depth = 16, 2, 16
    made = network_of(attention(rows, heads, depth), accelerator)
    assert made.partition.cpu_operators == ()
    curve = search(made)
    whole = 4 * heads * rows * rows * depth
    assert curve.points[0][0] < whole / 8, "a few rows of products are enough"
    for place in sorted({0, len(curve.points) // 2, len(curve.points) - 1}):
        assert not list(broken_promises(made, curve, place))
        artifact = carry_out(made, curve, curve.proposals[place]).artifact
        for seed in range(2):
            inputs = random_inputs(made.source, seed)
            result = run_artifact(artifact, inputs)
            assert compare(result.outputs, reference.run(made.source, inputs).outputs)[1] == 0
            assert result.hazards == 0 and result.warnings == ()


FORMS = (((2, 7, 9), (9, 5)), ((7, 9), (2, 1, 9, 5)), ((3, 1, 9), (3, 9, 5)), ((1, 2, 7, 9), (3, 1, 9, 5)))


@pytest.mark.parametrize("constant", [0, 1, None])
@pytest.mark.parametrize("adjoint", [(False, False), (True, True)])
def test_all_forms_at_every_budget(constant: int | None, adjoint: tuple[bool, bool]) -> None:
    """A constant on either side, or none; matrices repeated for those of the other side."""
    b = ModelBuilder(seed=5)
    for shapes in FORMS:
        turned = [(*s[:-2], *s[:-3:-1]) if other else s for s, other in zip(shapes, adjoint, strict=True)]
        operands = [
            b.constant(np.random.default_rng(1).normal(size=shape)) if place == constant else b.input(shape)
            for place, shape in enumerate(turned)
        ]
        b.output(b.batch_matmul(*operands, adj_x=adjoint[0], adj_y=adjoint[1]))
    made = network_of(b.build())
    assert made.partition.cpu_operators == ()
    curve = search(made)
    for place in {0, len(curve.points) - 1}:
        assert not list(broken_promises(made, curve, place))
        inputs = random_inputs(made.source, place)
        result = run_artifact(carry_out(made, curve, curve.proposals[place]).artifact, inputs)
        assert compare(result.outputs, reference.run(made.source, inputs).outputs)[1] == 0
        assert result.hazards == 0 and result.warnings == ()


@pytest.mark.parametrize(("rows", "columns"), [(3, 9), (9, 3)])
def test_the_fewer_rows_are_repeated(rows: int, columns: int) -> None:
    """A product for each row of the left matrix, or for each column of the right one."""
    b = ModelBuilder()
    b.batch_matmul(b.input((1, rows, 16)), b.input((1, 16, columns)))
    kinds = [operation.kind for operation in network_of(b.build()).npu.operations]
    assert kinds.count(OperationKind.MUL) == 3


@pytest.mark.parametrize("zero_points", [(-128, 127), (127, -128), (-128, -128)])
def test_sums_at_the_ends_of_the_type(zero_points: tuple[int, int]) -> None:
    """The largest distances from zero points, of either sign, a thousand of them."""
    b = ModelBuilder()
    operands = [
        b.input(shape, quantisation=Quantisation((1.0,), (zero_point,)), name=name)
        for shape, zero_point, name in (((3, 1000), zero_points[0], "a"), ((1000, 2), zero_points[1], "b"))
    ]
    b.batch_matmul(*operands, output=Quantisation((float(np.float32(2**19)),), (0,)))
    made = network_of(b.build())
    assert made.partition.cpu_operators == ()
    curve = search(made)
    artifact = carry_out(made, curve, curve.proposals[0]).artifact
    for low, high in ((-128, 127), (-128, -127), (126, 127)):
        rng = np.random.default_rng(high + 128)
        inputs = {
            name: rng.choice([low, high], shape).astype(np.int8) for name, shape in (("a", (3, 1000)), ("b", (1000, 2)))
        }
        result = run_artifact(artifact, inputs)
        assert compare(result.outputs, reference.run(made.source, inputs).outputs)[1] == 0 and result.warnings == ()


def reason(maker: GraphMaker) -> str:
    graph = maker.graph()
    return support(graph, graph.operators[-1], ACCELERATORS["ethos-u55-128"]) or ""


def test_what_stays_on_the_cpu_says_why() -> None:
    for dtype in (DType.INT16, DType.UINT8):
        maker = GraphMaker(dtype)
        maker.matmul(maker.input((4, 8)), maker.input((8, 4)))
        assert f"is {dtype.value}; int8 are possible" in reason(maker)
    maker = GraphMaker()
    maker.matmul(maker.values((4, 8)), maker.values((8, 4)))
    assert "are both constants" in reason(maker)
    maker = GraphMaker()
    maker.matmul(maker.input((3, 180, 8)), maker.input((3, 8, 190)))
    assert "3 products of 180x8 and 8x190 take 540 operations that make one tensor; at most 512" in reason(maker)
    maker = GraphMaker()
    maker.matmul(maker.input((2, 40_000)), maker.input((40_000, 1)))
    assert "sums of up to 2601000000 leave 32 bits" in reason(maker)
