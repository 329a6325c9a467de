"""One-operator networks: lowered, emitted, run on the simulated NPU, bit-exact with the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cases import CASES
from ethoscade.ir import (
    QUANTISED,
    Activation,
    DType,
    Graph,
    Quantisation,
    Window,
)
from ethoscade.ir.operators import RESHAPES
from ethoscade.lowering import FAMILIES, support
from ethoscade.lowering.constraints import FeatureMaps
from ethoscade.pipeline.compiler import prepare
from ethoscade.scheduling.schedule import arrange, uncascaded
from ethoscade.targets.target import ACCELERATORS, load_target
from graphs import GraphMaker, same
from npu import check_whole

# Accelerator, which of the valid blocks (1 the largest), constants staged in the arena.
SETTINGS = [("ethos-u55-256", 1.0, False), ("ethos-u55-32", 0.5, True), ("ethos-u65-256", 0.0, True)]


def graph_of(case: str, dtype: DType) -> Graph:
    maker = GraphMaker(dtype)
    CASES[case](maker)
    return maker.graph()


def taken(case: str) -> list[DType]:
    """The types that the families of a case's kinds name among their limits; all others are refused, by a test below.

    What is of uint8 is there always: where it has no kernel a case is of int8 in its place.
    """
    limits = [limit for op in graph_of(case, DType.INT8).operators for limit in FAMILIES[op.kind].takes]
    types = [limit.types for limit in limits if isinstance(limit, FeatureMaps)]
    return [dtype for dtype in QUANTISED if all(dtype in found for found in types)]


@pytest.mark.parametrize(("case", "dtype"), [(case, dtype) for case in CASES for dtype in taken(case)])
def test_operator(case: str, dtype: DType) -> None:
    for seed in range(3):
        maker = GraphMaker(dtype, seed)
        CASES[case](maker)
        accelerator, rank, staged = SETTINGS[seed]
        graph = maker.graph()
        assert {support(graph, op, ACCELERATORS[accelerator]) for op in graph.operators} == {None}
        check_whole(graph, ACCELERATORS[accelerator], rank=rank, staged=staged, seed=seed)


@pytest.mark.parametrize("case", CASES)
def test_results_may_be_written_in_another_shape(case: str) -> None:
    """As a RESHAPE that is folded into the operator before it has them: limits are those of what is computed."""
    maker = GraphMaker()
    CASES[case](maker)
    graph = maker.graph()
    for op in graph.operators:
        if len(op.outputs) > 1 or op.kind in RESHAPES:
            continue
        tensors = list(graph.tensors)
        made = tensors[op.outputs[0]]
        tensors[op.outputs[0]] = replace(made, shape=(int(np.prod(made.shape)), 1))
        flat = replace(graph, tensors=tuple(tensors))
        assert support(flat, op, ACCELERATORS["ethos-u55-256"]) is None


def refused() -> list[tuple[str, DType]]:
    """Cases that are of a type which their families do not name; others have another one in its place."""
    return [
        (case, dtype)
        for case in CASES
        for dtype in QUANTISED
        if dtype not in taken(case) and any(tensor.dtype is dtype for tensor in graph_of(case, dtype).tensors)
    ]


@pytest.mark.parametrize(("case", "dtype"), refused())
def test_types_that_no_family_names_are_refused(case: str, dtype: DType) -> None:
    graph = graph_of(case, dtype)
    reasons = [support(graph, op, ACCELERATORS[SETTINGS[0][0]]) for op in graph.operators]
    assert all(reason is not None and f"is {dtype.value};" in reason for reason in reasons)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_network_of_all_kinds(accelerator: str) -> None:
    maker = GraphMaker(seed=5)
    x = maker.conv(maker.input((1, 16, 16, 3)), 24, same(16, 16, (3, 3), 2), Activation.RELU6)
    y = maker.conv(maker.depthwise(x, same(8, 8, (3, 3))), 24, Window(1, 1))
    z = maker.add(x, maker.quantize(y))
    z = maker.pool("MAX_POOL_2D", z, Window(2, 2, 2, 2))
    z = maker.pool("AVERAGE_POOL_2D", z, same(4, 4, (3, 3)))
    maker.fully_connected(maker.mean(z), 10)
    for rank in (0.0, 0.5, 1.0):
        check_whole(maker.graph(), ACCELERATORS[accelerator], rank=rank, staged=rank == 0.5)


def test_average_rounds_ties_away_from_the_stored_zero() -> None:
    """Pairs of all int8 values: every tie, both signs, for a zero point that is not zero."""
    for zero_point in (-128, -1, 0, 77):
        maker = GraphMaker(seed=3)
        x = maker.input((1, 200, 200, 1), Quantisation((0.1,), (zero_point,)))
        maker.pool("AVERAGE_POOL_2D", x, Window(1, 2))
        check_whole(maker.graph(), ACCELERATORS["ethos-u55-128"])


@pytest.mark.parametrize("case", CASES)
def test_the_scheduler_takes_what_families_take(case: str) -> None:
    """It has rules of its own, such as for operations that make one tensor together."""
    network = prepare(graph_of(case, taken(case)[0]), load_target("ethos-u55-128"))
    assert arrange(network.problem, uncascaded(network.problem)).program.steps
